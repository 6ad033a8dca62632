/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The inside of the world. Files by subject: world.c (the loop of instants), deliver.c (what
 * happens to it), request.c (requests and their lists), batch.c (rows, chunks and KV of a server),
 * step.c (steps that ended), plan.c (planning and submitting), host.c (what a policy may call),
 * jobs.c (background training), prefix.c (blocks that are shared), account.c (the ledger and the invariants).
 */
#ifndef SIM_WORLD_INTERNAL_H
#define SIM_WORLD_INTERNAL_H

#include "models/cost.h"
#include "sim/world/world.h"

/* Watchdog of F14: events since the last step, copy, arrival or end of a request; plans likewise. */
enum { WORLD_MAX_IDLE_EVENTS = 100000, WORLD_MAX_PLANS_INSTANT = 64 };
#define WORLD_MIN_WAKE ((lull_time)1000000) /* shortest period of a time wake: 1 us */
#define WORLD_CREDIT 12                     /* ledger units a picosecond of one lane alone (F6) */

/* What most runs never see, said to the compiler so that it lies out of their way. */
#define RARE(x) __builtin_expect(!!(x), 0)

/* A request: the view that policies read comes first. */
struct req {
  struct lull_request v;
  uint32_t output;       /* true output tokens: never shown to a policy */
  uint32_t accept_q16;
  uint32_t rate_q16;     /* on its server; v.rate_q16 shows it while DECODE */
  uint32_t phase_q16;    /* carried between stays */
  uint32_t slot;         /* DECODE: its server's, one a row */
  uint32_t fresh_pos;    /* 1 + index in the list of fresh rows; 0: not there */
  int32_t chunk;         /* index in its server's plan, -1: none */
  lull_id later;         /* unseen: who came after it; -1: nobody */
  lull_time last_emit;   /* valid while fresh or not DECODE */
  uint64_t at_join[3];   /* prefix sums of its server at join */
  int64_t pending;       /* ledger share since its KV was last lost */
  const struct world_prefix *content; /* as it arrived */
  struct chain *chain;   /* PREFIX: the names of its blocks, owned; NULL: never asked for */
  uint32_t ordinal;      /* as it arrived */
  uint8_t unseen;        /* routed, but in no list yet (ASYNC) */
  uint8_t known;         /* the device was told who it is */
  uint8_t told;          /* its end was delivered: nobody may see it any more */
  struct world_record rec;
};

/* A copy that waits in its server's queue for the copy lane. */
struct copy {
  lull_id id;
  uint8_t kind; /* LULL_WORK_COPY_OUT or _IN */
  int64_t bytes;
};

/* A row in the finish heap: the server's step count at which its output is complete. */
struct finish {
  uint64_t step;
  lull_id id;
  uint32_t slot;
};

/* A chunk of a plan: whose, and where it is as of the last report. */
struct chunk {
  struct req *req;
  uint32_t start, tokens;
};

struct server {
  struct lull_server v;  /* as policies see it; brought to the last boundary by host.server() */
  const struct world_server *cfg;
  lull_lane_id lane, copy_lane;
  lull_id head[LULL_STATES][LULL_CLASSES], tail[LULL_STATES][LULL_CLASSES];
  uint32_t unfinished;

