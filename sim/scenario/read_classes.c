/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Classes: what users send. */
#include <string.h>

#include "sim/scenario/reader.h"

int class_by_id(const struct scenario *s, const char *id)
{
  for (uint32_t i = 0; i < s->nclasses; i++)
    if (s->cls[i].id && !strcmp(s->cls[i].id, id))
      return (int)i;
  return -1;
}

/* Whether an attribute is written where its process or distribution gives it a meaning. */
static int check_meaning(struct reader *r, const xmlNode *node, const char *name, int needed,
                         int written, const char *of)
{
  if (needed && !written)
    return node_fail(r, node, "<%s> needs '%s' with %s", (const char *)node->name, name, of);
  if (!needed && written)
    return node_fail(r, node, "<%s> '%s' has no meaning with %s; remove it",
                     (const char *)node->name, name, of);
  return 0;
}

static const char *const processes[] = {"none", "constant", "poisson", "gamma", "trace", "backlog"};

/* -1 if it is not known how requests of the class arrive. */
static int read_arrivals(struct reader *r, const xmlNode *node, struct scenario_class *c)
{
  struct raw_arrivals raw = {0};
  static const int of[] = {ARRIVALS_NONE,  ARRIVALS_CONSTANT, ARRIVALS_POISSON,
                           ARRIVALS_GAMMA, ARRIVALS_TRACE,    ARRIVALS_BACKLOG};
  if (!node || attributes_read(r, node, &raw))
    return -1;
  c->arrivals = of[raw.process];
  const char *what = processes[raw.process];
  int rate = c->arrivals == ARRIVALS_CONSTANT || c->arrivals == ARRIVALS_POISSON ||
             c->arrivals == ARRIVALS_GAMMA;
  int bad = check_meaning(r, node, "rate", rate, raw.rate != FIELD_UNSET, what) |
            check_meaning(r, node, "cv", c->arrivals == ARRIVALS_GAMMA, raw.cv != FIELD_UNSET,
                          what) |
            check_meaning(r, node, "below", c->arrivals == ARRIVALS_BACKLOG,
                          raw.below != FIELD_UNSET, what);
  if (bad)
    return 0;
  c->rate_uhz = rate ? raw.rate : 0;
  c->cv_ppm = c->arrivals == ARRIVALS_GAMMA ? raw.cv : 0;
  c->backlog_below = c->arrivals == ARRIVALS_BACKLOG ? (uint32_t)raw.below : 0;
  __int128 rows = (__int128)c->rate_uhz * (r->whole->s.window > 0 ? r->whole->s.window : 0);
  if (rows / 1000000 / INT64_C(1000000000000) > LIMIT_ROWS)
    node_fail(r, node, "<arrivals> rate x window is more than %d requests; shorten the window",
              LIMIT_ROWS);
  return 0;
}

static void read_dist(struct reader *r, const xmlNode *node, struct scenario_dist *d)
{
  static const char *const kinds[] = {"constant", "lognormal", "uniform", "exponential"};
  struct raw_dist raw = {0};
  if (attributes_read(r, node, &raw))
    return;
  const char *what = kinds[raw.dist];
  int constant = raw.dist == DIST_CONSTANT;
  if (check_meaning(r, node, "mean", raw.dist != DIST_UNIFORM, raw.mean != FIELD_UNSET, what) |
      check_meaning(r, node, "sigma", raw.dist == DIST_LOGNORMAL, raw.sigma != FIELD_UNSET, what) |
      check_meaning(r, node, "max", !constant, raw.max != FIELD_UNSET, what))
    return;
  *d = (struct scenario_dist){.kind = (int)raw.dist,
                              .mean_tokens = raw.mean == FIELD_UNSET ? 0 : raw.mean,
                              .sigma_ppm = raw.sigma == FIELD_UNSET ? 0 : raw.sigma,
                              .min_tokens = constant ? raw.mean : raw.min,
                              .max_tokens = constant ? raw.mean : raw.max};
  if (d->min_tokens > d->max_tokens)
    node_fail(r, node, "<%s> min is above max", (const char *)node->name);
}

static void read_trace(struct reader *r, const xmlNode *node, struct scenario_class *c)
{
  struct raw_trace raw = {0};
  lull_time end = 0;
  struct base_error e = {0};
  if (attributes_read(r, node, &raw))
    return;
  c->trace.file = (struct scenario_file){
      .name = raw.href, .format = (int)raw.format, .sha256 = raw.sha256};
  c->trace.speed_ppm = raw.speed;
  c->trace.limit = (uint64_t)raw.limit;
  c->trace.start = raw.start;
  if (files_find(r, node, &c->trace.file) || r->whole->s.window != WINDOW_TRACE ||
      r->options->skip_files)
    return;
  if (files_trace_end(c, &end, &e))
    node_fail_with(r, node, "href", &e);
  else if (end > r->trace_end)
    r->trace_end = end;
}

