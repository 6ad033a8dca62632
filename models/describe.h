/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Descriptions: small XML files of one element whose attributes say what a model or a GPU is. They
 * are read by table: name, kind and place of each attribute in a plain struct. No DOCTYPE, no
 * network, no child elements; an unknown or missing attribute is an error with its line.
 */
#ifndef MODELS_DESCRIBE_H
#define MODELS_DESCRIBE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* How an attribute is written and what it becomes. */
enum describe_kind {
  DESCRIBE_TEXT,     /* char[size] */
  DESCRIBE_COUNT,    /* uint32_t, 1 to max */
  DESCRIBE_BIG,      /* int64_t, 1 to max */
  DESCRIBE_FLAG,     /* int: "yes" or "no" */
  DESCRIBE_BYTES,    /* int64_t, with a unit, at least 1 */
  DESCRIBE_BANDWIDTH /* int64_t bytes a second, with a unit, at least 1 */
};

struct describe_field {
  const char *name;
  int kind;            /* enum describe_kind */
  size_t offset, size; /* in the struct; size of a TEXT's array */
  int64_t max;         /* of COUNT and BIG */
  int optional;        /* may be missing: stays 0 */
};

/*
 * Reads the description `name_or_path` (a path has a '/' or ends in .xml, else it is one of the
 * embedded files of models/data) of root element `element` into *out, which is zeroed first.
 * All fields but optional ones are required. Returns 0 or -1.
 */
int describe_open(const char *element, const char *name_or_path, const struct describe_field *field,
                  size_t nfields, void *out, size_t out_size, struct base_error *e);

/* The embedded file models/data/NAME.SUFFIX, or NULL with the nearest name told in e. */
struct embedded_file;
const struct embedded_file *describe_embedded(const char *what, const char *name,
                                              const char *suffix, struct base_error *e);
/* The name of built-in description number i (in order of names) of root element `element` into
 * `name`; -1 where there are not so many. */
int describe_name(const char *element, const char *suffix, size_t i, char *name, size_t size);
/* Is it a path: has a '/', or ends in `suffix` (".xml")? */
int describe_is_path(const char *name, const char *suffix);

#endif
