/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A forward ticket is cut into segments: runs of steps whose durations are one arithmetic series
 * (one step where there is no such law). The end of a segment is a report. Everything else follows
 * from "anchor + series(n)": the next report, the boundary an interrupt finds, the progress.
 */
#include "models/simdev.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "models/cost.h"

typedef __int128 int128;

/* n steps: first, first + inc, ... (ticks), each with `host` in which no kernel runs. */
struct segment {
  uint64_t n;
  lull_ticks first, inc, host;
};

struct lane {
  int gpu;
  uint8_t kind, busy, aborting;
  struct lull_work work;
  uint64_t done, target; /* FORWARD: steps reported; steps after which it stops */
  lull_time anchor;      /* boundary of step `done`, or the start of a copy */
  struct segment seg;    /* steps from `done` on */
  lull_time abort_end;   /* aborting: the safe point, in the step after `target` */
  lull_time copy_end;
  lull_time next; /* when it has something to tell next: LULL_NEVER when free */
};

struct lull_device {
  lull_time now;
  int ngpus, nlanes;
  struct simdev_gpu *gpu;
  int64_t *reserved; /* bytes by GPU */
  struct lane lane[LULL_LANES];
};

/* Time of n steps of a segment, saturating (F21: the sum needs 128 bits). */
static lull_time series(const struct segment *s, uint64_t n)
{
  int128 ticks = (int128)n * s->first + (int128)s->inc * ((int128)n * ((int128)n - 1) / 2);
  int128 ps = ticks * LULL_TICK_PS;
  return ps >= LULL_NEVER ? LULL_NEVER : (lull_time)ps;
}

/* Boundary after n further steps of the segment. */
static lull_time boundary(const struct lane *l, uint64_t n)
{
  lull_time d = series(&l->seg, n);
  return d >= LULL_NEVER - l->anchor ? LULL_NEVER : l->anchor + d;
}

/* The largest n in [0, max] whose boundary is <= t (t >= anchor). */
static uint64_t steps_by(const struct lane *l, lull_time t, uint64_t max)
{
  uint64_t lo = 0, hi = max;
  if (boundary(l, max) <= t)
    return max;
  while (hi - lo > 1) {
    uint64_t mid = lo + (hi - lo) / 2;
    if (boundary(l, mid) <= t)
      lo = mid;
    else
      hi = mid;
  }
  return lo;
}

/* Steps of the current segment that will be run, given the target. */
static uint64_t segment_steps(const struct lane *l)
{
  uint64_t left = l->target - l->done;
  return left < l->seg.n ? left : l->seg.n;
}

static void shape_of(const struct lull_batch *b, uint64_t step, struct cost_shape *s)
{
  *s = (struct cost_shape){.rows = b->rows,
                           .ctx_q16 = b->ctx_q16 + (int64_t)step * b->ctx_inc_q16,
                           .chunk_tokens = b->chunk_tokens,
                           .chunks = b->chunks,
                           .chunk_ends = b->chunk_ends,
                           .chunk_work = b->chunk_work};
  if (step && b->chunks) { /* every chunk moves on by its own length a step */
    for (uint32_t i = 0; i < b->chunks; i++)
      s->chunk_work += (int64_t)step * b->chunk[i].tokens * b->chunk[i].tokens;
  }
}

/* The segment that starts at step `done`. One series needs no chunk and whole tokens a step. */
static void next_segment(struct lull_device *d, struct lane *l)
{
  const struct lull_batch *b = l->work.batch;
  struct cost_shape s;
  struct cost_step c;
  shape_of(b, l->done, &s);
  cost_eval(d->gpu[l->gpu].cost, &s, &c);
  l->seg = (struct segment){.n = 1, .first = c.ticks, .host = c.host};
  if (b->chunks || b->ctx_inc_q16 % LULL_Q16_ONE)
    return;
  if (!b->ctx_inc_q16 || c.ctx_end_q16 == INT64_MAX)
    l->seg.n = UINT64_MAX;
  else
    l->seg.n = (uint64_t)((c.ctx_end_q16 - s.ctx_q16 + b->ctx_inc_q16 - 1) / b->ctx_inc_q16);
  l->seg.inc = c.slope * (b->ctx_inc_q16 / LULL_Q16_ONE);
  if (!l->seg.n)
    l->seg.n = 1;
}

/* When the lane has something to tell next. */
static lull_time next_report(const struct lane *l)
{
  if (!l->busy)
    return LULL_NEVER;
  if (l->work.kind != LULL_WORK_FORWARD)
    return l->copy_end;
  uint64_t n = segment_steps(l);
  if (l->aborting && n < l->seg.n)
    return l->abort_end;
  return boundary(l, n);
}