static void read_items(struct reader *r, const xmlNode *node, struct scenario_class *c)
{
  struct raw_items raw = {0};
  struct base_error e = {0};
  if (!node || attributes_read(r, node, &raw))
    return;
  c->items.file = (struct scenario_file){
      .name = raw.href, .format = (int)raw.format, .sha256 = raw.sha256};
  if (!files_find(r, node, &c->items.file) && !r->options->skip_files && files_read_items(r, c, &e))
    node_fail_with(r, node, "href", &e);
}

/* Whether the two distributions of lengths are due: 1, not wanted: 0, or as one likes: -1. */
static int needs_lengths(const struct scenario_class *c, const xmlNode *items)
{
  if (c->arrivals == ARRIVALS_TRACE || (items && c->arrivals == ARRIVALS_NONE))
    return 0;
  if (c->arrivals == ARRIVALS_BACKLOG)
    return !items;
  return c->arrivals == ARRIVALS_NONE ? -1 : 1;
}

/* What a class sends: by a trace, or by two distributions; and its backlog's items. */
static void read_lengths(struct reader *r, const xmlNode *node, struct scenario_class *c)
{
  static const char *const names[] = {"trace", "prompt", "output"};
  const xmlNode *items = child_first(node, "items");
  int trace = c->arrivals == ARRIVALS_TRACE, lengths = needs_lengths(c, items);
  if (lengths < 0)
    lengths = child_first(node, "prompt") || child_first(node, "output");
  for (int i = 0; i < 3; i++) {
    const xmlNode *part = child_first(node, names[i]);
    int due = i ? lengths : trace;
    if (due && !part)
      node_fail(r, node, "<class> '%s' needs a <%s> child", c->id, names[i]);
    else if (!due && part)
      node_fail(r, part, "<%s> has no meaning with %s; remove it", names[i],
                trace        ? "trace arrivals"
                : i && items ? "an <items> file"
                             : "these arrivals");
    else if (part && i == 0)
      read_trace(r, part, c);
    else if (part)
      read_dist(r, part, i == 1 ? &c->prompt : &c->output);
  }
  read_items(r, items, c);
}

static void read_slo(struct reader *r, const xmlNode *node, struct scenario_class *c)
{
  struct raw_slo raw = {0};
  const xmlNode *slo = child_first(node, "slo");
  if (c->interactive && !slo)
    node_fail(r, node, "<class> '%s' is live and needs an <slo ttft=... tpot=.../> child", c->id);
  else if (!c->interactive && slo)
    node_fail(r, slo, "<slo> has no meaning for a batch class; remove it or make it live");
  else if (slo && !attributes_read(r, slo, &raw)) {
    c->slo_ttft = raw.ttft;
    c->slo_tpot = raw.tpot;
  }
}

static void read_class(struct reader *r, const xmlNode *node, struct scenario_class *c)
{
  struct raw_class raw = {0};
  attributes_read(r, node, &raw);
  if (raw.id && class_by_id(&r->whole->s, raw.id) >= 0)
    node_fail(r, node, "two classes are named '%s'; rename one", raw.id);
  c->id = raw.id ? raw.id : "";
  c->interactive = raw.live == 1;
  if (!read_arrivals(r, child_first(node, "arrivals"), c))
    read_lengths(r, node, c);
  read_slo(r, node, c);
  if (c->interactive && c->arrivals == ARRIVALS_BACKLOG)
    node_fail(r, node, "<class> '%s': live requests cannot be a backlog; make it batch", c->id);
}

/* window="trace" ends with the last row of the longest trace. */
static void close_window(struct reader *r, const xmlNode *root)
{
  struct scenario *s = &r->whole->s;
  if (s->window != WINDOW_TRACE)
    return;
  s->window = r->trace_end >= 0 ? r->trace_end + 1 : INT64_C(1000000000000);
  if (r->trace_end >= 0 || r->options->skip_files || r->errors->total)
    return;
  node_fail(r, child_first(root, "run"),
            "<run> window=\"trace\", but no class has trace arrivals; write a time");
}

void read_classes(struct reader *r, const xmlNode *root)
{
  struct scenario *s = &r->whole->s;
  size_t n = child_count(r, root, "class", LULL_CLASSES);
  s->cls = arena_alloc(r->arena, n + 1, sizeof *s->cls);
  const xmlNode *c = s->cls ? child_first(root, "class") : NULL;
  for (; c && s->nclasses < n; c = child_next(c)) {
    read_class(r, c, &s->cls[s->nclasses]);
    s->nclasses++;
  }
  close_window(r, root);
}
