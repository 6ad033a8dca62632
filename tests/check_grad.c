/* SPDX-License-Identifier: GPL-3.0-or-later */
/* backend/grad.h on the CPU: each backward against central differences of a forward in double. */
#include <check.h>
#include <gsl/gsl_randist.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/grad_stage.h"
#include "tests/suite.h"

enum { ROUNDS = 3 };

/* ----------------------------------------------------------------------- central differences ---
 */

/* A forward whose result is weighed by dy: inputs in up to three arrays. */
struct forward {
  const float *in[3];
  size_t n[3];
  const float *dy;
  double (*loss)(const struct forward *f, double *const x[3]);
  uint32_t T, a, b, c; /* shapes, as each forward names them */
  const float *turn;
};

/* The gradient of input `which` must be `got`, up to `most` times its norm. At most 150 of its
 * numbers are looked at. */
static void check_gradient(const struct forward *f, int which, const float *got, double most)
{
  double *x[3] = {NULL, NULL, NULL}, wrong = 0, size = 0;
  for (int k = 0; k < 3; k++) {
    x[k] = calloc(f->n[k] + 1, sizeof *x[k]);
    ck_assert(x[k] != NULL);
    for (size_t i = 0; i < f->n[k]; i++)
      x[k][i] = (double)f->in[k][i];
  }
  size_t step = f->n[which] / 150 + 1;
  for (size_t i = below((uint32_t)step); i < f->n[which]; i += step) {
    const double h = 1e-5, at = x[which][i];
    x[which][i] = at + h;
    double up = f->loss(f, x);
    x[which][i] = at - h;
    double slope = (up - f->loss(f, x)) / (2 * h);
    x[which][i] = at;
    wrong += (slope - (double)got[i]) * (slope - (double)got[i]);
    size += slope * slope;
  }
  for (int k = 0; k < 3; k++)
    free(x[k]);
  ck_assert_double_le(sqrt(wrong), most * sqrt(size) + 1e-6);
}

/* ----------------------------------------------------------------------------------- linear --- */

/* y[T][b] = x[T][a] w[b][a]^T + bias[b] */
static double linear_loss(const struct forward *f, double *const x[3])
{
  double loss = 0;
  for (uint32_t t = 0; t < f->T; t++)
    for (uint32_t o = 0; o < f->b; o++) {
      double y = x[2][o];
      for (uint32_t i = 0; i < f->a; i++)
        y += x[0][t * f->a + i] * x[1][o * f->a + i];
      loss += y * (double)f->dy[t * f->b + o];
    }
  return loss;
}

static void check_linear(uint32_t T, uint32_t in, uint32_t out)
{
  float *x = drawn((size_t)T * in), *w = drawn((size_t)in * out), *b = drawn(out);
  float *dy = drawn((size_t)T * out), *dx = drawn((size_t)T * in);
  float *dw = zeros((size_t)in * out), *db = zeros(out);
  struct forward f = {.in = {x, w, b},
                      .n = {(size_t)T * in, (size_t)in * out, out},
                      .dy = dy,
                      .loss = linear_loss,
                      .T = T,
                      .a = in,
                      .b = out};
  struct tensor wt = matrix(out, in, w);
  grad->table->linear_back(grad, dx, dy, &wt, T, 0);
  grad->table->weight_back(grad, dw, db, dy, x, T, in, out);
  check_gradient(&f, 0, dx, 2e-6);
  check_gradient(&f, 1, dw, 2e-6);
  check_gradient(&f, 2, db, 2e-6);
  /* Both add where they are told to. */
  grad->table->linear_back(grad, dx, dy, &wt, T, 1);
  grad->table->weight_back(grad, dw, NULL, dy, x, T, in, out);
  for (size_t i = 0; i < (size_t)T * in; i++)
    dx[i] /= 2;
  for (size_t i = 0; i < (size_t)in * out; i++)
    dw[i] /= 2;
  check_gradient(&f, 0, dx, 2e-6);
  check_gradient(&f, 1, dw, 2e-6);
  float *all[] = {x, w, b, dy, dx, dw, db};
  for (size_t i = 0; i < 7; i++)
    free(all[i]);
}

