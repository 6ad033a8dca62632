/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A lane's thread: takes work, does it without the lock, and says how it ended. */
#include <stdlib.h>

#include "backend/device_inner.h"

/* --------------------------------------------------------------------------------------- work ---
 */

/* Tokens that were sampled, as the contract orders them: rows, then chunks that reached the end. */
static void gather_tokens(struct device_lane *l, const struct engine_step *s)
{
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->rows; i++)
    l->token[n++] = l->out[s->chunks + i].token;
  for (uint32_t i = 0; i < s->chunks; i++) {
    if (l->out[i].token >= 0)
      l->token[n++] = l->out[i].token;
  }
}

static int step(struct device_lane *l, struct lull_completion *c)
{
  const struct engine_step s = {.chunk = l->chunk,
                                .chunks = l->chunks,
                                .row = l->row,
                                .rows = l->rows,
                                .stop = &l->stop,
                                .out = l->out};
  int st = engine_step(l->d->gpu[l->gpu].engine, &s, &l->error);
  c->aborted = st == ENGINE_ABORTED;
  if (!st) {
    c->span.steps = 1;
    gather_tokens(l, &s);
    c->tokens = l->token;
  }
  return st < 0 ? -1 : 0;
}

static int micro_step(struct device_lane *l, struct lull_completion *c)
{
  const struct device_trainer *t = l->d->gpu[l->gpu].trainer;
  int st = t->micro_step(t->ctx, &l->stop, &l->error);
  c->aborted = st == DEVICE_STOPPED;
  return st < 0 ? -1 : 0;
}

static int do_work(struct device_lane *l, struct lull_completion *c)
{
  const struct device_gpu *g = &l->d->gpu[l->gpu];
  switch (l->work.kind) {
  case LULL_WORK_FORWARD:
    return step(l, c);
  case LULL_WORK_COPY_OUT:
    return engine_swap_out(g->engine, l->work.request, &l->error);
  case LULL_WORK_COPY_IN:
    return engine_swap_in(g->engine, l->work.request, &l->error);
  case LULL_WORK_ADAPTER_LOAD:
  case LULL_WORK_ADAPTER_DROP:
  case LULL_WORK_WEIGHTS_LOAD:
  case LULL_WORK_WEIGHTS_DROP:
    return device_held_work(l);
  case LULL_WORK_TRAIN_MICRO:
    return micro_step(l, c);
  default:
    return g->trainer->optimizer(g->trainer->ctx, &l->error);
  }
}

/* ------------------------------------------------------------------------------------- thread ---
 */

/* With the lock held: the work has ended now. All work lasts at least a tick. */
static void finish(struct device_lane *l, struct lull_completion *c)
{
  lull_time end = device_clock(l->d), least = l->submitted + LULL_TICK_PS;
  c->end = end < least ? least : end;
  c->busy = c->end - l->began;
  if (c->span.steps) {
    c->span.first_end = c->span.last_end = c->end;
    c->span.second_dur = 0;
  }
  l->done = *c;
  l->state = LANE_DONE;
  pthread_cond_broadcast(&l->d->told);
}

/* The thread ends; in the middle of work, that ends too, and badly. */
static void leave(void *lane)
{
  struct device_lane *l = lane;
  pthread_mutex_lock(&l->d->lock);
  l->dead = 1;
  if (l->state == LANE_RUNNING) {
    struct lull_completion c = {
        .tag = l->work.tag, .lane = l->id, .kind = l->work.kind, .final = 1, .status = LULL_DEV_IO};
    base_fail(&l->error, BASE_ENV, "the thread of its lane has ended");
    finish(l, &c);
  }
  pthread_mutex_unlock(&l->d->lock);
}

/* With the lock held, before and after. 0: there is none any more. */
static int take_work(struct device_lane *l)
{
  while (l->state != LANE_GIVEN && !l->d->quit)
    pthread_cond_wait(&l->given, &l->d->lock);
  if (l->d->quit)
    return 0;
  l->state = LANE_RUNNING;
  l->began = device_clock(l->d);
  l->error = (struct base_error){0};
  return 1;
}

static void work_on(struct device_lane *l)
{
  struct lull_device *d = l->d;
  pthread_mutex_lock(&d->lock);
  while (take_work(l)) {
    pthread_mutex_unlock(&d->lock);
    struct lull_completion c = {
        .tag = l->work.tag, .lane = l->id, .kind = l->work.kind, .final = 1};
    if (do_work(l, &c))
      c.status = device_held_kind(l->work.kind) && l->error.code == BASE_INPUT ? LULL_DEV_BAD_CALL
                                                                               : LULL_DEV_IO;
    pthread_mutex_lock(&d->lock);
    finish(l, &c);
  }
  pthread_mutex_unlock(&d->lock);
}

static void *run(void *lane)
{
  pthread_cleanup_push(leave, lane);
  work_on(lane);
  pthread_cleanup_pop(1);
  return NULL;
}

/* ------------------------------------------------------------------------- life and death ---- */

static void free_lane(struct device_lane *l)
{
  pthread_cond_destroy(&l->given);
  free(l->row);
  free(l->chunk);
  free(l->out);
  free(l->token);
  free(l);
}

struct device_lane *device_lane_open(struct lull_device *d, int gpu, int kind, struct base_error *e)
{
  struct device_lane *l = calloc(1, sizeof *l);
  size_t n = d->gpu[gpu].max_seqs;
  if (!l || pthread_cond_init(&l->given, NULL)) {
    free(l);
    base_fail_memory(e);
    return NULL;
  }
  l->d = d;
  l->id = (lull_lane_id)d->nlanes;
  l->gpu = gpu;
  l->kind = (uint8_t)kind;
  l->row = calloc(n + 1, sizeof *l->row);
  l->chunk = calloc(n + 1, sizeof *l->chunk);
  l->out = calloc(2 * n + 1, sizeof *l->out);
  l->token = calloc(2 * n + 1, sizeof *l->token);
  if (!l->row || !l->chunk || !l->out || !l->token) {
    base_fail_memory(e);
  } else if (pthread_create(&l->thread, NULL, run, l)) {
    base_fail(e, BASE_ENV, "no thread for a lane on GPU %d", gpu);
  } else {
    return l;
  }
  free_lane(l);
  return NULL;
}

void device_lane_close(struct device_lane *l)
{
  if (!l)
    return;
  __atomic_store_n(&l->stop, 1, __ATOMIC_RELAXED);
  pthread_mutex_lock(&l->d->lock);
  pthread_cond_broadcast(&l->given);
  pthread_mutex_unlock(&l->d->lock);
  pthread_join(l->thread, NULL);
  free_lane(l);
}
