/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the policy of a run decided, in order and without times: two runs of one plan that took
 * different time can still have decided the same. Decisions are chunks given, preemptions and
 * resumptions, routes and rejections, forced preemptions and jobs switched. Requests are named by
 * class and place in it, which are the same in every run, not by id.
 */
#ifndef SIM_VALIDATE_DECISIONS_H
#define SIM_VALIDATE_DECISIONS_H

#include "sim/scenario/scenario.h"
#include "sim/validate/tap.h"

struct decision {
  int kind, server; /* enum world_log_kind */
  uint64_t key;     /* class << 32 | place; DECISION_UNTOLD | id: the device never heard of it */
  int64_t value;    /* tokens, way or server, by kind; negative: refused */
  lull_time time;   /* for people; not compared */
};
#define DECISION_UNTOLD (UINT64_C(1) << 63)

/* Zeroed: empty. */
struct decisions {
  struct decision *item; /* [n] owned */
  size_t n;
  int no_memory;
};

/* Takes a line of the decision log, if it is a decision; key is the id, so far. */
void decisions_add(struct decisions *d, const struct world_log_line *line);
/* Ids become keys. -1: out of memory. */
int decisions_name(struct decisions *d, const struct tap *t, struct base_error *e);
void decisions_free(struct decisions *d);

struct decisions_compared {
  uint64_t n[2];     /* of each run */
  uint64_t agreed;   /* from the first on, alike in both */
  uint64_t moved;    /* of the rest, in both, wherever */
  uint64_t alone[2]; /* of the rest, in one run only */
  int differ;        /* first[] holds the first that differ; kind -1: that run has no more */
  struct decision first[2];
};
int decisions_compare(const struct decisions *a, const struct decisions *b,
                      struct decisions_compared *out, struct base_error *e);
/* "chunk of 48 tokens for live 7 on server 0", as far as it fits. */
void decision_text(const struct decision *d, const struct scenario *s, char *buf, size_t size);

#endif
