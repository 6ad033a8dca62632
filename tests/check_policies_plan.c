/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the built-in policies decide, on a host of a page: one server, 16-token blocks, no time. A
 * test lays out requests by state, asks for one plan and looks at where everyone is.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "sim/policies.h"
#include "tests/suite.h"

enum { N = 16, NONE = -1 };

/* The whole world: requests by id; lists are made on the fly. */
static struct {
  struct lull_request r[N];
  int n;
  int chunk[N]; /* tokens granted in this plan, 0: none */
  struct lull_server s;
  struct lull_host h;
  struct lull_plan p;
  uint64_t ordinal;
  char state[256]; /* the policy's */
} w;

/* A list's order: WAITING by id, the others by entry. */
static uint64_t key(const struct lull_request *r)
{
  return r->state == LULL_WAITING ? (uint64_t)r->id : r->entered;
}

/* Links the list of a state and class; returns its first and last. */
static void list(int state, int cls, lull_id *first, lull_id *last)
{
  *first = *last = NONE;
  for (uint64_t from = 0;;) {
    struct lull_request *best = NULL;
    for (int i = 0; i < w.n; i++)
      if (w.r[i].state == state && w.r[i].cls == cls && key(&w.r[i]) >= from &&
          (!best || key(&w.r[i]) < key(best)))
        best = &w.r[i];
    if (!best)
      return;
    best->prev = *last;
    best->next = NONE;
    if (*last >= 0)
      w.r[*last].next = best->id;
    else
      *first = best->id;
    *last = best->id;
    from = key(best) + 1;
  }
}

static lull_id first(void *ctx, lull_server_id s, int state, int cls)
{
  lull_id a, b;
  list(state, cls, &a, &b);
  return a;
}

static lull_id last(void *ctx, lull_server_id s, int state, int cls)
{
  lull_id a, b;
  list(state, cls, &a, &b);
  return b;
}

static const struct lull_request *request(void *ctx, lull_id id)
{
  return &w.r[id];
}

static const struct lull_server *server(void *ctx, lull_server_id id)
{
  return &w.s;
}

static void enter(struct lull_request *r, int state)
{
  if (r->id < w.n)
    w.s.count[r->state][r->cls]--;
  r->state = (uint8_t)state;
  r->entered = ++w.ordinal;
  w.s.count[state][r->cls]++;
}

/* Blocks that a DECODE row's next step adds. */
static int64_t growth(const struct lull_request *r)
{
  return lull_blocks_for(&w.s, r->kv0 + 1) - r->blocks;
}

/* Everything in use but `r`. */
static int alone(void)
{
  for (int i = 0; i < w.n; i++)
    if (w.r[i].blocks)
      return 0;
  return 1;
}

static int chunk(void *ctx, struct lull_plan *p, lull_id id, uint32_t tokens)
{
  struct lull_request *r = &w.r[id];
  if ((r->state != LULL_WAITING && r->state != LULL_PREFILL) || w.chunk[id])
    return LULL_NO_STATE;
  if (p->tokens_left < 1)
    return LULL_NO_TOKENS;
  if (r->state == LULL_WAITING) {
    int64_t need = lull_blocks_for(&w.s, r->prefill_target);
    if (p->seqs_left < 1)
      return LULL_NO_SEQS;
    if (need + (alone() ? 0 : w.s.watermark_blocks) > p->blocks_left)
      return LULL_NO_BLOCKS;
    enter(r, LULL_PREFILL);
    r->blocks = (uint32_t)need;
    p->blocks_left -= need;
    p->seqs_left--;
  }
  uint32_t left = r->prefill_target - r->prefill_done;
  tokens = tokens < left ? tokens : left;
  tokens = tokens < p->tokens_left ? tokens : (uint32_t)p->tokens_left;
  p->tokens_left -= tokens;
  return w.chunk[id] = (int)tokens;
}

static int preempt(void *ctx, struct lull_plan *p, lull_id id, int how)
{
  struct lull_request *r = &w.r[id];
  int row = r->state == LULL_DECODE;
  if (!row && r->state != LULL_HELD && (r->state != LULL_PREFILL || how != LULL_RECOMPUTE))
    return LULL_NO_STATE;
  p->blocks_left += row ? growth(r) : 0;
  p->tokens_left += row ? 1 : w.chunk[id];
  p->seqs_left += r->state != LULL_HELD;
  w.chunk[id] = 0;
  enter(r, how == LULL_SWAP ? LULL_SWAPPING_OUT : LULL_WAITING);
  if (how == LULL_RECOMPUTE) {
    p->blocks_left += r->blocks;
    r->prefill_target = r->prompt + r->gen0;
    r->blocks = r->kv0 = r->prefill_done = 0;
  }
  return 0;
}

