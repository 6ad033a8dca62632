/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "calib/source.h"

#include <stdlib.h>
#include <string.h>

#include "base/outfile.h"
#include "models/calibration.h"
#include "models/gpu.h"
#include "models/llm.h"

/* Published files, by the SHA-256 of their CSV form, gzipped and plain: the commit they are of and,
 * where the file does not say it, the engine, and what it was measured on. */
#define AIC                                                                                        \
  "https://github.com/ai-dynamo/aiconfigurator/tree/095f58a51c4ca8e61b66ec108d86f223f8d559ce"
#define LSS                                                                                        \
  "https://github.com/casys-kaist/LLMServingSim/tree/5daddb21a545658d5150b535712d0494584b5278"
#define VLLM "vLLM 0.19.0"
static const struct known {
  const char *sha256, *url, *engine;
  const char *gpu, *model; /* NULL: the file tells it itself */
  uint32_t tp;
} known[] = {
    {"d1097cbb9b026a3f920c310629127e2ae2bdbd0cbce2c7e357d3ca64c19eeae8", AIC, NULL, NULL, NULL, 0},
    {"d36918627ec6d6560e957d031a8fc24681c2168171c116a809b61f7080a9ad7a", AIC, NULL, NULL, NULL, 0},
    {"35846a13b4baf4d8ad2007321b9f836d562f876cdfafa439937529d3d57c1e97", AIC, NULL, NULL, NULL, 0},
    {"af7053845ee3874b3b6eb017738f09948b7bec00db00f11249ba726f77a046f7", AIC, NULL, NULL, NULL, 0},
    {"ef043c2bc48ccd4a00fc2cf8de10e23779d43fc353ef766332c01adf23afe1fd", AIC, NULL, NULL, NULL, 0},
    {"4e5dbc5d827ec65e1a004486f15797e46d4494ff7bed230b7ccc5f0c994ac3b2", LSS, VLLM, "rtx-pro-6000",
     "llama-3.1-8b", 1},
    {"dd802390245b2c215a491b78c390482fbc6e49afc760182d7ce15fddff369175", LSS, VLLM, "rtx-pro-6000",
     "llama-3.1-8b", 1},
    {"263fe6182ad99e428f45a1b17076bd74e482f4fdd662446512bc4d814d3d0e03", LSS, VLLM, "rtx-pro-6000",
     "llama-3.1-8b", 1},
    {"6f23be95325a16544319b78c477d71bec8996fdc826ae55140c36f36e17973c4", LSS, VLLM, "rtx-pro-6000",
     "llama-3.1-8b", 1},
    {"af9abb35ef5eb7c98e1856fa5fe5090008d8b98f1b6278b6d081577451d9c618", LSS, VLLM, "rtx-pro-6000",
     "llama-3.1-8b", 1},
    {"97ac3cbab980c8757eda54dea0f6229a82bc67624adaf346ba5d9b6c62942cd6", LSS, VLLM, "rtx-pro-6000",
     "llama-3.1-8b", 1},
    {"7cf6ec2e063655b6ab4079c928849d0ec9a9559bab0b643c98584196cca471a2", LSS, VLLM, "rtx-pro-6000",
     "llama-3.1-8b", 1},
    {"0790c03cf39dab3c0344998e3a7503a73deb272c55e557e438bcb055cf9cd645", LSS, VLLM, "rtx-4090",
     "llama-3.1-8b", 1},
    {"60f0669b5e85467b18d0ca241a826c4376c530b22b74b7b20748a1955cf61949", LSS, VLLM, "rtx-4090",
     "llama-3.1-8b", 1},
    {"83b3b96764705ac2a46fa46ec31a493b50a4c4046d2e052f277ba08930d559bd", LSS, VLLM, "rtx-4090",
     "llama-3.1-8b", 1},
    {"4f5b0623f1fa27033752cc54807a4089c39205c7132a0bb196520249d9d9140a", LSS, VLLM, "rtx-4090",
     "llama-3.1-8b", 1},
    {"acbc8294d6749cb3ed8eaccb9ab561e62cacf9fbc06e6901c89646d750d94647", LSS, VLLM, "rtx-4090",
     "llama-3.1-8b", 1},
    {"9b0d619b2f521853c5de3e1c10c2ddb5a3abf42b8ea325a7cce8b911af89a299", LSS, VLLM, "rtx-pro-6000",
     "qwen3-32b", 2},
    {"2c4d98649967da9c79535421c7e71663daeff80e9049608072d0237befd522a7", LSS, VLLM, "rtx-pro-6000",
     "qwen3-32b", 2},
    {"81ccbdbeeeb1040adb23f70141389bdc190f079ed7a648694e9d3a55ee2b363d", LSS, VLLM, "rtx-pro-6000",
     "qwen3-32b", 2},
    {"4f3cf699af9eace4f570d83a5d36879e6db6bc6486e04feb1fa8c524e32e11a7", LSS, VLLM, "rtx-pro-6000",
     "qwen3-32b", 2},
    {"99c417c98e382c911d280a07cbb5902f39af886bd264584faa48f37cfb743974", LSS, VLLM, "rtx-pro-6000",
     "qwen3-32b", 2},
};
enum { KNOWN = sizeof known / sizeof known[0] };

