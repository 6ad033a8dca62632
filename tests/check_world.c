/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The world against numbers worked out by hand.
 *
 * Times are in ticks (64 ps). Unless a test says otherwise a step of r rows with c context tokens
 * and n prompt tokens lasts 100 + 10 (r + n) + c ticks, a block has 4 tokens, a copy takes 50 ticks
 * a block. A share of x ticks is 768 x in the ledger's unit (64 ps times 12).
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "sim/policies.h"
#include "tests/script_policy.h"
#include "tests/suite.h"

enum { TICK = LULL_TICK_PS, SHARE = 12 * LULL_TICK_PS };

/* Runs step by step, then merged; the merged results stay. Both must be good. */
static void run(struct stage *s)
{
  for (int stepwise = 1; stepwise >= 0; stepwise--) {
    if (!stepwise)
      stage_end(s);
    int rc = stage_run(s, stepwise);
    ck_assert_msg(!rc, "%s", s->e.text);
  }
}

static void want_account(const struct stage *s, int account, int64_t units)
{
  ck_assert_msg(s->r.account[account] == units, "%s: %lld, not %lld", world_account_name[account],
                (long long)s->r.account[account], (long long)units);
}

/* When a request began, emitted first and last, in ticks. */
static void want_times(const struct stage *s, int id, int64_t chunk, int64_t first, int64_t last)
{
  const struct world_record *r = &s->r.record[id];
  ck_assert_int_eq(r->first_chunk, chunk * TICK);
  ck_assert_int_eq(r->first_token, first * TICK);
  ck_assert_int_eq(r->last_token, last * TICK);
  ck_assert_int_eq(r->fate, WORLD_DONE);
  ck_assert_uint_eq(r->generated, r->output);
}

static void want_gaps(const struct stage *s, int cls, uint64_t n, int64_t sum, int64_t min,
                      int64_t max)
{
  const struct base_hist *h = &s->r.cls[cls].itl;
  ck_assert_uint_eq(h->n, n);
  ck_assert_int_eq((int64_t)h->sum, sum * TICK);
  ck_assert_int_eq(h->min, min * TICK);
  ck_assert_int_eq(h->max, max * TICK);
}

/* ------------------------------------------------------------------------------ one by one --- */

/*
 * Arrives at 100. Its prompt: 100 + 80 = 180, so the first token is out at 280; then contexts 8 and
 * 9: 118 and 119, tokens at 398 and 517. TTFT 180, TPOT (517 - 280) / 2 = 118.5.
 * Shares: the prompt step has u = floor(180 / 8) = 22, so 8 * 22 = 176 of 180, 4 are left over; the
 * decode steps go to it whole.
 */
START_TEST(one_request)
{
  const struct world_arrival a[] = {{.time = 100, .prompt = 8, .output = 3}};
  struct stage s = stage(a, 1);
  run(&s);
  want_times(&s, 0, 100, 280, 517);
  ck_assert_int_eq(s.r.record[0].met, 1);
  ck_assert_int_eq(s.r.record[0].share, SHARE * (176 + 118 + 119));
  ck_assert_int_eq((int64_t)s.r.cls[0].residue, SHARE * 4);
  want_gaps(&s, 0, 2, 237, 118, 119);
  want_account(&s, WORLD_LIVE_USEFUL, SHARE * 417);
  want_account(&s, WORLD_IDLE, SHARE * 583);
  ck_assert_int_eq(s.r.end, 1000 * TICK);
  ck_assert_int_eq(s.r.gpu_busy[0], 417 * TICK);
  ck_assert_uint_eq(s.r.steps, 3);
  stage_end(&s);
}
END_TEST

