/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "models/llm.h"

#include <stddef.h>

#include "models/describe.h"

/* Bounds keep every product of shapes below within int64. */
#define COUNT(xml, field, most)                                                                    \
  {                                                                                                \
    xml, DESCRIBE_COUNT, offsetof(struct llm, field), sizeof(uint32_t), most, 0                    \
  }
#define FLAG(xml, field)                                                                           \
  {                                                                                                \
    xml, DESCRIBE_FLAG, offsetof(struct llm, field), sizeof(int), 0, 0                             \
  }
#define TEXT(xml, field)                                                                           \
  {                                                                                                \
    xml, DESCRIBE_TEXT, offsetof(struct llm, field), sizeof(((struct llm *)0)->field), 0, 0        \
  }

static const struct describe_field llm_field[] = {
    TEXT("name", name),
    COUNT("hidden", hidden, 1 << 17),
    COUNT("layers", layers, 1024),
    COUNT("q-heads", q_heads, 1024),
    COUNT("kv-heads", kv_heads, 1024),
    COUNT("head-dim", head_dim, 1024),
    COUNT("intermediate", intermediate, 1 << 20),
    COUNT("vocab", vocab, 1 << 24),
    COUNT("max-position", max_position, 1 << 24),
    FLAG("tied", tied),
    FLAG("qk-norm", qk_norm),
    FLAG("qkv-bias", qkv_bias),
    TEXT("source", source),
};

/* Weights of the linear layers, the head not counted. */
static int64_t linear_parameters(const struct llm *m)
{
  int64_t h = m->hidden, q = (int64_t)m->q_heads * m->head_dim;
  int64_t kv = (int64_t)m->kv_heads * m->head_dim;
  return m->layers * (h * (q + 2 * kv) + q * h + 3 * h * (int64_t)m->intermediate);
}

/* All the others: embedding, head, norms, biases. */
static int64_t other_parameters(const struct llm *m)
{
  int64_t h = m->hidden, q = (int64_t)m->q_heads * m->head_dim;
  int64_t kv = (int64_t)m->kv_heads * m->head_dim;
  int64_t layer = 2 * h + (m->qk_norm ? 2 * (int64_t)m->head_dim : 0);
  if (m->qkv_bias)
    layer += q + 2 * kv;
  return (m->tied ? 1 : 2) * h * (int64_t)m->vocab + m->layers * layer + h;
}

int llm_open(const char *name_or_path, struct llm *m, struct base_error *e)
{
  if (describe_open("llm", name_or_path, llm_field, sizeof llm_field / sizeof llm_field[0], m,
                    sizeof *m, e))
    return -1;
  if (m->q_heads % m->kv_heads)
    return base_fail_at(e, BASE_INPUT, name_or_path, 0,
                        "q-heads (%u) must be a multiple of kv-heads (%u)", m->q_heads,
                        m->kv_heads);
  m->parameters = linear_parameters(m) + other_parameters(m);
  return 0;
}

int llm_shard(const struct llm *m, uint32_t tp, struct llm *part, struct base_error *e)
{
  *part = *m;
  if (tp < 1 || m->q_heads % tp || m->intermediate % tp || (m->kv_heads % tp && tp % m->kv_heads))
    return base_fail(e, BASE_INPUT,
                     "a group of %u GPUs cannot share the %u heads (%u of keys and values) and "
                     "the width %u of '%s' evenly",
                     tp, m->q_heads, m->kv_heads, m->intermediate, m->name);
  part->q_heads /= tp;
  part->kv_heads = m->kv_heads < tp ? 1 : m->kv_heads / tp;
  part->intermediate /= tp;
  part->vocab = (m->vocab + tp - 1) / tp;
  return 0;
}

int64_t llm_weight_bytes(const struct llm *m, int linear_bytes)
{
  return linear_bytes * linear_parameters(m) + 2 * other_parameters(m);
}

int64_t llm_kv_bytes_per_token(const struct llm *m, int element_bytes)
{
  return 2 * (int64_t)m->layers * m->kv_heads * m->head_dim * element_bytes;
}
