/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the files of the naive world share. Nothing here is used outside tests/naive_*.c.
 */
#ifndef TESTS_NAIVE_INNER_H
#define TESTS_NAIVE_INNER_H

#include "models/cost.h"
#include "tests/naive_world.h"

/* A request: its public view, and the same facts again, counted token by token. */
struct naive_request {
  struct lull_request v;
  struct world_arrival a;
  struct world_record rec;
  uint32_t generated;   /* output tokens so far */
  uint32_t kv;          /* KV tokens held */
  uint32_t held;        /* KV blocks held: */
  uint32_t *block;      /* [held], owned */
  uint32_t named;       /* the first so many bear names */
  int hidden;           /* what it holds came back from the host */
  uint32_t rate, phase; /* tokens a step and the fraction carried, 16 fraction bits */
  base_int128 stay_q16; /* earned since it joined the batch, 1/12 ps with 16 fraction bits */
  lull_time last_emit;  /* of a token */
  int64_t pending;      /* earned since its KV was last lost, 1/12 ps */
  int ended;
  int unseen; /* routed, but in no list of its async server yet */
  int told;   /* its end was delivered: it is unknown from then on */
};

/* A KV block: how many hold it and, if it bears a name, as which one of whom it got that when. */
struct naive_block {
  uint32_t refs, index;
  const struct naive_request *owner; /* NULL: no name */
  uint64_t named;
};

struct naive_chunk {
  lull_id id;
  uint32_t tokens;
};

/* A copy on a server's copy lane; copies run one at a time, in order. */
struct naive_copy {
  lull_id id;
  lull_time last, end; /* how long; when it ends, LULL_NEVER before it starts */
};

/* Work under way at a speed that may change: `done` of `goal` ticks at `since`, the rest at `speed`
 * picoseconds a tick. */
struct naive_pace {
  lull_ticks goal, done;
  lull_time since, speed;
};

struct naive_job {
  const struct world_job *c;
  int stepping, run, told; /* told: it was active when its server last heard of it */
  struct naive_pace pace;  /* of the micro-step under way */
  uint64_t micro_steps;
  lull_time busy;
};

struct naive_server {
  struct lull_server v;
  const struct world_server *c;
  const struct simdev_gpu *gpu;
  struct lull_plan plan; /* in force */
  uint32_t reasons;      /* enum lull_wake bits latched since the last plan */
  uint64_t since;        /* steps since the last plan */
  lull_time wake_time;
  struct naive_chunk *chunk; /* owned */
  uint32_t nchunks;
  int stepping, aborted;
  lull_time start;        /* of the step under way */
  struct naive_pace pace; /* of the step under way */
  base_int128 earned;     /* by the step under way, 1/12 ps */
  struct naive_job *job;  /* on its GPU, or NULL */
  int sharing;            /* was a job's micro-step under way beside a step when time last moved? */
  struct cost_shape shape; /* of the step under way */
  struct cost_step cost;
  struct naive_copy *copy; /* owned */
  size_t ncopies, capcopies;
  uint32_t unfinished;
  struct naive_block *block; /* [kv_blocks], owned */
  uint32_t *queue;           /* [v.kv_free] the free ones in order, owned */
  uint32_t late_seqs;        /* async: of those that finished at this boundary */
  uint32_t *late, nlate;     /* likewise: blocks, owned */
  uint64_t namings;
};

struct naive_notice {
  int kind, server;
  lull_id id;
};

struct naive_timer {
  lull_time at;
  uint64_t tag, order;
};

