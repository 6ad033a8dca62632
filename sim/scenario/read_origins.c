/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Where values come from, and how they are moved: parameters and sweeps. */
#include <stdlib.h>
#include <string.h>

#include "sim/scenario/reader.h"

/* The one attribute that a target names; NULL and an error otherwise. */
static xmlAttr *one_attribute(struct reader *r, const xmlNode *node, const char *target)
{
  struct base_error e = {0};
  xmlAttr *attr = NULL;
  int n = 0;
  if (!target_find(r, target, &attr, 1, &n, &e) && n != 1)
    base_fail(&e, BASE_INPUT, "target '%.200s' names %s attribute%s", target,
              n ? "more than one" : "no", n ? "; make it more precise" : " of this scenario");
  if (!e.code)
    target_field(attr, &e);
  if (e.code)
    node_fail_with(r, node, "", &e);
  return e.code ? NULL : attr;
}

static const char *attribute_text(struct reader *r, const xmlAttr *attr)
{
  xmlChar *text = xmlNodeListGetString(r->doc, attr->children, 1);
  const char *copy = arena_text(r->arena, text ? (const char *)text : "");
  xmlFree(text);
  return copy;
}

/* Costs of the scenario are not in use where others stand in their place. */
static int is_replaced(const struct reader *r, const xmlAttr *attr)
{
  return r->options->calibration && (!strcmp((const char *)attr->parent->name, "analytic") ||
                                     !strcmp((const char *)attr->name, "calibration"));
}

/* An attribute that has its parameter is marked, so that doubles and gaps are seen. 1: its value is
 * not in use. */
static int read_parameter(struct reader *r, const xmlNode *node, struct scenario_parameter *p)
{
  struct raw_parameter raw = {0};
  p->line = node_line(node);
  p->target = p->name = p->value = "";
  p->reason = node_text(r, node);
  if (attributes_read(r, node, &raw))
    return 0;
  xmlAttr *attr = one_attribute(r, node, raw.target);
  if (!p->reason[0])
    node_fail(r, node, "<parameter> has no reason; write it as its text");
  if (!attr)
    return 0;
  p->target = raw.target;
  p->origin = (int)raw.origin;
  p->name = target_name(r, attr);
  p->value = attribute_text(r, attr);
  if (attr->_private)
    node_fail(r, node, "<parameter> '%s' has a parameter element already (line %u)", p->name,
              node_line(attr->_private));
  attr->_private = (void *)(uintptr_t)node;
  return is_replaced(r, attr);
}

/* Numbers of run, engine and classes without a parameter, in a campaign's scenario. */
static void find_gaps(struct reader *r, const xmlNode *node)
{
  const struct element *el = element_find((const char *)node->name);
  for (const xmlAttr *a = node->properties; el && a; a = a->next) {
    const struct field *f = element_field(el, (const char *)a->name);
    if (f && (field_is_number(f) || !strcmp(f->name, "seeds")) && !a->_private)
      node_fail(r, node,
                "%s has no <parameter> that says where it comes from; a campaign's "
                "scenario needs one for each number",
                target_name(r, a));
  }
  for (const xmlNode *c = node->children; c; c = c->next)
    if (c->type == XML_ELEMENT_NODE)
      find_gaps(r, c);
}

static void read_values(struct reader *r, const xmlNode *node, const char *text,
                        const struct field *f, struct scenario_sweep *w)
{
  char(*word)[WORD_SIZE] = calloc(LIMIT_VALUES, sizeof *word);
  int n = word ? split_words(text, word, LIMIT_VALUES) : 0;
  w->value = arena_alloc(r->arena, n > 0 ? (size_t)n : 1, sizeof *w->value);
  if (!word || !w->value)
    r->arena->failed = 1;
  else if (n <= 0)
    node_fail(r, node, "<sweep> values: write 1 to %d values separated by spaces", LIMIT_VALUES);
  for (int i = 0; w->value && i < n; i++) {
    struct base_error e = {0};
    int64_t value;
    if (f && field_parse(f, word[i], &value, &e))
      node_fail_with(r, node, "values", &e);
    w->value[w->n++] = arena_text(r->arena, word[i]);
  }
  free(word);
}

static void read_sweep(struct reader *r, const xmlNode *node, struct scenario_sweep *w)
{
  struct raw_sweep raw = {0};
  const struct scenario *s = &r->whole->s;
  w->id = w->target = "";
  w->title = node_text(r, child_first(node, "title"));
  w->note = node_text(r, child_first(node, "note"));
  if (attributes_read(r, node, &raw))
    return;
  for (const struct scenario_sweep *o = s->sweep; o < w; o++)
    if (!strcmp(o->id, raw.id))
      node_fail(r, node, "two sweeps are named '%s'; rename one", raw.id);
  w->id = raw.id;
  w->kind = (int)raw.kind;
  w->target = raw.target;
  xmlAttr *attr = one_attribute(r, node, raw.target);
  read_values(r, node, raw.values, attr ? target_field(attr, NULL) : NULL, w);
  if (s->baseline < 0)
    node_fail(r, node,
              "<sweep> '%s' compares with the baseline, but no arm is one; write "
              "baseline=\"yes\" on one",
              w->id);
}

void read_origins(struct reader *r, const xmlNode *root)
{
  static const char *const told[] = {"run", "engine", "class"};
  struct scenario *s = &r->whole->s;
  size_t n = child_count(r, root, "parameter", LIMIT_PARAMETERS);
  s->parameter = arena_alloc(r->arena, n + 1, sizeof *s->parameter);
  const xmlNode *c = s->parameter ? child_first(root, "parameter") : NULL;
  for (; c && s->nparameters < n; c = child_next(c))
    s->nparameters += !read_parameter(r, c, &s->parameter[s->nparameters]);
  for (size_t i = 0; s->campaign[0] && i < sizeof told / sizeof *told; i++)
    for (c = child_first(root, told[i]); c; c = child_next(c))
      find_gaps(r, c);
  n = child_count(r, root, "sweep", LIMIT_SWEEPS);
  s->sweep = arena_alloc(r->arena, n + 1, sizeof *s->sweep);
  c = s->sweep ? child_first(root, "sweep") : NULL;
  for (; c && s->nsweeps < n; c = child_next(c), s->nsweeps++)
    read_sweep(r, c, &s->sweep[s->nsweeps]);
}
