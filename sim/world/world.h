/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The world: one arm, one seed, on one device. It takes requests from a source, keeps queues and
 * KV blocks, asks the policy for plans, drives the device, keeps the ledger, and knows no virtual
 * time: it moves by device->wait(until). Rules F1 to F25 of the contract hold; what follows pins
 * down what they leave open. tests/naive_world.c is a second, naive implementation of this page.
 *
 * INSTANT. deliver until quiet; then plan, one server at a time (lowest index first, those that
 * are at a boundary and have a reason), delivering again after each plan; then submit, servers by
 * index, then jobs; then wait until min(next scheduled arrival, timer, time wake). "Deliver until
 * quiet" is a loop of:
 *   1. completions of the device, by (end, lane); the device is polled again after any interrupt;
 *   2. arrivals due, in row order;
 *   3. timers due, by (time, order of setting);
 *   4. time wakes due, by server;
 *   5. refills: for each backlog (by index), while the count of unfinished requests of its server
 *      is below `below` and the window is open (now < window): one request arrives now; more than
 *      10,000 in a row that end at their own arrival are an input error;
 *   6. when all is quiet, jobs: see JOB.
 * DRAIN is delivered once, at the first instant at or after the window's end, before arrivals.
 * An event that a change or a callback causes (FINISHED at a boundary, FAILED by reject, EVICTED)
 * is delivered when that change or callback is over; all completions of a moment are taken in, by
 * lane, before the first event tells of them. More than 64 plans of an instant beyond one a server are an error.
 *
 * PLAN. Before its first plan a server asks for no wake. FINISH, and CHUNK for a prompt that completes,
 * are reasons only if the plan in force does not decline them at that moment; CHUNK for less than a
 * chunk being left cannot be declined. An empty plan that wanted steps is asked
 * once more with why = EMPTY alone. Builder calls: chunk of 0 tokens, or a second chunk of a request
 * in one plan, is NO_STATE; resume of a HELD request needs row_tokens of the budget, a slot and its
 * next step's blocks. Log lines of ROUTE, TEXT and TIMER, and of builder calls that name an unknown
 * request or another server's, have server -1; refused calls are logged with their refusal.
 *
 * ARRIVAL. The request gets the next id. If on no eligible server blocks_for(prompt + output - 1
 * + row_tokens - 1) fits the pool (the watermark is waived on an empty pool, F11) and prompt +
 * output the model's limit, it FAILS at once (event FAILED, no ARRIVED). Else it is WAITING, the event ARRIVED is sent, and
 * after it the request is routed: to the server that route() named, else to the eligible server
 * that can hold it with the fewest unfinished requests, lowest index first. A request refilled for
 * a server is routed there before the event. Then, if the server's plan asks for this class, the
 * server's reason ARRIVAL is set and its lane is interrupted at the boundary.
 *
 * STEP. A step of a server computes row_tokens for every DECODE row and the plan's chunks. When it
 * ends, at boundary t: (a) rows whose output is complete finish, in ascending id; (b) chunks, in
 * plan order, advance; a prompt that completes emits one token at t: the request becomes DECODE
 * (joined at this step count), or finishes if that was its last. Each finish sends FINISHED in this
 * order. Its cost is that of its rows and chunks, with the context of the row that has most (only
 * where the cost model asks); whole steps count in `misses`. A row emits floor((k * rate + phase) / 2^16) tokens in its first k steps since join, at
 * most what it still needs; phase carries over preemptions: on leaving, it becomes
 * (k * rate + phase) mod 2^16. Without speculation (row_tokens = 1) rate = 2^16 and phase = 0.
 *
 * KV. DECODE rows hold blocks_for(kv), and the next step needs blocks_for(kv after it) of each, kv
 * after it not capped by the output's end. A plan's blocks_left starts as kv_free minus that
 * growth. Admission takes blocks_for(prefill_target) and needs it + watermark <= blocks_left;
 * swap-in takes blocks_for(kv + row's tokens of one step) and needs it + watermark; in both the
 * watermark is waived when every other block of the pool is free. A repeat is cut to the steps
 * whose growth is free at submit. F12: while blocks_left < 0 after plan(), the last PREFILL by
 * (class descending, list order), else the last DECODE likewise, is preempted by recompute.
 *
 * ASYNC. A server with `async` decides a step's batch while the step before it runs, so its plans lag a
 * step behind what they did not decide themselves. (a) A request routed to it while a step is under
 * way, or at the moment in which one ended, is in no list and cannot be given a chunk until the end of
 * a step that began at or after its arrival; then, after that step's finishes, such requests enter
 * WAITING in order of arrival, and each is the reason ARRIVAL if the plan in force asks for it. (b) What
 * a request that finishes at a boundary gives back, its slot and its blocks, stays taken to the end of
 * the next step; it is then that they are free, and that the reason FINISH holds. (c) If such a server, looked at for planning at a boundary, has no
 * row and no chunk, nothing runs that it could not know the end of: (a) and (b) come true at once.
 * Events are told when they happen.
 *
 * PREFIX. On a server with `prefix_caching` every block has a count of the requests that hold it. A
 * block that is full, and all of whose KV was computed by whole steps, has a name from the end of the
 * last of them on: the name of the block before it in its request, and the identities of its tokens.
 * Token t of a prompt is (id [t / tokens] of its arrival's prefix, t mod tokens) where there is such
 * an id; else, and if it was generated, it is the request's alone. Several blocks may bear one name;
 * who looks for it gets the one that has borne it longest. Blocks with count 0 are free. They stand in
 * one queue, at first the whole pool, without names. A block that is needed is the first of the queue,
 * and loses its name; what a request lets go of goes to the queue's end if its count is then 0, the
 * request's last block first, and keeps its name.
 *   Admission takes the longest row of first blocks of the request whose names it finds, short of its
 * last token, which is always computed; those with count 0 leave the queue. They count as computed:
 * prefill_done and kv0 start behind them. It then takes the rest of blocks_for(prefill_target). For KV
 * it needs those and the ones with count 0 that it found: as many as blocks_left falls by. kv_free and
 * blocks_left are of free blocks, named or not; a preemption gives back to blocks_left what nobody
 * else holds. Blocks of a row's growth are taken when the step ends. Recompute, the end of a swap-out,
 * and a finish (ASYNC: a step later) let go with names, so that a recompute can find its own. What a
 * swap-in takes has no names until it was let go of and computed again. HELD keeps all. A resume that
 * needs fewer blocks than the swap-in took lets go of the last ones.
 *
 * PREEMPT by recompute: KV and prefill_done are dropped, generated tokens kept, prefill_target =
 * prompt + generated; back in WAITING by (arrival, id). tokens discarded += KV tokens dropped. Swap
 * copies ceil(kv / block) blocks out, and as many in again, on the server's copy lane.
 *
 * JOB. Trains in the background on a server's GPU, at most one a GPU: a micro-step is submitted at
 * the end of an instant if the job runs, none is under way and one is left. A job is active while a
 * micro-step is under way or due. Once all is quiet: a job that became active, or no longer is,
 * since this was last looked at (at first none is) gives its server the reason LANE if the plan asks
 * for it, and an interrupt at the boundary. Nothing else tells of jobs. They keep no run from being
 * stalled, except by a micro-step after whose end LANE will wake a server.
 *
 * LEDGER. Unit 1/12 ps, 128 bits. While m compute lanes of a GPU are active each earns 12/m a
 * picosecond: a step's credit is the sum over its time, a job's goes to training. Within a step of
 * T ticks, slope s and chunk part P: u = (T - (s*ctx_q16 >> 16) - P) /
 * (rows * row_tokens + chunk_tokens), floored; w = P / chunk_work, floored; rate = credit / T,
 * floored. A row's stay (join to leave) earns floor((sum over its steps of rate * (u * row_tokens
 * * 2^16 + s * context_q16)) / 2^16), with context_q16 = (kv0 << 16) + phase + k * rate_q16 before
 * its step k; a chunk's step earns rate * (u * tokens + w * its own pairs). What is left of a
 * step's credit goes to the class of its first row in class order (lowest class with rows), else
 * of its first chunk; it is kept by server and class with 16 fraction bits, together with what the
 * floors of that class's stays cut off, and floored at the end; the parts of units so lost add up
 * to whole units, which class 0 keeps. Earned shares are pending until the request's fate: recompute wastes what it
 * earned since its KV was last lost; at the end the rest is useful (live: SLO met; batch:
 * completed), late (live, SLO missed) or wasted (unfinished, failed). Aborted steps waste their
 * whole credit, on the class of the first row or chunk.
 *
 * IDLE time of a GPU is idle_waiting if, at its start, some unfinished request or open backlog
 * exists in the arm, else idle; from the window's end on it is drain. None is idle while a job's
 * micro-step is under way. Intervals are cut at the window's end and whenever that condition or the
 * lanes' activity changes. A GPU that has no forward ticket and no micro-step but a copy is
 * exposed_transfer.
 *
 * LATE. A device may tell of things after they were. What was due, or ended, before now is then taken
 * in by its own time: completions by (end, lane), what else is due by (time, class); at one time
 * completions go first, and DRAIN before arrivals. Events carry that time in `at`. From the end of a
 * lane's last work to its delivery its GPU is idle; a job that shares it has it alone. A timer that a
 * TIMER event sets behind its own `at`, but not after now, comes 1 us from now.
 *
 * END. At the end of the instant in which no unfinished request is left, the window is over and no
 * arrival is pending; or at window + drain deadline, when what is unfinished is counted so; or when
 * *stop is set (partial). The paid time is end * GPUs. A step under way at the end is cut there: its
 * time is wasted on its first class; a micro-step is charged up to there and not counted. With
 * nothing pending, no deadline and DRAIN delivered, a run that has unfinished requests is stalled.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include <lull/device.h>
