/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Files that the program carries inside: model and GPU descriptions, default calibrations, the
 * scenario schema and the default scenario. The table is generated from the files of the source
 * tree when the program is built (build-aux/embed.sh), sorted as listed there.
 */
#ifndef MODELS_EMBEDDED_H
#define MODELS_EMBEDDED_H

#include <stddef.h>

struct embedded_file {
  const char *name;          /* path below the source tree: "scenarios/c4-live-batch.xml" */
  const unsigned char *data; /* size bytes, and a NUL behind them */
  size_t size;
};

extern const struct embedded_file embedded_files[];
extern const size_t embedded_count;

#endif