static int resume(void *ctx, struct lull_plan *p, lull_id id)
{
  struct lull_request *r = &w.r[id];
  int held = r->state == LULL_HELD;
  int64_t need = held ? growth(r) : lull_blocks_for(&w.s, r->kv0 + 1);
  if (!held && r->state != LULL_SWAPPED)
    return LULL_NO_STATE;
  if (need + (held || alone() ? 0 : w.s.watermark_blocks) > p->blocks_left)
    return LULL_NO_BLOCKS;
  p->blocks_left -= need;
  p->tokens_left -= held;
  p->seqs_left -= held;
  r->blocks += held ? 0 : (uint32_t)need;
  enter(r, held ? LULL_DECODE : LULL_SWAPPING_IN);
  return 0;
}

/* An empty world: class 0 live, 1 and 2 batch; a pool of `blocks`. */
static void world(uint32_t blocks, uint32_t watermark)
{
  memset(&w, 0, sizeof w);
  w.s = (struct lull_server){.size = sizeof w.s,
                             .class_mask = 7,
                             .max_seqs = 8,
                             .token_budget = 64,
                             .row_tokens = 1,
                             .block_tokens = 16,
                             .kv_blocks = blocks,
                             .watermark_blocks = watermark,
                             .step = 100};
  w.h = (struct lull_host){.size = sizeof w.h,
                           .abi = LULL_POLICY_ABI,
                           .classes = 3,
                           .servers = 1,
                           .interactive_mask = 1,
                           .request = request,
                           .server = server,
                           .first = first,
                           .last = last,
                           .chunk = chunk,
                           .preempt = preempt,
                           .resume = resume};
}

/* The next request: its id. tokens: prompt of a WAITING or PREFILL one, KV of the others. */
static lull_id add(int cls, int state, uint32_t tokens)
{
  struct lull_request *r = &w.r[w.n];
  int kv = state != LULL_WAITING && state != LULL_SWAPPED;
  *r = (struct lull_request){.size = sizeof *r,
                             .id = w.n,
                             .cls = (uint8_t)cls,
                             .prompt = tokens,
                             .prefill_target = tokens,
                             .join_step = 100,
                             .rate_q16 = LULL_Q16_ONE,
                             .blocks = kv ? lull_blocks_for(&w.s, tokens) : 0,
                             .kv0 = kv && state != LULL_PREFILL ? tokens : 0};
  if (state == LULL_SWAPPED)
    r->kv0 = tokens;
  enter(r, state);
  return w.n++;
}

/* Asks the policy once, with parameters as "name value name value". */
static void ask(const char *name, const char *param, const char *value)
{
  struct base_error e = {0};
  int64_t params[8];
  const struct lull_policy *p = policies_find(name, &e);
  ck_assert_msg(p && !policies_defaults(p, params, &e), "%s", e.text);
  if (param)
    ck_assert_msg(!policies_set(p, params, param, value, &e), "%s", e.text);
  ck_assert_uint_le(p->state_size, sizeof w.state);
  ck_assert_ptr_null(p->create(w.state, &w.h, params));
  int64_t used = 0, rows = 0, grow = 0;
  for (int i = 0; i < w.n; i++) {
    used += w.r[i].blocks;
    if (w.r[i].state == LULL_DECODE) {
      rows++;
      grow += growth(&w.r[i]);
    }
    w.s.seqs += w.r[i].state == LULL_DECODE || w.r[i].state == LULL_PREFILL;
  }
  ck_assert_int_le(used, w.s.kv_blocks);
  w.p = (struct lull_plan){.size = sizeof w.p,
                           .tokens_left = (int64_t)w.s.token_budget - rows,
                           .blocks_left = w.s.kv_blocks - used - grow,
                           .seqs_left = (int32_t)(w.s.max_seqs - w.s.seqs),
                           .wake = 8191,
                           .wake_classes = UINT32_MAX,
                           .wake_time = LULL_NEVER};
  p->plan(w.state, &w.h, &w.s, &w.p);
  ck_assert_int_ge(w.p.blocks_left, 0);
}

