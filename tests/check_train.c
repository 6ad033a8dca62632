/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The trainer: that it learns, that bits do not depend on threads, that a stop changes nothing. */
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/engine.h"
#include "base/error.h"
#include "tests/scratch.h"
#include "tests/suite.h"
#include "tests/train_fixture.h"

/* ------------------------------------------------------------------------------- sequences ---- */

enum { N = 14, SEQS = 5 };

/* A rule that can be learnt: each token is the one before plus 3, of 40. */
struct rows {
  int32_t token[SEQS][N];
  struct trainer_seq seq[SEQS];
};

static void fill(struct rows *r, int32_t first, int32_t by)
{
  for (int s = 0; s < SEQS; s++) {
    for (int i = 0; i < N; i++)
      r->token[s][i] = (first + s * 7 + i * by) % 40;
    r->seq[s] = (struct trainer_seq){r->token[s], NULL, (uint32_t)(N - s)};
  }
}

static struct trainer_options options(void)
{
  struct trainer_options o = trainer_defaults(SEQS * N);
  o.max_seq_tokens = N;
  return o;
}

static struct stage open_full(int dtype, int threads, const char *path)
{
  struct config c = stage_config();
  struct trainer_options o = options();
  return stage_open(stage_weights(&c, 5, dtype), NULL, dtype, threads, path, &o);
}

static struct adapter *fresh_adapter(const struct weights *w, int dtype)
{
  struct base_error e = {0};
  unsigned targets = 1u << LORA_Q | 1u << LORA_V | 1u << LORA_GATE | 1u << LORA_DOWN;
  struct adapter *a = adapter_random(&w->config, 4, 8, targets, 3, dtype, &e);
  ck_assert_msg(a != NULL, "%s", e.text);
  return a;
}

static double loss_of(struct stage *s, const struct trainer_seq *seq, uint32_t n)
{
  struct base_error e = {0};
  struct trainer_loss loss;
  ck_assert_msg(trainer_loss(s->t, seq, n, &loss, &e) == 0, "%s", e.text);
  return loss.sum / (double)loss.tokens;
}

/* All bits of what is trained, after each other. */
struct bits {
  size_t n;
  unsigned char byte[200000];
};

static int collect(void *ctx, const char *name, struct tensor *t)
{
  struct bits *b = ctx;
  size_t n = tensor_bytes(t);
  ck_assert_uint_le(b->n + n, sizeof b->byte);
  memcpy(b->byte + b->n, t->data, n);
  b->n += n;
  return 0;
}

static struct bits *bits_of(struct stage *s)
{
  struct bits *b = calloc(1, sizeof *b);
  ck_assert(b != NULL);
  if (!s->a)
    weights_visit(s->w, collect, b);
  for (size_t i = 0; s->a && i < (size_t)s->a->layers * LORA_TARGETS; i++)
    if (s->a->pair[i].a.data) {
      collect(b, "", &s->a->pair[i].a);
      collect(b, "", &s->a->pair[i].b);
    }
  return b;
}

static void check_same(struct bits *a, struct bits *b)
{
  ck_assert_uint_eq(a->n, b->n);
  ck_assert_mem_eq(a->byte, b->byte, a->n);
}

/* -------------------------------------------------------------------------------- learning ---- */

START_TEST(one_sequence_is_learnt_by_heart)
{
  static const int dtype[] = {TENSOR_F32, TENSOR_BF16};
  static const int32_t token[N] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7};
  struct trainer_seq seq = {token, NULL, N};
  struct stage s = open_full(dtype[_i], 1, NULL);
  ck_assert_double_gt(loss_of(&s, &seq, 1), 3);
  for (int i = 0; i < 150; i++) {
    stage_micro(&s, &seq, 1);
    stage_step(&s, 0.01f);
  }
  ck_assert_double_lt(loss_of(&s, &seq, 1), 0.01);
  ck_assert_uint_eq(trainer_steps(s.t), 150);
  stage_close(&s);
}
END_TEST