/* The target of the TPOT is inclusive and compared without rounding: 118.5 ticks. */
START_TEST(slo_is_inclusive)
{
  const struct world_arrival a[] = {{.time = 100, .prompt = 8, .output = 3}};
  static const struct {
    lull_time ttft, tpot;
    int met;
  } c[] = {{180 * TICK, 118 * TICK + TICK / 2, 1},
           {180 * TICK, 118 * TICK + TICK / 2 - 1, 0},
           {180 * TICK - 1, 200 * TICK, 0}};
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
    struct stage s = stage(a, 1);
    s.cls[0].slo_ttft = c[i].ttft;
    s.cls[0].slo_tpot = c[i].tpot;
    run(&s);
    ck_assert_int_eq(s.r.record[0].met, c[i].met);
    want_account(&s, WORLD_LIVE_LATE, c[i].met ? 0 : SHARE * 413);
    ck_assert_uint_eq(s.r.cls[0].useful_tokens, c[i].met ? 3 : 0);
    stage_end(&s);
  }
}
END_TEST

/*
 * A budget of 10 tokens. Step 1: all 6 of A and 4 of B: 200. A emits. Step 2: A's row (context 6)
 * and 9 of B: 100 + 100 + 6 = 206, at 406 A is done. 3 of B are left: 130, at 536 B emits.
 */
START_TEST(chunked_prefill)
{
  const struct world_arrival a[] = {{.prompt = 6, .output = 2}, {.prompt = 16, .output = 1}};
  struct stage s = stage(a, 2);
  s.server.token_budget = 10;
  run(&s);
  want_times(&s, 0, 0, 200, 406);
  want_times(&s, 1, 0, 536, 536);
  ck_assert_uint_eq(s.r.steps, 3);
  want_gaps(&s, 0, 1, 206, 206, 206);
  const struct world_log_line *l = stage_line(&s, WORLD_LOG_CHUNK, 1);
  ck_assert_int_eq(l->a, 1);
  ck_assert_int_eq(l->b, 4);
  ck_assert_int_eq(stage_line(&s, WORLD_LOG_CHUNK, 2)->b, 9);
  ck_assert_int_eq(stage_line(&s, WORLD_LOG_CHUNK, 3)->b, 3);
  stage_end(&s);
}
END_TEST

/*
 * 12 prompt tokens in chunks of 4, one plan: three equal steps of 140, planned once more only when
 * the prompt is complete (after the second step 4 are left, which is a whole chunk).
 */
START_TEST(plan_stands_for_equal_chunks)
{
  const struct world_arrival a[] = {{.prompt = 12, .output = 1, .cls = 1}};
  struct stage s = stage(a, 1);
  s.server.token_budget = 4;
  run(&s);
  want_times(&s, 0, 0, 420, 420);
  ck_assert_uint_eq(s.r.steps, 3);
  ck_assert_uint_eq(s.r.plans, 2);
  const struct world_log_line *l = stage_line(&s, WORLD_LOG_PLAN, 1);
  ck_assert_int_eq(l->a, LULL_WAKE_CHUNK | LULL_WAKE_FINISH);
  ck_assert_int_eq(l->b, 3);
  stage_end(&s);
}
END_TEST

/*
 * A pool of 4 blocks, two requests of 4 + 8 tokens. Prompts: 180. Both decode with contexts 8, 10,
 * 12, 14: 128, 130, 132, 134 to 704; then each holds 8 tokens in 2 blocks and the ninth does not
 * fit: KV, blocks_left -2. The script does nothing, so the net takes out B: 8 tokens discarded.
 * A goes on alone, contexts 8, 9, 10: 118, 119, 120, done at 1061. B computes 4 + 5 tokens anew:
 * 190, its sixth token at 1251, 547 after its fifth; contexts 9, 10: 119, 120, done at 1490.
 * Shares: 4 * 22 of the prompt step, half of 524 together; 9 * 21 of 190; the rest whole.
 */
