/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The command models: what is built in, and weights of a model's shapes. */
#include <inttypes.h>
#include <string.h>

#include "backend/store.h"
#include "backend/weights.h"
#include "cli/commands.h"
#include "cli/outputs.h"
#include "models/describe.h"
#include "models/gpu.h"
#include "models/llm.h"

enum { NAME = 64, PRESET_SEED = 1 };

/* ------------------------------------------------------------------------------------ list ---- */

static void print_llm(const struct llm *m)
{
  printf("%-16s %16" PRId64 " %7.2f %6u %6u %5u %4u %4u %6u %7u %5s %6.1f\n", m->name,
         m->parameters, (double)llm_weight_bytes(m, 2) / 1e9, m->hidden, m->layers, m->q_heads,
         m->kv_heads, m->head_dim, m->intermediate, m->vocab, m->tied ? "tied" : "own",
         (double)llm_kv_bytes_per_token(m, 2) / 1024);
}

static void print_gpu(const struct gpu *g)
{
  printf("%-16s %8.0f %8.2f %8.0f %8.0f %8.0f\n", g->name, (double)g->memory_bytes / (1 << 30),
         (double)g->memory_bytes_per_s / 1e12, (double)g->host_link_bytes_per_s / 1e9,
         (double)g->bf16_flops / 1e12, (double)g->fp8_flops / 1e12);
}

static int list(struct base_error *e)
{
  char name[NAME];
  struct llm m;
  struct gpu g;
  puts("model                  parameters bf16 GB hidden layers heads   kv  dim   wide   vocab  "
       "head KV KiB");
  for (size_t i = 0; !describe_name("llm", ".xml", i, name, sizeof name); i++) {
    if (llm_open(name, &m, e))
      return -1;
    print_llm(&m);
  }
  puts("wide: of the feed-forward layer; head: a matrix of its own, or tied to the embedding; KV "
       "KiB: "
       "of a token, in bf16");
  puts("\nGPU                   GiB     TB/s link GB/s bf16 TF/s fp8 TF/s");
  for (size_t i = 0; !describe_name("gpu", ".xml", i, name, sizeof name); i++) {
    if (gpu_open(name, &g, e))
      return -1;
    print_gpu(&g);
  }
  return 0;
}

/* ------------------------------------------------------------------------------------ init ---- */

/* What a description does not tell, as the family's published files have it. The first entry whose
 * name the model's begins with counts. */
static const struct constants {
  const char *name;
  double rope_theta, rms_eps, rope_factor;
  int32_t bos, eos;
} constants[] = {
    {"qwen", 1e6, 1e-6, 0, 151643, 151645},
    {"llama-3.1", 5e5, 1e-5, 8, 128000, 128001},
    {"llama-3", 5e5, 1e-5, 0, 128000, 128001},
    {"llama-2", 1e4, 1e-5, 0, 1, 2},
    {"", 1e6, 1e-6, 0, -1, -1},
};

static const struct constants *constants_of(const char *name)
{
  const struct constants *k = constants;
  while (strncmp(k->name, name, strlen(k->name)))
    k++;
  return k;
}

/* Ids of the published vocabulary mean nothing in a smaller one. */
static void set_tokens(struct config *c, const struct constants *k)
{
  int fits = k->bos >= 0 && (uint32_t)k->bos < c->vocab && (uint32_t)k->eos < c->vocab;
  c->bos = fits ? k->bos : -1;
  c->eos[0] = k->eos;
  c->neos = fits;
}

static int config_of(const struct llm *m, struct config *c, struct base_error *e)
{
  const struct constants *k = constants_of(m->name);
  if (m->qk_norm && m->qkv_bias)
    return base_fail(e, BASE_INPUT,
                     "'%s' has both norms and biases of queries and keys: no model family that is "
                     "built has",
                     m->name);
  *c = (struct config){.hidden = m->hidden,
                       .layers = m->layers,
                       .q_heads = m->q_heads,
                       .kv_heads = m->kv_heads,
                       .head_dim = m->head_dim,
                       .intermediate = m->intermediate,
                       .vocab = m->vocab,
                       .max_position = m->max_position,
                       .rms_eps = k->rms_eps,
                       .rope_theta = k->rope_theta,
                       .rope_factor = k->rope_factor,
                       .tied = m->tied,
                       .qk_norm = m->qk_norm,
                       .qkv_bias = m->qkv_bias};
  c->family = m->qk_norm ? CONFIG_QWEN3 : m->qkv_bias ? CONFIG_QWEN2 : CONFIG_LLAMA;
  if (k->rope_factor > 0) {
    c->rope_low_freq = 1;
    c->rope_high_freq = 4;
    c->rope_original = 8192;
  }
  set_tokens(c, k);
  if (m->head_dim % 2)
    return base_fail(e, BASE_INPUT, "head-dim of '%s' is %u, but must be even", m->name,
                     m->head_dim);
  return 0;
}