/* An adapter on a frozen model: what it learns holds for sequences that it did not see. */
START_TEST(lora_learns_a_rule)
{
  static const int dtype[] = {TENSOR_F32, TENSOR_BF16};
  struct config c = stage_config();
  struct trainer_options o = options();
  struct weights *w = stage_weights(&c, 5, dtype[_i]);
  struct stage base = stage_open(w, NULL, dtype[_i], 1, NULL, &o);
  struct rows up, down, held;
  fill(&held, 11, 37);
  for (int i = 0; i < 60; i++) {
    fill(&up, i, 3);
    stage_micro(&base, up.seq, SEQS);
    stage_step(&base, 0.01f);
  }
  double before = loss_of(&base, held.seq, SEQS);
  struct bits *frozen = bits_of(&base);
  struct stage s = stage_open(w, fresh_adapter(w, dtype[_i]), dtype[_i], 1, NULL, &o);
  ck_assert_double_eq_tol(loss_of(&s, held.seq, SEQS), before, 1e-6);
  for (int i = 0; i < 100; i++) {
    fill(&down, i % 11 + 12, 37);
    stage_micro(&s, down.seq, SEQS);
    stage_step(&s, 0.02f);
  }
  ck_assert_double_lt(loss_of(&s, held.seq, SEQS), before / 3);
  struct bits *after = bits_of(&base);
  check_same(frozen, after);
  free(frozen);
  free(after);
  s.w = NULL;
  stage_close(&s);
  stage_close(&base);
}
END_TEST

/* What the trainer minimises is what the engine says of tokens. */
START_TEST(the_engine_agrees)
{
  struct base_error e = {0};
  struct stage s = open_full(TENSOR_F32, 1, NULL);
  struct rows r;
  fill(&r, 2, 3);
  for (int i = 0; i < 20; i++) {
    stage_micro(&s, r.seq, SEQS);
    stage_step(&s, 0.01f);
  }
  struct engine_options o = {.block_tokens = 4,
                             .pages = 16,
                             .host_pages = 1,
                             .max_tokens = 32,
                             .max_seqs = 1,
                             .adapters = 1};
  struct engine *en = engine_create(s.w, s.ops, &o, &e);
  ck_assert_msg(en != NULL, "%s", e.text);
  struct engine_request q = {.prompt = r.token[0],
                             .prompt_tokens = 5,
                             .max_tokens = 8,
                             .how = {.top_p = 1},
                             .adapter = -1};
  ck_assert(engine_begin(en, 0, &q, &e) == 0);
  double sum = 0;
  struct engine_chunk chunk = {0, 0, 5};
  int32_t row = 0;
  for (uint32_t i = 0; i < 8; i++) {
    struct engine_token out;
    struct engine_step step = {
        .chunk = &chunk, .chunks = i == 0, .row = &row, .rows = i > 0, .out = &out};
    ck_assert(engine_step(en, &step, &e) == 0);
    sum -= (double)out.logprob;
  }
  uint32_t n;
  const uint8_t counted[13] = {0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
  struct trainer_seq seq = {engine_tokens(en, 0, &n), counted, 13};
  ck_assert_uint_eq(n, 13);
  ck_assert_double_eq_tol(loss_of(&s, &seq, 1) * 8, sum, 1e-4);
  engine_destroy(en);
  stage_close(&s);
}
END_TEST

/* ------------------------------------------------------------------------------------ bits ---- */

static struct bits *after_steps(int dtype, int threads, const char *path, int recompute, int lora)
{
  struct config c = stage_config();
  struct trainer_options o = options();
  o.recompute = recompute;
  struct weights *w = stage_weights(&c, 5, dtype);
  struct stage s = stage_open(w, lora ? fresh_adapter(w, dtype) : NULL, dtype, threads, path, &o);
  struct rows r;
  for (int i = 0; i < 2; i++) {
    fill(&r, i, 3);
    stage_micro(&s, r.seq, 3);
    stage_micro(&s, r.seq + 3, 2);
    stage_step(&s, 0.01f);
  }
  struct bits *b = bits_of(&s);
  stage_close(&s);
  return b;
}

/* Twice with one thread, with 2 and 3, and with layers computed once more: the same bits. */
START_TEST(bits_do_not_depend_on_threads)
{
  int dtype = _i % 2 ? TENSOR_BF16 : TENSOR_F32, lora = _i / 2;
  const char *const *path = cpu_ops_paths(dtype);
  for (; *path; path++) {
    struct bits *first = after_steps(dtype, 1, *path, 0, lora);
    for (int k = 0; k < 4; k++) {
      struct bits *again = after_steps(dtype, k < 3 ? k + 1 : 2, *path, k == 3, lora);
      check_same(first, again);
      free(again);
    }
    free(first);
  }
}
END_TEST

START_TEST(micro_batches_add_up)
{
  struct rows r;
  fill(&r, 1, 3);
  struct stage one = open_full(TENSOR_F32, 1, NULL), two = open_full(TENSOR_F32, 1, NULL);
  struct trainer_loss all = stage_micro(&one, r.seq, SEQS), a = stage_micro(&two, r.seq, 2),
                      b = stage_micro(&two, r.seq + 2, SEQS - 2);
  ck_assert_uint_eq(all.tokens, (N - 1) + (N - 2) + (N - 3) + (N - 4) + (N - 5));
  ck_assert_uint_eq(all.tokens, a.tokens + b.tokens);
  ck_assert_double_eq_tol(all.sum, a.sum + b.sum, 1e-4);
  double first = stage_step(&one, 0.01f), second = stage_step(&two, 0.01f);
  ck_assert_double_eq_tol(first, second, 1e-5);
  stage_close(&one);
  stage_close(&two);
}
END_TEST

/* The step of bf16 weights rounds masters that keep what is too little to be seen. */
START_TEST(masters_are_finer_than_bf16)
{
  static const int32_t token[N] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7};
  struct trainer_seq seq = {token, NULL, N};
  struct stage s = open_full(TENSOR_BF16, 1, NULL);
  float start = tensor_get(&s.w->norm, 0), now = start;
  for (int i = 0; i < 30 && now == start; i++) {
    stage_micro(&s, &seq, 1);
    stage_step(&s, 2e-4f); /* a bf16 of 1 is 0.004 or 0.008 from the next */
    if (i == 0)
      ck_assert(tensor_get(&s.w->norm, 0) == start);
    now = tensor_get(&s.w->norm, 0);
  }
  ck_assert(now != start);
  stage_close(&s);
}
END_TEST

