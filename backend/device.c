/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The world's side of a real device. All of it runs in the world's thread. */
#include "backend/device.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#include "backend/device_inner.h"
#include "base/rng.h"

/* A wait comes back with nothing after so long, for the sake of signals. */
enum { NAP_NS = 50 * 1000 * 1000 };

/* -------------------------------------------------------------------------------------- clock ---
 */

static int64_t monotonic_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

lull_time device_clock(struct lull_device *d)
{
  int64_t ns = monotonic_ns();
  if (!d->start_ns)
    d->start_ns = ns;
  return (ns - d->start_ns) * 1000;
}

static lull_time dev_now(struct lull_device *d)
{
  return d->now;
}

/* ------------------------------------------------------------------------------------- failing ---
 */

static const char *dev_why(struct lull_device *d)
{
  return d->why[0] ? d->why : NULL;
}

/* -------------------------------------------------------------------------------------- lanes ---
 */

static struct device_lane *lane_of(const struct lull_device *d, lull_lane_id id)
{
  return id >= 0 && id < d->nlanes ? d->lane[id] : NULL;
}

/* Is there a lane of this kind? An engine has one thread for each. */
static struct device_lane *find_lane(const struct lull_device *d, int gpu, int kind)
{
  for (int i = 0; i < d->nlanes; i++) {
    if (d->lane[i]->gpu == gpu && d->lane[i]->kind == kind)
      return d->lane[i];
  }
  return NULL;
}

static int dev_lane_open(struct lull_device *d, const int *gpu, int n, int kind)
{
  struct base_error e = {0};
  if (n != 1)
    return LULL_DEV_UNSUPPORTED;
  if (gpu[0] < 0 || gpu[0] >= d->ngpus || d->nlanes == LULL_LANES || kind < LULL_LANE_SERVE ||
      kind > LULL_LANE_COPY)
    return LULL_DEV_BAD_CALL;
  const struct device_gpu *g = &d->gpu[gpu[0]];
  if (kind == LULL_LANE_TRAIN ? !g->trainer : !g->engine)
    return LULL_DEV_UNSUPPORTED;
  if (find_lane(d, gpu[0], kind))
    return LULL_DEV_BAD_CALL;
  struct device_lane *l = device_lane_open(d, gpu[0], kind, &e);
  if (!l)
    return device_refuse(d, LULL_DEV_IO, &e);
  d->lane[d->nlanes] = l;
  return d->nlanes++;
}

/* Is it work that a lane of its kind does, and whole? */
static int check_work(const struct lull_device *d, const struct lull_work *w)
{
  const struct device_lane *l = LULL_HAS(w, request) ? lane_of(d, w->lane) : NULL;
  if (!l || (device_held_kind(w->kind) && !LULL_HAS(w, version)))
    return LULL_DEV_BAD_CALL;
  const struct device_gpu *g = &d->gpu[l->gpu];
  const struct lull_batch *b = w->batch;
  int good;
  if (w->kind == LULL_WORK_FORWARD)
    good = l->kind == LULL_LANE_SERVE && b && w->repeat && (b->rows | b->chunks) &&
           (!b->rows || b->row) && b->rows <= g->max_seqs && b->chunks <= g->max_seqs;
  else if (w->kind == LULL_WORK_COPY_OUT || w->kind == LULL_WORK_COPY_IN)
    good = l->kind == LULL_LANE_COPY && w->bytes >= 0;
  else if (w->kind == LULL_WORK_ADAPTER_LOAD || w->kind == LULL_WORK_ADAPTER_DROP)
    good = l->kind == LULL_LANE_COPY;
  else if (w->kind == LULL_WORK_WEIGHTS_LOAD || w->kind == LULL_WORK_WEIGHTS_DROP)
    good = l->kind == LULL_LANE_SERVE;
  else if (w->kind == LULL_WORK_TRAIN_MICRO ||
           (w->kind == LULL_WORK_OPTIMIZER && g->trainer && g->trainer->optimizer))
    good = l->kind == LULL_LANE_TRAIN;
  else
    return LULL_DEV_UNSUPPORTED;
  if (good && w->kind == LULL_WORK_FORWARD && b->row_tokens > 1)
    return LULL_DEV_UNSUPPORTED; /* speculation */
  return good ? LULL_DEV_OK : LULL_DEV_BAD_CALL;
}

