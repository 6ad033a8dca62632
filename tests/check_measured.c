/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The readers of measured runs: good and bad text in memory, each message with its line. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/measured.h"
#include "tests/suite.h"

static struct measured *read_text(const char *text, struct base_error *e)
{
  return measured_open_memory(text, strlen(text), "memory", e);
}

static struct measured *good(const char *text)
{
  struct base_error e = {0};
  struct measured *m = read_text(text, &e);
  ck_assert_msg(m != NULL, "%u: %s", e.line, e.text);
  return m;
}

/* Rows as "arrival,ttft,e2e,prompt,output,gaps;". */
static const char *rows(const struct measured *m)
{
  static char text[1024];
  size_t n = 0;
  for (uint64_t i = 0; i < m->n; i++)
    n += (size_t)snprintf(text + n, sizeof text - n, "%lld,%lld,%lld,%u,%u,%zu;",
                          (long long)m->row[i].arrival_ns, (long long)m->row[i].ttft_ns,
                          (long long)m->row[i].e2e_ns, m->row[i].prompt, m->row[i].output,
                          m->row[i].ngaps);
  return text;
}

#define RECORD(id, in, out, queued, scheduled, first, last)                                        \
  "{\"request_id\": \"" id "\", \"input_toks\": " in ", \"output_toks\": " out                     \
  ", \"arrival_time\": 1777142838.338653, \"queued_ts\": " queued ", \"scheduled_ts\": " scheduled \
  ", \"first_token_ts\": " first ", \"last_token_ts\": " last "}\n"

/* An epoch with nine decimals keeps all of them, which no double could; rows are sorted. */
START_TEST(records)
{
  struct measured *m = good(RECORD(
      "b", "20", "1", "1777142839.000000001", "1777142839.000000002", "1777142839.000000003",
      "1777142839.000000003") RECORD("a", "10", "3", "1777142838.123456789", "1777142838.123456789",
                                     "1777142838.623456790", "1.77714283912345679e9"));
  ck_assert_str_eq(m->format, "llmservingsim");
  ck_assert_str_eq(rows(m), "0,500000001,1000000001,10,3,0;876543212,2,2,20,1,0;");
  ck_assert_uint_eq(m->moved, 1);
  ck_assert_int_eq(m->has_gaps, 0);
  ck_assert_uint_eq(m->row[0].line, 2);
  measured_close(m);
}
END_TEST

/* Equal arrivals keep the order of the file. */
START_TEST(ties)
{
  struct measured *m = good("arrival_ns,prompt_tokens,output_tokens,ttft_ns,e2e_ns\n"
                            "5,1,1,1,1\n0,2,1,1,1\n5,3,1,1,1\n0,4,1,1,1\n5,5,1,1,1\n");
  ck_assert_str_eq(rows(m), "0,1,1,2,1,0;0,1,1,4,1,0;5,1,1,1,1,0;5,1,1,3,1,0;5,1,1,5,1,0;");
  ck_assert_uint_eq(m->moved, 2);
  measured_close(m);
}
END_TEST

/* The second request failed; the third was delivered in chunks, so it has fewer gaps. */
static const char vllm_text[] =
    "{\"date\": \"20260101-000000\", \"request_rate\": 4.0, \"x\": {\"itls\": [1]},\n"
    " \"input_lens\": [7, 8, 9], \"output_lens\": [3, 0, 5],\n"
    " \"ttfts\": [0.5, 0.0, 1.25e-1],\n"
    " \"itls\": [[0.1, 0.2], [], [0.000000001, 0.3]],\n"
    " \"start_times\": [479748.340626232, 479748.4, 479749.340626232],\n"
    " \"generated_texts\": [\"a ] \\\" }\", \"\", \"b\"], \"errors\": [\"\", \"boom\", \"\"]}\n";

START_TEST(vllm)
{
  struct measured *m = good(vllm_text);
  ck_assert_str_eq(m->format, "vllm");
  ck_assert_str_eq(rows(m), "0,500000000,800000000,7,3,2;1000000000,125000000,425000001,9,5,2;");
  ck_assert_uint_eq(m->failed, 1);
  ck_assert_uint_eq(m->ngaps, 4);
  ck_assert_int_eq(m->gap_ns[2], 1);
  ck_assert_int_eq(m->gap_ns[m->row[1].gap + 1], 300000000);
  ck_assert_int_eq(m->has_gaps, 1);
  measured_close(m);
}
END_TEST