/* Decay shrinks matrices, not norms. */
START_TEST(norms_do_not_decay)
{
  struct config c = stage_config();
  struct rows r;
  fill(&r, 1, 3);
  struct stage s[2];
  for (int i = 0; i < 2; i++) {
    struct trainer_options o = options();
    o.decay = i ? 1 : 0;
    s[i] = stage_open(stage_weights(&c, 5, TENSOR_F32), NULL, TENSOR_F32, 1, NULL, &o);
    stage_micro(&s[i], r.seq, SEQS);
    stage_step(&s[i], 0.01f);
  }
  const struct layer_weights *a = &s[0].w->layer[0], *b = &s[1].w->layer[0];
  ck_assert_mem_eq(a->input_norm.data, b->input_norm.data, tensor_bytes(&a->input_norm));
  ck_assert_mem_eq(a->q_norm.data, b->q_norm.data, tensor_bytes(&a->q_norm));
  ck_assert_mem_ne(a->q.data, b->q.data, tensor_bytes(&a->q));
  stage_close(&s[0]);
  stage_close(&s[1]);
}
END_TEST

/* ---------------------------------------------------------------------------------- stopping -- */

/* Sets the flag at the n-th linear layer from now on. */
static struct {
  void (*linear)(struct ops *, void *, const void *, const struct tensor *, const struct tensor *,
                 uint32_t);
  int left;
  volatile int stop;
} trap;

static void trapped_linear(struct ops *ops, void *y, const void *x, const struct tensor *w,
                           const struct tensor *bias, uint32_t T)
{
  if (--trap.left == 0)
    trap.stop = 1;
  trap.linear(ops, y, x, w, bias, T);
}