static void linear_cases(void)
{
  check_linear(1, 1, 1);
  check_linear(97, 49, 3);
  check_linear(3, 2, 300);
  for (int i = 0; i < ROUNDS; i++)
    check_linear(1 + below(40), 1 + below(70), 1 + below(60));
}

/* ------------------------------------------------------------------------------------- LoRA --- */

/* y[T][b] = 1.5 (x[T][a] A[c][a]^T) B[b][c]^T */
static double lora_loss(const struct forward *f, double *const x[3])
{
  double loss = 0;
  for (uint32_t t = 0; t < f->T; t++)
    for (uint32_t r = 0; r < f->c; r++) {
      double s = 0;
      for (uint32_t i = 0; i < f->a; i++)
        s += x[0][t * f->a + i] * x[1][r * f->a + i];
      for (uint32_t o = 0; o < f->b; o++)
        loss += 1.5 * s * x[2][o * f->c + r] * (double)f->dy[t * f->b + o];
    }
  return loss;
}

static void check_lora(uint32_t T, uint32_t in, uint32_t out, uint32_t rank)
{
  float *x = drawn((size_t)T * in), *a = drawn((size_t)rank * in), *b = drawn((size_t)out * rank);
  float *dy = drawn((size_t)T * out), *dx = zeros((size_t)T * in);
  float *da = zeros((size_t)rank * in), *db = zeros((size_t)out * rank);
  struct forward f = {.in = {x, a, b},
                      .n = {(size_t)T * in, (size_t)rank * in, (size_t)out * rank},
                      .dy = dy,
                      .loss = lora_loss,
                      .T = T,
                      .a = in,
                      .b = out,
                      .c = rank};
  struct tensor at = matrix(rank, in, a), bt = matrix(out, rank, b);
  grad->table->lora_back(grad, dx, da, db, dy, x, &at, &bt, 1.5f, T);
  check_gradient(&f, 0, dx, 2e-6);
  check_gradient(&f, 1, da, 2e-6);
  check_gradient(&f, 2, db, 2e-6);
  float *all[] = {x, a, b, dy, dx, da, db};
  for (size_t i = 0; i < 7; i++)
    free(all[i]);
}

static void lora_cases(void)
{
  check_lora(1, 5, 7, 1);
  for (int i = 0; i < ROUNDS; i++)
    check_lora(1 + below(30), 1 + below(50), 1 + below(40), 1 + below(16));
}

/* ------------------------------------------------------------------------------------ norms --- */

static double inverse_rms(const double *x, uint32_t n)
{
  double sum = 0;
  for (uint32_t i = 0; i < n; i++)
    sum += x[i] * x[i];
  return 1 / sqrt(sum / n + 1e-6);
}

/* x[T][a], w[a] */
static double norm_loss(const struct forward *f, double *const x[3])
{
  double loss = 0;
  for (uint32_t t = 0; t < f->T; t++) {
    double scale = inverse_rms(x[0] + t * f->a, f->a);
    for (uint32_t i = 0; i < f->a; i++)
      loss += x[0][t * f->a + i] * scale * x[1][i] * (double)f->dy[t * f->a + i];
  }
  return loss;
}

static void check_norm(uint32_t T, uint32_t n)
{
  float *x = drawn((size_t)T * n), *w = drawn(n), *dy = drawn((size_t)T * n);
  float *dx = zeros((size_t)T * n), *dw = zeros(n);
  struct forward f = {
      .in = {x, w}, .n = {(size_t)T * n, n}, .dy = dy, .loss = norm_loss, .T = T, .a = n};
  struct tensor wt = matrix(1, n, w);
  grad->table->norm_back(grad, dx, dw, dy, x, &wt, 1e-6f, T, n);
  check_gradient(&f, 0, dx, 4e-6);
  check_gradient(&f, 1, dw, 4e-6);
  grad->table->norm_back(grad, dx, NULL, dy, x, &wt, 1e-6f, T, n);
  for (size_t i = 0; i < (size_t)T * n; i++)
    dx[i] /= 2;
  check_gradient(&f, 0, dx, 4e-6);
  float *all[] = {x, w, dy, dx, dw};
  for (size_t i = 0; i < 5; i++)
    free(all[i]);
}

