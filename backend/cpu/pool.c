/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Threads that spin for some microseconds, then sleep. A run is a new value of `turn`; it is over
 * when `busy` is zero. Sleepers are counted under the lock, so that nobody sleeps through a change:
 * who changes looks at the count after the change, who sleeps looks at the change after counting.
 */
#define _GNU_SOURCE
#include "backend/cpu/pool.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { SPINS = 4000 };

struct worker {
  struct cpu_pool *pool;
  pthread_t thread;
  unsigned number;
};

struct cpu_pool {
  int n;
  int *core; /* NULL: unbound */
  unsigned id;
  struct worker *worker; /* [n - 1], numbers 1 .. n - 1 */
  int started;
  cpu_pool_fn *fn;
  void *job;
  atomic_uint turn;
  atomic_int busy, sleepers, quit;
  pthread_mutex_t lock;
  pthread_cond_t wake;
};

static inline void relax(void)
{
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

static int bind_to(pthread_t t, int core)
{
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((size_t)core, &set);
  return pthread_setaffinity_np(t, sizeof set, &set);
}

/* Waits until *what is no longer `old` (while_equal) or until it is `old`. */
static void wait_for(struct cpu_pool *p, int (*ready)(struct cpu_pool *, unsigned), unsigned arg)
{
  for (int i = 0; i < SPINS; i++) {
    if (ready(p, arg))
      return;
    relax();
  }
  pthread_mutex_lock(&p->lock);
  atomic_fetch_add(&p->sleepers, 1);
  while (!ready(p, arg))
    pthread_cond_wait(&p->wake, &p->lock);
  atomic_fetch_sub(&p->sleepers, 1);
  pthread_mutex_unlock(&p->lock);
}

static void wake_sleepers(struct cpu_pool *p)
{
  if (atomic_load(&p->sleepers) == 0)
    return;
  pthread_mutex_lock(&p->lock);
  pthread_cond_broadcast(&p->wake);
  pthread_mutex_unlock(&p->lock);
}

static int turn_changed(struct cpu_pool *p, unsigned old)
{
  return atomic_load(&p->turn) != old;
}

static int all_done(struct cpu_pool *p, unsigned unused)
{
  return atomic_load(&p->busy) == 0;
}

static void *work(void *arg)
{
  struct worker *w = arg;
  struct cpu_pool *p = w->pool;
  for (unsigned turn = 0;; turn++) {
    wait_for(p, turn_changed, turn);
    if (atomic_load(&p->quit))
      return NULL;
    p->fn(p->job, w->number, (unsigned)p->n);
    if (atomic_fetch_sub(&p->busy, 1) == 1)
      wake_sleepers(p);
  }
}

static void next_turn(struct cpu_pool *p)
{
  atomic_store(&p->busy, p->n - 1);
  atomic_fetch_add(&p->turn, 1);
  wake_sleepers(p);
}

/* The caller works on the first core. It may be another thread than last time. */
static void bind_caller(struct cpu_pool *p)
{
  static _Thread_local unsigned bound_by;
  if (!p->core || bound_by == p->id)
    return;
  bound_by = p->id;
  bind_to(pthread_self(), p->core[0]);
}

void cpu_pool_run_alone(struct cpu_pool *p, cpu_pool_fn *fn, void *job)
{
  bind_caller(p);
  fn(job, 0, 1);
}

void cpu_pool_run(struct cpu_pool *p, cpu_pool_fn *fn, void *job)
{
  bind_caller(p);
  if (p->n == 1) {
    fn(job, 0, 1);
    return;
  }
  p->fn = fn;
  p->job = job;
  next_turn(p);
  fn(job, 0, (unsigned)p->n);
  wait_for(p, all_done, 0);
}

int cpu_pool_threads(const struct cpu_pool *p)
{
  return p->n;
}

/* Tries each, as what a process may use is more than what this thread is bound to. */
static int check_cores(const int *core, int n, struct base_error *e)
{
  cpu_set_t set;
  int bad = 0;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0)
    return base_fail_errno(e, "cannot tell which processors this process may use");
  for (int i = 0; i < n && !bad; i++)
    if (core[i] < 0 || core[i] >= CPU_SETSIZE || bind_to(pthread_self(), core[i]) != 0)
      bad = base_fail(e, BASE_USAGE,
                      "cannot bind a thread to processor %d: there is none, or this process may "
                      "not use it",
                      core[i]);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
  return bad;
}

static int start(struct cpu_pool *p, struct base_error *e)
{
  for (int i = 0; i < p->n - 1; i++) {
    struct worker *w = &p->worker[i];
    *w = (struct worker){.pool = p, .number = (unsigned)i + 1};
    if (pthread_create(&w->thread, NULL, work, w) != 0)
      return base_fail(e, BASE_ENV, "cannot start thread %d of %d", i + 1, p->n);
    p->started++;
    if (p->core && bind_to(w->thread, p->core[i + 1]) != 0)
      return base_fail(e, BASE_ENV, "cannot bind a thread to processor %d", p->core[i + 1]);
  }
  return 0;
}

struct cpu_pool *cpu_pool_create(const int *cores, int n, struct base_error *e)
{
  static atomic_uint ids;
  assert(n >= 1);
  if (cores && check_cores(cores, n, e) != 0)
    return NULL;
  struct cpu_pool *p = calloc(1, sizeof *p);
  if (!p) {
    base_fail_memory(e);
    return NULL;
  }
  p->n = n;
  p->id = atomic_fetch_add(&ids, 1) + 1;
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->wake, NULL);
  p->worker = calloc((size_t)n, sizeof *p->worker);
  p->core = cores ? calloc((size_t)n, sizeof *p->core) : NULL;
  if (!p->worker || (cores && !p->core)) {
    base_fail_memory(e);
    cpu_pool_destroy(p);
    return NULL;
  }
  for (int i = 0; cores && i < n; i++)
    p->core[i] = cores[i];
  if (start(p, e) != 0) {
    cpu_pool_destroy(p);
    return NULL;
  }
  return p;
}

void cpu_pool_destroy(struct cpu_pool *p)
{
  if (!p)
    return;
  atomic_store(&p->quit, 1);
  next_turn(p);
  for (int i = 0; i < p->started; i++)
    pthread_join(p->worker[i].thread, NULL);
  pthread_cond_destroy(&p->wake);
  pthread_mutex_destroy(&p->lock);
  free(p->worker);
  free(p->core);
  free(p);
}