START_TEST(shortage_and_recompute)
{
  const struct world_arrival a[] = {{.prompt = 4, .output = 8, .cls = 1},
                                    {.prompt = 4, .output = 8, .cls = 1}};
  struct stage s = stage(a, 2);
  s.server.kv_blocks = 4;
  run(&s);
  want_times(&s, 0, 0, 180, 1061);
  want_times(&s, 1, 0, 180, 1490);
  ck_assert_uint_eq(s.r.forced, 1);
  ck_assert_uint_eq(s.r.record[1].preempts, 1);
  ck_assert_uint_eq(s.r.record[1].discarded, 8);
  ck_assert_int_eq(s.r.record[0].share, SHARE * (88 + 262 + 357));
  ck_assert_int_eq(s.r.record[1].share, SHARE * (189 + 239));
  ck_assert_int_eq(s.r.record[1].wasted, SHARE * (88 + 262));
  want_account(&s, WORLD_BATCH_WASTED, SHARE * 350);
  want_account(&s, WORLD_BATCH_USEFUL, SHARE * (1490 - 350));
  const struct world_log_line *l = stage_line(&s, WORLD_LOG_FORCED, 0);
  ck_assert_int_eq(l->time, 704 * TICK);
  ck_assert_int_eq(l->a, 1);
  want_gaps(&s, 1, 14, 2 * 524 + 357 + 547 + 239, 118, 547);
  ck_assert_int_eq(s.r.end, 1490 * TICK);
  stage_end(&s);
}
END_TEST

/*
 * The prompt's 2 blocks go out at 180 and are back at 380: 100 ticks each way. In between HELD and
 * SWAPPED are told by TRANSFER. Then contexts 8, 9, 10: 118, 119, 120: 737; the second token is 318
 * after the first. Nothing runs for 200 ticks: exposed transfer.
 */
START_TEST(swap_out_and_in)
{
  const struct world_arrival a[] = {{.prompt = 8, .output = 4, .cls = 1}};
  static const struct act acts[] = {
      {2, ACT_PREEMPT, 0, LULL_SWAP}, {3, ACT_RESUME, 0, 0}, {4, ACT_RESUME, 0, 0}};
  struct stage s = stage(a, 1);
  s.acts = acts;
  s.nacts = 3;
  run(&s);
  want_times(&s, 0, 0, 180, 737);
  want_gaps(&s, 1, 3, 318 + 119 + 120, 119, 318);
  want_account(&s, WORLD_EXPOSED_TRANSFER, SHARE * 200);
  want_account(&s, WORLD_IDLE, SHARE * 263);
  ck_assert_uint_eq(s.r.swaps, 2);
  ck_assert_uint_eq(s.r.record[0].preempts, 1);
  ck_assert_uint_eq(s.r.record[0].discarded, 0);
  ck_assert_int_eq(stage_line(&s, WORLD_LOG_PLAN, 2)->time, 280 * TICK);
  ck_assert_int_eq(stage_line(&s, WORLD_LOG_PLAN, 2)->a, LULL_WAKE_TRANSFER);
  ck_assert_int_eq(stage_line(&s, WORLD_LOG_PLAN, 3)->time, 380 * TICK);
  stage_end(&s);
}
END_TEST

/*
 * Two prompts of 4: 180. Together, contexts 8: 128 to 308. Plan 3 (after one step) holds B; A alone
 * with contexts 5, 6: 115, 116 to 539. Plan 4 (after two) resumes B: contexts 7 and 5: 132 to 671,
 * B's third and last token, 363 after its second. A's sixth: context 8: 118, done at 789.
 */
START_TEST(hold_and_resume)
{
  const struct world_arrival a[] = {{.prompt = 4, .output = 6, .cls = 1},
                                    {.prompt = 4, .output = 3, .cls = 1}};
  static const struct act acts[] = {{2, ACT_WAKE_STEPS, 0, 1},
                                    {3, ACT_PREEMPT, 1, LULL_HOLD},
                                    {3, ACT_WAKE_STEPS, 0, 2},
                                    {4, ACT_RESUME, 1, 0}};
  struct stage s = stage(a, 2);
  s.acts = acts;
  s.nacts = 4;
  run(&s);
  want_times(&s, 0, 0, 180, 789);
  want_times(&s, 1, 0, 180, 671);
  want_gaps(&s, 1, 7, 2 * 128 + 115 + 116 + 132 + 118 + 363, 115, 363);
  ck_assert_int_eq(stage_line(&s, WORLD_LOG_PLAN, 3)->time, 539 * TICK);
  ck_assert_int_eq(stage_line(&s, WORLD_LOG_PLAN, 3)->a, LULL_WAKE_STEPS);
  ck_assert_int_eq(stage_line(&s, WORLD_LOG_PLAN, 3)->b, 2);
  ck_assert_uint_eq(s.r.record[1].preempts, 1);
  stage_end(&s);
}
END_TEST

