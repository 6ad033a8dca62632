/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Measured runs: for each request of a real server's run its arrival, its lengths, and the
 * latencies that were measured. The format is told by the content, plain or gzip:
 *
 *   llmservingsim  JSON lines: input_toks, output_toks, queued_ts, first_token_ts, last_token_ts
 *                  (s, one clock) and others; a request arrives at queued_ts, not at arrival_time,
 *                  which is of another clock
 *   vllm           the JSON object of `vllm bench serve --save-result --save-detailed`: input_lens,
 *                  output_lens, ttfts (s), itls (s, a list a request), start_times (s; may be
 * absent where request_rate is "inf" and max_concurrency null), errors native         CSV:
 * arrival_ns, prompt_tokens, output_tokens, ttft_ns, e2e_ns, and optionally id and itl_ns (gaps
 * separated by blanks); unknown columns are ignored
 *
 * Decimal seconds are read exactly and rounded to the nearest ns, ties to even; they never pass
 * through a double. Errors carry file and line (BASE_INPUT): a missing field, a negative time,
 * times of one request out of order, zero lengths, more token gaps than tokens, a truncated file.
 */
#ifndef MODELS_MEASURED_H
#define MODELS_MEASURED_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct measured_request {
  int64_t arrival_ns;      /* since the first arrival */
  int64_t ttft_ns, e2e_ns; /* from the arrival; ttft <= e2e */
  uint32_t prompt, output; /* tokens, >= 1 */
  size_t gap, ngaps;       /* where its token gaps stand in gap_ns, and how many */
  unsigned line;           /* of the file */
};

struct measured {
  const char *format;           /* "llmservingsim", "vllm", "native" */
  struct measured_request *row; /* [n] by (arrival, order in the file), n >= 1; owned */
  uint64_t n;
  int64_t *gap_ns; /* [ngaps] token gaps of all requests; owned */
  size_t ngaps;
  int has_gaps;    /* the format holds gaps */
  uint64_t failed; /* requests that failed in the measured run and were left out */
  uint64_t moved;  /* rows that stood behind a later arrival in the file */
};

/* Reads the whole file. NULL on failure (BASE_INPUT; BASE_ENV: it cannot be read). */
struct measured *measured_open(const char *path, struct base_error *e);
/* The same of bytes in memory; `name` is what errors call them. */
struct measured *measured_open_memory(const void *data, size_t size, const char *name,
                                      struct base_error *e);
void measured_close(struct measured *m); /* NULL is fine */

#endif
