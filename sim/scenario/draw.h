/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The random part of a plan. Every class draws from streams of its own, one a purpose
 * ("arrivals/live", "prompt/live", "output/live", "accept/live", "phase/live"), each request at
 * the entity of its row within the class: what a request gets depends on the seed, its class's
 * name and its row, and on nothing else.
 */
#ifndef SIM_SCENARIO_DRAW_H
#define SIM_SCENARIO_DRAW_H

#include <gsl/gsl_rng.h>

#include "sim/scenario/scenario.h"

enum draw_stream { DRAW_ARRIVALS, DRAW_PROMPT, DRAW_OUTPUT, DRAW_ACCEPT, DRAW_PHASE, DRAW_STREAMS };

/* The streams of all classes, and what acceptance is drawn from. */
struct draw {
  const struct scenario *s;
  gsl_rng *rng[LULL_CLASSES][DRAW_STREAMS];
  double accept_a, accept_b; /* of the beta distribution; 0: constant */
  uint32_t accept_q16;       /* then this */
};

int draw_open(struct draw *d, const struct scenario *s, uint64_t seed, struct base_error *e);
void draw_close(struct draw *d);
/* Time between arrivals row - 1 and row of a class with a process; ps, LULL_NEVER when beyond any
 * window. */
lull_time draw_gap(struct draw *d, int cls, uint64_t row);
/* Lengths, acceptance and phase of a row; its time is not touched. */
void draw_request(struct draw *d, int cls, uint64_t row, struct world_arrival *out);
/* The same for a row of a file: only what the file does not say is drawn. */
void draw_for_row(struct draw *d, int cls, uint64_t row, const struct trace_row *said,
                  struct world_arrival *out);
/* The same for item `index` of the class's backlogs. */
void draw_item(struct draw *d, int cls, uint64_t index, struct world_arrival *out);

#endif
