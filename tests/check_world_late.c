/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The world on a device that is late (F15), with numbers worked out by hand: it comes back at
 * multiples of a grid only. Times are in ticks (64 ps), costs those of stage(): a step of r rows
 * with c context tokens and n prompt tokens lasts 100 + 10 (r + n) + c.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/script_policy.h"
#include "tests/suite.h"

enum { TICK = LULL_TICK_PS, SHARE = 12 * LULL_TICK_PS };

static void want_event(const struct stage *s, int nth, int kind, int64_t id, int64_t at)
{
  const struct world_log_line *l = stage_line(s, WORLD_LOG_EVENT, nth);
  ck_assert_msg(l && l->a == kind && l->b == id && l->time == at * TICK,
                "event %d is %d of %d at %lld", nth, l ? (int)l->a : 0, l ? (int)l->b : 0,
                l ? (long long)l->time / TICK : 0);
}

/*
 * A's prompt lasts 0 to 180, and nobody hears of it before 1000, nor of B, who came at 100, and C,
 * at 300. All are taken in at 1000, in the order of their own times. B and C then have a step
 * together, of 100 + 10 * 16 = 260, until 1260, which is told at 2000.
 */
START_TEST(in_the_order_of_their_times)
{
  const struct world_arrival a[] = {{.time = 0, .prompt = 8, .output = 1},
                                    {.time = 100, .prompt = 8, .output = 1},
                                    {.time = 300, .prompt = 8, .output = 1}};
  struct stage s = stage(a, 3);
  s.grid = 1000;
  s.window = 1500;
  ck_assert_msg(!stage_run(&s, 0), "%s", s.e.text);
  want_event(&s, 0, LULL_EV_ARRIVED, 0, 0);
  want_event(&s, 1, LULL_EV_ARRIVED, 1, 1000);
  want_event(&s, 2, LULL_EV_FINISHED, 0, 1000);
  want_event(&s, 3, LULL_EV_ARRIVED, 2, 1000);
  want_event(&s, 4, LULL_EV_FINISHED, 1, 2000);
  const struct world_record *r = s.r.record;
  ck_assert(r[0].first_token == 180 * TICK && r[0].arrival == 0);
  ck_assert(r[1].arrival == 100 * TICK && r[2].arrival == 300 * TICK);
  ck_assert(r[1].first_chunk == 1000 * TICK && r[1].first_token == 1260 * TICK);
  ck_assert(r[0].met && !r[1].met); /* targets are held to when it was, not when it was told */
  ck_assert_int_eq(s.r.end, 2000 * TICK);
  /* 180 to 1000 somebody waits; 1260 to 1500 too, as far as anybody knows, then it is drained */
  ck_assert(s.r.account[WORLD_IDLE_WAITING] == (base_int128)SHARE * (820 + 240));
  ck_assert(s.r.account[WORLD_DRAIN] == (base_int128)SHARE * 500);
  ck_assert(s.r.paid == (base_int128)SHARE * 2000);
  ck_assert_int_eq(s.r.gpu_busy[0], 440 * TICK);
  stage_end(&s);
}
END_TEST

/* A job beside it has the GPU alone from the end of the step on. */
START_TEST(beside_a_job)
{
  const struct world_arrival a[] = {{.time = 0, .prompt = 8, .output = 1}};
  struct stage s = stage(a, 1);
  s.grid = 1000;
  s.window = 900;
  s.contended_ps = TICK;
  s.njobs = 1;
  s.job = (struct world_job){.name = "job", .micro_steps = 1, .micro_ticks = 700};
  ck_assert_msg(!stage_run(&s, 0), "%s", s.e.text);
  ck_assert_int_eq(s.r.end, 1000 * TICK);
  ck_assert_uint_eq(s.r.job[0].micro_steps, 1);
  /* until 180 both are active: half of it is the step's; the job is charged until it is told of */
  ck_assert(s.r.account[WORLD_TRAINING] == (base_int128)SHARE * (1000 - 90));
  ck_assert(s.r.account[WORLD_LIVE_USEFUL] == (base_int128)SHARE * 90);
  stage_end(&s);
}
END_TEST

/* Two steps that end at one moment are both taken in before the first event tells of them. */
static int both;

