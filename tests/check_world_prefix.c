/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Prefix caching against numbers worked out by hand: who finds what, and who loses it.
 *
 * Times are in ticks (64 ps). A step of r rows with c context tokens and n prompt tokens lasts
 * 100 + 10 (r + n) + c ticks; a block has 4 tokens.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/script_policy.h"
#include "tests/suite.h"

enum { TICK = LULL_TICK_PS, IDS = 4, PREFIXES = 4 };

static struct world_prefix *made[PREFIXES];
static int nmade;

/* The first n of four ids, each of so many tokens. */
static const struct world_prefix *begins(uint32_t tokens, uint32_t n, const uint64_t *id)
{
  struct world_prefix *p = malloc(sizeof *p + IDS * sizeof *p->id);
  ck_assert_ptr_nonnull(p);
  p->n = n;
  p->tokens = tokens;
  memcpy(p->id, id, n * sizeof *p->id);
  ck_assert_int_lt(nmade, PREFIXES);
  return made[nmade++] = p;
}
#define BEGINS(tokens, ...)                                                                        \
  begins(tokens, sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), (uint64_t[]){__VA_ARGS__})

static void forget(void)
{
  while (nmade)
    free(made[--nmade]);
}

/* Runs step by step, then merged, on a server with a cache; the merged results stay. */
static struct stage run(const struct world_arrival *a, uint32_t n, uint32_t blocks,
                        const struct act *acts, int nacts)
{
  struct stage s = stage(a, n);
  s.server.prefix_caching = 1;
  s.server.kv_blocks = blocks;
  s.acts = acts;
  s.nacts = nacts;
  for (int stepwise = 1; stepwise >= 0; stepwise--) {
    if (!stepwise)
      stage_end(&s);
    int rc = stage_run(&s, stepwise);
    ck_assert_msg(!rc, "%s", s.e.text);
  }
  return s;
}

static void want(const struct stage *s, int id, uint64_t cached, int64_t first, int64_t last)
{
  const struct world_record *r = &s->r.record[id];
  ck_assert_int_eq(r->fate, WORLD_DONE);
  ck_assert_uint_eq(r->cached, cached);
  ck_assert_int_eq(r->first_token, first * TICK);
  ck_assert_int_eq(r->last_token, last * TICK);
}

/*
 * A computes 12 tokens, 3 full blocks: 100 + 120. B, with the same 12, finds the first two: one
 * token at least is computed, and whole blocks are found. 100 + 40 from 300 on. C has none of its
 * own, and its prompt is nobody else's.
 */
START_TEST(found_after_the_end)
{
  const struct world_prefix *p = BEGINS(4, 1, 2, 3);
  const struct world_arrival a[] = {{.prompt = 12, .output = 1, .prefix = p},
                                    {.time = 300, .prompt = 12, .output = 1, .prefix = p},
                                    {.time = 600, .prompt = 12, .output = 1}};
  struct stage s = run(a, 3, 10, NULL, 0);
  want(&s, 0, 0, 220, 220);
  want(&s, 1, 8, 440, 440);
  want(&s, 2, 0, 820, 820);
  ck_assert_uint_eq(s.r.cls[0].cached, 8);
  ck_assert_uint_eq(s.r.cls[0].looked_up, 36);
  stage_end(&s);
  forget();
}
END_TEST

/*
 * Blocks of A, which runs, are shared. A: 8 tokens, 180; rows of 118 and 119: 298, 417, now with 10
 * tokens in 3 blocks. B, who came at 300, needs 2 blocks, and one of the pool of 4 is free: it fits
 * because A's first block is its first. 4 tokens are left, beside A's row: 160, 577. A: 121, 698.
 */
START_TEST(shared_while_it_runs)
{
  const struct world_arrival a[] = {
      {.prompt = 8, .output = 5, .prefix = BEGINS(4, 1, 2)},
      {.time = 300, .prompt = 8, .output = 1, .prefix = BEGINS(4, 1, 9)}};
  struct stage s = run(a, 2, 4, NULL, 0);
  want(&s, 0, 0, 180, 698);
  want(&s, 1, 4, 577, 577);
  stage_end(&s);
  forget();
}
END_TEST

/*
 * Four blocks. A leaves its second block in the queue, then its first: _ _ A1 A0. B's three are the
 * unused ones and A1: A0 b B1 B0, where b is the one that is not full. C, like A, finds A0, and
 * takes b and B1: B0 c C1 C0. D, like B, finds B0. Had the first block gone first, or the youngest,
 * C or D would find none.
 */
START_TEST(who_goes_first)
{
  const struct world_prefix *p = BEGINS(4, 1, 2), *q = BEGINS(4, 5, 6);
  const struct world_arrival a[] = {{.prompt = 8, .output = 1, .prefix = p},
                                    {.time = 300, .prompt = 9, .output = 1, .prefix = q},
                                    {.time = 600, .prompt = 9, .output = 1, .prefix = p},
                                    {.time = 900, .prompt = 9, .output = 1, .prefix = q}};
  struct stage s = run(a, 4, 4, NULL, 0);
  want(&s, 0, 0, 180, 180);
  want(&s, 1, 0, 490, 490);
  want(&s, 2, 4, 750, 750);
  want(&s, 3, 4, 1050, 1050);
  stage_end(&s);
  forget();
}
END_TEST

/*
 * A is preempted at 180 with one token out: 9 tokens are to be computed again, and it finds its 8:
 * 110 instead of 190. Then rows of 9 and 10 tokens: 409, 529.
 */
START_TEST(recompute_finds_its_own)
{
  const struct world_arrival a[] = {{.prompt = 8, .output = 4}};
  const struct act acts[] = {{.plan = 2, .kind = ACT_PREEMPT, .id = 0, .arg = LULL_RECOMPUTE}};
  struct stage s = run(a, 1, 10, acts, 1);
  want(&s, 0, 8, 180, 529);
  ck_assert_uint_eq(s.r.record[0].discarded, 8);
  ck_assert_uint_eq(s.r.cls[0].looked_up, 8 + 9);
  stage_end(&s);
}
END_TEST

/* Ids of 2 tokens, two a block: B differs in the fourth, so in its second block. Ids of 8: C's
 * second block is the second half of D's, and of no other's first. */
START_TEST(blocks_of_ids)
{
  const struct world_prefix *wide = BEGINS(8, 7);
  const struct world_arrival a[] = {
      {.prompt = 9, .output = 1, .prefix = BEGINS(2, 1, 2, 3, 4)},
      {.time = 300, .prompt = 9, .output = 1, .prefix = BEGINS(2, 1, 2, 3, 5)},
      {.time = 600, .prompt = 9, .output = 1, .prefix = wide},
      {.time = 900, .prompt = 9, .output = 1, .prefix = wide}};
  struct stage s = run(a, 4, 20, NULL, 0);
  want(&s, 0, 0, 190, 190);
  want(&s, 1, 4, 450, 450);
  want(&s, 2, 0, 790, 790);
  want(&s, 3, 8, 1010, 1010);
  stage_end(&s);
  forget();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("world prefix");
  TCase *t = tcase_create("by hand");
  tcase_add_test(t, found_after_the_end);
  tcase_add_test(t, shared_while_it_runs);
  tcase_add_test(t, who_goes_first);
  tcase_add_test(t, recompute_finds_its_own);
  tcase_add_test(t, blocks_of_ids);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
