/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The engine's life, and that of its sequences. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "backend/engine_inner.h"

void engine_lock(const struct engine *en)
{
  int bad = pthread_mutex_lock((pthread_mutex_t *)&en->lock);
  assert(!bad);
  (void)bad;
}

void engine_unlock(const struct engine *en)
{
  int bad = pthread_mutex_unlock((pthread_mutex_t *)&en->lock);
  assert(!bad);
  (void)bad;
}

/* -------------------------------------------------------------------------------- engine ---- */

static int check_options(const struct weights *w, const struct ops *ops,
                         const struct engine_options *o, struct base_error *e)
{
  static const char *const name[] = {"float32", "bfloat16"};
  if (w->dtype != ops->dtype)
    return base_fail(e, BASE_INPUT,
                     "the weights are %s and the device computes in %s; convert them, or ask for "
                     "the other",
                     name[w->dtype == TENSOR_BF16], name[ops->dtype == TENSOR_BF16]);
  if (!o->block_tokens || (o->block_tokens & (o->block_tokens - 1)))
    return base_fail(e, BASE_INPUT, "%" PRIu32 " tokens a page is no power of two",
                     o->block_tokens);
  if (!o->pages || o->pages > INT32_MAX || o->host_pages > INT32_MAX)
    return base_fail(e, BASE_INPUT, "%" PRIu32 " pages, %" PRIu32 " on the host: 1 to 2^31-1",
                     o->pages, o->host_pages);
  if (!o->max_tokens || !o->max_seqs)
    return base_fail(e, BASE_INPUT, "steps of no token or no sequence are asked for");
  return 0;
}

static void free_work(struct engine_work *k)
{
  free(k->entry);
  free(k->token);
  free(k->position);
  free(k->seq);
  free(k->lora);
  free(k->sampled);
  free(k->how);
  free(k->out);
  free(k->logprob);
}

static int make_work(struct engine_work *k, size_t n, struct base_error *e)
{
  k->entry = calloc(n, sizeof *k->entry);
  k->token = calloc(n, sizeof *k->token);
  k->position = calloc(n, sizeof *k->position);
  k->seq = calloc(n, sizeof *k->seq);
  k->lora = calloc(n, sizeof *k->lora);
  k->sampled = calloc(n, sizeof *k->sampled);
  k->how = calloc(n, sizeof *k->how);
  k->out = calloc(n, sizeof *k->out);
  k->logprob = calloc(n, sizeof *k->logprob);
  if (!k->entry || !k->token || !k->position || !k->seq || !k->lora || !k->sampled || !k->how ||
      !k->out || !k->logprob)
    return base_fail_memory(e);
  return 0;
}

struct engine *engine_create(const struct weights *w, struct ops *ops,
                             const struct engine_options *o, struct base_error *e)
{
  if (check_options(w, ops, o, e))
    return NULL;
  const struct config *c = &w->config;
  struct engine *en = calloc(1, sizeof *en);
  if (!en || pthread_mutex_init(&en->lock, NULL)) {
    free(en);
    base_fail_memory(e);
    return NULL;
  }
  en->w = w;
  en->ops = ops;
  en->o = *o;
  if (en->o.max_seqs > o->max_tokens)
    en->o.max_seqs = o->max_tokens;
  size_t page_bytes = (size_t)config_kv_bytes(c, tensor_dtype_bytes(ops->dtype)) * o->block_tokens;
  en->slot = calloc((size_t)o->adapters + 1, sizeof(struct adapter_version *));
  if (!en->slot) {
    base_fail_memory(e);
    goto destroy;
  }
  en->model = model_create(w, ops, o->max_tokens, en->o.max_seqs, e);
  if (!en->model || make_work(&en->work, o->max_tokens, e) ||
      page_pool_open(&en->device, ops, o->pages, page_bytes, e) ||
      page_pool_open(&en->host, NULL, o->host_pages, page_bytes, e))
    goto destroy;
  return en;
destroy:
  engine_destroy(en);
  return NULL;
}

/* ----------------------------------------------------------------------------- sequences ---- */

static void give_up_pages(struct engine *en, struct sequence *s)
{
  page_pool_give(engine_pool(en, s->on_host), s->npages, s->page);
  s->npages = 0;
  s->kv = 0;
  s->on_host = 0;
}

