/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How tokens are chosen, and their log-probabilities, on every kernel path. */
#include <gsl/gsl_cdf.h>

#include "tests/ops_fixture.h"

enum { MAX_VOCAB = 5000 };

static int32_t one_token(struct ops *o, const float *logit, struct ops_sample how, uint32_t vocab)
{
  int32_t token = -1;
  o->table->sample(o, logit, &how, 1, vocab, &token, NULL);
  ck_assert_int_ge(token, 0);
  ck_assert_int_lt(token, (int)vocab);
  return token;
}

START_TEST(greedy_takes_the_first_of_the_largest)
{
  struct ops *o = variant_ops(_i, 1);
  const struct ops_sample greedy = {.temperature = 0, .top_p = 1};
  for (uint32_t vocab = 1; vocab < 300; vocab += 7) {
    float *x = numbers(o, vocab, 5);
    const uint32_t first = below(vocab), again = first + below(vocab - first);
    x[first] = x[again] = 9;
    ck_assert_int_eq(one_token(o, x, greedy, vocab), (int)first);
  }
  float zero[] = {-1, -0.f, 0.f, -3}, nan[] = {NAN, NAN, 1, 2, NAN}, all_nan[] = {NAN, NAN};
  float inf[] = {1, INFINITY, INFINITY}, low[] = {-INFINITY, -INFINITY};
  ck_assert_int_eq(one_token(o, zero, greedy, 4), 1);
  ck_assert_int_eq(one_token(o, nan, greedy, 5), 3);
  ck_assert_int_eq(one_token(o, all_nan, greedy, 2), 0);
  ck_assert_int_eq(one_token(o, inf, greedy, 3), 1);
  ck_assert_int_eq(one_token(o, low, greedy, 2), 0);
  give_all();
  cpu_ops_destroy(o);
}
END_TEST

/* Logits that are no numbers do not win, whatever is asked for. */
START_TEST(strange_logits_are_survived)
{
  struct ops *o = variant_ops(_i, 1);
  const float x[] = {NAN, 1, -INFINITY, 2, NAN}, inf[] = {1, INFINITY, 2}, none[] = {NAN, NAN};
  for (uint32_t i = 0; i < 40; i++) {
    const struct ops_sample how = {1, i % 2 ? 1 : 0.5f, i % 4 / 2 * 3, i, 1, i};
    const int32_t t = one_token(o, x, how, 5);
    ck_assert(t == 1 || t == 3);
    ck_assert_int_eq(one_token(o, inf, how, 3), 1);
    one_token(o, none, how, 2);
  }
  cpu_ops_destroy(o);
}
END_TEST

/* All the noise there is, with the C library's logarithm: the token with the largest score. */
static int32_t by_gumbel(const float *logit, const struct ops_sample *h, uint32_t vocab,
                         double *gap)
{
  const uint32_t key[2] = {(uint32_t)h->seed, (uint32_t)(h->seed >> 32)};
  double best = -INFINITY, second = -INFINITY;
  int32_t token = -1;
  for (uint32_t i = 0; i < vocab; i++) {
    const uint32_t c[4] = {i / 4, h->position, (uint32_t)h->key, (uint32_t)(h->key >> 32)};
    uint32_t word[4];
    base_philox4x32(c, key, word);
    const double x = logit[i] / (double)h->temperature - log(-log((word[i % 4] + 0.5) * 0x1p-32));
    if (x > best) {
      second = best;
      best = x;
      token = (int32_t)i;
    } else if (x > second) {
      second = x;
    }
  }
  *gap = best - second;
  return token;
}

START_TEST(no_noise_that_could_win_is_left_out)
{
  struct ops *o = variant_ops(_i, 1);
  for (uint32_t turn = 0; turn < 60; turn++) {
    const uint32_t vocab = 1 + below(MAX_VOCAB);
    const float *x = numbers(o, vocab, (float)(turn % 20));
    const struct ops_sample how = {.temperature = 0.1f + 0.1f * (float)(turn % 17),
                                   .top_p = 1,
                                   .seed = (uint64_t)draw() << 32 | turn,
                                   .key = (uint64_t)draw() << 32 | draw(),
                                   .position = draw()};
    double gap;
    const int32_t want = by_gumbel(x, &how, vocab, &gap);
    if (gap > 1e-12)
      ck_assert_int_eq(one_token(o, x, how, vocab), want);
    give_all();
  }
  cpu_ops_destroy(o);
}
END_TEST

