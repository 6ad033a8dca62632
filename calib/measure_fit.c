/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Timed steps to a calibration by tables. */
#include <stdlib.h>
#include <string.h>

#include "base/hist.h"
#include "calib/assemble.h"
#include "calib/fit.h"
#include "calib/grid_fit.h"
#include "calib/measure.h"
#include "calib/source.h"
#include "calib/tables.h"
#include "models/calibration.h"
#include "models/cost.h"

enum { PPM = 1000000 };

struct fitting {
  const struct measurement *m;
  const struct measure_subject *s;
  struct calibration *c;
  struct base_error *e;
};

/* -------------------------------------------------------------------------------- curves ---- */

/* What a curve is made of: points, which number of their step it is over, and a time of them. */
struct over {
  const char *name;
  int (*is_of)(const struct measure_point *);
  uint32_t (*x)(const struct measure_point *);
  int64_t (*time)(const struct fitting *, const struct measure_point *);
};

static int64_t curve_at(const struct calibration_curve *v, int64_t x)
{
  const struct lattice l = calibration_curve_lattice(v);
  const struct lattice_point p = {x, 1};
  return lattice_value(&l, &p);
}

static int is_even(const struct measure_point *p)
{
  return p->kind != MEASURE_RANDOM;
}
static int is_plain_prompt(const struct measure_point *p)
{
  return p->kind == MEASURE_PROMPT && !p->history;
}
static int is_decode(const struct measure_point *p)
{
  return p->kind == MEASURE_DECODE;
}
static uint32_t tokens_of(const struct measure_point *p)
{
  return p->tokens;
}
static uint32_t rows_of(const struct measure_point *p)
{
  return p->rows;
}
static int64_t layer_of(const struct fitting *f, const struct measure_point *p)
{
  return p->mid.layers / f->c->layers;
}
static int64_t once_of(const struct fitting *f, const struct measure_point *p)
{
  (void)f;
  return p->mid.once;
}
/* With what the host does for each sequence: rows have more of it than the tokens of a prompt. */
static int64_t head_of(const struct fitting *f, const struct measure_point *p)
{
  int64_t more = p->mid.once - curve_at(&f->c->once, p->tokens);
  return p->mid.head + (more > 0 ? more : 0);
}

static const struct over body = {"layer over tokens", is_even, tokens_of, layer_of},
                         once = {"once a step over tokens", is_plain_prompt, tokens_of, once_of},
                         head = {"head over positions", is_decode, rows_of, head_of};

/* The distinct x of its points, ascending; returns how many. */
static size_t list_x(const struct measurement *m, const struct over *o, int64_t *x)
{
  size_t n = 0, distinct = 0;
  for (size_t i = 0; i < m->n; i++)
    if (o->is_of(&m->point[i]))
      x[n++] = o->x(&m->point[i]);
  base_sort_int64(x, n);
  for (size_t i = 0; i < n; i++)
    if (!distinct || x[i] != x[distinct - 1])
      x[distinct++] = x[i];
  return distinct;
}

/* The least of the points with this x: where contexts are long, all else takes longer, too, for
 * caches are full of them, and that is told with the attention. */
static int64_t least_at(const struct fitting *f, const struct over *o, int64_t x)
{
  int64_t least = INT64_MAX;
  for (size_t i = 0; i < f->m->n; i++) {
    const struct measure_point *p = &f->m->point[i];
    int64_t ps = o->is_of(p) && o->x(p) == x ? o->time(f, p) : INT64_MAX;
    least = ps < least ? ps : least;
  }
  return least > 0 ? least : 0;
}

static int make_curve(struct fitting *f, const struct over *o, struct calibration_curve *v)
{
  int64_t *x = calloc(f->m->n + 1, sizeof *x);
  int bad = x ? assemble_curve(v, x, list_x(f->m, o, x), f->e) : base_fail_memory(f->e);
  for (uint32_t i = 0; !bad && i < v->n; i++)
    v->y[i] = least_at(f, o, v->x[i]);
  free(x);
  return bad ? -1 : fit_curve_errors(v, o->name, assemble_residuals(f->c, 1), f->e);
}

