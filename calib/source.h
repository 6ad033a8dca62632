/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What importers share: where measurements come from, and of what a calibration is. */
#ifndef CALIB_SOURCE_H
#define CALIB_SOURCE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

struct calibration;
struct calibration_source;
struct gpu;
struct llm;

enum { SOURCE_FILES_MAX = 8 };

/* Copies a text, cut to fit. */
void source_text(char *to, size_t size, const char *text);
/* Adds a file to c->source, which has room (SOURCE_FILES_MAX): its name, SHA-256 and the rest; if
 * the file is a known one, its url is that of the commit it is of. */
int source_add(struct calibration *c, const char *path, const char *engine, const char *kernel,
               const char *licence, const char *url, struct base_error *e);
/* The engine of a known file that does not state it itself, or NULL. */
const char *source_engine(const char *sha256);
/*
 * Is the file of the model, GPU and group that c is made for? By its SHA-256, if it is a known one,
 * else by a name llmservingsim-GPU-MODEL-tpN-...; BASE_INPUT if it is of others. *told: 0 where
 * neither tells, so that nothing was checked. `path` is for the message.
 */
int source_check(const struct calibration *c, const struct calibration_source *s, const char *path,
                 int *told, struct base_error *e);
/* Fills names, types and sizes, of one GPU of a tensor-parallel group of tp, and the calibration's
 * name GPU-MODEL-TYPE[-kv-TYPE][-tpN]. The types are "fp8" or "bfloat16". */
void source_describe(struct calibration *c, const struct llm *m, const struct gpu *g,
                     const char *weight_dtype, const char *kv_dtype, uint32_t tp);
/* Tells what was made and how well it fits; talk may be NULL. */
void source_tell(const struct calibration *c, FILE *talk);

#endif
