/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the commands do, and what they share: failing aloud, help, progress, the stop flag. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include <stdio.h>

#include "cli/options.h"

int cli_run(struct cli_line *line);
int cli_check(struct cli_line *line);
int cli_policies(struct cli_line *line);
int cli_models(struct cli_line *line);
int cli_trace(struct cli_line *line);
int cli_import(struct cli_line *line);
int cli_validate(struct cli_line *line);
int cli_calibrate(struct cli_line *line);
int cli_calibration(struct cli_line *line);
int cli_bench(struct cli_line *line);
int cli_generate(struct cli_line *line);
int cli_train(struct cli_line *line);
int cli_help(struct cli_line *line);
int cli_man(struct cli_line *line);

/* Says on stderr what went wrong ("lull: file:line: error: text"); returns the exit code. */
int cli_fail(const struct base_error *e);
/* The same for a list: every error, then how many were not kept. Code of the first. */
int cli_fail_all(const struct base_errors *list);
/* Flushes stdout. `code`, or 6 with a message if anything written there was lost. */
int cli_finish(int code);

/* Help on stdout for the whole program, or for one command. */
void cli_print_help(FILE *out);
void cli_print_command_help(FILE *out, const struct cli_command *c);
/* The short usage of a bare call. */
void cli_print_usage(FILE *out);

/* Text filled to 78 columns behind `indent` blanks; an empty line in it stays one. */
void cli_print_filled(FILE *out, int indent, const char *text);

#endif
