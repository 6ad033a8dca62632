/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Attributes by XPath: targets of parameters, sweeps and overrides. */
#include <libxml/xpathInternals.h>
#include <string.h>

#include "sim/scenario/reader.h"

enum {
  TARGET_SIZE = 512,
  TARGET_WORK = 200000,     /* XPath operations of one target */
  TARGET_WORK_ALL = 5000000 /* and of all targets of a document */
};

static void ignore_error(void *ctx, xmlError *error)
{
}

static xmlXPathContext *open_xpath(struct reader *r)
{
  if (r->xpath)
    return r->xpath;
  r->xpath = xmlXPathNewContext(r->doc);
  if (!r->xpath)
    return NULL;
  r->xpath->error = ignore_error;
  xmlXPathRegisterNs(r->xpath, BAD_CAST "s", BAD_CAST SCENARIO_NAMESPACE);
  return r->xpath;
}

/* The attributes of a result; fails on any other node. */
static int take(const xmlXPathObject *found, xmlAttr **attr, int max, int *n)
{
  const xmlNodeSet *set = found->type == XPATH_NODESET ? found->nodesetval : NULL;
  *n = 0;
  if (found->type != XPATH_NODESET)
    return -1;
  for (int i = 0; set && i < set->nodeNr; i++) {
    if (set->nodeTab[i]->type != XML_ATTRIBUTE_NODE)
      return -1;
    if (*n < max)
      attr[*n] = (xmlAttr *)set->nodeTab[i];
    ++*n;
  }
  return 0;
}

int target_find(struct reader *r, const char *target, xmlAttr **attr, int max, int *n,
                struct base_error *e)
{
  xmlXPathContext *x = open_xpath(r);
  if (!x)
    return base_fail_memory(e);
  *n = 0;
  if (strlen(target) >= TARGET_SIZE || r->xpath_work > TARGET_WORK_ALL)
    return base_fail(e, BASE_INPUT, "target '%.100s' is too long or one of too many", target);
  x->node = xmlDocGetRootElement(r->doc);
  x->opLimit = TARGET_WORK;
  x->opCount = 0;
  xmlXPathCompExpr *expr = xmlXPathCtxtCompile(x, BAD_CAST target);
  xmlXPathObject *found = expr ? xmlXPathCompiledEval(expr, x) : NULL;
  r->xpath_work += x->opCount;
  int bad = !found || take(found, attr, max, n);
  xmlXPathFreeObject(found);
  xmlXPathFreeCompExpr(expr);
  if (bad)
    return base_fail(e, BASE_INPUT,
                     "target '%.200s' does not name an attribute; write XPath with the prefix s:, "
                     "for example s:engine/@token-budget or s:class[@id='live']/s:arrivals/@rate",
                     target);
  return 0;
}

const struct field *target_field(const xmlAttr *attr, struct base_error *e)
{
  static const char *const settings[] = {"run", "machine", "engine", "class", "arm"};
  const xmlNode *node = attr->parent, *top = node;
  while (top->parent && top->parent->parent && top->parent->parent->type == XML_ELEMENT_NODE)
    top = top->parent;
  const struct element *el = element_find((const char *)node->name);
  const struct field *f = el ? element_field(el, (const char *)attr->name) : NULL;
  for (size_t i = 0; f && i < sizeof settings / sizeof *settings; i++)
    if (xmlStrEqual(top->name, BAD_CAST settings[i]))
      return f;
  base_fail(e, BASE_INPUT, "attribute '%.60s' of <%.60s> is not a setting",
            (const char *)attr->name, (const char *)node->name);
  return NULL;
}

const char *target_name(struct reader *r, const xmlAttr *attr)
{
  const char *name = arena_text(r->arena, (const char *)attr->name);
  for (const xmlNode *n = attr->parent; n->parent && n->parent->type == XML_ELEMENT_NODE;
       n = n->parent) {
    xmlChar *id = xmlGetNoNsProp((xmlNode *)n, BAD_CAST "id");
    name = arena_format(r->arena, "%s/%s", id ? (const char *)id : (const char *)n->name, name);
    xmlFree(id);
  }
  return name;
}

/* Copies a name of XPath, from `at` to a '[', a '/' or the end, without its prefix. Returns it. */
static const char *step_name(const char *at, char *name, int *prefixed)
{
  size_t n = strcspn(at, "/[");
  const char *colon = memchr(at, ':', n);
  *prefixed = colon != NULL;
  if (colon) {
    n -= (size_t)(colon + 1 - at);
    at = colon + 1;
  }
  snprintf(name, WORD_SIZE, "%.*s", (int)n, at);
  return name;
}

