/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * JSON objects of configurations: read, written, and members by key and kind. A member that is null
 * counts as missing. Every refusal is BASE_INPUT and names file, key, value and what is allowed.
 *
 *   json_t *root = fields_read("config.json", &e);
 *   struct fields f = {root, "config.json", &e};
 *   if (fields_count(&f, "vocab_size", 1, 1 << 24, &vocab) < 1) ...
 *   json_decref(root);
 */
#ifndef BACKEND_FIELDS_H
#define BACKEND_FIELDS_H

#include <jansson.h>
#include <stdint.h>

#include "base/error.h"

struct fields {
  json_t *object;
  const char *file; /* for messages; NULL: none */
  struct base_error *e;
};

/* The object that a file, or a text, is; no key may be there twice. NULL on failure. */
json_t *fields_read(const char *path, struct base_error *e);
json_t *fields_parse(const char *text, size_t size, const char *name, struct base_error *e);
/* Writes an object, keys in order: the file is whole or not there. The object is consumed; NULL, as
 * jansson gives it where there is no memory, is BASE_ENV. */
int fields_write(const char *path, json_t *object, struct base_error *e);

/* The getters return 1 with *to set, 0 with *to as it was if the member is missing, -1 if it is
 * wrong. Bounds are inclusive. */
int fields_count(const struct fields *f, const char *key, uint32_t min, uint32_t max, uint32_t *to);
int fields_real(const struct fields *f, const char *key, double min, double max, double *to);
int fields_flag(const struct fields *f, const char *key, int *to);
/* The text is borrowed from the object. */
int fields_text(const struct fields *f, const char *key, const char **to);

/* Has a text no control characters, so that it may stand in a message? */
int fields_is_plain(const char *text);
/* The member, or NULL if it is missing or null. */
json_t *fields_get(const struct fields *f, const char *key);
/* "there is no KEY; ..." Returns -1. */
int fields_missing(const struct fields *f, const char *key);
/* "KEY is VALUE, but ALLOWED" for a member that is there. Returns -1. */
int fields_refuse(const struct fields *f, const char *key, const char *allowed);

#endif