static void copy_batch(struct device_lane *l, const struct lull_batch *b)
{
  l->rows = b->rows;
  l->chunks = b->chunks;
  for (uint32_t i = 0; i < b->rows; i++)
    l->row[i] = b->row[i];
  for (uint32_t i = 0; i < b->chunks; i++)
    l->chunk[i] = (struct engine_chunk){b->chunk[i].request, b->chunk[i].start, b->chunk[i].tokens};
}

/* How long the world thought. */
static void note_away(struct lull_device *d)
{
  if (d->told_ns)
    base_hist_add(&d->away, monotonic_ns() - d->told_ns, 1);
  d->told_ns = 0;
}

/* Is the lane free, and can its GPU do such work now? */
static int check_state(struct lull_device *d, struct device_lane *l, const struct lull_work *w)
{
  pthread_mutex_lock(&d->lock);
  int dead = l->dead;
  pthread_mutex_unlock(&d->lock);
  if (dead) {
    snprintf(d->why, sizeof d->why, "GPU %d: the thread of lane %d has ended", l->gpu, l->id);
    return LULL_DEV_IO;
  }
  if (l->in_use)
    return LULL_DEV_BAD_CALL;
  if (device_held_kind(w->kind))
    return device_held_submit(d, l, w);
  return device_held_awake(d, l->gpu, l->kind);
}

/* To the thread of an idle lane. */
static void give(struct lull_device *d, struct device_lane *l, const struct lull_work *w)
{
  pthread_mutex_lock(&d->lock);
  device_clock(d);
  l->work = (struct lull_work){0};
  memcpy(&l->work, w, w->size < sizeof *w ? w->size : sizeof *w);
  if (w->kind == LULL_WORK_FORWARD)
    copy_batch(l, w->batch);
  l->in_use = 1;
  l->submitted = d->now;
  l->state = LANE_GIVEN;
  __atomic_store_n(&l->stop, 0, __ATOMIC_RELAXED);
  pthread_cond_signal(&l->given);
  pthread_mutex_unlock(&d->lock);
}

static int dev_submit(struct lull_device *d, const struct lull_work *w)
{
  int st = check_work(d, w);
  if (st)
    return st;
  note_away(d);
  struct device_lane *l = d->lane[w->lane];
  st = check_state(d, l, w);
  if (!st)
    give(d, l, w);
  return st;
}

/* A lane is at a boundary until time has moved since the submit (F13). */
static void dev_interrupt(struct lull_device *d, lull_lane_id lane, int how)
{
  struct device_lane *l = lane_of(d, lane);
  if (!l || how != LULL_AT_SAFEPOINT)
    return;
  pthread_mutex_lock(&d->lock);
  if ((l->state == LANE_GIVEN || l->state == LANE_RUNNING) && l->work.kind == LULL_WORK_FORWARD &&
      d->now > l->submitted)
    __atomic_store_n(&l->stop, 1, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&d->lock);
}

/* Tickets are of one step, and all that ended by now was told. */
static void dev_progress(struct lull_device *d, lull_lane_id lane, uint64_t *steps, lull_time *at)
{
  (void)d, (void)lane, (void)at;
  *steps = 0;
}

/* --------------------------------------------------------------------------------------- wait ---
 */

static int any_done(const struct lull_device *d)
{
  for (int i = 0; i < d->nlanes; i++) {
    if (d->lane[i]->state == LANE_DONE)
      return 1;
  }
  return 0;
}

/* Sleeps until a lane is done, `until` has come, or for a nap. */
static void sleep_until(struct lull_device *d, lull_time until)
{
  int64_t ns = monotonic_ns(), end = ns + NAP_NS;
  if (until / 1000 < end - d->start_ns)
    end = d->start_ns + (until + 999) / 1000;
  const struct timespec t = {.tv_sec = end / 1000000000, .tv_nsec = end % 1000000000};
  while (!any_done(d) && pthread_cond_timedwait(&d->told, &d->lock, &t) != ETIMEDOUT)
    ;
}