#include <lull/policy.h>

#include "base/error.h"
#include "base/hist.h"
#include "models/cost.h"

/* What a prompt has in common with others: prompts whose first ids are equal begin with the same
 * tokens. */
struct world_prefix {
  uint32_t n;              /* ids */
  uint32_t tokens;         /* that one id stands for, >= 1; the last may stand for fewer */
  uint64_t id[];
};

/* A request before it arrives. */
struct world_arrival {
  lull_time time;          /* scheduled arrival */
  uint32_t prompt, output; /* tokens, >= 1 */
  uint32_t accept_q16;     /* chance that a drafted token is accepted, 0 .. 65,536; used where the
                              server speculates */
  uint32_t phase_q16;      /* fraction of a token at first join, < 65,536; likewise */
  uint8_t cls;
  uint32_t ordinal;        /* its place among its class's rows or items, the same in every arm: what
                              a device that computes tokens knows it by */
  const struct world_prefix *prefix; /* NULL: nothing; the source's, which keeps it to the run's end */
};

/* Tokens a decode step with `depth` drafted tokens: 1 + a + a^2 + ... + a^depth, each power
 * truncated to 16 fraction bits. Without speculation (depth 0) exactly 65,536. */
static inline uint32_t world_rate_q16(uint32_t accept_q16, uint32_t depth)
{
  uint64_t power = LULL_Q16_ONE, sum = LULL_Q16_ONE;
  while (depth--)
    sum += power = power * accept_q16 >> 16;
  return (uint32_t)sum;
}

