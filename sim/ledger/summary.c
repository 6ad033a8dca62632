/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From a world's result to figures, and from the figures of seeds to pooled ones. */
#include "sim/ledger/summary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Ledger units (1/12 ps) to seconds. */
static double ledger_seconds(base_int128 units)
{
  return (double)units / 12e12;
}

/* Counts of one class. */
static void add_class(struct summary *s, const struct world_class *c,
                      const struct world_class_result *r)
{
  s->offered += r->offered;
  s->finished += r->finished;
  s->failed += r->failed;
  s->rejected += r->rejected;
  s->cancelled += r->cancelled;
  s->expired += r->expired;
  s->unfinished += r->unfinished;
  s->output_tokens += r->output_tokens;
  s->preempts += r->preempts;
  s->discarded_tokens += r->discarded;
  s->useful_tokens += r->useful_tokens;
  if (c->interactive) {
    s->live_offered += r->offered;
    s->live_met += r->met;
    s->live_useful_tokens += r->useful_tokens;
  } else {
    s->batch_useful_tokens += r->useful_tokens;
  }
}

/* Samples of one finished live request, ps; a TPOT is floored to whole ps. Targets are met
 * inclusively, in integers: those scaled by 1/2 where they are not below twice the time, by 2 where
 * they are not below half of it. Who meets a target meets a laxer one. */
void summary_collect(void *collector, lull_id id, const struct world_record *r)
{
  struct summary_collector *c = collector;
  const struct world_class *cls = &c->cfg->cls[r->cls];

  (void)id;
  if (!cls->interactive || r->fate != WORLD_DONE)
    return;
  lull_time ttft = r->first_token - r->arrival, stream = r->last_token - r->first_token;
  uint32_t gaps = r->output - 1;
  base_int128 allowed = (base_int128)cls->slo_tpot * gaps;
  if (r->met) {
    c->met_half += ttft <= cls->slo_ttft >> 1 && stream <= allowed >> 1;
    c->met_double++;
  } else {
    c->met_double += ttft - (ttft >> 1) <= cls->slo_ttft && stream - (stream >> 1) <= allowed;
  }
  c->no_memory |= base_sample_add(&c->ttft, ttft) < 0;
  c->no_memory |= base_sample_add(&c->e2e, r->last_token - r->arrival) < 0;
  if (gaps)
    c->no_memory |= base_sample_add(&c->tpot, stream / gaps) < 0;
}

void summary_collector_free(struct summary_collector *c)
{
  base_sample_free(&c->ttft);
  base_sample_free(&c->tpot);
  base_sample_free(&c->e2e);
}

/* Moves the collected samples into a summary. -1: out of memory. */
static int take_samples(struct summary *s, struct summary_collector *c)
{
  s->ttft = c->ttft;
  s->tpot = c->tpot;
  s->e2e = c->e2e;
  s->live_met_half = c->met_half;
  s->live_met_double = c->met_double;
  c->ttft = c->tpot = c->e2e = (struct base_sample){0};
  return base_sample_settle(&s->ttft) || base_sample_settle(&s->tpot) || base_sample_settle(&s->e2e)
             ? -1
             : 0;
}

/* Merges token gaps; a histogram comes into being with its first gap. */
static int add_gaps(struct base_hist *into, const struct base_hist *from)
{
  if (!from->bin || !from->n)
    return 0;
  if (!into->bin && base_hist_init(into))
    return -1;
  base_hist_merge(into, from);
  return 0;
}

/* Share of the paid time in the useful accounts. */
static double busy_share(const struct summary *s)
{
  if (s->gpu_seconds <= 0)
    return NAN;
  return (s->account[WORLD_LIVE_USEFUL] + s->account[WORLD_BATCH_USEFUL] +
          s->account[WORLD_TRAINING]) /
         s->gpu_seconds;
}

/* Times and accounts: the paid time, where it went, and how long kernels ran. */
static void add_times(struct summary *s, const struct world_config *cfg,
                      const struct world_result *r)
{
  base_int128 busy = 0;

  s->gpu_seconds = ledger_seconds(r->paid);
  s->seconds = (double)r->end / 1e12;
  for (int a = 0; a < WORLD_ACCOUNTS; a++)
    s->account[a] = ledger_seconds(r->account[a]);
  for (uint32_t g = 0; g < cfg->ngpus && g < LULL_SERVERS; g++)
    busy += r->gpu_busy[g];
  s->device_busy = r->paid > 0 ? (double)(busy * 12) / (double)r->paid : NAN;
  s->ledger_busy = busy_share(s);
}

