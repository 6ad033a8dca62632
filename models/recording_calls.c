/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "models/recording_calls.h"

#include <xxhash.h>

const char *const recording_name[CALL_KINDS] = {
    [CALL_OPEN] = "open",         [CALL_SUBMIT] = "submit", [CALL_INTERRUPT] = "interrupt",
    [CALL_PROGRESS] = "progress", [CALL_WAIT] = "wait",     [CALL_RESERVE] = "reserve",
    [CALL_RELEASE] = "release",   [CALL_REPEAT] = "repeat", [CALL_DEPTH] = "depth",
    [CALL_REQUEST] = "request",   [CALL_FORGET] = "forget"};

static void add(struct recording_call *c, int64_t value)
{
  if (c->n < CALL_ASKED)
    c->asked[c->n++] = value;
}

void call_simple(struct recording_call *c, int kind, uint32_t n, int64_t a, int64_t b)
{
  *c = (struct recording_call){.kind = kind, .n = n, .asked = {a, b}};
}

void call_open(struct recording_call *c, const int *gpu, int n, int kind)
{
  *c = (struct recording_call){.kind = CALL_OPEN};
  add(c, kind);
  for (int i = 0; i < n; i++)
    add(c, gpu[i]);
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t size)
{
  return XXH3_64bits_withSeed(bytes, size, hash);
}

/* Which rows and chunks. The fields have no holes between them. */
static int64_t digest_batch(const struct lull_batch *b)
{
  _Static_assert(sizeof(struct lull_chunk) == 12, "no padding");
  uint64_t hash = mix(0, b->chunk, b->chunks * sizeof *b->chunk);
  if (b->row)
    hash = mix(hash, b->row, b->rows * sizeof *b->row);
  return (int64_t)(hash >> 1); /* readers of JSON know 63 bits */
}

/* Of the works that have them, so that the others are written as ever. */
static void add_appended(struct recording_call *c, const struct lull_work *w)
{
  if (!LULL_HAS(w, version))
    return;
  add(c, w->slot);
  add(c, w->level);
  add(c, (int64_t)w->version);
}

void call_submit(struct recording_call *c, const struct lull_work *w)
{
  const struct lull_batch *b = w->batch;
  *c = (struct recording_call){.kind = CALL_SUBMIT};
  add(c, w->kind);
  add(c, w->lane);
  add(c, (int64_t)w->repeat);
  add(c, w->ticks);
  add(c, w->bytes);
  add(c, (int64_t)w->tag);
  add(c, w->request);
  if (w->kind == LULL_WORK_ADAPTER_LOAD || w->kind == LULL_WORK_ADAPTER_DROP ||
      w->kind == LULL_WORK_WEIGHTS_LOAD || w->kind == LULL_WORK_WEIGHTS_DROP)
    add_appended(c, w);
  if (w->kind != LULL_WORK_FORWARD || !b)
    return;
  add(c, b->rows);
  add(c, b->row_tokens);
  add(c, b->ctx_q16);
  add(c, b->ctx_inc_q16);
  add(c, (int64_t)b->ctx_max);
  add(c, b->chunks);
  add(c, b->chunk_tokens);
  add(c, b->chunk_ends);
  add(c, b->chunk_work);
  add(c, digest_batch(b));
}

void call_request(struct recording_call *c, lull_id id, const struct lull_device_request *who)
{
  *c = (struct recording_call){.kind = CALL_REQUEST};
  add(c, id);
  add(c, who->lane);
  add(c, who->cls);
  add(c, (int64_t)who->key);
  add(c, who->prompt);
  add(c, who->output);
  if (LULL_HAS(who, adapter) && who->adapter >= 0)
    add(c, who->adapter);
}

void completion_to_values(const struct lull_completion *c, int64_t v[CALL_COMPLETION])
{
  const int64_t all[CALL_COMPLETION] = {(int64_t)c->tag,
                                        c->lane,
                                        c->kind,
                                        c->final,
                                        c->aborted,
                                        c->status,
                                        (int64_t)c->span.steps,
                                        c->span.first_end,
                                        c->span.second_dur,
                                        c->span.dur_inc,
                                        c->span.last_end,
                                        c->end,
                                        c->busy};
  for (int i = 0; i < CALL_COMPLETION; i++)
    v[i] = all[i];
}

void completion_from_values(struct lull_completion *c, const int64_t v[CALL_COMPLETION])
{
  *c = (struct lull_completion){.tag = (uint64_t)v[0],
                                .lane = (lull_lane_id)v[1],
                                .kind = (uint8_t)v[2],
                                .final = v[3] != 0,
                                .aborted = v[4] != 0,
                                .status = (int16_t)v[5],
                                .span = {.steps = (uint64_t)v[6],
                                         .first_end = v[7],
                                         .second_dur = v[8],
                                         .dur_inc = v[9],
                                         .last_end = v[10]},
                                .end = v[11],
                                .busy = v[12]};
}