static void remove_sequence(struct engine *en, struct sequence *s)
{
  assert(s->use == FREE);
  give_up_pages(en, s);
  adapter_version_leave(en, s->adapter);
  HASH_DEL(en->sequences, s);
  free(s);
}

void engine_destroy(struct engine *en)
{
  if (!en)
    return;
  for (struct sequence *s = en->sequences, *next; s; s = next) {
    next = s->hh.next;
    remove_sequence(en, s);
  }
  for (uint32_t i = 0; en->slot && i < en->o.adapters; i++)
    adapter_version_leave(en, en->slot[i]);
  free(en->slot);
  page_pool_close(&en->device);
  page_pool_close(&en->host);
  free_work(&en->work);
  model_destroy(en->model);
  pthread_mutex_destroy(&en->lock);
  free(en);
}

struct sequence *engine_find(const struct engine *en, int32_t seq)
{
  struct sequence *s;
  HASH_FIND(hh, en->sequences, &seq, sizeof seq, s);
  return s;
}

struct sequence *engine_find_idle(const struct engine *en, int32_t seq, struct base_error *e)
{
  struct sequence *s = engine_find(en, seq);
  if (!s)
    base_fail(e, BASE_INPUT, "there is no sequence %" PRId32, seq);
  else if (s->use != FREE)
    base_fail(e, BASE_INPUT, "sequence %" PRId32 " is %s", seq,
              s->use == STEPPING ? "in a step" : "being swapped");
  return s && s->use == FREE ? s : NULL;
}

static int check_sampling(const struct ops_sample *how, struct base_error *e)
{
  if (!(how->temperature >= 0) || isinf(how->temperature))
    return base_fail(e, BASE_INPUT, "a temperature of %g; it is at least 0", how->temperature);
  if (!(how->top_p > 0 && how->top_p <= 1))
    return base_fail(e, BASE_INPUT, "a top-p of %g; it is more than 0 and at most 1", how->top_p);
  return 0;
}

static int check_request(const struct engine *en, int32_t seq, const struct engine_request *r,
                         struct base_error *e)
{
  const struct config *c = &en->w->config;
  if (seq < 0)
    return base_fail(e, BASE_INPUT, "sequence %" PRId32 ": numbers start at 0", seq);
  if (!r->prompt_tokens || !r->max_tokens)
    return base_fail(e, BASE_INPUT,
                     "a prompt of %" PRIu32 " and an answer of at most %" PRIu32
                     " tokens; both are at least 1",
                     r->prompt_tokens, r->max_tokens);
  if (r->prompt_tokens > c->max_position || r->max_tokens > c->max_position - r->prompt_tokens)
    return base_fail(e, BASE_INPUT,
                     "a prompt of %" PRIu32 " and an answer of at most %" PRIu32
                     " tokens are longer than the model's %" PRIu32 "; shorten one",
                     r->prompt_tokens, r->max_tokens, c->max_position);
  for (uint32_t i = 0; i < r->prompt_tokens; i++)
    if (r->prompt[i] < 0 || (uint32_t)r->prompt[i] >= c->vocab)
      return base_fail(e, BASE_INPUT,
                       "token %" PRId32 " (number %" PRIu32
                       " of the prompt) is outside the vocabulary of %" PRIu32,
                       r->prompt[i], i + 1, c->vocab);
  return check_sampling(&r->how, e);
}

/* Without pages; one piece of memory with its arrays. */
static struct sequence *make_sequence(const struct engine *en, int32_t seq,
                                      const struct engine_request *r)
{
  uint32_t limit = r->prompt_tokens + r->max_tokens;
  struct sequence *s = malloc(sizeof *s +
                              (limit + (size_t)engine_pages(en, limit)) * sizeof *s->token);
  if (!s)
    return NULL;
  *s = (struct sequence){.seq = seq,
                         .prompt = r->prompt_tokens,
                         .known = r->prompt_tokens,
                         .limit = limit,
                         .how = r->how,
                         .token = (int32_t *)(s + 1),
                         .page = (int32_t *)(s + 1) + limit};
  memcpy(s->token, r->prompt, r->prompt_tokens * sizeof *s->token);
  return s;
}

