/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A server and a background job on one GPU, against numbers worked out by hand.
 *
 * Times are in ticks (64 ps). A step of r rows with c context tokens and n prompt tokens is
 * 100 + 10 (r + n) + c ticks of work. Side by side a tick of work lasts 96 ps, 1.5 ticks, unless a
 * test says otherwise, and each lane earns half of the time: 384 units a tick, 768 alone.
 */
#include <check.h>
#include <stdlib.h>

#include "tests/script_policy.h"
#include "tests/suite.h"

enum { TICK = LULL_TICK_PS, SHARE = 12 * LULL_TICK_PS };

/* One request of class batch per line of `a`, and a job of micro-steps of `ticks`. */
static struct stage job_stage(const struct world_arrival *a, uint32_t n, lull_ticks ticks)
{
  struct stage s = stage(a, n);
  s.njobs = 1;
  s.job = (struct world_job){.name = "tuning", .micro_ticks = ticks};
  s.contended_ps = 96;
  return s;
}

/* Runs step by step, then merged; the merged results stay. Both must be good and tell the same. */
static void run(struct stage *s)
{
  base_int128 account[WORLD_ACCOUNTS];
  ck_assert_msg(!stage_run(s, 1), "%s", s->e.text);
  for (int i = 0; i < WORLD_ACCOUNTS; i++)
    account[i] = s->r.account[i];
  stage_end(s);
  ck_assert_msg(!stage_run(s, 0), "%s", s->e.text);
  for (int i = 0; i < WORLD_ACCOUNTS; i++)
    ck_assert(account[i] == s->r.account[i]);
}

static void want_account(const struct stage *s, int account, int64_t units)
{
  ck_assert_msg(s->r.account[account] == units, "%s: %lld, not %lld", world_account_name[account],
                (long long)s->r.account[account], (long long)units);
}

static void want_job(const struct stage *s, uint64_t micro_steps, lull_time busy_ps)
{
  ck_assert_uint_eq(s->r.job[0].micro_steps, micro_steps);
  ck_assert_int_eq(s->r.job[0].busy, busy_ps);
}

static void want_times(const struct stage *s, int id, lull_time chunk_ps, lull_time first_ps,
                       lull_time last_ps)
{
  const struct world_record *r = &s->r.record[id];
  ck_assert_int_eq(r->first_chunk, chunk_ps);
  ck_assert_int_eq(r->first_token, first_ps);
  ck_assert_int_eq(r->last_token, last_ps);
}

/*
 * An endless job. Its first micro-step ends at 100, when the request comes: 180, 118, 119 of work
 * last 270, 177, 178.5: to 370, 547, 725.5. Meanwhile micro-steps of 150 end at 250, 400, 550, 700;
 * the next has 17 ticks done at 725.5 and 83 left: 808.5; then 908.5; at 1000 the eighth is cut.
 * The request earns 576 a tick of work: 176 of 180, 118, 119; 4 are left over.
 */
START_TEST(side_by_side)
{
  const struct world_arrival a[] = {{.time = 100, .prompt = 8, .output = 3, .cls = 1}};
  struct stage s = job_stage(a, 1, 100);
  run(&s);
  want_times(&s, 0, 100 * TICK, 370 * TICK, 725 * TICK + TICK / 2);
  want_job(&s, 7, 1000 * TICK);
  ck_assert_int_eq(s.r.record[0].share, 576 * 413);
  ck_assert_int_eq((int64_t)s.r.cls[1].residue, 576 * 4);
  want_account(&s, WORLD_BATCH_USEFUL, 576 * 417);
  want_account(&s, WORLD_TRAINING, SHARE * 1000 - 576 * 417);
  ck_assert_int_eq(s.r.gpu_busy[0], 1000 * TICK); /* each moment once */
  ck_assert_int_eq(s.r.end, 1000 * TICK);
  stage_end(&s);
}
END_TEST

