/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A request yields the same tokens from the same bits of logits, whatever happens around it and to
 * it: alone, in any batch, in any chunks, on pages of any size, swapped, recomputed, paused,
 * aborted, beside adapters that come and go, with any number of threads.
 */
#include <string.h>

#include "base/rng.h"
#include "tests/engine_requests.h"
#include "tests/suite.h"

enum { LIVE_MAX = 14, STEP_TOKENS = 96, STEPS_MAX = 4000 };

/* Where a request is. */
enum place { NOT_YET, HERE, ON_HOST, DONE };

struct schedule {
  const struct requests *q;
  struct engine *en;
  struct engine_options o;
  gsl_rng *rng;
  int place[REQUESTS];
  uint32_t paused[REQUESTS];       /* for so many steps more */
  uint32_t step, live, done, left; /* left: not begun */
  /* The step under way. */
  struct engine_chunk chunk[LIVE_MAX];
  int32_t row[LIVE_MAX];
  uint32_t chunks, rows, tokens;
  struct engine_token out[LIVE_MAX];
  float logits[LIVE_MAX][VOCAB];
  uint32_t swaps, evictions, aborts, full; /* how often it happened */
};

static uint32_t known(const struct schedule *s, int32_t i)
{
  uint32_t n;
  engine_tokens(s->en, i, &n);
  return n;
}

/* --------------------------------------------------------------------------- disturbance ---- */

static void begin_some(struct schedule *s)
{
  struct base_error e = {0};
  while (s->live < LIVE_MAX && s->left && below(s->rng, 3)) {
    int32_t i = (int32_t)below(s->rng, REQUESTS);
    while (s->place[i] != NOT_YET)
      i = (i + 1) % REQUESTS;
    ck_assert_good(engine_begin(s->en, i, &s->q->one[i].r, &e), &e);
    s->place[i] = HERE;
    s->live++;
    s->left--;
  }
}

static void swap_out(struct schedule *s, int32_t i)
{
  struct base_error e = {0};
  uint32_t kv = engine_kv_tokens(s->en, i), free_pages = engine_free_pages(s->en);
  if (!engine_swap_out(s->en, i, &e)) {
    s->place[i] = ON_HOST;
    s->swaps++;
    return;
  }
  ck_assert_int_eq(e.code, BASE_ENV); /* the host is full, and nothing has changed */
  ck_assert_uint_eq(engine_kv_tokens(s->en, i), kv);
  ck_assert_uint_eq(engine_free_pages(s->en), free_pages);
}

static void swap_in(struct schedule *s, int32_t i)
{
  struct base_error e = {0};
  if (!engine_swap_in(s->en, i, &e))
    s->place[i] = HERE;
  else
    ck_assert_int_eq(e.code, BASE_ENV);
}

static void evict(struct schedule *s, int32_t i)
{
  engine_evict(s->en, i);
  s->place[i] = HERE;
  s->evictions++;
}

static int32_t any_live(struct schedule *s)
{
  int32_t i = (int32_t)below(s->rng, REQUESTS);
  while (s->place[i] != HERE && s->place[i] != ON_HOST)
    i = (i + 1) % REQUESTS;
  return i;
}

static void reload_adapter(struct schedule *s)
{
  struct base_error e = {0};
  int slot = (int)below(s->rng, ADAPTERS);
  ck_assert_good(engine_adapter_load(s->en, slot, s->q->adapter[slot], &e), &e);
}

static void disturb(struct schedule *s)
{
  int32_t i = any_live(s);
  switch (below(s->rng, 12)) {
  case 0:
  case 1:
    if (s->place[i] == HERE)
      swap_out(s, i);
    break;
  case 2:
    evict(s, i);
    break;
  case 3:
    s->paused[i] = below(s->rng, 12);
    break;
  case 4:
    reload_adapter(s);
    break;
  default:
    if (s->place[i] == ON_HOST)
      swap_in(s, i);
  }
}

/* No page was free: somebody has to go. */
static void make_room(struct schedule *s)
{
  int32_t i = any_live(s);
  s->full++;
  if (s->place[i] == HERE && below(s->rng, 2))
    swap_out(s, i);
  if (s->place[i] == HERE)
    evict(s, i);
}

/* --------------------------------------------------------------------------------- steps ---- */

static void plan_one(struct schedule *s, int32_t i)
{
  uint32_t kv = engine_kv_tokens(s->en, i), left = known(s, i) - kv;
  uint32_t room = STEP_TOKENS - s->tokens;
  if (!room)
    return;
  if (left == 1 && below(s->rng, 4)) {
    s->row[s->rows++] = i;
    s->tokens++;
    return;
  }
  uint32_t n = below(s->rng, 2) ? left : 1 + below(s->rng, left);
  n = n < room ? n : room;
  s->chunk[s->chunks++] = (struct engine_chunk){i, kv, n};
  s->tokens += n;
}

static void plan(struct schedule *s)
{
  s->chunks = s->rows = s->tokens = 0;
  uint32_t from = below(s->rng, REQUESTS);
  for (uint32_t k = 0; k < REQUESTS; k++) {
    int32_t i = (int32_t)((from + k) % REQUESTS);
    if (s->paused[i])
      s->paused[i]--;
    else if (s->place[i] == HERE && below(s->rng, 3))
      plan_one(s, i);
  }
}

