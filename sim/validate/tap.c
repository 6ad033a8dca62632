/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/validate/tap.h"

#include <stdlib.h>
#include <string.h>

static struct tap *of(struct lull_device *d)
{
  return (struct tap *)(void *)d;
}

void tap_begin(struct tap *t, const struct world_config *config, struct lull_device *inner,
               const struct lull_device_ops *ops)
{
  *t = (struct tap){.config = config, .inner = inner, .ops = ops};
}

struct lull_device *tap_device(struct tap *t)
{
  return (struct lull_device *)(void *)t;
}

void tap_free(struct tap *t)
{
  free(t->step);
  free(t->request);
  *t = (struct tap){0};
}

/* Room for one more of n: the array, moved or not; NULL: there is none, and it is noted. */
static void *grow(struct tap *t, void *array, size_t n, size_t size)
{
  if (n & (n - 1) || n == 1)
    return array;
  void *more = realloc(array, (n ? 2 * n : 2) * size);
  t->no_memory |= !more;
  return more;
}

/* -------------------------------------------------------------------------------- steps ---- */

static const struct cost_model *model_of(const struct tap *t, int gpu)
{
  for (uint32_t i = 0; i < t->config->nservers; i++)
    if (t->config->server[i].gpu == gpu)
      return t->config->server[i].cost;
  return NULL;
}

static struct cost_shape shape_of(const struct lull_batch *b)
{
  return (struct cost_shape){.rows = b->rows,
                             .ctx_q16 = b->ctx_q16,
                             .chunk_tokens = b->chunk_tokens,
                             .chunks = b->chunks,
                             .chunk_ends = b->chunk_ends,
                             .chunk_work = b->chunk_work,
                             .ctx_max_q16 = (int64_t)b->ctx_max << 16};
}

static int tap_submit(struct lull_device *d, const struct lull_work *w)
{
  struct tap *t = of(d);
  lull_time now = t->ops->now(t->inner);
  if (w->kind == LULL_WORK_FORWARD && w->lane >= 0 && w->lane < t->nlanes) {
    struct tap_lane *l = &t->lane[w->lane];
    l->shape = shape_of(w->batch);
    l->began = now == l->last_told ? l->last_end : now;
  }
  return t->ops->submit(t->inner, w);
}

/* Keeps a step that was run alone and whole; repeats are the simulator's, whose steps cost what
 * they should. */
static void note_step(struct tap *t, const struct lull_completion *c)
{
  struct tap_lane *l = &t->lane[c->lane];
  const struct cost_model *model = model_of(t, l->gpu);
  l->last_end = c->end;
  l->last_told = t->ops->now(t->inner);
  if (!c->final || c->status || c->span.steps != 1 || !model)
    return;
  struct tap_step *more = grow(t, t->step, t->nsteps, sizeof *more);
  if (!more)
    return;
  t->step = more;
  struct cost_step cost;
  cost_eval(model, &l->shape, &cost);
  t->step[t->nsteps++] = (struct tap_step){l->shape.rows, l->shape.chunk_tokens, c->end - l->began,
                                           cost.ticks * LULL_TICK_PS};
}

static int tap_wait(struct lull_device *d, lull_time until, struct lull_completion *out, int max)
{
  struct tap *t = of(d);
  int n = t->ops->wait(t->inner, until, out, max);
  for (int i = 0; i < n; i++)
    if (out[i].kind == LULL_WORK_FORWARD && out[i].lane >= 0 && out[i].lane < t->nlanes)
      note_step(t, &out[i]);
  return n;
}

/* ----------------------------------------------------------------------------- requests ---- */

static int tap_request(struct lull_device *d, lull_id id, const struct lull_device_request *who)
{
  struct tap *t = of(d);
  struct tap_request *more = grow(t, t->request, t->nrequests, sizeof *more);
  if (more) {
    t->request = more;
    t->request[t->nrequests++] = (struct tap_request){id, who->key};
  }
  return t->ops->request ? t->ops->request(t->inner, id, who) : LULL_DEV_OK;
}

static void tap_forget(struct lull_device *d, lull_id id, int how)
{
  struct tap *t = of(d);
  if (t->ops->request)
    t->ops->forget(t->inner, id, how);
}

/* -------------------------------------------------------------------------------- others ---- */

static int tap_lane_open(struct lull_device *d, const int *gpu, int n, int kind)
{
  struct tap *t = of(d);
  int lane = t->ops->lane_open(t->inner, gpu, n, kind);
  if (lane >= 0 && lane < LULL_LANES) {
    t->lane[lane] = (struct tap_lane){.kind = kind, .gpu = gpu[0], .last_told = -1};
    t->nlanes = lane + 1;
  }
  return lane;
}

static lull_time tap_now(struct lull_device *d)
{
  return of(d)->ops->now(of(d)->inner);
}

static void tap_interrupt(struct lull_device *d, lull_lane_id lane, int how)
{
  of(d)->ops->interrupt(of(d)->inner, lane, how);
}

static void tap_progress(struct lull_device *d, lull_lane_id lane, uint64_t *steps, lull_time *at)
{
  of(d)->ops->progress(of(d)->inner, lane, steps, at);
}

static int tap_reserve(struct lull_device *d, int gpu, int64_t bytes)
{
  return of(d)->ops->reserve(of(d)->inner, gpu, bytes);
}

static void tap_release(struct lull_device *d, int gpu, int64_t bytes)
{
  of(d)->ops->release(of(d)->inner, gpu, bytes);
}

static uint64_t tap_max_repeat(struct lull_device *d)
{
  return of(d)->ops->max_repeat(of(d)->inner);
}

static int tap_depth(struct lull_device *d)
{
  return of(d)->ops->depth(of(d)->inner);
}

static const char *tap_why(struct lull_device *d)
{
  return of(d)->ops->why ? of(d)->ops->why(of(d)->inner) : NULL;
}

const struct lull_device_ops tap_ops = {.size = sizeof tap_ops,
                                        .abi = LULL_DEVICE_ABI,
                                        .now = tap_now,
                                        .lane_open = tap_lane_open,
                                        .submit = tap_submit,
                                        .interrupt = tap_interrupt,
                                        .progress = tap_progress,
                                        .wait = tap_wait,
                                        .reserve = tap_reserve,
                                        .release = tap_release,
                                        .max_repeat = tap_max_repeat,
                                        .depth = tap_depth,
                                        .request = tap_request,
                                        .forget = tap_forget,
                                        .why = tap_why};
