/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The bare loop: the least that any simulator of this kind must do, as the limit that `make bench`
 * measures lull against. First come, first served; continuous batching with chunked prompts under a
 * token budget; the cost formula and the requests of `lull bench`; nothing else: no KV blocks, no
 * policy, no device, no ledger, no records, no statistics.
 *
 *   bareloop WORKLOAD REQUESTS [REPEATS]     speed, noise, digest of the times at which all ended
 *   bareloop --step WORKLOAD REQUESTS        the same digest, one step at a time
 *
 * Lazy decode: a row is its finish step in a heap and its part in the sum of contexts. Between two
 * changes of the batch n steps cost n * first + inc * n (n - 1) / 2 ticks.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/speed_load.h"

enum { MAX_SERVERS = 4, MAX_REPEATS = 99 };

struct row {
  uint64_t finish;      /* step count at which its output is complete */
  uint32_t id, context; /* what it holds then */
};

struct prompt {
  uint32_t id, prompt, output, done, tokens; /* tokens: of it in each step of this plan */
};

struct bare_server {
  struct row *heap;     /* [rows] by finish */
  struct prompt *chunk; /* [chunks] in order of arrival */
  uint32_t rows, chunks, unfinished;
  struct prompt *queue;      /* ring of those that wait */
  uint64_t head, tail, room; /* room: a power of two */
  int64_t context;           /* of all rows, tokens */
  uint64_t step;
  int busy, blocked, replan; /* blocked: someone waits whom a plan could not take */
  /* busy: n steps from start on, the first of `first` ticks, each `inc` longer than the last */
  lull_time start, end;
  int64_t first, inc;
  uint64_t n;
};

struct bare {
  const struct speed_spec *spec;
  struct speed_load load;
  struct bare_server server[MAX_SERVERS];
  struct world_arrival next;
  int has_next, step_by_step;
  uint32_t ids;
  uint64_t ended, digest;
};

/* ---- rows ---- */

static void push_row(struct bare_server *s, struct row r)
{
  uint32_t i = s->rows++;
  for (; i && s->heap[(i - 1) / 2].finish > r.finish; i = (i - 1) / 2)
    s->heap[i] = s->heap[(i - 1) / 2];
  s->heap[i] = r;
}

static struct row pop_row(struct bare_server *s)
{
  struct row top = s->heap[0], r = s->heap[--s->rows];
  uint32_t i = 0, c;
  while ((c = 2 * i + 1) < s->rows) {
    c += c + 1 < s->rows && s->heap[c + 1].finish < s->heap[c].finish;
    if (s->heap[c].finish >= r.finish)
      break;
    s->heap[i] = s->heap[c];
    i = c;
  }
  s->heap[i] = r;
  return top;
}

static void end(struct bare *b, struct bare_server *s, uint32_t id, lull_time at)
{
  b->digest += speed_mix(id, at);
  b->ended++;
  s->unfinished--;
  s->replan = 1;
}

/* ---- requests ---- */

static int enqueue(struct bare_server *s, struct prompt p)
{
  if (s->tail - s->head == s->room) {
    uint64_t room = s->room ? 2 * s->room : 1024;
    struct prompt *more = malloc(room * sizeof *more);
    if (!more)
      return -1;
    for (uint64_t i = s->head; i < s->tail; i++)
      more[i & (room - 1)] = s->queue[i & (s->room - 1)];
    free(s->queue);
    s->queue = more;
    s->room = room;
  }
  s->queue[s->tail++ & (s->room - 1)] = p;
  s->unfinished++;
  return 0;
}

/* End of the first m steps under way. */
static lull_time boundary(const struct bare_server *s, uint64_t m)
{
  int64_t k = (int64_t)m;
  return s->start + LULL_TICK_PS * (k * s->first + s->inc * (k * (k - 1) / 2));
}

