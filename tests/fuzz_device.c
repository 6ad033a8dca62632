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

/* A repeat is a bound: often fewer steps are done. */
static int fuzz_submit(struct lull_device *d, const struct lull_work *work)
{
  struct lull_work less = *work;
  if (work->kind == LULL_WORK_FORWARD && draw(of(d), 2))
    less.repeat = 1 + draw(of(d), work->repeat);
  return simdev_ops.submit(of(d)->inner, &less);
}

static void fuzz_interrupt(struct lull_device *d, lull_lane_id lane, int how)
{
  simdev_ops.interrupt(of(d)->inner, lane, how);
}

static void fuzz_progress(struct lull_device *d, lull_lane_id lane, uint64_t *steps, lull_time *at)
{
  simdev_ops.progress(of(d)->inner, lane, steps, at);
}

/* May come back before `until` with nothing. */
static int fuzz_wait(struct lull_device *d, lull_time until, struct lull_completion *out, int max)
{
  lull_time now = fuzz_now(d);
  if (until > now && draw(of(d), 2)) {
    lull_time nap = now + (lull_time)draw(of(d), LONGEST_NAP_PS);
    until = nap < until ? nap : until;
  }
  return simdev_ops.wait(of(d)->inner, until, out, max);
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
                                                .depth = fuzz_depth};
