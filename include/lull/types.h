/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Types that the two contracts share: time, work, identifiers, request states.
 *
 * Nothing here allocates or calls anything; the header needs only the C library.
 */
#ifndef LULL_TYPES_H
#define LULL_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A moment since the run's start, or a duration: integer picoseconds. Range 106 days. */
typedef int64_t lull_time;
#define LULL_NEVER INT64_MAX

/*
 * Nominal work of a device lane. A lane runs at an INTEGER number of picoseconds a tick:
 * LULL_TICK_PS when it is alone on its GPU, more when it contends (rule F5). So the wall time of
 * any whole number of steps is exact, however the steps were merged.
 */
typedef int64_t lull_ticks;
enum { LULL_TICK_PS = 64 };

/* Index types; -1 means none. A request's id is its ordinal of arrival in the run, so ids grow
 * with (arrival time, row of the frozen plan). */
typedef int32_t lull_id;
typedef int16_t lull_server_id, lull_lane_id, lull_job_id;

/* Upper bounds that both contracts rely on. */
enum { LULL_CLASSES = 8, LULL_SERVERS = 64, LULL_LANES = 256 };

/* Fixed point with 16 fraction bits: tokens a step under speculative decoding. */
enum { LULL_Q16_ONE = 1 << 16 };

/*
 * Where a request is. A request is in exactly one state's list; WAITING lists are ordered by queue
 * key (arrival, id), all others by the moment of entry (lull_request.entered).
 */
enum lull_state {
  LULL_WAITING,      /* no KV; also after a preemption by recompute */
  LULL_PREFILL,      /* KV granted for the whole prefill; computes when the plan gives it a chunk */
  LULL_DECODE,       /* row of the batch: advances in EVERY step until removed */
  LULL_HELD,         /* KV on the device, out of the batch: paused, or just swapped in */
  LULL_SWAPPING_OUT, /* KV being copied to the host; its blocks come free when the copy ends */
  LULL_SWAPPED,      /* KV on the host */
  LULL_SWAPPING_IN,  /* blocks granted, KV being copied to the device */
  LULL_FINISHED,     /* absorbing: all output tokens were delivered */
  LULL_FAILED,       /* absorbing: could never fit, or was refused */
  LULL_STATES
};

/* Does the struct that `p` points to, declared by its maker to be p->size bytes, hold `field`? */
#define LULL_HAS(p, field) \
  ((p)->size >= offsetof(__typeof__(*(p)), field) + sizeof((p)->field))

#ifdef __cplusplus
}
#endif
#endif