/* Says after a name that is none that Qwen3's sizes are names too. */
static int tell_sizes(const struct base_error *wrong, struct base_error *e)
{
  static const char family[] = "qwen3-";
  char name[NAME], sizes[128] = "";
  if (wrong->code != BASE_INPUT)
    return base_fail(e, wrong->code, "%s", wrong->text);
  for (size_t i = 0, n = 0; !describe_name("llm", ".xml", i, name, sizeof name); i++)
    if (!strncmp(name, family, sizeof family - 1) && n < sizeof sizes)
      n += (size_t)snprintf(sizes + n, sizeof sizes - n, "%s%s", n ? ", " : "",
                            name + sizeof family - 1);
  return base_fail(e, BASE_INPUT, "MODEL: %s; of Qwen3 the size will do: %s", wrong->text, sizes);
}

/* A size alone means Qwen3. */
static int open_model(const char *name, struct llm *m, struct base_error *e)
{
  char full[NAME];
  struct base_error none = {0};
  int n = snprintf(full, sizeof full, "qwen3-%s", name);
  if (n > 0 && (size_t)n < sizeof full && !describe_is_path(name, ".xml") &&
      !llm_open(full, m, &none))
    return 0;
  if (describe_is_path(name, ".xml"))
    return llm_open(name, m, e);
  none = (struct base_error){0};
  return llm_open(name, m, &none) ? tell_sizes(&none, e) : 0;
}

static int dtype_of(const char *name, int *dtype, struct base_error *e)
{
  *dtype = TENSOR_BF16;
  if (!name || !strcmp(name, "bfloat16"))
    return 0;
  *dtype = TENSOR_F32;
  if (!strcmp(name, "float32"))
    return 0;
  return base_fail(e, BASE_USAGE, "lull models: --weights '%s' must be bfloat16 or float32", name);
}

/* Draws the progress line; not 0 once a signal came. */
static int tell(void *ctx, double fraction)
{
  cli_progress_draw(ctx, "writing weights", fraction);
  return cli_stop;
}

static int init(const struct cli_line *line, struct base_error *e)
{
  const struct cli_options *o = &line->options;
  struct llm m;
  struct config c;
  struct cli_progress progress;
  int dtype;
  uint64_t seed = o->has_seed ? o->seed : PRESET_SEED;
  if (line->nargs < 2)
    return base_fail(e, BASE_USAGE, "lull models: write 'lull models init MODEL -o FOLDER'");
  if (!o->output)
    return base_fail(e, BASE_USAGE, "lull models: no folder is named; give -o FOLDER");
  if (dtype_of(o->weights, &dtype, e) || open_model(line->arg[1], &m, e) || config_of(&m, &c, e) ||
      (!o->force && store_check_free(o->output, e)) || cli_catch_signals(e))
    return -1;
  cli_progress_open(&progress, o->quiet);
  int bad = weights_random_write(&c, seed, dtype, o->output, tell, &progress, e);
  cli_progress_clear(&progress);
  if (bad)
    return -1;
  int64_t n = config_parameters(&c);
  printf("%s: %s, random weights of seed %" PRIu64 ", %" PRId64 " parameters in %s, %" PRId64
         " bytes\n",
         o->output, m.name, seed, n, dtype == TENSOR_BF16 ? "bfloat16" : "float32",
         n * (int64_t)tensor_dtype_bytes(dtype));
  return 0;
}

int cli_models(struct cli_line *line)
{
  struct base_error e = {0};
  int bad;
  if (!line->nargs)
    bad = list(&e);
  else if (!strcmp(line->arg[0], "init"))
    bad = init(line, &e);
  else
    bad = base_fail(&e, BASE_USAGE, "lull models: unknown action '%s'; there is 'init'",
                    line->arg[0]);
  return bad ? cli_fail(&e) : BASE_OK;
}