static void norm_cases(void)
{
  check_norm(1, 2);
  for (int i = 0; i < ROUNDS; i++)
    check_norm(1 + below(40), 2 + below(90));
}

/* x[T][a heads][b], w[b] or none (c 0), angles in f->turn */
static double norm_rope_loss(const struct forward *f, double *const x[3])
{
  double loss = 0;
  uint32_t half = f->b / 2;
  for (uint32_t t = 0; t < f->T * f->a; t++) {
    const double *v = x[0] + (size_t)t * f->b;
    const float *turn = f->turn + t / f->a * f->b, *dy = f->dy + (size_t)t * f->b;
    double scale = f->c ? inverse_rms(v, f->b) : 1;
    for (uint32_t i = 0; i < half; i++) {
      double p = v[i] * scale * (f->c ? x[1][i] : 1);
      double q = v[half + i] * scale * (f->c ? x[1][half + i] : 1);
      double c = (double)turn[i], s = (double)turn[half + i];
      loss += (p * c - q * s) * (double)dy[i] + (q * c + p * s) * (double)dy[half + i];
    }
  }
  return loss;
}

static void check_norm_rope(uint32_t T, uint32_t heads, uint32_t dim, int with)
{
  size_t n = (size_t)T * heads * dim;
  float *x = drawn(n), *w = drawn(dim), *dy = drawn(n), *d = zeros(n), *dw = zeros(dim);
  float *turn = zeros((size_t)T * dim), *freq = zeros(dim / 2);
  uint32_t *position = calloc(T, sizeof *position);
  ck_assert(position != NULL);
  for (uint32_t i = 0; i < dim / 2; i++)
    freq[i] = powf(1e4f, -2 * (float)i / (float)dim);
  for (uint32_t t = 0; t < T; t++)
    position[t] = below(500);
  grad->table->rotation(grad, turn, freq, position, T, dim);
  struct forward f = {.in = {x, w},
                      .n = {n, dim},
                      .dy = dy,
                      .loss = norm_rope_loss,
                      .T = T,
                      .a = heads,
                      .b = dim,
                      .c = (uint32_t)with,
                      .turn = turn};
  struct tensor wt = matrix(1, dim, with ? w : NULL);
  memcpy(d, dy, n * sizeof *d);
  grad->table->norm_rope_back(grad, d, with ? dw : NULL, x, &wt, 1e-6f, turn, T, heads, dim);
  check_gradient(&f, 0, d, 4e-6);
  if (with)
    check_gradient(&f, 1, dw, 4e-6);
  float *all[] = {x, w, dy, d, dw, turn, freq};
  for (size_t i = 0; i < 7; i++)
    free(all[i]);
  free(position);
}

static void norm_rope_cases(void)
{
  for (int i = 0; i < ROUNDS; i++)
    check_norm_rope(1 + below(20), 1 + below(5), 4 + 2 * below(12), i % 2 == 0);
}

/* -------------------------------------------------------------------------------- attention --- */

/* Sequences of the case under way. */
static struct grad_seq seq[3];
static uint32_t nseq;

static double attend_row(const struct forward *f, double *const x[3], const struct grad_seq *s,
                         uint32_t t, uint32_t head, double *p)
{
  uint32_t kv = head / (f->a / f->b), dim = f->c;
  const double *q = x[0] + ((s->first_row + t) * f->a + head) * dim;
  double sum = 0, loss = 0;
  for (uint32_t k = 0; k <= t; k++) {
    const double *key = x[1] + ((s->first_row + k) * f->b + kv) * dim;
    p[k] = 0;
    for (uint32_t d = 0; d < dim; d++)
      p[k] += q[d] * key[d] / sqrt(dim);
    sum += p[k] = exp(p[k]);
  }
  for (uint32_t k = 0; k <= t; k++)
    for (uint32_t d = 0; d < dim; d++)
      loss += p[k] / sum * x[2][((s->first_row + k) * f->b + kv) * dim + d] *
              (double)f->dy[((s->first_row + t) * f->a + head) * dim + d];
  return loss;
}

