/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the arms of lull run run on: --device, --record, --recording. */
#ifndef CLI_DEVICE_H
#define CLI_DEVICE_H

#include <stdio.h>

#include "cli/options.h"
#include "sim/experiment.h"

struct cli_device;
struct weights;

/* BASE_USAGE for options that do not go together. Borrows both. NULL on failure. */
struct cli_device *cli_device_open(const struct cli_options *o, const struct scenario *s,
                                   struct base_error *e);
/* For experiment_options.device; NULL: simulated ones will do. Lives as long as d. */
const struct experiment_device *cli_device_hook(const struct cli_device *d);
/* Are arms simulated, so that they may be run again with something changed? */
int cli_device_simulates(const struct cli_device *d);
/* Of the cpu device, else NULL: its weights. *ngpus: how many GPUs it has. */
const struct weights *cli_device_weights(const struct cli_device *d, int *ngpus);
/* Of the last run on the cpu device: how long the world thought between two steps, ps, median. */
lull_time cli_device_away(const struct cli_device *d);
/* After the runs: what a real device has to say of them. */
void cli_device_print(const struct cli_device *d, FILE *out);
/* Puts the recording in place, or, of a partial experiment, leaves none. */
int cli_device_finish(struct cli_device *d, int partial, struct base_error *e);
void cli_device_close(struct cli_device *d);

#endif
