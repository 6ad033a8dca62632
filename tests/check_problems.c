/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Word problems: right by their own reasoning, the same everywhere, and a checker that is exact. */
#include <stdio.h>
#include <string.h>

#include "cli/lesson.h"
#include "models/problems.h"
#include "tests/suite.h"

static int check(const struct problem *p, const char *text)
{
  return problem_check(p, text, strlen(text));
}

/* Follows the reasoning of a solution: every "a+b=c" of it must hold, and the last be the answer.
 */
static void follow(const struct problem *p)
{
  int last = -1, a, b, c;
  char sign;
  for (const char *at = p->solution; (at = strchr(at, '=')) != NULL; at++) {
    const char *start = at;
    while (start > p->solution && start[-1] != ' ')
      start--;
    ck_assert_msg(sscanf(start, "%d%c%d=%d", &a, &sign, &b, &c) == 4, "%s", p->solution);
    int want = sign == '+' ? a + b : sign == '-' ? a - b : sign == '*' ? a * b : -1;
    ck_assert_msg(c == want, "%s", p->solution);
    last = c;
  }
  ck_assert_msg(last == p->answer && last > 0, "%s", p->solution);
}

START_TEST(problems_are_right)
{
  int seen[16] = {0};
  struct problem p;
  ck_assert_int_le(problems_kinds(), 16);
  for (uint64_t i = 0; i < 4000; i++) {
    problem_draw(3, i % 2 ? PROBLEMS_TRAIN : PROBLEMS_HELD_OUT, i, &p);
    follow(&p);
    seen[p.kind]++;
    ck_assert(p.question[strlen(p.question) - 1] == '\n' && strchr(p.question, '?') != NULL);
    ck_assert(check(&p, p.solution));
    ck_assert_uint_lt(strlen(p.question) + strlen(p.solution) + 1, 160);
  }
  for (int k = 0; k < problems_kinds(); k++)
    ck_assert_msg(seen[k] > 600, "%s", problems_kind_name(k));
}
END_TEST

START_TEST(problems_are_the_same_everywhere)
{
  struct problem p, q;
  problem_draw(1, PROBLEMS_TRAIN, 0, &p);
  ck_assert_str_eq(p.question,
                   "Ian has 4 eggs and buys 15 more. How many eggs does Ian have now?\n");
  ck_assert_str_eq(p.solution, "Ian has 4+15=19 eggs.\n#### 19");
  problem_draw(1, PROBLEMS_HELD_OUT, 0, &q);
  ck_assert_str_ne(p.question, q.question);
  problem_draw(2, PROBLEMS_TRAIN, 0, &q);
  ck_assert_str_ne(p.question, q.question);
  problem_draw(1, PROBLEMS_TRAIN, (uint64_t)1 << 32, &q);
  ck_assert_str_ne(p.question, q.question);
}
END_TEST

/* No question is in both splits: of 300 of each, with few enough words that they would meet. */
START_TEST(what_is_held_out_is_not_learnt)
{
  enum { MANY = 300 };
  static struct problem learnt[MANY];
  struct problem held;
  int kinds = 0, met = 0;
  for (uint64_t i = 0; i < MANY; i++)
    problem_draw(1, PROBLEMS_TRAIN, i, &learnt[i]);
  for (uint64_t i = 0; i < 20 * MANY; i++) {
    problem_draw(2, PROBLEMS_HELD_OUT, i, &held);
    for (int k = 0; k < MANY; k++)
      met += !strcmp(held.question, learnt[k].question);
    kinds |= 1 << held.kind;
  }
  ck_assert_int_eq(met, 0);
  ck_assert_int_eq(kinds, (1 << problems_kinds()) - 1);
}
END_TEST

START_TEST(the_checker_is_exact)
{
  struct problem p = {.answer = 12};
  ck_assert(check(&p, "#### 12"));
  ck_assert(check(&p, "What comes before does not matter.\n#### 12\n \n"));
  static const char *const wrong[] = {"",         "12",       "####12",          "### 12",
                                      "#### 112", "#### 1",   "#### 12.",        "#### 12 pens",
                                      "x#### 12", "#### -12", "#### 12\n#### 13"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
    ck_assert_msg(!check(&p, wrong[i]), "%s", wrong[i]);
}
END_TEST

START_TEST(a_lesson_is_bytes)
{
  struct lesson l;
  lesson_draw(&l, 1, PROBLEMS_TRAIN, 0);
  ck_assert_uint_eq(l.prompt, strlen(l.problem.question));
  ck_assert_uint_eq(l.n, l.prompt + strlen(l.problem.solution) + 1);
  for (uint32_t i = 0; i < l.n; i++) {
    int want = i < l.prompt ? l.problem.question[i] : l.problem.solution[i - l.prompt];
    ck_assert_int_eq(l.token[i], i + 1 < l.n ? want : LESSON_END);
    ck_assert_int_eq(l.counted[i], i >= l.prompt);
  }
}
END_TEST

int main(void)
{
  Suite *s = suite_create("problems");
  TCase *c = tcase_create("problems");
  tcase_add_test(c, problems_are_right);
  tcase_add_test(c, problems_are_the_same_everywhere);
  tcase_add_test(c, what_is_held_out_is_not_learnt);
  tcase_add_test(c, the_checker_is_exact);
  tcase_add_test(c, a_lesson_is_bytes);
  suite_add_tcase(s, c);
  return suite_run(s);
}
