/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Descriptions of models and GPUs, and what a step costs. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/calibration.h"
#include "models/cost.h"
#include "models/gpu.h"
#include "models/llm.h"
#include "tests/suite.h"

#define MS(ticks) ((double)(ticks)*LULL_TICK_PS / 1e9)

/* ---------------------------------------------------------------------------- descriptions --- */

static const struct {
  const char *name;
  int64_t parameters, kv_bytes; /* bf16 */
} known_models[] = {
    {"qwen3-0.6b", 596049920, 114688},      {"qwen3-1.7b", 1720574976, 114688},
    {"qwen2-7b", 7615616512, 57344},        {"qwen3-4b", 4022468096, 147456},
    {"qwen3-8b", 8190735360, 147456},       {"qwen3-14b", 14768307200, 163840},
    {"qwen3-32b", 32762123264, 262144},     {"llama-2-7b", 6738415616, 524288},
    {"llama-2-70b", 68976648192, 327680},   {"llama-3.1-8b", 8030261248, 131072},
    {"llama-3.1-70b", 70553706496, 327680},
};

START_TEST(test_parameters)
{
  struct llm m;
  struct base_error e = {0};
  ck_assert_msg(!llm_open(known_models[_i].name, &m, &e), "%s", e.text);
  ck_assert_str_eq(m.name, known_models[_i].name);
  ck_assert_int_eq(m.parameters, known_models[_i].parameters);
  ck_assert_int_eq(llm_kv_bytes_per_token(&m, 2), known_models[_i].kv_bytes);
  ck_assert_int_eq(llm_weight_bytes(&m, 2), 2 * m.parameters);
}
END_TEST

START_TEST(test_shapes_8b)
{
  struct llm m;
  ck_assert_int_eq(llm_open("qwen3-8b", &m, NULL), 0);
  ck_assert_uint_eq(m.hidden, 4096);
  ck_assert_uint_eq(m.layers, 36);
  ck_assert_uint_eq(m.q_heads, 32);
  ck_assert_uint_eq(m.kv_heads, 8);
  ck_assert_uint_eq(m.head_dim, 128);
  ck_assert_uint_eq(m.intermediate, 12288);
  ck_assert_uint_eq(m.vocab, 151936);
  ck_assert_uint_eq(m.max_position, 40960);
  ck_assert_int_eq(m.tied, 0);
  ck_assert_int_eq(m.qk_norm, 1);
  ck_assert_int_eq(llm_kv_bytes_per_token(&m, 1), 73728);
}
END_TEST

START_TEST(test_gpu)
{
  struct gpu g;
  ck_assert_int_eq(gpu_open("h200-sxm", &g, NULL), 0);
  ck_assert_int_eq(g.memory_bytes, INT64_C(141) << 30);
  ck_assert_int_eq(g.memory_bytes_per_s, 4800000000000);
  ck_assert_int_eq(g.host_link_bytes_per_s, 64000000000);
  ck_assert_int_eq(g.bf16_flops, 989000000000000);
  ck_assert_int_eq(g.fp8_flops, 1978000000000000);
  ck_assert_int_eq(gpu_open("rtx-pro-6000", &g, NULL), 0);
  ck_assert_int_eq(g.memory_bytes, INT64_C(96) << 30);
  ck_assert_int_eq(gpu_open("rtx-4090", &g, NULL), 0);
  ck_assert_int_eq(g.memory_bytes_per_s, 1008000000000);
  ck_assert_int_eq(g.gpu_link_bytes_per_s, g.host_link_bytes_per_s); /* it has no NVLink */
  ck_assert_int_eq(gpu_open("h100-sxm", &g, NULL), 0);
  ck_assert_int_eq(g.gpu_link_bytes_per_s, 450000000000);
  ck_assert_int_eq(g.memory_bytes_per_s, 3350000000000);
  ck_assert_int_eq(gpu_open("a100-80g", &g, NULL), 0);
  ck_assert_int_eq(g.bf16_flops, 312000000000000);
  ck_assert_int_eq(g.memory_bytes, INT64_C(80) << 30);
}
END_TEST

START_TEST(test_unknown_names)
{
  struct llm m;
  struct gpu g;
  struct base_error e = {0}, f = {0};
  ck_assert_int_eq(llm_open("qwen3-8bb", &m, &e), -1);
  ck_assert_int_eq(e.code, BASE_INPUT);
  ck_assert_ptr_nonnull(strstr(e.text, "did you mean 'qwen3-8b'"));
  ck_assert_int_eq(gpu_open("qwen3-8b", &g, &f), -1); /* a model is no GPU */
  ck_assert_ptr_nonnull(strstr(f.text, "<gpu>"));
}
END_TEST

