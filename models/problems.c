/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "models/problems.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"

/* Words of one problem's own sub-sequence. */
struct draws {
  uint32_t key[2], counter[4], out[4];
  unsigned used;
};

static struct draws draws_open(uint64_t seed, const char *stream, uint64_t index)
{
  struct draws d = {.used = 4};
  base_rng_key(seed, stream, d.key);
  d.counter[2] = (uint32_t)index;
  d.counter[3] = (uint32_t)(index >> 32);
  return d;
}

/* From lo to hi, both within. */
static int between(struct draws *d, int lo, int hi)
{
  if (d->used == 4) {
    base_philox4x32(d->counter, d->key, d->out);
    d->counter[0]++;
    d->used = 0;
  }
  return lo + (int)((uint64_t)d->out[d->used++] * (uint64_t)(hi - lo + 1) >> 32);
}

static const char *const names[] = {"Ann", "Ben", "Eve", "Ian", "Kim", "Leo", "Mia", "Tom"};
static const char *const things[] = {"pens",   "eggs",  "cards", "apples",
                                     "stamps", "books", "coins", "shells"};
enum { NAMES = sizeof names / sizeof names[0], THINGS = sizeof things / sizeof things[0] };

/* Who, of what, and a second person. */
struct scene {
  const char *who, *other, *thing;
};

#define SAY(to, ...) snprintf(to, PROBLEM_TEXT, __VA_ARGS__)

static void more(struct problem *p, const struct scene *s, struct draws *d)
{
  int a = between(d, 2, 20), b = between(d, 2, 20);
  p->answer = a + b;
  SAY(p->question, "%s has %d %s and buys %d more. How many %s does %s have now?\n", s->who, a,
      s->thing, b, s->thing, s->who);
  SAY(p->solution, "%s has %d+%d=%d %s.\n#### %d", s->who, a, b, p->answer, s->thing, p->answer);
}

static void fewer(struct problem *p, const struct scene *s, struct draws *d)
{
  int a = between(d, 4, 30), b = between(d, 2, a - 1);
  p->answer = a - b;
  SAY(p->question, "%s has %d %s and gives away %d. How many %s are left?\n", s->who, a, s->thing,
      b, s->thing);
  SAY(p->solution, "There are %d-%d=%d %s left.\n#### %d", a, b, p->answer, s->thing, p->answer);
}

static void times(struct problem *p, const struct scene *s, struct draws *d)
{
  int a = between(d, 2, 9), b = between(d, 2, 9);
  p->answer = a * b;
  SAY(p->question, "%s has %d boxes with %d %s in each. How many %s are there?\n", s->who, a, b,
      s->thing, s->thing);
  SAY(p->solution, "There are %d*%d=%d %s.\n#### %d", a, b, p->answer, s->thing, p->answer);
}

static void compare(struct problem *p, const struct scene *s, struct draws *d)
{
  int a = between(d, 2, 20), b = between(d, 2, 20);
  p->answer = a + b;
  SAY(p->question, "%s has %d %s. %s has %d more than %s. How many %s does %s have?\n", s->who, a,
      s->thing, s->other, b, s->who, s->thing, s->other);
  SAY(p->solution, "%s has %d+%d=%d %s.\n#### %d", s->other, a, b, p->answer, s->thing, p->answer);
}

static void two_steps(struct problem *p, const struct scene *s, struct draws *d)
{
  int a = between(d, 2, 12), b = between(d, 2, 12), c = between(d, 2, a + b - 1);
  p->answer = a + b - c;
  SAY(p->question, "%s has %d %s, buys %d more and gives away %d. How many %s are left?\n", s->who,
      a, s->thing, b, c, s->thing);
  SAY(p->solution, "%s has %d+%d=%d %s.\nThere are %d-%d=%d left.\n#### %d", s->who, a, b, a + b,
      s->thing, a + b, c, p->answer, p->answer);
}

static const struct {
  const char *name;
  void (*draw)(struct problem *p, const struct scene *s, struct draws *d);
} kinds[] = {{"more", more},
             {"fewer", fewer},
             {"times", times},
             {"compare", compare},
             {"two-steps", two_steps}};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* A question belongs to one split, whoever draws it. */
static int split_of(const char *question)
{
  uint32_t hash[2];
  base_rng_key(0, question, hash);
  return hash[0] % 8 ? PROBLEMS_TRAIN : PROBLEMS_HELD_OUT;
}

static void draw_any(struct draws *d, struct problem *p)
{
  int who = between(d, 0, NAMES - 1), other = between(d, 0, NAMES - 2);
  struct scene s = {names[who], names[other + (other >= who)], things[between(d, 0, THINGS - 1)]};
  *p = (struct problem){.kind = between(d, 0, KINDS - 1)};
  kinds[p->kind].draw(p, &s, d);
}

void problem_draw(uint64_t seed, int split, uint64_t index, struct problem *p)
{
  struct draws d = draws_open(
      seed, split == PROBLEMS_TRAIN ? "problems/train" : "problems/held-out", index);
  do
    draw_any(&d, p);
  while (split_of(p->question) != split);
}

int problem_check(const struct problem *p, const char *text, size_t n)
{
  char want[32];
  int length = snprintf(want, sizeof want, "#### %d", p->answer);
  while (n > 0 && isspace((unsigned char)text[n - 1]))
    n--;
  if (n < (size_t)length || memcmp(text + n - length, want, (size_t)length) != 0)
    return 0;
  return n == (size_t)length || text[n - (size_t)length - 1] == '\n';
}

int problems_kinds(void)
{
  return KINDS;
}

const char *problems_kind_name(int kind)
{
  return kinds[kind].name;
}
