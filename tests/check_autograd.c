/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Gradients and steps of whole models and adapters against those of torch and peft. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/safetensors.h"
#include "tests/suite.h"
#include "tests/train_fixture.h"

enum { SEQS = 2, TOKENS = 32 };

static const char *data(const char *name)
{
  static char path[8][512];
  static unsigned next;
  const char *dir = getenv("srcdir");
  next = (next + 1) % 8;
  snprintf(path[next], sizeof path[next], "%s/tests/data/engine/%s", dir ? dir : ".", name);
  return path[next];
}

/* ------------------------------------------------------------------------------- the batch ---- */

struct batch {
  int32_t token[SEQS][TOKENS];
  uint8_t counted[SEQS][TOKENS];
  struct trainer_seq seq[SEQS];
};

static void read_batch(const char *model, struct batch *b)
{
  json_t *all = json_load_file(data("inputs.json"), 0, NULL);
  json_t *of = json_object_get(json_object_get(all, "batch"), model);
  ck_assert(of != NULL);
  for (uint32_t s = 0; s < SEQS; s++) {
    json_t *token = json_array_get(json_object_get(of, "tokens"), s);
    json_t *mask = json_array_get(json_object_get(of, "mask"), s);
    uint32_t n = (uint32_t)json_array_size(token);
    ck_assert(n > 1 && n <= TOKENS && json_array_size(mask) == n);
    for (uint32_t i = 0; i < n; i++) {
      b->token[s][i] = (int32_t)json_integer_value(json_array_get(token, i));
      b->counted[s][i] = json_integer_value(json_array_get(mask, i)) != 0;
    }
    b->seq[s] = (struct trainer_seq){b->token[s], b->counted[s], n};
  }
  json_decref(all);
}

/* ---------------------------------------------------------------------------- comparing it ---- */

static struct safetensors *open_expected(const char *name)
{
  char file[128];
  struct base_error e = {0};
  snprintf(file, sizeof file, "expected/%s-gradients.safetensors", name);
  struct safetensors *s = safetensors_open(data(file), &e);
  ck_assert_msg(s != NULL, "%s", e.text);
  return s;
}

static const float *expected(const struct safetensors *s, const char *prefix, const char *name,
                             const char *part, size_t *n)
{
  char full[256];
  snprintf(full, sizeof full, "%s.%s%s", prefix, name, part);
  const struct safetensors_tensor *t = safetensors_find(s, full);
  *n = t ? t->bytes / sizeof(float) : 0;
  ck_assert(!t || t->dtype == SAFETENSORS_F32);
  return t ? t->data : NULL;
}

static double number(const struct safetensors *s, const char *name)
{
  const struct safetensors_tensor *t = safetensors_find(s, name);
  float v;
  ck_assert_msg(t != NULL && t->bytes == sizeof v, "%s", name);
  memcpy(&v, t->data, sizeof v);
  return (double)v;
}

/* |a - b| / |b| */
static double distance(const float *a, const float *b, size_t n, double scale)
{
  double wrong = 0, size = 0;
  for (size_t i = 0; i < n; i++) {
    float want;
    memcpy(&want, (const char *)b + i * sizeof want, sizeof want);
    double d = (double)a[i] * scale - (double)want;
    wrong += d * d;
    size += (double)want * (double)want;
  }
  return sqrt(wrong / (size > 0 ? size : 1));
}

/* What a walk over the trained tensors compares, and the worst that it found. */
struct compare {
  const struct safetensors *s;
  const struct trainer *t;
  const char *prefix;
  double scale, worst;
  size_t seen;
};

static void look(struct compare *c, const char *name, const char *part, const float *got, size_t n)
{
  size_t have;
  const float *want = expected(c->s, c->prefix, name, part, &have);
  if (!want)
    return;
  ck_assert_uint_eq(have, n);
  double d = distance(got, want, n, c->scale);
  if (!(d <= c->worst))
    c->worst = d;
  c->seen++;
}

/* A matrix is known whole, or by every 16th row and the sums of rows and columns. */
static void look_at(struct compare *c, const char *name, uint32_t rows, uint32_t cols,
                    const float *x)
{
  float *some = calloc((size_t)(rows / 16 + 1) * cols, sizeof *some);
  float *across = calloc(rows, sizeof *across), *down = calloc(cols, sizeof *down);
  ck_assert(some && across && down);
  for (uint32_t i = 0; i < rows; i++)
    for (uint32_t j = 0; j < cols; j++) {
      float v = x[(size_t)i * cols + j];
      across[i] += v;
      down[j] += v;
      if (i % 16 == 0)
        some[i / 16 * cols + j] = v;
    }
  look(c, name, "", x, (size_t)rows * cols);
  look(c, name, ".rows", some, (size_t)((rows + 15) / 16) * cols);
  look(c, name, ".row_sums", across, rows);
  look(c, name, ".col_sums", down, cols);
  free(some);
  free(across);
  free(down);
}

