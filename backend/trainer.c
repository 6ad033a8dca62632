/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The trainer: what is trained, micro-batches, steps. The pass itself is in trainer_pass.c. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/model.h"
#include "backend/trainer_inner.h"

struct trainer_options trainer_defaults(uint32_t max_tokens)
{
  return (struct trainer_options){.max_tokens = max_tokens,
                                  .beta1 = 0.9f,
                                  .beta2 = 0.999f,
                                  .eps = 1e-8f,
                                  .decay = 0.01f,
                                  .clip = 1};
}

static uint32_t seq_tokens(const struct trainer_options *o)
{
  return o->max_seq_tokens ? o->max_seq_tokens : o->max_tokens;
}

struct grad_limits trainer_limits(const struct weights *w, const struct adapter *a,
                                  const struct trainer_options *o)
{
  const struct config *c = &w->config;
  uint32_t width = c->q_heads * c->head_dim;
  width = width > c->hidden ? width : c->hidden;
  width = width > c->intermediate ? width : c->intermediate;
  return (struct grad_limits){.tokens = o->max_tokens,
                              .width = width,
                              .seq_tokens = seq_tokens(o),
                              .head_dim = c->head_dim,
                              .rank = a ? a->rank : 0};
}

/* --------------------------------------------------------------------------- what is trained ---
 */

static void add_param(struct trainer *t, struct tensor *tensor)
{
  size_t n = (size_t)tensor->rows * tensor->cols;
  if (t->param)
    t->param[t->nparams] = (struct trainer_param){tensor, t->total, n, tensor->rows > 1};
  t->nparams++;
  t->total += n;
}

static int visit_param(void *ctx, const char *name, struct tensor *tensor)
{
  add_param(ctx, tensor);
  return 0;
}

static void list_params(struct trainer *t)
{
  t->nparams = t->total = 0;
  if (!t->a) {
    weights_visit(t->w, visit_param, t);
    return;
  }
  for (size_t i = 0; i < (size_t)t->a->layers * LORA_TARGETS; i++)
    if (t->a->pair[i].a.data) {
      add_param(t, &t->a->pair[i].a);
      add_param(t, &t->a->pair[i].b);
    }
}

