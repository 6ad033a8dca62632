/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The ledger: where every paid picosecond goes, and the sums that must meet in every build. */
#include "sim/world/internal.h"

const char *const world_account_name[WORLD_ACCOUNTS] = {
    [WORLD_LIVE_USEFUL] = "live useful",
    [WORLD_LIVE_LATE] = "live late",
    [WORLD_BATCH_USEFUL] = "batch useful",
    [WORLD_BATCH_WASTED] = "batch wasted",
    [WORLD_LIVE_WASTED] = "live wasted",
    [WORLD_TRAINING] = "training",
    [WORLD_EXPOSED_TRANSFER] = "exposed transfer",
    [WORLD_IDLE_WAITING] = "idle, work waiting",
    [WORLD_IDLE] = "idle, no work",
    [WORLD_DRAIN] = "drain"};

/* Is there work in the arm that an idle lane could have done? Constant between instants. */
static int work_waits(const struct world *w, lull_time at)
{
  return w->unfinished > 0 || (w->nbacklogs && at < w->window);
}

static void charge_idle(struct world *w, const struct server *s, lull_time from, lull_time to)
{
  int account;
  if (from >= to)
    return;
  if (s->copying)
    account = WORLD_EXPOSED_TRANSFER;
  else if (from >= w->window)
    account = WORLD_DRAIN;
  else
    account = work_waits(w, from) ? WORLD_IDLE_WAITING : WORLD_IDLE;
  account_charge(w, s, account, (base_int128)WORLD_CREDIT * (to - from));
}

/* Time in which a GPU has neither a forward ticket nor a micro-step; steps are charged as they are
 * reported. */
void account_idle(struct world *w, const struct server *s, lull_time from, lull_time to)
{
  lull_time window = w->window, cut = window > from && window < to ? window : to;
  charge_idle(w, s, from, cut);
  charge_idle(w, s, cut, to);
}

/* What steps left over, floored by class; the parts of a unit add up to whole units, which the
 * lowest class keeps. */
static void charge_residues(struct world *w)
{
  for (uint32_t i = 0; i < w->nservers; i++) {
    struct server *s = &w->srv[i];
    base_int128 parts = 0;
    for (uint32_t c = 0; c < w->nclasses; c++)
      parts += s->residue_q16[c] & 0xffff;
    for (uint32_t c = 0; c < w->nclasses; c++) {
      base_int128 units = (s->residue_q16[c] >> 16) + (c == 0 ? parts >> 16 : 0);
      w->out->cls[c].residue += units;
      account_charge(w, s, account_useful(&w->cfg->cls[c]), units);
    }
  }
}

static int check_class(struct world *w, uint32_t c)
{
  const struct world_class_result *r = &w->out->cls[c];
  uint64_t fates = r->finished + r->failed + r->rejected + r->cancelled + r->expired +
                   r->unfinished;
  if (r->offered == fates)
    return 0;
  return world_broken(w, "class '%s': %llu requests were offered but %llu accounted for",
                      w->cfg->cls[c].name, (unsigned long long)r->offered,
                      (unsigned long long)fates);
}

static int check_kv(struct world *w)
{
  for (uint32_t i = 0; i < w->nservers; i++) {
    const struct server *s = &w->srv[i];
    if (s->fixed_blocks || s->decode_blocks || s->rows || s->v.seqs || s->unfinished)
      return world_broken(w, "server %u: %lld KV blocks and %u rows did not come back", i,
                          (long long)(s->fixed_blocks + s->decode_blocks), s->rows);
    if (s->cache && prefix_check(w, &w->srv[i]))
      return -1;
  }
  return 0;
}

int account_close(struct world *w)
{
  struct world_result *out = w->out;
  charge_residues(w);
  out->paid = (base_int128)out->end * w->cfg->ngpus * WORLD_CREDIT;
  base_int128 sum = 0;
  for (int a = 0; a < WORLD_ACCOUNTS; a++) {
    for (uint32_t g = 0; g < w->cfg->ngpus; g++)
      out->account[a] += out->gpu_account[g][a];
    sum += out->account[a];
  }
  if (sum != out->paid)
    return world_broken(w, "the ledger's accounts sum to %.17g GPU-seconds, not the %.17g paid for",
                        (double)sum / WORLD_CREDIT * 1e-12,
                        (double)out->paid / WORLD_CREDIT * 1e-12);
  for (uint32_t g = 0; g < w->cfg->ngpus; g++) {
    base_int128 one = 0;
    for (int a = 0; a < WORLD_ACCOUNTS; a++)
      one += out->gpu_account[g][a];
    if (one != (base_int128)out->end * WORLD_CREDIT)
      return world_broken(w, "GPU %u: its accounts do not sum to the paid time", g);
  }
  for (uint32_t c = 0; c < w->nclasses; c++) {
    if (check_class(w, c))
      return -1;
  }
  return check_kv(w);
}

int account_broken(struct world *w, const struct server *s)
{
  if (s->v.seqs > s->v.max_seqs)
    return world_broken(w, "server %d: %u sequences run, of %u", s->v.id, s->v.seqs, s->v.max_seqs);
  if (s->cache && prefix_is_sound(s))
    return 0;
  return world_broken(w, "server %d: %lld KV blocks are held, of %u", s->v.id,
                      (long long)(s->fixed_blocks + s->decode_blocks), s->v.kv_blocks);
}