/*
 * Where requests come from. next: the following row of the frozen plan in time order (non-
 * decreasing), 1 or 0 at its end, -1 error. refill: the `index`-th item of backlog class cls
 * (same item in every arm); its time is ignored.
 */
struct world_source {
  void *ctx;
  int (*next)(void *ctx, struct world_arrival *out, struct base_error *e);
  int (*refill)(void *ctx, int cls, uint64_t index, struct world_arrival *out,
                struct base_error *e);
};

struct world_class {
  const char *name;
  uint8_t interactive;            /* live: has an SLO; else batch */
  lull_time slo_ttft, slo_tpot;   /* interactive: targets, inclusive */
};

struct world_server {
  int gpu;                        /* index; one server a GPU in this version */
  uint32_t class_mask;
  uint32_t max_seqs, token_budget, block_tokens, kv_blocks, watermark_blocks, layers;
  uint32_t row_tokens;            /* 1 + draft depth */
  int async;                      /* plans lag a step behind: see ASYNC */
  int prefix_caching;             /* blocks are shared and found again: see PREFIX */
  uint32_t model_limit;           /* most prompt + output tokens */
  int64_t block_bytes;            /* of one KV block, for copies */
  const struct cost_model *cost;  /* of this server's settings: ledger shares; the simulated device
                                     answers from the same */
};

/* A background job: one lane for training on its GPU. */
struct world_job {
  const char *name;
  int gpu;                /* of a server; no two jobs share one */
  uint64_t micro_steps;   /* then it is done; 0: it goes on to the run's end */
  lull_ticks micro_ticks; /* of one, alone, >= 1 */
  int paused;             /* at the start */
};

/* Refill rule: a new item of `cls` is released to `server` while its unfinished requests (of all
 * classes) are below `below`. Items of a class are numbered across its backlogs in release order. */
struct world_backlog {
  uint8_t cls;
  int server;
  uint32_t below;
};

/* One line of the decision log. a, b by kind; text only for LOG. */
enum world_log_kind {
  WORLD_LOG_EVENT,   /* a: event kind, b: request or tag, server */
  WORLD_LOG_PLAN,    /* a: why, b: steps_run */
  WORLD_LOG_CHUNK,   /* a: request, b: tokens granted or refusal */
  WORLD_LOG_PREEMPT, /* a: request, b: how, or refusal */
  WORLD_LOG_RESUME,  /* a: request, b: 0 or refusal */
  WORLD_LOG_PLANNED, /* a: wake, b: wake_steps (end of plan) */
  WORLD_LOG_ROUTE,   /* a: request, b: server */
  WORLD_LOG_REJECT,  /* a: request, b: why */
  WORLD_LOG_ABORT,   /* server */
  WORLD_LOG_TIMER,   /* a: at, b: tag */
  WORLD_LOG_FORCED,  /* a: request (F12) */
  WORLD_LOG_TEXT,    /* a, b: the policy's, text */
  WORLD_LOG_TRAIN    /* a: job, b: run or refusal */
};
struct world_log_line {
  lull_time time;
  int16_t server;
  uint8_t kind;
  int64_t a, b;
  const char *text;
};

