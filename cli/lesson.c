/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/lesson.h"

#include <stdlib.h>
#include <string.h>

enum { MICRO_ROWS = 1024, SCORE_SEQS = 25, SCORE_NEW = 96, PAGE = 16 };

static void put(struct lesson *l, const char *text, int counts)
{
  for (; *text; text++, l->n++) {
    l->token[l->n] = (unsigned char)*text;
    l->counted[l->n] = (uint8_t)counts;
  }
}

void lesson_draw(struct lesson *l, uint64_t seed, int split, uint64_t index)
{
  problem_draw(seed, split, index, &l->problem);
  l->n = 0;
  put(l, l->problem.question, 0);
  l->prompt = l->n;
  put(l, l->problem.solution, 1);
  l->token[l->n] = LESSON_END;
  l->counted[l->n++] = 1;
}

/* ------------------------------------------------------------------------------- micro-batches -
 */

static uint32_t rows_of(const struct lesson_plan *p)
{
  return p->seq_tokens > MICRO_ROWS ? p->seq_tokens : MICRO_ROWS;
}

struct trainer_options lesson_options(const struct lesson_plan *p)
{
  struct trainer_options o = trainer_defaults(rows_of(p));
  o.max_seq_tokens = p->seq_tokens;
  o.beta2 = 0.99f;
  return o;
}

/* Sequences of a micro-batch that is being filled, or done with. */
struct micro {
  struct trainer *t;
  struct lesson lesson[MICRO_ROWS / 16];
  struct trainer_seq seq[MICRO_ROWS / 16];
  uint32_t n, rows;
  int train;
  const volatile int *stop;
  struct trainer_loss sum;
};
enum { MICRO_SEQS = MICRO_ROWS / 16 };

static int run_micro(struct micro *m, struct base_error *e)
{
  struct trainer_loss loss = {0};
  if (!m->n)
    return 0;
  if (!m->train && m->stop && *m->stop)
    return TRAINER_ABORTED;
  int r = m->train ? trainer_micro(m->t, m->seq, m->n, m->stop, &loss, e)
                   : trainer_loss(m->t, m->seq, m->n, &loss, e);
  m->sum.sum += loss.sum;
  m->sum.tokens += loss.tokens;
  m->n = m->rows = 0;
  return r;
}

/* Problems first .. first+n-1 of a split, in order, as many at a time as there is room for. */
static int run_problems(struct micro *m, const struct lesson_plan *p, int split, uint64_t first,
                        uint64_t n, struct base_error *e)
{
  for (uint64_t i = 0; i < n; i++) {
    struct lesson next;
    lesson_draw(&next, p->seed, split, first + i);
    if (next.n > p->seq_tokens)
      return base_fail(e, BASE_INPUT,
                       "a problem has %u tokens, a sequence at most %u: give a longer --seq",
                       next.n, p->seq_tokens);
    int r = m->n == MICRO_SEQS || m->rows + next.n > rows_of(p) ? run_micro(m, e) : 0;
    if (r)
      return r;
    struct lesson *l = &m->lesson[m->n];
    *l = next;
    m->seq[m->n++] = (struct trainer_seq){l->token, l->counted, l->n};
    m->rows += l->n - 1;
  }
  return run_micro(m, e);
}

static int run_all(struct trainer *t, const struct lesson_plan *p, int split, uint64_t first,
                   uint64_t n, const volatile int *stop, struct trainer_loss *loss,
                   struct base_error *e)
{
  struct micro *m = calloc(1, sizeof *m);
  if (!m)
    return base_fail_memory(e);
  m->t = t;
  m->train = split == PROBLEMS_TRAIN;
  m->stop = stop;
  int r = run_problems(m, p, split, first, n, e);
  *loss = m->sum;
  free(m);
  return r;
}

int lesson_micros(struct trainer *t, const struct lesson_plan *p, uint64_t step,
                  const volatile int *stop, struct trainer_loss *loss, struct base_error *e)
{
  return run_all(t, p, PROBLEMS_TRAIN, step * p->batch, p->batch, stop, loss, e);
}

int lesson_held_out(struct trainer *t, const struct lesson_plan *p, uint64_t n,
                    const volatile int *stop, struct trainer_loss *loss, struct base_error *e)
{
  return run_all(t, p, PROBLEMS_HELD_OUT, 0, n, stop, loss, e);
}

