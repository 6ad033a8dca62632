/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Backward of what works on rows: norms, rotations, activations, embedding, loss. Gradients of
 * weights are sums over rows in their order; there a thread takes columns, not rows.
 */
#include <assert.h>
#include <math.h>

#include "backend/cpu/grad.h"

struct rows_job {
  struct cpu_grad *g;
  float *dx, *dw; /* dx: stored where it is dy too, else added to */
  const float *dy, *x, *turn;
  float eps;
  uint32_t rows, n, heads;
};

/* ------------------------------------------------------------------------------------ norms --- */

static void inverse_share(void *job, unsigned thread, unsigned threads)
{
  const struct rows_job *j = job;
  size_t from, to;
  grad_share(j->rows, 1, thread, threads, &from, &to);
  for (size_t t = from; t < to; t++) {
    const float *x = j->x + t * j->n;
    j->g->inverse[t] = 1 / sqrtf(j->g->k->dot(x, x, j->n) / (float)j->n + j->eps);
  }
}

/* dw[i] += sum over rows of dy x / rms. */
static void norm_weight_share(void *job, unsigned thread, unsigned threads)
{
  const struct rows_job *j = job;
  size_t from, to;
  grad_share(j->n, 16, thread, threads, &from, &to);
  for (size_t t = 0; t < j->rows; t++) {
    float inverse = j->g->inverse[t];
    const float *dy = j->dy + t * j->n, *x = j->x + t * j->n;
    for (size_t i = from; i < to; i++)
      j->dw[i] += dy[i] * x[i] * inverse;
  }
}

/* dx = (h - x (x . h) / (n rms^2)) / rms with h = dy w. */
static void norm_input_share(void *job, unsigned thread, unsigned threads)
{
  const struct rows_job *j = job;
  const float *w = j->g->weight;
  size_t from, to;
  grad_share(j->rows, 1, thread, threads, &from, &to);
  for (size_t t = from; t < to; t++) {
    const float *dy = j->dy + t * j->n, *x = j->x + t * j->n;
    float *dx = j->dx + t * j->n, inverse = j->g->inverse[t], sum[8] = {0};
    for (uint32_t i = 0; i < j->n; i++)
      sum[i % 8] += dy[i] * w[i] * x[i];
    float along = ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
    along *= inverse * inverse / (float)j->n;
    if (dx == dy)
      for (uint32_t i = 0; i < j->n; i++)
        dx[i] = (dy[i] * w[i] - x[i] * along) * inverse;
    else
      for (uint32_t i = 0; i < j->n; i++)
        dx[i] += (dy[i] * w[i] - x[i] * along) * inverse;
  }
}

static void norm_back(struct rows_job *j, const struct tensor *w)
{
  for (uint32_t i = 0; i < j->n; i++)
    j->g->weight[i] = tensor_get(w, i);
  grad_run(j->g, inverse_share, j, (double)j->rows * j->n);
  if (j->dw)
    grad_run(j->g, norm_weight_share, j, (double)j->rows * j->n);
  grad_run(j->g, norm_input_share, j, 4.0 * j->rows * j->n);
}

void grad_norm_back(struct grad *base, float *dx, float *dw, const float *dy, const void *x,
                    const struct tensor *w, float eps, uint32_t T, uint32_t n)
{
  struct rows_job j = {.g = (struct cpu_grad *)base,
                       .dx = dx,
                       .dw = dw,
                       .dy = dy,
                       .x = x,
                       .eps = eps,
                       .rows = T,
                       .n = n};
  assert(T <= j.g->most.tokens && n <= j.g->most.width);
  norm_back(&j, w);
}

/* --------------------------------------------------------------------------------- rotation --- */

void grad_rotation(struct grad *base, float *turn, const float *inv_freq, const uint32_t *position,
                   uint32_t T, uint32_t head_dim)
{
  int round = ((struct cpu_grad *)base)->round;
  uint32_t half = head_dim / 2;
  for (uint32_t t = 0; t < T; t++, turn += head_dim)
    for (uint32_t i = 0; i < half; i++) {
      float angle = (float)position[t] * inv_freq[i], c = cosf(angle), s = sinf(angle);
      turn[i] = round ? bf16_to_f32(bf16_from_f32(c)) : c;
      turn[half + i] = round ? bf16_to_f32(bf16_from_f32(s)) : s;
    }
}