/*
 * One micro-step of 400 ends at 600. Steps end at 270 and 447; the third has done 153 / 1.5 = 102
 * of 119, the other 17 last as long: 617. Contexts 10 to 17 take 988: 1605. The third step earned
 * 153 * 384 + 17 * 768 = 71808, 603 a tick of 119 and 51 left over.
 */
START_TEST(job_ends_within_a_step)
{
  const struct world_arrival a[] = {{.prompt = 8, .output = 11, .cls = 1}};
  struct stage s = job_stage(a, 1, 400);
  s.job.micro_steps = 1;
  run(&s);
  want_times(&s, 0, 0, 270 * TICK, 1605 * TICK);
  want_job(&s, 1, 600 * TICK);
  ck_assert_int_eq(s.r.gpu_busy[0], 1605 * TICK);
  ck_assert_int_eq(s.r.record[0].share, 576 * (176 + 118) + 603 * 119 + SHARE * 988);
  ck_assert_int_eq((int64_t)s.r.cls[1].residue, 576 * 4 + 51);
  const struct base_hist *h = &s.r.cls[1].itl;
  ck_assert_uint_eq(h->n, 10);
  ck_assert_int_eq((int64_t)h->sum, 1335 * TICK);
  ck_assert_int_eq(h->min, 120 * TICK);
  ck_assert_int_eq(h->max, 177 * TICK);
  want_account(&s, WORLD_TRAINING, SHARE * 300);
  want_account(&s, WORLD_BATCH_USEFUL, SHARE * 1305);
  stage_end(&s);
}
END_TEST

/*
 * The same without slowdown: only the ledger sees the job. It ends at 400, 102 into the third step,
 * which earned 102 * 384 + 17 * 768 = 52224, 438 a tick of 119 and 102 left over.
 */
START_TEST(shares_change_where_speeds_do_not)
{
  const struct world_arrival a[] = {{.prompt = 8, .output = 11, .cls = 1}};
  struct stage s = job_stage(a, 1, 400);
  s.job.micro_steps = 1;
  s.contended_ps = TICK;
  run(&s);
  want_times(&s, 0, 0, 180 * TICK, 1405 * TICK);
  want_job(&s, 1, 400 * TICK);
  ck_assert_int_eq(s.r.record[0].share, 384 * (176 + 118) + 438 * 119 + SHARE * 988);
  ck_assert_int_eq((int64_t)s.r.cls[1].residue, 384 * 4 + 102);
  want_account(&s, WORLD_TRAINING, SHARE * 200);
  want_account(&s, WORLD_BATCH_USEFUL, SHARE * 1205);
  stage_end(&s);
}
END_TEST

/*
 * A contended tick of 100 ps. The first request takes 110 ticks, 11000 ps, as many of the job are
 * done. Alone until 12800 ps it does 28 more in 1800 ps: 8 ps of the split tick are done again. At
 * 23800 ps it has 248 of 1000, and the other 752 take 48128 ps.
 */
START_TEST(split_tick_is_done_again)
{
  const struct world_arrival a[] = {{.prompt = 1, .output = 1, .cls = 1},
                                    {.time = 200, .prompt = 1, .output = 1, .cls = 1}};
  struct stage s = job_stage(a, 2, 1000);
  s.job.micro_steps = 1;
  s.contended_ps = 100;
  s.window = 1200;
  run(&s);
  want_times(&s, 1, 12800, 23800, 23800);
  want_job(&s, 1, 71928);
  want_account(&s, WORLD_BATCH_USEFUL, 6 * 22000);
  want_account(&s, WORLD_TRAINING, 12 * (71928 - 22000) + 6 * 22000);
  want_account(&s, WORLD_IDLE, 12 * (1200 * TICK - 71928));
  stage_end(&s);
}
END_TEST

