/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The naive world's background jobs, and how fast lanes that share a GPU go: rules F4 and F5.
 */
#include "tests/naive_inner.h"

lull_time naive_end_of(const struct naive_pace *p)
{
  return p->since + (p->goal - p->done) * p->speed;
}

/* Work of a lane of s's GPU starts now, at the speed that the GPU has had so far. */
void naive_start(struct naive_world *w, const struct naive_server *s, struct naive_pace *p,
                 lull_ticks ticks)
{
  *p = (struct naive_pace){
      .goal = ticks, .since = w->now, .speed = s->sharing ? s->gpu->contended_ps : LULL_TICK_PS};
}

void naive_set_up_jobs(struct naive_world *w)
{
  for (uint32_t i = 0; i < w->cfg->njobs; i++) {
    w->job[i].c = &w->cfg->job[i];
    w->job[i].run = !w->cfg->job[i].paused;
    for (uint32_t k = 0; k < w->cfg->nservers; k++)
      if (w->server[k].c->gpu == w->cfg->job[i].gpu)
        w->server[k].job = &w->job[i];
  }
}

/* Micro-steps that end now. */
void naive_jobs_done(struct naive_world *w)
{
  for (uint32_t i = 0; i < w->cfg->njobs; i++) {
    struct naive_job *j = &w->job[i];
    if (!j->stepping || naive_end_of(&j->pace) > w->now)
      continue;
    j->stepping = 0;
    j->micro_steps++;
  }
}

/* Is a micro-step due as soon as none is under way? */
static int is_due(const struct naive_job *j)
{
  uint64_t left = j->c->micro_steps - j->micro_steps - (uint64_t)j->stepping;
  return j->run && (!j->c->micro_steps || left);
}

/* Once all is quiet: servers that ask for it are told which jobs have started or stopped. */
void naive_jobs_told(struct naive_world *w)
{
  for (uint32_t i = 0; i < w->cfg->nservers; i++) {
    struct naive_server *s = &w->server[i];
    int active = s->job && (s->job->stepping || is_due(s->job));
    if (!s->job || active == s->job->told)
      continue;
    s->job->told = active;
    if (s->plan.wake & LULL_WAKE_LANE)
      s->reasons |= LULL_WAKE_LANE;
  }
}

void naive_jobs_submit(struct naive_world *w)
{
  for (uint32_t i = 0; i < w->cfg->nservers; i++) {
    struct naive_job *j = w->server[i].job;
    if (!j || j->stepping || !is_due(j))
      continue;
    naive_start(w, &w->server[i], &j->pace, j->c->micro_ticks);
    j->stepping = 1;
  }
}

/* The end of a micro-step may be the next moment; but if nothing else can happen, only one that a
 * server waits for is (F14). */
void naive_jobs_next(struct naive_world *w, lull_time *t)
{
  int wakes = 0;
  for (uint32_t i = 0; i < w->cfg->nservers; i++) {
    const struct naive_server *s = &w->server[i];
    wakes |= s->job && s->job->stepping && !is_due(s->job) && (s->plan.wake & LULL_WAKE_LANE);
  }
  if (*t == LULL_NEVER && !wakes)
    return;
  for (uint32_t i = 0; i < w->cfg->njobs; i++)
    if (w->job[i].stepping && naive_end_of(&w->job[i].pace) < *t)
      *t = naive_end_of(&w->job[i].pace);
}

/* From now on at another speed: whole ticks count, a split one is done again. */
static void change_speed(struct naive_world *w, struct naive_pace *p, lull_time speed)
{
  if (p->speed == speed)
    return;
  p->done += (w->now - p->since) / p->speed;
  p->since = w->now;
  p->speed = speed;
}

/* Time is about to move: lanes that share a GPU in it do so at the GPU's contended speed. */
void naive_share(struct naive_world *w)
{
  for (uint32_t i = 0; i < w->cfg->nservers; i++) {
    struct naive_server *s = &w->server[i];
    if (!s->job)
      continue;
    s->sharing = s->stepping && s->job->stepping;
    lull_time speed = s->sharing ? s->gpu->contended_ps : LULL_TICK_PS;
    if (s->stepping)
      change_speed(w, &s->pace, speed);
    if (s->job->stepping)
      change_speed(w, &s->job->pace, speed);
  }
}
