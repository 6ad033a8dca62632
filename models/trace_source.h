/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Lines of a trace file, plain or gzip, one at a time in constant memory; private to the trace
 * readers.
 *
 * zlib's inflate is driven here rather than its gzread: gzread drops whatever follows a gzip
 * member that it does not recognise, so a file with a damaged second member would silently read
 * as a shorter trace. The same code then reads from memory, for tests and fuzzing.
 */
#ifndef MODELS_TRACE_SOURCE_H
#define MODELS_TRACE_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "models/trace.h"

enum { TRACE_LINE_MAX = 1 << 20 }; /* bytes of the longest line, without its end */

struct trace_source;

/* NULL on failure (BASE_ENV: cannot be opened or read). */
struct trace_source *trace_source_open(const char *path, struct base_error *e);
/* Reads `size` bytes at `data`, which must stay; `name` is what errors call them. */
struct trace_source *trace_source_open_memory(const void *data, size_t size, const char *name,
                                              struct base_error *e);
/* Allows lines of `bytes` instead: a format may write a whole file as one. */
void trace_source_allow(struct trace_source *s, size_t bytes);
/*
 * 1: *line is the next line, NUL-terminated, without LF, CRLF or a byte-order mark, without a NUL
 * inside; the caller may write into its *length + 1 bytes until the next call. 0: end. -1: error.
 */
int trace_source_line(struct trace_source *s, char **line, size_t *length, struct base_error *e);
/* Number of the line read last, 1-based; 0 before the first. */
uint64_t trace_source_number(const struct trace_source *s);
const char *trace_source_name(const struct trace_source *s);
void trace_source_close(struct trace_source *s); /* NULL is fine */

/* trace_open on bytes in memory, which must stay; `name` is what errors call them. */
struct trace *trace_open_memory(const void *data, size_t size, const char *name, int format,
                                const struct trace_rules *rules, struct base_error *e);

#endif
