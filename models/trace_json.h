/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the readers of JSON share: their complaints. They look at t->source only. */
#ifndef MODELS_TRACE_JSON_H
#define MODELS_TRACE_JSON_H

#include <jansson.h>

#include "models/trace_reader.h"

/* Each fails with BASE_INPUT at the line read last and returns -1 (no memory: BASE_ENV). */

/* The parser's own words, which may quote the input. */
int trace_bad_json(const struct trace *t, const json_error_t *j, struct base_error *e);
/* Names a missing key and the keys that are there. */
int trace_missing_key(const struct trace *t, json_t *object, const char *key, struct base_error *e);

/* What a value is that is no integer: "an object". */
const char *trace_type_name(const json_t *value);

#endif
