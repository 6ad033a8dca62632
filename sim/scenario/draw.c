/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/scenario/draw.h"

#include <gsl/gsl_randist.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"

static const char *const purposes[DRAW_STREAMS] = {"arrivals", "prompt", "output", "accept",
                                                   "phase"};

/* Acceptance is the same for all servers: that of the first one stands for all. */
static void prepare_acceptance(struct draw *d)
{
  const struct scenario *s = d->s;
  const struct scenario_engine *engine = s->narms && s->arm[0].ncandidates &&
                                                 s->arm[0].candidate[0].nservers
                                             ? &s->arm[0].candidate[0].server[0].engine
                                             : NULL;
  double m = engine ? (double)engine->accept_ppm / 1e6 : 0;
  double sd = engine ? (double)engine->accept_sd_ppm / 1e6 : 0;
  d->accept_q16 = (uint32_t)rint(m * LULL_Q16_ONE);
  if (sd > 0 && sd * sd < m * (1 - m)) {
    double nu = m * (1 - m) / (sd * sd) - 1;
    d->accept_a = m * nu;
    d->accept_b = (1 - m) * nu;
  }
}

int draw_open(struct draw *d, const struct scenario *s, uint64_t seed, struct base_error *e)
{
  *d = (struct draw){.s = s};
  for (uint32_t c = 0; c < s->nclasses; c++)
    for (int k = 0; k < DRAW_STREAMS; k++) {
      char name[128];
      snprintf(name, sizeof name, "%s/%s", purposes[k], s->cls[c].id);
      d->rng[c][k] = base_rng_open(seed, name);
      if (!d->rng[c][k]) {
        draw_close(d);
        return base_fail_memory(e);
      }
    }
  prepare_acceptance(d);
  return 0;
}

void draw_close(struct draw *d)
{
  for (int c = 0; c < LULL_CLASSES; c++)
    for (int k = 0; k < DRAW_STREAMS; k++)
      if (d->rng[c][k])
        gsl_rng_free(d->rng[c][k]);
  *d = (struct draw){0};
}

static gsl_rng *stream(struct draw *d, int cls, int purpose, uint64_t row)
{
  gsl_rng *r = d->rng[cls][purpose];
  base_rng_entity(r, row);
  return r;
}

/* Evenly spaced arrivals: the difference of two exact multiples, so that no error adds up. */
static lull_time even_gap(uint64_t row, int64_t rate_uhz)
{
  const unsigned __int128 ps = (unsigned __int128)1000000000 * 1000000000;
  unsigned __int128 gap = ps * (row + 1) / (uint64_t)rate_uhz - ps * row / (uint64_t)rate_uhz;
  return gap < LULL_NEVER ? (lull_time)gap : LULL_NEVER;
}

lull_time draw_gap(struct draw *d, int cls, uint64_t row)
{
  const struct scenario_class *c = &d->s->cls[cls];
  double mean = 1e18 / (double)c->rate_uhz, gap;
  if (c->arrivals == ARRIVALS_CONSTANT)
    return even_gap(row, c->rate_uhz);
  gsl_rng *r = stream(d, cls, DRAW_ARRIVALS, row);
  if (c->arrivals == ARRIVALS_GAMMA) {
    double cv = (double)c->cv_ppm / 1e6, shape = 1 / (cv * cv);
    gap = rint(gsl_ran_gamma(r, shape, mean / shape));
  } else {
    gap = rint(gsl_ran_exponential(r, mean));
  }
  return gap < 9.2e18 ? (lull_time)gap : LULL_NEVER;
}

static uint32_t draw_tokens(const struct scenario_dist *d, gsl_rng *r)
{
  double mean = (double)d->mean_tokens, sigma = (double)d->sigma_ppm / 1e6, x = mean;
  double least = (double)d->min_tokens, most = (double)d->max_tokens;
  if (d->kind == DIST_LOGNORMAL)
    x = gsl_ran_lognormal(r, log(mean) - sigma * sigma / 2, sigma);
  else if (d->kind == DIST_EXPONENTIAL)
    x = gsl_ran_exponential(r, mean);
  else if (d->kind == DIST_UNIFORM)
    x = floor(least + gsl_rng_uniform(r) * (most - least + 1));
  x = rint(x);
  return (uint32_t)(x < least ? least : x > most ? most : x);
}

static void draw_chances(struct draw *d, int cls, uint64_t row, struct world_arrival *out)
{
  out->cls = (uint8_t)cls;
  out->ordinal = (uint32_t)(row | row >> 32); /* the upper half stays apart */
  out->accept_q16 = d->accept_q16;
  if (d->accept_a > 0)
    out->accept_q16 = (uint32_t)rint(
        LULL_Q16_ONE * gsl_ran_beta(stream(d, cls, DRAW_ACCEPT, row), d->accept_a, d->accept_b));
  out->phase_q16 = (uint32_t)(LULL_Q16_ONE * gsl_rng_uniform(stream(d, cls, DRAW_PHASE, row)));
}

void draw_request(struct draw *d, int cls, uint64_t row, struct world_arrival *out)
{
  const struct scenario_class *c = &d->s->cls[cls];
  out->prompt = draw_tokens(&c->prompt, stream(d, cls, DRAW_PROMPT, row));
  out->output = draw_tokens(&c->output, stream(d, cls, DRAW_OUTPUT, row));
  draw_chances(d, cls, row, out);
}

void draw_for_row(struct draw *d, int cls, uint64_t row, const struct trace_row *said,
                  struct world_arrival *out)
{
  out->prompt = said->prompt;
  out->output = said->output;
  draw_chances(d, cls, row, out);
  if (said->accept_q16 >= 0)
    out->accept_q16 = (uint32_t)said->accept_q16;
  if (said->phase_q16 >= 0)
    out->phase_q16 = (uint32_t)said->phase_q16;
}

/* Items beside arrivals of their class have the upper half of its entities. */
void draw_item(struct draw *d, int cls, uint64_t index, struct world_arrival *out)
{
  const struct scenario_class *c = &d->s->cls[cls];
  uint64_t row = c->arrivals == ARRIVALS_BACKLOG ? index : index | UINT64_C(1) << 63;
  if (c->items.n)
    draw_for_row(d, cls, row, &c->items.row[index % c->items.n], out);
  else
    draw_request(d, cls, row, out);
}