/*
 * Four layers. B's prompt: 140; its next step (context 4) would last 114, from 140 to 254. L
 * arrives at 200, 60 ticks into it: safe points are at 28, 57, 85: it ends at 225 and its 85 ticks
 * are wasted. Then B's row and L's 8 tokens: 100 + 90 + 4 = 194, at 419 both emit; B's second token
 * is 279 after its first.
 */
START_TEST(abort_at_a_safe_point)
{
  const struct world_arrival a[] = {{.prompt = 4, .output = 2, .cls = 1},
                                    {.time = 200, .prompt = 8, .output = 1}};
  struct stage s = stage(a, 2);
  s.abort_on_arrival = 1;
  run(&s);
  want_times(&s, 0, 0, 140, 419);
  want_times(&s, 1, 225, 419, 419);
  ck_assert_uint_eq(s.r.aborts, 1);
  ck_assert_uint_eq(s.r.steps, 2);
  want_account(&s, WORLD_BATCH_WASTED, SHARE * 85);
  want_gaps(&s, 1, 1, 279, 279, 279);
  ck_assert_int_eq(stage_line(&s, WORLD_LOG_PLAN, 2)->a, LULL_WAKE_ABORT | LULL_WAKE_ARRIVAL);
  stage_end(&s);
}
END_TEST

/* At a boundary abort_step does nothing: L arrives exactly at 140. */
START_TEST(abort_at_a_boundary)
{
  const struct world_arrival a[] = {{.prompt = 4, .output = 2, .cls = 1},
                                    {.time = 140, .prompt = 8, .output = 1}};
  struct stage s = stage(a, 2);
  s.abort_on_arrival = 1;
  run(&s);
  ck_assert_uint_eq(s.r.aborts, 0);
  want_times(&s, 0, 0, 140, 334);
  want_times(&s, 1, 140, 334, 334);
  stage_end(&s);
}
END_TEST

/*
 * Three tokens computed a row and step, acceptance 1/2: 1 + 1/2 + 1/4 = 1.75 tokens a step. Prompt:
 * 140. Contexts 4, 5.75, 7.5 count as 4, 5, 7: 134, 135, 137 to 546. Tokens after 1, 2, 3 steps: 1,
 * 3, 5: the sixth is out at 546. One gap a step.
 */
START_TEST(speculation)
{
  const struct world_arrival a[] = {
      {.prompt = 4, .output = 6, .accept_q16 = LULL_Q16_ONE / 2, .cls = 1}};
  struct stage s = stage(a, 1);
  s.server.row_tokens = 3;
  run(&s);
  ck_assert_uint_eq(world_rate_q16(LULL_Q16_ONE / 2, 2), 114688);
  ck_assert_uint_eq(world_rate_q16(LULL_Q16_ONE / 2, 0), LULL_Q16_ONE);
  want_times(&s, 0, 0, 140, 546);
  want_gaps(&s, 1, 3, 406, 134, 137);
  stage_end(&s);
}
END_TEST

/* ------------------------------------------------------------------------------ ends of a run ---
 */

/*
 * Two at a time, each 4 prompt tokens and one output token: 180 a pair. Pairs are released at 0,
 * 180, ..., 900, the window ends at 1000, the last pair is done at 1080.
 */
START_TEST(backlog)
{
  struct stage s = stage(NULL, 0);
  s.backlog = (struct world_backlog){.cls = 1, .below = 2};
  s.nbacklogs = 1;
  s.backlog_prompt = 4;
  s.backlog_output = 1;
  run(&s);
  ck_assert_uint_eq(s.r.released, 12);
  ck_assert_uint_eq(s.r.cls[1].finished, 12);
  ck_assert_uint_eq(s.r.cls[1].useful_tokens, 12);
  want_times(&s, 11, 900, 1080, 1080);
  ck_assert_int_eq(s.r.end, 1080 * TICK);
  want_account(&s, WORLD_BATCH_USEFUL, SHARE * 1080);
  stage_end(&s);
}
END_TEST

