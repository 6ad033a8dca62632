/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tests/fuzz_device.h"

#include "models/simdev.h"

enum { LONGEST_NAP_PS = 1000000 };

static struct fuzz_device *of(struct lull_device *d)
{
  return (struct fuzz_device *)d;
}

/* 0 .. n-1 */
static uint64_t draw(struct fuzz_device *f, uint64_t n)
{
  uint64_t x = f->word += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return (x ^ x >> 31) % n;
}

static lull_time fuzz_now(struct lull_device *d)
{
  return simdev_ops.now(of(d)->inner);
}

static int fuzz_lane_open(struct lull_device *d, const int *gpu, int n, int kind)
{
  return simdev_ops.lane_open(of(d)->inner, gpu, n, kind);
}

static struct fuzz_ticket *ticket_of(struct fuzz_device *f, lull_lane_id lane)
{
  return lane >= 0 && lane < FUZZ_LANES ? &f->ticket[lane] : NULL;
}

/* Moves the batch on by the steps of the piece that is over: the device borrowed it until then. */
static void advance(struct fuzz_ticket *t)
{
  struct lull_batch *b = &t->batch;
  uint64_t steps = t->ran;
  b->ctx_q16 += (int64_t)steps * b->ctx_inc_q16;
  b->ctx_max += b->ctx_max ? steps : 0;
  for (uint32_t i = 0; i < b->chunks; i++) {
    struct lull_chunk *c = &t->chunk[i];
    b->chunk_work += (int64_t)steps * c->tokens * c->tokens;
    c->start += (uint32_t)steps * c->tokens;
  }
  t->ran = 0;
}

/* A piece of 1 .. left steps; half of the time all of them. */
static int hand_over(struct fuzz_device *f, struct fuzz_ticket *t)
{
  advance(t);
  t->work.repeat = draw(f, 2) ? t->left : 1 + draw(f, t->left);
  t->between = 0;
  return simdev_ops.submit(f->inner, &t->work);
}

/* The caller may edit its batch between tickets only, but the pieces differ: they need their own.
 */
static void copy_batch(struct fuzz_ticket *t, const struct lull_batch *b)
{
  t->batch = *b;
  for (uint32_t i = 0; i < b->chunks; i++)
    t->chunk[i] = b->chunk[i];
  t->batch.chunk = t->chunk;
  t->work.batch = &t->batch;
}

/* A repeat is a bound: often fewer steps are done. */
static int submit(struct lull_device *d, const struct lull_work *work)
{
  struct fuzz_device *f = of(d);
  struct fuzz_ticket *t = ticket_of(f, work->lane);
  if (!t || t->open || work->kind != LULL_WORK_FORWARD || !work->batch || !work->repeat ||
      work->batch->chunks > FUZZ_CHUNKS)
    return simdev_ops.submit(f->inner, work);
  *t = (struct fuzz_ticket){.work = *work, .left = work->repeat, .boundary = fuzz_now(d)};
  if (draw(f, 2))
    t->left = 1 + draw(f, work->repeat);
  copy_batch(t, work->batch);
  int st = hand_over(f, t);
  t->open = st == LULL_DEV_OK;
  return st;
}

static int fuzz_submit(struct lull_device *d, const struct lull_work *work)
{
  struct fuzz_device *f = of(d);
  if (fuzz_rows_submit(&f->rows, work))
    return LULL_DEV_IO;
  int st = submit(d, work);
  f->busy += st == LULL_DEV_OK;
  return st;
}

/* Is the lane, as the caller sees it, exactly at a boundary? */
static int at_boundary(struct fuzz_device *f, const struct fuzz_ticket *t)
{
  lull_time now = simdev_ops.now(f->inner), at = t->boundary;
  uint64_t steps;
  simdev_ops.progress(f->inner, t->work.lane, &steps, &at);
  return at == now;
}

static void fuzz_interrupt(struct lull_device *d, lull_lane_id lane, int how)
{
  struct fuzz_device *f = of(d);
  struct fuzz_ticket *t = ticket_of(f, lane);
  if (t && t->open) {
    if (how == LULL_AT_SAFEPOINT && at_boundary(f, t))
      return;
    t->stopping = 1;
    if (t->between)
      return;
  }
  simdev_ops.interrupt(f->inner, lane, how);
}

static void fuzz_progress(struct lull_device *d, lull_lane_id lane, uint64_t *steps, lull_time *at)
{
  simdev_ops.progress(of(d)->inner, lane, steps, at);
}

/* What the inner device says of a piece becomes what this one says of the ticket. */
static void translate(struct fuzz_device *f, struct lull_completion *c)
{
  struct fuzz_ticket *t = ticket_of(f, c->lane);
  fuzz_rows_completed(&f->rows, c);
  if (!t || !t->open)
    return;
  t->ran += c->span.steps;
  t->left -= c->span.steps;
  t->boundary = c->end;
  if (!c->final)
    return;
  t->between = !c->aborted && !t->stopping && t->left > 0;
  t->open = t->between;
  c->final = !t->between;
  f->pieces += t->between;
}

