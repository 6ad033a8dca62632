/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "models/trace_source.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { CHUNK = 1 << 16 }; /* bytes read or inflated at once */

/*
 * Bytes flow file -> input -> (inflate ->) window -> line. The window is what the line reader
 * still has to look at: part of `input` for a plain file, of `output` for gzip.
 */
struct trace_source {
  char *name;
  FILE *file;                 /* NULL: from memory */
  const unsigned char *input; /* unread bytes, `input_size` of them; input_at_end: none follow */
  size_t input_size;
  int input_at_end;
  int gzip;      /* the file starts as gzip does */
  int in_member; /* inside a gzip member: the end of input is a truncation */
  z_stream z;
  const unsigned char *window;
  size_t window_size;
  char *line;
  size_t length, room; /* of line; room counts the NUL */
  size_t longest;      /* bytes of a line, at most */
  uint64_t number;
  unsigned char buffer[CHUNK], output[CHUNK];
};

/* A failure of the content at the line now being read. */
static int source_fail(struct trace_source *s, struct base_error *e, const char *text)
{
  unsigned line = s->number > UINT_MAX ? UINT_MAX : (unsigned)s->number;
  return base_fail_at(e, BASE_INPUT, s->name, line, "%s", text);
}

/* Makes input non-empty: 1, or 0 at its end, or -1. A read that a signal broke goes on. */
static int fill_input(struct trace_source *s, struct base_error *e)
{
  if (s->input_size)
    return 1;
  if (s->input_at_end)
    return 0;
  do {
    clearerr(s->file);
    errno = 0;
    s->input_size = fread(s->buffer, 1, CHUNK, s->file);
  } while (!s->input_size && ferror(s->file) && errno == EINTR);
  s->input = s->buffer;
  if (!s->input_size && ferror(s->file))
    return base_fail_errno(e, "cannot read trace '%s'", s->name);
  s->input_at_end = !s->input_size;
  return !s->input_at_end;
}

/*
 * Between gzip members: 1 at the start of one, 0 at the end of the file, -1 on other bytes. Zero
 * bytes are passed over, since gzip allows them as padding.
 */
static int find_member(struct trace_source *s, struct base_error *e)
{
  for (;;) {
    int r = fill_input(s, e);
    if (r <= 0)
      return r;
    if (*s->input)
      break;
    s->input++;
    s->input_size--;
  }
  if (*s->input != 0x1f)
    return source_fail(s, e,
                       "bytes that are not gzip follow the gzip data; "
                       "copy the file again, or remove them");
  if (inflateReset(&s->z) != Z_OK)
    return base_fail_memory(e);
  s->in_member = 1;
  return 1;
}

/* One step of inflate on what input holds. */
static int inflate_step(struct trace_source *s, struct base_error *e)
{
  uInt given = s->input_size > CHUNK ? CHUNK : (uInt)s->input_size;
  s->z.next_in = (z_const Bytef *)s->input;
  s->z.avail_in = given;
  s->z.next_out = s->output;
  s->z.avail_out = CHUNK;
  int rc = inflate(&s->z, Z_NO_FLUSH);
  s->input += given - s->z.avail_in;
  s->input_size -= given - s->z.avail_in;
  s->window = s->output;
  s->window_size = CHUNK - s->z.avail_out;
  if (rc == Z_STREAM_END)
    s->in_member = 0;
  if (rc == Z_STREAM_END || rc == Z_OK || rc == Z_BUF_ERROR)
    return 0;
  if (rc == Z_MEM_ERROR)
    return base_fail_memory(e);
  char text[160];
  snprintf(text, sizeof text, "the gzip data is corrupt (%s); copy the file again",
           s->z.msg ? s->z.msg : "unknown reason");
  return source_fail(s, e, text);
}

/* Makes the window of a gzip file non-empty: 1, 0 at the end, -1. */
static int fill_inflated(struct trace_source *s, struct base_error *e)
{
  while (!s->window_size) {
    int r = s->in_member ? fill_input(s, e) : find_member(s, e);
    if (r < 0 || (!r && !s->in_member))
      return r;
    if (!r)
      return source_fail(s, e, "the gzip data ends too early (truncated); copy the file again");
    if (inflate_step(s, e))
      return -1;
  }
  return 1;
}

/* Makes the window non-empty: 1, 0 at the end, -1. */
static int fill_window(struct trace_source *s, struct base_error *e)
{
  if (s->window_size)
    return 1;
  if (s->gzip)
    return fill_inflated(s, e);
  int r = fill_input(s, e);
  if (r > 0) {
    s->window = s->input;
    s->window_size = s->input_size;
    s->input_size = 0;
  }
  return r;
}

