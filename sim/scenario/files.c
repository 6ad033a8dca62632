/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Trace files: where they are, and that they are the ones that were meant. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/outfile.h"
#include "sim/scenario/reader.h"

#ifndef LULL_DATA_DEFAULT
#define LULL_DATA_DEFAULT ""
#endif

static int is_file(const char *path)
{
  struct stat st;
  return !stat(path, &st) && !S_ISDIR(st.st_mode);
}

int scenario_data_path(const char *data_dir, const char *name, int unseen, char *path, size_t size,
                       struct base_error *e)
{
  const char *one = data_dir && data_dir[0] ? data_dir : getenv("LULL_DATA");
  const char *folders = one && one[0] ? one : LULL_DATA_DEFAULT;
  for (const char *p = folders; *p;) {
    size_t n = p == one ? strlen(p) : strcspn(p, ":");
    int len = snprintf(path, size, "%.*s/%s", (int)n, p, name);
    if (n && len > 0 && (size_t)len < size && (unseen || is_file(path)))
      return 0;
    p += n + (p[n] == ':');
  }
  return base_fail(
      e, BASE_ENV,
      "the public data set file '%.120s' is not there (looked in: %.300s); put it there (where "
      "to get it: README), or name its folder with --data-dir or LULL_DATA",
      name, folders[0] ? folders : "no folder is set");
}

/* A name below the data folder: no way out. */
static int check_data_name(const char *name, struct base_error *e)
{
  if (!name[0] || name[0] == '/')
    return base_fail(e, BASE_INPUT, "'data:%.200s' must name a file below the data folder", name);
  for (const char *p = name; *p; p += strspn(p, "/")) {
    size_t n = strcspn(p, "/");
    if (n == 2 && !strncmp(p, "..", 2))
      return base_fail(e, BASE_INPUT, "'data:%.200s' leads out of the data folder; remove '..'",
                       name);
    p += n;
  }
  return 0;
}

static const char *find_data(struct reader *r, const char *name, struct base_error *e)
{
  char path[PATH_MAX];
  if (check_data_name(name, e) ||
      scenario_data_path(r->options->data_dir, name, r->options->skip_files, path, sizeof path, e))
    return NULL;
  return arena_format(r->arena, "%s", path);
}

static const char *locate(struct reader *r, const char *name, struct base_error *e)
{
  if (!strncmp(name, "data:", 5))
    return find_data(r, name + 5, e);
  const char *path = load_below(r, r->folder ? r->folder : "", name, e);
  if (path && !r->options->skip_files && !is_file(path))
    return base_fail(e, BASE_ENV, "no such file: '%.400s'", path), NULL;
  return path;
}

static int check_digest_text(const char *sha, struct base_error *e)
{
  if (strlen(sha) == 64 && strspn(sha, "0123456789abcdef") == 64)
    return 0;
  return base_fail(e, BASE_INPUT, "sha256 is not 64 lower-case hex digits");
}

static int check_digest(const struct scenario_file *f, struct base_error *e)
{
  char hex[65];
  if (base_sha256_file(f->path, hex, e))
    return -1;
  if (!strcmp(hex, f->sha256))
    return 0;
  return base_fail(e, BASE_INPUT,
                   "'%.200s' has the SHA-256 %s, not the one stated here: it is another file or "
                   "was changed",
                   f->path, hex);
}

int files_find(struct reader *r, const xmlNode *node, struct scenario_file *f)
{
  struct base_error e = {0};
  if (f->sha256 && check_digest_text(f->sha256, &e))
    return node_fail_with(r, node, "", &e);
  if (!f->sha256 && !strncmp(f->name, "data:", 5))
    return node_fail(r, node,
                     "<%s> needs a sha256 with a data: file, so that results say which "
                     "file they are of",
                     (const char *)node->name);
  f->path = locate(r, f->name, &e);
  if (!f->path)
    return node_fail_with(r, node, "href", &e);
  if (!r->options->skip_files && f->sha256 && check_digest(f, &e))
    return node_fail_with(r, node, "href", &e);
  return 0;
}

/* Floored; exact for any speed. */
lull_time trace_time(const struct scenario_class *c, const struct trace_row *row)
{
  __int128 ps = (__int128)row->t_ns * 1000 + row->ps;
  __int128 t = c->trace.start + ps * 1000000 / c->trace.speed_ppm;
  return t < LULL_NEVER ? (lull_time)t : LULL_NEVER;
}

int files_trace_end(const struct scenario_class *c, lull_time *end, struct base_error *e)
{
  struct trace *t = trace_open(c->trace.file.path, c->trace.file.format, NULL, e);
  struct trace_row row;
  uint64_t n = 0;
  int got = t ? 0 : -1;
  *end = 0;
  while (t && (!c->trace.limit || n < c->trace.limit) && (got = trace_next(t, &row, e)) == 1) {
    *end = trace_time(c, &row);
    n++;
  }
  if (t && got >= 0 && !trace_has_times(t))
    got = base_fail(e, BASE_INPUT, "'%.200s' has no arrival times; it cannot be replayed",
                    c->trace.file.path);
  trace_close(t);
  return got < 0 ? -1 : 0;
}

/* Adds a row to a list that doubles its room. */
static int add_item(struct trace_row **list, uint32_t n, const struct trace_row *row,
                    struct base_error *e)
{
  if (!(n & (n - 1))) {
    struct trace_row *more = realloc(*list, (n ? 2 * (size_t)n : 1) * sizeof *more);
    if (!more)
      return base_fail_memory(e);
    *list = more;
  }
  (*list)[n] = *row;
  return 0;
}

int files_read_items(struct reader *r, struct scenario_class *c, struct base_error *e)
{
  struct trace *t = trace_open(c->items.file.path, c->items.file.format, NULL, e);
  struct trace_row row, *list = NULL;
  uint32_t n = 0;
  int got = t ? 0 : -1;
  while (t && (got = trace_next(t, &row, e)) == 1) {
    got = n < LIMIT_ITEMS ? add_item(&list, n, &row, e)
                          : base_fail(e, BASE_INPUT, "'%.200s' has more than %d rows; shorten it",
                                      c->items.file.path, LIMIT_ITEMS);
    if (got)
      break;
    n++;
  }
  trace_close(t);
  struct trace_row *kept = got ? NULL : arena_alloc(r->arena, n, sizeof *kept);
  if (kept) {
    memcpy(kept, list, n * sizeof *kept);
    c->items.row = kept;
    c->items.n = n;
  }
  free(list);
  return got ? -1 : 0;
}
