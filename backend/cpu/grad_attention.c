/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Causal attention over whole sequences, and its backward. A thread takes whole heads: in the
 * backward those of one key head together, whose gradients they share, so that no two threads add
 * to the same place.
 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "backend/cpu/grad.h"

struct attention_job {
  struct cpu_grad *g;
  float *y, *lse;          /* forward */
  float *dq, *dk, *dv;     /* backward */
  const float *dy, *saved; /* backward: of y, y */
  const float *q, *k, *v;
  const struct grad_seq *seq;
  uint32_t nseq;
  struct grad_heads h;
};

/* A head of a sequence: rows are `qw` and `kw` floats apart. */
struct head {
  const float *q, *k, *v;
  size_t qw, kw, at_q, at_k; /* offsets of its first element, in floats */
  size_t at_lse;             /* in lse, whose rows are q_heads apart */
  uint32_t rows, dim;
  float scale;
};

static struct head head_of(const struct attention_job *j, uint32_t seq, uint32_t q_head)
{
  const struct grad_heads *h = &j->h;
  size_t qw = (size_t)h->q_heads * h->head_dim, kw = (size_t)h->kv_heads * h->head_dim;
  uint32_t first = j->seq[seq].first_row, kv_head = q_head / (h->q_heads / h->kv_heads);
  size_t at_q = first * qw + (size_t)q_head * h->head_dim;
  size_t at_k = first * kw + (size_t)kv_head * h->head_dim;
  return (struct head){.q = j->q + at_q,
                       .k = j->k + at_k,
                       .v = j->v + at_k,
                       .qw = qw,
                       .kw = kw,
                       .at_q = at_q,
                       .at_k = at_k,
                       .at_lse = (size_t)first * h->q_heads + q_head,
                       .rows = j->seq[seq].rows,
                       .dim = h->head_dim,
                       .scale = 1 / sqrtf((float)h->head_dim)};
}

static void multiply(const struct cpu_grad *g, const struct grad_gemm *p)
{
  g->k->gemm(p, 0, grad_gemm_units(p));
}

/* s[rows][keys] = x y^T of rows from x (qw apart) and keys from y (kw apart). */
static void against_keys(const struct cpu_grad *g, const struct head *h, float *s, const float *x,
                         const float *y, uint32_t rows, uint32_t keys)
{
  multiply(g, &(struct grad_gemm){.c = s,
                                  .ldc = g->most.seq_tokens,
                                  .m = rows,
                                  .n = keys,
                                  .r = h->dim,
                                  .a = x,
                                  .am = h->qw,
                                  .ar = 1,
                                  .b = y,
                                  .b_dtype = TENSOR_F32,
                                  .br = 1,
                                  .bn = h->kw});
}

/* c[rows][dim] = s y, of s[rows][keys]. */
static void from_keys(const struct cpu_grad *g, const struct head *h, float *c, const float *s,
                      const float *y, uint32_t rows, uint32_t keys)
{
  multiply(g, &(struct grad_gemm){.c = c,
                                  .ldc = h->qw,
                                  .m = rows,
                                  .n = h->dim,
                                  .r = keys,
                                  .a = s,
                                  .am = g->most.seq_tokens,
                                  .ar = 1,
                                  .b = y,
                                  .b_dtype = TENSOR_F32,
                                  .br = h->kw,
                                  .bn = 1});
}

/* c[keys][dim] += s^T x, of s[rows][keys] and rows from x. */
static void to_keys(const struct cpu_grad *g, const struct head *h, float *c, const float *s,
                    const float *x, uint32_t rows, uint32_t keys)
{
  multiply(g, &(struct grad_gemm){.c = c,
                                  .ldc = h->kw,
                                  .m = keys,
                                  .n = h->dim,
                                  .r = rows,
                                  .a = s,
                                  .am = 1,
                                  .ar = g->most.seq_tokens,
                                  .b = x,
                                  .b_dtype = TENSOR_F32,
                                  .br = h->qw,
                                  .bn = 1,
                                  .add = 1});
}

/* Of the scores of row `row`, which sees `keys` of them: their exponentials over the sum. */
static float softmax(const struct cpu_grad *g, float *s, float scale, uint32_t keys)
{
  float top = scale * g->k->max(s, keys), sum = g->k->exp(s, scale, top, keys);
  for (uint32_t i = 0; i < keys; i++)
    s[i] /= sum;
  return top + logf(sum);
}

static void attend(const struct attention_job *j, uint32_t seq, uint32_t q_head, float *s)
{
  const struct cpu_grad *g = j->g;
  struct head h = head_of(j, seq, q_head);
  for (uint32_t at = 0; at < h.rows; at += GRAD_ROWS) {
    uint32_t rows = h.rows - at < GRAD_ROWS ? h.rows - at : GRAD_ROWS, keys = at + rows;
    float *y = j->y + h.at_q + at * h.qw;
    against_keys(g, &h, s, h.q + at * h.qw, h.k, rows, keys);
    for (uint32_t i = 0; i < rows; i++) {
      float *row = s + (size_t)i * g->most.seq_tokens;
      uint32_t seen = at + i + 1;
      j->lse[h.at_lse + (size_t)(at + i) * j->h.q_heads] = softmax(g, row, h.scale, seen);
      memset(row + seen, 0, (keys - seen) * sizeof *row);
    }
    from_keys(g, &h, y, s, h.v, rows, keys);
    for (uint32_t i = 0; g->round && i < rows; i++)
      for (uint32_t d = 0; d < h.dim; d++)
        y[i * h.qw + d] = bf16_to_f32(bf16_from_f32(y[i * h.qw + d]));
  }
}