/* Stops at the first boundary at or after t. */
static void interrupt(struct bare_server *s, lull_time t)
{
  double half = (double)s->inc / 2, b = (double)s->first - half;
  double x = (double)(t - s->start) / LULL_TICK_PS;
  double guess = half > 0 ? (sqrt(b * b + 4 * half * x) - b) / (2 * half) : x / b;
  uint64_t m = guess < 1 ? 1 : guess > (double)s->n ? s->n : (uint64_t)guess;
  while (m > 1 && boundary(s, m - 1) >= t)
    m--;
  while (boundary(s, m) < t)
    m++;
  s->n = m;
  s->end = boundary(s, m);
}

/* To the server with the fewest unfinished requests. 1: a step ends at this very moment. */
static int arrive(struct bare *b, const struct world_arrival *a, lull_time now)
{
  struct bare_server *s = &b->server[0];
  for (uint32_t i = 1; i < b->spec->servers; i++)
    if (b->server[i].unfinished < s->unfinished)
      s = &b->server[i];
  if (enqueue(s, (struct prompt){.id = b->ids++, .prompt = a->prompt, .output = a->output}))
    return -1;
  if (s->blocked)
    return 0;
  s->replan = 1;
  if (s->busy && s->n > 1)
    interrupt(s, now);
  return s->busy && s->end == now;
}

/* ---- steps ---- */

/* Prompts under way get the budget first, then those that wait, up to the first that does not fit.
 */
static void plan(const struct bare *b, struct bare_server *s)
{
  int64_t left = (int64_t)SPEED_TOKEN_BUDGET - s->rows;
  for (uint32_t i = 0; i < s->chunks; i++) {
    struct prompt *p = &s->chunk[i];
    int64_t want = p->prompt - p->done;
    p->tokens = (uint32_t)(left <= 0 ? 0 : want < left ? want : left);
    left -= p->tokens;
  }
  while (s->head < s->tail && left > 0 && s->rows + s->chunks < b->spec->max_seqs) {
    struct prompt p = s->queue[s->head++ & (s->room - 1)];
    p.tokens = p.prompt < left ? p.prompt : (uint32_t)left;
    left -= p.tokens;
    s->chunk[s->chunks++] = p;
  }
  s->blocked = s->head < s->tail;
  s->replan = 0;
}

static void start(const struct bare *b, struct bare_server *s, lull_time now)
{
  int64_t tokens = 0, pairs = 0;
  for (uint32_t i = 0; i < s->chunks; i++) {
    int64_t k = s->chunk[i].tokens;
    tokens += k;
    pairs += k * s->chunk[i].done + k * (k + 1) / 2;
  }
  s->first = speed_cost.base + speed_cost.per_token * (s->rows + tokens) +
             speed_cost.per_ctx * s->context + (speed_cost.per_pair_q16 * pairs >> 16);
  s->inc = speed_cost.per_ctx * s->rows;
  s->n = s->chunks || b->step_by_step ? 1 : s->heap[0].finish - s->step;
  s->start = now;
  s->end = boundary(s, s->n);
  s->busy = 1;
}

/* A prompt is complete: one token is out; it becomes a row, or is done. */
static void prompt_done(struct bare *b, struct bare_server *s, const struct prompt *p)
{
  s->replan = 1;
  if (p->output == 1) {
    end(b, s, p->id, s->end);
    return;
  }
  push_row(s, (struct row){s->step + p->output - 1, p->id, p->prompt + p->output - 1});
  s->context += p->prompt;
}

static void complete(struct bare *b, struct bare_server *s)
{
  s->busy = 0;
  s->step += s->n;
  s->context += (int64_t)s->n * s->rows;
  while (s->rows && s->heap[0].finish == s->step) {
    struct row r = pop_row(s);
    s->context -= r.context;
    end(b, s, r.id, s->end);
  }
  uint32_t kept = 0;
  for (uint32_t i = 0; i < s->chunks; i++) {
    struct prompt p = s->chunk[i];
    p.done += p.tokens;
    if (p.done == p.prompt) {
      prompt_done(b, s, &p);
      continue;
    }
    s->replan |= p.prompt - p.done < p.tokens;
    s->chunk[kept++] = p;
  }
  s->chunks = kept;
}

/* ---- the loop ---- */