static lull_time sim_now(struct lull_device *d)
{
  return d->now;
}

static int sim_lane_open(struct lull_device *d, const int *gpu, int n, int kind)
{
  if (n != 1 || kind == LULL_LANE_TRAIN)
    return LULL_DEV_UNSUPPORTED;
  if (gpu[0] < 0 || gpu[0] >= d->ngpus || d->nlanes == LULL_LANES)
    return LULL_DEV_BAD_CALL;
  d->lane[d->nlanes] = (struct lane){.gpu = gpu[0], .kind = (uint8_t)kind, .next = LULL_NEVER};
  return d->nlanes++;
}

static lull_time copy_time(const struct simdev_gpu *g, int64_t bytes)
{
  int128 per_tick = (int128)g->copy_bytes_per_s * LULL_TICK_PS;
  int128 ticks = ((int128)bytes * 1000000000000 + per_tick - 1) / per_tick;
  if (ticks < 1)
    ticks = 1;
  return ticks * LULL_TICK_PS >= LULL_NEVER ? LULL_NEVER : (lull_time)(ticks * LULL_TICK_PS);
}

static int sim_submit(struct lull_device *d, const struct lull_work *w)
{
  if (w->size < sizeof *w || w->lane < 0 || w->lane >= d->nlanes)
    return LULL_DEV_BAD_CALL;
  struct lane *l = &d->lane[w->lane];
  if (l->busy)
    return LULL_DEV_BAD_CALL;
  if (w->kind == LULL_WORK_FORWARD) {
    if (l->kind != LULL_LANE_SERVE || !w->batch || !w->repeat ||
        (!w->batch->rows && !w->batch->chunks))
      return LULL_DEV_BAD_CALL;
  } else if (w->kind == LULL_WORK_COPY_OUT || w->kind == LULL_WORK_COPY_IN) {
    if (l->kind != LULL_LANE_COPY || w->bytes < 0)
      return LULL_DEV_BAD_CALL;
  } else {
    return LULL_DEV_UNSUPPORTED;
  }
  l->work = *w;
  l->busy = 1;
  l->aborting = 0;
  l->done = 0;
  l->target = w->repeat;
  l->anchor = d->now;
  if (w->kind == LULL_WORK_FORWARD)
    next_segment(d, l);
  else
    l->copy_end = d->now + copy_time(&d->gpu[l->gpu], w->bytes);
  l->next = next_report(l);
  return LULL_DEV_OK;
}

/* F3: the first boundary >= now; one that was just reported counts. */
static void stop_at_boundary(struct lull_device *d, struct lane *l)
{
  uint64_t n = 0;
  if (l->anchor != d->now || !l->done) {
    n = steps_by(l, d->now, segment_steps(l));
    if (!n || boundary(l, n) != d->now)
      n++;
  }
  if (l->done + n < l->target)
    l->target = l->done + n;
}

/* F13: the next layer safe point of the step under way, in ticks done rounded up. */
static void stop_at_safepoint(struct lull_device *d, struct lane *l)
{
  uint64_t k = steps_by(l, d->now, segment_steps(l));
  lull_time start = boundary(l, k);
  if (start == d->now || l->done + k >= l->target)
    return;
  int64_t layers = d->gpu[l->gpu].layers;
  lull_ticks ticks = l->seg.first + l->seg.inc * (lull_ticks)k;
  lull_ticks past = (d->now - start + LULL_TICK_PS - 1) / LULL_TICK_PS;
  int64_t layer = (int64_t)(((int128)past * layers + ticks - 1) / ticks);
  lull_ticks stop = (lull_ticks)((int128)ticks * layer / layers);
  while (stop < past)
    stop = (lull_ticks)((int128)ticks * ++layer / layers);
  if (layer >= layers) {
    if (l->done + k + 1 < l->target)
      l->target = l->done + k + 1;
    return;
  }
  l->target = l->done + k;
  l->aborting = 1;
  l->abort_end = start + stop * LULL_TICK_PS;
}

static void sim_interrupt(struct lull_device *d, lull_lane_id lane, int how)
{
  struct lane *l = &d->lane[lane];
  if (!l->busy || l->work.kind != LULL_WORK_FORWARD || l->aborting)
    return;
  if (how == LULL_AT_SAFEPOINT)
    stop_at_safepoint(d, l);
  else
    stop_at_boundary(d, l);
  l->next = next_report(l);
}

