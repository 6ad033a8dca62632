/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The table of operations: each fills a job and has the pool run the path's kernel on it. Work that
 * is too small to be worth waking threads for is done by the caller alone; bits are the same.
 */
#define _DEFAULT_SOURCE
#include "backend/cpu/cpu.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/pool.h"
#include "backend/cpu/sample.h"

/* Multiplications below which one thread does it: some ten microseconds. */
enum { SMALL = 1 << 20 };
/* What other work costs, in multiplications an element. */
enum { COST_NORM = 16, COST_ROPE = 64, COST_SWIGLU = 32, COST_LOGIT = 32 };
/* From here on memory is asked for in large pages. */
enum { LARGE = 4 << 20, LARGE_PAGE = 2 << 20 };
enum { PATHS = 4 };

struct cpu_ops {
  struct ops ops;
  const struct cpu_kernels *k;
  struct cpu_pool *pool;
  char *scratch;   /* CPU_SCRATCH bytes a thread */
  float *lora_mid; /* LORA_FLOATS: x a^T, then (x a^T) b^T, of some rows */
};

enum { LORA_FLOATS = 1 << 20 };

static struct cpu_ops *self(struct ops *o)
{
  return (struct cpu_ops *)(void *)o;
}

static int rounds(const struct cpu_ops *o)
{
  return o->ops.dtype == TENSOR_BF16;
}

static void run(struct cpu_ops *o, cpu_pool_fn *fn, void *job, double work)
{
  if (work < SMALL)
    cpu_pool_run_alone(o->pool, fn, job);
  else
    cpu_pool_run(o->pool, fn, job);
}

/* ---- memory --------------------------------------------------------------------------------- */
/* Large pages spare the processor the search for each small one: worth a third when weights or keys
 * stream by. */
static void *cpu_alloc(struct ops *o, size_t bytes)
{
  const size_t unit = bytes >= LARGE ? LARGE_PAGE : 64;
  if (bytes > SIZE_MAX - unit)
    return NULL;
  const size_t size = (bytes + unit - 1 + !bytes) / unit * unit;
  void *p = aligned_alloc(unit, size);
#ifdef MADV_HUGEPAGE
  if (p && unit == LARGE_PAGE)
    madvise(p, size, MADV_HUGEPAGE);
#endif
  return p;
}

static void cpu_free(struct ops *o, void *p)
{
  free(p);
}

static void cpu_copy(struct ops *o, void *to, const void *from, size_t bytes)
{
  if (bytes)
    memcpy(to, from, bytes);
}

static void cpu_read(struct ops *o, const void *act, size_t n, float *out)
{
  cpu_copy(o, out, act, n * sizeof *out);
}

static void cpu_write(struct ops *o, void *act, size_t n, const float *in)
{
  float *to = act;
  for (size_t i = 0; i < n; i++)
    to[i] = rounds(self(o)) ? bf16_to_f32(bf16_from_f32(in[i])) : in[i];
}

/* ---- rows ----------------------------------------------------------------------------------- */
static void cpu_embed(struct ops *o, void *y, const struct tensor *table, const int32_t *token,
                      uint32_t T)
{
  const size_t n = table->cols;
  const int round = rounds(self(o)) && table->dtype != TENSOR_BF16;
  for (uint32_t t = 0; t < T; t++) {
    assert(token[t] >= 0 && (uint32_t)token[t] < table->rows);
    float *row = (float *)y + t * n;
    for (size_t i = 0; i < n; i++) {
      float x = tensor_get(table, (size_t)token[t] * n + i);
      row[i] = round ? bf16_to_f32(bf16_from_f32(x)) : x;
    }
  }
}

static void cpu_rms_norm(struct ops *o, void *y, void *x, const void *d, const struct tensor *w,
                         float eps, uint32_t T, uint32_t n)
{
  struct cpu_norm j = {y, x, d, w, eps, T, n, rounds(self(o))};
  run(self(o), self(o)->k->norm, &j, (double)T * n * COST_NORM);
}