static void turn_back_share(void *job, unsigned thread, unsigned threads)
{
  const struct rows_job *j = job;
  uint32_t half = j->n / 2;
  size_t from, to;
  grad_share(j->rows, 1, thread, threads, &from, &to);
  for (size_t t = from; t < to; t++) {
    const float *c = j->turn + t / j->heads * j->n, *s = c + half;
    float *d = j->dx + t * j->n;
    for (uint32_t i = 0; i < half; i++) {
      float a = d[i], b = d[half + i];
      d[i] = a * c[i] + b * s[i];
      d[half + i] = b * c[i] - a * s[i];
    }
  }
}

void grad_norm_rope_back(struct grad *base, float *d, float *dw, const void *x,
                         const struct tensor *w, float eps, const float *turn, uint32_t T,
                         uint32_t heads, uint32_t head_dim)
{
  struct rows_job j = {.g = (struct cpu_grad *)base,
                       .dx = d,
                       .dw = dw,
                       .dy = d,
                       .x = x,
                       .turn = turn,
                       .eps = eps,
                       .rows = T * heads,
                       .n = head_dim,
                       .heads = heads};
  assert(T <= j.g->most.tokens && (size_t)heads * head_dim <= j.g->most.width);
  grad_run(j.g, turn_back_share, &j, (double)j.rows * j.n);
  if (w->data)
    norm_back(&j, w);
}

/* ------------------------------------------------------------------------------- activation --- */

struct swiglu_job {
  struct cpu_grad *g;
  float *dgate, *dup;
  const float *dy, *gate, *up;
  size_t n;
};

static void swiglu_back_share(void *job, unsigned thread, unsigned threads)
{
  const struct swiglu_job *j = job;
  size_t from, to;
  grad_share(j->n, 64, thread, threads, &from, &to);
  if (from < to)
    j->g->k->swiglu_back(j->dgate + from, j->dup + from, j->dy + from, j->gate + from, j->up + from,
                         to - from);
}

void grad_swiglu_back(struct grad *base, float *dgate, float *dup, const float *dy,
                      const void *gate, const void *up, size_t n)
{
  struct swiglu_job j = {(struct cpu_grad *)base, dgate, dup, dy, gate, up, n};
  grad_run(j.g, swiglu_back_share, &j, 4 * (double)n);
}

/* ---------------------------------------------------------------------------- embedding, loss ---
 */

struct embed_job {
  float *dtable;
  const float *dy;
  const int32_t *token;
  uint32_t rows, hidden;
};

static void embed_back_share(void *job, unsigned thread, unsigned threads)
{
  const struct embed_job *j = job;
  size_t from, to;
  grad_share(j->hidden, 16, thread, threads, &from, &to);
  for (size_t t = 0; t < j->rows; t++) {
    float *row = j->dtable + (size_t)j->token[t] * j->hidden;
    const float *dy = j->dy + t * j->hidden;
    for (size_t i = from; i < to; i++)
      row[i] += dy[i];
  }
}

void grad_embed_back(struct grad *base, float *dtable, const float *dy, const int32_t *token,
                     uint32_t T, uint32_t hidden)
{
  struct embed_job j = {dtable, dy, token, T, hidden};
  grad_run((struct cpu_grad *)base, embed_back_share, &j, (double)T * hidden);
}

struct loss_job {
  const struct grad_kernels *k;
  float *loss, *dlogits;
  const float *logits;
  const int32_t *target;
  uint32_t rows, vocab;
};

static void loss_row(const struct loss_job *j, size_t t)
{
  const float *x = j->logits + t * j->vocab;
  float *d = j->dlogits + t * j->vocab;
  for (uint32_t i = 0; i < j->vocab; i++)
    d[i] = j->target[t] < 0 ? 0 : x[i];
  j->loss[t] = 0;
  if (j->target[t] < 0)
    return;
  float top = j->k->max(x, j->vocab), sum = j->k->exp(d, 1, top, j->vocab), part = 1 / sum;
  for (uint32_t i = 0; i < j->vocab; i++)
    d[i] *= part;
  d[j->target[t]] -= 1;
  j->loss[t] = logf(sum) - (x[j->target[t]] - top);
}

static void loss_share(void *job, unsigned thread, unsigned threads)
{
  const struct loss_job *j = job;
  size_t from, to;
  grad_share(j->rows, 1, thread, threads, &from, &to);
  for (size_t t = from; t < to; t++)
    loss_row(j, t);
}

void grad_cross_entropy(struct grad *base, float *loss, float *dlogits, const void *logits,
                        const int32_t *target, uint32_t T, uint32_t vocab)
{
  struct cpu_grad *g = (struct cpu_grad *)base;
  struct loss_job j = {g->k, loss, dlogits, logits, target, T, vocab};
  grad_run(g, loss_share, &j, 4.0 * T * vocab);
}
