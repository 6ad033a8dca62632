/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * AIConfigurator's measured tables, read for one GPU: GEMM times by (type, n, k, m), attention
 * times by (sequences, tokens). Times are integer picoseconds; interpolation is integer, too.
 */
#ifndef CALIB_TABLES_H
#define CALIB_TABLES_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct llm;

/* What a file says of itself in every row, and what of it was used. */
struct table_origin {
  char engine[64];  /* framework and version of the rows used */
  char kernel[128]; /* kernels of the rows used, with commas between */
  char device[64];
};

enum table_dtype { TABLE_WEIGHT, TABLE_BF16 };

/* What a file is, by its header and its first row; -1 if it cannot be read. */
enum table_kind { TABLE_GEMM, TABLE_CONTEXT, TABLE_GENERATION, TABLE_OTHER };
int table_recognise(const char *path, struct base_error *e);

/* One measured GEMM: (m x k) times (k x n). */
struct gemm_row {
  int dtype; /* enum table_dtype */
  int64_t k, n, m, ps;
  unsigned line;
};

struct gemm_table {
  struct gemm_row *row; /* owned; by dtype, k, n, m; no two alike */
  size_t n;
  int weight; /* the type of the linear layers: TABLE_WEIGHT, or TABLE_BF16 */
  struct table_origin origin;
};

/* Reads rows of gemm_dtype `weight_dtype` and bfloat16. */
int gemm_load(struct gemm_table *t, const char *path, const char *weight_dtype, const char *device,
              struct base_error *e);
void gemm_free(struct gemm_table *t);
/*
 * Time of a GEMM at a measured m: where n or k was not measured, on the line between the nearest
 * two; n beyond the largest measured, on the least-squares line through the largest three.
 * `below` > 0 leaves out all n >= below, and `without` > 0 that one n (to test the rule). Returns
 * ps, or -1 if the table does not hold what is needed.
 */
struct gemm_rule {
  int64_t below, without;
};
int64_t gemm_ps(const struct gemm_table *t, int dtype, int64_t m, int64_t n, int64_t k,
                const struct gemm_rule *rule);
/* Measured m of a type, ascending, at most max; returns how many. */
size_t gemm_tokens(const struct gemm_table *t, int dtype, int64_t *m, size_t max);

/* One measured attention of `batch` sequences with `step` cached and `isl` new tokens each. */
struct attention_row {
  int64_t batch, step, isl, ps;
  unsigned line; /* 0: not known */
};
struct attention_table {
  struct attention_row *row; /* owned; by batch, step, isl; no two alike */
  size_t n;
  struct table_origin origin;
};
/* Reads rows of the model's heads, full attention, bf16 queries, this kv_dtype. */
int attention_load(struct attention_table *t, const char *path, const struct llm *model,
                   const char *kv_dtype, const char *device, struct base_error *e);
void attention_free(struct attention_table *t);

#endif
