/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lull train: a model or an adapter learns word problems. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/store.h"
#include "backend/tokenizer.h"
#include "base/outfile.h"
#include "cli/commands.h"
#include "cli/lesson.h"
#include "cli/outputs.h"
#include "cli/progress.h"

enum { ROWS_TOLD = 10 };

/* All that a training holds, so that one place can let go of it. */
struct job {
  const struct cli_options *o;
  struct weights *w; /* of the folder; with -o a copy that is trained */
  struct adapter *a;
  struct ops *ops;
  struct grad *grad;
  struct trainer *trainer;
  struct lesson_plan plan;
  struct trainer_schedule schedule;
  uint64_t held_out;
  struct base_outfile losses;
  struct cli_progress progress;
};

/* ------------------------------------------------------------------------------ what is asked - */

static uint64_t or_else(uint64_t given, uint64_t otherwise)
{
  return given ? given : otherwise;
}

static const char *const target_names[LORA_TARGETS] = {
    [LORA_Q] = "q",       [LORA_K] = "k",   [LORA_V] = "v",      [LORA_O] = "o",
    [LORA_GATE] = "gate", [LORA_UP] = "up", [LORA_DOWN] = "down"};

/* The bits of a list like "q,v"; 0 with an error. */
static unsigned parse_targets(const char *list, struct base_error *e)
{
  unsigned bits = 0;
  for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
    size_t n = strcspn(at, ",");
    int k = 0;
    while (k < LORA_TARGETS && (strlen(target_names[k]) != n || strncmp(target_names[k], at, n)))
      k++;
    if (k == LORA_TARGETS) {
      base_fail(e, BASE_USAGE, "--targets: '%.*s' must be q, k, v, o, gate, up or down", (int)n,
                at);
      return 0;
    }
    bits |= 1u << k;
  }
  return bits;
}

static int check_options(const struct cli_options *o, struct base_error *e)
{
  if (!o->weights_folder)
    return base_fail(e, BASE_USAGE, "lull train: no model is named; give --weights FOLDER");
  if (!o->output == !o->adapter)
    return base_fail(
        e, BASE_USAGE,
        "lull train: give either -o FOLDER, to train all weights, or --adapter FOLDER");
  if (!o->adapter && (o->rank || o->targets))
    return base_fail(e, BASE_USAGE, "lull train: --%s is of an adapter; give --adapter FOLDER",
                     o->rank ? "rank" : "targets");
  if (o->task && strcmp(o->task, "problems"))
    return base_fail(e, BASE_USAGE, "lull train: unknown task '%s'; there is 'problems'", o->task);
  if (o->schedule && strcmp(o->schedule, "cosine") && strcmp(o->schedule, "constant"))
    return base_fail(e, BASE_USAGE, "lull train: --schedule '%s' must be cosine or constant",
                     o->schedule);
  if (o->batch > 1 << 20 || o->seq > 1 << 20 || o->rank > ADAPTER_RANK_MAX || o->threads > 1 << 12)
    return base_fail(e, BASE_USAGE, "lull train: that is too large a %s",
                     o->batch > 1 << 20           ? "--batch"
                     : o->seq > 1 << 20           ? "--seq"
                     : o->rank > ADAPTER_RANK_MAX ? "--rank"
                                                  : "--threads");
  return 0;
}

static void set_plan(struct job *j)
{
  const struct cli_options *o = j->o;
  uint64_t steps = or_else(o->steps, 1000);
  double peak = o->rate > 0 ? o->rate : o->adapter ? 0.002 : 0.004;
  j->plan = (struct lesson_plan){.seed = o->has_seed ? o->seed : 1,
                                 .batch = or_else(o->batch, 32),
                                 .seq_tokens = (uint32_t)or_else(o->seq, 256)};
  j->schedule = (struct trainer_schedule){
      .peak = peak,
      .last = peak / 20,
      .steps = steps,
      .warmup = or_else(o->warmup, steps / 20 < 100 ? steps / 20 : 100),
      .cosine = !o->schedule || !strcmp(o->schedule, "cosine")};
  j->held_out = or_else(o->held_out, 200);
}