/* Chi-square of n draws against probabilities; those of 0 must not appear. */
static void follows(struct ops *o, const float *logit, uint32_t vocab, struct ops_sample how,
                    const double *p)
{
  enum { DRAWS = 20000, BATCH = 100 };
  uint32_t count[64] = {0};
  float *x = take((size_t)BATCH * vocab * sizeof *x);
  struct ops_sample each[BATCH];
  int32_t token[BATCH];
  for (uint32_t i = 0; i < BATCH; i++)
    memcpy(x + (size_t)i * vocab, logit, vocab * sizeof *x);
  for (uint32_t at = 0; at < DRAWS; at += BATCH) {
    for (uint32_t i = 0; i < BATCH; i++) {
      each[i] = how;
      each[i].position = (at + i) % 500;
      each[i].key = (at + i) / 500;
    }
    o->table->sample(o, x, each, BATCH, vocab, token, NULL);
    for (uint32_t i = 0; i < BATCH; i++)
      count[token[i]]++;
  }
  double chi = 0;
  int degrees = -1;
  for (uint32_t i = 0; i < vocab; i++) {
    if (p[i] == 0) {
      ck_assert_uint_eq(count[i], 0);
      continue;
    }
    chi += (count[i] - DRAWS * p[i]) * (count[i] - DRAWS * p[i]) / (DRAWS * p[i]);
    degrees++;
  }
  if (degrees > 0)
    ck_assert_double_gt(gsl_cdf_chisq_Q(chi, degrees), 1e-4);
}

/* What is left by sorting, and its probabilities. */
static void left_by_sorting(const float *logit, uint32_t vocab, const struct ops_sample *h,
                            double *p)
{
  uint32_t id[64], n = vocab;
  double total = 0, sum = 0;
  for (uint32_t i = 0; i < vocab; i++) {
    uint32_t j = i;
    for (; j > 0 && logit[id[j - 1]] < logit[i]; j--)
      id[j] = id[j - 1];
    id[j] = i;
  }
  if (h->top_k && h->top_k < n)
    n = h->top_k;
  for (uint32_t i = 0; i < n; i++)
    total += p[id[i]] = exp(logit[id[i]] / (double)h->temperature);
  uint32_t kept = 0;
  while (kept < n && (kept == 0 || sum < total * (double)h->top_p))
    sum += p[id[kept++]];
  for (uint32_t i = kept; i < vocab; i++)
    p[id[i]] = 0;
  for (uint32_t i = 0; i < kept; i++)
    p[id[i]] /= sum;
}

START_TEST(tokens_follow_the_distribution)
{
  static const struct ops_sample hows[] = {
      {1, 1, 0, 1, 0, 0},         {0.5f, 1, 0, 2, 0, 0}, {2, 1, 0, 3, 0, 0},
      {1, 1, 5, 4, 0, 0},         {1, 0.7f, 0, 5, 0, 0}, {1.3f, 0.6f, 9, 6, 0, 0},
      {1, 0.001f, 0, 7, 0, 0},    {1, 1, 1, 8, 0, 0},    {0.8f, 0.95f, 100, 9, 0, 0},
      {1, 0, 0, 1ull << 40, 0, 0}};
  struct ops *o = variant_ops(_i, 2);
  for (size_t i = 0; i < sizeof hows / sizeof hows[0]; i++) {
    double p[64];
    const uint32_t vocab = 20;
    float *x = numbers(o, vocab, 2);
    x[3] = x[11] = x[12] = x[19] = 1; /* equals, some of which top-k and top-p part */
    left_by_sorting(x, vocab, &hows[i], p);
    follows(o, x, vocab, hows[i], p);
    give_all();
  }
  cpu_ops_destroy(o);
}
END_TEST

/* All logits equal: of those that are left the lowest ids. */
START_TEST(equals_are_left_from_the_lowest_id_on)
{
  struct ops *o = variant_ops(_i, 1);
  const float *x = zeros(1000);
  for (uint32_t i = 0; i < 300; i++) {
    const struct ops_sample k = {1, 1, 5, 1, 1, i}, p = {1, 0.01f, 0, 1, 1, i};
    ck_assert_int_lt(one_token(o, x, k, 1000), 5);
    ck_assert_int_lt(one_token(o, x, p, 1000), 10 + 1);
  }
  give_all();
  cpu_ops_destroy(o);
}
END_TEST

