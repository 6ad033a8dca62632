/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One measured run of a workload of `lull bench`. */
#ifndef CLI_SPEED_RUN_H
#define CLI_SPEED_RUN_H

#include "cli/speed_load.h"

/* What a run did and took. Plain values: a child process writes it to its parent as it is. */
struct speed_figures {
  uint64_t requests; /* ended */
  uint64_t steps, plans, tokens, preempts;
  uint64_t events;  /* delivered to the policy */
  uint64_t digest;  /* sum of speed_mix over all requests */
  lull_time last;   /* when the last one ended */
  double latencies; /* sum of the percentiles of their latencies, ps; NaN: there are none */
  double seconds;   /* processor time of the run and its summary; inputs are read before */
  int64_t peak_kib; /* memory of the process, filled by who waits for it; 0: not known */
};

int speed_run(const struct speed_spec *spec, const char *data_dir, uint64_t requests,
              struct speed_figures *out, struct base_error *e);

#endif
