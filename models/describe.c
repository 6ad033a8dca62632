/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "models/describe.h"

#include <libxml/parser.h>
#include <libxml/tree.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/outfile.h"
#include "base/units.h"
#include "models/embedded.h"

enum { FILE_MAX = 1 << 16, NAMES_MAX = 64 };

/* Where a description is being read: for messages. */
struct reader {
  const char *file;
  unsigned line;
  struct base_error *e;
};

int describe_is_path(const char *name, const char *suffix)
{
  size_t n = strlen(name), k = strlen(suffix);
  return strchr(name, '/') || (n > k && strcmp(name + n - k, suffix) == 0);
}

/* Length of NAME in an embedded "models/data/NAME.suffix", or 0 if it is something else. */
static size_t embedded_stem(const char *path, const char *suffix, const char **stem)
{
  static const char folder[] = "models/data/";
  size_t n = strlen(path), k = strlen(suffix), f = sizeof folder - 1;
  if (n <= f + k || strncmp(path, folder, f) || strcmp(path + n - k, suffix))
    return 0;
  *stem = path + f;
  return n - f - k;
}

/* Is a description's root element `element`? Of other files the suffix alone tells. */
static int is_a(const char *element, const struct embedded_file *f, const char *suffix)
{
  char start[32];
  snprintf(start, sizeof start, "<%s ", element);
  return strcmp(suffix, ".xml") || strstr((const char *)f->data, start);
}

/* The nearest of those that begin with the same word (a family of models, a GPU), else of all. */
static const char *nearest(const char *name, const char *const *names, size_t n)
{
  const char *family[NAMES_MAX];
  size_t word = strcspn(name, "-"), have = 0;
  for (size_t i = 0; i < n; i++)
    if (word && strcspn(names[i], "-") == word && !strncasecmp(names[i], name, word))
      family[have++] = names[i];
  const char *near = base_nearest(name, family, have);
  return near ? near : base_nearest(name, names, n);
}

int describe_name(const char *element, const char *suffix, size_t i, char *name, size_t size)
{
  for (size_t k = 0; k < embedded_count; k++) {
    const char *stem;
    size_t len = embedded_stem(embedded_files[k].name, suffix, &stem);
    if (!len || len >= size || !is_a(element, &embedded_files[k], suffix) || i--)
      continue;
    snprintf(name, size, "%.*s", (int)len, stem);
    return 0;
  }
  return -1;
}

/* Tells that there is no such name, which one is near, and which there are. Returns NULL. */
static const struct embedded_file *unknown(const char *what, const char *name, const char *suffix,
                                           struct base_error *e)
{
  char copy[NAMES_MAX][64], list[480] = "";
  const char *names[NAMES_MAX];
  size_t n = 0, used = 0;
  while (n < NAMES_MAX && !describe_name(what, suffix, n, copy[n], sizeof copy[n])) {
    names[n] = copy[n];
    if (used < sizeof list)
      used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", n ? ", " : "", copy[n]);
    n++;
  }
  const char *near = nearest(name, names, n);
  base_fail(e, BASE_INPUT,
            "there is no %s '%.60s'%s%s%s; built in are %s; a file is named by a path in which "
            "there is a '/' or that ends in '%s'",
            strcmp(what, "llm") ? what : "model", name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "", list,
            suffix);
  return NULL;
}

const struct embedded_file *describe_embedded(const char *what, const char *name,
                                              const char *suffix, struct base_error *e)
{
  size_t want = strlen(name);
  for (size_t i = 0; i < embedded_count; i++) {
    const char *stem;
    size_t len = embedded_stem(embedded_files[i].name, suffix, &stem);
    if (len && len == want && memcmp(stem, name, len) == 0)
      return &embedded_files[i];
  }
  return unknown(what, name, suffix, e);
}

/* Takes a whole number of 1 to max; -1 if the text is anything else. */
static int parse_count(const char *text, int64_t max, int64_t *value)
{
  int64_t v = 0;
  if (!*text)
    return -1;
  for (const char *p = text; *p; p++) {
    if (*p < '0' || *p > '9' || v > (INT64_MAX - 9) / 10)
      return -1;
    v = 10 * v + (*p - '0');
  }
  *value = v;
  return v < 1 || v > max ? -1 : 0;
}

static int put_text(const struct reader *r, const struct describe_field *f, const char *text,
                    char *to)
{
  if (!*text || strlen(text) >= f->size)
    return base_fail_at(r->e, BASE_INPUT, r->file, r->line, "%s must have 1 to %zu characters",
                        f->name, f->size - 1);
  strcpy(to, text);
  return 0;
}

static int put_count(const struct reader *r, const struct describe_field *f, const char *text,
                     void *to)
{
  int64_t v;
  if (parse_count(text, f->max, &v))
    return base_fail_at(r->e, BASE_INPUT, r->file, r->line,
                        "%s='%s' must be a whole number from 1 to %lld", f->name, text,
                        (long long)f->max);
  if (f->kind == DESCRIBE_BIG)
    *(int64_t *)to = v;
  else
    *(uint32_t *)to = (uint32_t)v;
  return 0;
}

static int put_flag(const struct reader *r, const struct describe_field *f, const char *text,
                    int *to)
{
  if (strcmp(text, "yes") && strcmp(text, "no"))
    return base_fail_at(r->e, BASE_INPUT, r->file, r->line, "%s='%s' must be yes or no", f->name,
                        text);
  *to = text[0] == 'y';
  return 0;
}

