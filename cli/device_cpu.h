/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The cpu device of the command line: one set of weights, for each GPU of the arms its cores and
 * operations, and for each run engines and a device over them.
 */
#ifndef CLI_DEVICE_CPU_H
#define CLI_DEVICE_CPU_H

#include <stdio.h>

#include "cli/options.h"
#include "sim/experiment.h"

struct device_cpu;
struct weights;

/* For the scenario's arms, of which `only` (NULL: all) are to run. What the engine has not, is
 * refused here: BASE_INPUT names it. */
struct device_cpu *device_cpu_open(const struct cli_options *o, const struct scenario *s,
                                   const char *only, struct base_error *e);
/* About it, for the reports; lives as long as it. */
const struct experiment_fact *device_cpu_facts(const struct device_cpu *m, uint32_t *n);
/* As of cli_device_weights. */
const struct weights *device_cpu_weights(const struct device_cpu *m, int *ngpus);
/* As of cli_device_away. */
lull_time device_cpu_away(const struct device_cpu *m);
/* A device for a run; taken back by device_cpu_end. */
int device_cpu_begin(struct device_cpu *m, const struct experiment_place *place,
                     const struct simdev_gpu *gpu, struct lull_device **dev,
                     const struct lull_device_ops **ops, struct base_error *e);
/* BASE_ENV: a job of a run that has ended learnt something that is no number, or what it learnt
 * cannot be written. */
int device_cpu_end(struct device_cpu *m, struct lull_device *dev, int ended, struct base_error *e);
/* What the jobs of all runs so far learnt; valid until the next run ends. */
const struct experiment_training *device_cpu_trained(const struct device_cpu *m, uint32_t *n);
/* What the runs were like: tokens, how late the device was, what was trained. */
void device_cpu_print(const struct device_cpu *m, FILE *out);
void device_cpu_close(struct device_cpu *m);

#endif