/* The least of all: threads wake up later after a longer step, and what a step takes more for that
 * is told with its attention. At least a tick, for the time was measured. */
static void set_host(struct fitting *f)
{
  int64_t least = INT64_MAX;
  for (size_t i = 0; i < f->m->n; i++)
    if (is_even(&f->m->point[i]) && f->m->point[i].mid.host < least)
      least = f->m->point[i].mid.host;
  least += f->m->world_ps;
  f->c->host_step_ps = least > LULL_TICK_PS ? least : LULL_TICK_PS;
}

/* -------------------------------------------------------------------------------- attention ----
 */

/* Coordinates of a kind of points, and the axes along which holes are filled first. */
static const struct stratum {
  const char *name;
  int kind;
  uint32_t rank, order[LATTICE_RANK];
} decode = {"steps of rows alone", MEASURE_DECODE, 2, {1, 0}},
  prompt = {"steps of one chunk", MEASURE_PROMPT, 2, {1, 0}},
  mixed = {"mixed over both alone", MEASURE_MIXED, 4, {1, 3, 0, 2}};

/* All that the step takes beyond what its tokens, positions and the host are told to: the
 * attention, and what the rest takes longer for it. So a step that was timed costs what it took. */
static int64_t attention_of(const struct fitting *f, const struct measure_point *p)
{
  const struct calibration *c = f->c;
  int64_t rest = p->total_mid + f->m->world_ps - c->host_step_ps - curve_at(&c->once, p->tokens) -
                 curve_at(&c->head, p->positions);
  int64_t ps = rest / c->layers - curve_at(&c->body, p->tokens);
  return ps > 0 ? ps : 0;
}

/* The points of a kind; returns how many. */
static size_t list_points(const struct fitting *f, const struct stratum *s,
                          struct grid_point *point)
{
  size_t n = 0;
  for (size_t i = 0; i < f->m->n; i++) {
    const struct measure_point *p = &f->m->point[i];
    const int64_t x[] = {p->chunk, p->history, p->rows, p->ctx};
    if (p->kind != s->kind)
      continue;
    memcpy(point[n].x, s->kind == MEASURE_DECODE ? x + 2 : x, s->rank * sizeof *x);
    point[n++].ps = attention_of(f, p);
  }
  return n;
}

static int judge(struct fitting *f, const struct stratum *s, const struct grid_point *point,
                 size_t n)
{
  return grid_errors(s->rank, s->order, point, n, s->name, assemble_residuals(f->c, 3), f->e);
}

/* Whole steps from those around them: beside these the attention of a small step is nothing. */
static int judge_whole(struct fitting *f, const struct stratum *s, struct grid_point *point)
{
  size_t n = list_points(f, s, point), k = 0;
  for (size_t i = 0; i < f->m->n; i++)
    if (f->m->point[i].kind == s->kind)
      point[k++].ps = f->m->point[i].total_mid;
  return judge(f, s, point, n);
}

static int make_decode(struct fitting *f, struct grid_point *point)
{
  size_t n = list_points(f, &decode, point);
  struct calibration_residual unused;
  struct attention_table t = {.row = calloc(n + 1, sizeof *t.row), .n = n};
  if (!t.row)
    return base_fail_memory(f->e);
  for (size_t i = 0; i < n; i++)
    t.row[i] = (struct attention_row){point[i].x[0], point[i].x[1], 1, point[i].ps, 0};
  int bad = fit_decode(&t, &f->c->decode, &unused, f->e);
  attention_free(&t);
  return bad ? -1 : judge_whole(f, &decode, point);
}

static int make_prompt(struct fitting *f, struct grid_point *point)
{
  if (judge_whole(f, &prompt, point))
    return -1;
  size_t n = list_points(f, &prompt, point);
  return grid_make(&f->c->prompt, prompt.rank, prompt.order, point, n, f->e);
}

/* What chunk and rows cost alone, together. */
static int64_t both_alone(const struct calibration *c, const struct lattice_point *p)
{
  const struct lattice rows = calibration_grid_lattice(&c->decode);
  return lattice_value(&c->prompt, p) + lattice_value(&rows, p + 2);
}

