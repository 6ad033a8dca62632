/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The naive world's ledger: every picosecond of every GPU goes to an account as it passes, in
 * units of 1/12 ps; and the results of a run.
 */
#include <stdlib.h>

#include "tests/naive_inner.h"

enum { UNIT = 12 };

static void pay(struct naive_world *w, int gpu, int account, base_int128 amount)
{
  w->out->gpu_account[gpu][account] += amount;
  w->out->account[account] += amount;
}

static int useful_account(const struct naive_world *w, int cls)
{
  return w->cfg->cls[cls].interactive ? WORLD_LIVE_USEFUL : WORLD_BATCH_USEFUL;
}

static int wasted_account(const struct naive_world *w, int cls)
{
  return w->cfg->cls[cls].interactive ? WORLD_LIVE_WASTED : WORLD_BATCH_WASTED;
}

static int is_row(const struct naive_request *r, const struct naive_server *s)
{
  return r->v.server == s->v.id && r->v.state == LULL_DECODE;
}

/* Lowest class that has a row, else the class of the first chunk. */
static int first_class(struct naive_world *w, const struct naive_server *s)
{
  int cls = LULL_CLASSES;
  for (size_t i = 0; i < w->n; i++)
    if (is_row(w->request[i], s) && w->request[i]->v.cls < cls)
      cls = w->request[i]->v.cls;
  return cls < LULL_CLASSES ? cls : naive_find(w, s->chunk[0].id)->v.cls;
}

/* Shares a whole step out among its rows and chunks. Call before anything of it is counted. */
void naive_credit_step(struct naive_world *w, struct naive_server *s)
{
  const struct cost_shape *h = &s->shape;
  int64_t ticks = s->cost.ticks, slope = s->cost.slope;
  base_int128 credit = s->earned, rate = credit / ticks;
  int64_t tokens = (int64_t)h->rows * s->v.row_tokens + h->chunk_tokens;
  int64_t grown = (int64_t)(((base_int128)slope * h->ctx_q16) >> 16);
  int64_t u = (ticks - grown - s->cost.chunk_part) / tokens;
  int64_t pair = h->chunk_work ? s->cost.chunk_part / h->chunk_work : 0;
  base_int128 left = credit << 16;
  for (size_t i = 0; i < w->n; i++) {
    struct naive_request *r = w->request[i];
    if (!is_row(r, s))
      continue;
    int64_t context = ((int64_t)r->kv << 16) + r->phase;
    base_int128 earned = rate *
                         (((base_int128)u * s->v.row_tokens << 16) + (base_int128)slope * context);
    r->stay_q16 += earned;
    left -= earned;
  }
  for (uint32_t i = 0; i < s->nchunks; i++) {
    struct naive_request *r = naive_find(w, s->chunk[i].id);
    int64_t n = s->chunk[i].tokens, start = r->v.prefill_done;
    base_int128 earned = rate *
                         ((base_int128)u * n + (base_int128)pair * (n * start + n * (n + 1) / 2));
    r->pending += (int64_t)earned;
    left -= earned << 16;
  }
  w->residue_q16[s->c->gpu][first_class(w, s)] += left;
}

/* A step that was cut off: nobody has anything of it. */
void naive_credit_lost(struct naive_world *w, struct naive_server *s)
{
  int cls = first_class(w, s);
  pay(w, s->c->gpu, wasted_account(w, cls), s->earned);
}

/* A row leaves the batch: whole units are its own, the fraction stays with the class. */
void naive_close_stay(struct naive_world *w, struct naive_request *r)
{
  int gpu = w->server[r->v.server].c->gpu;
  r->pending += (int64_t)(r->stay_q16 >> 16);
  w->residue_q16[gpu][r->v.cls] += r->stay_q16 & 0xffff;
  r->stay_q16 = 0;
}

static struct naive_server *server_of_gpu(struct naive_world *w, int gpu)
{
  for (uint32_t i = 0; i < w->cfg->nservers; i++)
    if (w->server[i].c->gpu == gpu)
      return &w->server[i];
  return NULL;
}

/* How long a GPU has a micro-step or a step's kernel from now to `until`. A step begins with its
 * host time. */
static lull_time busy_time(const struct naive_world *w, const struct naive_server *s, int training,
                           lull_time until)
{
  lull_time kernels = s->start + s->cost.host * LULL_TICK_PS;
  lull_time from = kernels > w->now ? kernels : w->now;
  if (training)
    return until - w->now;
  return s->stepping && until > from ? until - from : 0;
}