/* ------------------------------------------------------------------------------------ opening - */

static int open_weights(struct job *j, struct base_error *e)
{
  struct weights *w = weights_open(j->o->weights_folder, 1, e);
  if (w && w->config.vocab < LESSON_VOCAB) {
    base_fail_at(e, BASE_INPUT, j->o->weights_folder, 0,
                 "a vocabulary of %u is too small: problems are bytes and an end, %d tokens",
                 w->config.vocab, LESSON_VOCAB);
    weights_free(w);
    return -1;
  }
  if (!w || j->o->adapter) {
    j->w = w;
    return w ? 0 : -1;
  }
  j->w = weights_copy(w, w->dtype, e);
  weights_free(w);
  if (!j->w)
    return -1;
  j->w->config.bos = -1;
  j->w->config.eos[0] = LESSON_END;
  j->w->config.neos = 1;
  return 0;
}

static int open_adapter(struct job *j, struct base_error *e)
{
  unsigned targets = (1u << LORA_TARGETS) - 1;
  uint32_t rank = (uint32_t)or_else(j->o->rank, 8);
  if (j->o->targets && !(targets = parse_targets(j->o->targets, e)))
    return -1;
  j->a = adapter_random(&j->w->config, rank, 2 * (float)rank, targets, j->plan.seed, j->w->dtype,
                        e);
  return j->a ? 0 : -1;
}

static int open_trainer(struct job *j, struct base_error *e)
{
  struct trainer_options o = lesson_options(&j->plan);
  struct grad_limits most = trainer_limits(j->w, j->a, &o);
  j->ops = cpu_ops_create(j->w->dtype, NULL, (int)or_else(j->o->threads, 1), j->o->path, e);
  j->grad = j->ops ? cpu_grad_create(j->ops, &most, e) : NULL;
  j->trainer = j->grad ? trainer_create(j->w, j->a, j->grad, &o, e) : NULL;
  return j->trainer ? 0 : -1;
}

static int open_all(struct job *j, struct base_error *e)
{
  const char *folder = j->o->adapter ? j->o->adapter : j->o->output;
  if (store_check_folder(folder, e) || (!j->o->force && store_check_free(folder, e)) ||
      open_weights(j, e) || (j->o->adapter && open_adapter(j, e)) || open_trainer(j, e))
    return -1;
  if (!j->o->losses)
    return 0;
  if (base_outfile_open(&j->losses, j->o->losses, e))
    return -1;
  fputs("step,loss,rate,norm\n", j->losses.f);
  return 0;
}

static void job_free(struct job *j)
{
  cli_progress_clear(&j->progress);
  base_outfile_abandon(&j->losses);
  trainer_destroy(j->trainer);
  cpu_grad_destroy(j->grad);
  cpu_ops_destroy(j->ops);
  adapter_free(j->a);
  weights_free(j->w);
}

/* ----------------------------------------------------------------------------------- training - */

static void tell_step(struct job *j, uint64_t step, double loss, double rate, double norm)
{
  char what[64];
  uint64_t every = j->schedule.steps / ROWS_TOLD ? j->schedule.steps / ROWS_TOLD : 1;
  if (j->losses.f)
    fprintf(j->losses.f, "%" PRIu64 ",%.6g,%.6g,%.6g\n", step + 1, loss, rate, norm);
  if (step == 0 || (step + 1) % every == 0 || step + 1 == j->schedule.steps) {
    cli_progress_clear(&j->progress);
    printf("%8" PRIu64 " %9.4f %10.3g %9.3f\n", step + 1, loss, rate, norm);
    fflush(stdout);
  }
  snprintf(what, sizeof what, "step %" PRIu64 " of %" PRIu64 ", loss %.4f", step + 1,
           j->schedule.steps, loss);
  cli_progress_draw(&j->progress, what, (double)(step + 1) / (double)j->schedule.steps);
}