/* Goes on after the '/' of the next step, over predicates; NULL: it was the last. */
static const char *next_step(const char *at)
{
  int depth = 0;
  for (; *at; at++) {
    depth += (*at == '[') - (*at == ']');
    if (*at == '/' && depth == 0)
      return at + strspn(at, "/");
  }
  return NULL;
}

enum { NAMES_MAX = 64 }; /* more than there are elements, or attributes of one */

static const char *nearest_element(const char *name)
{
  const char *names[NAMES_MAX];
  size_t n = 0;
  for (; n < scenario_element_count && n < NAMES_MAX; n++)
    names[n] = scenario_elements[n].name;
  return base_nearest(name, names, n);
}

static const char *nearest_attribute(const struct element *el, const char *name)
{
  const char *names[NAMES_MAX];
  size_t n = 0;
  for (; n < el->nfields && n < NAMES_MAX; n++)
    names[n] = el->field[n].name;
  return base_nearest(name, names, n);
}

/* What is wrong with a step of a path; 0: nothing that the tables know. *el: the element so far. */
static int explain_element(const char *at, const struct element **el, char *why, size_t size)
{
  char name[WORD_SIZE];
  int prefixed;
  const char *near;
  step_name(at, name, &prefixed);
  *el = element_find(name);
  if (*el)
    return prefixed ? 0 : snprintf(why, size, "elements have the prefix s:, so write s:%s", name);
  near = nearest_element(name);
  return near ? snprintf(why, size, "there is no <%s>; did you mean s:%s?", name, near) : 0;
}

static int explain_attribute(const char *at, const struct element *el, char *why, size_t size)
{
  char name[WORD_SIZE];
  int prefixed;
  const char *near;
  step_name(at, name, &prefixed);
  if (element_field(el, name))
    return snprintf(why, size, "no <%s> that the path finds has an attribute '%s' written",
                    el->name, name);
  near = nearest_attribute(el, name);
  return snprintf(why, size, "<%s> has no attribute '%s'%s%s%s", el->name, name,
                  near ? "; did you mean @" : "", near ? near : "", near ? "?" : "");
}

/* Why a path finds nothing, as far as names tell; "" if they do not. */
static void explain_nothing(const char *target, char *why, size_t size)
{
  const struct element *el = NULL;
  *why = '\0';
  for (const char *at = target + strspn(target, "/"); at; at = next_step(at))
    if (*at != '@' ? explain_element(at, &el, why, size)
                   : el && explain_attribute(at + 1, el, why, size))
      return;
}

static void override(struct reader *r, const struct scenario_override *o)
{
  enum { MATCHES = 256 };
  xmlAttr *attr[MATCHES];
  struct base_error e = {0};
  char why[512];
  int n = 0;
  explain_nothing(o->target, why, sizeof why);
  if (!target_find(r, o->target, attr, MATCHES, &n, &e) && !n)
    base_fail(&e, BASE_INPUT, "override '%.200s' names no attribute of this scenario%s%.300s",
              o->target, *why ? ": " : "", why);
  else if (n > MATCHES || !xmlCheckUTF8(BAD_CAST o->value))
    base_fail(&e, BASE_INPUT, "override '%.200s' names too many attributes or has a bad value",
              o->target);
  for (int i = 0; i < n && !e.code; i++)
    if (target_field(attr[i], &e) &&
        !xmlSetNsProp(attr[i]->parent, attr[i]->ns, attr[i]->name, BAD_CAST o->value))
      base_fail_memory(&e);
  if (e.code)
    base_errors_at(r->errors, e.code, r->file, 0, "%s", e.text);
}

/* What was changed stays on record in the scenario. */
void target_override(struct reader *r)
{
  struct scenario *s = &r->whole->s;
  uint32_t n = r->options->noverrides;
  s->override = arena_alloc(r->arena, n + 2, sizeof *s->override);
  for (uint32_t i = 0; i < n; i++) {
    const struct scenario_override *o = &r->options->override[i];
    override(r, o);
    if (s->override)
      s->override[s->noverrides++] = (struct scenario_override){arena_text(r->arena, o->target),
                                                                arena_text(r->arena, o->value)};
  }
}
