/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tiny models of tests/data/engine for the engine's suites, and engines on them. */
#ifndef TESTS_ENGINE_FIXTURE_H
#define TESTS_ENGINE_FIXTURE_H

#include <check.h>
#include <stdlib.h>

#include "backend/cpu/cpu.h"
#include "backend/engine.h"

/* A path below tests/data/engine; up to eight may be held at once. */
const char *engine_data(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A model of the fixtures in a dtype. */
struct weights *fixture_weights(const char *model, int dtype);
struct adapter *fixture_adapter(const char *name, const struct config *base);
/* Kernels by name, NULL: the best. */
struct ops *fixture_ops(int dtype, int threads, const char *path);

/* Fails the test with an error's text. */
#define ck_assert_good(call, e)                                                                    \
  do {                                                                                             \
    int ck_result_ = (call) != 0;                                                                  \
    ck_assert_msg(!ck_result_, "%s: %s", #call, (e)->text);                                        \
  } while (0)

#endif
