/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Keys and values in pages, and attention to them, on every kernel path: against a reference in
 * double precision, and bit for bit against the same sequence cut into chunks and rows, on other
 * pages, beside other sequences, with other numbers of threads.
 */
#include "tests/ops_fixture.h"

struct shape {
  uint32_t kv_heads, group, dim, block;
};

/* Some sequences with their rows of q, k and v, and pages that hold them. */
enum { SEQS = 3, MAX_TOKENS = 210, MAX_PAGES = 3 * MAX_TOKENS + 8 };

struct world {
  struct shape s;
  struct ops_kv kv;
  uint32_t tokens[SEQS];
  float *q[SEQS], *k[SEQS], *v[SEQS];
  int32_t page[SEQS][MAX_TOKENS + 1];
};

static const uint32_t layer = 1;

static uint32_t q_width(const struct world *w)
{
  return w->s.kv_heads * w->s.group * w->s.dim;
}

static uint32_t kv_width(const struct world *w)
{
  return w->s.kv_heads * w->s.dim;
}

/* Pages in random order, all of them spoiled. */
static void new_pages(struct world *w)
{
  int32_t all[MAX_PAGES];
  const int n = (int)w->kv.pages;
  for (int i = 0; i < n; i++)
    all[i] = i;
  for (int i = n - 1; i > 0; i--) {
    const int j = (int)below((uint32_t)i + 1), t = all[i];
    all[i] = all[j];
    all[j] = t;
  }
  int next = 0;
  for (int s = 0; s < SEQS; s++)
    for (uint32_t b = 0; b * w->s.block < w->tokens[s]; b++)
      w->page[s][b] = all[next++];
  memset(w->kv.base, 0xff, (size_t)n * 2 * 2 * w->s.block * kv_width(w) * 4);
}

static struct world new_world(struct ops *o, struct shape s, int kv_dtype)
{
  struct world w = {.s = s};
  const uint32_t pages = 3 * (MAX_TOKENS / s.block + 1) + 5;
  w.kv = (struct ops_kv){take((size_t)pages * 2 * 2 * s.block * s.kv_heads * s.dim * 4),
                         kv_dtype,
                         pages,
                         2,
                         s.block,
                         s.kv_heads,
                         s.dim};
  for (int i = 0; i < SEQS; i++) {
    w.tokens[i] = i == 0 ? MAX_TOKENS : 1 + below(100);
    w.q[i] = numbers(o, (size_t)w.tokens[i] * q_width(&w), 3);
    w.k[i] = numbers(o, (size_t)w.tokens[i] * kv_width(&w), 3);
    w.v[i] = numbers(o, (size_t)w.tokens[i] * kv_width(&w), 3);
  }
  new_pages(&w);
  return w;
}

/* The next tokens of some sequences as one batch; results go to each sequence's y. */
static void step(struct ops *o, struct world *w, const uint32_t *start, const uint32_t *rows,
                 float **y)
{
  const uint32_t qn = q_width(w), kn = kv_width(w);
  struct ops_seq seq[SEQS];
  uint32_t n = 0;
  const int first = (int)below(SEQS);
  uint32_t all = 0;
  for (int i = 0; i < SEQS; i++)
    all += rows[i];
  float *q = take((size_t)all * qn * sizeof *q), *out = zeros((size_t)all * qn);
  float *k = take((size_t)all * kn * sizeof *k), *v = take((size_t)all * kn * sizeof *v);
  for (int i = 0; i < SEQS; i++) {
    const int s = (first + i) % SEQS;
    seq[i] = (struct ops_seq){n, rows[s], start[s], w->page[s]};
    memcpy(q + (size_t)n * qn, w->q[s] + (size_t)start[s] * qn, (size_t)rows[s] * qn * sizeof *q);
    memcpy(k + (size_t)n * kn, w->k[s] + (size_t)start[s] * kn, (size_t)rows[s] * kn * sizeof *k);
    memcpy(v + (size_t)n * kn, w->v[s] + (size_t)start[s] * kn, (size_t)rows[s] * kn * sizeof *v);
    n += rows[s];
  }
  o->table->kv_write(o, &w->kv, layer, k, v, seq, SEQS);
  o->table->attention(o, out, q, &w->kv, layer, seq, SEQS, w->s.kv_heads * w->s.group);
  for (int i = 0; i < SEQS; i++) {
    const int s = (first + i) % SEQS;
    memcpy(y[s] + (size_t)start[s] * qn, out + (size_t)seq[i].first_row * qn,
           (size_t)rows[s] * qn * sizeof *out);
  }
  free(taken.p[--taken.n]);
  free(taken.p[--taken.n]);
  free(taken.p[--taken.n]);
  free(taken.p[--taken.n]);
}

