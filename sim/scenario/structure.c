/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Structure: unknown names with the nearest right one (by our tables), then order, number and
 * required parts by the schema.
 */
#include <libxml/xmlschemas.h>
#include <stdlib.h>
#include <string.h>

#include "models/embedded.h"
#include "sim/scenario/reader.h"

static const char schema_name[] = "scenarios/lull-scenario-1.xsd";

/* Attribute names of an element as one text of words. */
static void field_names(const struct element *el, char *buf, size_t size)
{
  size_t n = 0;
  buf[0] = 0;
  for (size_t i = 0; i < el->nfields && n < size; i++)
    n += (size_t)snprintf(buf + n, size - n, " %s", el->field[i].name);
}

static void unknown(struct reader *r, const xmlNode *node, const char *what, const char *parent,
                    const char *name, const char *names)
{
  char near[WORD_SIZE];
  if (r->errors->total >= BASE_ERRORS_MAX)
    r->errors->total++;
  else if (nearest_word(name, names, near))
    node_fail(r, node, "unknown %s '%.60s' in <%s>; did you mean '%s'?", what, name, parent, near);
  else
    node_fail(r, node, "unknown %s '%.60s' in <%s>; allowed:%s%s", what, name, parent,
              names[0] && names[0] != ' ' ? " " : "", names[0] ? names : " none");
}

static void check_attributes(struct reader *r, const xmlNode *node, const struct element *el)
{
  char names[512];
  field_names(el, names, sizeof names);
  for (const xmlAttr *a = node->properties; a; a = a->next)
    if (a->ns || !element_field(el, (const char *)a->name))
      unknown(r, node, "attribute", el->name, (const char *)a->name, names);
}

static int has_word(const char *words, const char *name)
{
  size_t n = strlen(name);
  for (const char *p = words; n && (p = strstr(p, name)); p += n)
    if ((p == words || p[-1] == ' ') && (!p[n] || p[n] == ' '))
      return 1;
  return 0;
}

/* Names of a node's attributes and of all below; unknown elements are told and not entered. */
static void check_names(struct reader *r, const xmlNode *node, const struct element *el)
{
  check_attributes(r, node, el);
  for (const xmlNode *c = node->children; c; c = c->next) {
    if (c->type != XML_ELEMENT_NODE)
      continue;
    const char *name = (const char *)c->name;
    if (!c->ns || !xmlStrEqual(c->ns->href, BAD_CAST SCENARIO_NAMESPACE))
      node_fail(r, c, "element '%.60s' is not in the namespace %s", name, SCENARIO_NAMESPACE);
    else if (!has_word(el->children, name))
      unknown(r, c, "element", el->name, name, el->children);
    else
      check_names(r, c, element_find(name));
  }
}

/* Was something said of this place already? */
static int told(const struct reader *r, const char *file, unsigned line)
{
  for (size_t i = 0; i < r->errors->n; i++)
    if (r->errors->item[i].line == line && !strcmp(r->errors->item[i].file, file))
      return 1;
  return 0;
}

/* Cuts "{namespace}" out of a message of the schema. */
static void plain_message(char *text)
{
  static const char braced[] = "{" SCENARIO_NAMESPACE "}";
  for (char *p = text; (p = strstr(p, braced));)
    memmove(p, p + sizeof braced - 1, strlen(p + sizeof braced - 1) + 1);
}

static void on_schema_error(void *ctx, xmlError *error)
{
  struct reader *r = ctx;
  struct base_error e = {0};
  const xmlNode *node = error->node;
  while (node && node->type != XML_ELEMENT_NODE)
    node = node->parent;
  const char *file = node_file(r, node);
  unsigned line = node ? node_line(node) : (unsigned)(error->line > 0 ? error->line : 0);
  base_fail_at(&e, BASE_INPUT, file, line, "%s", error->message ? error->message : "bad structure");
  plain_message(e.text);
  if (!told(r, e.file, line))
    base_errors_add(r->errors, &e);
}

static void ignore_error(void *ctx, xmlError *error)
{
}

static const struct embedded_file *find_embedded(const char *name)
{
  for (size_t i = 0; i < embedded_count; i++)
    if (!strcmp(embedded_files[i].name, name))
      return &embedded_files[i];
  return NULL;
}

/* The compiled schema, to be freed; NULL if the program was built without it. */
static xmlSchema *schema_open(void)
{
  const struct embedded_file *f = find_embedded(schema_name);
  xmlSchemaParserCtxt *p = f ? xmlSchemaNewMemParserCtxt((const char *)f->data, (int)f->size)
                             : NULL;
  if (!p)
    return NULL;
  xmlSchemaSetParserStructuredErrors(p, ignore_error, NULL);
  xmlSchema *schema = xmlSchemaParse(p);
  xmlSchemaFreeParserCtxt(p);
  return schema;
}

static void check_schema(struct reader *r)
{
  xmlSchema *schema = schema_open();
  xmlSchemaValidCtxt *v = schema ? xmlSchemaNewValidCtxt(schema) : NULL;
  if (!v) {
    base_errors_at(r->errors, BASE_INVARIANT, NULL, 0,
                   "the schema %s is missing in this program; rebuild it", schema_name);
    xmlSchemaFree(schema);
    return;
  }
  size_t before = r->errors->total;
  xmlSchemaSetValidStructuredErrors(v, on_schema_error, r);
  if (xmlSchemaValidateDoc(v, r->doc) && !before && r->errors->total == before)
    base_errors_at(r->errors, BASE_INPUT, r->file, 0, "does not follow the schema %s", schema_name);
  xmlSchemaFreeValidCtxt(v);
  xmlSchemaFree(schema);
}

void structure_check(struct reader *r)
{
  const xmlNode *root = xmlDocGetRootElement(r->doc);
  if (!xmlStrEqual(root->name, BAD_CAST "scenario") || !root->ns ||
      !xmlStrEqual(root->ns->href, BAD_CAST SCENARIO_NAMESPACE)) {
    node_fail(r, root,
              "the document is not a scenario; start it with <scenario xmlns=\"%s\" "
              "version=\"1\" id=\"...\">",
              SCENARIO_NAMESPACE);
    return;
  }
  check_names(r, root, element_find("scenario"));
  check_schema(r);
}
