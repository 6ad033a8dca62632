/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the files device*.c share. */
#ifndef BACKEND_DEVICE_INNER_H
#define BACKEND_DEVICE_INNER_H

#include <pthread.h>

#define HASH_NONFATAL_OOM 1 /* an element that could not be added has no hh.tbl */
#include <uthash.h>

#include "backend/device.h"
#include "base/hist.h"

/* A version of an adapter, loaded or being loaded. The world's thread's. */
struct device_version {
  const struct adapter *adapter; /* until it is loaded; borrowed */
  int engine_slot;
  int64_t bytes;  /* reserved for it until the last user leaves */
  uint32_t users; /* requests, and the slot or the lane that holds it */
};

/* What a GPU holds beside requests. */
struct device_held {
  struct device_version **slot; /* [adapters] */
  int64_t adapter_bytes;        /* of reserved[] */
  int64_t slept_bytes;          /* which waking takes again */
  int level;                    /* 0: awake */
};

/* IDLE -> GIVEN (submit) -> RUNNING (its thread took it) -> DONE (completion ready) -> IDLE (told).
 */
enum lane_state { LANE_IDLE, LANE_GIVEN, LANE_RUNNING, LANE_DONE };

struct device_lane {
  struct lull_device *d;
  lull_lane_id id;
  int gpu;
  uint8_t kind;
  pthread_t thread;
  pthread_cond_t given;
  volatile int stop; /* atomic: what a step looks at between layers */

  /* the world's thread's; the lane's own reads them while it works */
  int in_use;                     /* submitted, and its end not told */
  struct device_version *version; /* of adapter work under way */

  /* under the device's lock */
  int state; /* enum lane_state */
  int dead;  /* its thread is gone */
  struct lull_work work;
  lull_time submitted; /* the device's now at that time */
  struct lull_completion done;
  struct base_error error; /* where done.status is not good */

  /* the thread's, while it runs */
  lull_time began;     /* when it took the work */
  int64_t given_bytes; /* by sleep */
  /* The work's batch, copied: a world that fails gives its own back while a step runs. */
  uint32_t rows, chunks;
  lull_id *row;               /* [max_seqs] */
  struct engine_chunk *chunk; /* [max_seqs] */
  struct engine_token *out;   /* [2 * max_seqs] */
  int32_t *token;             /* [2 * max_seqs]: what the completion points to */
};

/* A request that the world told of. */
struct device_request {
  UT_hash_handle hh;
  lull_id id;
  int gpu;
  uint64_t key;
  uint32_t prompt;
  struct device_version *version; /* of its adapter; NULL: none */
};

struct lull_device {
  struct device_options o;
  int ngpus, nlanes, quit;
  struct device_gpu *gpu;
  int64_t *reserved;        /* bytes by GPU */
  struct device_held *held; /* [ngpus] */
  pthread_mutex_t lock;
  pthread_cond_t told; /* a lane is done */
  int64_t start_ns;    /* of the clock; 0: it has not begun */
  lull_time now;
  struct device_lane *lane[LULL_LANES];
  struct device_request *requests; /* hash by id; the world's thread alone */
  struct device_stats stats;
  int64_t told_ns;       /* when a wait last told an end; 0: a submit followed */
  struct base_hist away; /* ns, from there to the submit */
  char why[sizeof((struct base_error *)0)->text];
};

/* Picoseconds since the clock began; with the lock held. */
lull_time device_clock(struct lull_device *d);
/* A lane with its thread. NULL with *e. */
struct device_lane *device_lane_open(struct lull_device *d, int gpu, int kind,
                                     struct base_error *e);
/* Its thread has ended when this returns; d->quit is set. */
void device_lane_close(struct device_lane *l);

/* Keeps the text for why(); returns the status. */
int device_refuse(struct lull_device *d, int status, const struct base_error *e);

/* device_held.c. -1: no memory. */
int device_held_create(struct lull_device *d);
/* Slots are emptied, the engine's too. */
void device_held_destroy(struct lull_device *d);
/* Is it adapter work, sleep or waking? The others are of such kinds only. */
int device_held_kind(int kind);
/* To a lane that is idle: takes what the work needs, or refuses it with a status. */
int device_held_submit(struct lull_device *d, struct device_lane *l, const struct lull_work *w);
/* In the lane's thread. */
int device_held_work(struct device_lane *l);
/* Its end is told: takes effect, or gives back what it took. */
void device_held_told(struct lull_device *d, struct device_lane *l);
/* BAD_CALL: the GPU sleeps, or is about to, so that such a lane takes no work. */
int device_held_awake(struct lull_device *d, int gpu, int lane_kind);
/* The version in a slot, for a request; slot < 0: NULL. BAD_CALL: there is none. */
int device_held_adapter(struct lull_device *d, int gpu, lull_id id, int slot,
                        struct device_version **v);
/* A user less; NULL is fine. */
void device_version_leave(struct lull_device *d, int gpu, struct device_version *v);
/* Out of the engine's slot, and a user less; NULL is fine. */
void device_version_drop(struct lull_device *d, int gpu, struct device_version *v);

#endif