static lull_time next_moment(const struct bare *b)
{
  lull_time t = b->has_next ? b->next.time : LULL_NEVER;
  for (uint32_t i = 0; i < b->spec->servers; i++)
    if (b->server[i].busy && b->server[i].end < t)
      t = b->server[i].end;
  return t;
}

static void completions(struct bare *b, lull_time now)
{
  for (uint32_t i = 0; i < b->spec->servers; i++)
    if (b->server[i].busy && b->server[i].end == now)
      complete(b, &b->server[i]);
}

static int arrivals(struct bare *b, lull_time now, struct base_error *e)
{
  int again = 0;
  while (b->has_next && b->next.time <= now) {
    int rc = arrive(b, &b->next, now);
    if (rc < 0)
      return base_fail_memory(e);
    again |= rc;
    b->has_next = speed_load_next(&b->load, &b->next, e);
    if (b->has_next < 0)
      return -1;
  }
  if (again)
    completions(b, now);
  struct world_arrival a;
  while (b->server[0].unfinished < b->spec->below && speed_load_refill(&b->load, 0, 0, &a, e) > 0)
    if (arrive(b, &a, now) < 0)
      return base_fail_memory(e);
  return 0;
}

static int loop(struct bare *b, struct base_error *e)
{
  lull_time now = 0;
  b->has_next = speed_load_next(&b->load, &b->next, e);
  if (b->has_next < 0)
    return -1;
  for (; now != LULL_NEVER; now = next_moment(b)) {
    completions(b, now);
    if (arrivals(b, now, e))
      return -1;
    for (uint32_t i = 0; i < b->spec->servers; i++) {
      struct bare_server *s = &b->server[i];
      if (s->busy)
        continue;
      if (s->replan)
        plan(b, s);
      if (s->rows || s->chunks)
        start(b, s, now);
    }
  }
  return 0;
}

static int run(struct bare *b, const struct speed_spec *spec, uint64_t n, int step_by_step,
               double *seconds, struct base_error *e)
{
  *b = (struct bare){.spec = spec, .step_by_step = step_by_step};
  int rc = speed_load_open(&b->load, spec, NULL, n, e);
  for (uint32_t i = 0; !rc && i < spec->servers; i++) {
    b->server[i].heap = malloc(spec->max_seqs * sizeof *b->server[i].heap);
    b->server[i].chunk = malloc(spec->max_seqs * sizeof *b->server[i].chunk);
    if (!b->server[i].heap || !b->server[i].chunk)
      rc = base_fail_memory(e);
  }
  double from = speed_cpu_seconds();
  rc = rc || loop(b, e) ? -1 : 0;
  *seconds = speed_cpu_seconds() - from;
  for (uint32_t i = 0; i < spec->servers; i++) {
    free(b->server[i].heap);
    free(b->server[i].chunk);
    free(b->server[i].queue);
  }
  speed_load_close(&b->load);
  return rc;
}

static int usage(void)
{
  fputs("usage: bareloop [--step] WORKLOAD REQUESTS [REPEATS]\n", stderr);
  return 2;
}

int main(int argc, char **argv)
{
  static struct bare b;
  double seconds[MAX_REPEATS], spread;
  struct base_error e = {0};
  int step = argc > 1 && !strcmp(argv[1], "--step");
  if (argc < 3 + step)
    return usage();
  argv += step;
  const struct speed_spec *spec = speed_find(argv[1]);
  uint64_t n = strtoull(argv[2], NULL, 10);
  int repeats = argc - step > 3 ? atoi(argv[3]) : 1;
  if (!spec || spec->flags || !n || repeats < 1 || repeats > MAX_REPEATS)
    return usage();
  for (int i = 0; i < repeats; i++)
    if (run(&b, spec, n, step, &seconds[i], &e)) {
      fprintf(stderr, "bareloop: %s\n", e.text);
      return e.code;
    }
  double median = speed_median(seconds, repeats, &spread);
  printf("%-9s %9" PRIu64 " %6.2f Mreq/s %5.1f%% %016" PRIx64 "\n", spec->name, b.ended,
         (double)b.ended / (median > 0 ? median : 1e-9) / 1e6, 100 * spread, b.digest);
  return 0;
}