  /* batch: as of step `step`, which v.step may run ahead of while a ticket is out */
  uint64_t step;
  lull_time boundary;
  struct lull_batch batch; /* rows, chunks; ctx_q16 is that of `step` */
  struct lull_work forward; /* as it is submitted, but for `repeat` */
  struct cost_shape shape; /* of the step after shape_step, as far as chunks are concerned */
  uint64_t shape_step;
  uint64_t chunk_steps;     /* from shape_step on: until a chunk ends its prompt or cannot go on */
  struct chunk *chunk;      /* [max_seqs]: the plan's */
  struct lull_chunk *lent;  /* [max_seqs]: where they were at submit; the device's until it ends */
  lull_id *row;             /* [max_seqs]: batch.row as of `row_version`; NULL: the device reads none */
  uint64_t row_version;
  uint32_t rows;
  int64_t ctx_q16, ctx_inc_q16;
  struct finish *heap;     /* by (step, id): [rows] */
  uint32_t *heap_at;       /* [max_seqs] by slot: where its row is in the heap */
  struct finish *longest;  /* rows by context, the longest first: `step` holds UINT32_MAX +
                              join_step - kv0, which no step changes. NULL: nobody asks */
  uint32_t *longest_at;    /* [max_seqs] by slot */
  uint32_t *slots;         /* [max_seqs]: a permutation; those from `rows` on are free */
  lull_id *fresh;          /* rows that joined since the last step and last emitted before it */
  uint32_t nfresh, fresh_of[LULL_CLASSES];
  lull_time last_emit;     /* of all rows that are not fresh */

  /* KV */
  uint32_t block_shift;
  uint32_t step_blocks;    /* most blocks that one step takes of a row */
  uint32_t *residue;       /* [block_tokens]: rows by position in their last block, by (kv0 - 1 -
                              join_step) mod block; unused when speculating */
  int64_t fixed_blocks;    /* of requests that are not DECODE */
  int64_t decode_blocks;

  /* plan in force */
  struct lull_plan plan;
  uint64_t plan_step;      /* step count when it was made */
  uint32_t pending;        /* reasons that have occurred */
  uint8_t busy;            /* a forward ticket is out */
  uint8_t stops;           /* it stops at its next boundary as it is: one step, or interrupted */
  uint8_t listens;         /* it does not, and its plan asks for arrivals */
  uint8_t planning, started, reserved;
  uint8_t lags;            /* there may be something of what ASYNC holds back */
  uint8_t refilled;        /* a backlog keeps it filled */
  uint8_t measured;        /* its cost model has a range that was measured */
  uint8_t thorough;        /* rows that finish leave their blocks one by one: ASYNC, PREFIX */
  lull_time step_start;    /* busy: when the step under way began */

  /* ASYNC: what its plans do not know yet */
  lull_time submitted;     /* when the last ticket was, of those while it lags */
  lull_id coming, coming_last; /* unseen requests in order of arrival, -1: none */
  uint32_t late_seqs;      /* slots and blocks of those that finished at this boundary; v.seqs and
                              fixed_blocks hold them still */
  uint32_t late_blocks;

  struct cache *cache;     /* PREFIX; NULL: it does not cache. fixed_blocks and decode_blocks then sum
                              up to the blocks held, each counted once; either may be below 0 */

  /* ledger of the step under way, where a job shares the GPU: what it earned up to `mark` */
  struct job *job;         /* on its GPU, or NULL */
  int unit;                /* credit a picosecond since `mark`: WORLD_CREDIT / active lanes */
  lull_time speed;         /* ps a tick of the last step that had a whole number of them */
  lull_time mark;
  base_int128 earned;
  lull_time counted;       /* of its kernels, up to `mark`: in gpu_busy, or beside a micro-step */

  /* copies */
  struct copy *copyq;
  uint32_t copy_head, copy_n, copy_cap;
  uint8_t copying;

  /* ledger, 1/12 ps */
  uint64_t sum[3];                       /* prefix sums over steps, see row_share() */
  base_int128 residue_q16[LULL_CLASSES]; /* what shares leave over, 16 fraction bits */
};

struct job {
  const struct world_job *cfg;
  lull_lane_id lane;
  struct server *server;   /* of its GPU */
  uint8_t busy, run;
  uint8_t active;          /* told: its lane is, or will be when time moves */
  struct world_job_result *done;
};

struct timer {
  lull_time at;
  uint64_t seq, tag;
};

/* An event that waits for the present change, or callback, to be over. */
struct own_event {
  uint16_t kind;
  lull_server_id server;
  lull_id id;
  lull_time at;
};