int summary_of(struct summary_collector *c, const struct world_result *r, struct summary *out,
               struct base_error *e)
{
  const struct world_config *cfg = c->cfg;
  struct summary s = {.runs = 1,
                      .ngpus = cfg->ngpus,
                      .steps = r->steps,
                      .forced = r->forced,
                      .misses = r->misses,
                      .partial = r->partial};

  c->no_memory |= take_samples(&s, c) < 0;
  add_times(&s, cfg, r);
  for (uint32_t i = 0; i < cfg->nclasses && !c->no_memory; i++) {
    add_class(&s, &cfg->cls[i], &r->cls[i]);
    s.looked_up_tokens[i] = r->cls[i].looked_up;
    s.cached_tokens[i] = r->cls[i].cached;
    if (cfg->cls[i].interactive)
      c->no_memory |= add_gaps(&s.itl, &r->cls[i].itl) < 0;
  }
  s.errors = s.failed + s.rejected + s.expired;
  if (c->no_memory) {
    summary_free(&s);
    return base_fail_memory(e);
  }
  *out = s;
  return 0;
}

/* Adds a sample to another and settles the whole. */
static int join(struct base_sample *into, const struct base_sample *more)
{
  return base_sample_merge(into, more) || base_sample_settle(into) ? -1 : 0;
}

/* The counts of `more`, added. */
static void pool_counts(struct summary *into, const struct summary *more)
{
  into->runs += more->runs;
  into->ngpus = more->ngpus;
  into->offered += more->offered;
  into->finished += more->finished;
  into->failed += more->failed;
  into->rejected += more->rejected;
  into->cancelled += more->cancelled;
  into->expired += more->expired;
  into->unfinished += more->unfinished;
  into->live_offered += more->live_offered;
  into->live_met += more->live_met;
  into->live_met_half += more->live_met_half;
  into->live_met_double += more->live_met_double;
  into->errors += more->errors;
  into->live_useful_tokens += more->live_useful_tokens;
  into->batch_useful_tokens += more->batch_useful_tokens;
  into->useful_tokens += more->useful_tokens;
  into->output_tokens += more->output_tokens;
  into->preempts += more->preempts;
  into->discarded_tokens += more->discarded_tokens;
  for (int c = 0; c < LULL_CLASSES; c++) {
    into->looked_up_tokens[c] += more->looked_up_tokens[c];
    into->cached_tokens[c] += more->cached_tokens[c];
  }
  into->steps += more->steps;
  into->forced += more->forced;
  cost_misses_add(&into->misses, &more->misses);
  into->partial |= more->partial;
}

/* The paid time of `more`, added; device-busy is weighted by it, ledger-busy follows. */
static void pool_times(struct summary *into, const struct summary *more)
{
  double busy = 0;

  if (into->gpu_seconds > 0)
    busy += into->device_busy * into->gpu_seconds;
  if (more->gpu_seconds > 0)
    busy += more->device_busy * more->gpu_seconds;
  into->gpu_seconds += more->gpu_seconds;
  into->seconds += more->seconds;
  for (int a = 0; a < WORLD_ACCOUNTS; a++)
    into->account[a] += more->account[a];
  into->device_busy = into->gpu_seconds > 0 ? busy / into->gpu_seconds : NAN;
  into->ledger_busy = busy_share(into);
}

int summary_pool(struct summary *into, const struct summary *more, struct base_error *e)
{
  if (!more->runs)
    return 0;
  if (join(&into->ttft, &more->ttft) || join(&into->tpot, &more->tpot) ||
      join(&into->e2e, &more->e2e) || add_gaps(&into->itl, &more->itl))
    return base_fail_memory(e);
  pool_times(into, more);
  pool_counts(into, more);
  return 0;
}

void summary_free(struct summary *s)
{
  base_sample_free(&s->ttft);
  base_sample_free(&s->tpot);
  base_sample_free(&s->e2e);
  if (s->itl.bin)
    base_hist_free(&s->itl);
  *s = (struct summary){0};
}