static void cpu_linear(struct ops *o, void *y, const void *x, const struct tensor *w,
                       const struct tensor *bias, uint32_t T)
{
  struct cpu_linear j = {y, x, w, bias, T, rounds(self(o)), self(o)->scratch};
  run(self(o), self(o)->k->linear, &j, (double)T * w->rows * w->cols);
}

/* Some rows at a time, so that what is in between has room. */
static void lora_rows(struct ops *o, float *y, const float *x, const struct ops_lora *g)
{
  struct cpu_ops *c = self(o);
  const uint32_t rank = g->a->rows, out = g->b->rows;
  const uint32_t most = LORA_FLOATS / (rank + out);
  assert(most > 0 && g->b->cols == rank);
  for (uint32_t row = 0; row < g->rows; row += most) {
    const uint32_t n = g->rows - row < most ? g->rows - row : most;
    float *d = c->lora_mid + (size_t)n * rank;
    cpu_linear(o, c->lora_mid, x + (size_t)row * g->a->cols, g->a, NULL, n);
    cpu_linear(o, d, c->lora_mid, g->b, NULL, n);
    c->k->add_scaled(y + (size_t)row * out, d, g->scale, (size_t)n * out, rounds(c));
  }
}

static void cpu_lora(struct ops *o, void *y, const void *x, const struct ops_lora *group,
                     uint32_t n, uint32_t in, uint32_t out)
{
  for (uint32_t i = 0; i < n; i++) {
    const struct ops_lora *g = &group[i];
    assert(g->a->cols == in && g->b->rows == out);
    lora_rows(o, (float *)y + (size_t)g->first_row * out,
              (const float *)x + (size_t)g->first_row * in, g);
  }
}

static void cpu_norm_rope(struct ops *o, void *x, const struct tensor *w, float eps,
                          const float *inv_freq, const uint32_t *position, uint32_t T,
                          uint32_t heads, uint32_t head_dim)
{
  assert(head_dim % 2 == 0 && head_dim <= CPU_HEAD_DIM);
  struct cpu_rope j = {x, w, eps, inv_freq, position, T, heads, head_dim, rounds(self(o))};
  run(self(o), self(o)->k->rope, &j, (double)T * heads * head_dim * COST_ROPE);
}

static void cpu_swiglu(struct ops *o, void *y, const void *gate, const void *up, size_t n)
{
  struct cpu_swiglu j = {y, gate, up, n, rounds(self(o))};
  run(self(o), self(o)->k->swiglu, &j, (double)n * COST_SWIGLU);
}

static void cpu_gather(struct ops *o, void *y, const void *x, const uint32_t *row, uint32_t rows,
                       uint32_t n)
{
  for (uint32_t i = 0; i < rows; i++)
    memcpy((float *)y + (size_t)i * n, (const float *)x + (size_t)row[i] * n, n * sizeof(float));
}

/* ---- keys and values ------------------------------------------------------------------------ */
static void put_row(const struct ops_kv *kv, size_t at, const float *x)
{
  const size_t n = (size_t)kv->kv_heads * kv->head_dim;
  if (kv->dtype == TENSOR_F32) {
    memcpy((float *)kv->base + at, x, n * sizeof *x);
    return;
  }
  uint16_t *to = (uint16_t *)kv->base + at;
  for (size_t i = 0; i < n; i++)
    to[i] = bf16_from_f32(x[i]);
}

static void cpu_kv_write(struct ops *o, const struct ops_kv *kv, uint32_t layer, const void *k,
                         const void *v, const struct ops_seq *seq, uint32_t nseq)
{
  const size_t n = (size_t)kv->kv_heads * kv->head_dim;
  for (uint32_t s = 0; s < nseq; s++)
    for (uint32_t i = 0; i < seq[s].rows; i++) {
      const uint32_t pos = seq[s].start + i;
      const int32_t page = seq[s].page[pos / kv->block_tokens];
      const size_t slot = pos % kv->block_tokens * n, from = (seq[s].first_row + i) * n;
      assert(page >= 0 && (uint32_t)page < kv->pages);
      put_row(kv, cpu_kv_at(kv, page, layer, 0) + slot, (const float *)k + from);
      put_row(kv, cpu_kv_at(kv, page, layer, 1) + slot, (const float *)v + from);
    }
}

