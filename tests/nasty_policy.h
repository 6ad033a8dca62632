/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Policies that no one should use: they do what the contract allows and a sane policy avoids. For
 * tests that two worlds agree whatever a policy does. Parameters of each: a seed; the grid of its
 * times, in ps; a moment at which some timers are due, to make ties with what the caller knows.
 */
#ifndef TESTS_NASTY_POLICY_H
#define TESTS_NASTY_POLICY_H

#include <lull/policy.h>

/* Draws every decision from a hash of all it can see: one differing view changes the whole run. */
extern const struct lull_policy nasty_random;
/* Admits all it can and never looks at blocks_left: lives on the host's safety net. */
extern const struct lull_policy nasty_greedy;
/* Holds batch rows and aborts batch steps while a live request is there. */
extern const struct lull_policy nasty_harvest;
/* Swaps a row out in each plan and another one in. */
extern const struct lull_policy nasty_swapper;

#endif
