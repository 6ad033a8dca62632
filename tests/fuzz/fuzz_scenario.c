/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Fuzz target of the scenario reader: any bytes give a scenario or errors with texts, never a
 * crash. What is read can be frozen; small plans are walked. Files are not looked for.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/scenario/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds, const char *what)
{
  if (holds)
    return;
  fprintf(stderr, "broken: %s\n", what);
  abort();
}

/* Whether the plan is small enough to be frozen here: at most some thousand rows, no trace. */
static int is_small(const struct scenario *s)
{
  __int128 rows = 0;
  for (uint32_t i = 0; i < s->nclasses; i++) {
    if (s->cls[i].arrivals == ARRIVALS_TRACE)
      return 0;
    rows += (__int128)s->cls[i].rate_uhz * s->window;
  }
  return rows < (__int128)5000 * 1000000 * INT64_C(1000000000000);
}

static void walk(const struct scenario *s)
{
  struct base_error e = {0};
  struct plan_cursor cursor;
  struct world_source source;
  struct world_arrival a;
  lull_time before = 0;
  uint64_t n = 0;
  struct plan *p = plan_freeze(s, s->seed[0], &e);
  require(p != NULL, "a small plan is frozen");
  require(!plan_open(p, UINT32_MAX, &cursor, &source, &e), "a plan is opened");
  for (; source.next(source.ctx, &a, &e) == 1; n++) {
    require(a.time >= before && a.time < s->window, "rows are in order and in the window");
    require(a.prompt >= 1 && a.output >= 1 && a.cls < s->nclasses, "rows are whole");
    require(a.accept_q16 <= LULL_Q16_ONE && a.phase_q16 < LULL_Q16_ONE, "fractions are fractions");
    before = a.time;
  }
  require(n == plan_rows(p), "all rows are walked");
  plan_close(&cursor);
  plan_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct base_errors errors = {0};
  struct scenario_options o = {.skip_files = 1, .data_dir = "data"};
  struct scenario *s = scenario_open_memory("fuzz.xml", NULL, (const char *)data, size, &o,
                                            &errors);
  require(!s == (errors.total > 0), "either a scenario or errors");
  for (size_t i = 0; i < errors.n; i++)
    require(errors.item[i].text[0] && errors.item[i].code != BASE_INVARIANT,
            "errors say what is wrong with the input");
  if (s && is_small(s))
    walk(s);
  scenario_close(s);
  base_errors_free(&errors);
  return 0;
}