/* Lanes that compute share a GPU's time evenly. */
static int pay_lanes(struct naive_world *w, struct naive_server *s, lull_time last)
{
  struct naive_job *j = s->job;
  int training = j && j->stepping, lanes = training + s->stepping;
  if (s->stepping)
    s->earned += (base_int128)UNIT / lanes * last;
  if (training) {
    pay(w, s->c->gpu, WORLD_TRAINING, (base_int128)UNIT / lanes * last);
    j->busy += last;
  }
  w->out->gpu_busy[s->c->gpu] += busy_time(w, s, training, w->now + last);
  return lanes;
}

/* Accounts for the time from now to `until`; no instant lies in between. */
void naive_pass(struct naive_world *w, lull_time until)
{
  int open = w->now < w->cfg->window;
  int waiting = w->unfinished || w->cfg->nbacklogs;
  for (uint32_t g = 0; g < w->cfg->ngpus; g++) {
    struct naive_server *s = server_of_gpu(w, (int)g);
    if (pay_lanes(w, s, until - w->now))
      continue;
    int account = !open ? WORLD_DRAIN : waiting ? WORLD_IDLE_WAITING : WORLD_IDLE;
    if (s->ncopies)
      account = WORLD_EXPOSED_TRANSFER;
    pay(w, (int)g, account, (base_int128)UNIT * (until - w->now));
  }
}

/* The account of what a request earned and kept. */
static int kept_account(const struct naive_world *w, const struct world_record *rec)
{
  if (w->cfg->cls[rec->cls].interactive)
    return rec->met ? WORLD_LIVE_USEFUL : WORLD_LIVE_LATE;
  return WORLD_BATCH_USEFUL;
}

static void count_fate(struct world_class_result *c, int fate)
{
  c->offered++;
  c->finished += fate == WORLD_DONE;
  c->failed += fate == WORLD_FATE_FAILED;
  c->rejected += fate == WORLD_REJECTED;
  c->unfinished += fate == WORLD_UNFINISHED;
}

static void count_request(struct naive_world *w, struct naive_request *r)
{
  struct world_record *rec = &r->rec;
  struct world_class_result *c = &w->out->cls[rec->cls];
  rec->generated = r->generated;
  rec->preempts = r->v.preempts;
  rec->server = r->v.server;
  count_fate(c, rec->fate);
  c->met += rec->met;
  c->output_tokens += rec->generated;
  if (rec->fate == WORLD_DONE && (rec->met || !w->cfg->cls[rec->cls].interactive))
    c->useful_tokens += rec->generated;
  c->preempts += rec->preempts;
  c->discarded += rec->discarded;
  c->cached += rec->cached;
  c->share += (base_int128)rec->share + rec->wasted;
  if (r->v.server < 0)
    return;
  int gpu = w->server[r->v.server].c->gpu;
  pay(w, gpu, kept_account(w, rec), rec->share);
  pay(w, gpu, wasted_account(w, rec->cls), rec->wasted);
}

/* Whole units of the remainders, by class; the fractions of a GPU add up to whole units as well,
 * which class 0 gets. */
static void settle_residue(struct naive_world *w, int gpu)
{
  base_int128 fractions = 0;
  for (uint32_t c = 0; c < w->cfg->nclasses; c++)
    fractions += w->residue_q16[gpu][c] & 0xffff;
  for (uint32_t c = 0; c < w->cfg->nclasses; c++) {
    base_int128 whole = (w->residue_q16[gpu][c] >> 16) + (c ? 0 : fractions >> 16);
    w->out->cls[c].residue += whole;
    pay(w, gpu, useful_account(w, (int)c), whole);
  }
}

/* Ends what is left, and fills the results. */
int naive_results(struct naive_world *w)
{
  struct world_result *out = w->out;
  for (uint32_t i = 0; i < w->cfg->nservers; i++) {
    struct naive_server *s = &w->server[i];
    if (s->stepping)
      naive_credit_lost(w, s);
  }
  out->record = calloc(w->n ? w->n : 1, sizeof *out->record);
  if (!out->record)
    return base_fail_memory(w->e);
  for (size_t i = 0; i < w->n; i++) {
    if (!w->request[i]->ended)
      naive_end(w, w->request[i], WORLD_UNFINISHED);
    count_request(w, w->request[i]);
    out->record[i] = w->request[i]->rec;
  }
  out->records = w->n;
  for (uint32_t g = 0; g < w->cfg->ngpus; g++)
    settle_residue(w, (int)g);
  for (uint32_t i = 0; i < w->cfg->njobs; i++)
    out->job[i] = (struct world_job_result){.micro_steps = w->job[i].micro_steps,
                                            .busy = w->job[i].busy};
  out->end = w->now;
  out->paid = (base_int128)UNIT * w->now * w->cfg->ngpus;
  return 0;
}