/* With the lock held. Frees s where it fails. */
static int enter_sequence(struct engine *en, struct sequence *s, int adapter, struct base_error *e)
{
  int bad = 0;
  if (engine_find(en, s->seq))
    bad = base_fail(e, BASE_INPUT, "there is a sequence %" PRId32 " already", s->seq);
  else if (adapter >= 0 && ((uint32_t)adapter >= en->o.adapters || !en->slot[adapter]))
    bad = base_fail(e, BASE_INPUT, "sequence %" PRId32 " asks for adapter %d, which is not loaded",
                    s->seq, adapter);
  if (!bad) {
    HASH_ADD(hh, en->sequences, seq, sizeof s->seq, s);
    if (!s->hh.tbl)
      bad = base_fail_memory(e);
  }
  if (bad) {
    free(s);
    return -1;
  }
  s->adapter = adapter >= 0 ? en->slot[adapter] : NULL;
  if (s->adapter)
    s->adapter->users++;
  return 0;
}

int engine_begin(struct engine *en, int32_t seq, const struct engine_request *r,
                 struct base_error *e)
{
  if (check_request(en, seq, r, e))
    return -1;
  struct sequence *s = make_sequence(en, seq, r);
  if (!s)
    return base_fail_memory(e);
  engine_lock(en);
  int bad = enter_sequence(en, s, r->adapter, e);
  engine_unlock(en);
  return bad;
}

void engine_drop(struct engine *en, int32_t seq)
{
  engine_lock(en);
  struct sequence *s = engine_find(en, seq);
  if (s)
    remove_sequence(en, s);
  engine_unlock(en);
}

void engine_evict(struct engine *en, int32_t seq)
{
  engine_lock(en);
  struct sequence *s = engine_find(en, seq);
  if (s) {
    assert(s->use == FREE);
    give_up_pages(en, s);
  }
  engine_unlock(en);
}

/* With the lock held. */
static int assume(struct engine *en, struct sequence *s, uint32_t tokens, struct base_error *e)
{
  uint32_t need = engine_pages(en, tokens);
  if (s->npages || tokens >= s->known)
    return base_fail(e, BASE_INPUT,
                     "sequence %" PRId32 ": of %" PRIu32 " tokens %" PRIu32
                     " cannot be taken as computed",
                     s->seq, s->known, tokens);
  if (page_pool_take(&en->device, need, s->page))
    return base_fail(e, BASE_ENV,
                     "sequence %" PRId32 " needs %" PRIu32 " pages; %" PRIu32 " are free", s->seq,
                     need, en->device.nfree);
  s->npages = need;
  s->kv = tokens;
  return 0;
}

int engine_assume(struct engine *en, int32_t seq, uint32_t tokens, struct base_error *e)
{
  engine_lock(en);
  struct sequence *s = engine_find_idle(en, seq, e);
  int bad = s ? assume(en, s, tokens, e) : -1;
  engine_unlock(en);
  return bad;
}

/* ----------------------------------------------------------------------------- questions ---- */

uint32_t engine_kv_tokens(const struct engine *en, int32_t seq)
{
  engine_lock(en);
  const struct sequence *s = engine_find(en, seq);
  uint32_t n = s ? s->kv : 0;
  engine_unlock(en);
  return n;
}

const int32_t *engine_tokens(const struct engine *en, int32_t seq, uint32_t *n)
{
  engine_lock(en);
  const struct sequence *s = engine_find(en, seq);
  const int32_t *token = s ? s->token : NULL;
  *n = s ? s->known : 0;
  engine_unlock(en);
  return token;
}

uint32_t engine_free_pages(const struct engine *en)
{
  engine_lock(en);
  uint32_t n = en->device.nfree;
  engine_unlock(en);
  return n;
}

uint32_t engine_free_host_pages(const struct engine *en)
{
  engine_lock(en);
  uint32_t n = en->host.nfree;
  engine_unlock(en);
  return n;
}

void engine_check(const struct engine *en)
{
  uint64_t held[2] = {0, 0};
  engine_lock(en);
  for (const struct sequence *s = en->sequences; s; s = s->hh.next) {
    held[s->on_host] += s->npages;
    assert(s->kv < s->limit && s->kv <= s->known);
    assert(s->use == MOVING || s->npages >= engine_pages(en, s->kv));
    assert(s->use != FREE || s->npages == engine_pages(en, s->kv));
    if (s->use == MOVING)
      held[!s->on_host] += s->npages;
  }
  assert(held[0] + en->device.nfree == en->device.pages);
  assert(held[1] + en->host.nfree == en->host.pages);
  engine_unlock(en);
}
