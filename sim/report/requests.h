/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the formats of the file of requests share. Private to sim/report/. */
#ifndef SIM_REPORT_REQUESTS_H
#define SIM_REPORT_REQUESTS_H

#include "sim/report/report.h"

/* A format. Functions return 0, or -1 with *e filled; `file` is what open returned. */
struct requests_format {
  /* NULL on failure. */
  void *(*open)(const char *path, const struct scenario *s, struct base_error *e);
  /* A run begins. */
  int (*begin)(void *file, const struct experiment_place *run, struct base_error *e);
  /* Its records first ... first + n - 1. */
  int (*rows)(void *file, const struct experiment_place *run, uint64_t first,
              const struct world_record *record, size_t n, struct base_error *e);
  /* It is over. */
  int (*end)(void *file, const struct world_result *result, struct base_error *e);
  /* As report_requests_close. */
  int (*close)(void *file, int partial, struct base_error *e);
  void (*abandon)(void *file);
};
extern const struct requests_format requests_csv, requests_hdf5;

/* Names of enum world_fate, in its order. */
extern const char *const requests_fate[];
enum { REQUESTS_FATES = WORLD_UNFINISHED + 1 };

#endif
