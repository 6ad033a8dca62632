/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Background jobs: one micro-step after another on a training lane beside a server, and what
 * sharing a GPU means for the ledger.
 *
 * An active set changes only between two moves of time (F4), and the device has then reported all
 * steps that ended under the old set. So at most the step under way has seen several sets: what it
 * earned up to the last change, and how long its kernels ran, is kept beside the moment of that
 * change.
 */
#include <stdlib.h>

#include "sim/world/internal.h"

static int init_job(struct world *w, uint32_t i)
{
  struct job *j = &w->job[i];
  const struct world_job *c = j->cfg = &w->cfg->job[i];
  j->run = !c->paused;
  j->done = &w->out->job[i];
  for (uint32_t k = 0; k < w->nservers; k++) {
    if (w->srv[k].cfg->gpu == c->gpu)
      j->server = &w->srv[k];
  }
  j->server->job = j;
  int lane = world_open_lane(w, c->gpu, LULL_LANE_TRAIN, (int)i);
  if (lane < 0)
    return world_refused(w, lane, "the device opens no training lane on GPU %d for job '%s'", c->gpu,
                         c->name);
  j->lane = (lull_lane_id)lane;
  return 0;
}

int jobs_init(struct world *w)
{
  if (!w->njobs)
    return 0;
  w->job = calloc(w->njobs, sizeof *w->job);
  if (!w->job)
    return base_fail_memory(w->err);
  for (uint32_t i = 0; i < w->njobs; i++) {
    if (init_job(w, i))
      return -1;
  }
  return 0;
}

/* Will a micro-step follow the one under way, or start if there is none? */
static int job_goes_on(const struct job *j)
{
  uint64_t begun = j->done->micro_steps + j->busy;
  return j->run && (!j->cfg->micro_steps || begun < j->cfg->micro_steps);
}

int jobs_submit(struct world *w)
{
  for (uint32_t i = 0; i < w->njobs; i++) {
    struct job *j = &w->job[i];
    if (j->busy || !job_goes_on(j))
      continue;
    struct lull_work work = {.size = sizeof work,
                             .kind = LULL_WORK_TRAIN_MICRO,
                             .lane = j->lane,
                             .ticks = j->cfg->micro_ticks,
                             .tag = i};
    int st = w->ops->submit(w->dev, &work);
    if (st != LULL_DEV_OK)
      return world_refused(w, st, "job '%s': the device refused a micro-step", j->cfg->name);
    j->busy = 1;
  }
  return 0;
}

int job_completed(struct world *w, struct job *j, const struct lull_completion *c)
{
  if (c->status != LULL_DEV_OK)
    return world_refused(w, c->status, "job '%s': the device failed a micro-step", j->cfg->name);
  if (!c->final || w->closing)
    return 0;
  j->busy = 0;
  j->done->micro_steps++;
  return 0;
}

int jobs_changed(struct world *w)
{
  int asked = 0;
  for (uint32_t i = 0; i < w->njobs; i++) {
    struct job *j = &w->job[i];
    uint8_t active = j->busy || job_goes_on(j);
    if (active == j->active)
      continue;
    j->active = active;
    if (j->server->plan.wake & LULL_WAKE_LANE) {
      want(w, j->server, LULL_WAKE_LANE);
      asked = 1;
    }
  }
  return asked;
}

int job_will_wake(const struct server *s)
{
  return s->job && s->job->busy && !job_goes_on(s->job) && (s->plan.wake & LULL_WAKE_LANE);
}

/* The active set changes at `at`, within the step under way: what it was until then. */
static void settle_step(struct world *w, struct server *s, lull_time at)
{
  lull_time kernels = at > s->mark ? step_kernels(w, s, s->mark, at) : 0;
  if (s->unit == WORLD_CREDIT)
    w->out->gpu_busy[s->cfg->gpu] += kernels;
  s->counted += kernels;
  s->earned += (base_int128)s->unit * (at - s->mark);
  s->mark = at;
}

/* Time moved: what the job earned, and a new rate for the step beside it. */
void jobs_pass_time(struct world *w, lull_time from, lull_time to)
{
  if (from == to)
    return;
  for (uint32_t i = 0; i < w->njobs; i++) {
    struct job *j = &w->job[i];
    struct server *s = j->server;
    int unit = s->busy && j->busy ? WORLD_CREDIT / 2 : WORLD_CREDIT;
    if (j->busy) {
      account_charge(w, s, WORLD_TRAINING, (base_int128)unit * (to - from));
      j->done->busy += to - from;
      w->out->gpu_busy[s->cfg->gpu] += to - from;
    }
    if (!s->busy || s->unit == unit)
      continue;
    settle_step(w, s, from);
    s->unit = unit;
  }
}
