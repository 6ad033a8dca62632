/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Processors and threads of the cpu device, as the command line says them. */
#ifndef CLI_CORES_H
#define CLI_CORES_H

#include <stddef.h>

#include "base/error.h"
#include "cli/options.h"

enum { CLI_CORES_MAX = 1024 };

/* Processors of one GPU; n 0: any. Zeroed before use. */
struct cli_cores {
  int *core; /* owned */
  int n;
};

/* --cores: one list a GPU, separated by colons: "0-3:4-7". At least `needed` of them, at most
 * `most`; more than are needed do no harm. BASE_USAGE. */
int cli_cores_parse(const char *text, struct cli_cores *list, int most, int needed,
                    struct base_error *e);
/* Threads of each of n GPUs without a list: --threads, or an even part of the processors. */
int cli_threads(const struct cli_options *o, int ngpus);
/* What a GPU of so many threads is called, in calibrations: cpu-PATH-tN. */
void cli_cores_name(const char *path, int threads, char *name, size_t size);

#endif
