/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * How fast the engine's linear layers are on this processor, beside OpenBLAS's sgemm on the same
 * shapes and beside the rate at which memory can be read, all measured in turns in one run.
 *
 *   ops [PATH] [--quick] [--one]      PATH: a kernel path, default the best; --one: one thread only
 *
 * OpenBLAS is looked for at run time and may be absent. It gets fp32 copies of the weights, since
 * that is what it multiplies. Each matrix stands in memory as often as is needed to have it come
 * from memory (of the tiny model: as often as the model has layers). One thread is measured in
 * processor time, all threads in wall time. Medians; the spread is between the tenth and the
 * ninetieth percentile, as a part of the median.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/pool.h"

enum { SAMPLES = 9, MAX_ROWS = 128, MIB = 1 << 20 };

struct shape {
  const char *name;
  uint32_t n, k;
  int times; /* in the model */
};

struct model {
  const char *name;
  int ring_mib; /* of bf16 weights of one shape */
  struct shape shape[6];
};

static const struct model models[] = {
    {"tiny",
     0,
     {{"qkv", 256, 64, 2},
      {"o", 64, 128, 2},
      {"gate+up", 256, 64, 2},
      {"down", 64, 128, 2},
      {"head", 320, 64, 1}}},
    {"0.6B",
     96,
     {{"qkv", 4096, 1024, 28},
      {"o", 1024, 2048, 28},
      {"gate+up", 6144, 1024, 28},
      {"down", 1024, 3072, 28},
      {"head", 151936, 1024, 1}}},
};
static const uint32_t batches[] = {1, 32, 128};

typedef void sgemm_fn(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a,
                      int lda, const float *b, int ldb, float beta, float *c, int ldc);
typedef void threads_fn(int n);

struct blas {
  sgemm_fn *sgemm;
  threads_fn *threads;
};

/* It chooses its kernels as it is loaded, and does not know all processors that have AVX-512. */
static struct blas find_blas(void)
{
  struct blas b = {0};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bw"))
    setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
#endif
  void *lib = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (lib) {
    b.sgemm = (sgemm_fn *)dlsym(lib, "cblas_sgemm");
    b.threads = (threads_fn *)dlsym(lib, "openblas_set_num_threads");
  }
  return b;
}

