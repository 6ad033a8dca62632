/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What commands that run long and write files share: the stop flag, and a look before they start.
 */
#ifndef CLI_OUTPUTS_H
#define CLI_OUTPUTS_H

#include "base/error.h"

/* Set by a signal: what is under way ends at the next instant. */
extern volatile int cli_stop;
/* From here on SIGINT and SIGTERM set it; a second one later than a second ends the program. */
int cli_catch_signals(struct base_error *e);

/* Before anything runs: no output stands on an input or on another output, and the first of them,
 * which is written at the very end, can be made. NULL names are passed over. BASE_USAGE, BASE_ENV.
 */
int cli_check_outputs(const char *const *output, int noutputs, const char *const *input,
                      int ninputs, struct base_error *e);

#endif