/* Holds what entry k yielded against what the request yields alone. */
static void check_entry(struct schedule *s, uint32_t k)
{
  int32_t i = k < s->chunks ? s->chunk[k].seq : s->row[k - s->chunks];
  const struct request *one = &s->q->one[i];
  uint32_t end = engine_kv_tokens(s->en, i), prompt = one->r.prompt_tokens;
  ck_assert_int_eq(s->out[k].seq, i);
  if (end < prompt) {
    ck_assert_int_eq(s->out[k].token, -1);
    return;
  }
  uint32_t t = end - prompt; /* which token of the answer */
  ck_assert_uint_lt(t, one->r.max_tokens);
  if (s->out[k].token >= 0)
    ck_assert_msg(s->out[k].token == one->token[t], "request %d: token %u is another", i, t);
  ck_assert_msg(logit_bits(s->logits[k]) == one->bits[t], "request %d: other logits of token %u", i,
                t);
  if (known(s, i) < prompt + one->r.max_tokens || s->out[k].token < 0)
    return;
  engine_drop(s->en, i);
  s->place[i] = DONE;
  s->live--;
  s->done++;
}

static void take_step(struct schedule *s)
{
  struct base_error e = {0};
  struct engine_step step = {.chunk = s->chunk,
                             .chunks = s->chunks,
                             .row = s->row,
                             .rows = s->rows,
                             .stop = &faulty_stop,
                             .out = s->out,
                             .logits = s->logits[0]};
  uint32_t free_pages = engine_free_pages(s->en);
  faulty_stop_at(below(s->rng, 12) ? -1 : (int)below(s->rng, s->q->w->config.layers));
  int result = engine_step(s->en, &step, &e);
  if (!result) {
    for (uint32_t k = 0; k < s->chunks + s->rows; k++)
      check_entry(s, k);
    return;
  }
  ck_assert_uint_eq(engine_free_pages(s->en), free_pages);
  if (result == ENGINE_ABORTED) {
    s->aborts++;
    return;
  }
  ck_assert_msg(e.code == BASE_ENV, "%s", e.text);
  make_room(s);
}

/* Each `every`th request. */
static void run_schedule(const struct requests *q, struct ops *ops, uint64_t seed, uint32_t every)
{
  struct schedule *s = calloc(1, sizeof *s);
  ck_assert_ptr_nonnull(s);
  s->q = q;
  s->rng = base_rng_open(seed, "schedule");
  uint32_t block = 1u << below(s->rng, 6);
  s->o = (struct engine_options){.block_tokens = block,
                                 .pages = 1000 / block,
                                 .host_pages = 600 / block,
                                 .max_tokens = STEP_TOKENS,
                                 .max_seqs = LIVE_MAX,
                                 .adapters = ADAPTERS};
  s->en = requests_engine(q, ops, &s->o);
  for (uint32_t i = 0; i < REQUESTS; i++)
    if (i % every == seed % every)
      s->left++;
    else
      s->place[i] = DONE;
  while (s->live + s->left && s->step++ < STEPS_MAX) {
    begin_some(s);
    if (!s->live)
      continue;
    disturb(s);
    plan(s);
    if (s->chunks + s->rows)
      take_step(s);
    engine_check(s->en);
  }
  ck_assert_uint_eq(s->done, REQUESTS / every);
  ck_assert_uint_eq(engine_free_pages(s->en), s->o.pages);
  ck_assert_uint_eq(engine_free_host_pages(s->en), s->o.host_pages);
  if (every == 1) /* else too little happens */
    ck_assert(s->swaps && s->evictions && s->aborts && s->full);
  printf("# %s, pages of %u: %u steps, %u swaps, %u recomputes, %u aborts, %u times full\n",
         ops->path, block, s->step, s->swaps, s->evictions, s->aborts, s->full);
  engine_destroy(s->en);
  gsl_rng_free(s->rng);
  free(s);
}

static const struct {
  int dtype;
  const char *path;
} on[] = {{TENSOR_BF16, "avx512-bf16"}, {TENSOR_BF16, "avx512"}, {TENSOR_F32, "avx512"},
          {TENSOR_BF16, "avx2"},        {TENSOR_F32, "avx2"},    {TENSOR_BF16, "scalar"},
          {TENSOR_F32, "scalar"}};

/* Under ThreadSanitizer, which looks at threads and not at bits, the two extremes. */
#ifdef __SANITIZE_THREAD__
enum { PATH_STEP = 5 };
#else
enum { PATH_STEP = 1 };
#endif

static int has_path(int dtype, const char *name)
{
  for (const char *const *path = cpu_ops_paths(dtype); *path; path++)
    if (!strcmp(*path, name))
      return 1;
  return 0;
}

START_TEST(equality)
{
  if (_i % PATH_STEP || !has_path(on[_i].dtype, on[_i].path))
    return;
  struct requests *q = requests_make(on[_i].dtype);
  struct ops *alone = faulty_ops(on[_i].dtype, 1, on[_i].path);
  requests_answer(q, alone);
  cpu_ops_destroy(alone);
  for (int threads = 1; threads <= 3; threads++) {
    struct ops *ops = faulty_ops(on[_i].dtype, threads, on[_i].path);
    run_schedule(q, ops, (uint64_t)(10 * _i + threads), threads == 1 ? 1 : 8);
    cpu_ops_destroy(ops);
  }
  requests_free(q);
}
END_TEST

int main(void)
{
  Suite *s = suite_create("engine_equal");
  TCase *t = tcase_create("equality");
  tcase_set_timeout(t, 120);
  tcase_add_loop_test(t, equality, 0, (int)(sizeof on / sizeof *on));
  suite_add_tcase(s, t);
  return suite_run(s);
}