START_TEST(a_stop_changes_nothing)
{
  struct base_error e = {0};
  struct rows r;
  struct trainer_loss loss;
  fill(&r, 1, 3);
  struct config c = stage_config();
  struct trainer_options o = options();
  o.recompute = _i;
  struct stage calm = stage_open(stage_weights(&c, 5, TENSOR_F32), NULL, TENSOR_F32, 1, NULL, &o);
  struct stage s = stage_open(stage_weights(&c, 5, TENSOR_F32), NULL, TENSOR_F32, 1, NULL, &o);
  stage_micro(&calm, r.seq, 2);
  stage_micro(&calm, r.seq + 2, 2);
  stage_micro(&s, r.seq, 2);
  struct ops_table table = *s.ops->table;
  trap.linear = table.linear;
  table.linear = trapped_linear;
  s.ops->table = &table;
  int stops = 0;
  for (int at = 1;; at++) {
    trap.left = at;
    trap.stop = 0;
    int got = trainer_micro(s.t, r.seq + 2, 2, &trap.stop, &loss, &e);
    if (got == 0)
      break;
    ck_assert_int_eq(got, TRAINER_ABORTED);
    stops++;
  }
  /* In each layer of the pass there, and, where it is computed once more, back but for the last. */
  ck_assert_int_eq(stops, _i ? 7 * 2 + 1 + 7 : 7 * 2 + 1);
  ck_assert_double_eq(stage_step(&calm, 0.01f), stage_step(&s, 0.01f));
  struct bits *a = bits_of(&calm), *b = bits_of(&s);
  check_same(a, b);
  free(a);
  free(b);
  stage_close(&calm);
  stage_close(&s);
}
END_TEST

/* --------------------------------------------------------------------------------- bad input -- */

static void expect(struct stage *s, const struct trainer_seq *seq, uint32_t n, const char *text)
{
  struct base_error e = {0};
  struct trainer_loss loss;
  ck_assert_int_eq(trainer_micro(s->t, seq, n, NULL, &loss, &e), -1);
  ck_assert_int_eq(e.code, BASE_INPUT);
  ck_assert_msg(strstr(e.text, text) != NULL, "%s", e.text);
}

START_TEST(bad_batches_are_refused)
{
  struct base_error e = {0};
  struct stage s = open_full(TENSOR_F32, 1, NULL);
  int32_t token[70] = {0}, high[2] = {1, 50}, low[2] = {-1, 2};
  uint8_t none[70] = {1};
  struct trainer_seq many[6];
  for (int i = 0; i < 6; i++)
    many[i] = (struct trainer_seq){token, NULL, N + 1};
  expect(&s, &(struct trainer_seq){token, NULL, 1}, 1, "at least 2");
  expect(&s, &(struct trainer_seq){token, NULL, N + 2}, 1, "15 is the most");
  expect(&s, &(struct trainer_seq){high, NULL, 2}, 1, "token 50 is outside");
  expect(&s, &(struct trainer_seq){low, NULL, 2}, 1, "token -1 is outside");
  expect(&s, &(struct trainer_seq){token, none, 5}, 1, "no token");
  expect(&s, many, 0, "no token");
  expect(&s, many, 6, "more than 70 tokens");
  ck_assert_int_eq(trainer_step(s.t, 0.1f, NULL, &e), -1);
  ck_assert_msg(strstr(e.text, "step 1 has no gradients") != NULL, "%s", e.text);
  stage_close(&s);
}
END_TEST

START_TEST(a_loss_that_is_no_number_names_its_step)
{
  struct base_error e = {0};
  struct stage s = open_full(TENSOR_F32, 1, NULL);
  struct rows r;
  fill(&r, 1, 3);
  for (int i = 0; i < 2; i++) {
    stage_micro(&s, r.seq, SEQS);
    stage_step(&s, 0.01f);
  }
  ((float *)s.w->layer[1].up.data)[3] = NAN;
  expect(&s, r.seq, SEQS, "the loss of step 3 is no number");
  ck_assert_int_eq(trainer_step(s.t, 0.01f, NULL, &e), -1);
  ck_assert(strstr(e.text, "no gradients") != NULL);
  stage_close(&s);
}
END_TEST

