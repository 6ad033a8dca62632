/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The policy contract: what a scheduling policy sees and may do.
 *
 * A policy is one C file that includes this header and libc, and ends in one descriptor:
 *
 *   static void plan(void *st, const struct lull_host *h, const struct lull_server *s,
 *                   struct lull_plan *p) { ... h->chunk(h->ctx, p, id, tokens) ... }
 *   LULL_POLICY_EXPORT extern const struct lull_policy LULL_POLICY_SYMBOL(mine);
 *   const struct lull_policy LULL_POLICY_SYMBOL(mine) = {
 *     .size = sizeof(struct lull_policy), .abi = LULL_POLICY_ABI, .name = "mine",
 *     .summary = "what it does", .plan = plan };
 *
 * It is built in, or a shared object that exports the symbol `lull_policy`. It has no clock, no
 * randomness, no I/O, no globals and allocates nothing: time comes with the event, state lives in
 * `state_size` zeroed bytes that the host owns, text goes to the host's decision log. The same
 * object runs on every device.
 *
 * Compatibility: `abi` must be equal; every struct that crosses starts with its size, fields are
 * only appended, enum values never reused. A policy ignores events that it does not know. Views
 * (lull_request, lull_server) are read through pointers and never indexed as arrays.
 */
#ifndef LULL_POLICY_H
#define LULL_POLICY_H

#include <lull/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { LULL_POLICY_ABI = 1 };

/* Names the descriptor: `lull_policy` in a shared object, `lull_policy_NAME` when built in. */
#ifdef LULL_POLICY_BUILTIN
#define LULL_POLICY_SYMBOL(name) lull_policy_##name
#else
#define LULL_POLICY_SYMBOL(name) lull_policy
#endif
#define LULL_POLICY_EXPORT __attribute__((visibility("default")))

/* ------------------------------------------------------------------------------------ views --- */

/*
 * One request. Host-owned, read-only; valid from its arrival until the event of its end (FINISHED,
 * FAILED) has been delivered. A view shows the last step boundary <= now of its server (F9); within
 * plan() it is live.
 */
struct lull_request {
  uint32_t size;
  lull_id id;             /* ordinal of arrival */
  lull_id next, prev;     /* neighbours in its (server, state, class) list; -1 at the ends */
  lull_server_id server;  /* -1 before routing */
  uint8_t cls;            /* index of its class, in scenario order */
  uint8_t state;          /* enum lull_state */
  uint32_t preempts;      /* preemptions so far, of any means */
  uint32_t prompt;        /* prompt tokens */
  uint32_t max_tokens;    /* declared limit of output tokens, not the true length */
  uint32_t prefill_target;/* tokens to compute before it can decode: prompt, or prompt + generated
                             after a recompute (F11) */
  uint32_t prefill_done;  /* of these, computed */
  uint32_t gen0;          /* output tokens generated at join (DECODE) or now (any other state) */
  uint32_t kv0;           /* KV tokens held at join (DECODE) or now */
  uint32_t blocks;        /* KV blocks held now, shared ones too; for DECODE see lull_kv_blocks */
  uint64_t join_step;     /* DECODE: server step count when it joined */
  uint32_t rate_q16;      /* DECODE: tokens a step, 16 fraction bits (65,536 = one, F20) */
  uint32_t phase_q16;     /* DECODE: fraction of a token carried at join, < 65,536 */
  uint64_t entered;       /* run-wide ordinal of its entry in its present state's list */
  lull_time arrival;      /* scheduled arrival */
  uint64_t word;          /* the policy's own (set_word), 0 at arrival */
};

/*
 * One server: an engine on its own lane. Host-owned, read-only. kv_free is as of the last boundary
 * <= now; blocks of the step under way are not yet counted. Within plan(), counts and lists are
 * live, and free KV, tokens and slots are read from the plan's *_left only.
 */
