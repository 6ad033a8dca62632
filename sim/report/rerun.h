/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Running a scenario again with one attribute changed, for sweeps and for explain. */
#ifndef SIM_REPORT_RERUN_H
#define SIM_REPORT_RERUN_H

#include "sim/report/report.h"

/* A series of reruns under one progress line. */
struct rerun {
  const struct report_source *source;
  const char *only_arm; /* NULL: all */
  uint32_t total, done; /* reruns */
  char what[96];        /* the one at work */
  int refused;          /* the last failure was of the changed scenario, before it ran */
};

/* One rerun's scenario and results; both are freed by rerun_close. */
struct rerun_result {
  struct scenario *scenario;
  struct experiment *x;
};

/* Sets `target` to `value` after the overrides of the source, opens and runs. Returns -1 with *e
 * filled; BASE_INPUT: the scenario is not valid with that value. */
int rerun_open(struct rerun *r, const char *target, const char *value, struct rerun_result *out,
               struct base_error *e);
void rerun_close(struct rerun_result *out);

/* The scenario of the source, opened with the attribute changed; NULL with the first of its errors
 * (BASE_INPUT: it is not valid with that value, or has no such attribute). */
struct scenario *rerun_scenario(const struct report_source *source, const char *target,
                                const char *value, struct base_error *e);

/* Was the series asked to stop? */
int rerun_stopped(const struct rerun *r);

#endif
