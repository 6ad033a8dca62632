/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lull calibration: what a calibration holds, and how two differ. */
#include <string.h>

#include "calib/calib.h"
#include "calib/measured_points.h"
#include "cli/commands.h"
#include "models/calibration.h"

/* The grids of a calibration with the names of their axes; an empty one was not measured. */
struct part {
  const char *name, *axis[LATTICE_RANK];
  struct lattice grid;
};
enum { PARTS = 11 };

static void list_parts(const struct calibration *c, struct part out[PARTS])
{
  const struct part all[PARTS] = {
      {"layer", {"tokens"}, calibration_curve_lattice(&c->body)},
      {"once a step", {"tokens"}, calibration_curve_lattice(&c->once)},
      {"head", {"positions"}, calibration_curve_lattice(&c->head)},
      {"draft layer", {"tokens"}, calibration_curve_lattice(&c->draft_layer)},
      {"all-reduce", {"bytes"}, calibration_curve_lattice(&c->collective)},
      {"decode attention", {"rows", "context"}, calibration_grid_lattice(&c->decode)},
      {"prefill attention", {"pairs"}, calibration_curve_lattice(&c->prefill)},
      {"prefill attention", {"chunk", "history"}, c->prompt},
      {"mixed attention", {"chunk", "history", "rows", "context"}, c->mixed},
      {"uneven decode", {"rows"}, calibration_curve_lattice(&c->skew_decode)},
      {"uneven mixed", {"rows"}, calibration_curve_lattice(&c->skew_mixed)},
  };
  memcpy(out, all, sizeof all);
}

static int64_t first_of(const struct part *p, uint32_t a)
{
  return p->grid.x[a][0];
}

static int64_t last_of(const struct part *p, uint32_t a)
{
  return p->grid.x[a][p->grid.n[a] - 1];
}

/* ------------------------------------------------------------------------------------- show --- */

static void print_identity(const struct calibration *c)
{
  printf("%s\n", c->name);
  printf("  model     %s, %u layers, weights %s, KV %s\n", c->model, c->layers, c->weight_dtype,
         c->kv_dtype);
  printf("  GPU       %s, tensor parallel %u\n", c->gpu, c->tp);
  printf("  engine    %s\n", c->engine);
  printf("  memory    weights %.2f GiB, KV %lld bytes a token, of %.1f GiB; each of one GPU\n",
         (double)c->weight_bytes / (1 << 30), (long long)c->kv_bytes_per_token,
         (double)c->gpu_memory_bytes / (1 << 30));
  printf("  steps     %s\n", c->law == CALIBRATION_TABLES
                                 ? "by tables of chunk, history, rows and context together"
                                 : "the sum of decode attention and a curve over attended pairs");
  printf("  digest    %s\n", c->digest);
}

static void print_coverage(const struct calibration *c)
{
  struct part part[PARTS];
  list_parts(c, part);
  puts("measured");
  for (int i = 0; i < PARTS; i++) {
    const struct part *p = &part[i];
    if (!p->grid.n[0])
      continue;
    printf("  %-18s", p->name);
    for (uint32_t a = 0; a < p->grid.rank; a++)
      printf("%s%s %lld to %lld (%u)", a ? ", " : "", p->axis[a], (long long)first_of(p, a),
             (long long)last_of(p, a), p->grid.n[a]);
    putchar('\n');
  }
  if (c->law != CALIBRATION_TABLES)
    return;
  if (!c->skew_decode.n)
    puts("  uneven batches    not measured: they cost what even ones of their mean do");
  printf("  collectives       %s\n", c->collective_note);
  if (c->host_step_ps)
    printf("  host              %.1f us a step\n", (double)c->host_step_ps / 1e6);
  if (c->derived[0])
    printf("  derived           %s: not measured\n", c->derived);
}

static void print_errors(const struct calibration *c)
{
  puts("errors of held-out measurements");
  printf("  %-28s %8s %9s %7s %7s %7s\n", "", "samples", "held out", "p50", "p95", "max");
  for (uint32_t i = 0; i < c->nresiduals; i++) {
    const struct calibration_residual *r = &c->residual[i];
    printf("  %-28s %8u %9u %6.1f%% %6.1f%% %6.1f%%\n", r->curve, r->samples, r->heldout,
           100 * r->p50, 100 * r->p95, 100 * r->max);
  }
}

static void print_doubts(const struct calibration *c)
{
  char doubts[300];
  if (calibration_doubts(c, doubts, sizeof doubts))
    printf("warning: %s\n", doubts);
}

static void print_sources(const struct calibration *c)
{
  puts("from");
  for (uint32_t i = 0; i < c->nsources; i++) {
    const struct calibration_source *s = &c->source[i];
    printf("  %s\n    SHA-256 %s\n    engine %s; kernels %s; licence %s\n    %s\n", s->file,
           s->sha256, s->engine, s->kernel, s->licence, s->url);
  }
  for (uint32_t i = 0; i < c->nsamples; i++)
    printf("%s%s (%u)", i ? ", " : "samples kept: ", c->sample[i].name, c->sample[i].n);
  if (c->nsamples)
    putchar('\n');
}