static void note_late(struct lull_device *d, lull_time late)
{
  d->stats.told++;
  d->stats.late_sum += late;
  if (late > d->stats.late_max)
    d->stats.late_max = late;
}

/* What a completion counts for, and why it failed if it did. */
static void note_completion(struct lull_device *d, const struct device_lane *l)
{
  const struct lull_completion *c = &l->done;
  note_late(d, d->now - c->end);
  d->stats.steps += c->span.steps;
  if (c->status)
    snprintf(d->why, sizeof d->why, "GPU %d: %.700s", l->gpu, l->error.text);
  else if (c->kind == LULL_WORK_COPY_OUT || c->kind == LULL_WORK_COPY_IN)
    d->stats.copies++;
}

/* Takes what is done by now, in order of (end, lane). */
static int collect(struct lull_device *d, struct lull_completion *out, int max)
{
  int n = 0;
  for (int i = 0; i < d->nlanes && n < max; i++) {
    struct device_lane *l = d->lane[i];
    if (l->state != LANE_DONE || l->done.end > d->now)
      continue;
    int k = n++;
    for (; k && out[k - 1].end > l->done.end; k--)
      out[k] = out[k - 1];
    out[k] = l->done;
    l->state = LANE_IDLE;
    l->in_use = 0;
    note_completion(d, l);
    if (device_held_kind(l->work.kind))
      device_held_told(d, l);
  }
  return n;
}

/* With the lock held: time goes on to the clock's, or to the end of what is done. */
static void move_now(struct lull_device *d)
{
  lull_time now = device_clock(d);
  for (int i = 0; i < d->nlanes; i++) {
    const struct device_lane *l = d->lane[i];
    if (l->state == LANE_DONE && l->done.end > now)
      now = l->done.end;
  }
  if (now > d->now)
    d->now = now;
}

static int dev_wait(struct lull_device *d, lull_time until, struct lull_completion *out, int max)
{
  if (until < d->now)
    return LULL_DEV_BAD_CALL;
  pthread_mutex_lock(&d->lock);
  if (until > d->now) {
    if (device_clock(d) < until)
      sleep_until(d, until);
    move_now(d);
    if (until < LULL_NEVER && d->now >= until)
      note_late(d, d->now - until);
  }
  int n = collect(d, out, max);
  pthread_mutex_unlock(&d->lock);
  if (n)
    d->told_ns = monotonic_ns();
  return n;
}

/* ------------------------------------------------------------------------------------- memory ---
 */

static int dev_reserve(struct lull_device *d, int gpu, int64_t bytes)
{
  if (gpu < 0 || gpu >= d->ngpus || bytes < 0)
    return LULL_DEV_BAD_CALL;
  if (bytes > d->gpu[gpu].memory_bytes - d->reserved[gpu])
    return LULL_DEV_NO_MEMORY;
  d->reserved[gpu] += bytes;
  return LULL_DEV_OK;
}

static void dev_release(struct lull_device *d, int gpu, int64_t bytes)
{
  assert(gpu >= 0 && gpu < d->ngpus && bytes >= 0);
  assert(bytes <= d->reserved[gpu] - d->held[gpu].adapter_bytes -
                      (d->held[gpu].level == 2 ? 0 : d->gpu[gpu].held_bytes));
  d->reserved[gpu] -= bytes;
}

static uint64_t dev_max_repeat(struct lull_device *d)
{
  (void)d;
  return 1;
}

static int dev_depth(struct lull_device *d)
{
  (void)d;
  return 1;
}

/* ----------------------------------------------------------------------------------- requests ---
 */