static int visit(void *ctx, const char *name, struct tensor *t)
{
  struct compare *c = ctx;
  look_at(c, name, t->rows, t->cols, trainer_gradient(c->t, t));
  return 0;
}

static const char *const target_names[LORA_TARGETS] = {
    [LORA_Q] = "self_attn.q_proj", [LORA_K] = "self_attn.k_proj", [LORA_V] = "self_attn.v_proj",
    [LORA_O] = "self_attn.o_proj", [LORA_GATE] = "mlp.gate_proj", [LORA_UP] = "mlp.up_proj",
    [LORA_DOWN] = "mlp.down_proj"};

static void visit_adapter(struct compare *c, const struct adapter *a,
                          void (*at)(struct compare *c, const char *name, const struct tensor *t))
{
  for (uint32_t l = 0; l < a->layers; l++)
    for (int k = 0; k < LORA_TARGETS; k++) {
      const struct adapter_pair *p = &a->pair[l * LORA_TARGETS + (uint32_t)k];
      char name[128];
      for (int b = 0; b < 2; b++) {
        snprintf(name, sizeof name, "base_model.model.model.layers.%u.%s.lora_%c.weight", l,
                 target_names[k], b ? 'B' : 'A');
        at(c, name, b ? &p->b : &p->a);
      }
    }
}

static void look_at_gradient(struct compare *c, const char *name, const struct tensor *t)
{
  look_at(c, name, t->rows, t->cols, trainer_gradient(c->t, t));
}

static void look_at_weight(struct compare *c, const char *name, const struct tensor *t)
{
  look_at(c, name, t->rows, t->cols, t->data);
}

/* ----------------------------------------------------------------------------------- tests ---- */

static struct weights *open_model(const char *name, int dtype)
{
  struct base_error e = {0};
  struct weights *file = weights_open(data(name), 1, &e);
  struct weights *w = file ? weights_copy(file, dtype, &e) : NULL;
  ck_assert_msg(w != NULL, "%s", e.text);
  weights_free(file);
  return w;
}

/* The optimiser of the fixture. */
static struct trainer_options options(int recompute)
{
  return (struct trainer_options){.max_tokens = 64,
                                  .recompute = recompute,
                                  .beta1 = 0.9f,
                                  .beta2 = 0.95f,
                                  .eps = 1e-8f,
                                  .decay = 0.1f,
                                  .decay_vectors = 1,
                                  .clip = 1};
}

static const struct {
  const char *name;
  int dtype, recompute;
  double gradient, loss; /* bounds, relative */
} models[] = {
    {"qwen3", TENSOR_F32, 0, 2e-5, 2e-6}, {"qwen3", TENSOR_F32, 1, 2e-5, 2e-6},
    {"qwen2", TENSOR_F32, 0, 2e-5, 2e-6}, {"llama", TENSOR_F32, 0, 2e-5, 2e-6},
    {"qwen3", TENSOR_BF16, 0, 0.1, 0.01},
};
enum { MODELS = sizeof models / sizeof models[0] };

START_TEST(gradients_are_those_of_autograd)
{
  const char *const *path = cpu_ops_paths(models[_i].dtype);
  struct batch b;
  read_batch(models[_i].name, &b);
  struct safetensors *s = open_expected(models[_i].name);
  for (; *path; path++) {
    struct trainer_options o = options(models[_i].recompute);
    struct stage st = stage_open(open_model(models[_i].name, models[_i].dtype), NULL,
                                 models[_i].dtype, 1, *path, &o);
    struct trainer_loss loss = stage_micro(&st, b.seq, SEQS);
    double mean = loss.sum / (double)loss.tokens, want = number(s, "loss.1");
    ck_assert_double_le(fabs(mean / want - 1), models[_i].loss);
    struct compare c = {.s = s, .t = st.t, .prefix = "grad", .scale = 1 / (double)loss.tokens};
    weights_visit(st.w, visit, &c);
    ck_assert_uint_ge(c.seen, 8);
    if (getenv("CHECK_TRAIN_SHOW"))
      printf("%s %s: gradients %.2e, loss %.2e\n", models[_i].name, *path, c.worst,
             fabs(mean / want - 1));
    ck_assert_double_le(c.worst, models[_i].gradient);
    stage_close(&st);
  }
  safetensors_close(s);
}
END_TEST