/* The sum of both alone on the fine grid of these, times what the few points with both exceed it
 * by: between those points the ratio changes little, the time much. */
static int make_mixed(struct fitting *f, struct grid_point *point)
{
  struct lattice ratio = {0}, *l = &f->c->mixed;
  size_t n = list_points(f, &mixed, point);
  for (size_t i = 0; i < n; i++) {
    struct lattice_point p[LATTICE_RANK];
    for (int a = 0; a < LATTICE_RANK; a++)
      p[a] = (struct lattice_point){point[i].x[a], 1};
    int64_t alone = both_alone(f->c, p);
    point[i].ps = (int64_t)((__int128)point[i].ps * PPM / (alone > 0 ? alone : 1));
  }
  if (judge(f, &mixed, point, n) || grid_make(&ratio, mixed.rank, mixed.order, point, n, f->e))
    return -1;
  int bad = assemble_sum(f->c, f->e);
  for (size_t i = 0; !bad && i < lattice_cells(l); i++) {
    struct lattice_point p[LATTICE_RANK];
    lattice_cell_point(l, i, p);
    l->y[i] = (int64_t)((__int128)l->y[i] * lattice_value(&ratio, p) / PPM);
  }
  lattice_free(&ratio);
  return bad ? -1 : 0;
}

static int make_attention(struct fitting *f)
{
  struct grid_point *point = calloc(f->m->n + 1, sizeof *point);
  if (!point)
    return base_fail_memory(f->e);
  int bad = make_decode(f, point) || make_prompt(f, point) || make_mixed(f, point);
  free(point);
  return bad ? -1 : 0;
}

/* -------------------------------------------------------------------------- whole steps ---- */

static struct cost_shape shape_of(const struct bench_step *s)
{
  struct cost_shape shape = {.rows = s->rows, .chunks = s->chunks, .chunk_ends = s->chunks};
  for (uint32_t i = 0; i < s->rows; i++)
    shape.ctx_q16 += (int64_t)s->ctx[i] << 16;
  for (uint32_t i = 0; i < s->chunks; i++) {
    int64_t n = s->chunk[i].tokens;
    shape.chunk_tokens += s->chunk[i].tokens;
    shape.chunk_work += n * s->chunk[i].start + n * (n + 1) / 2;
  }
  return shape;
}

static int64_t predict(const struct cost_model *model, const struct measure_point *p)
{
  struct cost_shape shape = shape_of(&p->step);
  struct cost_step step;
  cost_eval(model, &shape, &step);
  return step.ticks * LULL_TICK_PS;
}

/* One random step: what it is, what it took, and what the cost model says. */
static void judge_step(const struct measure_point *p, const struct cost_model *model,
                       int64_t world_ps, struct calibration_samples *s, struct fit_errors *errors)
{
  struct cost_shape h = shape_of(&p->step);
  int64_t cost = predict(model, p) - world_ps;
  const int64_t row[] = {h.rows,           h.ctx_q16 >> 16, h.chunks,     h.chunk_tokens,
                         h.chunk_work,     p->mid.host,     p->mid.once,  p->mid.layers,
                         p->mid.attention, p->mid.head,     p->total_mid, cost};
  memcpy(s->v + (size_t)s->width * s->n++, row, sizeof row);
  fit_errors_add(errors, cost, p->total_mid);
  errors->samples++;
}

/* Steps of any make-up, to none of which anything was fitted. */
static int judge_steps(struct fitting *f)
{
  static const char columns[] = "rows,ctx_sum,chunks,chunk_tokens,pairs,host_ps,once_ps,layers_ps,"
                                "attention_ps,head_ps,time_ps,cost_ps";
  const struct measurement *m = f->m;
  const struct cost_settings settings = {.host_step = f->c->host_step_ps,
                                         .max_rows = m->most.max_seqs,
                                         .max_tokens = m->most.token_budget + m->most.max_seqs};
  struct calibration_samples *s = assemble_samples(f->c, "random steps", columns, 12, m->n, f->e);
  struct cost_model *model = s ? cost_from_calibration(f->c, &settings, f->e) : NULL;
  struct fit_errors errors;
  if (!model)
    return -1;
  if (fit_errors_init(&errors, m->n)) {
    cost_free(model);
    return base_fail_memory(f->e);
  }
  s->n = 0;
  for (size_t i = 0; i < m->n; i++)
    if (m->point[i].kind == MEASURE_RANDOM)
      judge_step(&m->point[i], model, m->world_ps, s, &errors);
  fit_errors_close(&errors, "steps of any make-up", assemble_residuals(f->c, 1));
  cost_free(model);
  return 0;
}

