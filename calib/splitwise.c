/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Splitwise's table to a calibration by tables. Its times are of whole steps, the engine's host
 * time with them, so all of a step's time stands in the attention grids and the operators are 0:
 * a step of decode rows alone, or of prompts alone, then costs what was measured.
 */
#include <gsl/gsl_errno.h>
#include <gsl/gsl_multifit.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hist.h"
#include "calib/assemble.h"
#include "calib/calib.h"
#include "calib/collective.h"
#include "calib/csv.h"
#include "calib/falls.h"
#include "calib/fit.h"
#include "calib/source.h"
#include "models/calibration.h"
#include "models/gpu.h"
#include "models/llm.h"

enum { SIZE_LIMIT = 1 << 24, DIGITS = 9 /* a ms is 10^9 ps */, KNOTS_MAX = 512, COLUMNS = 3 };

/* The table's names of the GPUs that are described here. */
static const struct {
  const char *hardware, *gpu;
} hardware_of[] = {{"a100-80gb", "a100-80g"}, {"h100-80gb", "h100-sxm"}};

struct row {
  int64_t prompt, batch, output, prompt_ps, token_ps;
  unsigned line;
};

/* A size that was measured, several times as a rule: the median. */
struct point {
  int64_t rows, x, ps; /* of prompts: 0 and all tokens; of decode steps: rows, mean context */
  unsigned line;       /* of one of its rows */
};

/* What is given, and what is being made. */
struct import {
  const struct calib_input *in;
  struct row *row;
  size_t n;
  struct point *prompt, *decode;
  size_t nprompt, ndecode;
  double law[COLUMNS]; /* ps of a decode step: constant, a row, a row's context token */
  FILE *talk;
  struct base_error *e;
  struct calibration *c;
};

/* ------------------------------------------------------------------------------------ reading --
 */

struct columns {
  int model, hardware, prompt, batch, output, tp, prompt_time, token_time;
};

static int find_columns(const struct csv *c, struct columns *k, struct base_error *e)
{
  const struct {
    const char *name;
    int *to;
  } plain[] = {{"model", &k->model},      {"hardware", &k->hardware}, {"prompt_size", &k->prompt},
               {"batch_size", &k->batch}, {"token_size", &k->output}, {"tensor_parallel", &k->tp}};
  for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
    if ((*plain[i].to = csv_column(c, plain[i].name, e)) < 0)
      return -1;
  return csv_time_column(c, "prompt_time", "ms", &k->prompt_time, e) ||
                 csv_time_column(c, "token_time", "ms", &k->token_time, e)
             ? -1
             : 0;
}

/* Names of models are written with and without dashes: llama2-70b, llama-2-70b. */
static int same_model(const char *a, const char *b)
{
  for (;; a++, b++) {
    while (*a == '-')
      a++;
    while (*b == '-')
      b++;
    if (*a != *b || !*a)
      return *a == *b;
  }
}

static int same_gpu(const char *hardware, const char *gpu)
{
  for (size_t i = 0; i < sizeof hardware_of / sizeof hardware_of[0]; i++)
    if (!strcmp(hardware_of[i].hardware, hardware))
      return !strcmp(hardware_of[i].gpu, gpu);
  return !strcmp(hardware, gpu);
}