static int too_long(struct trace_source *s, struct base_error *e)
{
  char text[96];
  snprintf(text, sizeof text, "the line is longer than %zu MiB; is this a text file of a trace?",
           s->longest >> 20);
  return source_fail(s, e, text);
}

/* Appends n bytes of the window to the line. */
static int append(struct trace_source *s, size_t n, struct base_error *e)
{
  if (n > s->longest + 1 - s->length) /* one more for the CR of a CRLF */
    return too_long(s, e);
  if (s->length + n + 1 > s->room) {
    size_t room = s->room ? s->room : 256;
    while (room < s->length + n + 1)
      room *= 2;
    char *grown = realloc(s->line, room);
    if (!grown)
      return base_fail_memory(e);
    s->line = grown;
    s->room = room;
  }
  memcpy(s->line + s->length, s->window, n);
  s->length += n;
  s->window += n;
  s->window_size -= n;
  return 0;
}

/* Gathers bytes up to LF or the end of the file: 1, 0 if there are none, -1. */
static int gather(struct trace_source *s, struct base_error *e)
{
  int any = 0;
  s->length = 0;
  s->number++;
  for (;;) {
    int r = fill_window(s, e);
    if (r < 0 || (!r && append(s, 0, e)))
      return -1;
    if (!r) {
      s->number -= !any;
      return any;
    }
    any = 1;
    const unsigned char *lf = memchr(s->window, '\n', s->window_size);
    if (append(s, lf ? (size_t)(lf - s->window) : s->window_size, e))
      return -1;
    if (lf) {
      s->window++;
      s->window_size--;
      return 1;
    }
  }
}

int trace_source_line(struct trace_source *s, char **line, size_t *length, struct base_error *e)
{
  int r = gather(s, e);
  if (r <= 0)
    return r;
  if (s->length && s->line[s->length - 1] == '\r')
    s->length--;
  if (s->length > s->longest)
    return too_long(s, e);
  s->line[s->length] = '\0';
  if (memchr(s->line, '\0', s->length))
    return source_fail(s, e, "a NUL byte in the line; the trace must be UTF-8 text");
  size_t mark = s->number == 1 && strncmp(s->line, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
  *line = s->line + mark;
  *length = s->length - mark;
  return 1;
}

/* The common end of both ways to open: tells gzip from plain text by its first two bytes. */
static int source_start(struct trace_source *s, struct base_error *e)
{
  if (fill_input(s, e) < 0)
    return -1;
  s->gzip = s->input_size >= 2 && s->input[0] == 0x1f && s->input[1] == 0x8b;
  if (s->gzip && inflateInit2(&s->z, 16 + MAX_WBITS) != Z_OK) { /* 16: gzip, not zlib, headers */
    s->gzip = 0;
    return base_fail_memory(e);
  }
  return 0;
}

static struct trace_source *source_new(const char *name, struct base_error *e)
{
  struct trace_source *s = calloc(1, sizeof *s);
  if (s)
    s->name = strdup(name);
  if (!s || !s->name) {
    free(s);
    base_fail_memory(e);
    return NULL;
  }
  s->input = s->window = s->buffer; /* empty, never NULL */
  s->longest = TRACE_LINE_MAX;
  return s;
}

struct trace_source *trace_source_open(const char *path, struct base_error *e)
{
  struct trace_source *s = source_new(path, e);
  if (!s)
    return NULL;
  s->file = fopen(path, "rbe");
  if (!s->file) {
    base_fail_errno(e, "cannot open trace '%s'", path);
    trace_source_close(s);
    return NULL;
  }
  if (source_start(s, e)) {
    trace_source_close(s);
    return NULL;
  }
  return s;
}

struct trace_source *trace_source_open_memory(const void *data, size_t size, const char *name,
                                              struct base_error *e)
{
  struct trace_source *s = source_new(name, e);
  if (!s)
    return NULL;
  if (size)
    s->input = data;
  s->input_size = size;
  s->input_at_end = 1;
  if (source_start(s, e)) {
    trace_source_close(s);
    return NULL;
  }
  return s;
}

void trace_source_allow(struct trace_source *s, size_t bytes)
{
  s->longest = bytes;
}

uint64_t trace_source_number(const struct trace_source *s)
{
  return s->number;
}

const char *trace_source_name(const struct trace_source *s)
{
  return s->name;
}

void trace_source_close(struct trace_source *s)
{
  if (!s)
    return;
  if (s->gzip)
    inflateEnd(&s->z);
  if (s->file)
    fclose(s->file); /* read only: nothing can be lost */
  free(s->line);
  free(s->name);
  free(s);
}
