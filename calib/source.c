/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "calib/source.h"

#include <string.h>

#include "base/outfile.h"
#include "models/calibration.h"
#include "models/gpu.h"
#include "models/llm.h"

/* Published files, by the SHA-256 of their (gzipped) CSV form: the commit they are of and, where
 * the file does not say it, the engine. */
#define AIC                                                                                        \
  "https://github.com/ai-dynamo/aiconfigurator/tree/095f58a51c4ca8e61b66ec108d86f223f8d559ce"
#define LSS                                                                                        \
  "https://github.com/casys-kaist/LLMServingSim/tree/5daddb21a545658d5150b535712d0494584b5278"
#define VLLM "vLLM 0.19.0"
static const struct {
  const char *sha256, *url, *engine;
} known[] = {
    {"d1097cbb9b026a3f920c310629127e2ae2bdbd0cbce2c7e357d3ca64c19eeae8", AIC, NULL},
    {"d36918627ec6d6560e957d031a8fc24681c2168171c116a809b61f7080a9ad7a", AIC, NULL},
    {"35846a13b4baf4d8ad2007321b9f836d562f876cdfafa439937529d3d57c1e97", AIC, NULL},
    {"af7053845ee3874b3b6eb017738f09948b7bec00db00f11249ba726f77a046f7", AIC, NULL},
    {"ef043c2bc48ccd4a00fc2cf8de10e23779d43fc353ef766332c01adf23afe1fd", AIC, NULL},
    {"0790c03cf39dab3c0344998e3a7503a73deb272c55e557e438bcb055cf9cd645", LSS, VLLM},
    {"83b3b96764705ac2a46fa46ec31a493b50a4c4046d2e052f277ba08930d559bd", LSS, VLLM},
    {"acbc8294d6749cb3ed8eaccb9ab561e62cacf9fbc06e6901c89646d750d94647", LSS, VLLM},
    {"4e5dbc5d827ec65e1a004486f15797e46d4494ff7bed230b7ccc5f0c994ac3b2", LSS, VLLM},
    {"263fe6182ad99e428f45a1b17076bd74e482f4fdd662446512bc4d814d3d0e03", LSS, VLLM},
    {"af9abb35ef5eb7c98e1856fa5fe5090008d8b98f1b6278b6d081577451d9c618", LSS, VLLM},
    {"97ac3cbab980c8757eda54dea0f6229a82bc67624adaf346ba5d9b6c62942cd6", LSS, VLLM},
    {"9b0d619b2f521853c5de3e1c10c2ddb5a3abf42b8ea325a7cce8b911af89a299", LSS, VLLM},
    {"81ccbdbeeeb1040adb23f70141389bdc190f079ed7a648694e9d3a55ee2b363d", LSS, VLLM},
    {"99c417c98e382c911d280a07cbb5902f39af886bd264584faa48f37cfb743974", LSS, VLLM},
};
enum { KNOWN = sizeof known / sizeof known[0] };

void source_text(char *to, size_t size, const char *text)
{
  size_t n = strnlen(text, size - 1);
  memcpy(to, text, n);
  to[n] = 0;
}

const char *source_engine(const char *sha256)
{
  for (size_t i = 0; i < KNOWN; i++)
    if (strcmp(known[i].sha256, sha256) == 0)
      return known[i].engine;
  return NULL;
}

int source_add(struct calibration *c, const char *path, const char *engine, const char *kernel,
               const char *licence, const char *url, struct base_error *e)
{
  struct calibration_source *s = &c->source[c->nsources];
  const char *slash = strrchr(path, '/');
  if (base_sha256_file(path, s->sha256, e))
    return -1;
  source_text(s->file, sizeof s->file, slash ? slash + 1 : path);
  source_text(s->engine, sizeof s->engine, engine);
  source_text(s->kernel, sizeof s->kernel, kernel);
  source_text(s->licence, sizeof s->licence, licence);
  source_text(s->url, sizeof s->url, url);
  for (size_t i = 0; i < KNOWN; i++)
    if (strcmp(known[i].sha256, s->sha256) == 0)
      source_text(s->url, sizeof s->url, known[i].url);
  c->nsources++;
  return 0;
}

static const char *short_name(const char *dtype)
{
  return strcmp(dtype, "fp8") ? "bf16" : "fp8";
}

static int element_bytes(const char *dtype)
{
  return strcmp(dtype, "fp8") ? 2 : 1;
}

static void set_name(struct calibration *c)
{
  int same = strcmp(c->weight_dtype, c->kv_dtype) == 0;
  char name[256], group[16] = "";
  if (c->tp > 1)
    snprintf(group, sizeof group, "-tp%u", c->tp);
  snprintf(name, sizeof name, "%s-%s-%s%s%s%s", c->gpu, c->model, short_name(c->weight_dtype),
           same ? "" : "-kv-", same ? "" : short_name(c->kv_dtype), group);
  source_text(c->name, sizeof c->name, name);
}

void source_describe(struct calibration *c, const struct llm *m, const struct gpu *g,
                     const char *weight_dtype, const char *kv_dtype, uint32_t tp)
{
  source_text(c->model, sizeof c->model, m->name);
  source_text(c->gpu, sizeof c->gpu, g->name);
  source_text(c->weight_dtype, sizeof c->weight_dtype, weight_dtype);
  source_text(c->kv_dtype, sizeof c->kv_dtype, kv_dtype);
  c->tp = tp;
  set_name(c);
  c->layers = m->layers;
  c->hidden = m->hidden;
  c->intermediate = m->intermediate;
  c->vocab = m->vocab;
  c->q_heads = m->q_heads;
  c->kv_heads = m->kv_heads;
  c->head_dim = m->head_dim;
  /* a group splits the matrices; KV heads are split as far as there are so many */
  c->weight_bytes = (llm_weight_bytes(m, element_bytes(weight_dtype)) + tp - 1) / tp;
  c->kv_bytes_per_token = llm_kv_bytes_per_token(m, element_bytes(kv_dtype)) /
                          (tp < m->kv_heads ? tp : m->kv_heads);
  c->gpu_memory_bytes = g->memory_bytes;
}

void source_tell(const struct calibration *c, FILE *talk)
{
  if (!talk)
    return;
  fprintf(talk, "%s: %s, weights %s, KV %s\n", c->name, c->engine, c->weight_dtype, c->kv_dtype);
  fprintf(talk, "  %-26s %8s %9s %7s %7s %7s\n", "curve", "samples", "held out", "p50", "p95",
          "max");
  for (uint32_t i = 0; i < c->nresiduals; i++) {
    const struct calibration_residual *r = &c->residual[i];
    fprintf(talk, "  %-26s %8u %9u %6.1f%% %6.1f%% %6.1f%%\n", r->curve, r->samples, r->heldout,
            100 * r->p50, 100 * r->p95, 100 * r->max);
  }
}
