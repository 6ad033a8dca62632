/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The device contract: what executes work and owns the clock.
 *
 * There is one caller, the world, in one thread. The world submits work to lanes and waits; it
 * never knows whether time is virtual. What crosses is plain values and one borrowed batch.
 *
 *   lane = ops->lane_open(dev, gpu, 1, LULL_LANE_SERVE);
 *   ops->submit(dev, &work);                       // last phase of an instant
 *   n = ops->wait(dev, until, completions, max);   // the clock moves only in here
 *   now = ops->now(dev);
 *
 * INSTANT RULE (F2, F4). Forward and training work is submitted only in the last phase of an
 * instant, copies in any phase. Which lanes of a GPU are active counts when time moves, that is in
 * wait(until > now), not at submit or completion. Before time moves under another active set than
 * it last moved, a device reports the whole steps of that GPU's lanes, so that a span has one rate
 * (F6); such reports come with now unchanged.
 *
 * REPORT RULE (F8, F22). A device may report boundaries, end a repeat early at a boundary, or
 * return from wait early with nothing, at will. Nothing outside the world's hot state may depend
 * on which of these it did.
 *
 * REAL DEVICES. A device that computes tokens has request(): the world then tells it who a request
 * is before its first work, fills batch.row, and says by forget() when KV is given up. Lengths of
 * outputs are the plan's: a stop token in the middle changes nothing, the last one is cut off. Such
 * a device may be late: wait may return after `until`, and completions may have ended before now.
 * What was due in between the world takes in by the order of its own times, and what it measures
 * are the ends of completions, never their delivery (F15).
 *
 * ADAPTERS. A GPU has slots, 0 .. n-1, and a slot holds at most one version of an adapter. Loads
 * and drops are work of the COPY lane, so that they run beside steps. A load takes effect when its
 * completion is told, a drop when it is submitted: what a request gets depends on what the world
 * was told, not on how fast the device is. A request names its slot in request(), and keeps the
 * version that the slot held then, to its end, whatever becomes of the slot.
 *
 * SLEEP is work of the SERVE lane: it takes the server's own time, and a lane that sleeps or wakes
 * takes no step. Level 1 gives back the memory of KV, level 2 that of weights too. No request may
 * have KV on the GPU then, and no copy of KV may be under way, nor, at level 2, training. From the
 * submit of sleep to the told end of waking neither steps nor copies of KV are taken, and at level
 * 2 no training; requests and adapters are.
 *
 * What both take and give back counts as GPU memory beside reserve(): a load or a wake takes its
 * bytes at its submit, which fails with LULL_DEV_NO_MEMORY; what a version takes is given back when
 * neither a slot nor a request holds it, what sleep gives back when its completion is told. The
 * world leaves what it reserved for KV reserved meanwhile.
 */
#ifndef LULL_DEVICE_H
#define LULL_DEVICE_H

#include <lull/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { LULL_DEVICE_ABI = 1 };

struct lull_device; /* opaque, owned by whoever created it */

/* What a lane is for; lanes of one GPU may contend. */
enum lull_lane_kind { LULL_LANE_SERVE, LULL_LANE_TRAIN, LULL_LANE_COPY };

/* Kinds of work. A device refuses a kind it does not build with LULL_DEV_UNSUPPORTED. */
enum lull_work_kind {
  LULL_WORK_FORWARD,      /* steps of lull_work.batch, repeated */
  LULL_WORK_COPY_OUT,     /* KV of lull_work.tag from device to host, lull_work.bytes */
  LULL_WORK_COPY_IN,      /* the way back */
  LULL_WORK_TRAIN_MICRO,  /* forward + backward of one micro-step */
  LULL_WORK_OPTIMIZER,    /* optimiser step */
  LULL_WORK_ADAPTER_LOAD, /* lull_work.version of an adapter to lull_work.slot; see ADAPTERS */
  LULL_WORK_ADAPTER_DROP, /* what lull_work.slot holds goes */
  LULL_WORK_WEIGHTS_LOAD, /* wake, from whatever level; see SLEEP */
  LULL_WORK_WEIGHTS_DROP, /* sleep, to lull_work.level */
  LULL_WORK_COLLECTIVE
};