struct world_record;

struct world_config {
  uint32_t nclasses, nservers, nbacklogs, ngpus, njobs;
  const struct world_class *cls;
  const struct world_server *server;
  const struct world_backlog *backlog;
  const struct world_job *job;          /* [njobs] */
  const struct lull_policy *policy;
  const int64_t *params;                /* [policy->nparams] */
  struct world_source source;
  lull_time window;                     /* arrivals and refills stop here */
  lull_time drain;                      /* deadline after the window; LULL_NEVER: to completion */
  uint64_t max_repeat;                  /* 1: no fast-forward; 0: no bound of its own */
  uint32_t max_preempts;                /* of one request (watchdog), 0: 100,000 */
  const volatile int *stop;             /* may be NULL; set by a signal handler */
  int drop_records;                     /* keep no records: memory does not grow with the run */
  void (*ended)(void *, lull_id, const struct world_record *); /* each request at its end, NULL: none */
  void *ended_ctx;
  void (*log)(void *, const struct world_log_line *); /* may be NULL */
  void *log_ctx;
  void (*progress)(void *, lull_time now, uint64_t ended); /* may be NULL; a few times a second of
                                                              CPU time, never in the decision path */
  void *progress_ctx;
};

enum world_fate { WORLD_PENDING, WORLD_DONE, WORLD_FATE_FAILED, WORLD_REJECTED, WORLD_CANCELLED,
                  WORLD_EXPIRED, WORLD_UNFINISHED };

/* What became of one request. Times: LULL_NEVER where it did not happen. */
struct world_record {
  lull_time arrival, first_chunk /* start of the step of its first chunk */, first_token, last_token;
  uint32_t prompt, output, generated, preempts;
  uint64_t discarded;         /* KV tokens dropped by recompute */
  int64_t share, wasted;      /* ledger, 1/12 ps: useful or late; wasted */
  int16_t server;
  uint8_t cls, fate, met;     /* met: SLO met (interactive and done) */
  uint64_t cached;            /* tokens that its admissions found (PREFIX) */
};

enum world_account { WORLD_LIVE_USEFUL, WORLD_LIVE_LATE, WORLD_BATCH_USEFUL, WORLD_BATCH_WASTED,
  WORLD_LIVE_WASTED, WORLD_TRAINING, WORLD_EXPOSED_TRANSFER, WORLD_IDLE_WAITING, WORLD_IDLE,
  WORLD_DRAIN, WORLD_ACCOUNTS };
extern const char *const world_account_name[WORLD_ACCOUNTS]; /* "live useful", ... */

struct world_class_result {
  uint64_t offered, finished, failed, rejected, cancelled, expired, unfinished, met;
  uint64_t output_tokens;         /* delivered, of all requests */
  uint64_t useful_tokens;         /* live: of requests that met their SLO; batch: of finished ones */
  uint64_t preempts, discarded;
  uint64_t looked_up, cached;     /* PREFIX: tokens that admissions wanted computed; of these, found */
  base_int128 share, residue;     /* credit of its requests; remainder of steps kept by the class */
  struct base_hist itl;           /* gaps between emissions, ps */
};

struct world_job_result {
  uint64_t micro_steps;           /* that were completed */
  lull_time busy;                 /* with a micro-step under way */
};

struct world_result {
  struct world_record *record;    /* [records] by id, owned; NULL with drop_records */
  uint64_t records;
  struct world_class_result cls[LULL_CLASSES];
  uint32_t nclasses;
  base_int128 account[WORLD_ACCOUNTS];            /* of all GPUs, 1/12 ps */
  base_int128 gpu_account[LULL_SERVERS][WORLD_ACCOUNTS];
  lull_time gpu_busy[LULL_SERVERS];               /* a micro-step under way, or a kernel of a step: steps less host time */
  struct world_job_result job[LULL_SERVERS];      /* [njobs of the configuration] */
  base_int128 paid;               /* end * ngpus * 12 */
  lull_time end;
  uint64_t steps, plans, forced, swaps, aborts, released; /* released: backlog items */
  struct cost_misses misses;      /* whole steps whose cost was looked up outside what was measured */
  int partial;                    /* stopped by *stop */
};

/*
 * Runs to the end and fills *out (free with world_result_free, also after a failure). On failure:
 * -1 with BASE_INPUT (policy refused the arm, bad source), BASE_ENV, or BASE_INVARIANT (a broken
 * invariant or a stall: which, where). Invariants are checked in every build.
 */
int world_run(const struct world_config *cfg, struct lull_device *dev,
              const struct lull_device_ops *ops, struct world_result *out, struct base_error *e);
void world_result_free(struct world_result *r);

#endif
