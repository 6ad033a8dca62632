/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Trace files: where they are, and that they are the ones that were meant. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/outfile.h"
#include "sim/scenario/reader.h"

#ifndef LULL_DATA_DEFAULT
#define LULL_DATA_DEFAULT ""
#endif

/* The folders that hold public data, separated by colons; an option or a variable names one. */
static const char *data_folders(const struct reader *r, int *one)
{
  const char *named = r->options->data_dir;
  if (!named || !named[0])
    named = getenv("LULL_DATA");
  *one = named && named[0];
  return *one ? named : LULL_DATA_DEFAULT;
}

static int is_file(const char *path)
{
  struct stat st;
  return !stat(path, &st) && !S_ISDIR(st.st_mode);
}

/* A "data:" file: the first that is there, else the first place where it could be. */
static const char *find_data(struct reader *r, const char *name, struct base_error *e)
{
  int one;
  const char *folders = data_folders(r, &one), *first = NULL;
  for (const char *p = folders; *p;) {
    size_t n = one ? strlen(p) : strcspn(p, ":");
    const char *path = arena_format(r->arena, "%.*s/%s", (int)n, p, name);
    if (n && (r->options->skip_files || is_file(path)))
      return path;
    if (n && !first)
      first = path;
    p += n + (p[n] == ':');
  }
  base_fail(
      e, BASE_ENV,
      "the public data set file '%.120s' is not there (looked in: %.300s); put it there (where "
      "to get it: README), or name its folder with --data-dir or LULL_DATA",
      name, folders[0] ? folders : "no folder is set");
  return NULL;
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

static const char *locate(struct reader *r, const char *name, struct base_error *e)
{
  if (!strncmp(name, "data:", 5))
    return check_data_name(name + 5, e) ? NULL : find_data(r, name + 5, e);
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

static int check_digest(const struct scenario_class *c, struct base_error *e)
{
  char hex[65];
  if (base_sha256_file(c->trace.path, hex, e))
    return -1;
  if (!strcmp(hex, c->trace.sha256))
    return 0;
  return base_fail(e, BASE_INPUT,
                   "'%.200s' has the SHA-256 %s, not the one stated here: it is another file or "
                   "was changed",
                   c->trace.path, hex);
}

int files_find_trace(struct reader *r, const xmlNode *node, struct scenario_class *c)
{
  struct base_error e = {0};
  if (c->trace.sha256 && check_digest_text(c->trace.sha256, &e))
    return node_fail_with(r, node, "", &e);
  if (!c->trace.sha256 && !strncmp(c->trace.name, "data:", 5))
    return node_fail(r, node,
                     "<trace> needs a sha256 with a data: file, so that results say which "
                     "file they are of");
  c->trace.path = locate(r, c->trace.name, &e);
  if (!c->trace.path)
    return node_fail_with(r, node, "href", &e);
  if (!r->options->skip_files && c->trace.sha256 && check_digest(c, &e))
    return node_fail_with(r, node, "href", &e);
  return 0;
}

/* Floored; exact for any speed. */
lull_time trace_time(int64_t t_ns, int64_t speed_ppm)
{
  __int128 t = (__int128)t_ns * 1000 * 1000000 / speed_ppm;
  return t < LULL_NEVER ? (lull_time)t : LULL_NEVER;
}

int files_trace_end(const struct scenario_class *c, lull_time *end, struct base_error *e)
{
  struct trace *t = trace_open(c->trace.path, c->trace.format, NULL, e);
  struct trace_row row;
  uint64_t n = 0;
  int got = t ? 0 : -1;
  *end = 0;
  while (t && (!c->trace.limit || n < c->trace.limit) && (got = trace_next(t, &row, e)) == 1) {
    *end = trace_time(row.t_ns, c->trace.speed_ppm);
    n++;
  }
  if (t && got >= 0 && !trace_has_times(t))
    got = base_fail(e, BASE_INPUT, "'%.200s' has no arrival times; it cannot be replayed",
                    c->trace.path);
  trace_close(t);
  return got < 0 ? -1 : 0;
}
