/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What commands that run long and write files share: the stop flag, what of the command line a run
 * takes, and a look before they start. */
#ifndef CLI_OUTPUTS_H
#define CLI_OUTPUTS_H

#include "base/error.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "sim/experiment.h"

/* Set by a signal: what is under way ends at the next instant. */
extern volatile int cli_stop;
/* From here on SIGINT and SIGTERM set it; a second one later than a second ends the program. */
int cli_catch_signals(struct base_error *e);

/* --arm, --seed and --no-fast-forward, the stop flag, and the progress line, which is borrowed. */
struct experiment_options cli_experiment(const struct cli_options *o, struct cli_progress *p);

/* Before anything runs: no output stands on an input or on another output, and the first of them,
 * which is written at the very end, can be made. NULL names are passed over. BASE_USAGE, BASE_ENV.
 */
int cli_check_outputs(const char *const *output, int noutputs, const char *const *input,
                      int ninputs, struct base_error *e);

#endif