/* States by id, one letter each: Waiting Prefill Decode Held (o)ut Swapped (i)n. */
static void states_are(const char *expected)
{
  char now[N + 1] = "";
  for (int i = 0; i < w.n; i++)
    now[i] = "WPDHoSi"[w.r[i].state];
  ck_assert_str_eq(now, expected);
}

/* ------------------------------------------------------------------------------------- fcfs --- */

START_TEST(fcfs_admits_in_order)
{
  world(100, 1);
  add(1, LULL_WAITING, 40);
  add(0, LULL_WAITING, 40);
  add(2, LULL_WAITING, 40);
  ask("fcfs", NULL, NULL);
  states_are("PPW");
  ck_assert_int_eq(w.chunk[0], 40);
  ck_assert_int_eq(w.chunk[1], 24);
  ck_assert_uint_eq(w.p.wake, 0); /* arrivals queue behind the blocked one */
  ck_assert_uint_eq(w.p.wake_classes, 0);
}
END_TEST

START_TEST(fcfs_head_blocks)
{
  world(10, 1);
  add(1, LULL_DECODE, 40);
  add(1, LULL_WAITING, 120); /* 8 blocks of 7, with the watermark 9 */
  add(0, LULL_WAITING, 10);  /* would fit */
  ask("fcfs", NULL, NULL);
  states_are("DWW");
  ck_assert_uint_eq(w.p.wake, 0);
}
END_TEST

START_TEST(fcfs_nobody_waits)
{
  world(10, 1);
  add(1, LULL_DECODE, 40);
  add(0, LULL_WAITING, 16);
  ask("fcfs", NULL, NULL);
  states_are("DP");
  ck_assert_uint_eq(w.p.wake, LULL_WAKE_ARRIVAL);
  ck_assert_uint_eq(w.p.wake_classes, 7);
}
END_TEST

START_TEST(fcfs_shortage_takes_the_latest)
{
  world(4, 0);
  add(0, LULL_DECODE, 16); /* each needs a second block, two are free */
  add(1, LULL_DECODE, 16);
  ask("fcfs", NULL, NULL);
  states_are("DD");
  world(3, 0);
  add(0, LULL_DECODE, 16);
  add(1, LULL_DECODE, 16);
  add(0, LULL_WAITING, 1);
  ask("fcfs", NULL, NULL);
  states_are("DWW"); /* no admission after a preemption */
  ck_assert_uint_eq(w.p.wake, LULL_WAKE_STEPS);
  ck_assert_uint_eq(w.p.wake_steps, 1);
  world(3, 0);
  add(0, LULL_PREFILL, 16); /* a prompt goes before a row, though it came first */
  add(1, LULL_DECODE, 16);
  add(1, LULL_DECODE, 16);
  ask("fcfs", "preempt", "swap");
  states_are("WDo"); /* the prompt gave one block, the copy gives its one later */
  ck_assert(w.p.wake & LULL_WAKE_TRANSFER);
}
END_TEST

START_TEST(fcfs_swap_in_order)
{
  world(20, 1);
  add(1, LULL_SWAPPED, 20);
  add(1, LULL_HELD, 20);
  add(0, LULL_SWAPPED, 20);
  add(0, LULL_WAITING, 20);
  ask("fcfs", "preempt", "swap");
  states_are("iDiP");
  world(7, 1);
  add(1, LULL_DECODE, 20);
  add(0, LULL_SWAPPED, 100); /* 7 blocks do not come free */
  add(0, LULL_WAITING, 1);
  ask("fcfs", NULL, NULL);
  states_are("DSW");
}
END_TEST

START_TEST(fcfs_held_give_up)
{
  world(3, 1); /* all at a block's end, none free: nobody could ever move */
  add(0, LULL_HELD, 16);
  add(1, LULL_HELD, 16);
  add(1, LULL_HELD, 16);
  ask("fcfs", NULL, NULL);
  states_are("DHW");
  world(3, 1); /* a copy out is under way: wait for it instead */
  add(0, LULL_HELD, 16);
  add(1, LULL_HELD, 16);
  add(1, LULL_SWAPPING_OUT, 16);
  ask("fcfs", NULL, NULL);
  states_are("HHo");
  ck_assert_uint_eq(w.p.wake, LULL_WAKE_TRANSFER);
}
END_TEST