/* Alone and in a batch; with 1 to 3 threads; where everything is left, as where nothing is cut. */
START_TEST(a_token_depends_on_its_row_alone)
{
  enum { T = 40, VOCAB = 1500 };
  struct ops *one = variant_ops(_i, 1);
  for (int threads = 1; threads <= 3; threads++) {
    struct ops *o = variant_ops(_i, threads);
    const float *x = numbers(o, T * VOCAB, 4);
    struct ops_sample how[T];
    int32_t token[T], alone;
    float logprob[T], other;
    for (uint32_t i = 0; i < T; i++)
      how[i] = (struct ops_sample){
          (float)(i % 4) * 0.5f, i % 3 ? 1 : 0.9f, i % 5 ? 0 : 50, 11, i, 7 * i};
    o->table->sample(o, x, how, T, VOCAB, token, logprob);
    for (uint32_t i = 0; i < T; i++) {
      one->table->sample(one, x + i * VOCAB, &how[i], 1, VOCAB, &alone, &other);
      ck_assert_int_eq(alone, token[i]);
      assert_same_bits(&other, &logprob[i], 1);
      struct ops_sample uncut = how[i], whole = how[i];
      uncut.top_k = 0;
      uncut.top_p = 1;
      whole.top_k = VOCAB - 1;
      whole.top_p = 0.9999999f;
      ck_assert_int_eq(one_token(o, x + i * VOCAB, uncut, VOCAB),
                       one_token(o, x + i * VOCAB, whole, VOCAB));
    }
    o->table->sample(o, x, how, 0, VOCAB, token, NULL);
    give_all();
    cpu_ops_destroy(o);
  }
  cpu_ops_destroy(one);
}
END_TEST

/* Seed, key and position all matter. */
START_TEST(noise_has_three_keys)
{
  struct ops *o = variant_ops(_i, 1);
  const float *x = zeros(1000);
  const struct ops_sample base = {1, 1, 0, 5, 6, 7};
  const int32_t first = one_token(o, x, base, 1000);
  int same[3] = {0};
  for (uint32_t i = 1; i <= 20; i++) {
    struct ops_sample a = base, b = base, c = base;
    a.seed += (uint64_t)i << 32;
    b.key += (uint64_t)i << 32;
    c.position += i;
    same[0] += one_token(o, x, a, 1000) == first;
    same[1] += one_token(o, x, b, 1000) == first;
    same[2] += one_token(o, x, c, 1000) == first;
  }
  ck_assert(same[0] < 3 && same[1] < 3 && same[2] < 3);
  ck_assert_int_eq(one_token(o, x, base, 1000), first);
  give_all();
  cpu_ops_destroy(o);
}
END_TEST

START_TEST(log_probabilities)
{
  struct ops *o = variant_ops(_i, 2);
  for (int turn = 0; turn < 20; turn++) {
    const uint32_t T = 1 + below(5), vocab = turn == 0 ? 1 : 1 + below(MAX_VOCAB);
    const float *x = numbers(o, (size_t)T * vocab, turn % 2 ? 3 : 60);
    int32_t target[5], token[5];
    float got[5], sampled[5];
    struct ops_sample how[5];
    for (uint32_t t = 0; t < T; t++) {
      target[t] = (int32_t)below(vocab);
      how[t] = (struct ops_sample){t % 2 ? 2 : 0, 1, 3, 1, t, 1};
    }
    o->table->logprobs(o, x, target, T, vocab, got);
    o->table->sample(o, x, how, T, vocab, token, sampled);
    for (uint32_t t = 0; t < T; t++) {
      const float *row = x + (size_t)t * vocab;
      double sum = 0;
      for (uint32_t i = 0; i < vocab; i++)
        sum += exp((double)row[i] - 60);
      const double lse = 60 + log(sum);
      assert_near(got[t], row[target[t]] - lse, 2e-6 * (1 + fabs((double)got[t])), o->path);
      assert_near(sampled[t], row[token[t]] - lse, 2e-6 * (1 + fabs((double)sampled[t])), o->path);
    }
    give_all();
  }
  cpu_ops_destroy(o);
}
END_TEST

int main(void)
{
  const int n = variants();
  TCase *tc = tcase_create("sample");
  tcase_set_timeout(tc, 120);
  tcase_add_loop_test(tc, greedy_takes_the_first_of_the_largest, 0, n);
  tcase_add_loop_test(tc, strange_logits_are_survived, 0, n);
  tcase_add_loop_test(tc, no_noise_that_could_win_is_left_out, 0, n);
  tcase_add_loop_test(tc, tokens_follow_the_distribution, 0, n);
  tcase_add_loop_test(tc, equals_are_left_from_the_lowest_id_on, 0, n);
  tcase_add_loop_test(tc, a_token_depends_on_its_row_alone, 0, n);
  tcase_add_loop_test(tc, noise_has_three_keys, 0, n);
  tcase_add_loop_test(tc, log_probabilities, 0, n);
  Suite *s = suite_create("ops_sample");
  suite_add_tcase(s, tc);
  return suite_run(s);
}
