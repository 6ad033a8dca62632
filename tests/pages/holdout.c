/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Held-out errors over whole attention tables of AIConfigurator's: every pair of query and KV heads
 * (of 128, full attention) by itself, as lull import does for a model's, and all of them together.
 *
 *   holdout GPU KV_DTYPE CONTEXT.csv GENERATION.csv      one row of docs/holdout.md each
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calib/chunk_fit.h"
#include "calib/fit.h"
#include "calib/grid_fit.h"
#include "models/gpu.h"
#include "models/llm.h"

enum { ERRORS_MAX = 1 << 17, HEADS_MAX = 128 };

static int collect_decode(const struct attention_table *t, struct fit_thirds *errors,
                          struct base_error *e)
{
  static const uint32_t order[] = {1, 0};
  struct grid_point *point = calloc(t->n + 1, sizeof *point);
  size_t n = 0;
  if (!point)
    return base_fail_memory(e);
  for (size_t i = 0; i < t->n; i++)
    if (t->row[i].isl == 1 && t->row[i].step >= 1)
      point[n++] = (struct grid_point){{t->row[i].batch, t->row[i].step}, t->row[i].ps};
  int rc = n ? grid_judge(2, order, point, n, errors, e) : 0;
  free(point);
  return rc;
}

/* One pair of heads: 1 if the table has it, 0 if not, -1 on failure. */
static int collect(const char *path, int decode, struct llm *model, const char *kv,
                   const struct gpu *g, struct fit_thirds *errors, struct base_error *e)
{
  struct base_error none = {0};
  struct attention_table t;
  if (attention_load(&t, path, model, kv, g->device, &none)) {
    if (strstr(none.text, "there is no row"))
      return 0;
    return base_fail_at(e, none.code, path, none.line, "%s", none.text);
  }
  int rc = decode ? collect_decode(&t, errors, e) : chunk_judge(&t, errors, e);
  attention_free(&t);
  return rc ? -1 : 1;
}

static int whole_table(const char *path, int decode, const char *kv, const struct gpu *g,
                       struct base_error *e)
{
  static const uint32_t kv_heads[] = {1, 2, 4, 8};
  struct calibration_residual r[3];
  struct fit_thirds errors;
  int tables = 0;
  if (fit_thirds_init(&errors, ERRORS_MAX))
    return base_fail_memory(e);
  for (uint32_t q = 1; q <= HEADS_MAX; q++)
    for (size_t i = 0; i < sizeof kv_heads / sizeof kv_heads[0]; i++) {
      struct llm m = {.q_heads = q, .kv_heads = kv_heads[i], .head_dim = 128};
      int rc = q % kv_heads[i] ? 0 : collect(path, decode, &m, kv, g, &errors, e);
      if (rc < 0) {
        fit_thirds_free(&errors);
        return -1;
      }
      tables += rc;
    }
  fit_thirds_close(&errors, decode ? "decode attention" : "prefill attention", r);
  printf("| %s, KV %s, all %d pairs of heads | %s | %u | %u | %.1f | %.1f | %.1f |\n", g->name, kv,
         tables, r[0].curve, r[0].samples, r[0].heldout, 100 * r[0].p50, 100 * r[0].p95,
         100 * r[0].max);
  return 0;
}

int main(int argc, char **argv)
{
  struct base_error e = {0};
  struct gpu g;
  char text[1024];
  if (argc != 5) {
    fputs("usage: holdout GPU KV_DTYPE CONTEXT.csv GENERATION.csv\n", stderr);
    return 2;
  }
  if (!gpu_open(argv[1], &g, &e) && !whole_table(argv[3], 0, argv[2], &g, &e) &&
      !whole_table(argv[4], 1, argv[2], &g, &e))
    return 0;
  fprintf(stderr, "holdout: %s\n", base_error_format(&e, text, sizeof text));
  return 1;
}