/* Three steps on one batch: losses and norms before each. */
START_TEST(steps_are_those_of_torch)
{
  static const char *const losses[] = {"loss.1", "loss.2", "loss.3"};
  static const char *const norms[] = {"norm.1", "norm.2", "norm.3"};
  struct batch b;
  struct trainer_options o = options(0);
  read_batch("qwen3", &b);
  struct safetensors *s = open_expected("qwen3");
  struct stage st = stage_open(open_model("qwen3", TENSOR_F32), NULL, TENSOR_F32, 2, NULL, &o);
  for (int i = 0; i < 3; i++) {
    struct trainer_loss loss = stage_micro(&st, b.seq, SEQS);
    ck_assert_double_le(fabs(loss.sum / (double)loss.tokens / number(s, losses[i]) - 1), 2e-5);
    ck_assert_double_le(fabs(stage_step(&st, 1e-3f) / number(s, norms[i]) - 1), 2e-4);
  }
  stage_close(&st);
  safetensors_close(s);
}
END_TEST

static struct adapter *open_adapter(const char *name, const struct config *c, int dtype)
{
  struct base_error e = {0};
  struct adapter *from = adapter_open(data(name), c, &e);
  ck_assert_msg(from != NULL, "%s", e.text);
  struct adapter *a = adapter_random(c, from->rank, from->scale * (float)from->rank,
                                     (1u << LORA_TARGETS) - 1, 1, dtype, &e);
  ck_assert_msg(a != NULL, "%s", e.text);
  for (size_t i = 0; i < (size_t)a->layers * LORA_TARGETS; i++)
    for (int k = 0; k < 2; k++) {
      const struct tensor *f = k ? &from->pair[i].b : &from->pair[i].a;
      const struct tensor *t = k ? &a->pair[i].b : &a->pair[i].a;
      for (size_t j = 0; j < (size_t)t->rows * t->cols; j++)
        ((float *)t->data)[j] = tensor_get(f, j);
    }
  adapter_free(from);
  return a;
}

START_TEST(lora_is_that_of_peft)
{
  struct batch b;
  struct trainer_options o = options(_i);
  read_batch("qwen3", &b);
  struct safetensors *s = open_expected("lora-all");
  struct weights *w = open_model("qwen3", TENSOR_F32);
  struct stage st = stage_open(w, open_adapter("lora-all", &w->config, TENSOR_F32), TENSOR_F32, 2,
                               NULL, &o);
  struct trainer_loss loss = stage_micro(&st, b.seq, SEQS);
  struct compare c = {.s = s, .t = st.t, .prefix = "grad", .scale = 1 / (double)loss.tokens};
  ck_assert(trainer_gradient(st.t, &w->norm) == NULL);
  visit_adapter(&c, st.a, look_at_gradient);
  ck_assert_uint_eq(c.seen, 2 * 7 * 2);
  if (getenv("CHECK_TRAIN_SHOW"))
    printf("LoRA: gradients %.2e\n", c.worst);
  ck_assert_double_le(c.worst, 2e-5);
  ck_assert_double_le(fabs(stage_step(&st, 1e-3f) / number(s, "norm.1") - 1), 1e-5);
  c = (struct compare){.s = s, .prefix = "step1", .scale = 1};
  visit_adapter(&c, st.a, look_at_weight);
  ck_assert_uint_eq(c.seen, 2 * 7 * 2);
  if (getenv("CHECK_TRAIN_SHOW"))
    printf("LoRA: after a step %.2e\n", c.worst);
  ck_assert_double_le(c.worst, 1e-4);
  stage_close(&st);
  safetensors_close(s);
}
END_TEST

int main(void)
{
  Suite *s = suite_create("autograd");
  TCase *c = tcase_create("autograd");
  tcase_set_timeout(c, 60);
  tcase_add_loop_test(c, gradients_are_those_of_autograd, 0, MODELS);
  tcase_add_test(c, steps_are_those_of_torch);
  tcase_add_loop_test(c, lora_is_that_of_peft, 0, 2);
  suite_add_tcase(s, c);
  return suite_run(s);
}
