/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Request traces: streaming readers of the public formats, plain or gzip, one row at a time.
 *
 *   azure     TIMESTAMP,ContextTokens,GeneratedTokens   wall clock, 100 ns digits
 *   vidur     arrived_at,num_prefill_tokens,num_decode_tokens   seconds (arrived_at may be absent:
 *             lengths only)
 *   mooncake  JSON lines: timestamp (ms), input_length, output_length, hash_ids (each of 512 tokens)
 *   native    arrival_ns,prompt_tokens,output_tokens[,id][,accept_q16][,phase_q16]
 *             [,hash_ids][,hash_tokens]; arrival_ps may stand for arrival_ns
 *
 * CSV columns are found by header name, in any order; unknown columns are ignored. CRLF and a
 * missing last newline are fine. Errors carry file and line: a missing column, a ragged row, zero
 * or negative or huge (> 2^31-1) token counts, negative or decreasing time, a duplicate id (native
 * with ids), a truncated or corrupt gzip, no rows at all.
 */
#ifndef MODELS_TRACE_H
#define MODELS_TRACE_H

#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

enum trace_format { TRACE_AZURE, TRACE_VIDUR, TRACE_MOONCAKE, TRACE_NATIVE, TRACE_FORMATS };

struct trace_row {
  int64_t t_ns;            /* arrival since the first row, ns; 0 where the file has no times */
  uint32_t prompt, output; /* tokens, >= 1 unless zeros are allowed */
  uint16_t ps;             /* of the arrival, beyond t_ns: 0 .. 999 */
  int32_t accept_q16;      /* chance that a drafted token is accepted, 0 .. 65,536; -1: not said */
  int32_t phase_q16;       /* fraction of a token at first join, 0 .. 65,535; -1: not said */
  const uint64_t *ids;     /* [nids] what the prompt consists of: prompts that begin with the same
                              ids begin with the same tokens; the reader's, until the next row */
  uint32_t nids;           /* 0: not said, or not kept */
  uint32_t id_tokens;      /* that an id stands for, >= 1; the last one may stand for fewer */
};

/* How strictly to read. Zero: everything is an error. */
struct trace_rules {
  int allow_zero;      /* zero prompt or output tokens pass (for `trace info`) */
  int allow_unsorted;  /* decreasing times pass */
  int keep_ids;        /* rows say the ids of their prompts; else hash_ids are not looked at */
};

struct trace; /* an open reader */

/* Format by name, -1 if unknown; and the other way. */
int trace_format_by_name(const char *name);
const char *trace_format_name(int format);
/* Names of all formats, for hints: array of TRACE_FORMATS strings. */
extern const char *const trace_format_names[TRACE_FORMATS];

/* NULL on failure. rules may be NULL. */
struct trace *trace_open(const char *path, int format, const struct trace_rules *rules,
                         struct base_error *e);
/* 1: *row filled; 0: end (with at least one row read); -1: error. */
int trace_next(struct trace *t, struct trace_row *row, struct base_error *e);
/* Whether the file has arrival times. */
int trace_has_times(const struct trace *t);
uint64_t trace_line(const struct trace *t); /* line of the last row, 1-based */
void trace_close(struct trace *t);

/* Statistics of a whole trace, defined as in docs/traces.md. Lengths only: has_times = 0. */
struct trace_lengths {
  uint64_t sum, zeros;
  uint32_t min, max;
  double mean, p50, p95, p99;
};
struct trace_window { /* counts in windows from the first arrival */
  uint64_t k, sumsq, max, empty;
  double idc; /* index of dispersion of counts */
};
struct trace_stats {
  uint64_t n;
  int has_times;
  int64_t t_first_row_ns, span_ns;
  double span_s, rate_per_s;
  uint64_t out_of_order_rows, equal_to_previous_rows, distinct_times;
  struct trace_window w1, w60;   /* of 1 s and 60 s */
  double empty_1s_fraction, iat_cv;
  int64_t iat_max_ns;
  struct trace_lengths prompt, output;
  uint32_t crc32; /* of the ASCII lines "t_ns-t_min_ns,prompt,output\n" */
};
int trace_read_stats(const char *path, int format, struct trace_stats *out, struct base_error *e);
/* Prints name and value, a line each, in the order and spelling of the fields above. */
int trace_print_stats(const struct trace_stats *s, FILE *out);

#endif