START_TEST(fcfs_last_row_lost)
{
  world(2, 0); /* the only row cannot go on beside who is held: asked again at once (EMPTY) */
  add(0, LULL_HELD, 16);
  add(1, LULL_DECODE, 16);
  ask("fcfs", NULL, NULL);
  states_are("HW");
  ck_assert(w.p.wake & LULL_WAKE_STEPS);
  w.s.seqs = 0;
  ask("fcfs", NULL, NULL);
  states_are("DW");
}
END_TEST

/* ------------------------------------------------------------------------- priority and cap --- */

START_TEST(priority_live_first)
{
  world(100, 1);
  add(2, LULL_WAITING, 30);
  add(1, LULL_WAITING, 30);
  add(0, LULL_WAITING, 30);
  ask("priority", NULL, NULL);
  states_are("PPP");
  ck_assert_int_eq(w.chunk[0], 4);
  ck_assert_int_eq(w.chunk[2], 30);
  ck_assert_int_eq(w.chunk[1], 30);
  world(100, 1);
  add(2, LULL_PREFILL, 100);
  add(0, LULL_WAITING, 50); /* goes before a prompt of batch under way */
  add(1, LULL_WAITING, 10);
  ask("priority", NULL, NULL);
  states_are("PPP");
  ck_assert_int_eq(w.chunk[1], 50);
  ck_assert_int_eq(w.chunk[2], 10);
  ck_assert_int_eq(w.chunk[0], 4);
}
END_TEST

START_TEST(priority_wakes_above_the_blocked)
{
  world(10, 1);
  add(1, LULL_DECODE, 100);
  add(1, LULL_WAITING, 100);
  ask("priority", NULL, NULL);
  states_are("DW");
  ck_assert_uint_eq(w.p.wake, LULL_WAKE_ARRIVAL);
  ck_assert_uint_eq(w.p.wake_classes, 1); /* live only: 2 queues behind 1 */
}
END_TEST

/* Four batch rows of two blocks fill the pool; the live one takes just what it lacks. */
static void crowded(void)
{
  world(9, 1);
  for (int i = 0; i < 4; i++)
    add(1 + i % 2, LULL_DECODE, 20);
  add(0, LULL_WAITING, 40); /* 3 blocks, 4 with the watermark; 1 is free */
}

START_TEST(priority_evicts_what_it_needs)
{
  crowded();
  ask("priority", NULL, NULL);
  states_are("DWDWP"); /* class 2, the least important, gives both */
  ck_assert(w.p.wake & LULL_WAKE_STEPS);
  crowded();
  ask("priority", "evict", "no");
  states_are("DDDDW");
  ck_assert_uint_eq(w.p.wake, 0);
}
END_TEST

START_TEST(priority_evicts_by_swap)
{
  crowded();
  ask("priority", "preempt", "swap");
  states_are("DoDoW"); /* fits when the copies have ended */
  ck_assert(w.p.wake & LULL_WAKE_TRANSFER);
  w.s.seqs = 0;
  ask("priority", "preempt", "swap");
  states_are("DoDoW"); /* no one else goes while they are under way */
  ck_assert_uint_eq(w.p.wake, LULL_WAKE_TRANSFER);
}
END_TEST

START_TEST(priority_never_in_vain)
{
  world(12, 1);
  add(0, LULL_DECODE, 100); /* 7 blocks of live, never taken */
  add(1, LULL_DECODE, 20);
  add(0, LULL_WAITING, 100);
  ask("priority", NULL, NULL);
  states_are("DDW");
  world(8, 2); /* the watermark does not count where nothing else is left */
  add(1, LULL_DECODE, 20);
  add(1, LULL_HELD, 20);
  add(2, LULL_PREFILL, 20);
  add(0, LULL_WAITING, 128);
  ask("priority", NULL, NULL);
  states_are("WWWP");
}
END_TEST

START_TEST(priority_evicts_for_a_slot)
{
  world(100, 1);
  w.s.max_seqs = 3;
  add(1, LULL_DECODE, 20);
  add(1, LULL_HELD, 20); /* holds no slot: left alone */
  add(1, LULL_DECODE, 20);
  add(1, LULL_PREFILL, 20);
  add(0, LULL_WAITING, 20);
  ask("priority", NULL, NULL);
  states_are("DHDWP");
}
END_TEST