/* 0 when all steps are done or a signal came. */
static int train(struct job *j, struct base_error *e)
{
  puts("    step      loss       rate      norm");
  for (uint64_t step = 0; step < j->schedule.steps && !cli_stop; step++) {
    struct trainer_loss loss;
    double norm, rate = trainer_rate(&j->schedule, step);
    int r = lesson_micros(j->trainer, &j->plan, step, &cli_stop, &loss, e);
    if (r == TRAINER_ABORTED)
      break;
    if (r || trainer_step(j->trainer, (float)rate, &norm, e))
      return -1;
    tell_step(j, step, loss.sum / (double)loss.tokens, rate, norm);
  }
  cli_progress_clear(&j->progress);
  return 0;
}

/* A trained model gets the tokenizer of the bytes that it was trained on. */
static int write_all(struct job *j, struct base_error *e)
{
  static const char *const special[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  const char *folder = j->o->adapter ? j->o->adapter : j->o->output;
  if (trainer_write(j->trainer, folder, e))
    return -1;
  if (j->losses.f && base_outfile_commit(&j->losses, e))
    return -1;
  if (j->o->adapter)
    return 0;
  size_t n = strlen(folder) + sizeof "/tokenizer.json";
  char *path = malloc(n);
  if (!path)
    return base_fail_memory(e);
  snprintf(path, n, "%s/tokenizer.json", folder);
  uint32_t room = j->w->config.vocab - LESSON_END;
  int r = tokenizer_write_bytes(path, special, room < 3 ? room : 3, e);
  free(path);
  return r;
}

/* Nothing is told once a signal came. */
static int tell_loss(struct job *j, const char *when, struct base_error *e)
{
  struct trainer_loss loss;
  int r = lesson_held_out(j->trainer, &j->plan, j->held_out, &cli_stop, &loss, e);
  if (r)
    return r == TRAINER_ABORTED ? 0 : -1;
  printf("held-out loss %s %.4f over %" PRIu64 " problems\n", when, loss.sum / (double)loss.tokens,
         j->held_out);
  return 0;
}

static int tell_score(struct job *j, struct base_error *e)
{
  uint64_t done, right;
  if (lesson_score(j->w, j->a, j->ops, j->plan.seed, j->held_out, &cli_stop, &done, &right, e))
    return -1;
  printf("solved %" PRIu64 " of %" PRIu64 " held-out problems\n", right, done);
  return 0;
}

static int run(struct job *j, struct base_error *e)
{
  printf("%s, kernels %s, %zu of %" PRId64 " parameters, %zu bytes of state\n",
         j->w->dtype == TENSOR_BF16 ? "bfloat16" : "float32", j->ops->path,
         trainer_parameters(j->trainer), config_parameters(&j->w->config),
         trainer_state_bytes(j->trainer));
  if (tell_loss(j, "before", e) || train(j, e) || write_all(j, e))
    return -1;
  return cli_stop ? 0 : tell_loss(j, "after ", e) || tell_score(j, e) ? -1 : 0;
}

static void tell_stopped(const struct job *j)
{
  uint64_t done = trainer_steps(j->trainer), all = j->schedule.steps;
  if (done == all)
    fputs("lull: stopped by a signal: all steps are done and written, but not judged\n", stderr);
  else
    fprintf(stderr,
            "lull: stopped by a signal after %" PRIu64 " of %" PRIu64
            " steps: what is written is partial\n",
            done, all);
}

int cli_train(struct cli_line *line)
{
  struct base_error e = {0};
  struct job j = {.o = &line->options};
  int code = BASE_OK;
  cli_progress_open(&j.progress, line->options.quiet);
  if (check_options(j.o, &e) || cli_catch_signals(&e) || (set_plan(&j), open_all(&j, &e)) ||
      run(&j, &e)) {
    cli_progress_clear(&j.progress);
    code = cli_fail(&e);
  } else if (cli_stop) {
    code = BASE_INCOMPLETE;
    tell_stopped(&j);
  }
  job_free(&j);
  return code;
}
