/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Feeds bytes to the trace readers: the first picks format (bits 0-1) and rules (bits 2-3), the
 * rest is the file. replay.c feeds it files.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/trace_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the program where the fuzzer notices. */
static void require(int good)
{
  if (!good)
    abort();
}

/* A failure says what is wrong and, being one of the input, where. */
static void require_message(const struct base_error *e)
{
  require(e->code == BASE_INPUT && e->line >= 1 && e->text[0] && !strchr(e->text, '\n'));
}

/* Every row must keep what the header of the reader promises. Returns the number of rows. */
static uint64_t read_all(struct trace *t, const struct trace_rules *rules, struct base_error *e)
{
  struct trace_row row;
  int64_t previous_ns = 0;
  uint64_t n = 0;
  int r;
  for (; (r = trace_next(t, &row, e)) > 0; n++) {
    require(rules->allow_unsorted || row.t_ns >= previous_ns);
    require(rules->allow_zero || (row.prompt && row.output));
    require(row.prompt <= INT32_MAX && row.output <= INT32_MAX && trace_line(t) > n);
    require(trace_has_times(t) || row.t_ns == 0);
    previous_ns = row.t_ns;
  }
  if (r < 0)
    require_message(e);
  else
    require(n > 0 && !e->code);
  return n;
}

/* Statistics of the same bytes: they must agree on the count. */
static void read_stats(struct trace *t, uint64_t rows, int failed, struct base_error *e)
{
  struct trace_stats s;
  if (trace_collect(t, &s, e)) {
    require_message(e);
    return;
  }
  require(!failed && s.n == rows);
  require(s.prompt.min <= s.prompt.max && s.prompt.p50 <= s.prompt.p99);
  require(!s.has_times || (s.w1.k >= s.w60.k && s.w1.empty < s.w1.k && s.w1.idc >= 0));
  require(!s.has_times || (s.iat_cv >= 0 && s.iat_max_ns <= s.span_ns));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (!size)
    return 0;
  const int format = data[0] & 3;
  const struct trace_rules rules = {.allow_zero = data[0] >> 2 & 1,
                                    .allow_unsorted = data[0] >> 3 & 1};
  uint64_t rows = 0;
  int failed = 0;
  for (int pass = 0; pass < 2; pass++) {
    struct base_error e = {0};
    struct trace *t = trace_open_memory(data + 1, size - 1, "fuzz", format, &rules, &e);
    if (!t) {
      require_message(&e);
      return 0;
    }
    if (pass)
      read_stats(t, rows, failed, &e);
    else
      rows = read_all(t, &rules, &e);
    failed = e.code != BASE_OK;
    trace_close(t);
  }
  return 0;
}