#define GOOD                                                                                       \
  "name='t' hidden='64' layers='2' q-heads='4' kv-heads='2' head-dim='16' intermediate='128'\n"    \
  " vocab='256' max-position='512' tied='yes' qk-norm='no' qkv-bias='yes'"

/* Text of a description, and what its error must say (NULL: it is good); the error's line. */
static const struct {
  const char *xml, *says;
  unsigned line;
} descriptions[] = {
    {"<llm " GOOD " source='s'/>", NULL, 0},
    {"<llm " GOOD "/>", "lacks the attribute 'source'", 2},
    {"<!-- x -->\n<llm " GOOD " source='s' hiden='1'/>", "did you mean 'hidden'", 3},
    {"<llm " GOOD " source='s'><a/></llm>", "child elements", 2},
    {"<gpu/>", "<llm> is wanted", 1},
    {"<llm " GOOD " source='s'>", "not well-formed", 2},
    {"<!DOCTYPE llm [<!ENTITY a 'b'>]><llm " GOOD " source='&a;'/>", "DOCTYPE", 0},
    {"<llm " GOOD " source=''/>", "source must have", 2},
    {"", "not well-formed", 1},
};

START_TEST(test_description)
{
  char path[] = "check_cost-XXXXXX.xml";
  struct llm m;
  struct base_error e = {0};
  int fd = mkstemps(path, 4);
  ck_assert_int_ge(fd, 0);
  size_t n = strlen(descriptions[_i].xml);
  ck_assert_int_eq(write(fd, descriptions[_i].xml, n), (ssize_t)n);
  close(fd);
  int rc = llm_open(path, &m, &e);
  unlink(path);
  if (!descriptions[_i].says) {
    ck_assert_msg(!rc, "%s", e.text);
    ck_assert_int_eq(m.parameters,
                     256 * 64 + 2 * (64 * 128 + 64 * 64 + 3 * 64 * 128 + 128 + 128) + 64);
    return;
  }
  ck_assert_int_eq(rc, -1);
  ck_assert_int_eq(e.code, BASE_INPUT);
  ck_assert_msg(strstr(e.text, descriptions[_i].says) != NULL, "%s", e.text);
  ck_assert_uint_eq(e.line, descriptions[_i].line);
}
END_TEST

/* -------------------------------------------------------------------------------- analytic --- */

START_TEST(test_analytic)
{
  const struct cost_analytic a = {1000, 30, 7, 5, 1 << 15};
  struct cost_model *m = cost_from_analytic(&a, 3, NULL);
  struct cost_shape s = {10, (INT64_C(12345) << 16) + 40000, 100, 2, 1, 777, 0};
  struct cost_step out;
  ck_assert_ptr_nonnull(m);
  ck_assert_uint_eq(cost_row_tokens(m), 3);
  cost_eval(m, &s, &out);
  ck_assert_int_eq(out.ticks, 1000 + 30 * 130 + 70 + (5 * s.ctx_q16 >> 16) + 388);
  ck_assert_int_eq(out.slope, 5);
  ck_assert_int_eq(out.chunk_part, 388);
  ck_assert_int_eq(out.ctx_end_q16, INT64_MAX);
  ck_assert_int_eq(cost_covers(m, &s), 1);
  cost_free(m);
}
END_TEST

/* A step costs a tick at least, and the law that is told holds nevertheless. */
START_TEST(test_analytic_least)
{
  const struct cost_analytic a = {0, 0, 0, 3, 0};
  struct cost_model *m = cost_from_analytic(&a, 1, NULL);
  struct cost_step at, out;
  for (int64_t ctx = 0; ctx < 3 << 16; ctx += 101) {
    struct cost_shape s = {1, ctx, 0, 0, 0, 0, 0};
    int64_t exact = 3 * ctx >> 16;
    cost_eval(m, &s, &out);
    ck_assert_int_eq(out.ticks, exact > 1 ? exact : 1);
    ck_assert_int_gt(out.ctx_end_q16, ctx);
    s.ctx_q16 = out.ctx_end_q16 == INT64_MAX ? ctx + 65536 : out.ctx_end_q16 - 1;
    cost_eval(m, &s, &at);
    ck_assert_int_eq(at.ticks - out.ticks, (out.slope * s.ctx_q16 >> 16) - (out.slope * ctx >> 16));
  }
  cost_free(m);
}
END_TEST