/*
 * Micro-steps of 150. At 100 the plan for the request pauses the job, whose micro-step has 50 left:
 * 175. The step has 50 of 180 done then and ends at 305, when the server is told that the job has
 * stopped. It lets it run again, which it is told at once. The step earned 75 * 384 + 130 * 768 =
 * 128640, 714 a tick. Four more micro-steps end at 455, 605, 755, 905.
 */
START_TEST(pause_and_run)
{
  const struct world_arrival a[] = {{.time = 100, .prompt = 8, .output = 1, .cls = 1}};
  static const struct act acts[] = {
      {2, ACT_TRAIN, 0, 0}, {2, ACT_TRAIN, 1, 0}, {3, ACT_TRAIN, 0, 1}};
  struct stage s = job_stage(a, 1, 150);
  s.acts = acts;
  s.nacts = 3;
  run(&s);
  want_times(&s, 0, 100 * TICK, 305 * TICK, 305 * TICK);
  want_job(&s, 5, (175 + 695) * TICK);
  ck_assert_int_eq(s.r.record[0].share, 714 * 176);
  want_account(&s, WORLD_BATCH_USEFUL, 128640);
  want_account(&s, WORLD_TRAINING, SHARE * 1000 - 128640);
  ck_assert_uint_eq(s.r.plans, 4);
  const struct world_log_line *l = stage_line(&s, WORLD_LOG_PLAN, 2);
  ck_assert_int_eq(l->time, 305 * TICK);
  ck_assert_int_eq(l->a, LULL_WAKE_CHUNK | LULL_WAKE_FINISH | LULL_WAKE_LANE);
  l = stage_line(&s, WORLD_LOG_PLAN, 3);
  ck_assert_int_eq(l->time, 305 * TICK);
  ck_assert_int_eq(l->a, LULL_WAKE_LANE);
  ck_assert_int_eq(stage_line(&s, WORLD_LOG_TRAIN, 0)->b, 0);
  ck_assert_int_eq(stage_line(&s, WORLD_LOG_TRAIN, 1)->b, LULL_NO_STATE);
  ck_assert_int_eq(stage_line(&s, WORLD_LOG_TRAIN, 2)->b, 1);
  stage_end(&s);
}
END_TEST

/*
 * The second request comes at 60: 40 of 180 are done, and the safe point at 45 is at 67.5. Both
 * prompts then take 260 of work, to 457.5. The lost step earned half of 67.5.
 */
START_TEST(safe_point_is_work)
{
  const struct world_arrival a[] = {{.prompt = 8, .output = 1, .cls = 1},
                                    {.time = 60, .prompt = 8, .output = 1, .cls = 1}};
  struct stage s = job_stage(a, 2, 5000);
  s.abort_on_arrival = 1;
  run(&s);
  ck_assert_uint_eq(s.r.aborts, 1);
  want_times(&s, 0, 67 * TICK + TICK / 2, 457 * TICK + TICK / 2, 457 * TICK + TICK / 2);
  want_account(&s, WORLD_BATCH_WASTED, 45 * 576);
  want_account(&s, WORLD_BATCH_USEFUL, 260 * 576);
  want_job(&s, 0, 1000 * TICK);
  stage_end(&s);
}
END_TEST

/*
 * The job's only micro-step ends at 30, with 20 ticks of the step done. Alone it has 50 at 60, and
 * the safe point at 90 is at 100. The lost step earned 30 * 384 + 70 * 768.
 */
START_TEST(safe_point_after_a_change_of_speed)
{
  const struct world_arrival a[] = {{.prompt = 8, .output = 1, .cls = 1},
                                    {.time = 60, .prompt = 8, .output = 1, .cls = 1}};
  struct stage s = job_stage(a, 2, 20);
  s.job.micro_steps = 1;
  s.abort_on_arrival = 1;
  run(&s);
  want_times(&s, 1, 100 * TICK, 360 * TICK, 360 * TICK);
  want_account(&s, WORLD_BATCH_WASTED, 30 * 384 + 70 * SHARE);
  want_account(&s, WORLD_BATCH_USEFUL, 260 * SHARE);
  want_job(&s, 1, 30 * TICK);
  stage_end(&s);
}
END_TEST