static int read_row(struct import *im, const struct csv *c, const struct columns *k)
{
  struct row r = {.line = csv_line(c)};
  int64_t tp;
  if (csv_number(c, k->tp, 0, SIZE_LIMIT, &tp, im->e) ||
      csv_number(c, k->prompt, 0, SIZE_LIMIT, &r.prompt, im->e) ||
      csv_number(c, k->batch, 0, SIZE_LIMIT, &r.batch, im->e) ||
      csv_number(c, k->output, 0, SIZE_LIMIT, &r.output, im->e) ||
      csv_time(c, k->prompt_time, DIGITS, &r.prompt_ps, im->e) ||
      csv_time(c, k->token_time, DIGITS, &r.token_ps, im->e))
    return -1;
  if (tp != im->in->tp || !same_model(csv_cell(c, k->model), im->in->model->name) ||
      !same_gpu(csv_cell(c, k->hardware), im->in->gpu->name))
    return 0;
  if (!r.prompt || !r.batch || !r.output)
    return base_fail_at(im->e, BASE_INPUT, csv_path(c), csv_line(c),
                        "prompt_size, batch_size and token_size must be above 0");
  if (!(im->n & (im->n - 1))) { /* room is a power of two */
    struct row *more = realloc(im->row, (im->n ? 2 * im->n : 1) * sizeof r);
    if (!more)
      return base_fail_memory(im->e);
    im->row = more;
  }
  im->row[im->n++] = r;
  return 0;
}

static int read_table(struct import *im)
{
  const char *path = im->in->path[0];
  struct csv *c = csv_open(path, im->e);
  struct columns k;
  int rc = c ? find_columns(c, &k, im->e) : -1;
  while (!rc && (rc = csv_next(c, im->e)) > 0)
    rc = read_row(im, c, &k);
  csv_close(c);
  if (rc || im->n)
    return rc;
  return base_fail_at(im->e, BASE_INPUT, path, 0,
                      "there is no row of model '%s' on %u of '%s' (known here as hardware "
                      "a100-80gb or h100-80gb)",
                      im->in->model->name, im->in->tp, im->in->gpu->name);
}

/* ------------------------------------------------------------------------------------ points ---
 */

static int compare_points(const void *pa, const void *pb)
{
  const struct point *a = pa, *b = pb;
  const int64_t d[] = {a->rows - b->rows, a->x - b->x, a->ps - b->ps,
                       (int64_t)a->line - (int64_t)b->line};
  for (int i = 0; i < 4; i++)
    if (d[i])
      return d[i] < 0 ? -1 : 1;
  return 0;
}

/* Sorts, and leaves of each size its median. */
static size_t take_medians(struct point *p, size_t n)
{
  size_t kept = 0;
  qsort(p, n, sizeof *p, compare_points);
  for (size_t i = 0, j; i < n; i = j) {
    for (j = i; j < n && p[j].rows == p[i].rows && p[j].x == p[i].x;)
      j++;
    struct point middle = p[i + (j - i) / 2];
    if ((j - i) % 2 == 0)
      middle.ps = (middle.ps + p[i + (j - i) / 2 - 1].ps) / 2;
    p[kept++] = middle;
  }
  return kept;
}

/* Prompts by all their tokens; decode steps by rows and their context at half of the output. */
static int take_points(struct import *im)
{
  im->prompt = calloc(im->n, sizeof *im->prompt);
  im->decode = calloc(im->n, sizeof *im->decode);
  if (!im->prompt || !im->decode)
    return base_fail_memory(im->e);
  for (size_t i = 0; i < im->n; i++) {
    const struct row *r = &im->row[i];
    im->prompt[i] = (struct point){0, r->prompt * r->batch, r->prompt_ps, r->line};
    im->decode[i] = (struct point){r->batch, r->prompt + r->output / 2, r->token_ps, r->line};
  }
  im->nprompt = take_medians(im->prompt, im->n);
  im->ndecode = take_medians(im->decode, im->n);
  if (im->nprompt >= 3 && im->ndecode > COLUMNS && im->ndecode <= KNOTS_MAX)
    return 0;
  return base_fail_at(im->e, BASE_INPUT, im->in->path[0], 0,
                      "the table has %zu sizes of prompts and %zu of decode steps that fit; 3 and "
                      "%d are needed, at most %d",
                      im->nprompt, im->ndecode, COLUMNS + 1, KNOTS_MAX);
}