/* Without start times a run is known only if everything was sent at once. */
START_TEST(burst)
{
  struct measured *m = good("{\"request_rate\": \"inf\", \"max_concurrency\": null, "
                            "\"input_lens\": [1, 2], \"output_lens\": [1, 1], \"ttfts\": [1, 2], "
                            "\"itls\": [[], []]}");
  ck_assert_str_eq(rows(m), "0,1000000000,1000000000,1,1,0;0,2000000000,2000000000,2,1,0;");
  measured_close(m);
}
END_TEST

START_TEST(native)
{
  struct measured *m = good("\xEF\xBB\xBFid,e2e_ns,ttft_ns,itl_ns,output_tokens,prompt_tokens,"
                            "arrival_ns,other\r\n"
                            "a,60,10,\"20  30\",3,5,1000,x\r\n"
                            "b,7,7,,1,6,1004,y");
  ck_assert_str_eq(m->format, "native");
  ck_assert_str_eq(rows(m), "0,10,60,5,3,2;4,7,7,6,1,0;");
  ck_assert_int_eq(m->gap_ns[1], 30);
  measured_close(m);
}
END_TEST

#define HEADER "arrival_ns,prompt_tokens,output_tokens,ttft_ns,e2e_ns,id,itl_ns\n"
#define FIRST RECORD("a", "10", "3", "1.5", "1.5", "2", "3")
#define ARRAYS(lens, start, more)                                                                  \
  "{\"request_rate\": 1.0,\n\"input_lens\": [1, 2],\n\"output_lens\": " lens                       \
  ",\n\"ttfts\": [1, 2],\n\"itls\": [[1], [1]]" start more "}"
#define START ",\n\"start_times\": [0.5, 1]"

static const struct bad {
  const char *text;
  unsigned line;
  const char *what, *hint;
} bads[] = {
    {"", 1, "empty", "give the records"},
    {"arrival_ns,prompt_tokens,output_tokens,ttft_ns\n", 1, "no column 'e2e_ns'",
     "'output_tokens', 'ttft_ns': add or rename"},
    {"ttft_ns,ttft_ns\n", 1, "twice", "remove one"},
    {HEADER, 1, "no finished request", "at least one"},
    {HEADER "0,1,1,1,1,a,\n\n", 3, "blank", "remove it"},
    {HEADER "0,1,1,1,1\n", 2, "has 5 cells and the header 7", "as many"},
    {HEADER "0,0,1,1,1,a,\n", 2, "zero prompt tokens", "1 or more"},
    {HEADER "0,1,0,1,1,a,\n", 2, "zero output tokens", "1 or more"},
    {HEADER "0,1,1.5,1,1,a,\n", 2, "not a whole number: '1.5'", "such as 128"},
    {HEADER "-1,1,1,1,1,a,\n", 2, "arrival_ns is negative", "from 0 on"},
    {HEADER "0,1,1,1.5,2,a,\n", 2, "ttft_ns is no time: '1.5'", "whole nanoseconds"},
    {HEADER "0,1,2,5,4,a,\n", 2, "last token comes before the first", "correct the times"},
    {HEADER "0,1,1,5,6,a,\n", 2, "one output token, but", "correct the count"},
    {HEADER "0,1,2,5,9,a,2 2\n", 2, "2 token gaps, but only 2 output tokens", "correct one"},
    {HEADER "0,1,2,5,9,a,2x\n", 2, "itl_ns is no time: '2x'", "whole nanoseconds"},
    {HEADER "0,1,1,1,1,a,\n1,1,1,1,1,a,\n", 3, "'a' stands on line 2", "its own"},
    {HEADER "9223372036854775807,1,1,1,1,a,\n", 2, "beyond 292 years", "correct its times"},
    {FIRST "{\"request_id\": \"b\", \"input_toks\": 10, \"output_to", 2, "not a JSON object",
     "one request a line"},
    {FIRST "[1]\n", 2, "an array, not a JSON object", "one request a line"},
    {FIRST "{\"input_toks\": 10, \"output_toks\": 3}\n", 2, "no key 'queued_ts'", "add it"},
    {FIRST "\n", 2, "blank", "remove it"},
    {FIRST FIRST, 2, "'a' stands on line 1", "its own"},
    {RECORD("a", "0", "3", "1.5", "1.5", "2", "3"), 1, "zero prompt tokens", "1 or more"},
    {RECORD("a", "-4", "3", "1.5", "1.5", "2", "3"), 1, "input_toks is negative", "1 or more"},
    {RECORD("a", "4.0", "3", "1.5", "1.5", "2", "3"), 1, "input_toks is a number with a point",
     "write a whole number"},
    {RECORD("a", "4", "3", "-1.5", "1.5", "2", "3"), 1, "queued_ts is no time: '-1.5", "from 0"},
    {RECORD("a", "4", "3", "\"1\"", "1.5", "2", "3"), 1, "queued_ts is a string", "write seconds"},
    {RECORD("a", "4", "3", "1e12", "1e12", "1e12", "1e12"), 1, "queued_ts is no time",
     "to 9223372036"},
    {RECORD("a", "4", "3", "1.5", "1.4", "2", "3"), 1, "scheduled_ts is not between", "correct"},
    {RECORD("a", "4", "3", "1.5", "2.5", "2", "3"), 1, "scheduled_ts is not between", "correct"},
    {RECORD("a", "4", "3", "1.5", "1.5", "2", "1.9"), 1, "last token comes before", "correct"},
    {RECORD("a", "4", "1", "1.5", "1.5", "2", "3"), 1, "one output token, but", "correct"},
    {"{\"input_toks\": 4, \"output_toks\": 3, \"queued_ts\": 3, \"first_token_ts\": 2, "
     "\"last_token_ts\": 4}\n",
     1, "first token comes before the request arrives", "correct"},
    {ARRAYS("[2, 2]", "", ""), 1, "no key 'start_times'", "saves start_times"},
    {ARRAYS("[2]", START, ""), 3, "output_lens has 1 items and input_lens 2", "an item a request"},
    {ARRAYS("2", START, ""), 1, "output_lens is no array", "an item for each"},
    {ARRAYS("[2, 2.5]", START, ""), 3, "output_lens[1] is no whole number: '2.5]", ""},
    {ARRAYS("[2, -2]", START, ""), 3, "output_lens[1] is no count of tokens", ""},
    {ARRAYS("[2, 0]", START, ""), 2, "zero output tokens", "1 or more"},
    {ARRAYS("[2, 1]", START, ""), 2, "one output token, but", "correct"},
    {ARRAYS("[2, 2]", ",\n\"start_times\": [0.5, -1]", ""), 6, "start_times[1] is no time", ""},
    {ARRAYS("[2, 2]", START, ", \"errors\": [\"\"]"), 6, "errors has 1 items", "each an item"},
    {"{\"input_lens\": [1], \"output_lens\": [1]}", 1, "no key 'ttfts'", "--save-detailed"},
    {"{\"input_lens\": [1],\n\"output_lens\": [1]", 3, "not one JSON object", "the file is cut"},
    {"{\"input_lens\": [1],\n\"ttfts\": [NaN]}", 2, "NaN (byte", "is no JSON number"},
    {"{\"input_lens\": [1],\n\"ttfts\": [0, Infinity]}", 2, "Infinity (byte", "no JSON number"},
    {"{\"input_lens\": [1],\n\"ttfts\": [-Infinity]}", 2, "-Infinity (byte", "no JSON number"},
    {"{\"input_lens\": []}\n{\"input_lens\": []}", 2, "not one JSON object", "holds several"},
};

