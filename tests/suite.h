/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What every suite's main() ends in. */
#ifndef TESTS_SUITE_H
#define TESTS_SUITE_H

#include <check.h>
#include <stdlib.h>

/* Runs the suite, prints as CK_VERBOSITY says, frees it. Returns main's exit code. */
static inline int suite_run(Suite *s)
{
  SRunner *runner = srunner_create(s);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
