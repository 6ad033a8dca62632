/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/device_train.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <xxhash.h>

#include "backend/cpu/cpu.h"
#include "backend/store.h"
#include "cli/lesson.h"

enum { SEQ_TOKENS = 256, HELD_OUT = 32, ALL_TARGETS = (1 << LORA_TARGETS) - 1 };

struct device_train {
  struct device_trainer hook;
  struct scenario_training how;
  struct lesson_plan plan;
  struct ops *ops;
  struct adapter *a;
  struct grad *grad;
  struct trainer *trainer;
  uint64_t micro_steps;
  double before;
};

/* In the thread of its lane. What a stop leaves behind of a micro-step is never used. */
static int micro_step(void *ctx, const volatile int *stop, struct base_error *e)
{
  struct device_train *t = ctx;
  struct trainer_loss loss;
  int r = lesson_micros(t->trainer, &t->plan, t->micro_steps, stop, &loss, e);
  if (!r && (t->micro_steps + 1) % t->how.accumulate == 0)
    r = trainer_step(t->trainer, (float)t->how.rate, NULL, e);
  t->micro_steps += !r;
  return r == TRAINER_ABORTED ? DEVICE_STOPPED : r;
}

/* Operations bind their caller to the GPU's first core. Whoever opens a job is the world's thread
 * later, and no GPU's: what it wants computed is done in a thread that ends. */
struct errand {
  struct device_train *t;
  const struct device_train_place *place;
  int (*fn)(struct errand *m, struct base_error *e);
  struct base_error *e;
  double loss;
  int result;
};

static void *do_errand(void *errand)
{
  struct errand *m = errand;
  m->result = m->fn(m, m->e);
  return NULL;
}

static int run_errand(struct errand *m)
{
  pthread_t thread;
  if (pthread_create(&thread, NULL, do_errand, m))
    return base_fail(m->e, BASE_ENV, "no thread for training");
  pthread_join(thread, NULL);
  return m->result;
}

static int held_out(struct errand *m, struct base_error *e)
{
  struct trainer_loss sum;
  if (lesson_held_out(m->t->trainer, &m->t->plan, HELD_OUT, NULL, &sum, e))
    return -1;
  m->loss = sum.sum / (double)sum.tokens;
  return 0;
}

static int open_all(struct errand *m, struct base_error *e)
{
  struct device_train *t = m->t;
  const struct device_train_place *p = m->place;
  const struct trainer_options o = lesson_options(&t->plan);
  t->ops = cpu_ops_create(p->w->dtype, p->core, p->threads, p->path, e);
  t->a = t->ops ? adapter_random(&p->w->config, t->how.rank, 2 * (float)t->how.rank, ALL_TARGETS,
                                 p->seed, p->w->dtype, e)
                : NULL;
  if (!t->a)
    return -1;
  const struct grad_limits most = trainer_limits(p->w, t->a, &o);
  t->grad = cpu_grad_create(t->ops, &most, e);
  t->trainer = t->grad ? trainer_create(p->w, t->a, t->grad, &o, e) : NULL;
  return t->trainer ? held_out(m, e) : -1;
}

struct device_train *device_train_open(const struct device_train_place *p,
                                       const struct scenario_training *how, struct base_error *e)
{
  struct device_train *t = calloc(1, sizeof *t);
  if (!t) {
    base_fail_memory(e);
    return NULL;
  }
  t->hook = (struct device_trainer){.ctx = t, .micro_step = micro_step};
  t->how = *how;
  t->plan = (struct lesson_plan){.seed = p->seed, .batch = how->batch, .seq_tokens = SEQ_TOKENS};
  struct errand opening = {.t = t, .place = p, .fn = open_all, .e = e};
  if (run_errand(&opening)) {
    device_train_close(t);
    return NULL;
  }
  t->before = opening.loss;
  return t;
}

int64_t device_train_bytes(const struct device_train *t)
{
  size_t adapter = trainer_parameters(t->trainer) * tensor_dtype_bytes(t->ops->dtype);
  return (int64_t)(trainer_state_bytes(t->trainer) + adapter);
}

const struct device_trainer *device_train_hook(const struct device_train *t)
{
  return &t->hook;
}

/* XXH3-128 over the bytes of all matrices, lower-case hex. */
static int digest(const struct adapter *a, char hex[33], struct base_error *e)
{
  XXH3_state_t *x = XXH3_createState();
  if (!x)
    return base_fail_memory(e);
  XXH3_128bits_reset(x);
  for (size_t i = 0; i < (size_t)a->layers * LORA_TARGETS; i++) {
    XXH3_128bits_update(x, a->pair[i].a.data, tensor_bytes(&a->pair[i].a));
    XXH3_128bits_update(x, a->pair[i].b.data, tensor_bytes(&a->pair[i].b));
  }
  XXH128_hash_t h = XXH3_128bits_digest(x);
  XXH3_freeState(x);
  snprintf(hex, 33, "%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
  return 0;
}

int device_train_finish(struct device_train *t, int whole, struct experiment_training *out,
                        struct base_error *e)
{
  struct base_error why = {0};
  struct errand measuring = {.t = t, .fn = held_out, .e = &why, .loss = NAN};
  out->micro_steps = t->micro_steps;
  out->steps = trainer_steps(t->trainer);
  out->loss_before = t->before;
  int bad = whole && run_errand(&measuring);
  out->loss_after = measuring.loss;
  if (digest(t->a, out->digest, e))
    return -1;
  if (bad)
    return base_fail(e, BASE_ENV, "job '%s', after %" PRIu64 " micro-steps: %.600s", out->job,
                     t->micro_steps, why.text);
  return 0;
}

/* No name has a '+' in it. */
int device_train_write(const struct device_train *t, const char *folder,
                       const struct experiment_training *who, struct base_error *e)
{
  char name[512];
  snprintf(name, sizeof name, "%.120s%s%.120s+%.120s+%" PRIu64, who->arm,
           *who->candidate ? "+" : "", who->candidate, who->job, who->seed);
  char *path = store_path(folder, name, e);
  int bad = path ? trainer_write(t->trainer, path, e) : -1;
  free(path);
  return bad;
}

void device_train_close(struct device_train *t)
{
  if (!t)
    return;
  trainer_destroy(t->trainer);
  cpu_grad_destroy(t->grad);
  adapter_free(t->a);
  cpu_ops_destroy(t->ops);
  free(t);
}

/* ---------------------------------------------------------------------------------- the table --
 */

static void put_loss(double loss, FILE *out)
{
  if (isfinite(loss))
    fprintf(out, " %8.4f", loss);
  else
    fprintf(out, " %8s", "-");
}

void device_train_print(const struct experiment_training *t, size_t n, FILE *out)
{
  if (n)
    fprintf(out, "\n%-44s %8s %8s %8s %8s  %s\n", "Trained on the device", "micro", "steps", "loss",
            "after", "digest of the adapter");
  for (size_t i = 0; i < n; i++, t++) {
    char what[96];
    snprintf(what, sizeof what, "%.20s: %.24s%s%.16s, seed %" PRIu64, t->job, t->arm,
             *t->candidate ? " " : "", t->candidate, t->seed);
    fprintf(out, "%-44s %8" PRIu64 " %8" PRIu64, what, t->micro_steps, t->steps);
    put_loss(t->loss_before, out);
    put_loss(t->loss_after, out);
    fprintf(out, "  %s\n", t->digest);
  }
}
