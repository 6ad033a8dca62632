/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the readers of measured runs share. Private to models/measured*.c. */
#ifndef MODELS_MEASURED_READER_H
#define MODELS_MEASURED_READER_H

#include <jansson.h>

#include "models/measured.h"
#include "models/trace_json.h"

struct measured_reader {
  struct trace t; /* only its source is used: the trace readers' helpers ask for no more */
  struct measured *out;
  size_t rows, gaps; /* room in out */
};

/* Instants of one request on the clock of its file, in ns. */
struct measured_times {
  int64_t arrival, first, last;
};

/* Each reads all rows behind the first line, which is given (and may be written into). */
int measured_csv(struct measured_reader *r, char *header, struct base_error *e);
int measured_lines(struct measured_reader *r, char *line, size_t length, struct base_error *e);
int measured_vllm(struct measured_reader *r, json_t *object, const char *text,
                  struct base_error *e);
/* Reads the rest of the file and parses it, with the first line in front, as one JSON value.
 * *text: the text, NUL-terminated, to be freed; NULL on failure. */
json_t *measured_document(struct measured_reader *r, const char *line, size_t length, char **text,
                          struct base_error *e);

/* Appends a request, judged: lengths, and the order of its times. Its gaps are those added since
 * the last one. `line`: of the row, for errors. arrival_ns is still on the file's clock. */
int measured_add(struct measured_reader *r, unsigned line, const struct measured_times *t,
                 uint32_t prompt, uint32_t output, struct base_error *e);
int measured_add_gap(struct measured_reader *r, int64_t ns, struct base_error *e);
/* BASE_INPUT at a line; returns -1. */
int measured_fail(const struct measured_reader *r, unsigned line, struct base_error *e,
                  const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/*
 * Numbers keep their digits: the parser checks the syntax and gives types, the text the value.
 * All of these take text that the parser accepted.
 */
/* The raw value of a key of the object at p ('{'), NULL: it has none. */
const char *measured_member(const char *p, const char *key);
/* The first value of the array at p ('['), or the one behind the value at p; NULL: no more. */
const char *measured_first(const char *p);
const char *measured_next(const char *p);
/* Seconds as JSON writes them, to ns; -1: no number, negative or over 292 years. */
int measured_seconds(const char *p, int64_t *ns);

#endif