static int put_unit(const struct reader *r, const struct describe_field *f, const char *text,
                    int64_t *to)
{
  struct base_error why = {0};
  enum base_unit unit = f->kind == DESCRIBE_BYTES ? BASE_BYTES : BASE_BANDWIDTH;
  if (base_unit_parse(unit, text, to, &why))
    return base_fail_at(r->e, BASE_INPUT, r->file, r->line, "%s: %s", f->name, why.text);
  if (*to < 1)
    return base_fail_at(r->e, BASE_INPUT, r->file, r->line, "%s must be more than 0", f->name);
  return 0;
}

static int put(const struct reader *r, const struct describe_field *f, const char *text, char *out)
{
  switch (f->kind) {
  case DESCRIBE_TEXT:
    return put_text(r, f, text, out + f->offset);
  case DESCRIBE_FLAG:
    return put_flag(r, f, text, (int *)(void *)(out + f->offset));
  case DESCRIBE_COUNT:
  case DESCRIBE_BIG:
    return put_count(r, f, text, out + f->offset);
  default:
    return put_unit(r, f, text, (int64_t *)(void *)(out + f->offset));
  }
}

/* Fails for an attribute that no field has. */
static int check_known(const struct reader *r, xmlNode *node, const struct describe_field *field,
                       size_t n)
{
  const char *names[NAMES_MAX];
  for (size_t i = 0; i < n; i++)
    names[i] = field[i].name;
  for (xmlAttr *a = node->properties; a; a = a->next) {
    const char *name = (const char *)a->name;
    size_t i = 0;
    while (i < n && strcmp(names[i], name))
      i++;
    if (i < n)
      continue;
    const char *near = base_nearest(name, names, n);
    return base_fail_at(r->e, BASE_INPUT, r->file, r->line, "unknown attribute '%s'%s%s%s", name,
                        near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
  }
  return 0;
}

static int read_fields(const struct reader *r, xmlNode *node, const struct describe_field *field,
                       size_t n, char *out)
{
  for (size_t i = 0; i < n; i++) {
    xmlChar *text = xmlGetNoNsProp(node, (const xmlChar *)field[i].name);
    if (!text && field[i].optional)
      continue;
    if (!text)
      return base_fail_at(r->e, BASE_INPUT, r->file, r->line, "<%s> lacks the attribute '%s'",
                          (const char *)node->name, field[i].name);
    int rc = put(r, &field[i], (const char *)text, out);
    xmlFree(text);
    if (rc)
      return -1;
  }
  return 0;
}

/* Checks what the document is, then reads its root element. */
static int read_document(struct reader *r, xmlDoc *doc, const char *element,
                         const struct describe_field *field, size_t n, char *out)
{
  xmlNode *root = xmlDocGetRootElement(doc);
  if (doc->intSubset || doc->extSubset)
    return base_fail_at(r->e, BASE_INPUT, r->file, 0, "a description must not have a DOCTYPE");
  if (!root || strcmp((const char *)root->name, element))
    return base_fail_at(r->e, BASE_INPUT, r->file, root ? (unsigned)xmlGetLineNo(root) : 0,
                        "the root element is <%s>, but a <%s> is wanted",
                        root ? (const char *)root->name : "", element);
  r->line = (unsigned)xmlGetLineNo(root);
  if (xmlChildElementCount(root))
    return base_fail_at(r->e, BASE_INPUT, r->file, r->line, "<%s> must not have child elements",
                        element);
  if (check_known(r, root, field, n))
    return -1;
  return read_fields(r, root, field, n, out);
}

static int xml_error(const struct reader *r, xmlParserCtxt *ctxt)
{
  const xmlError *x = xmlCtxtGetLastError(ctxt);
  if (!x || x->code == XML_ERR_NO_MEMORY)
    return base_fail_memory(r->e);
  int n = x->message ? (int)strcspn(x->message, "\n") : 0;
  return base_fail_at(r->e, BASE_INPUT, r->file, (unsigned)x->line, "not well-formed XML: %.*s", n,
                      x->message ? x->message : "");
}

static int read_memory(struct reader *r, const char *data, size_t size, const char *element,
                       const struct describe_field *field, size_t n, char *out)
{
  xmlParserCtxt *ctxt = xmlNewParserCtxt();
  if (!ctxt)
    return base_fail_memory(r->e);
  xmlDoc *doc = xmlCtxtReadMemory(ctxt, data, (int)size, NULL, NULL,
                                  XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
  int rc = doc ? read_document(r, doc, element, field, n, out) : xml_error(r, ctxt);
  xmlFreeDoc(doc);
  xmlFreeParserCtxt(ctxt);
  return rc;
}

int describe_open(const char *element, const char *name_or_path, const struct describe_field *field,
                  size_t nfields, void *out, size_t out_size, struct base_error *e)
{
  struct reader r = {.file = name_or_path, .e = e};
  memset(out, 0, out_size);
  if (!describe_is_path(name_or_path, ".xml")) {
    const struct embedded_file *f = describe_embedded(element, name_or_path, ".xml", e);
    if (!f)
      return -1;
    r.file = f->name;
    return read_memory(&r, (const char *)f->data, f->size, element, field, nfields, out);
  }
  size_t size;
  char *data = base_read_file(name_or_path, FILE_MAX, &size, e);
  if (!data)
    return -1;
  int rc = read_memory(&r, data, size, element, field, nfields, out);
  free(data);
  return rc;
}
