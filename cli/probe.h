/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How quick this machine is just now: one and the same step of the engine, timed. */
#ifndef CLI_PROBE_H
#define CLI_PROBE_H

#include "backend/weights.h"
#include "cli/options.h"

struct cli_probe;

/* On the first GPU's processors, as --device cpu has them; w is borrowed. NULL on failure. */
struct cli_probe *cli_probe_open(const struct cli_options *o, const struct weights *w, int ngpus,
                                 struct base_error *e);
/* Median of some steps, ps. probe: struct cli_probe. */
int cli_probe_take(void *probe, int64_t *ps, struct base_error *e);
void cli_probe_close(struct cli_probe *p);

#endif