static void look(void *st, const struct lull_host *h, const struct lull_event *ev)
{
  (void)st;
  if (ev->kind == LULL_EV_FINISHED && ev->request == 0)
    both = h->request(h->ctx, 1)->state == LULL_FINISHED;
}

static void plan(void *st, const struct lull_host *h, const struct lull_server *s,
                 struct lull_plan *p);

START_TEST(of_one_moment)
{
  static const struct lull_policy looker = {
      .size = sizeof looker, .abi = LULL_POLICY_ABI, .name = "looker", .event = look, .plan = plan};
  const struct world_arrival a[] = {{.time = 0, .prompt = 8, .output = 1},
                                    {.time = 0, .prompt = 8, .output = 1},
                                    {.time = 300, .prompt = 8, .output = 1}};
  struct stage s = stage(a, 3);
  s.policy = &looker;
  s.twins = 1;
  s.grid = 1000;
  both = 0;
  ck_assert_msg(!stage_run(&s, 0), "%s", s.e.text);
  ck_assert(s.r.record[0].first_token == 180 * TICK && s.r.record[1].first_token == 180 * TICK);
  ck_assert(both);
  stage_end(&s);
}
END_TEST

/* Of two moments the first is told of before the second is taken in, whatever else was due. */
START_TEST(of_two_moments)
{
  static const struct lull_policy looker = {
      .size = sizeof looker, .abi = LULL_POLICY_ABI, .name = "looker", .event = look, .plan = plan};
  const struct world_arrival a[] = {{.time = 0, .prompt = 8, .output = 1},
                                    {.time = 0, .prompt = 24, .output = 1},
                                    {.time = 300, .prompt = 8, .output = 1}};
  struct stage s = stage(a, _i ? 3 : 2);
  s.policy = &looker;
  s.twins = 1;
  s.grid = 1000;
  both = -1;
  ck_assert_msg(!stage_run(&s, 0), "%s", s.e.text);
  ck_assert(s.r.record[0].first_token == 180 * TICK && s.r.record[1].first_token == 340 * TICK);
  ck_assert_int_eq(both, 0);
  stage_end(&s);
}
END_TEST

/* The order of times holds too where arrivals may wait, as nobody hears of them. A, on server 0,
 * lasts until 340 and B, on server 1, until 180: C, who came at 200, goes to server 1, as that one
 * had nobody then. */
static void plan_deaf(void *st, const struct lull_host *h, const struct lull_server *s,
                      struct lull_plan *p)
{
  (void)st;
  p->wake &= ~(uint32_t)LULL_WAKE_ARRIVAL;
  lull_id id = h->first(h->ctx, s->id, LULL_WAITING, 0);
  if (id >= 0)
    h->chunk(h->ctx, p, id, 64);
}

START_TEST(unheard_arrivals)
{
  static const struct lull_policy deaf = {
      .size = sizeof deaf, .abi = LULL_POLICY_ABI, .name = "deaf", .plan = plan_deaf};
  const struct world_arrival a[] = {{.time = 0, .prompt = 24, .output = 1},
                                    {.time = 0, .prompt = 8, .output = 1},
                                    {.time = 200, .prompt = 8, .output = 1}};
  struct stage s = stage(a, 3);
  s.policy = &deaf;
  s.twins = s.unheard = 1;
  s.grid = 1000;
  ck_assert_msg(!stage_run(&s, 0), "%s", s.e.text);
  const struct world_record *r = s.r.record;
  ck_assert(r[0].server == 0 && r[0].first_token == 340 * TICK);
  ck_assert(r[1].server == 1 && r[1].first_token == 180 * TICK);
  ck_assert_int_eq(r[2].server, 1);
  stage_end(&s);
}
END_TEST

/* ------------------------------------------------------------------------------------- timers ---
 */

static int timers, late;

/* Ticks once a microsecond by the times that its events say. */
static void tick(void *st, const struct lull_host *h, const struct lull_event *ev)
{
  (void)st;
  if (ev->kind == LULL_EV_ARRIVED && ev->request == 0)
    h->timer(h->ctx, ev->at + 1000000, 1);
  if (ev->kind != LULL_EV_TIMER)
    return;
  timers++;
  late += ev->at < ev->time;
  if (timers < 30)
    h->timer(h->ctx, ev->at + 1000000, 1);
}

