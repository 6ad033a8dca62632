/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The elements of a scenario and their attributes, as tables: one entry parses, checks, hints and
 * documents. What is read goes to plain structs of int64_t and strings; the schema file states the
 * same structure for editors and for messages on order and number (a test compares the two).
 */
#ifndef SIM_SCENARIO_FIELDS_H
#define SIM_SCENARIO_FIELDS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

enum field_kind {
  FIELD_ID,     /* a name: letters, digits, "-", "_", "."; at most 63 */
  FIELD_TEXT,   /* anything */
  FIELD_CHOICE, /* one of `choices`: min + its index */
  FIELD_TIME,   /* ps */
  FIELD_DRAIN,  /* ps, or "none": LULL_NEVER */
  FIELD_WINDOW, /* ps, or "trace": WINDOW_TRACE */
  FIELD_BYTES,
  FIELD_BANDWIDTH, /* bytes a second */
  FIELD_RATE,      /* micro-events a second */
  FIELD_TOKENS,
  FIELD_RATIO, /* parts a million */
  FIELD_REAL,  /* parts a million */
  FIELD_COUNT
};

#define FIELD_UNSET INT64_MIN /* a number that may be left out and was; texts: NULL */
#define WINDOW_TRACE (-1)

struct field {
  const char *name;
  uint8_t kind;        /* enum field_kind: FIELD_ID and FIELD_TEXT fill a const char *, others an
                          int64_t */
  const char *preset;  /* as a scenario would write it; NULL: required; "": may be left out */
  int64_t min, max;    /* inclusive, in the carried unit; max 0: no bound of its own */
  const char *choices; /* names separated by spaces */
  size_t offset;       /* of its slot */
  const char *doc;
};

struct element {
  const char *name;
  const struct field *field;
  size_t nfields;
  const char *children; /* names separated by spaces, "" for none */
  int text;             /* holds text */
  const char *doc;
};

extern const struct element scenario_elements[];
extern const size_t scenario_element_count;

/* What the tables fill. */
struct raw_scenario {
  const char *version, *id, *campaign;
};
struct raw_run {
  int64_t window, drain, preempt_limit;
  const char *seeds;
};
struct raw_machine {
  const char *gpu, *model, *calibration;
};
struct raw_analytic {
  int64_t base, per_token, per_row, per_context, per_pair, kv_per_token, layers;
};
struct raw_engine {
  int64_t max_seqs, token_budget, block, kv_blocks, memory_fraction, reserve, watermark, host_link,
      max_context, host_step, host_overlapped, graph_tokens, launches, async, prefix_caching,
      kernels, launch, bandwidth, depth, accept, accept_sd, draft_layers, draft_head;
};
struct raw_class {
  const char *id;
  int64_t live;
};
struct raw_arrivals {
  int64_t process, rate, cv, below;
};
struct raw_dist {
  int64_t dist, mean, sigma, min, max;
};
struct raw_trace {
  int64_t format;
  const char *href, *sha256;
  int64_t speed, limit, start;
};
struct raw_items {
  int64_t format;
  const char *href, *sha256;
};
struct raw_slo {
  int64_t ttft, tpot;
};
struct raw_arm {
  const char *id, *policy, *title;
  int64_t engine, baseline, qualify;
};
struct raw_param {
  const char *name, *value;
};
struct raw_server {
  const char *id;
  int64_t gpu;
  const char *classes;
  struct raw_engine engine;
};
struct raw_job {
  const char *id;
  int64_t gpu, micro_step, micro_steps, contention, paused;
  int64_t batch, rank, rate, accumulate;
};
struct raw_backlog {
  const char *server, *cls;
  int64_t below;
};
struct raw_candidate {
  const char *id;
};
struct raw_set {
  const char *server, *attribute, *value;
};
struct raw_gate {
  const char *id, *arm, *metric, *statistic, *min, *max;
};
struct raw_reference {
  const char *arm, *metric, *value, *source;
};
struct raw_parameter {
  const char *target;
  int64_t origin;
};
struct raw_sweep {
  const char *id;
  int64_t kind;
  const char *target, *values;
};

const struct element *element_find(const char *name);
const struct field *element_field(const struct element *el, const char *name);

/* Parses an attribute's text into *value (numbers and choices; untouched for texts); checks its
 * range. Fails without file and line. */
int field_parse(const struct field *f, const char *text, int64_t *value, struct base_error *e);
/* Whether a field carries a number with or without unit. */
int field_is_number(const struct field *f);

/* Splits at white space into at most max pieces of at most 63 characters; the count, or -1. */
enum { WORD_SIZE = 64 };
int split_words(const char *text, char (*word)[WORD_SIZE], int max);
/* The nearest of the space-separated names, or NULL; copied to buf. */
const char *nearest_word(const char *name, const char *names, char buf[WORD_SIZE]);

/* Every element with its attributes, units, defaults and ranges, as Markdown: the reference part
 * of docs/scenarios.md. Returns 0 or -1 (write error). */
int scenario_print_reference(FILE *out);

#endif
