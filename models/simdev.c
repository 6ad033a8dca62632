/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A forward ticket is cut into segments: runs of steps whose durations are one arithmetic series
 * (one step where there is no such law). The end of a segment is a report. Everything else follows
 * from "anchor + n steps of the series": the next report, the boundary an interrupt finds, the
 * progress. A training micro-step is a segment of one step.
 *
 * Lanes that contend (F4, F5) run at more picoseconds a tick. When the active set of a GPU changes
 * within a step, the anchor moves to that moment and `did` keeps the whole ticks done before it.
 */
#include "models/simdev.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/cost.h"

typedef __int128 int128;

/* n steps: first, first + inc, ... (ticks), each with `host` in which no kernel runs. */
struct segment {
  uint64_t n;
  lull_ticks first, inc, host;
  uint8_t narrow; /* the picoseconds of the steps that will be run fit 62 bits */
};

struct lane {
  int gpu;
  uint8_t kind, busy, aborting;
  uint8_t work; /* enum lull_work_kind */
  uint64_t tag;
  const struct lull_batch *batch;
  uint64_t done, target; /* steps reported; steps after which it stops */
  lull_time began;       /* boundary of step `done`, or the start of a copy */
  lull_time anchor;      /* began, or a later change of speed within the step */
  lull_ticks did;        /* whole ticks of the step done before the anchor */
  int64_t speed;         /* ps a tick */
  struct segment seg;    /* steps from `done` on */
  lull_time end;         /* boundary after all of them that will be run, or the end of a copy */
  lull_ticks abort_at;   /* aborting: the safe point, in ticks of the step after `target` */
};

struct lull_device {
  lull_time now;
  int ngpus, nlanes, training; /* training: a lane for it was opened */
  struct simdev_gpu *gpu;
  int64_t *reserved; /* bytes by GPU */
  uint8_t *active;   /* by GPU: kinds of compute lanes active when time last moved, bit by kind */
  lull_time next[LULL_LANES]; /* when a lane has something to tell next: LULL_NEVER when free */
  lull_time first_at;         /* the first of these */
  struct lane lane[LULL_LANES];
};

/* Boundary after n further steps of the segment, saturating (F21: the sum needs 128 bits). */
__attribute__((cold)) static lull_time wide_boundary(const struct lane *l, uint64_t n)
{
  const struct segment *g = &l->seg;
  int128 ticks = (int128)n * g->first + (int128)g->inc * ((int128)n * ((int128)n - 1) / 2);
  int128 ps = (ticks - l->did) * l->speed;
  return ps >= LULL_NEVER - l->anchor ? LULL_NEVER : l->anchor + (lull_time)ps;
}

/* The same; n at most segment_steps(). */
static inline lull_time boundary(const struct lane *l, uint64_t n)
{
  const struct segment *g = &l->seg;
  int64_t k = (int64_t)n;
  if (!n)
    return l->began;
  if (!g->narrow)
    return wide_boundary(l, n);
  return l->anchor + (k * g->first + g->inc * (k * (k - 1) / 2) - l->did) * l->speed;
}

/* A guess at the n of steps_by: the root of the series' quadratic, written so that nothing cancels.
 */
static uint64_t guess_steps(const struct lane *l, lull_time t, uint64_t max)
{
  const struct segment *g = &l->seg;
  double x = (double)(t - l->anchor) / (double)l->speed + (double)l->did;
  double half = (double)g->inc / 2, b = (double)g->first - half;
  double root = sqrt(b * b + 4 * half * x);
  double n = b > 0 ? 2 * x / (b + root) : (root - b) / (2 * half);
  return n >= (double)max ? max : n >= 1 ? (uint64_t)n : 0;
}

/* The largest n in [0, max] whose boundary is <= t (t >= anchor). The guess only saves steps of the
 * search: what decides are integers. */