/* Requests live in pages by id, whose addresses never change; a page all of whose requests have ended
 * and were told of goes back, so that memory follows what lives, not what has lived. */
enum { REQ_CHUNK_BITS = 8, REQ_CHUNK = 1 << REQ_CHUNK_BITS };
struct req_page {
  uint32_t told;
  struct req_page *next; /* among the spare ones */
  struct req r[REQ_CHUNK];
};

struct lane_use {
  uint8_t kind;            /* enum lull_lane_kind */
  int16_t owner;           /* index of its server or job, -1: not opened */
};

struct world {
  const struct world_config *cfg;
  uint32_t nservers, nclasses, nbacklogs, njobs; /* the configuration's, as the window is */
  lull_time window;
  struct lull_device *dev;
  const struct lull_device_ops *ops;
  struct world_result *out;
  struct base_error *err;
  int failed;              /* an error was filled: unwind */
  const volatile int *stop; /* the configuration's, or one that is never set */
  int telling;             /* the device has request(): it is told of requests, and reads rows */

  lull_time now;
  lull_time due;           /* when an arrival or due_other comes, or now: look_again */
  lull_time due_other;     /* when DRAIN, a timer or a time wake comes */
  lull_time deadline;      /* the end of the drain */
  uint64_t max_repeat;     /* of a submit: the device's and the configuration's */
  struct server *srv;
  struct job *job;         /* [njobs] */
  struct lane_use lane[LULL_LANES]; /* by lane: whose it is */
  struct req_page **page;  /* [npages] by id; NULL: all of it has ended */
  struct req_page *spare;  /* those that came back; as many as ever lived at once */
  uint32_t npages, cap_pages;
  uint64_t nreq, cap_records;
  uint64_t unfinished, entered;

  struct world_arrival next;
  int has_next;            /* `next` holds the following row; else its time is LULL_NEVER */
  lull_time last_arrival;
  uint64_t released[LULL_CLASSES];
  lull_id arriving;        /* the request whose ARRIVED event is being delivered */
  lull_server_id routed;   /* by route() in that event */

  struct timer *timer;     /* sorted by (at, seq) */
  uint32_t ntimers, cap_timers;
  uint64_t timer_seq;
  int in_timer;
  lull_time timer_at;      /* of the timer whose event is being delivered */
  lull_time *wake_at;      /* [nservers]: time wake of the plan in force */

  struct own_event *own;
  uint32_t nown, cap_own;

  int poll;                /* an interrupt was sent in this instant */
  int wanted;              /* a server was given a reason since this was cleared */
  int drained;             /* DRAIN was delivered */
  int quiet_policy;        /* no event callback and no log: nobody hears of events */
  int patient;             /* arrivals_may_wait, as far as it never changes */
  int closing;             /* the run has ended; completions are cut at out->end */
  uint32_t idle;           /* servers that are not busy */
  uint32_t plans_instant;  /* keeps its neighbours apart: a test of both reads them at once if it can,
                              and then waits until what was just written to one of them is stored */
  uint32_t listening;      /* servers that listen */
  uint64_t idle_events, idle_plans, seen_steps;
  struct lull_completion *comp;
  int ncomp_max;

  struct lull_host host;
  void *state;             /* the policy's */
  uint64_t ended;
};

/* world.c */
int world_open_lane(struct world *w, int gpu, int kind, int owner); /* its index, or a status */
int world_broken(struct world *w, const char *fmt, ...) __attribute__((cold, format(printf, 2, 3)));
/* The device answered with a negative status; what it was asked, and why if it says. */
int world_refused(struct world *w, int status, const char *fmt, ...)
  __attribute__((cold, format(printf, 3, 4)));