/* The formula, on either side of where its products stop to fit 64 bits. */
START_TEST(test_analytic_sizes)
{
  static const int64_t token[] = {1, (1 << 20) - 1, 1 << 20}, ctx[] = {3, (1 << 22) - 1, 1 << 22};
  static const int64_t q16[] = {1, (INT64_C(1) << 40) - 1, INT64_C(1) << 40, INT64_C(1) << 55};
  static const uint32_t tokens[] = {1, 255, 256}, rows[] = {1, 70000, UINT32_MAX};
  for (int i = 0; i < 3 * 3 * 4 * 3 * 3 * 4; i++) {
    int64_t t = token[i % 3], c = ctx[i / 3 % 3], work = q16[i / 324];
    struct cost_analytic a = {(INT64_C(1) << 58) - 1, t, t, c, c};
    struct cost_shape s = {.rows = rows[i / 108 % 3], .ctx_q16 = q16[i / 9 % 4]};
    s.chunks = 1;
    s.chunk_tokens = rows[i % 2];
    s.chunk_work = work;
    uint32_t row_tokens = tokens[i / 36 % 3];
    struct cost_model *m = cost_from_analytic(&a, row_tokens, NULL);
    struct cost_step out;
    cost_eval(m, &s, &out);
    __int128 part = (__int128)c * work >> 16, most = INT64_C(1) << 61;
    __int128 sum = a.base + (__int128)t * ((int64_t)s.rows * row_tokens + s.chunk_tokens) +
                   (__int128)t * s.rows + ((__int128)c * s.ctx_q16 >> 16) + part;
    ck_assert_int_eq(out.chunk_part, (int64_t)(part < most ? part : most));
    ck_assert_int_eq(out.ticks, (int64_t)(sum < most ? sum : most));
    ck_assert_int_eq(out.slope, c);
    cost_free(m);
  }
}
END_TEST

START_TEST(test_analytic_wrong)
{
  const struct cost_analytic a = {0, -1, 0, 0, 0}, big = {INT64_MAX, INT64_MAX, 0, 0, 0};
  struct base_error e = {0};
  struct cost_shape s = {100, 0, 0, 0, 0, 0, 0};
  struct cost_step out;
  ck_assert_ptr_null(cost_from_analytic(&a, 1, &e));
  ck_assert_int_eq(e.code, BASE_INPUT);
  struct cost_model *m = cost_from_analytic(&big, 1, NULL);
  cost_eval(m, &s, &out); /* saturates */
  ck_assert_int_gt(out.ticks, INT64_C(1) << 60);
  cost_free(m);
  cost_free(NULL);
}
END_TEST

/* ------------------------------------------------------------------------------ calibrated --- */

static struct calibration *fp8;
static struct cost_settings plain; /* no draft, no host time, element-wise as in the scenarios */

static void setup(void)
{
  struct base_error e = {0};
  fp8 = calibration_open("h200-sxm-qwen3-8b-fp8", &e);
  ck_assert_msg(fp8 != NULL, "%s", e.text);
  plain = (struct cost_settings){.max_rows = 256,
                                 .max_tokens = 8192 + 4 * 256,
                                 .elementwise_kernels = 5,
                                 .elementwise_launch = 2500000,
                                 .elementwise_bytes_per_s = 3500000000000};
}

static void teardown(void)
{
  calibration_free(fp8);
}

static struct cost_model *compile(const struct cost_settings *s)
{
  struct base_error e = {0};
  struct cost_model *m = cost_from_calibration(fp8, s, &e);
  ck_assert_msg(m != NULL, "%s", e.text);
  return m;
}

static lull_ticks ticks_of(const struct cost_model *m, struct cost_shape s)
{
  struct cost_step out;
  cost_eval(m, &s, &out);
  return out.ticks;
}

/* GEMMs and element-wise kernels of a step, ms: one chunk's, less its attention. */
static double body_ms(const struct cost_model *m, uint32_t tokens)
{
  struct cost_shape s = {0, 0, tokens, 1, 0, 0, 0};
  struct cost_step out;
  cost_eval(m, &s, &out);
  return MS(out.ticks - out.chunk_part);
}

