/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "calib/bench_ops.h"

#include <string.h>
#include <time.h>

static struct bench_ops *self(struct ops *o)
{
  return (struct bench_ops *)(void *)o;
}

static struct ops *inner(struct ops *o)
{
  return self(o)->inner;
}

int64_t bench_ops_clock(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ------------------------------------------------------------------------------- memory ---- */

/* Memory that nobody has written to may be one page many times over, and quicker than any other. So
 * all of it is written to, with a small number in every type: its bytes are 0x3c. */
static void *timed_alloc(struct ops *o, size_t bytes)
{
  char small[1 << 12];
  char *p = inner(o)->table->alloc(inner(o), bytes);
  memset(small, 0x3c, sizeof small);
  for (size_t at = 0; p && at < bytes; at += sizeof small)
    inner(o)->table->copy(inner(o), p + at, small,
                          bytes - at < sizeof small ? bytes - at : sizeof small);
  return p;
}

static void timed_free(struct ops *o, void *p)
{
  inner(o)->table->free(inner(o), p);
}

static void timed_read(struct ops *o, const void *act, size_t n, float *out)
{
  inner(o)->table->read(inner(o), act, n, out);
}

static void timed_write(struct ops *o, void *act, size_t n, const float *in)
{
  inner(o)->table->write(inner(o), act, n, in);
}

static void timed_copy(struct ops *o, void *to, const void *from, size_t bytes)
{
  inner(o)->table->copy(inner(o), to, from, bytes);
}

/* ------------------------------------------------------------------------ where parts meet ---- */

static void timed_embed(struct ops *o, void *y, const struct tensor *table, const int32_t *token,
                        uint32_t T)
{
  self(o)->marks = (struct bench_marks){0};
  inner(o)->table->embed(inner(o), y, table, token, T);
  self(o)->marks.embedded = bench_ops_clock();
}

static void timed_attention(struct ops *o, void *y, const void *q, const struct ops_kv *kv,
                            uint32_t layer, const struct ops_seq *seq, uint32_t nseq,
                            uint32_t q_heads)
{
  int64_t began = bench_ops_clock();
  inner(o)->table->attention(inner(o), y, q, kv, layer, seq, nseq, q_heads);
  self(o)->marks.attention += bench_ops_clock() - began;
}

/* The sampled rows are gathered first of all. */
static void timed_gather(struct ops *o, void *y, const void *x, const uint32_t *row, uint32_t rows,
                         uint32_t n)
{
  if (!self(o)->marks.head)
    self(o)->marks.head = bench_ops_clock();
  inner(o)->table->gather(inner(o), y, x, row, rows, n);
}

static void timed_sample(struct ops *o, const void *logits, const struct ops_sample *how,
                         uint32_t T, uint32_t vocab, int32_t *token, float *logprob)
{
  inner(o)->table->sample(inner(o), logits, how, T, vocab, token, logprob);
  self(o)->marks.sampled = bench_ops_clock();
}

/* -------------------------------------------------------------------------------- others ---- */

static void timed_rms_norm(struct ops *o, void *y, void *x, const void *d, const struct tensor *w,
                           float eps, uint32_t T, uint32_t n)
{
  inner(o)->table->rms_norm(inner(o), y, x, d, w, eps, T, n);
}

static void timed_linear(struct ops *o, void *y, const void *x, const struct tensor *w,
                         const struct tensor *bias, uint32_t T)
{
  inner(o)->table->linear(inner(o), y, x, w, bias, T);
}

static void timed_lora(struct ops *o, void *y, const void *x, const struct ops_lora *group,
                       uint32_t n, uint32_t in, uint32_t out)
{
  inner(o)->table->lora(inner(o), y, x, group, n, in, out);
}

static void timed_norm_rope(struct ops *o, void *x, const struct tensor *w, float eps,
                            const float *inv_freq, const uint32_t *position, uint32_t T,
                            uint32_t heads, uint32_t head_dim)
{
  inner(o)->table->norm_rope(inner(o), x, w, eps, inv_freq, position, T, heads, head_dim);
}

static void timed_kv_write(struct ops *o, const struct ops_kv *kv, uint32_t layer, const void *k,
                           const void *v, const struct ops_seq *seq, uint32_t nseq)
{
  inner(o)->table->kv_write(inner(o), kv, layer, k, v, seq, nseq);
}

static void timed_swiglu(struct ops *o, void *y, const void *gate, const void *up, size_t n)
{
  inner(o)->table->swiglu(inner(o), y, gate, up, n);
}

static void timed_logprobs(struct ops *o, const void *logits, const int32_t *target, uint32_t T,
                           uint32_t vocab, float *logprob)
{
  inner(o)->table->logprobs(inner(o), logits, target, T, vocab, logprob);
}

static const struct ops_table timed = {.name = "timed",
                                       .alloc = timed_alloc,
                                       .free = timed_free,
                                       .read = timed_read,
                                       .write = timed_write,
                                       .copy = timed_copy,
                                       .embed = timed_embed,
                                       .rms_norm = timed_rms_norm,
                                       .linear = timed_linear,
                                       .lora = timed_lora,
                                       .norm_rope = timed_norm_rope,
                                       .kv_write = timed_kv_write,
                                       .attention = timed_attention,
                                       .swiglu = timed_swiglu,
                                       .gather = timed_gather,
                                       .sample = timed_sample,
                                       .logprobs = timed_logprobs};

void bench_ops_open(struct bench_ops *b, struct ops *inner_ops)
{
  *b = (struct bench_ops){.inner = inner_ops};
  b->table = timed;
  b->table.act_bytes = inner_ops->table->act_bytes;
  b->ops = (struct ops){&b->table, inner_ops->dtype, inner_ops->path};
}