/*
 * The prompt is done at 1080, the deadline is 1100: one token, and 20 ticks of a step that is cut.
 * It earned 176 of the prompt step: wasted like the 20; 4 are left over.
 */
START_TEST(drain_deadline)
{
  const struct world_arrival a[] = {{.time = 900, .prompt = 8, .output = 20}};
  struct stage s = stage(a, 1);
  s.drain = 100;
  run(&s);
  ck_assert_int_eq(s.r.end, 1100 * TICK);
  ck_assert_uint_eq(s.r.cls[0].unfinished, 1);
  ck_assert_uint_eq(s.r.record[0].generated, 1);
  ck_assert_int_eq(s.r.record[0].fate, WORLD_UNFINISHED);
  ck_assert_int_eq(s.r.record[0].first_token, 1080 * TICK);
  ck_assert_int_eq(s.r.record[0].last_token, LULL_NEVER);
  want_account(&s, WORLD_LIVE_WASTED, SHARE * (176 + 20));
  want_account(&s, WORLD_LIVE_USEFUL, SHARE * 4);
  want_account(&s, WORLD_IDLE, SHARE * 900);
  stage_end(&s);
}
END_TEST

/* All is over before anything was computed: no token, no gap, no division by nothing. */
START_TEST(nothing_completes)
{
  const struct world_arrival a[] = {{.time = 50, .prompt = 8, .output = 3}};
  struct stage s = stage(a, 1);
  s.window = 100;
  s.drain = 0;
  run(&s);
  ck_assert_int_eq(s.r.end, 100 * TICK);
  ck_assert_uint_eq(s.r.cls[0].offered, 1);
  ck_assert_uint_eq(s.r.cls[0].unfinished, 1);
  ck_assert_uint_eq(s.r.cls[0].output_tokens, 0);
  ck_assert_uint_eq(s.r.cls[0].itl.n, 0);
  want_account(&s, WORLD_IDLE, SHARE * 50);
  want_account(&s, WORLD_LIVE_WASTED, SHARE * 50);
  stage_end(&s);
}
END_TEST

/* No request at all: the window passes, idle. */
START_TEST(empty_run)
{
  struct stage s = stage(NULL, 0);
  run(&s);
  ck_assert_int_eq(s.r.end, 1000 * TICK);
  ck_assert_uint_eq(s.r.records, 0);
  want_account(&s, WORLD_IDLE, SHARE * 1000);
  stage_end(&s);
}
END_TEST

/* 38 + 4 tokens need 41 in KV, 11 blocks of 10: refused at once. 37 + 4 fit exactly. */
START_TEST(larger_than_the_pool)
{
  const struct world_arrival a[] = {{.prompt = 38, .output = 4}, {.prompt = 37, .output = 4}};
  struct stage s = stage(a, 2);
  s.server.watermark_blocks = 2;
  run(&s);
  ck_assert_int_eq(s.r.record[0].fate, WORLD_FATE_FAILED);
  ck_assert_int_eq(s.r.record[0].server, -1);
  ck_assert_int_eq(s.r.record[1].fate, WORLD_DONE);
  ck_assert_uint_eq(s.r.cls[0].failed, 1);
  ck_assert_int_eq(stage_line(&s, WORLD_LOG_EVENT, 0)->a, LULL_EV_FAILED);
  stage_end(&s);
}
END_TEST

/* A row held for ever with nothing else to come is a stall, and the run says so. */
START_TEST(stall_is_an_error)
{
  const struct world_arrival a[] = {{.prompt = 4, .output = 6, .cls = 1}};
  static const struct act acts[] = {{2, ACT_PREEMPT, 0, LULL_HOLD}};
  struct stage s = stage(a, 1);
  s.acts = acts;
  s.nacts = 1;
  ck_assert_int_eq(stage_run(&s, 0), -1);
  ck_assert_int_eq(s.e.code, BASE_INVARIANT);
  ck_assert_msg(strstr(s.e.text, "stalled") != NULL, "%s", s.e.text);
  stage_end(&s);
}
END_TEST

/* ---------------------------------------------------------------------------- built-in policies */