/* -------------------------------------------------------------------------------- the rest ---- */

START_TEST(rates_rise_and_fall)
{
  struct trainer_schedule s = {.peak = 1, .last = 0.1, .steps = 110, .warmup = 10, .cosine = 1};
  ck_assert_double_eq(trainer_rate(&s, 0), 0.1);
  ck_assert_double_eq(trainer_rate(&s, 9), 1);
  ck_assert_double_eq(trainer_rate(&s, 10), 1);
  ck_assert_double_eq_tol(trainer_rate(&s, 60), 0.55, 1e-12);
  ck_assert_double_eq_tol(trainer_rate(&s, 110), 0.1, 1e-12);
  ck_assert_double_eq_tol(trainer_rate(&s, 1000), 0.1, 1e-12);
  s.cosine = 0;
  ck_assert_double_eq(trainer_rate(&s, 100), 1);
  s.warmup = 0;
  ck_assert_double_eq(trainer_rate(&s, 0), 1);
}
END_TEST

static void remove_folder(const char *folder, const char *const *file, size_t n)
{
  char path[512];
  for (size_t i = 0; i < n; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, file[i]);
    unlink(path);
  }
  ck_assert_int_eq(rmdir(folder), 0);
}

START_TEST(what_was_trained_can_be_read)
{
  static const char *const model[] = {"config.json", "model.safetensors"};
  static const char *const adapter[] = {"adapter_config.json", "adapter_model.safetensors"};
  struct base_error e = {0};
  struct config c = stage_config();
  struct trainer_options o = options();
  struct rows r;
  fill(&r, 1, 3);
  for (int lora = 0; lora < 2; lora++) {
    const char *folder = scratch_path("out");
    struct weights *w = stage_weights(&c, 5, TENSOR_BF16);
    struct stage s = stage_open(w, lora ? fresh_adapter(w, TENSOR_BF16) : NULL, TENSOR_BF16, 1,
                                NULL, &o);
    ck_assert_uint_ge(trainer_state_bytes(s.t), 20 * trainer_parameters(s.t));
    stage_micro(&s, r.seq, SEQS);
    stage_step(&s, 0.01f);
    ck_assert_msg(trainer_write(s.t, folder, &e) == 0, "%s", e.text);
    struct stage again = {.w = lora ? NULL : weights_open(folder, 1, &e),
                          .a = lora ? adapter_open(folder, &c, &e) : NULL};
    ck_assert_msg(again.w || again.a, "%s", e.text);
    struct bits *x = bits_of(&s), *y = bits_of(&again);
    check_same(x, y);
    free(x);
    free(y);
    weights_free(again.w);
    adapter_free(again.a);
    stage_close(&s);
    remove_folder(folder, lora ? adapter : model, 2);
  }
}
END_TEST

int main(void)
{
  Suite *s = suite_create("train");
  TCase *c = tcase_create("train");
  tcase_set_timeout(c, 120);
  tcase_add_checked_fixture(c, scratch_open, scratch_close);
  tcase_add_loop_test(c, one_sequence_is_learnt_by_heart, 0, 2);
  tcase_add_loop_test(c, lora_learns_a_rule, 0, 2);
  tcase_add_test(c, the_engine_agrees);
  tcase_add_loop_test(c, bits_do_not_depend_on_threads, 0, 4);
  tcase_add_test(c, micro_batches_add_up);
  tcase_add_test(c, masters_are_finer_than_bf16);
  tcase_add_test(c, norms_do_not_decay);
  tcase_add_loop_test(c, a_stop_changes_nothing, 0, 2);
  tcase_add_test(c, bad_batches_are_refused);
  tcase_add_test(c, a_loss_that_is_no_number_names_its_step);
  tcase_add_test(c, rates_rise_and_fall);
  tcase_add_test(c, what_was_trained_can_be_read);
  suite_add_tcase(s, c);
  return suite_run(s);
}
