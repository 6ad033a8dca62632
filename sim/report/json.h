/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Building a JSON document with one check at the end: whatever fails on the way marks it. */
#ifndef SIM_REPORT_JSON_H
#define SIM_REPORT_JSON_H

#include <jansson.h>
#include <stdint.h>

#include "sim/report/report.h"

struct json_doc {
  int failed; /* something could not be allocated */
};

json_t *json_doc_object(struct json_doc *d);
json_t *json_doc_array(struct json_doc *d);
/* Put a value into an object under a key, or, with key NULL, at the end of an array. The value is
 * given away, also on failure. */
void json_doc_put(struct json_doc *d, json_t *into, const char *key, json_t *value);
/* null for NaN and infinities, null for NULL, a string for what exceeds int64. Text that is no
 * UTF-8 has its bytes above 127 replaced by '?'. */
void json_doc_real(struct json_doc *d, json_t *into, const char *key, double value);
void json_doc_text(struct json_doc *d, json_t *into, const char *key, const char *value);
void json_doc_count(struct json_doc *d, json_t *into, const char *key, uint64_t value);
void json_doc_flag(struct json_doc *d, json_t *into, const char *key, int value);

/* Writes the document, whole or not at all: keys sorted, reals with 17 digits. Takes it over. */
int json_doc_write(struct json_doc *d, json_t *doc, const char *path, struct base_error *e);

/* Parts of the document: the scenario's own words (json_input.c). */
json_t *json_scenario(struct json_doc *d, const struct experiment *x);
json_t *json_calibration(struct json_doc *d, const struct calibration *c);
json_t *json_parameters(struct json_doc *d, const struct scenario *s);
json_t *json_params(struct json_doc *d, const struct scenario_arm *arm);
/* Lookups outside the measured range (json.c). */
json_t *json_misses(struct json_doc *d, const struct cost_misses *m);
/* The second tables (json_tables.c). */
json_t *json_sweep(struct json_doc *d, const struct report_sweep *t);
json_t *json_explain(struct json_doc *d, const struct report_explain *t);

#endif
