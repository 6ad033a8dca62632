/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A background job of the cpu device: it trains a LoRA adapter of the served model on word problems
 * (cli/lesson.h), with operations, and so threads, of its own on its GPU's cores.
 *
 * Micro-step i takes problems i*batch .. i*batch+batch-1; the last of `accumulate` micro-steps
 * takes the optimiser step too. So the adapter's bits are of the seed, the settings, the kernels
 * and the number of micro-steps, whatever is served beside it and however often it was paused.
 */
#ifndef CLI_DEVICE_TRAIN_H
#define CLI_DEVICE_TRAIN_H

#include <stdio.h>

#include "backend/device.h"
#include "sim/experiment.h"

struct device_train;

/* What it stands on. */
struct device_train_place {
  struct weights *w; /* borrowed, and never written to */
  const int *core;   /* [threads], or NULL: not bound */
  int threads;
  const char *path; /* of kernels, NULL: the best */
  uint64_t seed;    /* of the problems and of the adapter's first values */
};

/* With its loss before it learnt anything. `how` is copied. NULL on failure. */
struct device_train *device_train_open(const struct device_train_place *p,
                                       const struct scenario_training *how, struct base_error *e);
/* Adapter, masters, moments, gradients and workspace. */
int64_t device_train_bytes(const struct device_train *t);
/* For device_gpu.trainer; lives as long as t. */
const struct device_trainer *device_train_hook(const struct device_train *t);
/* When its lane is gone: counts, losses and digest; names and seed are left as they are. The loss
 * after is measured if `whole`. BASE_ENV: it is no number. */
int device_train_finish(struct device_train *t, int whole, struct experiment_training *out,
                        struct base_error *e);
/* Writes the adapter to a folder in `folder`, which is there, named for whose it is. */
int device_train_write(const struct device_train *t, const char *folder,
                       const struct experiment_training *who, struct base_error *e);
void device_train_close(struct device_train *t);

/* A table of n trainings; nothing if there are none. */
void device_train_print(const struct experiment_training *t, size_t n, FILE *out);

#endif