static void cpu_attention(struct ops *o, void *y, const void *q, const struct ops_kv *kv,
                          uint32_t layer, const struct ops_seq *seq, uint32_t nseq,
                          uint32_t q_heads)
{
  assert(q_heads % kv->kv_heads == 0 && kv->head_dim <= CPU_HEAD_DIM);
  struct cpu_attention j = {y, q, kv, layer, seq, nseq, q_heads, rounds(self(o)), self(o)->scratch};
  double work = 0;
  for (uint32_t s = 0; s < nseq; s++)
    work += (double)seq[s].rows * (seq[s].start + seq[s].rows) * q_heads * kv->head_dim;
  run(self(o), self(o)->k->attention, &j, work);
}

/* ---- tokens --------------------------------------------------------------------------------- */
struct sample_job {
  const struct cpu_kernels *k;
  const float *logits;
  const struct ops_sample *how;
  const int32_t *target; /* instead of how: only log-probabilities */
  uint32_t rows, vocab;
  int32_t *token;
  float *logprob;
  char *scratch;
};

static void sample_rows(void *job, unsigned thread, unsigned threads)
{
  const struct sample_job *j = job;
  for (uint32_t t = thread; t < j->rows; t += threads) {
    const float *logit = j->logits + (size_t)t * j->vocab;
    int32_t token = j->target ? j->target[t]
                              : cpu_sample_row(j->k, logit, &j->how[t], j->vocab,
                                               j->scratch + (size_t)thread * CPU_SCRATCH);
    if (j->token)
      j->token[t] = token;
    if (j->logprob)
      j->logprob[t] = cpu_logprob(j->k, logit, j->vocab, token);
  }
}

static void cpu_sample(struct ops *o, const void *logits, const struct ops_sample *how, uint32_t T,
                       uint32_t vocab, int32_t *token, float *logprob)
{
  assert(vocab > 0 && cpu_sample_bytes(vocab) <= CPU_SCRATCH);
  struct sample_job j = {.k = self(o)->k,
                         .logits = logits,
                         .how = how,
                         .rows = T,
                         .vocab = vocab,
                         .token = token,
                         .logprob = logprob,
                         .scratch = self(o)->scratch};
  run(self(o), sample_rows, &j, (double)T * vocab * COST_LOGIT);
}

static void cpu_logprobs(struct ops *o, const void *logits, const int32_t *target, uint32_t T,
                         uint32_t vocab, float *logprob)
{
  struct sample_job j = {.k = self(o)->k,
                         .logits = logits,
                         .target = target,
                         .rows = T,
                         .vocab = vocab,
                         .logprob = logprob};
  run(self(o), sample_rows, &j, (double)T * vocab * COST_LOGIT);
}

/* ---- shapes --------------------------------------------------------------------------------- */
static int cpu_check(struct ops *o, const struct config *c, struct base_error *e)
{
  const struct {
    const char *what;
    uint32_t is, most;
  } limit[] = {
      {"head_dim", c->head_dim, CPU_HEAD_DIM},
      {"hidden_size", c->hidden, CPU_WIDTH},
      {"intermediate_size", c->intermediate, CPU_WIDTH},
      {"the width of all query heads", c->q_heads * c->head_dim, CPU_WIDTH},
      {"the number of query heads of a key head", c->q_heads / c->kv_heads, CPU_GROUP},
      {"vocab_size", c->vocab, (uint32_t)(CPU_SCRATCH / cpu_sample_bytes(1))},
  };
  for (size_t i = 0; i < sizeof limit / sizeof limit[0]; i++)
    if (limit[i].is > limit[i].most)
      return base_fail(e, BASE_INPUT, "%s is %u; the kernels of the CPU take at most %u",
                       limit[i].what, limit[i].is, limit[i].most);
  return 0;
}