static void all_at_once(struct ops *o, struct world *w, float **y)
{
  const uint32_t start[SEQS] = {0};
  for (int s = 0; s < SEQS; s++)
    y[s] = zeros((size_t)w->tokens[s] * q_width(w));
  step(o, w, start, w->tokens, y);
}

/* Chunks of random lengths, single rows among them. */
static void in_pieces(struct ops *o, struct world *w, float **y)
{
  uint32_t start[SEQS] = {0}, rows[SEQS], left;
  for (int s = 0; s < SEQS; s++)
    y[s] = zeros((size_t)w->tokens[s] * q_width(w));
  do {
    left = 0;
    for (int s = 0; s < SEQS; s++) {
      const uint32_t rest = w->tokens[s] - start[s], most = below(3) ? 40 : 2;
      rows[s] = below(most);
      rows[s] = rows[s] < rest ? rows[s] : rest;
    }
    step(o, w, start, rows, y);
    for (int s = 0; s < SEQS; s++) {
      start[s] += rows[s];
      left += w->tokens[s] - start[s];
    }
  } while (left);
}

static double kv_value(const struct world *w, float x)
{
  return w->kv.dtype == TENSOR_BF16 ? bf16_to_f32(bf16_from_f32(x)) : x;
}

/* One row and head; to want[dim]. Returns the largest magnitude of a value. */
static double reference(const struct world *w, int s, uint32_t t, uint32_t head, double *want)
{
  const uint32_t dim = w->s.dim, kn = kv_width(w), at = head / w->s.group * dim;
  const float *q = w->q[s] + (size_t)t * q_width(w) + (size_t)head * dim;
  double p[MAX_TOKENS], max = -INFINITY, sum = 0, size = 0;
  for (uint32_t i = 0; i <= t; i++) {
    p[i] = 0;
    for (uint32_t d = 0; d < dim; d++)
      p[i] += (double)q[d] * kv_value(w, w->k[s][(size_t)i * kn + at + d]);
    p[i] /= sqrt(dim);
    max = fmax(max, p[i]);
  }
  for (uint32_t i = 0; i <= t; i++)
    sum += p[i] = exp(p[i] - max);
  for (uint32_t d = 0; d < dim; d++)
    want[d] = 0;
  for (uint32_t i = 0; i <= t; i++)
    for (uint32_t d = 0; d < dim; d++) {
      const double v = kv_value(w, w->v[s][(size_t)i * kn + at + d]);
      want[d] += p[i] / sum * v;
      size = fmax(size, fabs(v));
    }
  return size;
}

static void check_values(struct ops *o, const struct world *w, float **y)
{
  double want[256];
  for (int s = 0; s < SEQS; s++)
    for (uint32_t t = 0; t < w->tokens[s]; t += t < 70 ? 1 : 9)
      for (uint32_t h = 0; h < w->s.kv_heads * w->s.group; h++) {
        const double size = reference(w, s, t, h, want);
        for (uint32_t d = 0; d < w->s.dim; d++) {
          const float got = y[s][((size_t)t * w->s.kv_heads * w->s.group + h) * w->s.dim + d];
          assert_near(got, want[d], size * 2e-5 + bf16_half(o, want[d]), o->path);
        }
      }
}

