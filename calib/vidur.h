/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Vidur's profiles: operators of one layer of a model by tokens (mlp.csv), perhaps attention of
 * chunks and of decode rows (attention.csv), and collectives of a node (all_reduce.csv). CSV, plain
 * or gzip, known by their headers. Times are medians, in ms.
 */
#ifndef CALIB_VIDUR_H
#define CALIB_VIDUR_H

#include "calib/operators.h"

struct llm;

enum vidur_kind { VIDUR_MLP, VIDUR_ATTENTION, VIDUR_ALL_REDUCE, VIDUR_SEND_RECV, VIDUR_KINDS };

/* An operator's column and how often it runs a layer and a step. */
struct vidur_operator {
  const char *name;
  int64_t layer, step;
};
enum { VIDUR_OPERATORS = 10 };
extern const struct vidur_operator vidur_operators[VIDUR_OPERATORS];

/* A chunk of `x[0]` tokens with `x[1]` of history, or x[0] decode rows of x[1] context tokens. */
struct vidur_attention_row {
  int64_t x[2], ps;
  unsigned line;
};

/* Zero before use. Rows are sorted; of a point that was profiled twice the quicker is kept. */
struct vidur {
  const char *path[VIDUR_KINDS]; /* borrowed; NULL: not given */
  struct operator_row *mlp;      /* op: index in vidur_operators */
  struct vidur_attention_row *prompt, *decode;
  struct operators_collective_row *reduce;
  size_t nmlp, nprompt, ndecode, nreduce;
  size_t twice, twice_line; /* points profiled again, and the row of the last of them */
  char backend[64];         /* of the attention */
};

/* What a file is, by its header (VIDUR_KINDS: no table of vidur); -1 if it cannot be read. */
int vidur_recognise(const char *path, struct base_error *e);
/* Reads files (borrowed), one of each kind; mlp.csv must be among them. Of the rows those of tp
 * GPUs; they must be of the model's shapes. */
int vidur_load(struct vidur *t, const char *const *path, size_t n, const struct llm *model,
               uint32_t tp, struct base_error *e);
void vidur_free(struct vidur *t);
/* Tells of times that fall as work grows, and of points that were profiled twice. */
void vidur_tell(const struct vidur *t, FILE *talk);

#endif