/* request.c */
static inline struct req *req_at(const struct world *w, lull_id id)
{
  return &w->page[id >> REQ_CHUNK_BITS]->r[id & (REQ_CHUNK - 1)];
}
static inline int req_known(const struct world *w, lull_id id)
{
  return id >= 0 && (uint64_t)id < w->nreq && w->page[id >> REQ_CHUNK_BITS] &&
         !req_at(w, id)->told;
}
static inline struct server *req_server(const struct world *w, const struct req *r)
{
  return &w->srv[r->v.server];
}
struct req *req_new(struct world *w, const struct world_arrival *a);
void req_enter(struct world *w, struct req *r, int state); /* from its present list, if any */
void req_route(struct world *w, struct req *r, int server);
void req_see(struct world *w, struct server *s, lull_time since); /* ASYNC: those that arrived at or
                                                                     before `since` are in its lists */
void req_end(struct world *w, struct req *r, int fate);    /* absorbing; out of all lists */
void req_page_told(struct world *w, lull_id id);
static inline void req_told(struct world *w, lull_id id) /* its end was delivered; r may be gone now */
{
  req_at(w, id)->told = 1;
  if (++w->page[id >> REQ_CHUNK_BITS]->told == REQ_CHUNK)
    req_page_told(w, id);
}
void req_free_pages(struct world *w);

/* batch.c */
int64_t batch_growth(const struct world *w, const struct server *s, uint64_t steps);
static inline int64_t batch_growth_next(const struct world *w, const struct server *s)
{
  uint32_t mask = s->v.block_tokens - 1;
  return s->v.row_tokens == 1 ? s->residue[(uint32_t)(mask - s->step) & mask]
                                 : batch_growth(w, s, 1);
}
uint64_t batch_search(const struct world *w, const struct server *s, uint64_t steps,
                      int64_t blocks);
/* The most steps, up to `steps`, whose growth stays within `blocks`. No row opens more blocks than
 * its most tokens touch. */
static inline uint64_t batch_feasible(const struct world *w, const struct server *s, uint64_t steps,
                                      int64_t blocks)
{
  uint64_t tokens = steps * s->v.row_tokens;
  int64_t most = (int64_t)(s->rows * ((tokens + s->v.block_tokens - 1) >> s->block_shift));
  return most <= blocks ? steps : batch_search(w, s, steps, blocks);
}
int64_t batch_next_growth(const struct server *s, const struct req *r, uint32_t kv,
                          uint32_t phase_q16);
void batch_sum_chunks(struct server *s); /* s->shape and s->chunk_steps as of s->step */
void batch_join(struct world *w, struct server *s, struct req *r);  /* -> DECODE */
void batch_leave(struct world *w, struct server *s, struct req *r); /* counters made concrete */
void batch_finish(struct server *s, struct req *r); /* the top of the finish heap, complete */
/* Counters of all rows move on; chunks and the ledger are step.c's. */
static inline void batch_advance(const struct world *w, struct server *s, uint64_t steps,
                                 lull_time at)
{
  s->decode_blocks += steps == 1 ? batch_growth_next(w, s) : batch_growth(w, s, steps);
  s->step += steps;
  s->ctx_q16 += (int64_t)steps * s->ctx_inc_q16;
  s->boundary = at;
}
static inline int64_t server_free(const struct server *s)
{
  return (int64_t)s->v.kv_blocks - s->fixed_blocks - s->decode_blocks;
}
/* lull_blocks_for: block sizes are powers of two. */
static inline int64_t server_blocks_for(const struct server *s, uint64_t kv)
{
  return (int64_t)((kv + s->v.row_tokens - 1 + s->v.block_tokens - 1) >> s->block_shift);
}
static inline int64_t chunk_pairs(const struct chunk *c) /* attended pairs of one step */
{
  return (int64_t)c->tokens * c->start + (int64_t)c->tokens * (c->tokens + 1) / 2;
}
/* KV tokens of the row that has most; rows >= 1, and the server has `longest`. */
static inline uint64_t batch_longest(const struct server *s)
{
  return UINT32_MAX + s->step - s->longest[0].step;
}