/* The same, but for the moment that has just been. */
static void stand(void *st, const struct lull_host *h, const struct lull_event *ev)
{
  if (ev->kind == LULL_EV_TIMER)
    h->timer(h->ctx, ev->at, 1);
  else
    tick(st, h, ev);
}

static void plan(void *st, const struct lull_host *h, const struct lull_server *s,
                 struct lull_plan *p)
{
  (void)st;
  for (lull_id id = h->first(h->ctx, s->id, LULL_WAITING, 0), next; id >= 0; id = next) {
    next = h->request(h->ctx, id)->next;
    h->chunk(h->ctx, p, id, 24);
  }
}

/* A microsecond is 15,625 ticks, the grid 6.4 of them: a timer that is set by the time of the last
 * one always lies in the past. That is the device's fault, not the policy's. */
START_TEST(timers_of_the_past)
{
  static const struct lull_policy ticker = {
      .size = sizeof ticker, .abi = LULL_POLICY_ABI, .name = "ticker", .event = tick, .plan = plan};
  const struct world_arrival a[] = {{.time = 0, .prompt = 8, .output = 1}};
  struct stage s = stage(a, 1);
  s.policy = &ticker;
  s.grid = 100000;
  s.window = 5000000;
  timers = late = 0;
  ck_assert_msg(!stage_run(&s, 0), "%s", s.e.text);
  ck_assert_int_eq(timers, 30);
  ck_assert_int_gt(late, 25);
  stage_end(&s);
}
END_TEST

/* F24 still holds. */
START_TEST(timers_that_stand_still)
{
  static const struct lull_policy stander = {.size = sizeof stander,
                                             .abi = LULL_POLICY_ABI,
                                             .name = "stander",
                                             .event = stand,
                                             .plan = plan};
  const struct world_arrival a[] = {{.time = 0, .prompt = 8, .output = 1}};
  struct stage s = stage(a, 1);
  s.policy = &stander;
  s.grid = 100000;
  s.window = 5000000;
  timers = late = 0;
  ck_assert_int_eq(stage_run(&s, 0), -1);
  ck_assert(s.e.code == BASE_INVARIANT && strstr(s.e.text, "within a timer event"));
  stage_end(&s);
}
END_TEST

/* A timer turns the first that waits away, and the news of that sets one for now. */
static void turn_away(void *st, const struct lull_host *h, const struct lull_event *ev)
{
  (void)st;
  if (ev->kind == LULL_EV_ARRIVED)
    h->timer(h->ctx, 1000000, 1);
  if (ev->kind == LULL_EV_TIMER && ++timers)
    h->reject(h->ctx, h->first(h->ctx, 0, LULL_WAITING, 0), 1);
  if (ev->kind == LULL_EV_FAILED)
    h->timer(h->ctx, ev->time, 1);
}

static void plan_nothing(void *st, const struct lull_host *h, const struct lull_server *s,
                         struct lull_plan *p)
{
  (void)st, (void)h, (void)s, (void)p;
}

/* F24 is of TIMER events, not of those that they cause. */
START_TEST(timers_after_a_timer)
{
  static const struct lull_policy turner = {.size = sizeof turner,
                                            .abi = LULL_POLICY_ABI,
                                            .name = "turner",
                                            .event = turn_away,
                                            .plan = plan_nothing};
  const struct world_arrival a[] = {{.time = 0, .prompt = 8, .output = 1},
                                    {.time = 0, .prompt = 8, .output = 1},
                                    {.time = 0, .prompt = 8, .output = 1}};
  struct stage s = stage(a, 3);
  s.policy = &turner;
  s.window = 5000000;
  timers = 0;
  ck_assert_msg(!stage_run(&s, 0), "%s", s.e.text);
  ck_assert_int_eq(timers, 6); /* three arrivals and three ends set one each */
  ck_assert_uint_eq(s.r.cls[0].rejected, 3);
  stage_end(&s);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("world late");
  TCase *t = tcase_create("late");
  tcase_add_test(t, in_the_order_of_their_times);
  tcase_add_test(t, beside_a_job);
  tcase_add_test(t, of_one_moment);
  tcase_add_loop_test(t, of_two_moments, 0, 2);
  tcase_add_test(t, unheard_arrivals);
  tcase_add_test(t, timers_of_the_past);
  tcase_add_test(t, timers_that_stand_still);
  tcase_add_test(t, timers_after_a_timer);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