static void tell_falls(const struct import *im)
{
  struct falls f = {0};
  for (size_t i = 1; i < im->nprompt; i++)
    falls_note(&f, im->prompt[i - 1].ps, im->prompt[i - 1].line, im->prompt[i].ps,
               im->prompt[i].line);
  for (size_t i = 1; i < im->ndecode; i++)
    if (im->decode[i].rows == im->decode[i - 1].rows)
      falls_note(&f, im->decode[i - 1].ps, im->decode[i - 1].line, im->decode[i].ps,
                 im->decode[i].line);
  falls_tell(&f, im->in->path[0], im->n, im->talk);
}

/* ----------------------------------------------------------------------------------- prompts ---
 */

static int64_t between(const struct point *a, const struct point *b, int64_t x)
{
  return a->ps + (int64_t)((__int128)(b->ps - a->ps) * (x - a->x) / (b->x - a->x));
}

/* Each inner size from its neighbours: there are too few to leave out every fifth. */
static int judge_prompts(struct import *im)
{
  struct fit_errors f;
  if (fit_errors_init(&f, im->nprompt))
    return base_fail_memory(im->e);
  f.samples = im->nprompt;
  for (size_t i = 1; i + 1 < im->nprompt; i++)
    fit_errors_add(&f, between(&im->prompt[i - 1], &im->prompt[i + 1], im->prompt[i].x),
                   im->prompt[i].ps);
  fit_errors_close(&f, "whole prompts", assemble_residuals(im->c, 1));
  return 0;
}

static int make_prompts(struct import *im)
{
  struct lattice *l = &im->c->prompt;
  l->rank = 2;
  l->n[0] = (uint32_t)im->nprompt;
  l->n[1] = 1;
  l->x[0] = calloc(im->nprompt, sizeof *l->x[0]);
  l->x[1] = calloc(1, sizeof *l->x[1]);
  l->y = calloc(im->nprompt, sizeof *l->y);
  if (!l->x[0] || !l->x[1] || !l->y)
    return base_fail_memory(im->e);
  for (size_t i = 0; i < im->nprompt; i++) {
    l->x[0][i] = im->prompt[i].x;
    l->y[i] = im->prompt[i].ps / im->in->model->layers;
  }
  return judge_prompts(im);
}

/* ------------------------------------------------------------------------------ decode steps ---
 */

static double law_at(const double law[COLUMNS], int64_t rows, int64_t ctx)
{
  return law[0] + law[1] * (double)rows + law[2] * (double)rows * (double)ctx;
}

/* Robust least squares of relative errors of all points but `without`, over the first p columns. */
static int fit_columns(const struct import *im, size_t without, size_t p, double law[COLUMNS])
{
  size_t n = im->ndecode - (without < im->ndecode), row = 0;
  gsl_matrix *x = gsl_matrix_alloc(n, p), *cov = gsl_matrix_alloc(p, p);
  gsl_vector *y = gsl_vector_alloc(n), *v = gsl_vector_alloc(p);
  gsl_multifit_robust_workspace *w = gsl_multifit_robust_alloc(gsl_multifit_robust_bisquare, n, p);
  int rc = x && cov && y && v && w ? 0 : -1;
  for (size_t i = 0; !rc && i < im->ndecode; i++) {
    const struct point *q = &im->decode[i];
    const double column[COLUMNS] = {1, (double)q->rows, (double)q->rows * (double)q->x};
    if (i == without)
      continue;
    for (size_t j = 0; j < p; j++)
      gsl_matrix_set(x, row, j, column[j] * 1e9 / (double)q->ps);
    gsl_vector_set(y, row++, 1);
  }
  if (!rc) {
    int status = gsl_multifit_robust(x, y, v, cov, w);
    rc = status == GSL_SUCCESS || status == GSL_EMAXITER ? 0 : -2;
  }
  memset(law, 0, COLUMNS * sizeof *law);
  for (size_t j = 0; !rc && j < p; j++)
    law[j] = gsl_vector_get(v, j) * 1e9;
  gsl_multifit_robust_free(w);
  gsl_vector_free(v);
  gsl_vector_free(y);
  gsl_matrix_free(cov);
  gsl_matrix_free(x);
  return rc;
}