/* Decode attention, ms: rows against as many tokens of chunks, each sampled. */
static double decode_ms(const struct cost_model *m, uint32_t rows, int64_t ctx)
{
  struct cost_shape a = {rows, (rows * ctx) << 16, 0, 0, 0, 0, 0},
                    b = {0, 0, rows, rows, rows, 0, 0};
  struct cost_step decode, chunk;
  cost_eval(m, &a, &decode);
  cost_eval(m, &b, &chunk);
  return MS(decode.ticks - (chunk.ticks - chunk.chunk_part));
}

#define NEAR(value, want, percent)                                                                 \
  ck_assert_msg(fabs((value) - (want)) <= (want) * (percent) / 100, "%g is not within %g%% of %g", \
                (double)(value), (double)(percent), (double)(want))

/* What another simulator made of the same tables: an independent reading of them. */
START_TEST(test_against_other_reading)
{
  struct cost_model *m = compile(&plain);
  NEAR(body_ms(m, 16), 3.2, 3);
  NEAR(body_ms(m, 64), 3.4, 3);
  NEAR(body_ms(m, 256), 5.4, 3);
  NEAR(body_ms(m, 512), 7.5, 3);
  NEAR(body_ms(m, 1024), 13.1, 3);
  NEAR(body_ms(m, 2048), 25.7, 3);
  NEAR(decode_ms(m, 64, 1023), 2.5, 3);
  NEAR(decode_ms(m, 128, 1023), 4.4, 3);
  struct cost_shape prompt = {0, 0, 2048, 1, 0, 2048 * 2049 / 2, 0};
  NEAR(2048 / MS(ticks_of(m, prompt)) * 1000, 69500, 3);
  struct cost_shape last = prompt;
  last.chunk_ends = 1;
  NEAR(MS(ticks_of(m, last) - ticks_of(m, prompt)), 0.3, 20); /* the head at one position */
  cost_free(m);
}
END_TEST

/* The calibration's decode attention, interpolated in real numbers, ms of all layers. */
static double exact_decode(uint32_t rows, double ctx)
{
  const struct calibration_grid *g = &fp8->decode;
  uint32_t i = 0, j = 0;
  double at[2];
  while (i + 2 < g->nrows && g->rows[i + 1] <= rows)
    i++;
  while (j + 2 < g->nctx && (double)g->ctx[j + 1] <= ctx)
    j++;
  double w = (ctx - (double)g->ctx[j]) / (double)(g->ctx[j + 1] - g->ctx[j]);
  double v = (double)(rows - g->rows[i]) / (double)(g->rows[i + 1] - g->rows[i]);
  for (uint32_t k = 0; k < 2; k++) {
    const int64_t *y = g->y + (size_t)(i + k) * g->nctx + j;
    at[k] = (double)y[0] + w * (double)(y[1] - y[0]);
  }
  return (at[0] + v * (at[1] - at[0])) * fp8->layers / 1e9;
}

START_TEST(test_decode_accuracy)
{
  struct cost_model *m = compile(&plain);
  double worst = 0;
  for (uint32_t rows = 1; rows <= 256; rows += rows < 20 ? 1 : 17)
    for (int64_t ctx = 1; ctx < 60000; ctx += 1 + ctx / 7) {
      double exact = exact_decode(rows, (double)ctx);
      double error = fabs(decode_ms(m, rows, ctx) - exact) / exact;
      worst = error > worst ? error : worst;
    }
  ck_assert_msg(worst < 0.001, "worst error %g%%", 100 * worst);
  cost_free(m);
}
END_TEST

/* A generator of shapes; nothing depends on its quality. */
static uint64_t draw(uint64_t *state, uint64_t below)
{
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (*state >> 33) % below;
}

static struct cost_shape draw_shape(uint64_t *state)
{
  struct cost_shape s = {.rows = (uint32_t)draw(state, 257)};
  if (s.rows)
    s.ctx_q16 = (int64_t)(draw(state, 1 << 22) << 16 | draw(state, 1 << 16)) >> draw(state, 16);
  if (draw(state, 2)) {
    s.chunk_tokens = 1 + (uint32_t)draw(state, 8192);
    s.chunks = 1;
    s.chunk_ends = (uint32_t)draw(state, 2);
    s.chunk_work = (int64_t)s.chunk_tokens * (1 + (int64_t)draw(state, 16000));
  }
  return s;
}