static int by_address(const void *a, const void *b)
{
  const struct trainer_param *x = a, *y = b;
  return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

static const struct trainer_param *param_of(const struct trainer *t, const struct tensor *of)
{
  struct trainer_param key = {.tensor = (struct tensor *)of};
  return bsearch(&key, t->param, t->nparams, sizeof key, by_address);
}

float *trainer_fresh(const struct trainer *t, const struct tensor *of)
{
  const struct trainer_param *p = param_of(t, of);
  return p ? t->fresh + p->at : NULL;
}

const float *trainer_gradient(const struct trainer *t, const struct tensor *of)
{
  const struct trainer_param *p = param_of(t, of);
  return p ? t->sum + p->at : NULL;
}

/* ------------------------------------------------------------------------------------ memory ---
 */

static void *take(struct trainer *t, size_t bytes)
{
  void *p = t->g->ops->table->alloc(t->g->ops, bytes);
  t->bytes += p ? bytes : 0;
  return p;
}

static float *take_floats(struct trainer *t, size_t n)
{
  return take(t, n * sizeof(float));
}

static void *take_rows(struct trainer *t, uint32_t width)
{
  return take(t, (size_t)t->o.max_tokens * width * t->g->ops->table->act_bytes);
}

uint32_t trainer_width(const struct config *c, int kept)
{
  switch (kept) {
  case KEPT_Q_RAW:
  case KEPT_Q:
  case KEPT_ATTENDED:
    return c->q_heads * c->head_dim;
  case KEPT_K_RAW:
  case KEPT_K:
  case KEPT_V:
    return c->kv_heads * c->head_dim;
  case KEPT_GATE:
  case KEPT_UP:
  case KEPT_GATED:
    return c->intermediate;
  default:
    return c->hidden;
  }
}

void *trainer_kept_at(const struct trainer *t, uint32_t layer, int kept)
{
  uint32_t slot = t->o.recompute && kept != KEPT_X ? 0 : layer;
  return t->kept[(size_t)slot * KEPT_COUNT + (size_t)kept];
}

static int take_kept(struct trainer *t)
{
  const struct config *c = &t->w->config;
  t->kept = calloc((size_t)c->layers * KEPT_COUNT, sizeof *t->kept);
  t->lse = calloc(c->layers, sizeof *t->lse);
  if (!t->kept || !t->lse)
    return -1;
  for (uint32_t l = 0; l < c->layers; l++)
    for (int i = 0; i < KEPT_COUNT; i++) {
      if (t->o.recompute && l > 0 && i != KEPT_X)
        continue;
      void *p = take_rows(t, trainer_width(c, i));
      t->kept[(size_t)l * KEPT_COUNT + (size_t)i] = p;
      if (!p)
        return -1;
    }
  for (uint32_t l = 0; l < (t->o.recompute ? 1 : c->layers); l++)
    if (!(t->lse[l] = take_floats(t, (size_t)t->o.max_tokens * c->q_heads)))
      return -1;
  return 0;
}

static int take_slopes(struct trainer *t)
{
  static const int like[SLOPE_COUNT] = {
      [SLOPE_X] = KEPT_X,       [SLOPE_NORMED] = KEPT_X, [SLOPE_Q] = KEPT_Q,
      [SLOPE_K] = KEPT_K,       [SLOPE_V] = KEPT_V,      [SLOPE_ATTENDED] = KEPT_Q,
      [SLOPE_GATE] = KEPT_GATE, [SLOPE_UP] = KEPT_UP,    [SLOPE_GATED] = KEPT_GATED};
  for (int i = 0; i < SLOPE_COUNT; i++)
    if (!(t->slope[i] = take_floats(t, (size_t)t->o.max_tokens *
                                           trainer_width(&t->w->config, like[i]))))
      return -1;
  return 0;
}

/* Logits of this many rows are 16 MiB at most, and of 256 rows. */
static uint32_t chunk_of(const struct trainer *t)
{
  uint32_t n = (4u << 20) / t->w->config.vocab;
  n = n < 1 ? 1 : n > 256 ? 256 : n;
  return n < t->o.max_tokens ? n : t->o.max_tokens;
}

static int take_workspace(struct trainer *t)
{
  const struct config *c = &t->w->config;
  size_t rows = t->o.max_tokens;
  t->chunk = chunk_of(t);
  t->x = take_rows(t, c->hidden);
  t->delta = take_rows(t, c->hidden);
  t->last = take_rows(t, c->hidden);
  t->logits = take(t, (size_t)t->chunk * c->vocab * t->g->ops->table->act_bytes);
  t->dlogits = take_floats(t, (size_t)t->chunk * c->vocab);
  t->turn = take_floats(t, rows * c->head_dim);
  t->loss = take_floats(t, t->chunk);
  t->picked = take(t, (size_t)t->chunk * c->hidden * t->g->ops->table->act_bytes);
  t->dpicked = take_floats(t, (size_t)t->chunk * c->hidden);
  t->losses = calloc(t->chunk, sizeof *t->losses);
  t->picked_row = calloc(t->chunk, sizeof *t->picked_row);
  t->picked_target = calloc(t->chunk, sizeof *t->picked_target);
  t->inv_freq = calloc(c->head_dim / 2 + 1, sizeof *t->inv_freq);
  t->token = calloc(rows, sizeof *t->token);
  t->target = calloc(rows, sizeof *t->target);
  t->position = calloc(rows, sizeof *t->position);
  t->seq = calloc(rows, sizeof *t->seq);
  if (!t->x || !t->delta || !t->last || !t->logits || !t->dlogits || !t->turn || !t->loss ||
      !t->picked || !t->dpicked || !t->losses || !t->picked_row || !t->picked_target ||
      !t->inv_freq || !t->token || !t->target || !t->position || !t->seq)
    return -1;
  model_inv_freq(c, t->inv_freq);
  return take_kept(t) || take_slopes(t) ? -1 : 0;
}

/* Masters from the weights, by way of the host. */
static int fill_masters(struct trainer *t)
{
  for (size_t i = 0; i < t->nparams; i++) {
    const struct trainer_param *p = &t->param[i];
    float *x = malloc(p->n * sizeof *x);
    if (!x)
      return -1;
    for (size_t k = 0; k < p->n; k++)
      x[k] = tensor_get(p->tensor, k);
    t->g->ops->table->copy(t->g->ops, t->master + p->at, x, p->n * sizeof *x);
    free(x);
  }
  return 0;
}

static int take_state(struct trainer *t)
{
  t->master = take_floats(t, t->total);
  t->m = take_floats(t, t->total);
  t->v = take_floats(t, t->total);
  t->sum = take_floats(t, t->total);
  t->fresh = take_floats(t, t->total);
  if (!t->master || !t->m || !t->v || !t->sum || !t->fresh)
    return -1;
  t->g->table->zero(t->g, t->m, t->total);
  t->g->table->zero(t->g, t->v, t->total);
  t->g->table->zero(t->g, t->sum, t->total);
  return fill_masters(t);
}

struct trainer *trainer_create(struct weights *w, struct adapter *a, struct grad *g,
                               const struct trainer_options *o, struct base_error *e)
{
  struct ops *ops = g->ops;
  if (ops->table->check && ops->table->check(ops, &w->config, e))
    return NULL;
  struct trainer *t = calloc(1, sizeof *t);
  if (!t) {
    base_fail_memory(e);
    return NULL;
  }
  assert(o->max_tokens > 0);
  *t = (struct trainer){.w = w, .a = a, .g = g, .o = *o};
  t->o.max_seq_tokens = seq_tokens(o);
  list_params(t);
  t->param = calloc(t->nparams + 1, sizeof *t->param);
  if (t->param)
    list_params(t);
  if (!t->param || take_state(t) || take_workspace(t)) {
    base_fail(e, BASE_ENV, "no memory for training %zu parameters with micro-batches of %u tokens",
              t->total, o->max_tokens);
    trainer_destroy(t);
    return NULL;
  }
  qsort(t->param, t->nparams, sizeof *t->param, by_address);
  return t;
}

void trainer_destroy(struct trainer *t)
{
  if (!t)
    return;
  void *taken[] = {t->master, t->m,      t->v,    t->sum,  t->fresh,   t->x,      t->delta,
                   t->last,   t->logits, t->turn, t->loss, t->dlogits, t->picked, t->dpicked};
  struct ops *ops = t->g->ops;
  for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
    ops->table->free(ops, taken[i]);
  for (int i = 0; i < SLOPE_COUNT; i++)
    ops->table->free(ops, t->slope[i]);
  for (size_t i = 0; t->kept && i < (size_t)t->w->config.layers * KEPT_COUNT; i++)
    ops->table->free(ops, t->kept[i]);
  for (uint32_t l = 0; t->lse && l < t->w->config.layers; l++)
    ops->table->free(ops, t->lse[l]);
  free(t->kept);
  free(t->lse);
  free(t->param);
  free(t->inv_freq);
  free(t->losses);
  free(t->picked_row);
  free(t->picked_target);
  free(t->token);
  free(t->target);
  free(t->position);
  free(t->seq);
  free(t);
}

/* ------------------------------------------------------------------------------- micro-batch ---
 */

static int check_seq(const struct trainer *t, const struct trainer_seq *s, struct base_error *e)
{
  uint32_t most = t->o.max_seq_tokens;
  most = most < t->w->config.max_position ? most : t->w->config.max_position;
  if (s->n < 2)
    return base_fail(e, BASE_INPUT, "a sequence of %u tokens teaches nothing: give at least 2",
                     s->n);
  if (s->n - 1 > most)
    return base_fail(e, BASE_INPUT, "a sequence of %u tokens is too long: %u is the most", s->n,
                     most + 1);
  for (uint32_t i = 0; i < s->n; i++)
    if (s->token[i] < 0 || (uint32_t)s->token[i] >= t->w->config.vocab)
      return base_fail(e, BASE_INPUT, "token %d is outside the vocabulary of %u", s->token[i],
                       t->w->config.vocab);
  return 0;
}

static uint64_t load_seq(struct trainer *t, const struct trainer_seq *s)
{
  uint64_t counted = 0;
  t->seq[t->nseq++] = (struct grad_seq){t->rows, s->n - 1};
  for (uint32_t i = 0; i + 1 < s->n; i++, t->rows++) {
    int counts = !s->counted || s->counted[i + 1];
    t->token[t->rows] = s->token[i];
    t->target[t->rows] = counts ? s->token[i + 1] : -1;
    t->position[t->rows] = i;
    counted += (uint64_t)counts;
  }
  return counted;
}

static int load(struct trainer *t, const struct trainer_seq *seq, uint32_t nseq, uint64_t *counted,
                struct base_error *e)
{
  t->rows = t->nseq = 0;
  *counted = 0;
  for (uint32_t i = 0; i < nseq; i++) {
    if (check_seq(t, &seq[i], e))
      return -1;
    if (seq[i].n - 1 > t->o.max_tokens - t->rows)
      return base_fail(e, BASE_INPUT, "the micro-batch has more than %u tokens", t->o.max_tokens);
    *counted += load_seq(t, &seq[i]);
  }
  if (!*counted)
    return base_fail(e, BASE_INPUT, "no token of the micro-batch counts");
  return 0;
}

static int check_loss(const struct trainer *t, struct base_error *e)
{
  if (isfinite(t->loss_sum))
    return 0;
  return base_fail(e, BASE_INPUT,
                   "the loss of step %llu is no number: the learning rate may be too high, or the "
                   "weights are broken",
                   (unsigned long long)t->steps + 1);
}

/* The first micro-batch's gradients become the sum; later ones are added. */
static void gather(struct trainer *t, uint64_t counted)
{
  if (t->counted)
    t->g->table->add(t->g, t->sum, t->fresh, t->total);
  else {
    float *swap = t->sum;
    t->sum = t->fresh;
    t->fresh = swap;
  }
  t->counted += counted;
}

int trainer_micro(struct trainer *t, const struct trainer_seq *seq, uint32_t nseq,
                  const volatile int *stop, struct trainer_loss *loss, struct base_error *e)
{
  struct trainer_loss l;
  if (load(t, seq, nseq, &l.tokens, e))
    return -1;
  t->stop = stop;
  if (trainer_forward(t))
    return TRAINER_ABORTED;
  t->g->table->zero(t->g, t->fresh, t->total);
  trainer_head(t, 1);
  if (check_loss(t, e))
    return -1;
  l.sum = t->loss_sum;
  if (trainer_backward(t))
    return TRAINER_ABORTED;
  gather(t, l.tokens);
  *loss = l;
  return 0;
}

int trainer_loss(struct trainer *t, const struct trainer_seq *seq, uint32_t nseq,
                 struct trainer_loss *loss, struct base_error *e)
{
  struct trainer_loss l;
  if (load(t, seq, nseq, &l.tokens, e))
    return -1;
  t->stop = NULL;
  trainer_forward(t);
  trainer_head(t, 0);
  if (check_loss(t, e))
    return -1;
  l.sum = t->loss_sum;
  *loss = l;
  return 0;
}

/* -------------------------------------------------------------------------------------- step ---
 */

static void step_param(struct trainer *t, const struct trainer_param *p, float rate, float scale)
{
  double n = (double)(t->steps + 1);
  struct grad_adamw s = {.p = t->master + p->at,
                         .m = t->m + p->at,
                         .v = t->v + p->at,
                         .grad = t->sum + p->at,
                         .n = p->n,
                         .scale = scale,
                         .rate = rate,
                         .beta1 = t->o.beta1,
                         .beta2 = t->o.beta2,
                         .eps = t->o.eps,
                         .decay = p->decay || t->o.decay_vectors ? t->o.decay : 0,
                         .correct1 = (float)(1 - pow((double)t->o.beta1, n)),
                         .correct2 = (float)(1 - pow((double)t->o.beta2, n))};
  t->g->table->adamw(t->g, &s);
  t->g->table->publish(t->g, p->tensor, s.p);
}

int trainer_step(struct trainer *t, float rate, double *norm, struct base_error *e)
{
  if (!t->counted)
    return base_fail(e, BASE_INPUT, "step %llu has no gradients", (unsigned long long)t->steps + 1);
  double size = sqrt(t->g->table->square_sum(t->g, t->sum, t->total)) / (double)t->counted;
  if (!isfinite(size))
    return base_fail(e, BASE_INPUT,
                     "a gradient of step %llu is no number: the learning rate may be too high",
                     (unsigned long long)t->steps + 1);
  double scale = 1 / (double)t->counted;
  if (t->o.clip > 0 && size > (double)t->o.clip)
    scale *= (double)t->o.clip / size;
  for (size_t i = 0; i < t->nparams; i++)
    step_param(t, &t->param[i], rate, (float)scale);
  t->steps++;
  trainer_discard(t);
  if (norm)
    *norm = size;
  return 0;
}

void trainer_discard(struct trainer *t)
{
  t->g->table->zero(t->g, t->sum, t->total);
  t->counted = 0;
}

uint64_t trainer_steps(const struct trainer *t)
{
  return t->steps;
}

size_t trainer_parameters(const struct trainer *t)
{
  return t->total;
}

size_t trainer_state_bytes(const struct trainer *t)
{
  return t->bytes;
}

int trainer_write(const struct trainer *t, const char *folder, struct base_error *e)
{
  return t->a ? adapter_write(t->a, folder, e) : weights_write(t->w, folder, e);
}

double trainer_rate(const struct trainer_schedule *s, uint64_t step)
{
  if (step < s->warmup)
    return s->peak * (double)(step + 1) / (double)s->warmup;
  if (!s->cosine || s->steps <= s->warmup)
    return s->peak;
  double part = (double)(step - s->warmup) / (double)(s->steps - s->warmup);
  part = part > 1 ? 1 : part;
  return s->last + (s->peak - s->last) * 0.5 * (1 + cos(part * 3.14159265358979323846));
}
