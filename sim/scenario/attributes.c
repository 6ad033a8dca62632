/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Attributes to structs by table; errors with file and line. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sim/scenario/reader.h"

const char *node_file(const struct reader *r, const xmlNode *node)
{
  for (; node && node->type == XML_ELEMENT_NODE; node = node->parent)
    if (node->_private)
      return node->_private;
  return r->file;
}

unsigned node_line(const xmlNode *node)
{
  long line = node ? xmlGetLineNo((xmlNode *)node) : 0;
  return line > 0 ? (unsigned)line : 0;
}

int node_fail(struct reader *r, const xmlNode *node, const char *fmt, ...)
{
  struct base_error e = {0};
  va_list ap;
  va_start(ap, fmt);
  base_vfail_at(&e, BASE_INPUT, node_file(r, node), node_line(node), fmt, ap);
  va_end(ap);
  return base_errors_add(r->errors, &e);
}

int node_fail_once(struct reader *r, const xmlNode *node, const char *fmt, ...)
{
  struct base_error e = {0};
  va_list ap;
  va_start(ap, fmt);
  base_vfail_at(&e, BASE_INPUT, node_file(r, node), node_line(node), fmt, ap);
  va_end(ap);
  for (size_t i = 0; i < r->errors->n; i++)
    if (!strcmp(r->errors->item[i].text, e.text))
      return -1;
  return base_errors_add(r->errors, &e);
}

int node_fail_with(struct reader *r, const xmlNode *node, const char *what,
                   const struct base_error *e)
{
  if (e->file[0])
    return base_errors_add(r->errors, e);
  return base_errors_at(r->errors, e->code, node_file(r, node), node_line(node), "<%s> %s%s%s",
                        (const char *)node->name, what, what[0] ? ": " : "", e->text);
}

/* Stores one value, or its absence. */
static void store(struct reader *r, const struct field *f, const char *text, int64_t value,
                  void *raw)
{
  void *slot = (char *)raw + f->offset;
  if (f->kind != FIELD_ID && f->kind != FIELD_TEXT)
    memcpy(slot, &value, sizeof value);
  else
    *(const char **)slot = text ? arena_text(r->arena, text) : NULL;
}

/* What a field holds that is not written. */
static void store_preset(struct reader *r, const struct field *f, void *raw)
{
  int64_t value = FIELD_UNSET;
  const char *text = f->preset && f->preset[0] ? f->preset : NULL;
  if (text)
    field_parse(f, text, &value, NULL);
  store(r, f, text, value, raw);
}

static int read_field(struct reader *r, const xmlNode *node, const struct field *f, void *raw)
{
  struct base_error e = {0};
  int64_t value = FIELD_UNSET;
  int bad = 0;
  store_preset(r, f, raw);
  xmlChar *text = xmlGetNoNsProp((xmlNode *)node, BAD_CAST f->name);
  if (!text) {
    r->incomplete |= !f->preset;
    return f->preset ? 0 : -1;
  }
  if (field_parse(f, (const char *)text, &value, &e))
    bad = node_fail_with(r, node, f->name, &e);
  if (!bad || f->kind == FIELD_ID) /* a bad name still names what refers to it */
    store(r, f, (const char *)text, value, raw);
  xmlFree(text);
  return bad;
}

int attributes_read(struct reader *r, const xmlNode *node, void *raw)
{
  const struct element *el = element_find((const char *)node->name);
  int bad = 0;
  for (size_t i = 0; el && i < el->nfields; i++)
    bad |= read_field(r, node, &el->field[i], raw);
  return bad;
}

void attributes_default(struct reader *r, const char *element, void *raw)
{
  const struct element *el = element_find(element);
  for (size_t i = 0; el && i < el->nfields; i++)
    store_preset(r, &el->field[i], raw);
}

static int is_named(const xmlNode *node, const xmlChar *name)
{
  return node->type == XML_ELEMENT_NODE && xmlStrEqual(node->name, name) && node->ns &&
         xmlStrEqual(node->ns->href, BAD_CAST SCENARIO_NAMESPACE);
}

const xmlNode *child_first(const xmlNode *parent, const char *name)
{
  const xmlNode *c = parent ? parent->children : NULL;
  while (c && !is_named(c, BAD_CAST name))
    c = c->next;
  return c;
}

const xmlNode *child_next(const xmlNode *node)
{
  const xmlNode *c = node->next;
  while (c && !is_named(c, node->name))
    c = c->next;
  return c;
}

size_t child_count(struct reader *r, const xmlNode *parent, const char *name, size_t limit)
{
  size_t n = 0;
  for (const xmlNode *c = child_first(parent, name); c; c = child_next(c))
    if (++n > limit) {
      node_fail(r, c, "more than %zu <%s> elements", limit, name);
      return limit;
    }
  return n;
}

const char *node_text(struct reader *r, const xmlNode *node)
{
  static const char space[] = " \t\r\n";
  xmlChar *content = node ? xmlNodeGetContent(node) : NULL;
  if (!content)
    return "";
  char *out = (char *)content;
  for (char *p = out + strspn(out, space); *p;) {
    size_t n = strcspn(p, space), gap = strspn(p + n, space);
    memmove(out, p, n);
    out += n;
    p += n + gap;
    if (*p)
      *out++ = ' ';
  }
  *out = 0;
  const char *text = arena_text(r->arena, (const char *)content);
  xmlFree(content);
  return text;
}