/* ------------------------------------------------------------------------- stalls, refusals --- */

/* Admits a request only when a job has stopped or started. */
static void patient_event(void *st, const struct lull_host *h, const struct lull_event *ev)
{
  if (ev->kind == LULL_EV_ARRIVED)
    h->train(h->ctx, 0, 0);
}

static void patient_plan(void *st, const struct lull_host *h, const struct lull_server *s,
                         struct lull_plan *p)
{
  lull_id id = h->first(h->ctx, s->id, LULL_WAITING, 1);
  if ((p->why & LULL_WAKE_LANE) && id >= 0)
    h->chunk(h->ctx, p, id, 8);
}

static const struct lull_policy patient = {.size = sizeof patient,
                                           .abi = LULL_POLICY_ABI,
                                           .name = "patient",
                                           .summary = "waits for the job to stop",
                                           .event = patient_event,
                                           .plan = patient_plan};
static const struct lull_policy lazy = {.size = sizeof lazy,
                                        .abi = LULL_POLICY_ABI,
                                        .name = "lazy",
                                        .summary = "waits for the job to stop, which it never does",
                                        .plan = patient_plan};

/* The window is over at 101, and nothing is pending but the micro-step that ends at 150: 330. */
START_TEST(waiting_for_a_job_is_no_stall)
{
  const struct world_arrival a[] = {{.time = 100, .prompt = 8, .output = 1, .cls = 1}};
  struct stage s = job_stage(a, 1, 150);
  s.window = 101;
  s.policy = &patient;
  run(&s);
  want_times(&s, 0, 150 * TICK, 330 * TICK, 330 * TICK);
  want_job(&s, 1, 150 * TICK);
  stage_end(&s);
}
END_TEST

/* An endless job does not keep alive a run whose request nobody will ever compute. */
START_TEST(jobs_hide_no_stall)
{
  const struct world_arrival a[] = {{.time = 100, .prompt = 8, .output = 1, .cls = 1}};
  struct stage s = job_stage(a, 1, 150);
  s.policy = &lazy;
  ck_assert_int_eq(stage_run(&s, 0), -1);
  ck_assert_int_eq(s.e.code, BASE_INVARIANT);
  stage_end(&s);
}
END_TEST

START_TEST(jobs_that_cannot_be)
{
  struct stage s = job_stage(NULL, 0, 0);
  ck_assert_int_eq(stage_run(&s, 0), -1);
  ck_assert_int_eq(s.e.code, BASE_INPUT);
  stage_end(&s);
  s = job_stage(NULL, 0, 10);
  s.job.gpu = 1;
  ck_assert_int_eq(stage_run(&s, 0), -1);
  ck_assert_int_eq(s.e.code, BASE_INPUT);
  stage_end(&s);
  s = job_stage(NULL, 0, 10);
  s.contended_ps = 0; /* such a GPU takes none */
  ck_assert_int_eq(stage_run(&s, 0), -1);
  ck_assert_int_eq(s.e.code, BASE_ENV);
  stage_end(&s);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("world jobs");
  TCase *t = tcase_create("by hand");
  tcase_add_test(t, side_by_side);
  tcase_add_test(t, job_ends_within_a_step);
  tcase_add_test(t, shares_change_where_speeds_do_not);
  tcase_add_test(t, split_tick_is_done_again);
  tcase_add_test(t, pause_and_run);
  tcase_add_test(t, safe_point_is_work);
  tcase_add_test(t, safe_point_after_a_change_of_speed);
  tcase_add_test(t, waiting_for_a_job_is_no_stall);
  tcase_add_test(t, jobs_hide_no_stall);
  tcase_add_test(t, jobs_that_cannot_be);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