START_TEST(bad_text)
{
  const struct bad *b = &bads[_i];
  struct base_error e = {0};
  ck_assert_msg(read_text(b->text, &e) == NULL, "%d: was read", _i);
  ck_assert_int_eq(e.code, BASE_INPUT);
  ck_assert_str_eq(e.file, "memory");
  ck_assert_msg(e.line == b->line && strstr(e.text, b->what) && strstr(e.text, b->hint),
                "%d: line %u: %s", _i, e.line, e.text);
}
END_TEST

/* Every cut of a good file fails but where a whole row ends. */
START_TEST(cut)
{
  struct base_error e = {0};
  for (size_t n = 0; n + 2 < sizeof vllm_text; n++) {
    e = (struct base_error){0};
    struct measured *m = measured_open_memory(vllm_text, n, "memory", &e);
    ck_assert_msg(m == NULL && e.code == BASE_INPUT && e.line >= 1, "cut at %zu", n);
  }
}
END_TEST

START_TEST(no_such_file)
{
  struct base_error e = {0};
  ck_assert_ptr_null(measured_open("nowhere.jsonl", &e));
  ck_assert_int_eq(e.code, BASE_ENV);
  ck_assert_ptr_nonnull(strstr(e.text, "nowhere.jsonl"));
}
END_TEST

static Suite *measured_suite(void)
{
  Suite *suite = suite_create("measured");
  TCase *text = tcase_create("text");
  tcase_add_test(text, records);
  tcase_add_test(text, ties);
  tcase_add_test(text, vllm);
  tcase_add_test(text, burst);
  tcase_add_test(text, native);
  tcase_add_loop_test(text, bad_text, 0, sizeof bads / sizeof *bads);
  tcase_add_test(text, cut);
  tcase_add_test(text, no_such_file);
  suite_add_tcase(suite, text);
  return suite;
}

int main(void)
{
  return suite_run(measured_suite());
}