/* What of the largest steps lies beyond an axis; `said` tells whether anything did. */
static void print_beyond(const struct part *p, uint32_t a, uint64_t most, int *said)
{
  if (!most || !p->grid.n[0] || most <= (uint64_t)last_of(p, a))
    return;
  printf("  %s: %s beyond %lld go on in a straight line\n", p->name, p->axis[a],
         (long long)last_of(p, a));
  *said = 1;
}

static void print_extrapolated(const struct calibration *c, const struct cli_options *o)
{
  struct part part[PARTS];
  int said = 0;
  if (!o->max_seqs && !o->token_budget && !o->max_context)
    return;
  const struct {
    const char *axis;
    uint64_t most;
  } wanted[] = {{"rows", o->max_seqs},
                {"positions", o->max_seqs},
                {"tokens", o->token_budget},
                {"chunk", o->token_budget},
                {"context", o->max_context},
                {"history", o->max_context},
                {"bytes", o->token_budget * 2 * c->hidden}};
  list_parts(c, part);
  puts("of such steps extrapolated");
  for (int i = 0; i < PARTS; i++)
    for (uint32_t a = 0; a < part[i].grid.rank; a++)
      for (size_t k = 0; k < sizeof wanted / sizeof wanted[0]; k++)
        if (strcmp(wanted[k].axis, part[i].axis[a]) == 0 && strncmp(part[i].name, "uneven", 6))
          print_beyond(&part[i], a, wanted[k].most, &said);
  if (!said)
    puts("  nothing");
}

static int show(struct cli_line *line, struct base_error *e)
{
  struct calibration *c = calibration_open(line->arg[1], e);
  if (!c)
    return -1;
  print_identity(c);
  print_coverage(c);
  print_errors(c);
  print_doubts(c);
  print_sources(c);
  print_extrapolated(c, &line->options);
  calibration_free(c);
  return BASE_OK;
}

/* ------------------------------------------------------------------------------------- diff --- */

static int differ_text(const char *what, const char *a, const char *b)
{
  if (strcmp(a, b) == 0)
    return 0;
  printf("%s: '%s' and '%s'\n", what, a, b);
  return 1;
}

static int differ_number(const char *what, int64_t a, int64_t b)
{
  if (a == b)
    return 0;
  printf("%s: %lld and %lld\n", what, (long long)a, (long long)b);
  return 1;
}

static int differ_identity(const struct calibration *a, const struct calibration *b)
{
  return differ_text("model", a->model, b->model) | differ_text("GPU", a->gpu, b->gpu) |
         differ_text("engine", a->engine, b->engine) |
         differ_text("weights", a->weight_dtype, b->weight_dtype) |
         differ_text("KV", a->kv_dtype, b->kv_dtype) |
         differ_text("collectives", a->collective_note, b->collective_note) |
         differ_text("derived", a->derived, b->derived) |
         differ_number("kind of steps", a->law, b->law) |
         differ_number("tensor parallel", a->tp, b->tp) |
         differ_text("chunks sampled", a->sampled, b->sampled) |
         differ_number("host ps a step", a->host_step_ps, b->host_step_ps) |
         differ_number("layers", a->layers, b->layers) |
         differ_number("weight bytes", a->weight_bytes, b->weight_bytes) |
         differ_number("KV bytes a token", a->kv_bytes_per_token, b->kv_bytes_per_token) |
         differ_number("prefill fs a token", a->prefill_token_fs, b->prefill_token_fs);
}

/* The grid point of a cell; 1 if it is within the other grid. */
static int point_of(const struct lattice *l, size_t cell, const struct lattice *other,
                    struct lattice_point p[LATTICE_RANK])
{
  lattice_cell_point(l, cell, p);
  return !lattice_outside(other, p, 0) && !lattice_outside(other, p, 1);
}

/* Which of the grid's points the samples of the calibration tell to be measured; known is 0 where
 * they tell nothing. */
static int list_points(struct measured_points *m, const struct calibration *c, const struct part *p,
                       struct base_error *e)
{
  static const char *const name[MEASURED_PARTS] = {[MEASURED_DECODE] = "decode attention",
                                                   [MEASURED_PROMPT] = "prefill attention",
                                                   [MEASURED_MIXED] = "mixed attention"};
  *m = (struct measured_points){0};
  for (int i = 0; i < MEASURED_PARTS; i++)
    if (p->grid.rank > 1 && !strcmp(p->name, name[i]))
      return measured_points_list(m, c, i, e);
  return 0;
}

/* By how much two parts differ at the points of the first that the second covers; of those that
 * samples tell of, at the measured ones. */
