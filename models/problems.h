/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Small word problems in arithmetic, of our own make: a question, one or two lines of reasoning,
 * and the answer behind "#### ", as in GSM8K. Endless, drawn by Philox: problem i of a seed and
 * split is the same everywhere and depends on nothing else.
 *
 *   Ann has 7 pens and buys 5 more. How many pens does Ann have now?
 *   Ann has 7+5=12 pens.
 *   #### 12
 *
 * A question belongs to one of two splits by its hash, one of eight to those held out: none that is
 * learnt is ever a test. Its numbers are, under other names.
 */
#ifndef MODELS_PROBLEMS_H
#define MODELS_PROBLEMS_H

#include <stddef.h>
#include <stdint.h>

enum problem_split { PROBLEMS_TRAIN, PROBLEMS_HELD_OUT };

enum { PROBLEM_TEXT = 128 };

struct problem {
  char question[PROBLEM_TEXT]; /* one line, with its newline */
  char solution[PROBLEM_TEXT]; /* reasoning and answer, without a newline at the end */
  int answer;
  int kind; /* of problems_kinds() */
};

void problem_draw(uint64_t seed, int split, uint64_t index, struct problem *p);
/* 1 if `text`, what a model made of the question, ends in the line "#### " with the answer and
 * nothing behind it but blanks. */
int problem_check(const struct problem *p, const char *text, size_t n);
/* Number of kinds of problems, and what one is called. */
int problems_kinds(void);
const char *problems_kind_name(int kind);

#endif
