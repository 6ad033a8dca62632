/* SPDX-License-Identifier: GPL-3.0-or-later */
/* For suites of what reads JSON: a good text with something of it changed. */
#ifndef TESTS_CHANGED_JSON_H
#define TESTS_CHANGED_JSON_H

#include <check.h>
#include <jansson.h>

/* `text` with the members of the object `change` set; a member that is null there is removed. For
 * the caller to free. */
static inline char *changed_json(const char *text, const char *change)
{
  json_t *o = json_loads(text, 0, NULL), *with = json_loads(change, 0, NULL), *value;
  const char *key;
  ck_assert(o && with);
  json_object_foreach(with, key, value)
  {
    if (json_is_null(value))
      json_object_del(o, key);
    else
      json_object_set(o, key, value);
  }
  char *changed = json_dumps(o, 0);
  ck_assert_ptr_nonnull(changed);
  json_decref(with);
  json_decref(o);
  return changed;
}

#endif
