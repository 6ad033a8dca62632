/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A policy that does what a test wrote down: acts by the ordinal of the plan, first come first
 * served for the rest. And a small world to run it in.
 *
 *   static const struct act acts[] = {{.plan = 2, .kind = ACT_PREEMPT, .id = 0, .arg = LULL_HOLD}};
 *   struct stage s = stage(...);
 *   s.acts = acts, s.nacts = 1;
 */
#ifndef TESTS_SCRIPT_POLICY_H
#define TESTS_SCRIPT_POLICY_H

#include "models/simdev.h"
#include "sim/world/world.h"

enum act_kind {
  ACT_PREEMPT,    /* id, arg: how */
  ACT_RESUME,     /* id */
  ACT_WAKE_STEPS, /* arg */
  ACT_TRAIN       /* id: job, arg: run */
};

struct act {
  int plan; /* 1: the first of the run */
  int kind;
  lull_id id;
  int arg;
};

enum { STAGE_LINES = 512 };

/* All times in ticks of 64 ps unless said otherwise. Fill in what differs from the defaults. */
struct stage {
  struct world_class cls[LULL_CLASSES];
  struct world_server server;
  int twins;                           /* two of it, on a GPU each */
  int unheard;                         /* nothing is logged */
  struct world_backlog backlog;
  struct world_job job;
  const struct world_arrival *arrival; /* times in ticks */
  uint32_t narrivals, nbacklogs, njobs, cursor;
  uint32_t backlog_prompt, backlog_output;
  lull_ticks base, per_token, per_ctx; /* of a step */
  lull_ticks window, drain;            /* drain -1: to completion */
  lull_ticks copy_block;               /* of copying one block */
  lull_time contended_ps;              /* ps a tick beside a job */
  lull_ticks grid; /* > 0: the device is late, it comes back at multiples of it only */
  const struct lull_policy *policy;    /* NULL: the script */
  const struct act *acts;
  int nacts;
  int abort_on_arrival; /* the script aborts the step under way at each arrival but the first */
  /* out */
  struct world_result r;
  struct base_error e;
  struct world_log_line line[STAGE_LINES];
  uint32_t lines;
};

/* One server: 8 sequences, a budget of 64 tokens, 10 blocks of 4 tokens, 4 layers; a step costs
 * 100 + 10 a token + 1 a context token; class 0 is live, class 1 batch; window 1000. */
struct stage stage(const struct world_arrival *arrival, uint32_t n);
/* Runs it: step by step if `stepwise`. Returns world_run's; free with stage_end. */
int stage_run(struct stage *s, int stepwise);
void stage_end(struct stage *s);
/* The nth line (from 0) of a kind, or NULL. */
const struct world_log_line *stage_line(const struct stage *s, int kind, int nth);

#endif