/* Results of calls and lull_completion.status. */
enum lull_dev_status {
  LULL_DEV_OK = 0,
  LULL_DEV_UNSUPPORTED = -1, /* not supported by this device */
  LULL_DEV_NO_MEMORY = -2,   /* reserve or submit would exceed the GPU's memory */
  LULL_DEV_BAD_CALL = -3,    /* a caller's error: lane unknown or full, no work, time in the past */
  LULL_DEV_IO = -4,          /* the device itself failed */
  LULL_DEV_DIFFERS = -5      /* a replay: the recorded run made another call here */
};

/* One prefill chunk of a batch: positions start .. start+tokens-1 of a request. */
struct lull_chunk {
  lull_id request;
  uint32_t start, tokens;
};

/*
 * A forward batch. Owned by the world, which edits it only while no ticket runs on it; the device
 * borrows it until the final completion and advances its own positions within a repeat (F10): step
 * i of a repeat (from 0) has context sum ctx_q16 + i * ctx_inc_q16, and chunk j starts at
 * chunk[j].start + i * chunk[j].tokens.
 *
 * A simulated device reads the aggregates; a real one reads chunk[] and row[].
 */
struct lull_batch {
  uint32_t rows;          /* decode rows */
  uint32_t row_tokens;    /* tokens a row computes in a step: 1 + draft depth */
  int64_t ctx_q16;        /* KV tokens of all rows before step 0, 16 fraction bits (F20) */
  int64_t ctx_inc_q16;    /* its growth a step: sum of the rows' tokens a step */
  uint32_t chunks;        /* prefill chunks */
  uint32_t chunk_tokens;  /* sum of tokens */
  uint32_t chunk_ends;    /* chunks that end their prompt in step 0 (each samples one token) */
  int64_t chunk_work;     /* sum of tokens * start + tokens * (tokens + 1) / 2: attended pairs */
  const struct lull_chunk *chunk; /* [chunks] */
  const lull_id *row;             /* [rows], or NULL for a device that has no request() */
  uint64_t version;               /* changes whenever rows join or leave */
  uint64_t ctx_max;               /* KV tokens of the row that holds most before step 0, for a device
                                     whose steps take longer when rows are uneven; every row grows
                                     by one a step. 0: not told */
};

/* Work handed to submit. Zero what does not apply. */
struct lull_work {
  uint32_t size;                  /* sizeof(struct lull_work) of the caller */
  uint8_t kind;                   /* enum lull_work_kind */
  lull_lane_id lane;
  const struct lull_batch *batch; /* FORWARD: borrowed until the final completion */
  uint64_t repeat;                /* FORWARD: steps wanted, >= 1; a bound, never a promise. KV for
                                     all of them is granted before submit */
  lull_ticks ticks;               /* TRAIN_MICRO, and other kinds whose nominal work the caller states, else 0 */
  int64_t bytes;                  /* copies and loads */
  uint64_t tag;                   /* the caller's own, returned in the completion */
  lull_id request;                /* copies: whose KV it is */
  /* Appended; a caller that has none of the works below may leave them out of `size`. */
  int32_t slot;                   /* ADAPTER_LOAD, ADAPTER_DROP: of the lane's GPU */
  int32_t level;                  /* WEIGHTS_DROP: 1 or 2 */
  uint64_t version;               /* ADAPTER_LOAD: the caller's number of what is loaded; the device
                                     refuses one that it cannot find with LULL_DEV_BAD_CALL */
};

/*
 * Who a request is, for a device that computes it. The key is the same in every arm and under every
 * policy, so that prompts, and the tokens that follow from them, are.
 */
struct lull_device_request {
  uint32_t size;           /* sizeof(struct lull_device_request) of the caller */
  lull_lane_id lane;       /* its server's: where its first work will be submitted */
  uint8_t cls;
  uint64_t key;            /* class << 32 | place among the rows, or items, of its class */
  uint32_t prompt, output; /* tokens; output: true length */
  int32_t adapter;         /* appended: slot of the lane's GPU, -1: none. LULL_DEV_BAD_CALL if none
                              is loaded there. Callers whose size ends before it: none */
};

/* What becomes of a request that a device is told to forget. */
enum lull_forget {
  LULL_FORGET_KV,       /* preempted by recompute: its KV goes, its tokens stay, and are computed again */
  LULL_FORGET_FINISHED, /* all of it goes */
  LULL_FORGET_FAILED    /* likewise; it did not get all its tokens */
};