/* Tickets that were stopped at a boundary they had just reported. Returns how many ended. */
static int end_stopped(struct fuzz_device *f, struct lull_completion *out, int max)
{
  int n = 0;
  for (int i = 0; i < FUZZ_LANES && n < max; i++) {
    struct fuzz_ticket *t = &f->ticket[i];
    if (!t->open || !t->between || !t->stopping)
      continue;
    t->open = 0;
    out[n++] = (struct lull_completion){.tag = t->work.tag,
                                        .lane = t->work.lane,
                                        .kind = t->work.kind,
                                        .final = 1,
                                        .span = {.first_end = t->boundary, .last_end = t->boundary},
                                        .end = t->boundary};
  }
  return n;
}

static int before(const struct lull_completion *a, const struct lull_completion *b)
{
  return a->end != b->end ? a->end < b->end : a->lane < b->lane;
}

/* Puts the last of n completions where it belongs. */
static void sort_last(struct lull_completion *c, int n)
{
  struct lull_completion last = c[n - 1];
  int i = n - 1;
  for (; i && before(&last, &c[i - 1]); i--)
    c[i] = c[i - 1];
  c[i] = last;
}

static int next_pieces(struct fuzz_device *f)
{
  for (int i = 0; i < FUZZ_LANES; i++) {
    struct fuzz_ticket *t = &f->ticket[i];
    if (t->open && t->between) {
      int st = hand_over(f, t);
      if (st != LULL_DEV_OK)
        return st;
    }
  }
  return 0;
}

/* Takes in n completions behind the m that are there. */
static int take_in(struct fuzz_device *f, struct lull_completion *out, int m, int n)
{
  for (int i = 0; i < n; i++) {
    translate(f, &out[m + i]);
    f->busy -= out[m + i].final;
    sort_last(out, m + i + 1);
  }
  return m + n;
}

/* Comes back later than it could, with all that ended by then. A lane may report and end. */
static int dawdle(struct fuzz_device *f, struct lull_completion *out, int n, int max)
{
  lull_time to = simdev_ops.now(f->inner) + 1 + (lull_time)draw(f, 2 * (uint64_t)f->nap);
  while (2 * f->busy <= max - n && simdev_ops.now(f->inner) < to) {
    int more = simdev_ops.wait(f->inner, to, out + n, max - n);
    if (more < 0)
      return more;
    n = take_in(f, out, n, more);
  }
  return n;
}

/* May come back before `until` with nothing. */
static int fuzz_wait(struct lull_device *d, lull_time until, struct lull_completion *out, int max)
{
  struct fuzz_device *f = of(d);
  lull_time now = fuzz_now(d);
  int poll = until == now;
  int stopped = end_stopped(f, out, max);
  f->busy -= stopped;
  if (stopped)
    until = now; /* with all else of this moment */
  if (until > now) {
    int st = next_pieces(f);
    if (st)
      return st;
    if (draw(f, 2)) {
      lull_time nap = now + 1 + (lull_time)draw(f, f->nap ? f->nap : LONGEST_NAP_PS);
      until = nap < until ? nap : until;
    }
  }
  int n = simdev_ops.wait(f->inner, until, out + stopped, max - stopped);
  if (n < 0)
    return n;
  n = take_in(f, out, stopped, n);
  return f->late && !poll && draw(f, 2) ? dawdle(f, out, n, max) : n;
}

static int fuzz_reserve(struct lull_device *d, int gpu, int64_t bytes)
{
  return simdev_ops.reserve(of(d)->inner, gpu, bytes);
}

static void fuzz_release(struct lull_device *d, int gpu, int64_t bytes)
{
  simdev_ops.release(of(d)->inner, gpu, bytes);
}

static uint64_t fuzz_max_repeat(struct lull_device *d)
{
  return simdev_ops.max_repeat(of(d)->inner);
}

static int fuzz_depth(struct lull_device *d)
{
  return simdev_ops.depth(of(d)->inner);
}

static int fuzz_request(struct lull_device *d, lull_id id, const struct lull_device_request *who)
{
  return fuzz_rows_request(&of(d)->rows, id, who) ? LULL_DEV_IO : LULL_DEV_OK;
}

static void fuzz_forget(struct lull_device *d, lull_id id, int how)
{
  fuzz_rows_forget(&of(d)->rows, id, how);
}

static const char *fuzz_why(struct lull_device *d)
{
  return of(d)->rows.wrong;
}

const struct lull_device_ops fuzz_device_ops = {.size = sizeof fuzz_device_ops,
                                                .abi = LULL_DEVICE_ABI,
                                                .now = fuzz_now,
                                                .lane_open = fuzz_lane_open,
                                                .submit = fuzz_submit,
                                                .interrupt = fuzz_interrupt,
                                                .progress = fuzz_progress,
                                                .wait = fuzz_wait,
                                                .reserve = fuzz_reserve,
                                                .release = fuzz_release,
                                                .max_repeat = fuzz_max_repeat,
                                                .depth = fuzz_depth,
                                                .request = fuzz_request,
                                                .forget = fuzz_forget,
                                                .why = fuzz_why};