/* q[T][a heads][c], k and v [T][b heads][c] */
static double attention_loss(const struct forward *f, double *const x[3])
{
  double p[200], loss = 0;
  for (uint32_t i = 0; i < nseq; i++)
    for (uint32_t t = 0; t < seq[i].rows; t++)
      for (uint32_t head = 0; head < f->a; head++)
        loss += attend_row(f, x, &seq[i], t, head, p);
  return loss;
}

static void check_attention(struct grad_heads h)
{
  uint32_t T = 0;
  for (uint32_t i = 0; i < nseq; i++) {
    seq[i].first_row = T;
    T += seq[i].rows;
  }
  size_t nq = (size_t)T * h.q_heads * h.head_dim, nk = (size_t)T * h.kv_heads * h.head_dim;
  float *q = drawn(nq), *k = drawn(nk), *v = drawn(nk), *dy = drawn(nq), *y = zeros(nq);
  float *lse = zeros((size_t)T * h.q_heads), *dq = drawn(nq), *dk = drawn(nk), *dv = drawn(nk);
  struct forward f = {.in = {q, k, v},
                      .n = {nq, nk, nk},
                      .dy = dy,
                      .loss = attention_loss,
                      .T = T,
                      .a = h.q_heads,
                      .b = h.kv_heads,
                      .c = h.head_dim};
  grad->table->attention(grad, y, lse, q, k, v, seq, nseq, h);
  double want = 0, got = 0;
  for (size_t i = 0; i < nq; i++)
    got += (double)y[i] * (double)dy[i];
  double *x[3] = {calloc(nq, sizeof **x), calloc(nk, sizeof **x), calloc(nk, sizeof **x)};
  for (int j = 0; j < 3; j++)
    for (size_t i = 0; i < f.n[j]; i++)
      x[j][i] = (double)f.in[j][i];
  want = attention_loss(&f, x);
  ck_assert_double_le(fabs(got - want), 1e-5 * sqrt((double)nq));
  grad->table->attention_back(grad, dq, dk, dv, dy, q, k, v, y, lse, seq, nseq, h);
  check_gradient(&f, 0, dq, 5e-6);
  check_gradient(&f, 1, dk, 5e-6);
  check_gradient(&f, 2, dv, 5e-6);
  float *all[] = {q, k, v, dy, y, lse, dq, dk, dv};
  for (size_t i = 0; i < 9; i++)
    free(all[i]);
  for (int j = 0; j < 3; j++)
    free(x[j]);
}

static void attention_cases(void)
{
  nseq = 1;
  seq[0].rows = 1;
  check_attention((struct grad_heads){1, 1, 4});
  seq[0].rows = 70; /* more than one block of rows */
  check_attention((struct grad_heads){2, 1, 6});
  nseq = 3;
  for (uint32_t i = 0; i < 3; i++)
    seq[i].rows = 1 + below(12);
  check_attention((struct grad_heads){6, 2, 10});
}

/* ------------------------------------------------------------------------- the other passes --- */

static double swiglu_loss(const struct forward *f, double *const x[3])
{
  double loss = 0;
  for (uint32_t i = 0; i < f->T; i++)
    loss += x[0][i] / (1 + exp(-x[0][i])) * x[1][i] * (double)f->dy[i];
  return loss;
}