int32_t device_prompt_token(uint64_t seed, uint64_t key, uint32_t position, uint32_t vocab)
{
  const uint32_t c[4] = {position / 4, (uint32_t)key, (uint32_t)(key >> 32), 0x70726f6d};
  const uint32_t k[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  uint32_t out[4];
  base_philox4x32(c, k, out);
  return (int32_t)((uint64_t)out[position % 4] * vocab >> 32);
}

static int begin(struct lull_device *d, const struct device_request *r, uint32_t output,
                 struct base_error *e)
{
  const struct device_gpu *g = &d->gpu[r->gpu];
  int32_t *prompt = malloc(((size_t)r->prompt + 1) * sizeof *prompt);
  if (!prompt)
    return base_fail_memory(e);
  for (uint32_t i = 0; i < r->prompt; i++)
    prompt[i] = device_prompt_token(d->o.seed, r->key, i, g->vocab);
  struct engine_request q = {.prompt = prompt,
                             .prompt_tokens = r->prompt,
                             .max_tokens = output,
                             .how = d->o.how,
                             .adapter = r->version ? r->version->engine_slot : -1};
  q.how.seed = d->o.seed;
  q.how.key = r->key;
  int bad = engine_begin(g->engine, r->id, &q, e);
  free(prompt);
  return bad;
}

static struct device_request *find_request(struct lull_device *d, lull_id id)
{
  struct device_request *r;
  HASH_FIND(hh, d->requests, &id, sizeof id, r);
  return r;
}

static int dev_request(struct lull_device *d, lull_id id, const struct lull_device_request *who)
{
  struct base_error e = {0};
  const struct device_lane *l = lane_of(d, who->lane);
  if (!l || l->kind != LULL_LANE_SERVE || id < 0 || find_request(d, id))
    return LULL_DEV_BAD_CALL;
  struct device_version *v;
  int st = device_held_adapter(d, l->gpu, id, LULL_HAS(who, adapter) ? who->adapter : -1, &v);
  if (st)
    return st;
  struct device_request *r = malloc(sizeof *r);
  if (!r) {
    base_fail_memory(&e);
    return device_refuse(d, LULL_DEV_IO, &e);
  }
  *r = (struct device_request){
      .id = id, .gpu = l->gpu, .key = who->key, .prompt = who->prompt, .version = v};
  if (begin(d, r, who->output, &e)) {
    free(r);
    return device_refuse(d, LULL_DEV_IO, &e);
  }
  HASH_ADD(hh, d->requests, id, sizeof r->id, r);
  if (!r->hh.tbl) {
    engine_drop(d->gpu[r->gpu].engine, id);
    free(r);
    base_fail_memory(&e);
    return device_refuse(d, LULL_DEV_IO, &e);
  }
  if (v)
    v->users++;
  return LULL_DEV_OK;
}

/* Out of the engine and of the table. */
static void drop_request(struct lull_device *d, struct device_request *r)
{
  engine_drop(d->gpu[r->gpu].engine, r->id);
  device_version_leave(d, r->gpu, r->version);
  HASH_DEL(d->requests, r);
  free(r);
}

/* At a run's end its KV may be on its way. */
static void await_copy(struct lull_device *d, const struct device_request *r)
{
  const struct device_lane *l = find_lane(d, r->gpu, LULL_LANE_COPY);
  pthread_mutex_lock(&d->lock);
  while (l && (l->state == LANE_GIVEN || l->state == LANE_RUNNING) && !l->dead &&
         l->work.request == r->id)
    pthread_cond_wait(&d->told, &d->lock);
  pthread_mutex_unlock(&d->lock);
}

/* Its tokens go to the digest, and to whoever wants them. */
static void note_finished(struct lull_device *d, const struct device_request *r)
{
  uint32_t n;
  const int32_t *token = engine_tokens(d->gpu[r->gpu].engine, r->id, &n);
  if (!token)
    return;
  d->stats.finished++;
  d->stats.tokens += n - r->prompt;
  d->stats.digest += XXH3_64bits_withSeed(token, n * sizeof *token, r->key);
  if (d->o.finished)
    d->o.finished(d->o.finished_ctx, r->key, token, r->prompt, n);
}

static void dev_forget(struct lull_device *d, lull_id id, int how)
{
  struct device_request *r = find_request(d, id);
  if (!r)
    return;
  await_copy(d, r);
  if (how == LULL_FORGET_KV) {
    engine_evict(d->gpu[r->gpu].engine, id);
    return;
  }
  if (how == LULL_FORGET_FINISHED)
    note_finished(d, r);
  drop_request(d, r);
}

/* ------------------------------------------------------------------------- life and death ---- */

/* Conditions wait by the clock that tells the time. */
static int init_sync(struct lull_device *d)
{
  pthread_condattr_t a;
  if (pthread_condattr_init(&a))
    return -1;
  int bad = pthread_condattr_setclock(&a, CLOCK_MONOTONIC) || pthread_cond_init(&d->told, &a);
  pthread_condattr_destroy(&a);
  if (!bad && pthread_mutex_init(&d->lock, NULL)) {
    pthread_cond_destroy(&d->told);
    bad = 1;
  }
  return bad;
}

static void free_device(struct lull_device *d)
{
  if (d->away.bin)
    base_hist_free(&d->away);
  device_held_destroy(d);
  free(d->gpu);
  free(d->reserved);
  free(d);
}

static int check_memory(const struct device_gpu *gpu, int ngpus, struct base_error *e)
{
  for (int i = 0; i < ngpus; i++) {
    if (gpu[i].held_bytes > gpu[i].memory_bytes)
      return base_fail(e, BASE_INPUT, "GPU %d has %lld bytes of memory, and its weights take %lld",
                       i, (long long)gpu[i].memory_bytes, (long long)gpu[i].held_bytes);
  }
  return 0;
}

struct lull_device *device_create(const struct device_gpu *gpu, int ngpus,
                                  const struct device_options *o, struct base_error *e)
{
  if (check_memory(gpu, ngpus, e))
    return NULL;
  struct lull_device *d = calloc(1, sizeof *d);
  if (d) {
    d->gpu = calloc((size_t)ngpus, sizeof *d->gpu);
    d->reserved = calloc((size_t)ngpus, sizeof *d->reserved);
  }
  if (d && d->gpu && d->reserved) {
    memcpy(d->gpu, gpu, (size_t)ngpus * sizeof *gpu);
    for (int i = 0; i < ngpus; i++)
      d->reserved[i] = gpu[i].held_bytes;
    d->ngpus = ngpus;
    d->o = *o;
  }
  if (!d || !d->gpu || !d->reserved || device_held_create(d) || base_hist_init(&d->away) ||
      init_sync(d)) {
    if (d)
      free_device(d);
    base_fail_memory(e);
    return NULL;
  }
  return d;
}

void device_destroy(struct lull_device *d)
{
  if (!d)
    return;
  pthread_mutex_lock(&d->lock);
  d->quit = 1;
  pthread_mutex_unlock(&d->lock);
  for (int i = 0; i < d->nlanes; i++) {
    struct device_version *v = d->lane[i]->version; /* on its way, here or away */
    int gpu = d->lane[i]->gpu;
    device_lane_close(d->lane[i]);
    device_version_drop(d, gpu, v);
  }
  for (struct device_request *r = d->requests, *next; r; r = next) {
    next = r->hh.next;
    drop_request(d, r);
  }
  pthread_cond_destroy(&d->told);
  pthread_mutex_destroy(&d->lock);
  free_device(d);
}

void device_get_stats(struct lull_device *d, struct device_stats *out)
{
  *out = d->stats;
  out->away = d->away.n ? (lull_time)(base_hist_percentile(&d->away, 0.5) * 1000) : 0;
}

const struct lull_device_ops device_ops = {
    .size = sizeof device_ops,
    .abi = LULL_DEVICE_ABI,
    .now = dev_now,
    .lane_open = dev_lane_open,
    .submit = dev_submit,
    .interrupt = dev_interrupt,
    .progress = dev_progress,
    .wait = dev_wait,
    .reserve = dev_reserve,
    .release = dev_release,
    .max_repeat = dev_max_repeat,
    .depth = dev_depth,
    .request = dev_request,
    .forget = dev_forget,
    .why = dev_why,
};