/* ---------------------------------------------------------------------------------- the score --
 */

static uint32_t pages_of(uint32_t tokens)
{
  return (tokens + PAGE - 1) / PAGE;
}

static struct engine *open_engine(const struct weights *w, const struct adapter *a, struct ops *ops,
                                  struct base_error *e)
{
  struct engine_options o = {.block_tokens = PAGE,
                             .pages = SCORE_SEQS * pages_of(LESSON_TOKENS + SCORE_NEW),
                             .host_pages = 1,
                             .max_tokens = SCORE_SEQS * LESSON_TOKENS,
                             .max_seqs = SCORE_SEQS,
                             .adapters = 1};
  struct engine *en = engine_create(w, ops, &o, e);
  if (en && a && engine_adapter_load(en, 0, a, e)) {
    engine_destroy(en);
    return NULL;
  }
  return en;
}

static int finished(const struct engine *en, int32_t seq, uint32_t prompt)
{
  uint32_t n;
  const int32_t *token = engine_tokens(en, seq, &n);
  return n > prompt && (token[n - 1] == LESSON_END || n == prompt + SCORE_NEW);
}

/* One step for each sequence until all have ended: prompts first, then a token each. */
static int generate(struct engine *en, const struct lesson *l, uint32_t n, struct base_error *e)
{
  struct engine_chunk chunk[SCORE_SEQS];
  struct engine_token out[SCORE_SEQS];
  int32_t row[SCORE_SEQS];
  for (uint32_t i = 0; i < n; i++)
    chunk[i] = (struct engine_chunk){(int32_t)i, 0, l[i].prompt};
  struct engine_step step = {.chunk = chunk, .chunks = n, .row = row, .out = out};
  while (step.chunks || step.rows) {
    if (engine_step(en, &step, e))
      return -1;
    step.chunks = step.rows = 0;
    for (uint32_t i = 0; i < n; i++)
      if (!finished(en, (int32_t)i, l[i].prompt))
        row[step.rows++] = (int32_t)i;
  }
  return 0;
}

static int solved(const struct engine *en, int32_t seq, const struct lesson *l)
{
  char text[SCORE_NEW];
  uint32_t n, length = 0;
  const int32_t *token = engine_tokens(en, seq, &n);
  if (token[n - 1] != LESSON_END)
    return 0;
  for (uint32_t i = l->prompt; i + 1 < n; i++)
    text[length++] = token[i] < LESSON_END ? (char)token[i] : '\0';
  return problem_check(&l->problem, text, length);
}

static int score_some(struct engine *en, const struct lesson *l, uint32_t n, int adapter,
                      uint64_t *right, struct base_error *e)
{
  for (uint32_t i = 0; i < n; i++) {
    struct engine_request r = {.prompt = l[i].token,
                               .prompt_tokens = l[i].prompt,
                               .max_tokens = SCORE_NEW,
                               .how = {.top_p = 1},
                               .adapter = adapter};
    if (engine_begin(en, (int32_t)i, &r, e))
      return -1;
  }
  if (generate(en, l, n, e))
    return -1;
  for (uint32_t i = 0; i < n; i++) {
    *right += (uint64_t)solved(en, (int32_t)i, &l[i]);
    engine_drop(en, (int32_t)i);
  }
  return 0;
}

int lesson_score(const struct weights *w, const struct adapter *a, struct ops *ops, uint64_t seed,
                 uint64_t n, const volatile int *stop, uint64_t *done, uint64_t *right,
                 struct base_error *e)
{
  struct lesson *l = calloc(SCORE_SEQS, sizeof *l);
  struct engine *en = l ? open_engine(w, a, ops, e) : NULL;
  int r = en ? 0 : -1;
  if (!l)
    base_fail_memory(e);
  *done = *right = 0;
  while (!r && *done < n && !(stop && *stop)) {
    uint32_t some = n - *done < SCORE_SEQS ? (uint32_t)(n - *done) : SCORE_SEQS;
    for (uint32_t i = 0; i < some; i++)
      lesson_draw(&l[i], seed, PROBLEMS_HELD_OUT, *done + i);
    r = score_some(en, l, some, a ? 0 : -1, right, e);
    *done += some;
  }
  engine_destroy(en);
  free(l);
  return r;
}
