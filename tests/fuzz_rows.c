/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tests/fuzz_rows.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int wrong(struct fuzz_rows *f, const char *fmt, ...)
{
  va_list ap;
  if (f->wrong[0])
    return -1;
  va_start(ap, fmt);
  vsnprintf(f->wrong, sizeof f->wrong, fmt, ap);
  va_end(ap);
  return -1;
}

static struct fuzz_request *known(struct fuzz_rows *f, lull_id id)
{
  if (id >= 0 && id < f->n && f->r[id].known)
    return &f->r[id];
  wrong(f, "request %d was never told of", id);
  return NULL;
}

int fuzz_rows_request(struct fuzz_rows *f, lull_id id, const struct lull_device_request *who)
{
  if (id >= f->n) {
    lull_id n = 2 * id + 64;
    struct fuzz_request *r = realloc(f->r, (size_t)n * sizeof *r);
    if (!r)
      return wrong(f, "out of memory");
    memset(r + f->n, 0, (size_t)(n - f->n) * sizeof *r);
    f->r = r;
    f->n = n;
  }
  if (id < 0 || f->r[id].known)
    return wrong(f, "request %d is told of twice", id);
  if (!who->prompt || !who->output || (lull_id)(who->key >> 32) != who->cls)
    return wrong(f, "request %d has no tokens, or another class in its key", id);
  f->r[id] = (struct fuzz_request){
      .tokens = who->prompt, .end = who->prompt + who->output, .lane = who->lane, .known = 1};
  return f->wrong[0] ? -1 : 0;
}

void fuzz_rows_forget(struct fuzz_rows *f, lull_id id, int how)
{
  struct fuzz_request *r = known(f, id);
  if (!r)
    return;
  if (how == LULL_FORGET_KV) {
    if (r->away)
      wrong(f, "request %d is to be computed again, but its KV is on the host", id);
    r->kv = 0;
    return;
  }
  if (how == LULL_FORGET_FINISHED && !r->loose && r->tokens != r->end)
    wrong(f, "request %d has finished with %u tokens of %u", id, r->tokens, r->end);
  r->known = 0;
}

/* A request that work of `lane` holds: once, with its KV on the device. */
static struct fuzz_request *held(struct fuzz_rows *f, lull_id id, lull_lane_id lane)
{
  struct fuzz_request *r = known(f, id);
  if (!r)
    return NULL;
  if (r->lane != lane || r->away || r->mark == f->works) {
    wrong(f, "request %d is on another lane, on the host, or in a step twice", id);
    return NULL;
  }
  r->mark = f->works;
  return r;
}

static int check_rows(struct fuzz_rows *f, const struct lull_work *w)
{
  const struct lull_batch *b = w->batch;
  int64_t ctx = 0, most = 0;
  int loose = b->row_tokens > 1;
  for (uint32_t i = 0; i < b->rows; i++) {
    struct fuzz_request *r = held(f, b->row[i], w->lane);
    if (!r)
      return -1;
    r->loose = (uint8_t)loose;
    if (!loose && (r->kv + 1 != r->tokens || r->tokens + w->repeat > r->end))
      return wrong(f, "row %d has KV of %u tokens of %u, and %d more steps to %u", b->row[i], r->kv,
                   r->tokens, (int)w->repeat, r->end);
    ctx += r->kv;
    most = r->kv > most ? r->kv : most;
  }
  if (!loose && (b->ctx_q16 != ctx << 16 || b->ctx_inc_q16 != (int64_t)b->rows << 16))
    return wrong(f, "the rows hold %lld tokens, not %lld", (long long)ctx,
                 (long long)b->ctx_q16 >> 16);
  if (!loose && b->ctx_max && (int64_t)b->ctx_max != most)
    return wrong(f, "the longest row has %lld tokens", (long long)most);
  return 0;
}

/* The first chunk of a prompt may start behind what a cache holds. */
static int check_chunks(struct fuzz_rows *f, const struct lull_work *w)
{
  const struct lull_batch *b = w->batch;
  uint32_t tokens = 0, ends = 0;
  int64_t pairs = 0;
  for (uint32_t i = 0; i < b->chunks; i++) {
    const struct lull_chunk *c = &b->chunk[i];
    struct fuzz_request *r = held(f, c->request, w->lane);
    if (!r)
      return -1;
    if (!r->kv)
      r->kv = c->start;
    if (c->start != r->kv || !c->tokens ||
        (!r->loose && c->start + c->tokens * w->repeat > r->tokens))
      return wrong(f, "chunk %u+%u of request %d, which has KV of %u tokens of %u", c->start,
                   c->tokens, c->request, r->kv, r->tokens);
    ends += c->start + c->tokens == r->tokens;
    if (r->loose) /* what it generated is not known here */
      return 0;
    tokens += c->tokens;
    pairs += (int64_t)c->tokens * c->start + (int64_t)c->tokens * (c->tokens + 1) / 2;
  }
  if (tokens != b->chunk_tokens || ends != b->chunk_ends || pairs != b->chunk_work)
    return wrong(f, "chunks of %u tokens, %u ends and %lld pairs", tokens, ends, (long long)pairs);
  return 0;
}

static int check_copy(struct fuzz_rows *f, const struct lull_work *w)
{
  struct fuzz_request *r = known(f, w->request);
  int out = w->kind == LULL_WORK_COPY_OUT;
  if (!r)
    return -1;
  if (r->away == out || !r->kv)
    return wrong(f, "request %d is copied from where it is not", w->request);
  r->away = 1;
  return 0;
}

int fuzz_rows_submit(struct fuzz_rows *f, const struct lull_work *w)
{
  f->works++;
  f->lane[w->lane].work = *w;
  f->lane[w->lane].ran = 0;
  if (w->kind == LULL_WORK_FORWARD) {
    if (!w->batch->row || check_rows(f, w) || check_chunks(f, w))
      return wrong(f, "no rows");
  } else if (w->kind == LULL_WORK_COPY_OUT || w->kind == LULL_WORK_COPY_IN) {
    return check_copy(f, w);
  }
  return f->wrong[0] ? -1 : 0;
}

static void take_steps(struct fuzz_rows *f, const struct lull_batch *b, uint64_t ran,
                       uint64_t steps)
{
  for (uint32_t i = 0; i < b->rows; i++) {
    f->r[b->row[i]].kv += (uint32_t)steps;
    f->r[b->row[i]].tokens += (uint32_t)steps;
  }
  for (uint32_t i = 0; i < b->chunks && steps; i++) {
    const struct lull_chunk *c = &b->chunk[i];
    struct fuzz_request *r = &f->r[c->request];
    r->kv = c->start + (uint32_t)(ran + steps) * c->tokens;
    r->tokens += r->kv == r->tokens;
  }
}

void fuzz_rows_completed(struct fuzz_rows *f, const struct lull_completion *c)
{
  const struct lull_work *w = &f->lane[c->lane].work;
  if (w->kind == LULL_WORK_FORWARD) {
    take_steps(f, w->batch, f->lane[c->lane].ran, c->span.steps);
    f->lane[c->lane].ran += c->span.steps;
  } else if (w->kind == LULL_WORK_COPY_IN && c->final && f->r[w->request].known) {
    f->r[w->request].away = 0;
  }
}

void fuzz_rows_free(struct fuzz_rows *f)
{
  free(f->r);
  f->r = NULL;
}