START_TEST(priority_evicts_for_tokens)
{
  world(100, 1);
  w.s.max_seqs = 14;
  w.s.token_budget = 12; /* the rows use it up */
  for (int i = 0; i < 12; i++)
    add(1, LULL_DECODE, 20);
  add(0, LULL_WAITING, 5);
  ask("priority", NULL, NULL);
  states_are("DDDDDDDWWWWWP");
  ck_assert_int_eq(w.chunk[12], 5);
  world(100, 1); /* used up by chunks it comes back by itself */
  add(0, LULL_PREFILL, 100);
  add(1, LULL_DECODE, 20);
  add(0, LULL_WAITING, 5);
  ask("priority", NULL, NULL);
  states_are("PDW");
}
END_TEST

START_TEST(priority_shortage_takes_batch)
{
  world(3, 0);
  add(1, LULL_DECODE, 16);
  add(0, LULL_DECODE, 16); /* came later, stays */
  ask("priority", NULL, NULL);
  states_are("WD");
  world(3, 0);
  add(0, LULL_DECODE, 16);
  add(0, LULL_DECODE, 16);
  ask("priority", NULL, NULL);
  states_are("DW"); /* live only where no batch is left */
}
END_TEST

START_TEST(priority_held_batch_gives_up)
{
  world(2, 0);
  add(1, LULL_HELD, 16);
  add(0, LULL_HELD, 16);
  ask("priority", NULL, NULL);
  states_are("WD");
}
END_TEST

START_TEST(cap_limits_batch)
{
  world(100, 1);
  add(1, LULL_DECODE, 10);
  add(2, LULL_SWAPPED, 10);
  add(1, LULL_WAITING, 10);
  add(2, LULL_WAITING, 10);
  add(0, LULL_WAITING, 10);
  add(0, LULL_WAITING, 10);
  ask("cap", "limit", "3");
  states_are("DiPWPP"); /* who ran before comes back; class 2 is then at the limit */
  ck_assert_uint_eq(w.p.wake_classes, 3);
  world(100, 1);
  add(1, LULL_DECODE, 10);
  add(1, LULL_SWAPPED, 10);
  add(1, LULL_WAITING, 10);
  ask("cap", "limit", "2");
  states_are("DiW"); /* who is in flight comes back */
  ck_assert_uint_eq(w.p.wake_classes, 1);
  world(100, 1); /* class 2 comes back behind class 1, which waits for the limit it is part of */
  add(2, LULL_SWAPPED, 10);
  add(1, LULL_WAITING, 10);
  ask("cap", "limit", "1");
  states_are("iW");
}
END_TEST

/* -------------------------------------------------------------------------------- dedicated --- */

START_TEST(dedicated_refuses_shared)
{
  struct base_error e = {0};
  int64_t params[8];
  const struct lull_policy *p = policies_find("dedicated", &e);
  ck_assert_int_eq(policies_defaults(p, params, &e), 0);
  world(10, 1);
  const char *why = p->create(w.state, &w.h, params);
  ck_assert_ptr_nonnull(why);
  ck_assert_ptr_nonnull(strstr(why, "more than one class"));
  w.s.class_mask = 2;
  add(1, LULL_WAITING, 20);
  add(1, LULL_WAITING, 20);
  ask("dedicated", NULL, NULL);
  states_are("PP");
}
END_TEST

int main(void)
{
  Suite *s = suite_create("policies plan");
  TCase *fcfs = tcase_create("fcfs"), *ranked = tcase_create("ranked");
  tcase_add_test(fcfs, fcfs_admits_in_order);
  tcase_add_test(fcfs, fcfs_head_blocks);
  tcase_add_test(fcfs, fcfs_nobody_waits);
  tcase_add_test(fcfs, fcfs_shortage_takes_the_latest);
  tcase_add_test(fcfs, fcfs_swap_in_order);
  tcase_add_test(fcfs, fcfs_held_give_up);
  tcase_add_test(fcfs, fcfs_last_row_lost);
  tcase_add_test(fcfs, dedicated_refuses_shared);
  tcase_add_test(ranked, priority_live_first);
  tcase_add_test(ranked, priority_wakes_above_the_blocked);
  tcase_add_test(ranked, priority_evicts_what_it_needs);
  tcase_add_test(ranked, priority_evicts_by_swap);
  tcase_add_test(ranked, priority_never_in_vain);
  tcase_add_test(ranked, priority_evicts_for_a_slot);
  tcase_add_test(ranked, priority_evicts_for_tokens);
  tcase_add_test(ranked, priority_shortage_takes_batch);
  tcase_add_test(ranked, priority_held_batch_gives_up);
  tcase_add_test(ranked, cap_limits_batch);
  suite_add_tcase(s, fcfs);
  suite_add_tcase(s, ranked);
  return suite_run(s);
}