static const struct shape shapes[] = {{2, 1, 32, 16},  {1, 2, 64, 8},   {3, 4, 16, 16},
                                      {1, 8, 128, 32}, {2, 3, 48, 128}, {1, 1, 20, 1}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

START_TEST(attention_is_the_weighted_mean)
{
  struct ops *o = variant_ops(_i, 1);
  for (int i = 0; i < SHAPES; i++)
    for (int kv_dtype = 0; kv_dtype < 2; kv_dtype++) {
      float *y[SEQS];
      struct world w = new_world(o, shapes[i], kv_dtype);
      all_at_once(o, &w, y);
      check_values(o, &w, y);
      give_all();
    }
  cpu_ops_destroy(o);
}
END_TEST

START_TEST(bits_do_not_depend_on_chunks_pages_threads)
{
  struct ops *one = variant_ops(_i, 1);
  for (int i = 0; i < SHAPES; i++) {
    float *want[SEQS], *y[SEQS];
    struct world w = new_world(one, shapes[i], variant(_i).dtype);
    all_at_once(one, &w, want);
    for (int threads = 1; threads <= 3; threads++) {
      struct ops *o = variant_ops(_i, threads);
      for (int turn = 0; turn < 2; turn++) {
        new_pages(&w);
        in_pieces(o, &w, y);
        for (int s = 0; s < SEQS; s++)
          assert_same_bits(y[s], want[s], (size_t)w.tokens[s] * q_width(&w));
      }
      cpu_ops_destroy(o);
    }
    give_all();
  }
  cpu_ops_destroy(one);
}
END_TEST

/* Keys so far apart that weights underflow, and one that outweighs all that came before. */
START_TEST(scores_of_any_size)
{
  struct ops *o = variant_ops(_i, 1);
  struct world w = new_world(o, shapes[0], variant(_i).dtype);
  float *y[SEQS];
  for (uint32_t i = 0; i < w.tokens[0] * kv_width(&w); i++)
    w.k[0][i] = (float)rounded(o, w.k[0][i] * 30);
  all_at_once(o, &w, y);
  for (uint32_t i = 0; i < w.tokens[0] * q_width(&w); i++)
    assert_near(y[0][i], 0, 3.02, o->path);
  give_all();
  cpu_ops_destroy(o);
}
END_TEST

START_TEST(pages_have_the_stated_layout)
{
  struct ops *o = variant_ops(_i, 1);
  const struct shape s = {2, 1, 4, 4};
  float k[7 * 8], v[7 * 8], base[3 * 2 * 2 * 4 * 8] = {0};
  const struct ops_kv kv = {base, TENSOR_F32, 3, 2, s.block, s.kv_heads, s.dim};
  const int32_t page[] = {2, 0};
  const struct ops_seq seq = {1, 5, 2, page};
  for (int i = 0; i < 7 * 8; i++) {
    k[i] = (float)i;
    v[i] = (float)-i;
  }
  o->table->kv_write(o, &kv, 1, k, v, &seq, 1);
  for (uint32_t t = 0; t < 5; t++) {
    const uint32_t pos = 2 + t, block = (uint32_t)page[pos / 4];
    const float *at = base + ((block * 2 + 1) * 2) * 4 * 8 + pos % 4 * 8;
    assert_same_bits(at, k + (1 + t) * 8, 8);
    assert_same_bits(at + 4 * 8, v + (1 + t) * 8, 8);
  }
  float sum = 0;
  for (size_t i = 0; i < sizeof base / sizeof base[0]; i++)
    sum += base[i] != 0;
  ck_assert_float_eq(sum, 5 * 16);
  cpu_ops_destroy(o);
}
END_TEST

int main(void)
{
  const int n = variants();
  TCase *tc = tcase_create("attention");
  tcase_set_timeout(tc, 120);
  tcase_add_loop_test(tc, attention_is_the_weighted_mean, 0, n);
  tcase_add_loop_test(tc, bits_do_not_depend_on_chunks_pages_threads, 0, n);
  tcase_add_loop_test(tc, scores_of_any_size, 0, n);
  tcase_add_loop_test(tc, pages_have_the_stated_layout, 0, n);
  Suite *s = suite_create("ops_attention");
  suite_add_tcase(s, tc);
  return suite_run(s);
}
