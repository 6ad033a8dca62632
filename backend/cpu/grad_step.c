/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What follows the gradients: sums, the norm, AdamW, and the weights that the engine reads. */
#include <string.h>

#include "backend/cpu/grad.h"

struct step_job {
  struct cpu_grad *g;
  float *to;
  const float *from;
  size_t n;
  const struct grad_adamw *adamw;
  const struct tensor *tensor;
};

static void zero_share(void *job, unsigned thread, unsigned threads)
{
  const struct step_job *j = job;
  size_t from, to;
  grad_share(j->n, 64, thread, threads, &from, &to);
  if (from < to)
    memset(j->to + from, 0, (to - from) * sizeof *j->to);
}

void grad_zero(struct grad *base, float *x, size_t n)
{
  struct step_job j = {.g = (struct cpu_grad *)base, .to = x, .n = n};
  grad_run(j.g, zero_share, &j, (double)j.n);
}

static void add_share(void *job, unsigned thread, unsigned threads)
{
  const struct step_job *j = job;
  size_t from, to;
  grad_share(j->n, 64, thread, threads, &from, &to);
  if (from < to)
    j->g->k->axpy(j->to + from, j->from + from, 1, to - from);
}

void grad_add(struct grad *base, float *to, const float *from, size_t n)
{
  struct step_job j = {.g = (struct cpu_grad *)base, .to = to, .from = from, .n = n};
  grad_run(j.g, add_share, &j, (double)j.n);
}

/* A piece is summed in runs short enough for fp32. */
static void squares_share(void *job, unsigned thread, unsigned threads)
{
  const struct step_job *j = job;
  size_t piece = (j->n + GRAD_PIECES - 1) / GRAD_PIECES;
  for (size_t p = thread; p < GRAD_PIECES; p += threads) {
    size_t at = p * piece, end = at + piece < j->n ? at + piece : j->n;
    double sum = 0;
    for (; at < end; at += 1024)
      sum += j->g->k->dot(j->from + at, j->from + at, end - at < 1024 ? end - at : 1024);
    j->g->piece[p] = sum;
  }
}

double grad_square_sum(struct grad *base, const float *x, size_t n)
{
  struct step_job j = {.g = (struct cpu_grad *)base, .from = x, .n = n};
  double sum = 0;
  grad_run(j.g, squares_share, &j, (double)j.n);
  for (int i = 0; i < GRAD_PIECES; i++)
    sum += j.g->piece[i];
  return sum;
}

static void adamw_share(void *job, unsigned thread, unsigned threads)
{
  const struct step_job *j = job;
  size_t from, to;
  grad_share(j->adamw->n, 64, thread, threads, &from, &to);
  if (from < to)
    j->g->k->adamw(j->adamw, from, to);
}

void grad_adamw_step(struct grad *base, const struct grad_adamw *s)
{
  struct step_job j = {.g = (struct cpu_grad *)base, .adamw = s};
  grad_run(j.g, adamw_share, &j, 4 * (double)s->n);
}

static void publish_share(void *job, unsigned thread, unsigned threads)
{
  const struct step_job *j = job;
  size_t from, to;
  grad_share(j->n, 64, thread, threads, &from, &to);
  char *at = (char *)j->tensor->data;
  if (from < to && j->tensor->dtype == TENSOR_F32)
    memcpy(at + from * sizeof *j->from, j->from + from, (to - from) * sizeof *j->from);
  for (size_t i = from; i < to && j->tensor->dtype == TENSOR_BF16; i++) {
    uint16_t h = bf16_from_f32(j->from[i]);
    memcpy(at + i * sizeof h, &h, sizeof h);
  }
}

void grad_publish(struct grad *base, const struct tensor *to, const float *from)
{
  struct step_job j = {
      .g = (struct cpu_grad *)base, .from = from, .n = (size_t)to->rows * to->cols, .tensor = to};
  grad_run(j.g, publish_share, &j, (double)j.n);
}
