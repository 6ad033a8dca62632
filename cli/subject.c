/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/subject.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cores.h"
#include "cli/weights.h"
#include "models/describe.h"

/* The processor's name as the system has it, or "". */
static void processor(char *name, size_t size)
{
  char line[256];
  FILE *f = fopen("/proc/cpuinfo", "r");
  name[0] = '\0';
  while (f && fgets(line, sizeof line, f)) {
    const char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) || !colon)
      continue;
    snprintf(name, size, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
    break;
  }
  if (f)
    fclose(f);
}

static int same_shapes(const struct llm *a, const struct llm *b)
{
  return a->hidden == b->hidden && a->layers == b->layers && a->q_heads == b->q_heads &&
         a->kv_heads == b->kv_heads && a->head_dim == b->head_dim &&
         a->intermediate == b->intermediate && a->vocab == b->vocab && a->tied == b->tied &&
         a->qk_norm == b->qk_norm && a->qkv_bias == b->qkv_bias;
}

static void name_model(struct llm *m, int family)
{
  static const char *const families[] = {
      [CONFIG_QWEN3] = "qwen3", [CONFIG_QWEN2] = "qwen2", [CONFIG_LLAMA] = "llama"};
  struct llm known;
  char name[64];
  snprintf(m->name, sizeof m->name, "%s-%ux%u", families[family], m->hidden, m->layers);
  for (size_t i = 0; !describe_name("llm", ".xml", i, name, sizeof name); i++)
    if (!llm_open(name, &known, NULL) && same_shapes(&known, m))
      snprintf(m->name, sizeof m->name, "%s", known.name);
}

static void describe_model(struct llm *m, const struct config *c)
{
  *m = (struct llm){.hidden = c->hidden,
                    .layers = c->layers,
                    .q_heads = c->q_heads,
                    .kv_heads = c->kv_heads,
                    .head_dim = c->head_dim,
                    .intermediate = c->intermediate,
                    .vocab = c->vocab,
                    .max_position = c->max_position,
                    .tied = c->tied,
                    .qk_norm = c->qk_norm,
                    .qkv_bias = c->qkv_bias,
                    .parameters = config_parameters(c)};
  name_model(m, c->family);
}

int cli_subject_of(struct cli_subject *s, struct weights *w, const char *folder, const char *path,
                   int threads, struct base_error *e)
{
  char digest[33], name[64];
  *s = (struct cli_subject){0};
  if (cli_weights_digest(w, digest, e))
    return -1;
  processor(name, sizeof name);
  describe_model(&s->model, &w->config);
  cli_cores_name(path, threads, s->gpu.name, sizeof s->gpu.name);
  s->gpu.memory_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  snprintf(s->engine, sizeof s->engine, "lull %s, %.40s", PACKAGE_VERSION, name);
  snprintf(s->source, sizeof s->source, "%s/config.json", folder);
  snprintf(s->kernel, sizeof s->kernel, "%s, %d threads, weights XXH3-128 %s", path, threads,
           digest);
  size_t bytes = tensor_dtype_bytes(w->dtype);
  s->subject = (struct measure_subject){.model = &s->model,
                                        .gpu = &s->gpu,
                                        .dtype = w->dtype == TENSOR_BF16 ? "bfloat16" : "float32",
                                        .weight_bytes = config_parameters(&w->config) *
                                                        (int64_t)bytes,
                                        .kv_bytes_per_token = config_kv_bytes(&w->config, bytes),
                                        .engine = s->engine,
                                        .source = s->source,
                                        .kernel = s->kernel};
  return 0;
}
