/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The operations on the CPU, in plain C, on the best instructions that the processor has.
 */
#ifndef BACKEND_CPU_CPU_H
#define BACKEND_CPU_CPU_H

#include "backend/grad.h"
#include "base/error.h"

/* The CPU's. cores: the processors its threads are bound to, NULL: n threads, unbound. path: as
 * above, or NULL for the best that this processor and dtype have; BASE_USAGE where it has not this
 * one. */
struct ops *cpu_ops_create(int dtype, const int *cores, int n, const char *path,
                           struct base_error *e);
void cpu_ops_destroy(struct ops *);
/* Names of the paths that this processor can run, best first, NULL at the end. */
const char *const *cpu_ops_paths(int dtype);

/* Training on the same threads and path; `ops` outlives it. NULL with BASE_ENV. */
struct grad *cpu_grad_create(struct ops *ops, const struct grad_limits *most,
                             struct base_error *e);
void cpu_grad_destroy(struct grad *);

#endif