static void swiglu_cases(void)
{
  uint32_t n = 1 + below(300);
  float *gate = drawn(n), *up = drawn(n), *dy = drawn(n), *dgate = zeros(n), *dup = zeros(n);
  struct forward f = {.in = {gate, up}, .n = {n, n}, .dy = dy, .loss = swiglu_loss, .T = n};
  grad->table->swiglu_back(grad, dgate, dup, dy, gate, up, n);
  check_gradient(&f, 0, dgate, 2e-6);
  check_gradient(&f, 1, dup, 2e-6);
  /* Far out the derivative is 0 or 1, not a number that overflowed. */
  float far[2] = {-200, 200}, one[2] = {1, 1};
  grad->table->swiglu_back(grad, dgate, dup, one, far, one, 2);
  ck_assert(fabsf(dgate[0]) < 1e-30f && dgate[1] == 1);
  ck_assert(fabsf(dup[0]) < 1e-30f && dup[1] == 200);
  float *all[] = {gate, up, dy, dgate, dup};
  for (size_t i = 0; i < 5; i++)
    free(all[i]);
}

static const int32_t *targets;

/* logits[T][a]; the loss is not weighed */
static double entropy_loss(const struct forward *f, double *const x[3])
{
  double loss = 0;
  for (uint32_t t = 0; t < f->T; t++) {
    double sum = 0;
    if (targets[t] < 0)
      continue;
    for (uint32_t i = 0; i < f->a; i++)
      sum += exp(x[0][t * f->a + i]);
    loss += log(sum) - x[0][t * f->a + (uint32_t)targets[t]];
  }
  return loss;
}

static void entropy_cases(void)
{
  uint32_t T = 9, vocab = 33 + below(30);
  float *logits = drawn((size_t)T * vocab), *d = zeros((size_t)T * vocab), *loss = zeros(T);
  int32_t target[9];
  for (uint32_t t = 0; t < T; t++)
    target[t] = t % 3 == 1 ? -1 : (int32_t)below(vocab);
  targets = target;
  struct forward f = {
      .in = {logits}, .n = {(size_t)T * vocab}, .loss = entropy_loss, .T = T, .a = vocab};
  grad->table->cross_entropy(grad, loss, d, logits, target, T, vocab);
  check_gradient(&f, 0, d, 2e-6);
  double sum = 0, *x[3] = {calloc((size_t)T * vocab, sizeof(double)), NULL, NULL};
  for (uint32_t t = 0; t < T; t++)
    sum += (double)loss[t];
  for (size_t i = 0; i < (size_t)T * vocab; i++)
    x[0][i] = (double)logits[i];
  ck_assert_double_eq_tol(sum, entropy_loss(&f, x), 1e-5);
  ck_assert(loss[1] == 0 && d[vocab] == 0);
  free(x[0]);
  free(logits);
  free(d);
  free(loss);
}

static void embed_cases(void)
{
  const int32_t token[4] = {2, 0, 2, 1};
  float table[3 * 5] = {0}, dy[4 * 5];
  draw(dy, 20);
  grad->table->embed_back(grad, table, dy, token, 4, 5);
  for (int i = 0; i < 5; i++) {
    ck_assert(table[i] == dy[5 + i] && table[5 + i] == dy[15 + i]);
    ck_assert(table[10 + i] == dy[i] + dy[10 + i]);
  }
}

/* -------------------------------------------------------------------------------- all paths --- */

static void (*const cases[])(void) = {linear_cases,    lora_cases,   norm_cases,    norm_rope_cases,
                                      attention_cases, swiglu_cases, entropy_cases, embed_cases};
enum { CASES = sizeof cases / sizeof cases[0] };

START_TEST(backward_is_the_derivative)
{
  const char *const *paths = cpu_ops_paths(TENSOR_F32);
  for (int i = 0; paths[i]; i++) {
    open_stage(paths[i], 1 + i);
    cases[_i]();
    close_stage();
  }
}
END_TEST

int main(void)
{
  Suite *s = suite_create("grad");
  TCase *c = tcase_create("grad");
  tcase_set_timeout(c, 60);
  tcase_add_loop_test(c, backward_is_the_derivative, 0, CASES);
  suite_add_tcase(s, c);
  return suite_run(s);
}