/* What is told of a step holds: the shares fit in the whole, and up to ctx_end the ticks follow
 * the slope exactly. */
static void check_law(const struct cost_model *m, struct cost_shape s, uint64_t *state)
{
  struct cost_step a, b;
  cost_eval(m, &s, &a);
  __int128 grows = ((__int128)a.slope * s.ctx_q16) >> 16;
  ck_assert_int_ge(a.ticks, 1);
  ck_assert_int_ge(a.slope, 0);
  ck_assert_int_ge(a.chunk_part, 0);
  ck_assert(grows + a.chunk_part <= a.ticks);
  ck_assert_int_gt(a.ctx_end_q16, s.ctx_q16);
  if (!s.rows)
    return;
  int64_t room = (a.ctx_end_q16 == INT64_MAX ? INT64_C(1) << 40 : a.ctx_end_q16) - s.ctx_q16 - 1;
  int64_t d = room > 0 ? (int64_t)draw(state, (uint64_t)room + 1) : 0;
  s.ctx_q16 += d & ~INT64_C(65535); /* whole tokens */
  cost_eval(m, &s, &b);
  ck_assert_int_eq(b.ticks - a.ticks, a.slope * (d >> 16));
  ck_assert_int_eq(b.slope, a.slope);
  ck_assert_int_eq(b.ctx_end_q16, a.ctx_end_q16);
  if (a.ctx_end_q16 == INT64_MAX)
    return;
  struct cost_shape end = s;
  end.ctx_q16 = a.ctx_end_q16; /* continuous there */
  cost_eval(m, &end, &b);
  s.ctx_q16 = a.ctx_end_q16 - 65536;
  cost_eval(m, &s, &a);
  if (a.ctx_end_q16 == end.ctx_q16)
    ck_assert_int_eq(b.ticks - a.ticks, a.slope);
}

START_TEST(test_law)
{
  uint64_t state = 1;
  struct cost_settings s = plain;
  s.draft_depth = _i ? 3 : 0;
  s.draft_layers_ppm = 1300000;
  s.draft_head = 64000000;
  struct cost_model *m = compile(&s);
  for (int i = 0; i < 20000; i++)
    check_law(m, draw_shape(&state), &state);
  cost_free(m);
}
END_TEST

/* A curve that grows faster than its context is cut so that the shares still fit. */
START_TEST(test_law_superlinear)
{
  uint64_t state = 7;
  struct calibration_grid *g = &fp8->decode;
  for (uint32_t i = 0; i < g->nrows; i++)
    for (uint32_t j = 0; j < g->nctx; j++)
      g->y[(size_t)i * g->nctx + j] = g->ctx[j] * g->ctx[j];
  struct cost_settings s = plain;
  s.elementwise_kernels = 0;
  struct cost_model *m = compile(&s);
  for (int i = 0; i < 20000; i++)
    check_law(m, draw_shape(&state), &state);
  cost_free(m);
}
END_TEST

START_TEST(test_speculation)
{
  struct cost_settings s = plain;
  s.draft_depth = 3;
  s.draft_layers_ppm = 1300000;
  s.draft_head = 64000000;
  struct cost_model *one = compile(&plain), *three = compile(&s);
  struct cost_shape rows = {64, INT64_C(64000) << 16, 0, 0, 0, 0, 0};
  ck_assert_uint_eq(cost_row_tokens(three), 4);
  /* 3 passes of the draft, 256 tokens and positions instead of 64, one row's attention. */
  struct cost_shape few = {0, 0, 64, 64, 64, 0, 0}, many = {0, 0, 256, 64, 256, 0, 0};
  struct cost_step a, b;
  cost_eval(one, &few, &a);
  cost_eval(one, &many, &b);
  lull_ticks verify = b.ticks - b.chunk_part - (a.ticks - a.chunk_part);
  int64_t layer = 0;
  for (uint32_t i = 0; i < fp8->draft_layer.n; i++)
    if (fp8->draft_layer.x[i] == 64)
      layer = fp8->draft_layer.y[i];
  int64_t draft = 3 * (layer * 13 / 10 + 64000000) / LULL_TICK_PS;
  lull_ticks more = ticks_of(three, rows) - ticks_of(one, rows);
  ck_assert_int_le(llabs(more - verify - draft), 3); /* ticks: each part is floored */
  cost_free(one);
  cost_free(three);
}
END_TEST