struct naive_world {
  const struct world_config *cfg;
  struct world_result *out;
  struct base_error *e;
  int failed;
  lull_time now;
  struct lull_host host;
  void *state; /* the policy's, owned */
  struct naive_request **request;
  size_t n, cap;
  struct naive_server server[LULL_SERVERS];
  struct naive_job job[LULL_SERVERS];
  struct naive_timer *timer;
  size_t ntimers, captimers;
  uint64_t timers_set, entries;
  struct world_arrival ahead; /* next row of the source */
  int has_ahead;
  uint64_t released[LULL_CLASSES]; /* backlog items by class */
  int drained;
  uint32_t unfinished;
  uint64_t idle_events;          /* timers and time wakes since something moved (F14) */
  uint64_t idle_plans;           /* plans since then */
  uint32_t instant_plans;        /* plans of this instant */
  struct naive_server *planning; /* server whose plan() runs, or NULL */
  struct lull_plan *draft;       /* its plan */
  lull_id arriving;              /* request whose ARRIVED event runs, -1 */
  lull_server_id named_server;   /* what route() named for it, -1 */
  int in_timer;                  /* a TIMER event runs */
  struct naive_notice *notice;   /* events that wait for the running callback or change to end */
  size_t nnotices, capnotices;
  base_int128 residue_q16[LULL_SERVERS][LULL_CLASSES]; /* by GPU */
};

/* naive_world.c */
int naive_fail(struct naive_world *w, int code, const char *what);
void *naive_grow(struct naive_world *w, void *array, size_t *cap, size_t item);
void naive_log(struct naive_world *w, int server, int kind, int64_t a, int64_t b, const char *text);
void naive_event(struct naive_world *w, int kind, int server, lull_id id, uint64_t tag);
void naive_notify(struct naive_world *w, int kind, int server, lull_id id);
void naive_flush(struct naive_world *w);
void naive_moved(struct naive_world *w);
struct naive_request *naive_find(struct naive_world *w, lull_id id);
void naive_enter(struct naive_world *w, struct naive_request *r, int state);
int naive_can_hold(const struct naive_server *s, const struct naive_request *r);
uint32_t naive_step_tokens(const struct naive_request *r);
uint32_t naive_growth(const struct naive_server *s, const struct naive_request *r);
void naive_end(struct naive_world *w, struct naive_request *r, int fate);
void naive_queue_copy(struct naive_world *w, struct naive_server *s, struct naive_request *r);

/* naive_host.c */
void naive_host_init(struct naive_world *w);
void naive_preempt(struct naive_world *w, struct naive_server *s, struct naive_request *r, int how);

/* naive_prefix.c */
int naive_set_up_blocks(struct naive_world *w, struct naive_server *s);
void naive_free_request(struct naive_request *r);
void naive_hold(struct naive_world *w, struct naive_server *s, struct naive_request *r,
                uint32_t blocks);
void naive_let_go(struct naive_server *s, struct naive_request *r);
void naive_let_go_later(struct naive_server *s, struct naive_request *r);
void naive_late_blocks(struct naive_server *s);
void naive_find_prefix(const struct naive_server *s, const struct naive_request *r, uint32_t *found,
                       uint32_t *idle);
void naive_take_prefix(struct naive_world *w, struct naive_server *s, struct naive_request *r,
                       uint32_t found);
void naive_name(struct naive_server *s, struct naive_request *r, uint32_t kv);

/* naive_plan.c */
void naive_see(struct naive_world *w, struct naive_server *s, lull_time since);
void naive_note_finish(struct naive_server *s, struct naive_request *r);
void naive_settle_late(struct naive_server *s);
struct naive_server *naive_next_to_plan(struct naive_world *w);
uint32_t naive_reasons(struct naive_world *w, const struct naive_server *s);
void naive_plan(struct naive_world *w, struct naive_server *s);
void naive_default_plan(struct lull_plan *p, const struct naive_server *s, lull_time now);

/* naive_jobs.c */
lull_time naive_end_of(const struct naive_pace *p);
void naive_start(struct naive_world *w, const struct naive_server *s, struct naive_pace *p,
                 lull_ticks ticks);
void naive_set_up_jobs(struct naive_world *w);
void naive_jobs_done(struct naive_world *w);
void naive_jobs_told(struct naive_world *w);
void naive_jobs_submit(struct naive_world *w);
void naive_jobs_next(struct naive_world *w, lull_time *t);
void naive_share(struct naive_world *w);

/* naive_ledger.c */
void naive_credit_step(struct naive_world *w, struct naive_server *s);
void naive_credit_lost(struct naive_world *w, struct naive_server *s);
void naive_close_stay(struct naive_world *w, struct naive_request *r);
void naive_pass(struct naive_world *w, lull_time until);
int naive_results(struct naive_world *w);

#endif