static const struct lull_policy *builtin(const char *name)
{
  struct base_error e = {0};
  const struct lull_policy *p = policies_find(name, &e);
  ck_assert_msg(p != NULL, "%s", e.text);
  return p;
}

/*
 * One sequence. Batch B from 0: 140, then contexts 4, 5, 6: 114, 115, 116 to 485, four tokens. L
 * arrives at 400; at the boundary, 485, priority takes B out (4 + 4 - 1 = 7 KV tokens discarded).
 * L: 180, then context 8: 118, done at 783. B computes 8 anew: 180 to 963, its fifth token; then
 * contexts 8 .. 22: 15 * 110 + 225 = 1875, done at 2838.
 */
START_TEST(priority_evicts)
{
  const struct world_arrival a[] = {{.prompt = 4, .output = 20, .cls = 1},
                                    {.time = 400, .prompt = 8, .output = 2}};
  struct stage s = stage(a, 2);
  s.policy = builtin("priority");
  s.server.max_seqs = 1;
  run(&s);
  want_times(&s, 1, 485, 665, 783);
  want_times(&s, 0, 0, 140, 2838);
  ck_assert_uint_eq(s.r.record[0].preempts, 1);
  ck_assert_uint_eq(s.r.record[0].discarded, 7);
  ck_assert_int_eq(s.r.end, 2838 * TICK);
  stage_end(&s);
}
END_TEST

/* The same under fcfs: L waits for B, contexts 4 .. 22: 19 * 110 + 247 = 2337 after 140: 2477. */
START_TEST(fcfs_does_not)
{
  const struct world_arrival a[] = {{.prompt = 4, .output = 20, .cls = 1},
                                    {.time = 400, .prompt = 8, .output = 2}};
  struct stage s = stage(a, 2);
  s.policy = builtin("fcfs");
  s.server.max_seqs = 1;
  run(&s);
  want_times(&s, 0, 0, 140, 2477);
  want_times(&s, 1, 2477, 2657, 2775);
  stage_end(&s);
}
END_TEST

/* One sequence, one token each, 100 ticks: arrivals at 0, 30, 110, 500 begin at 0, 100, 200, 500.
 */
START_TEST(deterministic_queue)
{
  const struct world_arrival a[] = {{.time = 0, .prompt = 1, .output = 1},
                                    {.time = 30, .prompt = 1, .output = 1},
                                    {.time = 110, .prompt = 1, .output = 1},
                                    {.time = 500, .prompt = 1, .output = 1}};
  struct stage s = stage(a, 4);
  s.policy = builtin("fcfs");
  s.server.max_seqs = 1;
  s.base = 90;
  run(&s);
  want_times(&s, 0, 0, 100, 100);
  want_times(&s, 1, 100, 200, 200);
  want_times(&s, 2, 200, 300, 300);
  want_times(&s, 3, 500, 600, 600);
  want_account(&s, WORLD_IDLE, SHARE * (200 + 400));
  stage_end(&s);
}
END_TEST

static void add(TCase *t)
{
  tcase_add_test(t, one_request);
  tcase_add_test(t, slo_is_inclusive);
  tcase_add_test(t, chunked_prefill);
  tcase_add_test(t, plan_stands_for_equal_chunks);
  tcase_add_test(t, shortage_and_recompute);
  tcase_add_test(t, swap_out_and_in);
  tcase_add_test(t, hold_and_resume);
  tcase_add_test(t, abort_at_a_safe_point);
  tcase_add_test(t, abort_at_a_boundary);
  tcase_add_test(t, speculation);
  tcase_add_test(t, backlog);
  tcase_add_test(t, drain_deadline);
  tcase_add_test(t, nothing_completes);
  tcase_add_test(t, empty_run);
  tcase_add_test(t, larger_than_the_pool);
  tcase_add_test(t, stall_is_an_error);
  tcase_add_test(t, priority_evicts);
  tcase_add_test(t, fcfs_does_not);
  tcase_add_test(t, deterministic_queue);
}

int main(void)
{
  Suite *suite = suite_create("world");
  TCase *golden = tcase_create("by hand");
  add(golden);
  suite_add_tcase(suite, golden);
  return suite_run(suite);
}