START_TEST(test_host_and_elementwise)
{
  struct cost_settings s = plain;
  struct cost_shape chunk = {0, 0, 1000, 1, 0, 0, 0};
  struct cost_model *a = compile(&s);
  s.host_step = 640000000;
  struct cost_model *b = compile(&s);
  s.elementwise_kernels = 0;
  s.elementwise_bytes_per_s = 0;
  struct cost_model *c = compile(&s);
  ck_assert_int_eq(ticks_of(b, chunk) - ticks_of(a, chunk), 10000000);
  double ms = 36 * (5 * 0.0025 + 163840.0 * 1000 / 3.5e9);
  NEAR(MS(ticks_of(b, chunk) - ticks_of(c, chunk)), ms, 0.001);
  cost_free(a);
  cost_free(b);
  cost_free(c);
}
END_TEST

START_TEST(test_covers)
{
  struct cost_model *m = compile(&plain);
  struct cost_shape s = {256, (INT64_C(256) * 1023) << 16, 0, 0, 0, 0, 0};
  ck_assert_int_eq(cost_covers(m, &s), 1);
  s.ctx_q16++; /* longer than was measured at 256 rows */
  ck_assert_int_eq(cost_covers(m, &s), 0);
  struct cost_shape many = {257, 0, 0, 0, 0, 0, 0}, idle = {0, 0, 0, 0, 0, 0, 0};
  ck_assert_int_eq(cost_covers(m, &many), 0);
  ck_assert_int_eq(cost_covers(m, &idle), 1);
  struct cost_shape most = {0, 0, 9216, 1, 0, 1 << 20, 0}, past = {0, 0, 20000, 1, 0, 1 << 20, 0};
  ck_assert_int_eq(cost_covers(m, &most), 1);
  ck_assert_int_eq(cost_covers(m, &past), 0);
  ck_assert_int_gt(ticks_of(m, past), 2 * ticks_of(m, most)); /* extended, not cut */
  ck_assert_int_eq(ticks_of(m, idle), 1);
  cost_free(m);
}
END_TEST

/* What the calibration does not reach is refused, and the text says what to change. */
START_TEST(test_refused)
{
  struct {
    struct cost_settings s;
    const char *says;
  } bad[] = {{plain, "measured to 2048 decode rows"},
             {plain, "measured to 32768 tokens a step"},
             {plain, "bandwidth"},
             {plain, "too few"},
             {plain, "must be 1 to"},
             {plain, "negative"}};
  bad[0].s.max_rows = 2049;
  bad[1].s.max_tokens = 32769;
  bad[2].s.elementwise_bytes_per_s = 0;
  bad[3].s.max_tokens = 255;
  bad[4].s.max_rows = 0;
  bad[5].s.host_step = -1;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct base_error e = {0};
    ck_assert_ptr_null(cost_from_calibration(fp8, &bad[i].s, &e));
    ck_assert_int_eq(e.code, BASE_INPUT);
    ck_assert_msg(strstr(e.text, bad[i].says) != NULL, "%s", e.text);
  }
}
END_TEST

static Suite *make_suite(void)
{
  Suite *s = suite_create("cost");
  TCase *d = tcase_create("descriptions"), *a = tcase_create("analytic"),
        *c = tcase_create("calibrated");
  tcase_add_loop_test(d, test_parameters, 0, sizeof known_models / sizeof known_models[0]);
  tcase_add_test(d, test_shapes_8b);
  tcase_add_test(d, test_gpu);
  tcase_add_test(d, test_unknown_names);
  tcase_add_loop_test(d, test_description, 0, sizeof descriptions / sizeof descriptions[0]);
  tcase_add_test(a, test_analytic);
  tcase_add_test(a, test_analytic_least);
  tcase_add_test(a, test_analytic_sizes);
  tcase_add_test(a, test_analytic_wrong);
  tcase_add_checked_fixture(c, setup, teardown);
  tcase_add_test(c, test_against_other_reading);
  tcase_add_test(c, test_decode_accuracy);
  tcase_add_loop_test(c, test_law, 0, 2);
  tcase_add_test(c, test_law_superlinear);
  tcase_add_test(c, test_speculation);
  tcase_add_test(c, test_host_and_elementwise);
  tcase_add_test(c, test_covers);
  tcase_add_test(c, test_refused);
  suite_add_tcase(s, d);
  suite_add_tcase(s, a);
  suite_add_tcase(s, c);
  return s;
}

int main(void)
{
  return suite_run(make_suite());
}
