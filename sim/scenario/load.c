/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * From files to one document. Parsing is stopped at the first DOCTYPE and at the first element
 * beyond the limit, by the parser's own callbacks, so hostile input costs nothing. Includes are
 * resolved here and not by the library: only whole files below the scenario's folder, each parsed
 * under the same limits before it is put in place.
 */
#include <libxml/parser.h>
#include <libxml/xmlerror.h>
#include <stdlib.h>
#include <string.h>

#include "base/outfile.h"
#include "sim/scenario/reader.h"

/* One parse under way. */
struct guard {
  struct reader *r;
  const char *file;
  startElementNsSAX2Func start;
  int stopped; /* by us */
  int failed;  /* not well-formed: what the parser says after that is noise */
};

static struct guard *guard_of(void *ctx)
{
  return ((xmlParserCtxt *)ctx)->_private;
}

static void stop(xmlParserCtxt *p, struct guard *g)
{
  g->stopped = 1;
  xmlStopParser(p);
}

static void on_doctype(void *ctx, const xmlChar *name, const xmlChar *external,
                       const xmlChar *system)
{
  xmlParserCtxt *p = ctx;
  struct guard *g = guard_of(ctx);
  if (!g->stopped)
    base_errors_at(g->r->errors, BASE_INPUT, g->file, (unsigned)p->input->line,
                   "a DOCTYPE is not allowed (no entities, no external files); remove it");
  stop(p, g);
}

static void on_start(void *ctx, const xmlChar *name, const xmlChar *prefix, const xmlChar *uri,
                     int nns, const xmlChar **ns, int nattr, int ndefault, const xmlChar **attr)
{
  xmlParserCtxt *p = ctx;
  struct guard *g = guard_of(ctx);
  if (g->stopped)
    return;
  if (++g->r->elements > LIMIT_ELEMENTS) {
    base_errors_at(g->r->errors, BASE_INPUT, g->file, (unsigned)p->input->line,
                   "more than %d elements; a scenario has tens: put requests into a trace file",
                   LIMIT_ELEMENTS);
    stop(p, g);
    return;
  }
  g->start(ctx, name, prefix, uri, nns, ns, nattr, ndefault, attr);
}

/* The parser's own errors. */
static void on_error(void *ctx, xmlError *error)
{
  struct guard *g = guard_of(ctx);
  struct base_error e = {0};
  if (g->stopped || g->failed || error->level < XML_ERR_ERROR)
    return;
  g->failed = error->level == XML_ERR_FATAL;
  base_fail_at(&e, BASE_INPUT, g->file, error->line > 0 ? (unsigned)error->line : 0, "%s",
               error->message ? error->message : "not well-formed");
  e.column = error->int2 > 0 ? (unsigned)error->int2 : 0;
  base_errors_add(g->r->errors, &e);
}

/* No parser of ours ever opens anything by itself. */
static xmlParserInput *refuse_entity(const char *url, const char *id, xmlParserCtxt *ctxt)
{
  return NULL;
}

/* The library compares the attributes of a tag pairwise: bound their number by the tag's size. */
static int check_pieces(struct reader *r, const char *file, const char *data, size_t size)
{
  unsigned line = 1;
  size_t from = 0;
  for (size_t i = 0; i < size; i++) {
    line += data[i] == '\n';
    if (data[i] == '<')
      from = i;
    if (i - from > LIMIT_PIECE)
      return base_errors_at(r->errors, BASE_INPUT, file, line,
                            "a tag or text of more than %d bytes; shorten it", LIMIT_PIECE);
  }
  return 0;
}

static xmlDoc *parse(struct reader *r, const char *file, const char *data, size_t size)
{
  struct guard g = {.r = r, .file = file};
  xmlParserCtxt *p = xmlNewParserCtxt();
  xmlExternalEntityLoader before = xmlGetExternalEntityLoader();
  xmlDoc *doc = NULL;
  if (!p) {
    r->arena->failed = 1;
    return NULL;
  }
  p->_private = &g;
  g.start = p->sax->startElementNs;
  p->sax->startElementNs = on_start;
  p->sax->internalSubset = on_doctype;
  p->sax->serror = on_error;
  xmlSetExternalEntityLoader(refuse_entity);
  doc = xmlCtxtReadMemory(p, data, (int)size, NULL, "UTF-8", XML_PARSE_NONET | XML_PARSE_BIG_LINES);
  xmlSetExternalEntityLoader(before);
  if ((!p->wellFormed || g.stopped) && doc) {
    xmlFreeDoc(doc);
    doc = NULL;
  }
  xmlFreeParserCtxt(p);
  if (!doc && !r->errors->total)
    base_errors_at(r->errors, BASE_INPUT, file, 0, "not a well-formed XML document");
  return doc;
}

/* Under the limits of bytes, pieces and elements. The root element carries the file's name. */
static xmlDoc *parse_limited(struct reader *r, const char *file, const char *data, size_t size)
{
  if (size > LIMIT_BYTES || r->bytes + size > LIMIT_BYTES) {
    base_errors_at(r->errors, BASE_INPUT, file, 0, "more than %d MiB of scenario",
                   LIMIT_BYTES >> 20);
    return NULL;
  }
  r->bytes += size;
  if (check_pieces(r, file, data, size))
    return NULL;
  xmlDoc *doc = parse(r, file, data, size);
  xmlNode *root = doc ? xmlDocGetRootElement(doc) : NULL;
  if (root)
    root->_private = (void *)(uintptr_t)file;
  return doc;
}