static double attention_work(const struct attention_job *j)
{
  double work = 0;
  for (uint32_t i = 0; i < j->nseq; i++)
    work += (double)j->seq[i].rows * j->seq[i].rows * j->h.q_heads * j->h.head_dim;
  return work;
}

static void attention_share(void *job, unsigned thread, unsigned threads)
{
  const struct attention_job *j = job;
  float *s = j->g->scores + (size_t)thread * 2 * GRAD_ROWS * j->g->most.seq_tokens;
  size_t from, to;
  grad_share((size_t)j->nseq * j->h.q_heads, 1, thread, threads, &from, &to);
  for (size_t i = from; i < to; i++)
    attend(j, (uint32_t)(i / j->h.q_heads), (uint32_t)(i % j->h.q_heads), s);
}

void grad_attention(struct grad *base, void *y, float *lse, const void *q, const void *k,
                    const void *v, const struct grad_seq *seq, uint32_t nseq, struct grad_heads h)
{
  struct cpu_grad *g = (struct cpu_grad *)base;
  for (uint32_t i = 0; i < nseq; i++)
    assert(seq[i].rows <= g->most.seq_tokens);
  struct attention_job j = {
      .g = g, .y = y, .lse = lse, .q = q, .k = k, .v = v, .seq = seq, .nseq = nseq, .h = h};
  grad_run(g, attention_share, &j, attention_work(&j));
}

/* p and ds of a row: of its scores and of dy v^T. */
static void row_back(const struct attention_job *j, const struct head *h, uint32_t row, float *p,
                     float *ds, uint32_t keys)
{
  const struct grad_kernels *k = j->g->k;
  size_t at = h->at_q + row * h->qw;
  uint32_t seen = row + 1;
  k->exp(p, h->scale, j->lse[h->at_lse + (size_t)row * j->h.q_heads], seen);
  k->softmax_back(ds, p, k->dot(j->dy + at, j->saved + at, h->dim), h->scale, seen);
  memset(p + seen, 0, (keys - seen) * sizeof *p);
  memset(ds + seen, 0, (keys - seen) * sizeof *ds);
}

static void attend_back(const struct attention_job *j, uint32_t seq, uint32_t q_head, float *p)
{
  const struct cpu_grad *g = j->g;
  struct head h = head_of(j, seq, q_head);
  size_t ld = g->most.seq_tokens;
  float *ds = p + GRAD_ROWS * ld;
  for (uint32_t at = 0; at < h.rows; at += GRAD_ROWS) {
    uint32_t rows = h.rows - at < GRAD_ROWS ? h.rows - at : GRAD_ROWS, keys = at + rows;
    const float *q = h.q + at * h.qw, *dy = j->dy + h.at_q + at * h.qw;
    against_keys(g, &h, p, q, h.k, rows, keys);
    against_keys(g, &h, ds, dy, h.v, rows, keys);
    for (uint32_t i = 0; i < rows; i++)
      row_back(j, &h, at + i, p + i * ld, ds + i * ld, keys);
    from_keys(g, &h, j->dq + h.at_q + at * h.qw, ds, h.k, rows, keys);
    to_keys(g, &h, j->dk + h.at_k, ds, q, rows, keys);
    to_keys(g, &h, j->dv + h.at_k, p, dy, rows, keys);
  }
}

static void attention_back_share(void *job, unsigned thread, unsigned threads)
{
  const struct attention_job *j = job;
  float *p = j->g->scores + (size_t)thread * 2 * GRAD_ROWS * j->g->most.seq_tokens;
  uint32_t group = j->h.q_heads / j->h.kv_heads;
  size_t from, to;
  grad_share((size_t)j->nseq * j->h.kv_heads, 1, thread, threads, &from, &to);
  for (size_t i = from; i < to; i++) {
    uint32_t seq = (uint32_t)(i / j->h.kv_heads), kv_head = (uint32_t)(i % j->h.kv_heads);
    struct head h = head_of(j, seq, kv_head * group);
    for (uint32_t t = 0; t < h.rows; t++) {
      memset(j->dk + h.at_k + t * h.kw, 0, h.dim * sizeof *j->dk);
      memset(j->dv + h.at_k + t * h.kw, 0, h.dim * sizeof *j->dv);
    }
    for (uint32_t q = 0; q < group; q++)
      attend_back(j, seq, kv_head * group + q, p);
  }
}

void grad_attention_back(struct grad *base, float *dq, float *dk, float *dv, const float *dy,
                         const void *q, const void *k, const void *v, const void *y,
                         const float *lse, const struct grad_seq *seq, uint32_t nseq,
                         struct grad_heads h)
{
  struct cpu_grad *g = (struct cpu_grad *)base;
  struct attention_job j = {.g = g,
                            .lse = (float *)lse,
                            .dq = dq,
                            .dk = dk,
                            .dv = dv,
                            .dy = dy,
                            .saved = y,
                            .q = q,
                            .k = k,
                            .v = v,
                            .seq = seq,
                            .nseq = nseq,
                            .h = h};
  grad_run(g, attention_back_share, &j, attention_work(&j));
}
