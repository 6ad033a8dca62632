/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How long the world thinks between two steps of the cpu device. */
#ifndef CLI_WORLD_TIME_H
#define CLI_WORLD_TIME_H

#include "calib/measure.h"
#include "cli/options.h"

/* The median over a short run of a full server, ps: a world and a policy as in any run, on the
 * weights and processors of the options. Nothing is told on a signal: the time is then of what was
 * run. */
int cli_world_time(const struct cli_options *o, const struct measure_limits *most, int64_t *ps,
                   struct base_error *e);

#endif