static const struct ops_table table = {
    .name = "cpu",
    .act_bytes = sizeof(float),
    .alloc = cpu_alloc,
    .free = cpu_free,
    .read = cpu_read,
    .write = cpu_write,
    .copy = cpu_copy,
    .embed = cpu_embed,
    .rms_norm = cpu_rms_norm,
    .linear = cpu_linear,
    .lora = cpu_lora,
    .norm_rope = cpu_norm_rope,
    .kv_write = cpu_kv_write,
    .attention = cpu_attention,
    .swiglu = cpu_swiglu,
    .gather = cpu_gather,
    .sample = cpu_sample,
    .logprobs = cpu_logprobs,
    .check = cpu_check,
};

/* ---- paths ---------------------------------------------------------------------------------- */
/* Best first; what this processor has not is left out. */
static int paths_here(int dtype, const struct cpu_kernels *found[PATHS])
{
  int n = 0;
#if defined(__x86_64__)
  const int avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                     __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (avx512 && __builtin_cpu_supports("avx512bf16") && dtype == TENSOR_BF16)
    found[n++] = &cpu_kernels_avx512_bf16;
  if (avx512)
    found[n++] = &cpu_kernels_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    found[n++] = &cpu_kernels_avx2;
#endif
  found[n++] = &cpu_kernels_scalar;
  return n;
}

const char *const *cpu_ops_paths(int dtype)
{
  static _Thread_local const char *names[2][PATHS + 1];
  const struct cpu_kernels *k[PATHS];
  const int n = paths_here(dtype, k);
  for (int i = 0; i < n; i++)
    names[dtype == TENSOR_BF16][i] = k[i]->name;
  names[dtype == TENSOR_BF16][n] = NULL;
  return names[dtype == TENSOR_BF16];
}

static const struct cpu_kernels *find_path(int dtype, const char *path, struct base_error *e)
{
  const struct cpu_kernels *k[PATHS];
  const int n = paths_here(dtype, k);
  char list[128] = "";
  for (int i = 0; i < n; i++) {
    if (!path || strcmp(path, k[i]->name) == 0)
      return k[i];
    strcat(strcat(list, i ? ", " : ""), k[i]->name);
  }
  base_fail(e, BASE_USAGE, "kernel path '%s': this processor has %s for %s", path, list,
            dtype == TENSOR_BF16 ? "bf16" : "fp32");
  return NULL;
}

struct ops *cpu_ops_create(int dtype, const int *cores, int n, const char *path,
                           struct base_error *e)
{
  const struct cpu_kernels *k = find_path(dtype, path, e);
  if (!k)
    return NULL;
  struct cpu_ops *o = calloc(1, sizeof *o);
  if (!o) {
    base_fail_memory(e);
    return NULL;
  }
  o->ops = (struct ops){&table, dtype, k->name};
  o->k = k;
  o->scratch = cpu_alloc(&o->ops, (size_t)n * CPU_SCRATCH);
  o->lora_mid = cpu_alloc(&o->ops, LORA_FLOATS * sizeof(float));
  if (!o->scratch || !o->lora_mid)
    base_fail_memory(e);
  else
    o->pool = cpu_pool_create(cores, n, e);
  if (!o->pool) {
    cpu_ops_destroy(&o->ops);
    return NULL;
  }
  return &o->ops;
}

void cpu_ops_destroy(struct ops *ops)
{
  if (!ops)
    return;
  struct cpu_ops *o = self(ops);
  cpu_pool_destroy(o->pool);
  free(o->scratch);
  free(o->lora_mid);
  free(o);
}

struct cpu_pool *cpu_ops_pool(struct ops *ops)
{
  return self(ops)->pool;
}

const struct cpu_kernels *cpu_ops_kernels(struct ops *ops)
{
  return self(ops)->k;
}