struct lull_server {
  uint32_t size;
  lull_server_id id;
  uint32_t class_mask;      /* bit c: requests of class c may be routed here */
  uint32_t max_seqs;        /* most requests in PREFILL and DECODE together */
  uint32_t token_budget;    /* most tokens of a step; decode rows are never cut by it */
  uint32_t row_tokens;      /* tokens that a decode row takes of it: 1 + draft depth */
  uint32_t block_tokens;    /* tokens of a KV block, a power of two */
  uint32_t kv_blocks;       /* size of the pool */
  uint32_t watermark_blocks;/* kept free when a request is admitted or swapped in */
  uint32_t layers;          /* layers of the model: safe points of a step */
  uint32_t kv_free;         /* free blocks */
  uint32_t seqs;            /* requests in PREFILL and DECODE. Both of a server that schedules
                               asynchronously: without what finished at the last boundary, which it
                               gives away a step later; who has arrived since is in no list yet */
  uint32_t count[LULL_STATES][LULL_CLASSES]; /* requests by state and class */
  uint64_t step;            /* steps completed */
  lull_time boundary;       /* when the last one ended; 0 before */
  uint8_t stepping;         /* work is submitted; with boundary < now a step is under way. Nothing
                               tells idle from between-steps otherwise (F9) */
};

/* Tokens since join of a DECODE request, by the closed form of F20. */
static inline uint32_t lull_since_join(const struct lull_request *r, const struct lull_server *s)
{
  return (uint32_t)(((s->step - r->join_step) * r->rate_q16 + r->phase_q16) >> 16);
}
/* Output tokens generated so far. */
static inline uint32_t lull_generated(const struct lull_request *r, const struct lull_server *s)
{
  return r->state == LULL_DECODE ? r->gen0 + lull_since_join(r, s) : r->gen0;
}
/* KV tokens held. A running request holds prompt + generated - 1: the last token's is unwritten. */
static inline uint32_t lull_kv_tokens(const struct lull_request *r, const struct lull_server *s)
{
  return r->state == LULL_DECODE ? r->kv0 + lull_since_join(r, s) : r->kv0;
}
/* Blocks that hold kv tokens on s, with room for the draft tokens of a speculating server. */
static inline uint32_t lull_blocks_for(const struct lull_server *s, uint32_t kv)
{
  return (kv + s->row_tokens - 1 + s->block_tokens - 1) / s->block_tokens;
}
/* KV blocks held now. */
static inline uint32_t lull_kv_blocks(const struct lull_request *r, const struct lull_server *s)
{
  return r->state == LULL_DECODE ? lull_blocks_for(s, lull_kv_tokens(r, s)) : r->blocks;
}

/* ----------------------------------------------------------------------------------- events --- */

/*
 * What happened. `time` is the delivery (device now), `at` the occurrence (F15); they are equal in
 * simulation. A step that ends is no event: plan() is (F7). CANCELLED, STAGE_*, ADAPTER_READY, SAMPLE
 * and MEMORY are declared for devices and campaigns to come: nothing sends them yet.
 */
enum lull_event_kind {
  LULL_EV_ARRIVED = 1,   /* request, WAITING; call route() here, else the default holds (F17) */
  LULL_EV_FINISHED,      /* request */
  LULL_EV_FAILED,        /* request: could never fit (instead of ARRIVED), or rejected */
  LULL_EV_CANCELLED,     /* request: by its client */
  LULL_EV_TIMER,         /* tag */
  LULL_EV_TRANSFERRED,   /* request: a swap out or in has ended; its state tells which */
  LULL_EV_EVICTED,       /* request: preempted by the host's safety net (F12) */
  LULL_EV_STAGE_READY,   /* pipelines; tag: stage */
  LULL_EV_STAGE_DONE,
  LULL_EV_ADAPTER_READY, /* tag: version */
  LULL_EV_SAMPLE,        /* a delayed metric sample */
  LULL_EV_MEMORY,        /* memory pressure on a server */
  LULL_EV_DRAIN          /* arrivals have stopped; tag: drain deadline in ps, or 0 */
};

struct lull_event {
  uint32_t size;
  uint16_t kind;          /* enum lull_event_kind */
  lull_server_id server;  /* -1: none */
  lull_id request;        /* -1: none */
  lull_time time, at;
  uint64_t tag;
};

/* ------------------------------------------------------------------------------------ plans --- */

/*
 * Why plan() is called, and, as plan->wake, when it wants to be called again. A plan stands, step
 * after step, until a condition holds at a boundary (F8). The mandatory ones always do. Conditions
 * are levels, evaluated once an instant after all deliveries.
 */