/* No coefficient below 0: while one is, the last is left out. */
static int fit_law(const struct import *im, size_t without, double law[COLUMNS])
{
  for (size_t p = COLUMNS; p > 0; p--) {
    int rc = fit_columns(im, without, p, law), below = 0;
    if (rc == -1)
      return base_fail_memory(im->e);
    for (size_t j = 0; j < p; j++)
      below |= !(law[j] >= 0);
    if (!rc && !below && law[0] > 0)
      return 0;
  }
  return base_fail_at(im->e, BASE_INPUT, im->in->path[0], 0,
                      "the decode steps do not determine constant, rows and context");
}

/* Each size from the law fitted to the others. */
static int judge_decode(struct import *im)
{
  struct fit_errors f;
  double law[COLUMNS];
  if (fit_errors_init(&f, im->ndecode))
    return base_fail_memory(im->e);
  f.samples = im->ndecode;
  for (size_t i = 0; i < im->ndecode; i++) {
    if (fit_law(im, i, law)) {
      free(f.ppb);
      return -1;
    }
    fit_errors_add(&f, llround(law_at(law, im->decode[i].rows, im->decode[i].x)), im->decode[i].ps);
  }
  fit_errors_close(&f, "whole decode steps", assemble_residuals(im->c, 1));
  return 0;
}

/* The distinct values of rows (or contexts), ascending; returns how many. */
static uint32_t list_axis(const struct import *im, int rows, int64_t *x)
{
  uint32_t n = 0;
  for (size_t i = 0; i < im->ndecode; i++)
    x[i] = rows ? im->decode[i].rows : im->decode[i].x;
  base_sort_int64(x, im->ndecode);
  for (size_t i = 0; i < im->ndecode; i++)
    if (!i || x[i] != x[n - 1])
      x[n++] = x[i];
  return n;
}

/* At one row count: the law over the contexts, moved so that it meets the point of the middle one
 * of its measured contexts. */
static void fill_rows(const struct import *im, struct calibration_grid *g, uint32_t i)
{
  const struct point *first = im->decode;
  while (first->rows != g->rows[i])
    first++;
  size_t n = 1, room = im->ndecode - (size_t)(first - im->decode);
  while (n < room && first[n].rows == g->rows[i])
    n++;
  const struct point *middle = &first[n / 2];
  double ratio = (double)middle->ps / law_at(im->law, middle->rows, middle->x);
  g->ctx_measured[i] = first[n - 1].x;
  for (uint32_t j = 0; j < g->nctx; j++)
    g->y[(size_t)i * g->nctx + j] = llround(law_at(im->law, g->rows[i], g->ctx[j]) * ratio) /
                                    im->in->model->layers;
}

static int make_decode(struct import *im)
{
  struct calibration_grid *g = &im->c->decode;
  g->rows = calloc(im->ndecode, sizeof *g->rows);
  g->ctx = calloc(im->ndecode, sizeof *g->ctx);
  g->ctx_measured = calloc(im->ndecode, sizeof *g->ctx_measured);
  if (!g->rows || !g->ctx || !g->ctx_measured)
    return base_fail_memory(im->e);
  g->nrows = list_axis(im, 1, g->rows);
  g->nctx = list_axis(im, 0, g->ctx);
  g->y = calloc((size_t)g->nrows * g->nctx, sizeof *g->y);
  if (!g->y)
    return base_fail_memory(im->e);
  gsl_error_handler_t *handler = gsl_set_error_handler_off();
  int rc = judge_decode(im);
  if (!rc)
    rc = fit_law(im, im->ndecode, im->law);
  gsl_set_error_handler(handler);
  for (uint32_t i = 0; !rc && i < g->nrows; i++)
    fill_rows(im, g, i);
  return rc;
}

/* --------------------------------------------------------------------------------- the rest ----
 */

/*
 * Chunks and rows together: one pass over the weights, of a prompt with as many tokens more, and
 * what the rows' contexts add. No such step was measured; it is never less than the rows alone.
 */
