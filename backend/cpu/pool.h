/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A few threads that run one function together and wait for each other. The caller is thread 0, so
 * a pool of one has no threads of its own. What part of the work a thread does is the function's
 * matter: it is told its number and how many there are.
 */
#ifndef BACKEND_CPU_POOL_H
#define BACKEND_CPU_POOL_H

#include "base/error.h"

struct cpu_pool;

typedef void cpu_pool_fn(void *job, unsigned thread, unsigned threads);

/* n >= 1 threads, the i-th bound to processor cores[i] (NULL: unbound). The caller is bound when it
 * first runs something. BASE_USAGE: a processor that there is not; BASE_ENV: no thread. */
struct cpu_pool *cpu_pool_create(const int *cores, int n, struct base_error *e);
void cpu_pool_destroy(struct cpu_pool *p);
int cpu_pool_threads(const struct cpu_pool *p);
/* Returns when all threads have. One caller at a time. */
void cpu_pool_run(struct cpu_pool *p, cpu_pool_fn *fn, void *job);

/* Work that is too small to wake threads for: the caller, bound as above, does all of it. */
void cpu_pool_run_alone(struct cpu_pool *p, cpu_pool_fn *fn, void *job);

#endif