static void sim_progress(struct lull_device *d, lull_lane_id lane, uint64_t *steps, lull_time *at)
{
  const struct lane *l = &d->lane[lane];
  *steps = 0;
  if (!l->busy || l->work.kind != LULL_WORK_FORWARD)
    return;
  *steps = steps_by(l, d->now, segment_steps(l));
  if (*steps)
    *at = boundary(l, *steps);
}

static void report_forward(struct lull_device *d, struct lane *l, struct lull_completion *c)
{
  uint64_t n = segment_steps(l);
  lull_ticks second = l->seg.first + l->seg.inc;
  c->span = (struct lull_span){.steps = n,
                               .first_end = boundary(l, n ? 1 : 0),
                               .second_dur = second * LULL_TICK_PS,
                               .dur_inc = l->seg.inc * LULL_TICK_PS,
                               .last_end = boundary(l, n)};
  int cut = l->aborting && n < l->seg.n;
  lull_time partial = cut ? l->abort_end - c->span.last_end : 0;
  lull_time host = l->seg.host * LULL_TICK_PS;
  c->busy = c->span.last_end - l->anchor - (lull_time)n * host;
  c->busy += partial > host ? partial - host : 0; /* a step begins with its host time */
  c->aborted = (uint8_t)cut;
  l->anchor = c->span.last_end;
  l->done += n;
  c->final = l->done == l->target && (!l->aborting || cut);
  if (c->final)
    l->busy = 0;
  else
    next_segment(d, l);
}

static int sim_wait(struct lull_device *d, lull_time until, struct lull_completion *out, int max)
{
  lull_time t = LULL_NEVER;
  int n = 0;
  if (until < d->now)
    return LULL_DEV_BAD_CALL;
  for (int i = 0; i < d->nlanes; i++) {
    if (d->lane[i].next < t)
      t = d->lane[i].next;
  }
  if (t > until || t == LULL_NEVER) {
    if (until != LULL_NEVER)
      d->now = until;
    return 0;
  }
  d->now = t;
  for (int i = 0; i < d->nlanes && n < max; i++) {
    struct lane *l = &d->lane[i];
    if (l->next != t)
      continue;
    struct lull_completion *c = &out[n++];
    *c = (struct lull_completion){
        .tag = l->work.tag, .lane = (lull_lane_id)i, .kind = l->work.kind, .final = 1, .end = t};
    if (l->work.kind == LULL_WORK_FORWARD) {
      report_forward(d, l, c);
    } else {
      c->busy = t - l->anchor;
      l->busy = 0;
    }
    l->next = next_report(l);
  }
  return n;
}

static int sim_reserve(struct lull_device *d, int gpu, int64_t bytes)
{
  if (gpu < 0 || gpu >= d->ngpus || bytes < 0)
    return LULL_DEV_BAD_CALL;
  if (bytes > d->gpu[gpu].memory_bytes - d->reserved[gpu])
    return LULL_DEV_NO_MEMORY;
  d->reserved[gpu] += bytes;
  return LULL_DEV_OK;
}

static void sim_release(struct lull_device *d, int gpu, int64_t bytes)
{
  assert(gpu >= 0 && gpu < d->ngpus && bytes >= 0 && bytes <= d->reserved[gpu]);
  d->reserved[gpu] -= bytes;
}

static uint64_t sim_max_repeat(struct lull_device *d)
{
  (void)d;
  return UINT64_MAX;
}

static int sim_depth(struct lull_device *d)
{
  (void)d;
  return 1;
}

struct lull_device *simdev_create(const struct simdev_gpu *gpu, int ngpus, struct base_error *e)
{
  struct lull_device *d = calloc(1, sizeof *d);
  if (d) {
    d->gpu = calloc((size_t)ngpus, sizeof *d->gpu);
    d->reserved = calloc((size_t)ngpus, sizeof *d->reserved);
  }
  if (!d || !d->gpu || !d->reserved) {
    simdev_destroy(d);
    base_fail_memory(e);
    return NULL;
  }
  memcpy(d->gpu, gpu, (size_t)ngpus * sizeof *gpu);
  d->ngpus = ngpus;
  return d;
}

void simdev_destroy(struct lull_device *d)
{
  if (!d)
    return;
  free(d->gpu);
  free(d->reserved);
  free(d);
}

const struct lull_device_ops simdev_ops = {
    .size = sizeof simdev_ops,
    .abi = LULL_DEVICE_ABI,
    .now = sim_now,
    .lane_open = sim_lane_open,
    .submit = sim_submit,
    .interrupt = sim_interrupt,
    .progress = sim_progress,
    .wait = sim_wait,
    .reserve = sim_reserve,
    .release = sim_release,
    .max_repeat = sim_max_repeat,
    .depth = sim_depth,
};
