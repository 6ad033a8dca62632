/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Judging an experiment whose runs are done: which candidate stands for an arm in each seed, the
 * pooled figures, the ratios and their interval, the gates and the exit code.
 *
 * The baseline is, seed by seed, its candidate with the highest useful rate among the complete runs
 * whose live attainment reaches the scenario's bound; if none does, best is -1, the ratio is
 * undefined, and the pooled figures shown are those of the fastest candidate. Any other arm is
 * represented likewise, but by its fastest candidate where none reaches the bound: its gates tell.
 */
#ifndef SIM_VERDICT_H
#define SIM_VERDICT_H

#include "sim/experiment.h"

/* Fills best, pooled, qualified, ratio*, gate and exit_code from the runs. ratio and best must be
 * allocated by seed, gate by gate; pooled must be zero. -1: out of memory. */
int verdict_reach(struct experiment *x, struct base_error *e);

/* The candidate shown for an arm and seed: the best, else the fastest that ran; -1: none ran. */
int verdict_shown(const struct experiment *x, uint32_t arm, uint32_t seed);

/* A metric of an arm, pooled over seeds, the ratio included. NaN: undefined. */
double verdict_value(const struct experiment *x, uint32_t arm, int metric);

/* The arm's index by id, -1: unknown. */
int verdict_arm(const struct scenario *s, const char *id);

/* The graver of two exit codes (enum base_code), in the order 7 6 3 5 1 4 0; 2 goes with 3. */
int verdict_worst(int a, int b);

#endif
