/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One arm on two devices: a real one and the simulated one, with the same plan, seed and policy.
 * What is compared of a validation against a measured file is compared here of the first live class
 * that the arm serves, and of whole runs; beside it, steps and decisions.
 */
#ifndef SIM_VALIDATE_PAIR_H
#define SIM_VALIDATE_PAIR_H

#include "sim/validate/decisions.h"
#include "sim/validate/validate.h"

/* Steps of the real run by what they hold. */
enum validate_steps { STEPS_ALL, STEPS_ROWS, STEPS_CHUNKS, STEPS_BOTH, STEPS_KINDS };
extern const char *const validate_steps_name[STEPS_KINDS];

/* How well single steps are told; relative errors of the predicted time, NaN where there is none.
 */
struct validate_step_errors {
  uint64_t n;
  double seconds, predicted; /* sums */
  double bias;               /* mean, signed */
  double p50, p95;           /* of the size */
};

struct validate_pair {
  const struct experiment_device *device; /* the real one, borrowed */
  struct experiment *real;                /* owned; the simulated one is validation.x */
  struct validate_step_errors steps[STEPS_KINDS];
  struct decisions_compared decisions; /* [0] of the real run, [1] of the simulated one */
  uint64_t left_out; /* requests of the class that did not end well in both runs */
  double noise;      /* of the machine, while the real run was on; NaN: not looked at */
};

/* What runs beside the simulation. */
struct validate_device {
  const struct experiment_device *device;
  /* Time of one and the same piece of work, ps; called before and after. NULL: nobody looks. */
  int (*probe)(void *ctx, int64_t *ps, struct base_error *e);
  void *probe_ctx;
};
/* Spread of the probe from which on figures of time say nothing. */
#define VALIDATE_NOISY 0.10

/* Runs and compares; as validate_run. v->pair is set; s and device must outlive v. */
int validate_pair(const struct report_source *source, const struct scenario *s,
                  const struct validate_device *device, struct validation *v, struct base_error *e);
/* After validate_judge: on a noisy machine no gate speaks. */
void validate_pair_judge(struct validation *v);
void validate_pair_free(struct validate_pair *p);

#endif
