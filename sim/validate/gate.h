/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A requirement on a validation: "ttft.p95<=5%". */
#ifndef SIM_VALIDATE_GATE_H
#define SIM_VALIDATE_GATE_H

#include <stdint.h>

#include "base/error.h"
#include "sim/validate/names.h"

struct validate_gate {
  const char *id; /* borrowed: the scenario's, or the text of the command line */
  int metric, statistic;
  int has_min, has_max;
  double min, max; /* of what validate_judged says, inclusive */
  int fitted;      /* judged on the second half, with the fitted value */
  double value;    /* as judged; NaN: undefined */
  int outcome;     /* enum experiment_outcome */
};

/*
 * Parses METRIC[.STATISTIC]<=BOUND or >=BOUND; without a statistic it stands for mean, p50, p90,
 * p95 and p99, or, where a run has one figure, for the mean. The bound is a plain number or in
 * percent. Returns how many gates were written to out, or -1 with BASE_USAGE.
 */
int validate_gate_parse(const char *text, struct validate_gate out[VALIDATE_FIGURES],
                        struct base_error *e);

#endif