/* Does a relative path stay where it starts? */
static int climbs(const char *href)
{
  for (const char *p = href; *p;) {
    size_t n = strcspn(p, "/");
    if (n == 2 && p[0] == '.' && p[1] == '.')
      return 1;
    p += n + (p[n] == '/');
  }
  return 0;
}

const char *load_below(struct reader *r, const char *folder, const char *href, struct base_error *e)
{
  const char *path = NULL;
  if (!href[0]) {
    base_fail(e, BASE_INPUT, "an empty file name");
    return NULL;
  }
  if (!r->folder || !r->root) {
    base_fail(e, BASE_INPUT, "'%.200s': a built-in scenario has no folder to take files from",
              href);
    return NULL;
  }
  if (href[0] == '/' || strchr(href, ':') || climbs(href)) {
    base_fail(e, BASE_INPUT,
              "'%.200s' is not below the scenario's folder; use a relative path without '..'",
              href);
    return NULL;
  }
  path = folder[0] ? arena_format(r->arena, "%s/%s", folder, href) : arena_text(r->arena, href);
  char *real = realpath(path, NULL);
  size_t n = strlen(r->root);
  if (real && (strncmp(real, r->root, n) || (real[n] != '/' && n > 1))) {
    base_fail(e, BASE_INPUT, "'%.200s' leads out of the scenario's folder by a link", href);
    path = NULL;
  }
  free(real);
  return path;
}

/* The folder part of a path, in the arena; "" if there is none. */
static const char *folder_of(struct reader *r, const char *path)
{
  const char *slash = strrchr(path, '/');
  return slash ? arena_format(r->arena, "%.*s", (int)(slash - path), path) : "";
}

static int is_include(const xmlNode *node)
{
  return node->type == XML_ELEMENT_NODE && node->ns &&
         xmlStrEqual(node->ns->href, BAD_CAST XINCLUDE_NAMESPACE);
}

static int resolve_includes(struct reader *r, xmlNode *node, const char *file, int depth);

/* Only href and parse="xml"; the root element of the file takes the include's place. */
static xmlNode *include(struct reader *r, xmlNode *node, const char *file, int depth)
{
  struct base_error e = {0};
  xmlNode *placed = NULL;
  size_t size = 0;
  char *data = NULL;
  xmlDoc *doc = NULL;
  xmlChar *href = xmlGetNoNsProp(node, BAD_CAST "href");
  for (const xmlAttr *a = node->properties; a; a = a->next)
    if (!xmlStrEqual(a->name, BAD_CAST "href") && !xmlStrEqual(a->name, BAD_CAST "parse"))
      base_fail(&e, BASE_INPUT, "attribute '%.40s' of an include is not supported; only href is",
                (const char *)a->name);
  if (!xmlStrEqual(node->name, BAD_CAST "include") || !href || node->children)
    base_fail(&e, BASE_INPUT, "write <xi:include href=\"FILE\"/> and nothing else of XInclude");
  else if (depth > LIMIT_INCLUDE_DEPTH || ++r->includes > LIMIT_INCLUDES)
    base_fail(&e, BASE_INPUT, "too many includes (%d, %d deep); does a file include itself?",
              LIMIT_INCLUDES, LIMIT_INCLUDE_DEPTH);
  const char *path = e.code ? NULL : load_below(r, folder_of(r, file), (const char *)href, &e);
  if (path)
    data = base_read_file(path, LIMIT_BYTES, &size, &e);
  if (data)
    doc = parse_limited(r, path, data, size);
  if (doc && !resolve_includes(r, xmlDocGetRootElement(doc), path, depth))
    placed = xmlDocCopyNode(xmlDocGetRootElement(doc), node->doc, 1);
  if (placed) {
    placed->_private = (void *)(uintptr_t)path;
    xmlReplaceNode(node, placed);
    xmlFreeNode(node);
  } else if (e.code) {
    base_errors_at(r->errors, e.code, file, node_line(node), "%s", e.text);
  }
  free(data);
  xmlFree(href);
  xmlFreeDoc(doc);
  return placed;
}

/* All includes below a node, in document order. -1 if one failed. */
static int resolve_includes(struct reader *r, xmlNode *node, const char *file, int depth)
{
  int bad = 0;
  for (xmlNode *c = node->children, *next; c; c = next) {
    next = c->next;
    if (c->type != XML_ELEMENT_NODE)
      continue;
    if (is_include(c))
      bad |= !include(r, c, file, depth + 1);
    else
      bad |= resolve_includes(r, c, file, depth);
    if (bad)
      break;
  }
  return bad ? -1 : 0;
}

int load_document(struct reader *r, const char *name, const char *data, size_t size)
{
  r->doc = parse_limited(r, name, data, size);
  xmlNode *root = r->doc ? xmlDocGetRootElement(r->doc) : NULL;
  if (!root)
    return -1;
  if (is_include(root))
    return base_errors_at(r->errors, BASE_INPUT, name, node_line(root),
                          "the document itself is an include; write a <scenario>");
  return resolve_includes(r, root, name, 0);
}