static uint64_t steps_by(const struct lane *l, lull_time t, uint64_t max)
{
  if (boundary(l, max) <= t)
    return max;
  if (l->seg.narrow) {
    uint64_t n = guess_steps(l, t, max);
    while (n && boundary(l, n) > t)
      n--;
    while (boundary(l, n + 1) <= t)
      n++;
    return n;
  }
  uint64_t lo = 0, hi = max;
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

/* Do the steps to be run, at this speed, and their anchor surely sum up below 2^63? A step is then
 * below 2^37 + 2^14 * 2^20 ticks, and all of them below 2^(14 + 38 + 10) ps. */
static int fits_narrow(const struct lane *l)
{
  uint64_t n = segment_steps(l);
  return !(n >> 14 | (uint64_t)l->seg.inc >> 20 | (uint64_t)l->seg.first >> 37 |
           (uint64_t)l->speed >> 10 | (uint64_t)l->anchor >> 62);
}

static void shape_of(const struct lull_batch *b, uint64_t step, struct cost_shape *s)
{
  *s = (struct cost_shape){.rows = b->rows,
                           .ctx_q16 = b->ctx_q16 + (int64_t)step * b->ctx_inc_q16,
                           .chunk_tokens = b->chunk_tokens,
                           .chunks = b->chunks,
                           .chunk_ends = b->chunk_ends,
                           .chunk_work = b->chunk_work};
  if (b->ctx_max)
    s->ctx_max_q16 = (int64_t)(b->ctx_max + step) << 16;
  if (step && b->chunks) { /* every chunk moves on by its own length a step */
    for (uint32_t i = 0; i < b->chunks; i++)
      s->chunk_work += (int64_t)step * b->chunk[i].tokens * b->chunk[i].tokens;
  }
}

/* The target, the anchor, the speed or the segment has changed. */
static void set_end(struct lane *l)
{
  l->seg.narrow = (uint8_t)fits_narrow(l);
  l->end = boundary(l, segment_steps(l));
}

/* The segment that starts at step `done`. One series needs no chunk and whole tokens a step. */
static inline void next_segment(struct lull_device *d, struct lane *l)
{
  const struct lull_batch *b = l->batch;
  struct cost_shape s;
  struct cost_step c;
  shape_of(b, l->done, &s);
  cost_eval(d->gpu[l->gpu].cost, &s, &c);
  uint64_t n = 1;
  lull_ticks inc = 0;
  if (!b->chunks && b->ctx_inc_q16 % LULL_Q16_ONE == 0) {
    n = UINT64_MAX;
    if (b->ctx_inc_q16 && c.ctx_end_q16 != INT64_MAX)
      n = (uint64_t)((c.ctx_end_q16 - s.ctx_q16 + b->ctx_inc_q16 - 1) / b->ctx_inc_q16);
    inc = c.slope * (b->ctx_inc_q16 / LULL_Q16_ONE);
  }
  l->seg = (struct segment){.n = n ? n : 1, .first = c.ticks, .inc = inc, .host = c.host};
  set_end(l);
}

/* The step after n further ones: where its ticks are counted from, and how many were done there. */
static lull_time ticks_from(const struct lane *l, uint64_t n, lull_ticks *done)
{
  *done = n ? 0 : l->did;
  return n ? boundary(l, n) : l->anchor;
}

/* Aborting: the moment of the safe point, in the step after n further ones. */
__attribute__((cold)) static lull_time abort_time(const struct lane *l, uint64_t n)
{
  lull_ticks done;
  lull_time from = ticks_from(l, n, &done);
  return from + (l->abort_at - done) * l->speed;
}

/* When a lane that is busy has something to tell next. */
static inline lull_time next_report(const struct lane *l)
{
  uint64_t n = l->aborting ? segment_steps(l) : l->seg.n;
  return n < l->seg.n ? abort_time(l, n) : l->end;
}

/* Lane i tells something at t, no later than it would have. */
static inline void tell_at(struct lull_device *d, int i, lull_time t)
{
  d->next[i] = t;
  d->first_at = t < d->first_at ? t : d->first_at;
}

static lull_time sim_now(struct lull_device *d)
{
  return d->now;
}

static int sim_lane_open(struct lull_device *d, const int *gpu, int n, int kind)
{
  if (n != 1)
    return LULL_DEV_UNSUPPORTED;
  if (gpu[0] < 0 || gpu[0] >= d->ngpus || d->nlanes == LULL_LANES)
    return LULL_DEV_BAD_CALL;
  if (kind == LULL_LANE_TRAIN && d->gpu[gpu[0]].contended_ps < LULL_TICK_PS)
    return LULL_DEV_UNSUPPORTED;
  d->training |= kind == LULL_LANE_TRAIN;
  d->lane[d->nlanes] = (struct lane){.gpu = gpu[0], .kind = (uint8_t)kind};
  d->next[d->nlanes] = LULL_NEVER;
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

static inline int check_work(const struct lull_device *d, const struct lull_work *w)
{
  if (!LULL_HAS(w, request) || w->lane < 0 || w->lane >= d->nlanes)
    return LULL_DEV_BAD_CALL;
  const struct lane *l = &d->lane[w->lane];
  int kind, good;
  if (w->kind == LULL_WORK_FORWARD) {
    kind = LULL_LANE_SERVE;
    good = w->batch && w->repeat && (w->batch->rows | w->batch->chunks);
  } else if (w->kind == LULL_WORK_TRAIN_MICRO) {
    kind = LULL_LANE_TRAIN;
    good = w->ticks > 0;
  } else if (w->kind == LULL_WORK_COPY_OUT || w->kind == LULL_WORK_COPY_IN) {
    kind = LULL_LANE_COPY;
    good = w->bytes >= 0;
  } else {
    return LULL_DEV_UNSUPPORTED;
  }
  return good && l->kind == kind && !l->busy ? LULL_DEV_OK : LULL_DEV_BAD_CALL;
}

/* Picoseconds a tick on a GPU with this active set. */
static int64_t speed_of(const struct lull_device *d, int gpu)
{
  const uint8_t both = 1 << LULL_LANE_SERVE | 1 << LULL_LANE_TRAIN;
  return d->active[gpu] == both ? d->gpu[gpu].contended_ps : LULL_TICK_PS;
}

static void set_train(struct lane *l, lull_ticks ticks)
{
  l->seg = (struct segment){.n = 1, .first = ticks};
  set_end(l);
}

static int sim_submit(struct lull_device *d, const struct lull_work *w)
{
  int st = check_work(d, w);
  if (st)
    return st;
  struct lane *l = &d->lane[w->lane];
  l->work = w->kind;
  l->tag = w->tag;
  l->busy = 1;
  l->aborting = 0;
  l->done = 0;
  l->target = 1;
  l->began = l->anchor = d->now;
  l->did = 0;
  l->speed = d->training ? speed_of(d, l->gpu) : LULL_TICK_PS;
  if (w->kind == LULL_WORK_FORWARD) {
    l->batch = w->batch;
    l->target = w->repeat;
    next_segment(d, l);
  } else if (w->kind == LULL_WORK_TRAIN_MICRO) {
    set_train(l, w->ticks);
  } else {
    l->end = d->now + copy_time(&d->gpu[l->gpu], w->bytes);
  }
  tell_at(d, w->lane, l->end);
  return LULL_DEV_OK;
}

/* F3: the first boundary >= now; one that was just reported counts. */
static void stop_at_boundary(struct lull_device *d, struct lane *l)
{
  uint64_t n = 0;
  if (l->began != d->now || !l->done) {
    n = steps_by(l, d->now, segment_steps(l));
    if (!n || boundary(l, n) != d->now)
      n++;
  }
  if (l->done + n < l->target)
    l->target = l->done + n;
}

/* F13: the next layer safe point of the step under way, in ticks done rounded up. */
__attribute__((cold)) static void stop_at_safepoint(struct lull_device *d, struct lane *l)
{
  uint64_t k = steps_by(l, d->now, segment_steps(l));
  lull_ticks done;
  if (boundary(l, k) == d->now || l->done + k >= l->target)
    return;
  lull_time from = ticks_from(l, k, &done);
  int64_t layers = d->gpu[l->gpu].layers;
  lull_ticks ticks = l->seg.first + l->seg.inc * (lull_ticks)k;
  lull_ticks past = done + (d->now - from + l->speed - 1) / l->speed;
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
  l->abort_at = stop;
}

static void sim_interrupt(struct lull_device *d, lull_lane_id lane, int how)
{
  struct lane *l = &d->lane[lane];
  if (!l->busy || l->work != LULL_WORK_FORWARD || l->aborting)
    return;
  if (how == LULL_AT_SAFEPOINT)
    stop_at_safepoint(d, l);
  else
    stop_at_boundary(d, l);
  set_end(l);
  tell_at(d, lane, next_report(l));
}

static void sim_progress(struct lull_device *d, lull_lane_id lane, uint64_t *steps, lull_time *at)
{
  const struct lane *l = &d->lane[lane];
  *steps = 0;
  if (!l->busy || l->work != LULL_WORK_FORWARD)
    return;
  *steps = steps_by(l, d->now, segment_steps(l));
  if (*steps)
    *at = boundary(l, *steps);
}

/* A report in the middle of a ticket: out of line, since most tickets are one segment. */
__attribute__((noinline)) static void go_on(struct lull_device *d, struct lane *l)
{
  next_segment(d, l);
}

/* Reports the next n steps, which end at `end`. */
static inline void report_steps(struct lull_device *d, struct lane *l, uint64_t n, lull_time end,
                                struct lull_completion *c)
{
  const struct segment *g = &l->seg;
  c->span = (struct lull_span){.steps = n,
                               .first_end = n > 1 ? boundary(l, 1) : end,
                               .second_dur = (g->first + g->inc) * l->speed,
                               .dur_inc = g->inc * l->speed,
                               .last_end = end};
  if (!n)
    return;
  c->busy = end - l->began - (lull_time)n * g->host * LULL_TICK_PS;
  l->began = l->anchor = end;
  l->did = 0;
  l->done += n;
  if (l->done < l->target || l->aborting)
    go_on(d, l);
}

static inline void report_forward(struct lull_device *d, struct lane *l, struct lull_completion *c)
{
  uint64_t n = segment_steps(l);
  int cut = l->aborting && n < l->seg.n;
  report_steps(d, l, n, l->end, c);
  if (cut) { /* the partial step is lost, its time is not; it began with its host time */
    lull_time past = d->now - l->began, host = l->seg.host * LULL_TICK_PS;
    c->busy += past > host ? past - host : 0;
  }
  c->aborted = (uint8_t)cut;
  c->final = l->done == l->target && (!l->aborting || cut);
  l->busy = !c->final;
}

/* The lane goes on at another speed: F5, a split tick is done again. */
static void change_speed(struct lull_device *d, struct lane *l, int64_t speed)
{
  if (speed == l->speed)
    return;
  l->did += (d->now - l->anchor) / l->speed;
  l->anchor = d->now;
  l->speed = speed;
  set_end(l);
}

/* The kinds of compute lanes that are busy on a GPU. */
static uint8_t active_set(const struct lull_device *d, int gpu)
{
  unsigned set = 0;
  for (int i = 0; i < d->nlanes; i++) {
    const struct lane *l = &d->lane[i];
    if (l->busy && l->gpu == gpu && l->kind != LULL_LANE_COPY)
      set |= 1u << l->kind;
  }
  return (uint8_t)set;
}

static lull_time first_report(const struct lull_device *d)
{
  lull_time t = LULL_NEVER;
  for (int i = 0; i < d->nlanes; i++)
    t = d->next[i] < t ? d->next[i] : t;
  return t;
}

/* F4, F6: time is about to move from now on. Where an active set is another one than while time
 * last moved, lanes report the steps they did under the old one, and change speed. Returns the
 * reports. */
__attribute__((noinline)) static int update_active(struct lull_device *d,
                                                   struct lull_completion *out, int max)
{
  int n = 0;
  for (int g = 0; g < d->ngpus; g++) {
    uint8_t set = active_set(d, g);
    if (set == d->active[g])
      continue;
    d->active[g] = set;
    for (int i = 0; i < d->nlanes && n < max; i++) {
      struct lane *l = &d->lane[i];
      if (!l->busy || l->gpu != g || l->kind == LULL_LANE_COPY)
        continue;
      uint64_t k = steps_by(l, d->now, segment_steps(l));
      if (k) {
        struct lull_completion *c = &out[n++];
        *c = (struct lull_completion){.tag = l->tag, .lane = (lull_lane_id)i, .kind = l->work};
        report_steps(d, l, k, boundary(l, k), c);
        c->end = c->span.last_end;
      }
      change_speed(d, l, speed_of(d, g));
      d->next[i] = next_report(l);
    }
  }
  d->first_at = first_report(d);
  return n;
}

/* All that lanes have to tell at t = now, from the lowest on. */
static int report_all(struct lull_device *d, lull_time t, struct lull_completion *out, int max)
{
  int n = 0;
  lull_time first = LULL_NEVER;
  for (int i = 0; i < d->nlanes; i++) {
    if (d->next[i] == t && n < max) {
      struct lane *l = &d->lane[i];
      struct lull_completion *c = &out[n++];
      *c = (struct lull_completion){
          .tag = l->tag, .lane = (lull_lane_id)i, .kind = l->work, .final = 1, .end = t};
      if (l->work == LULL_WORK_FORWARD) {
        report_forward(d, l, c);
      } else {
        c->busy = t - l->began;
        l->busy = 0;
      }
      d->next[i] = l->busy ? next_report(l) : LULL_NEVER;
    }
    first = d->next[i] < first ? d->next[i] : first;
  }
  d->first_at = first;
  return n;
}

static int sim_wait(struct lull_device *d, lull_time until, struct lull_completion *out, int max)
{
  if (until < d->now)
    return LULL_DEV_BAD_CALL;
  if (d->training && d->first_at > d->now && until > d->now) {
    int n = update_active(d, out, max);
    if (n)
      return n;
  }
  lull_time t = d->first_at;
  if (t > until || t == LULL_NEVER) {
    if (until != LULL_NEVER)
      d->now = until;
    return 0;
  }
  d->now = t;
  return report_all(d, t, out, max);
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
    d->active = calloc((size_t)ngpus, sizeof *d->active);
  }
  if (!d || !d->gpu || !d->reserved || !d->active) {
    simdev_destroy(d);
    base_fail_memory(e);
    return NULL;
  }
  memcpy(d->gpu, gpu, (size_t)ngpus * sizeof *gpu);
  d->ngpus = ngpus;
  d->first_at = LULL_NEVER;
  return d;
}

void simdev_destroy(struct lull_device *d)
{
  if (!d)
    return;
  free(d->gpu);
  free(d->reserved);
  free(d->active);
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
