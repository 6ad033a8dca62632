/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One way to fail: functions return 0 (or a count) for good and -1 for bad, and take a
 * `struct base_error *` that the function that decides the failure fills; others forward.
 * The first failure wins; nothing is printed here. Parsers that go on after an error collect
 * them in a struct base_errors.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <stdarg.h>
#include <stddef.h>

/* What went wrong, equal to the exit code that it leads to. */
enum base_code {
  BASE_OK = 0,
  BASE_GATE = 1,         /* a gate failed */
  BASE_USAGE = 2,        /* the command line */
  BASE_INPUT = 3,        /* scenario, trace, calibration, plug-in */
  BASE_INCONCLUSIVE = 4, /* a gate could not be decided */
  BASE_INCOMPLETE = 5,   /* signal, time limit */
  BASE_ENV = 6,          /* I/O, memory, no such device */
  BASE_INVARIANT = 7     /* an invariant broke */
};

/* Zero it before use: struct base_error e = {0}. */
struct base_error {
  int code;              /* enum base_code; BASE_OK: nothing happened */
  unsigned line, column; /* 1-based; 0: none */
  char file[256];        /* "" : none; a longer name is cut at the front */
  char text[768];        /* what, and what to do; no newline at the end */
};

/* Fill `e` unless it is already filled; all return -1. `e` may be NULL. `file` may be NULL. */
int base_fail(struct base_error *e, int code, const char *fmt, ...)
    __attribute__((cold, format(printf, 3, 4)));
int base_fail_at(struct base_error *e, int code, const char *file, unsigned line, const char *fmt,
                 ...) __attribute__((cold, format(printf, 5, 6)));
int base_vfail_at(struct base_error *e, int code, const char *file, unsigned line, const char *fmt,
                  va_list ap) __attribute__((cold, format(printf, 5, 0)));
/* BASE_ENV with errno's text behind the formatted one. */
int base_fail_errno(struct base_error *e, const char *fmt, ...)
    __attribute__((cold, format(printf, 2, 3)));
int base_fail_memory(struct base_error *e) __attribute__((cold)); /* BASE_ENV, "out of memory" */

/* "file:line:column: error: text" (what is known of it) into buf, cut to size; returns buf. */
const char *base_error_format(const struct base_error *e, char *buf, size_t size);

/* A list of failures in the order found. Zero it before use. Beyond BASE_ERRORS_MAX it only counts.
 */
enum { BASE_ERRORS_MAX = 50 };
struct base_errors {
  struct base_error *item; /* owned */
  size_t n, total;         /* kept, found */
};
/* Append; return -1 always. */
int base_errors_at(struct base_errors *list, int code, const char *file, unsigned line,
                   const char *fmt, ...) __attribute__((cold, format(printf, 5, 6)));
int base_errors_add(struct base_errors *list, const struct base_error *e);
void base_errors_free(struct base_errors *list);

/* The entry of names[0..n-1] nearest to `name` by edit distance, or NULL if none is near. Of
 * equally near ones that which is like it for longer at both ends, then the first. */
const char *base_nearest(const char *name, const char *const *names, size_t n);

#endif