/* prefix.c: all for servers with a cache */
int prefix_open(struct world *w, struct server *s);
void prefix_close(struct server *s);
uint32_t prefix_find(struct world *w, struct server *s, struct req *r, uint32_t *idle);
void prefix_take(struct server *s, struct req *r, uint32_t n);
void prefix_name(struct world *w, struct server *s, struct req *r);
uint32_t prefix_release(struct world *w, struct server *s, struct req *r);
void prefix_finish_late(struct world *w, struct server *s, struct req *r);
uint32_t prefix_release_late(struct world *w, struct server *s);
void prefix_hide(struct req *r);
void prefix_put_spare(struct world *w, struct server *s, uint32_t blocks);
void prefix_drop_chain(struct req *r);
int prefix_is_sound(const struct server *s);
int prefix_check(struct world *w, struct server *s);
/* What r holds is let go of: returns the blocks that are free now. */
static inline uint32_t server_let_go(struct world *w, struct server *s, struct req *r)
{
  uint32_t freed = RARE(s->cache) ? prefix_release(w, s, r) : r->v.blocks;
  s->fixed_blocks -= freed;
  r->v.blocks = 0;
  return freed;
}

/* deliver.c */
static inline void stop_listening(struct world *w, struct server *s)
{
  w->listening -= s->listens;
  s->listens = 0;
}
void write_log(struct world *w, int server, int kind, int64_t a, int64_t b, const char *text)
  __attribute__((cold));
int deliver_due(struct world *w);
lull_time next_due_other(const struct world *w);
static inline lull_time next_due(const struct world *w)
{
  return w->next.time < w->due_other ? w->next.time : w->due_other;
}
int deliver_unheard(struct world *w); /* arrivals before now, see arrivals_may_wait */
/* A device to poll, a backlog to refill. */
static inline void look_again(struct world *w)
{
  w->due = w->now;
}
/* A timer or a time wake was set. */
static inline void due_earlier(struct world *w, lull_time at)
{
  w->due_other = at < w->due_other ? at : w->due_other;
  w->due = at < w->due ? at : w->due;
}
/* One that was due is not any more. */
static inline void due_later(struct world *w)
{
  w->due_other = next_due_other(w);
  if (w->due > w->now)
    w->due = next_due(w);
}
/* Would deliver_due() find nothing to do? */
static inline int is_quiet(const struct world *w)
{
  return w->due > w->now && !w->njobs;
}
static inline int deliver(struct world *w) /* until quiet; -1 failed */
{
  return is_quiet(w) ? 0 : deliver_due(w);
}
int deliver_reports(struct world *w, int n);
int deliver_late(struct world *w, int n); /* the same, and all that was due before now, in order */
static inline int deliver_completions(struct world *w, int n) /* what wait returned into w->comp */
{
  return n ? deliver_reports(w, n) : 0;
}
int route_allowed(const struct world *w, const struct req *r, int server);
void emit(struct world *w, uint16_t kind, lull_server_id server, lull_id id, lull_time at,
          uint64_t tag);
void emit_queued(struct world *w);
static inline void emit_own(struct world *w) /* all that queue_own holds, in order */
{
  if (RARE(w->nown))
    emit_queued(w);
}
void queue_heard(struct world *w, uint16_t kind, lull_server_id server, lull_id id, lull_time at);
static inline void queue_own(struct world *w, uint16_t kind, lull_server_id server, lull_id id,
                             lull_time at)
{
  if (!w->quiet_policy)
    queue_heard(w, kind, server, id, at);
  else if (kind == LULL_EV_FINISHED || kind == LULL_EV_FAILED)
    req_told(w, id); /* all that is left of an event of which nobody hears */
}
void want(struct world *w, struct server *s, uint32_t reason); /* set a reason; interrupt if busy */
void stop_soon(struct world *w, struct server *s); /* interrupt if busy */
int fetch_next(struct world *w);
static inline void log_line(struct world *w, int server, int kind, int64_t a, int64_t b,
                            const char *text)
{
  if (RARE(w->cfg->log != NULL))
    write_log(w, server, kind, a, b, text);
}
static inline void note_progress(struct world *w) /* resets the watchdog */
{
  w->idle_events = 0;
  w->idle_plans = 0;
}
int note_idle_event(struct world *w);  /* counts one; -1: too many */