/*
 * k whole steps: the first ends at first_end; step i >= 2 lasts second_dur + (i-2)*dur_inc; the
 * last ends at last_end. A device without such a law reports steps = 1.
 */
struct lull_span {
  uint64_t steps;
  lull_time first_end, second_dur, dur_inc, last_end;
};

/* What wait returns, ordered by (end, lane). */
struct lull_completion {
  uint64_t tag;
  lull_lane_id lane;
  uint8_t kind;
  uint8_t final;     /* 0: a report, the ticket runs on; 1: the lane is free (at a boundary) */
  uint8_t aborted;   /* stopped at a safe point: the partial step after span is lost */
  int16_t status;    /* enum lull_dev_status */
  struct lull_span span; /* FORWARD: steps since the last report; steps may be 0 if aborted */
  lull_time end;     /* when it ended, <= now */
  lull_time busy;    /* device-busy time since the last report of this ticket */
  const int32_t *tokens; /* devices with request(): ids of what the reported steps sampled: by step,
                            of its rows in their order, then of its chunks that reached the end of
                            what is known of their requests. Valid until the next call of wait or
                            submit. Else NULL */
};

/* How interrupt stops a lane. */
enum lull_interrupt { LULL_AT_BOUNDARY, LULL_AT_SAFEPOINT };

/*
 * What a device does. The table is const and outlives the device; size and abi let a caller refuse
 * another version.
 */
struct lull_device_ops {
  uint32_t size, abi; /* sizeof of this struct; LULL_DEVICE_ABI */

  /* The time as of the last return of wait; it does not move in between. Starts at 0. */
  lull_time (*now)(struct lull_device *);

  /* Opens a lane on n GPUs (n > 1: tensor parallel; its speed is its slowest GPU's, and it is
   * active on each, F16). Returns its index (0, 1, ... in order of opening) or a negative status. */
  int (*lane_open)(struct lull_device *, const int *gpu, int n, int kind);

  /* Queues work, FIFO in its lane (depth: see `depth`). All work lasts at least one tick.
   * Returns 0 or a negative status; a refused submit changes nothing. */
  int (*submit)(struct lull_device *, const struct lull_work *);

  /*
   * Asks a lane to stop at the first step boundary (or layer safe point, F13) >= now and after the
   * ticket's start; a boundary exactly at now counts (F3). It fixes a target in WORK, not a time.
   * The nearest target wins; it cannot be withdrawn. On a lane at a boundary it does nothing.
   */
  void (*interrupt)(struct lull_device *, lull_lane_id, int how);

  /* Boundaries <= now that were not yet reported: how many, and the time of the last one. Pure.
   * *steps = 0 leaves *boundary unset. (F9) */
  void (*progress)(struct lull_device *, lull_lane_id, uint64_t *steps, lull_time *boundary);

  /*
   * Lets time pass until something is to be told or `until` has come; fills at most `max` (>= the
   * number of lanes) completions and returns how many, or a negative status. Returns at the first
   * moment at which there is one, with all of that moment. until == now is a poll: the clock stays.
   * A real device may return late; now() then says so, and all that ended by then is told.
   */
  int (*wait)(struct lull_device *, lull_time until, struct lull_completion *, int max);

  /* Takes or gives back GPU memory, in bytes; reserve fails with LULL_DEV_NO_MEMORY. */
  int (*reserve)(struct lull_device *, int gpu, int64_t bytes);
  void (*release)(struct lull_device *, int gpu, int64_t bytes);

  /* Most steps the device takes in one submit (a real one asks for few, F10), >= 1. */
  uint64_t (*max_repeat)(struct lull_device *);

  /* Submitted works a lane holds, 1 or 2 (design: plan for step n+1 may be asked before n ends). */
  int (*depth)(struct lull_device *);

  /* Appended; NULL in a device that lacks them. All of the first two or neither: a device that has
   * them reads rows. */

  /* A request is to be admitted for the first time. 0 or a negative status, which ends the run. */
  int (*request)(struct lull_device *, lull_id, const struct lull_device_request *);
  /* A request that was told of by request() gives up its KV; it is in no work but, at a run's end,
   * a copy. how: enum lull_forget; after all but FORGET_KV the id is unknown again. */
  void (*forget)(struct lull_device *, lull_id, int how);
  /* What the last negative status was for, in a line of words that stays until the next call. */
  const char *(*why)(struct lull_device *);
};

#ifdef __cplusplus
}
#endif
#endif