enum lull_wake {
  LULL_WAKE_FINISH = 1,      /* a row ended, and what it held may be given away; unless declined */
  LULL_WAKE_CHUNK = 2,       /* a prompt completed, unless declined; less than a chunk of one is left */
  LULL_WAKE_KV = 4,          /* mandatory: the next step's blocks are not free */
  LULL_WAKE_ABORT = 8,       /* mandatory: abort_step took effect */
  LULL_WAKE_ASKED = 16,      /* mandatory: host->wake() */
  LULL_WAKE_START = 32,      /* mandatory: first plan of the run */
  LULL_WAKE_ARRIVAL = 64,    /* a request of plan->wake_classes was routed here */
  LULL_WAKE_KV_LOW = 128,    /* kv_free < plan->kv_low_blocks, after at least one step */
  LULL_WAKE_STEPS = 256,     /* plan->wake_steps steps were done */
  LULL_WAKE_TIME = 512,      /* plan->wake_time has come, and the server has a request */
  LULL_WAKE_TRANSFER = 1024, /* a swap of this server ended */
  LULL_WAKE_LANE = 2048,     /* a job on its GPU started or stopped; a micro-step that another one
                                follows in the same instant is neither */
  LULL_WAKE_EMPTY = 4096     /* mandatory: the plan just made holds no row and no chunk but asked
                                for wake_steps: asked once more, at once (F14) */
};
#define LULL_WAKE_MANDATORY 4159u /* FINISH..START and EMPTY */
#define LULL_WAKE_DECLINABLE 3u   /* of these, those that a plan may decline */

/*
 * A plan under construction. The host fills the first part; the builder calls keep *_left true;
 * the policy sets the last part, whose defaults are: wake by everything, all classes, no step
 * count, no time, no threshold.
 *
 * What a new plan does not name: DECODE rows go on, chunks end, PREFILL and HELD keep their KV and
 * wait.
 */
struct lull_plan {
  uint32_t size;
  lull_server_id server;
  lull_time time;         /* now */
  uint32_t why;           /* enum lull_wake bits that hold */
  uint64_t steps_run;     /* steps since the last plan */
  int64_t tokens_left;    /* of the token budget, after row_tokens for each DECODE row; may be < 0 */
  int64_t blocks_left;    /* free KV blocks after the next step of the DECODE rows; < 0: short */
  int32_t seqs_left;
  /* out */
  uint32_t wake;          /* enum lull_wake bits wanted, beside the mandatory ones */
  uint32_t wake_classes;  /* ARRIVAL: of these classes, bit c */
  uint64_t wake_steps;    /* STEPS: after so many; 0: never */
  lull_time wake_time;    /* TIME: at this moment, but 1 us from now at the
                             earliest; LULL_NEVER: not */
  uint32_t kv_low_blocks; /* KV_LOW; 0: never */
  uint32_t decline;       /* FINISH, CHUNK: rows that end and prompts that complete while this plan
                             stands are no reason for another; for when nobody waits for what they
                             give back. 0 at first */
};

/* How preempt takes a request out. */
enum lull_preempt {
  LULL_RECOMPUTE, /* PREFILL, DECODE, HELD -> WAITING: KV dropped, generated tokens kept */
  LULL_SWAP,      /* DECODE, HELD -> SWAPPING_OUT: copy to the host; blocks free when it ends */
  LULL_HOLD       /* DECODE -> HELD: out of the batch, KV kept */
};

/* Why a builder call was refused. A refused call changes nothing. */
enum lull_refusal {
  LULL_NO_STATE = -1,       /* not legal in the request's state, or already in this plan */
  LULL_NO_TOKENS = -2,      /* token budget used up */
  LULL_NO_SEQS = -3,        /* max_seqs reached */
  LULL_NO_BLOCKS = -4,      /* not enough KV blocks (with the watermark for admissions) */
  LULL_NO_SERVER = -5,      /* another server's, or not eligible */
  LULL_NO_SUPPORT = -6      /* not supported by this device */
};

/* ------------------------------------------------------------------------------------- host --- */

/*
 * What a policy may call. `ctx` is the first argument of every function. Builder calls (chunk,
 * preempt, resume) are legal only within plan() and for that plan's server.
 */
struct lull_host {
  uint32_t size, abi;
  void *ctx;
  uint32_t classes, servers; /* how many there are */
  uint32_t interactive_mask; /* bit c: class c is live (has an SLO), else latency-tolerant */

  /* Views; NULL for an id that is unknown or whose end was told. server() brings the view to the last boundary, O(classes). */
  const struct lull_request *(*request)(void *, lull_id);
  const struct lull_server *(*server)(void *, lull_server_id);
  /* First and last id of a list, -1 if empty. list: enum lull_state. */
  lull_id (*first)(void *, lull_server_id, int list, int cls);
  lull_id (*last)(void *, lull_server_id, int list, int cls);