/* jobs.c */
int jobs_init(struct world *w);
int jobs_submit(struct world *w);
int job_completed(struct world *w, struct job *j, const struct lull_completion *c);
int jobs_changed(struct world *w);     /* a job starts or stops: sets LANE; 1 if any was asked for */
int job_will_wake(const struct server *s); /* its job stops soon, and its plan waits for that */
void jobs_pass_time(struct world *w, lull_time from, lull_time to);

/* step.c */
void step_catch_up(struct world *w, struct server *s); /* ASYNC: its plans know all */
int step_completed(struct world *w, struct server *s, const struct lull_completion *c);
/* Of the step under way, which the device ended at `end` or later: how long kernels ran in it from
 * `cut` to `end`. A step begins with its host time. */
lull_time step_kernels(const struct world *w, struct server *s, lull_time cut, lull_time end);

/* plan.c */
uint32_t plan_reasons(const struct world *w, const struct server *s); /* it is at a boundary */
int plan_server(struct world *w, struct server *s, uint32_t why);
int plan_submit(struct world *w, struct server *s); /* it is idle and has something to compute */
int plan_submit_copy(struct world *w, struct server *s);
int queue_copy(struct world *w, struct server *s, struct req *r, uint8_t kind);

/* host.c */
void host_init(struct world *w);
void server_refresh(struct world *w, struct server *s); /* view to the last boundary */
static inline void server_at_boundary(struct server *s) /* the same, while it is not busy */
{
  s->v.step = s->step;
  s->v.boundary = s->boundary;
  s->v.stepping = 0;
  s->v.kv_free = (uint32_t)server_free(s);
}
int take_out(struct world *w, struct server *s, struct req *r, int how); /* preempt, no checks */

/* account.c */
void account_idle(struct world *w, const struct server *s, lull_time from, lull_time to);
static inline void account_time(struct world *w, lull_time from, lull_time to) /* idle lanes */
{
  for (uint32_t i = 0; w->idle && i < w->nservers; i++) {
    const struct server *s = &w->srv[i];
    if (!s->busy && !(s->job && s->job->busy))
      account_idle(w, s, from, to);
  }
}
/* Those of all GPUs together are summed at the end. */
static inline void account_charge(struct world *w, const struct server *s, int account,
                                  base_int128 units)
{
  w->out->gpu_account[s->cfg->gpu][account] += units;
}
static inline int account_useful(const struct world_class *c)
{
  return c->interactive ? WORLD_LIVE_USEFUL : WORLD_BATCH_USEFUL;
}
/* A request's shares, at its end: useful or late is known then; what was lost on the way is
 * wasted. */
static inline void account_request(struct world *w, const struct req *r)
{
  const struct world_record *rec = &r->rec;
  const struct world_class *c = &w->cfg->cls[rec->cls];
  if (RARE(rec->server < 0))
    return;
  const struct server *s = &w->srv[rec->server];
  w->out->cls[rec->cls].share += (base_int128)rec->share + rec->wasted;
  account_charge(w, s, c->interactive && !rec->met ? WORLD_LIVE_LATE : account_useful(c),
                 rec->share);
  if (RARE(rec->wasted))
    account_charge(w, s, c->interactive ? WORLD_LIVE_WASTED : WORLD_BATCH_WASTED, rec->wasted);
}
int account_close(struct world *w);  /* shares to accounts; the sums must meet */
int account_broken(struct world *w, const struct server *s) __attribute__((cold));
/* What must hold whenever work is submitted and when a copy has ended. */
static inline int account_check(struct world *w, const struct server *s)
{
  if ((s->fixed_blocks | s->decode_blocks | server_free(s)) < 0 || s->v.seqs > s->v.max_seqs)
    return account_broken(w, s);
  return 0;
}

#endif