static int differ_part(const struct part *a, const struct part *b, const struct measured_points *m)
{
  size_t cells = a->grid.n[0] ? lattice_cells(&a->grid) : 0, both = 0, unlike = 0;
  struct lattice_point p[LATTICE_RANK];
  double worst = 0, sum = 0;
  if (!a->grid.n[0] != !b->grid.n[0])
    printf("%s: only in the %s\n", a->name, a->grid.n[0] ? "first" : "second");
  for (size_t i = 0; i < cells && b->grid.n[0]; i++) {
    if (!point_of(&a->grid, i, &b->grid, p) ||
        (m->known && !measured_points_has(m, p, a->grid.rank)))
      continue;
    int64_t x = a->grid.y[i], y = lattice_value(&b->grid, p);
    double d = x ? (double)(y - x) / (double)x : y != 0;
    both++;
    unlike += x != y;
    sum += d;
    if (d * d > worst * worst)
      worst = d;
  }
  if (unlike)
    printf(
        "%s: the second is %+.1f%% on average, %+.1f%% at most, over %zu %s points of the first\n",
        a->name, 100 * sum / (double)both, 100 * worst, both, m->known ? "measured" : "grid");
  return unlike || !a->grid.n[0] != !b->grid.n[0];
}

/* The same of all parts of two calibrations; -1: out of memory. */
static int differ_parts(const struct calibration *a, const struct calibration *b,
                        struct base_error *e)
{
  struct part x[PARTS], y[PARTS];
  int any = 0;
  list_parts(a, x);
  list_parts(b, y);
  for (int i = 0; i < PARTS; i++) {
    struct measured_points m;
    if (list_points(&m, a, &x[i], e))
      return -1;
    any |= differ_part(&x[i], &y[i], &m);
    measured_points_free(&m);
  }
  return any;
}

static int differ_errors(const struct calibration *a, const struct calibration *b)
{
  int any = 0;
  for (uint32_t i = 0; i < a->nresiduals; i++)
    for (uint32_t j = 0; j < b->nresiduals; j++) {
      const struct calibration_residual *r = &a->residual[i], *s = &b->residual[j];
      if (strcmp(r->curve, s->curve) || (r->p50 == s->p50 && r->p95 == s->p95))
        continue;
      printf("held-out error of %s: p50 %.1f%% and %.1f%%, p95 %.1f%% and %.1f%%\n", r->curve,
             100 * r->p50, 100 * s->p50, 100 * r->p95, 100 * s->p95);
      any = 1;
    }
  return any;
}

/* Median and tail of the differences by part; both must be by tables. */
static int print_distances(const struct calibration *a, const struct calibration *b,
                           struct base_error *e)
{
  struct calibration_residual r[8];
  int n = a->law == CALIBRATION_TABLES && b->law == CALIBRATION_TABLES
              ? calib_compare(a, b, r, 8, e)
              : 0;
  if (n > 0)
    printf("size of the difference at points that the first measured\n  %-28s %8s %7s %7s %7s\n",
           "", "points", "p50", "p95", "max");
  for (int i = 0; i < n; i++)
    printf("  %-28s %8u %6.1f%% %6.1f%% %6.1f%%\n", r[i].curve, r[i].samples, 100 * r[i].p50,
           100 * r[i].p95, 100 * r[i].max);
  return n < 0 ? -1 : 0;
}

static int diff(struct cli_line *line, struct base_error *e)
{
  struct calibration *a = calibration_open(line->arg[1], e);
  struct calibration *b = a ? calibration_open(line->arg[2], e) : NULL;
  int rc = -1;
  if (a && b) {
    int any = differ_identity(a, b), parts = differ_parts(a, b, e);
    if (parts < 0)
      goto free_both;
    any |= parts;
    any |= differ_errors(a, b);
    if (any && print_distances(a, b, e))
      goto free_both;
    if (!any && differ_text("digest", a->digest, b->digest))
      any = 1;
    puts(any ? "they differ" : "they are equal");
    rc = any ? BASE_GATE : BASE_OK;
  }
free_both:
  calibration_free(a);
  calibration_free(b);
  return rc;
}

int cli_calibration(struct cli_line *line)
{
  static const char *const actions[] = {"show", "diff"};
  const char *action = line->arg[0];
  struct base_error e = {0};
  int is_diff = strcmp(action, actions[1]) == 0, code = -1;
  if (!is_diff && strcmp(action, actions[0])) {
    const char *near = base_nearest(action, actions, 2);
    base_fail(&e, BASE_USAGE, "lull calibration: unknown action '%s'; did you mean '%s'?", action,
              near ? near : actions[0]);
  } else if (line->nargs != (is_diff ? 3 : 2)) {
    base_fail(&e, BASE_USAGE, "lull calibration %s: %s", action,
              is_diff ? "name two calibrations" : "name one calibration");
  } else {
    code = is_diff ? diff(line, &e) : show(line, &e);
  }
  return code < 0 ? cli_fail(&e) : code;
}