  /* Any callback. */
  void (*timer)(void *, lull_time at, uint64_t tag); /* a past time means now; within a TIMER event
                                                        it must lie after now (F24) */
  void (*cancel_timer)(void *, uint64_t tag);        /* all that carry the tag */
  /* WAITING only: it ends FAILED, counted as rejected; why is the policy's own number, logged. 0 or
   * LULL_NO_STATE. */
  int (*reject)(void *, lull_id, int why);
  /* Within its ARRIVED event only. 0, LULL_NO_STATE, or LULL_NO_SERVER where the server does not
   * take its class or could never hold it. */
  int (*route)(void *, lull_id, lull_server_id);
  void (*wake)(void *, lull_server_id);              /* plan it at its next boundary (ASKED) */
  void (*abort_step)(void *, lull_server_id);        /* end the step under way at the next layer
                                                        safe point; its work is lost (F13) */
  void (*set_word)(void *, lull_id, uint64_t);
  void (*log)(void *, const char *what, int64_t a, int64_t b); /* decision log */

  /*
   * Builder; refused with LULL_NO_STATE outside plan(). chunk: while this plan stands, every step
   * computes the next `tokens` prompt tokens of a PREFILL request, or of a WAITING one, which is
   * thereby admitted: it gets KV for its whole prefill and moves to the PREFILL list (read its
   * `next` before). Of that, a prefix cache may hold the beginning: it is not computed again (see
   * prefill_done), and blocks that others hold cost no room. The count is cut to what is left of the prompt and of the token budget. Returns
   * the tokens granted (>= 1) or an enum lull_refusal. One chunk a request and plan.
   */
  int (*chunk)(void *, struct lull_plan *, lull_id, uint32_t tokens);
  /* Returns 0 or an enum lull_refusal. how: enum lull_preempt. */
  int (*preempt)(void *, struct lull_plan *, lull_id, int how);
  /* HELD: joins the batch in this plan, takes row_tokens of the token budget and a slot. SWAPPED:
   * starts the copy in (then TRANSFERRED, HELD). */
  int (*resume)(void *, struct lull_plan *, lull_id);

  /* Any callback. Pauses a background job at the end of its micro-step (run = 0), or lets it run on
   * (1). Returns 0, or LULL_NO_STATE for an unknown job. */
  int (*train)(void *, lull_job_id, int run);

  /* Appended later; NULL or refused with LULL_NO_SUPPORT until a device builds them. */
  int (*sleep)(void *, lull_server_id, int level);              /* release memory at idle */
  int (*adapter)(void *, lull_server_id, uint64_t version, int slot);
  int (*set_ceiling)(void *, int cls, uint32_t max_inflight);   /* class ceiling */
};

/* ------------------------------------------------------------------------------- descriptor --- */

/* Kinds of parameter values and how params[] carries them. */
enum lull_param_kind {
  LULL_PARAM_COUNT,  /* plain integer */
  LULL_PARAM_TIME,   /* ps */
  LULL_PARAM_BYTES,
  LULL_PARAM_TOKENS,
  LULL_PARAM_RATIO,  /* parts per million; written 0.5 or 50% */
  LULL_PARAM_CHOICE  /* index in `choices` */
};

struct lull_param {
  const char *name;     /* lower case, hyphens */
  uint8_t kind;         /* enum lull_param_kind */
  const char *preset;   /* default, as a scenario would write it */
  int64_t min, max;     /* inclusive, in the carried unit */
  const char *choices;  /* CHOICE: names separated by spaces, else NULL */
  const char *doc;      /* one line: what it does */
};

enum lull_needs { LULL_NEED_FORESIGHT = 1, LULL_NEED_PREDICTOR = 2 };

struct lull_policy {
  uint32_t size, abi;
  const char *name, *summary;
  const struct lull_param *params; /* [nparams] */
  uint32_t nparams;
  uint32_t needs;                  /* enum lull_needs bits; foresight: "not deployable" */
  size_t state_size;               /* zeroed bytes that the host allocates */
  /* params[i] belongs to params table i. Returns NULL, or why this policy cannot serve the arm.
   * May be NULL, as destroy and event may. */
  const char *(*create)(void *st, const struct lull_host *, const int64_t *params);
  void (*destroy)(void *st);
  void (*event)(void *st, const struct lull_host *, const struct lull_event *);
  void (*plan)(void *st, const struct lull_host *, const struct lull_server *, struct lull_plan *);
};

#ifdef __cplusplus
}
#endif
#endif