static int make_mixed(struct import *im)
{
  struct calibration *c = im->c;
  if (assemble_mixed(c, im->e))
    return -1;
  const struct lattice decode = calibration_grid_lattice(&c->decode);
  size_t cells = lattice_cells(&c->mixed);
  for (size_t i = 0; i < cells; i++) {
    struct lattice_point p[LATTICE_RANK], short_rows[2];
    lattice_cell_point(&c->mixed, i, p);
    short_rows[0] = p[2];
    short_rows[1] = (struct lattice_point){0, 1};
    int64_t rows = lattice_value(&decode, p + 2);
    p[0].num += p[2].num;
    int64_t both = lattice_value(&c->prompt, p) + rows - lattice_value(&decode, short_rows);
    c->mixed.y[i] = both > rows ? both : rows;
  }
  return 0;
}

/* Operators cost nothing of their own; but first the times must be possible. */
static int make_operators(struct import *im)
{
  struct calibration *c = im->c;
  const int64_t rows[] = {1, c->decode.rows[c->decode.nrows - 1]};
  if (assemble_curve(&c->body, c->prompt.x[0], c->prompt.n[0], im->e) ||
      assemble_curve(&c->once, c->prompt.x[0], c->prompt.n[0], im->e))
    return -1;
  memcpy(c->body.y, c->prompt.y, c->body.n * sizeof *c->body.y);
  if (assemble_check_peak(c, im->in->model, im->in->gpu, im->in->path[0], im->e))
    return -1;
  memset(c->body.y, 0, c->body.n * sizeof *c->body.y);
  if (assemble_curve(&c->head, rows[1] > 1 ? rows : c->prompt.x[0], 2, im->e))
    return -1;
  source_text(c->collective_note, sizeof c->collective_note, "within the measured steps");
  return 0;
}

static int keep_samples(struct import *im)
{
  struct calibration_samples *s = assemble_samples(
      im->c, "steps", "prompt,batch,output,prompt_ps,token_ps", 5, im->n, im->e);
  for (size_t i = 0; s && i < im->n; i++) {
    const struct row *r = &im->row[i];
    const int64_t v[] = {r->prompt, r->batch, r->output, r->prompt_ps, r->token_ps};
    memcpy(s->v + 5 * i, v, sizeof v);
  }
  return s ? 0 : -1;
}

static int note_source(struct import *im)
{
  const char *engine = im->in->engine ? im->in->engine : "splitwise's profile, version not stated";
  source_text(im->c->engine, sizeof im->c->engine, engine);
  return source_add(im->c, im->in->path[0], engine, "whole steps", "MIT",
                    "https://github.com/Mutinifni/splitwise-sim", im->e);
}

static int import_all(struct import *im)
{
  if (read_table(im) || note_source(im) || take_points(im) || make_prompts(im) || make_decode(im) ||
      make_operators(im) || make_mixed(im) || keep_samples(im))
    return -1;
  tell_falls(im);
  if (im->talk)
    fputs("the times are of whole steps: give the engine no host time of its own (<host "
          "step=\"0\"/>)\n",
          im->talk);
  assemble_finish(im->c, im->talk);
  return 0;
}

struct calibration *calib_fit_splitwise(const struct calib_input *in, FILE *talk,
                                        struct base_error *e)
{
  const struct assemble_of of = {in->model, in->gpu, "bfloat16", "bfloat16", in->tp};
  struct import im = {.in = in, .talk = talk, .e = e};
  struct llm part;
  if (in->npaths != 1) {
    base_fail(e, BASE_INPUT, "one table is needed: perf_model.csv");
    return NULL;
  }
  if (llm_shard(in->model, in->tp, &part, e))
    return NULL;
  im.c = assemble_begin(&of, e);
  int rc = im.c ? import_all(&im) : -1;
  free(im.row);
  free(im.prompt);
  free(im.decode);
  if (rc) {
    calibration_free(im.c);
    return NULL;
  }
  return im.c;
}
