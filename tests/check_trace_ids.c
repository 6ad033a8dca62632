/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What traces say of the content of prompts, and what is refused of it. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "models/trace.h"
#include "models/trace_reader.h"
#include "tests/suite.h"

/* What prompts consist of, where it is asked for; a row that says nothing has none. */
START_TEST(prefix_ids)
{
  static const char native[] = "arrival_ns,prompt_tokens,output_tokens,hash_ids,hash_tokens\n"
                               "0,40,1,7 8 9,16\n"
                               "5,40,1,,16\n";
  static const char mooncake[] =
      "{\"timestamp\":0,\"input_length\":600,\"output_length\":1,\"hash_ids\":[4,0]}\n"
      "{\"timestamp\":1,\"input_length\":600,\"output_length\":1}\n";
  const struct {
    const char *text;
    int format;
    uint32_t n, tokens, first, last;
  } c[] = {{native, TRACE_NATIVE, 3, 16, 7, 9}, {mooncake, TRACE_MOONCAKE, 2, 512, 4, 0}};
  for (size_t i = 0; i < 2; i++)
    for (int keep = 0; keep < 2; keep++) {
      const struct trace_rules rules = {.keep_ids = keep};
      struct base_error e = {0};
      struct trace_row row;
      struct trace *t = trace_open_memory(c[i].text, strlen(c[i].text), "memory", c[i].format,
                                          &rules, &e);
      ck_assert_msg(t && trace_next(t, &row, &e) == 1, "%s", e.text);
      ck_assert_uint_eq(row.nids, keep ? c[i].n : 0);
      if (keep) {
        ck_assert_uint_eq(row.id_tokens, c[i].tokens);
        ck_assert_uint_eq(row.ids[0], c[i].first);
        ck_assert_uint_eq(row.ids[c[i].n - 1], c[i].last);
      }
      ck_assert_int_eq(trace_next(t, &row, &e), 1);
      ck_assert_uint_eq(row.nids, 0);
      ck_assert_int_eq(trace_next(t, &row, &e), 0);
      trace_close(t);
    }
}
END_TEST

START_TEST(bad_prefix_ids)
{
  static const struct {
    const char *text;
    int format;
    const char *what, *todo;
  } c[] = {{"arrival_ns,prompt_tokens,output_tokens,hash_ids\n0,40,1,7 -8\n", TRACE_NATIVE,
            "hash_ids holds '-8'", "write whole numbers"},
           {"arrival_ns,prompt_tokens,output_tokens,hash_ids\n0,40,1,99999999999999999999\n",
            TRACE_NATIVE, "hash_ids holds '99999999999999999999'", "write whole numbers"},
           {"arrival_ns,prompt_tokens,output_tokens,hash_tokens\n0,40,1,0\n", TRACE_NATIVE,
            "hash_tokens is 0", "give the tokens"},
           {"{\"timestamp\":0,\"input_length\":6,\"output_length\":1,\"hash_ids\":[4,0.5]}",
            TRACE_MOONCAKE, "entry 2 of hash_ids is a number with a point", "write a whole number"},
           {"{\"timestamp\":0,\"input_length\":6,\"output_length\":1,\"hash_ids\":[-4]}",
            TRACE_MOONCAKE, "entry 1 of hash_ids is negative: '-4'", "count ids from 0 on"}};
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
    const struct trace_rules rules = {.keep_ids = 1};
    struct base_error e = {0};
    struct trace_row row;
    struct trace *t = trace_open_memory(c[i].text, strlen(c[i].text), "memory", c[i].format, &rules,
                                        &e);
    ck_assert_msg(t && trace_next(t, &row, &e) == -1, "%s: it is taken", c[i].text);
    trace_close(t);
    ck_assert_int_eq(e.code, BASE_INPUT);
    ck_assert_msg(strstr(e.text, c[i].what) && strstr(e.text, c[i].todo), "%s", e.text);
  }
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("trace ids");
  TCase *t = tcase_create("hash_ids");
  tcase_add_test(t, prefix_ids);
  tcase_add_test(t, bad_prefix_ids);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