static double now(int threads)
{
  struct timespec t;
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

struct median {
  double value, spread;
};

static struct median median_of(double *x, int n)
{
  qsort(x, (size_t)n, sizeof *x, by_value);
  const double m = x[n / 2];
  return (struct median){m, (x[n * 9 / 10] - x[n / 10]) / m};
}

static void *get(size_t bytes)
{
  void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (!p) {
    fprintf(stderr, "out of memory (%zu bytes)\n", bytes);
    exit(6);
  }
  return p;
}

/* ---- the rate of memory ---- */
typedef uint64_t wide __attribute__((vector_size(16)));

struct reading {
  const char *at;
  size_t bytes;
  volatile uint64_t sum;
};

static void read_share(void *job, unsigned thread, unsigned threads)
{
  struct reading *r = job;
  wide s[4] = {{0}};
  const size_t part = r->bytes / 64 / threads * 64;
  const wide *p = (const wide *)(const void *)(r->at + part * thread);
  for (size_t i = 0; i < part / 16; i += 4)
    for (int j = 0; j < 4; j++)
      s[j] += p[i + (size_t)j];
  r->sum += s[0][0] + s[1][0] + s[2][0] + s[3][0];
}

/* Bytes a second. */
static struct median memory_rate(int threads)
{
  struct base_error e = {0};
  struct reading r = {.bytes = (size_t)256 * MIB};
  char *p = get(r.bytes);
  double rate[SAMPLES];
  struct cpu_pool *pool = cpu_pool_create(NULL, threads, &e);
  memset(p, 1, r.bytes);
  r.at = p;
  for (int i = 0; i < SAMPLES && pool; i++) {
    double start = now(threads);
    cpu_pool_run(pool, read_share, &r);
    rate[i] = (double)r.bytes / (now(threads) - start);
  }
  cpu_pool_destroy(pool);
  free(p);
  return median_of(rate, SAMPLES);
}

/* ---- one shape ---- */
struct bench {
  struct ops *ops;
  struct blas blas;
  int threads, samples;
  const struct model *model;
  const struct shape *s;
  uint32_t rows;
  uint16_t *w; /* [copies][n][k] */
  float *w32;  /* the same for OpenBLAS */
  size_t copies, copies32, turn, turn32;
  float *x, *y;
};

static void ours(struct bench *b)
{
  const size_t n = (size_t)b->s->n * b->s->k;
  struct tensor t = {TENSOR_BF16, b->s->n, b->s->k, b->w + n * (b->turn++ % b->copies)};
  b->ops->table->linear(b->ops, b->y, b->x, &t, NULL, b->rows);
}

static void theirs(struct bench *b)
{
  const int n = (int)b->s->n, k = (int)b->s->k;
  const float *w = b->w32 + (size_t)n * (size_t)k * (b->turn32++ % b->copies32);
  b->blas.sgemm(101, 111, 112, (int)b->rows, n, k, 1, b->x, k, w, k, 0, b->y, n);
}

/* Seconds of a call, of as many calls as take some milliseconds. */
static double seconds(struct bench *b, void (*f)(struct bench *))
{
  int calls = 0;
  const double start = now(b->threads);
  double end;
  do {
    f(b);
    calls++;
    end = now(b->threads);
  } while (end - start < 5e-3);
  return (end - start) / calls;
}

static void fill(uint16_t *w, size_t n)
{
  uint32_t u = 1;
  for (size_t i = 0; i < n; i++)
    w[i] = bf16_from_f32((float)((u = u * 1664525 + 1013904223) >> 16) / 65536.f - 0.5f);
}

static void set_up(struct bench *b)
{
  const size_t n = (size_t)b->s->n * b->s->k, ring = (size_t)b->model->ring_mib * MIB;
  b->copies = b->model->ring_mib ? (ring + 2 * n - 1) / (2 * n) : (size_t)b->s->times;
  b->copies32 = b->model->ring_mib ? (ring + 4 * n - 1) / (4 * n) : (size_t)b->s->times;
  b->w = get(b->copies * n * 2);
  for (size_t i = 0; i < b->copies; i++)
    fill(b->w + i * n, n);
  b->x = get((size_t)MAX_ROWS * b->s->k * 4);
  b->y = get((size_t)MAX_ROWS * b->s->n * 4);
  for (size_t i = 0; i < (size_t)MAX_ROWS * b->s->k; i++)
    b->x[i] = bf16_to_f32(b->w[i % n]);
  if (b->blas.sgemm) {
    b->w32 = get(b->copies32 * n * 4);
    for (size_t i = 0; i < b->copies32 * n; i++)
      b->w32[i] = bf16_to_f32(b->w[i % n]);
  }
}

static void tear_down(struct bench *b)
{
  free(b->w);
  free(b->w32);
  free(b->x);
  free(b->y);
  b->w32 = NULL;
}

struct result {
  struct median ours, theirs; /* seconds a call */
};

static struct result measure(struct bench *b)
{
  double a[SAMPLES], c[SAMPLES];
  for (int i = 0; i < b->samples; i++) {
    a[i] = seconds(b, ours);
    c[i] = b->blas.sgemm ? seconds(b, theirs) : 1;
  }
  return (struct result){median_of(a, b->samples), median_of(c, b->samples)};
}

/* ---- the table ---- */
static void print_row(const struct bench *b, struct result r, double rate)
{
  const double n = b->s->n, k = b->s->k, flop = 2 * n * k * b->rows / b->threads * 1e-9;
  printf("%-5s %-8s %6.0f x %-5.0f %4" PRIu32 " %7.1f %4.0f%%", b->model->name, b->s->name, n, k,
         b->rows, flop / r.ours.value, 100 * r.ours.spread);
  if (b->blas.sgemm)
    printf(" %8.1f %4.0f%% %6.2f", flop / r.theirs.value, 100 * r.theirs.spread,
           r.theirs.value / r.ours.value);
  else
    printf(" %8s %5s %6s", "-", "-", "-");
  printf(" %7.1f %6.0f%%\n", 2 * n * k / r.ours.value * 1e-9, 200 * n * k / r.ours.value / rate);
}

static void bench_model(struct bench *b, double rate)
{
  double ours_s[3] = {0}, theirs_s[3] = {0}, bytes = 0;
  for (b->s = b->model->shape; b->s->name; b->s++) {
    set_up(b);
    bytes += 2.0 * b->s->n * b->s->k * b->s->times;
    for (int i = 0; i < 3; i++) {
      b->rows = batches[i];
      struct result r = measure(b);
      print_row(b, r, rate);
      ours_s[i] += r.ours.value * b->s->times;
      theirs_s[i] += r.theirs.value * b->s->times;
    }
    tear_down(b);
  }
  for (int i = 0; i < 3; i++) {
    printf("%-5s all linear layers, batch %" PRIu32 ": %.1f tokens/s", b->model->name, batches[i],
           batches[i] / ours_s[i]);
    if (b->blas.sgemm)
      printf(", by OpenBLAS %.1f", batches[i] / theirs_s[i]);
    printf(", weights read once %.1f\n", batches[i] * rate / bytes);
  }
}

static int bench_threads(struct bench *b, int threads, const char *path)
{
  struct base_error e = {0};
  char text[1200];
  b->threads = threads;
  b->ops = cpu_ops_create(TENSOR_BF16, NULL, threads, path, &e);
  if (!b->ops) {
    fprintf(stderr, "%s\n", base_error_format(&e, text, sizeof text));
    return e.code;
  }
  if (b->blas.threads)
    b->blas.threads(threads);
  struct median rate = memory_rate(threads);
  printf("\n%d thread%s, path %s; memory is read at %.1f GB/s (spread %.0f%%)%s\n", threads,
         threads == 1 ? "" : "s", b->ops->path, rate.value * 1e-9, 100 * rate.spread,
         b->blas.sgemm ? "" : "; no libopenblas.so.0 here: not compared");
  printf("%-5s %-8s %14s %4s %7s %5s %8s %5s %6s %7s %7s\n", "model", "linear", "out x in", "rows",
         "GFLOP/s", "+-", "OpenBLAS", "+-", "times", "GB/s", "of read");
  for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
    b->model = &models[i];
    bench_model(b, rate.value);
  }
  cpu_ops_destroy(b->ops);
  return 0;
}

int main(int argc, char **argv)
{
  struct bench b = {.blas = find_blas(), .samples = SAMPLES};
  const char *path = NULL;
  int one = 0;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--quick") == 0)
      b.samples = 3;
    else if (strcmp(argv[i], "--one") == 0)
      one = 1;
    else
      path = argv[i];
  }
  printf("GFLOP/s are of one core; GB/s of weights; 'times' as fast as OpenBLAS's sgemm\n");
  int code = bench_threads(&b, 1, path);
  const int all = (int)sysconf(_SC_NPROCESSORS_ONLN);
  if (code == 0 && all > 1 && !one)
    code = bench_threads(&b, all, path);
  return code;
}