/* -------------------------------------------------------------------------------- records ---- */

static int keep_samples(struct fitting *f)
{
  static const char columns[] = "chunk,history,rows,ctx,once_min_ps,once_ps,layers_min_ps,"
                                "layers_ps,attention_min_ps,attention_ps,head_min_ps,head_ps,"
                                "host_min_ps,host_ps,n";
  enum { WIDTH = 15 };
  struct calibration_samples *s = assemble_samples(f->c, "steps", columns, WIDTH, f->m->n, f->e);
  if (!s)
    return -1;
  s->n = 0;
  for (size_t i = 0; i < f->m->n; i++) {
    const struct measure_point *p = &f->m->point[i];
    if (p->kind == MEASURE_RANDOM)
      continue;
    const int64_t row[WIDTH] = {p->chunk,         p->history,       p->rows,       p->ctx,
                                p->low.once,      p->mid.once,      p->low.layers, p->mid.layers,
                                p->low.attention, p->mid.attention, p->low.head,   p->mid.head,
                                p->low.host,      p->mid.host,      f->m->rounds};
    memcpy(s->v + WIDTH * s->n++, row, sizeof row);
  }
  return 0;
}

static void keep_noise(struct fitting *f)
{
  struct calibration_residual *r = assemble_residuals(f->c, 1);
  double noise = measurement_noise(f->m);
  *r = (struct calibration_residual){.samples = 2, .heldout = 1, noise, noise, noise};
  source_text(r->curve, sizeof r->curve, CALIBRATION_NOISE);
}

static int describe(struct fitting *f)
{
  struct calibration *c = f->c;
  const struct measure_subject *s = f->s;
  c->weight_bytes = s->weight_bytes;
  c->kv_bytes_per_token = s->kv_bytes_per_token;
  source_text(c->engine, sizeof c->engine, s->engine);
  source_text(c->sampled, sizeof c->sampled, CALIBRATION_ENDS);
  source_text(c->collective_note, sizeof c->collective_note, "not needed: one device");
  snprintf(c->name, sizeof c->name, "%.24s-%.24s-%s", c->gpu, c->model,
           strcmp(s->dtype, "float32") ? "bf16" : "f32");
  return source_add(c, s->source, s->engine, s->kernel, "", "measured here by lull calibrate",
                    f->e);
}

static void tell(const struct fitting *f, FILE *talk)
{
  char doubts[300];
  if (!talk)
    return;
  fprintf(talk, "%zu steps, %u rounds; host time of a step %.1f us, of which the world %.1f\n",
          f->m->n, f->m->rounds, (double)f->c->host_step_ps / 1e6, (double)f->m->world_ps / 1e6);
  source_tell(f->c, talk);
  if (calibration_doubts(f->c, doubts, sizeof doubts))
    fprintf(talk, "warning: %s\n", doubts);
}

struct calibration *measurement_fit(const struct measurement *m, const struct measure_subject *s,
                                    FILE *talk, struct base_error *e)
{
  const struct assemble_of of = {s->model, s->gpu, s->dtype, s->dtype, 1};
  struct fitting f = {m, s, assemble_begin(&of, e), e};
  if (!f.c)
    return NULL;
  set_host(&f);
  if (describe(&f) || make_curve(&f, &body, &f.c->body) || make_curve(&f, &once, &f.c->once) ||
      make_curve(&f, &head, &f.c->head) || make_attention(&f) || judge_steps(&f) ||
      keep_samples(&f)) {
    calibration_free(f.c);
    return NULL;
  }
  keep_noise(&f);
  calibration_seal(f.c);
  tell(&f, talk);
  return f.c;
}
