/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A real device: the device contract over engines, in real time. A GPU is whatever one engine runs
 * on (on the CPU a set of cores), with a limit of memory. A lane is a thread: serving steps the
 * engine, copies swap its pages, training calls a trainer; the world's thread submits and waits.
 *
 *   struct lull_device *dev = device_create(gpu, ngpus, &options, &e);
 *   world_run(&config, dev, &device_ops, &result, &e);
 *   device_destroy(dev);
 *
 * The clock starts with the first work or the first wait, counts the monotonic clock's nanoseconds,
 * and is told in picoseconds. A wait ends with the first completion or at `until`, and now and then
 * with nothing, so that its caller can look at a signal.
 *
 * STEPS. One a submit (max_repeat is 1): rows and chunks of a step are known only when the step
 * before it was told, a repeat of n would answer an interrupt no earlier, and what the world takes
 * for a plan is small beside a step. So all that ended is told, progress has nothing to tell, and
 * an interrupt at the boundary changes nothing; one at a safe point stops the engine between
 * layers.
 *
 * TOKENS. A prompt is drawn by Philox from (seed, key of the request, position), and so is what
 * sampling draws: the same in every arm, under every policy, on every number of threads.
 *
 * FAILURES. An engine that fails, or a lane's thread that ends, ends that work with LULL_DEV_IO;
 * `why` tells the text. Lanes of several GPUs are LULL_DEV_UNSUPPORTED.
 *
 * ADAPTERS are copied to the engine by the thread of the copy lane; the memory of an older version
 * is freed in the world's thread, when its last request goes. SLEEP is the serving lane's; that it
 * cannot be, as when a request has KV on the device, or that an adapter is of another base, ends
 * the work with LULL_DEV_BAD_CALL and changes nothing. What sleep gives back is the engine's pages
 * (and weights of which the backend holds a copy), but at most what is reserved beside adapters
 * and, at level 1, held_bytes. An engine that sleeps when its device goes stays asleep.
 */
#ifndef BACKEND_DEVICE_H
#define BACKEND_DEVICE_H

#include <lull/device.h>

#include "backend/engine.h"

/* What trains on a GPU: called by the thread of its training lane, one call at a time. */
struct device_trainer {
  void *ctx;
  /* Forward and backward of one micro-step. `stop` is to be looked at between layers, and is set
   * when the device goes. 0, DEVICE_STOPPED or -1. */
  int (*micro_step)(void *ctx, const volatile int *stop, struct base_error *e);
  int (*optimizer)(void *ctx, struct base_error *e); /* NULL: there is no such work */
};
enum { DEVICE_STOPPED = 1 };

struct device_gpu {
  struct engine *engine;                /* of the server on it; borrowed */
  uint32_t vocab;                       /* prompts are of tokens below this */
  uint32_t max_seqs;                    /* most rows and chunks of a step */
  uint32_t adapters;                    /* slots; the engine has one more, for what is on its way */
  int64_t memory_bytes;                 /* the limit */
  int64_t held_bytes;                   /* of these, taken from the start: the weights */
  const struct device_trainer *trainer; /* NULL: it takes no training lane */
};

struct device_options {
  uint64_t seed;         /* of prompts and sampling */
  struct ops_sample how; /* temperature, top_p, top_k; the rest is ignored */
  /* A request that has finished: its tokens, of which the first `prompt` are the prompt's. In the
   * world's thread; NULL: nobody wants them. */
  void (*finished)(void *ctx, uint64_t key, const int32_t *token, uint32_t prompt, uint32_t n);
  void *finished_ctx;
  /* A version of an adapter for a GPU, by the caller's number, or NULL: there is none. In the
   * world's thread; the adapter is borrowed until its load is told, or the device goes. NULL:
   * there are none at all. */
  const struct adapter *(*adapter)(void *ctx, int gpu, uint64_t version);
  void *adapter_ctx;
};

/* What a run was like, for the report. */
struct device_stats {
  uint64_t steps, copies;
  uint64_t adapter_loads, slept; /* works that ended well */
  int64_t slept_bytes;           /* given back, in all */
  uint64_t finished;            /* requests */
  uint64_t tokens;              /* sampled */
  uint64_t digest;              /* of the keys and tokens of what finished, in any order */
  uint64_t told;                /* completions and moments that were waited for */
  lull_time late_sum, late_max; /* how much later than they were they were told */
  lull_time away;               /* from the wait that told an end to the next submit: median */
};

/* GPUs are copied, what they point to is borrowed. BASE_INPUT: a GPU holds more than its memory. */
struct lull_device *device_create(const struct device_gpu *gpu, int ngpus,
                                  const struct device_options *o, struct base_error *e);
/* Stops what runs, at the next safe point where there is one. */
void device_destroy(struct lull_device *d);
void device_get_stats(struct lull_device *d, struct device_stats *out);
extern const struct lull_device_ops device_ops;

/* Token `position` of the prompt of a key. */
int32_t device_prompt_token(uint64_t seed, uint64_t key, uint32_t position, uint32_t vocab);

#endif