void source_text(char *to, size_t size, const char *text)
{
  size_t n = strnlen(text, size - 1);
  memcpy(to, text, n);
  to[n] = 0;
}

static const struct known *find_known(const char *sha256)
{
  for (size_t i = 0; i < KNOWN; i++)
    if (strcmp(known[i].sha256, sha256) == 0)
      return &known[i];
  return NULL;
}

const char *source_engine(const char *sha256)
{
  const struct known *k = find_known(sha256);
  return k ? k->engine : NULL;
}

static int is_letter_or_digit(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* How many characters of text[n] spell `name`, or the first words of it, in either case and
 * whatever stands between words; 0: they spell something else. */
static size_t spells(const char *text, size_t n, const char *name)
{
  size_t i = 0, fit = 0;
  for (; i < n && *name; name++) {
    if (!is_letter_or_digit(*name)) {
      fit = i;
      continue;
    }
    while (i < n && !is_letter_or_digit(text[i]))
      i++;
    if (i == n || (text[i] | 32) != (*name | 32))
      return fit;
    i++;
  }
  return !is_letter_or_digit(*name) ? i : fit;
}

/* The part GPU-MODEL of a name llmservingsim-GPU-MODEL-tpN-..., or NULL. */
static const char *name_of(const char *file, size_t *n, uint32_t *tp)
{
  static const char first[] = "llmservingsim-";
  if (strncmp(file, first, sizeof first - 1))
    return NULL;
  file += sizeof first - 1;
  for (const char *p = file; (p = strstr(p, "-tp")) != NULL; p += 3) {
    size_t digits = strspn(p + 3, "0123456789");
    if (!digits || digits > 4 || p[3 + digits] != '-')
      continue;
    *n = (size_t)(p - file);
    *tp = (uint32_t)strtoul(p + 3, NULL, 10);
    return file;
  }
  return NULL;
}

static int contradicts(const struct calibration *c, const char *path, const char *by,
                       const char *what, int n, uint32_t tp, struct base_error *e)
{
  return base_fail_at(e, BASE_INPUT, path, 0,
                      "by its %s this is a table of %.*s, tensor parallel %u, not of %s %s, tensor "
                      "parallel %u; give --gpu, --model and --tp of the table, or another table",
                      by, n, what, tp, c->gpu, c->model, c->tp);
}

int source_check(const struct calibration *c, const struct calibration_source *s, const char *path,
                 int *told, struct base_error *e)
{
  const struct known *k = find_known(s->sha256);
  size_t n = 0;
  uint32_t tp = 0;
  *told = 1;
  if (k && k->gpu) {
    char what[160];
    snprintf(what, sizeof what, "%s %s", k->gpu, k->model);
    return strcmp(k->gpu, c->gpu) || strcmp(k->model, c->model) || k->tp != c->tp
               ? contradicts(c, path, "SHA-256", what, (int)strlen(what), k->tp, e)
               : 0;
  }
  const char *name = name_of(s->file, &n, &tp);
  if (!name) {
    *told = 0;
    return 0;
  }
  size_t gpu = spells(name, n, c->gpu);
  return !gpu || spells(name + gpu, n - gpu, c->model) != n - gpu || tp != c->tp
             ? contradicts(c, path, "name", name, (int)n, tp, e)
             : 0;
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
  const struct known *k = find_known(s->sha256);
  if (k)
    source_text(s->url, sizeof s->url, k->url);
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
