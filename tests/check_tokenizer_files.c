/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a tokenizer.json may not hold, each refusal by its words; texts that are bad or hostile. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "backend/tokenizer.h"
#include "backend/tokenizer_inner.h"
#include "base/outfile.h"
#include "tests/scratch.h"
#include "tests/suite.h"

static const char *const chat[] = {"<|im_start|>", "<|im_end|>"};

/* The text of a file of bytes and two special tokens, which the tests change. */
static char *base_text(void)
{
  struct base_error e = {0};
  const char *path = scratch_path("bytes.json");
  ck_assert_int_eq(tokenizer_write_bytes(path, chat, 2, &e), 0);
  char *text = base_read_file(path, 1 << 20, NULL, &e);
  ck_assert_ptr_nonnull(text);
  return text;
}

/* `with` in the place of the first `what` behind `from`. */
static char *changed(char *text, const char *from, const char *what, const char *with)
{
  const char *at = strstr(strstr(text, from), what);
  ck_assert_msg(at != NULL, "no %s", what);
  const size_t before = (size_t)(at - text);
  char *out = malloc(strlen(text) + strlen(with) + 1);
  ck_assert_ptr_nonnull(out);
  memcpy(out, text, before);
  strcpy(out + before, with);
  strcat(out, at + strlen(what));
  free(text);
  return out;
}

static struct tokenizer *good(char *text)
{
  struct base_error e = {0};
  struct tokenizer *t = tokenizer_parse(text, strlen(text), "memory", &e);
  ck_assert_msg(t != NULL, "%s", e.text);
  free(text);
  return t;
}

static void refused(char *text, const char *why)
{
  struct base_error e = {0};
  ck_assert_ptr_null(tokenizer_parse(text, strlen(text), "memory", &e));
  ck_assert_int_eq(e.code, BASE_INPUT);
  ck_assert_str_eq(e.file, "memory");
  ck_assert_msg(strstr(e.text, why) != NULL, "'%s' does not say '%s'", e.text, why);
  free(text);
}

/* Each: behind what, what, with what, and the words of the refusal. */
static const char *const bad_parts[][4] = {
    {"{", "\"version\"", "\"versions\"", "\"versions\" is not supported; did you mean \"version\""},
    {"{", "\"truncation\": null", "\"truncation\": {\"max_length\": 5}", "truncation and padding"},
    {"{", "\"padding\": null", "\"padding\": {}", "truncation and padding"},
    {"{", "\"padding\": null", "\"version\": null", "not JSON: duplicate object key"},
    {"{", "\"normalizer\": null", "\"normalizer\": {\"type\": \"NFKC\"}", "normalizer is \"NFKC\""},
    {"{", "\"normalizer\": null", "\"normalizer\": 7", "normalizer is missing or not an object"},
    {"{", "\"normalizer\": null",
     "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFC\"}, {\"type\": "
     "\"Lowercase\"}]}",
     "normalizer.normalizers[1] is \"Lowercase\"; only NFC"},
    {"\"pre_tokenizer\"", "ByteLevel", "Metaspace", "pre_tokenizer is \"Metaspace\"; ByteLevel"},
    {"\"pre_tokenizer\"", "\"add_prefix_space\"", "\"prefix_space\"",
     "pre_tokenizer: the key \"prefix_space\""},
    {"\"pre_tokenizer\"", "\"add_prefix_space\": false", "\"add_prefix_space\": 1",
     "pre_tokenizer.add_prefix_space must be true or false"},
    {"{", "\"post_processor\": null", "\"post_processor\": {\"type\": \"BertProcessing\"}",
     "post_processor is \"BertProcessing\""},
    {"{", "\"post_processor\": null",
     "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": []}",
     "must have Sequence A once"},
    {"{", "\"post_processor\": null",
     "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": "
     "{\"id\": \"x\"}}, {\"Sequence\": {\"id\": \"A\"}}]}",
     "special_tokens has no ids for \"x\""},
    {"{", "\"post_processor\": null",
     "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": "
     "{\"id\": \"x\"}}, {\"Sequence\": {\"id\": \"A\"}}], \"special_tokens\": {\"x\": {\"ids\": "
     "[258]}}}",
     "an id of \"x\" is no token's"},
    {"\"decoder\"", "ByteLevel", "WordPiece", "decoder is \"WordPiece\"; only ByteLevel"},
    {"\"model\"", "\"type\": \"BPE\"", "\"type\": \"Unigram\"", "model.type is \"Unigram\""},
    {"\"model\"", "\"dropout\": null", "\"dropout\": 0.1", "model.dropout is set"},
    {"\"model\"", "\"unk_token\": null", "\"unk_token\": \"a\"", "model.unk_token is set"},
    {"\"model\"", "\"end_of_word_suffix\": null", "\"end_of_word_suffix\": \"</w>\"",
     "model.end_of_word_suffix is set"},
    {"\"model\"", "\"byte_fallback\": false", "\"byte_fallback\": true",
     "model.byte_fallback is set"},
    {"\"model\"", "\"fuse_unk\"", "\"fuse\"", "model: the key \"fuse\" is not supported"},
    {"\"vocab\"", "\"A\": 65", "\"A\": 66", "two tokens have the id 66"},
    {"\"vocab\"", "\"A\": 65", "\"A\": -1", "the id of \"A\" is not a whole number from 0 to"},
    {"\"vocab\"", "\"A\": 65", "\"A\": 65.0", "the id of \"A\" is not a whole number from 0 to"},
    {"\"vocab\"", "\"A\": 65", "\"A\": 9999999", "the id of \"A\" is not a whole number from 0 to"},
    {"\"vocab\"", "\"A\": 65", "\"AA\": 65", "no token for the byte 0x41 (\"A\")"},
    {"\"vocab\"", "\"A\": 65", "\"A\": 65, \"\": 300", "the token 300 is empty"},
    {"\"vocab\"", "\"A\": 65", "\"A\": 65, \"A\": 300", "duplicate object key"},
    {"\"merges\"", "[]", "[\"A B\"]", "model.merges[0]: \"AB\" is not in model.vocab"},
    {"\"merges\"", "[]", "[\"#version: 0.2\", [\"A\", \"AB\"]]",
     "model.merges[1]: \"AB\" is not in model.vocab"},
    {"\"merges\"", "[]", "[\"A\"]", "model.merges[0] is not two tokens"},
    {"\"merges\"", "[]", "[\"A B C\"]", "model.merges[0] is not two tokens"},
    {"\"merges\"", "[]", "[[\"A\"]]", "model.merges[0] is not two tokens"},
    {"\"merges\"", "[]", "{}", "model.merges is missing or not a list"},
    {"\"added_tokens\"", "\"id\": 256", "\"id\": 255", "the id 255 of \"<|im_start|>\" is another"},
    {"\"added_tokens\"", "\"id\": 256", "\"id\": 257", "the id 257 of \"<|im_end|>\" is another"},
    {"\"added_tokens\"", "\"id\": 256", "\"id\": \"256\"",
     "the id of \"<|im_start|>\" is not a whole number"},
    {"\"added_tokens\"", "<|im_start|>", "A", "\"A\" has the id 256, but 65 in model.vocab"},
    {"\"added_tokens\"", "<|im_start|>", "<|im_end|>", "\"<|im_end|>\" is there twice"},
    {"\"added_tokens\"", "<|im_start|>", "", "content must be a text of 1 to 1024 bytes"},
    {"\"added_tokens\"", "\"lstrip\": false", "\"lstrip\": null", "lstrip must be true or false"},
};

START_TEST(bad_part)
{
  const char *const *b = bad_parts[_i];
  refused(changed(base_text(), b[0], b[1], b[2]), b[3]);
}
END_TEST

/* Cut anywhere, a file is refused with the line. */
START_TEST(truncated)
{
  char *text = base_text();
  const size_t n = strlen(text);
  for (size_t cut = 0; cut + 2 < n; cut += 1 + cut / 7) {
    struct base_error e = {0};
    ck_assert_ptr_null(tokenizer_parse(text, cut, "cut", &e));
    ck_assert_msg(e.code == BASE_INPUT && e.line >= 1 && strstr(e.text, "not JSON"), "%zu", cut);
  }
  free(text);
}
END_TEST

START_TEST(missing_file)
{
  struct base_error e = {0};
  ck_assert_ptr_null(tokenizer_open(scratch_path("none.json"), &e));
  ck_assert_ptr_nonnull(strstr(e.text, "none.json"));
}
END_TEST

/* ---- pre_tokenizer ---- */
static char *with_steps(const char *steps)
{
  char pre[2048];
  snprintf(pre, sizeof pre,
           "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [%s]}, "
           "\"post_processor\": {\"type\": \"ByteLevel\"}, \"x\": {",
           steps);
  char *text = changed(base_text(), "{", "\"post_processor\": null,", "");
  text = changed(text, "{", "\"pre_tokenizer\": {", pre);
  /* What was the step before is under x, which goes. */
  char *x = strstr(text, ", \"x\": {"), *end = strchr(x, '}');
  memmove(x, end + 1, strlen(end + 1) + 1);
  return text;
}

static char *with_regex(const char *regex)
{
  char steps[1024];
  snprintf(steps, sizeof steps,
           "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"%s\"}, \"behavior\": \"Isolated\", "
           "\"invert\": false}, {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
           "\"use_regex\": false}",
           regex);
  return with_steps(steps);
}

#define BYTE_LEVEL "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}"
#define SPLIT(pattern, behavior, invert)                                                           \
  "{\"type\": \"Split\", \"pattern\": " pattern ", \"behavior\": \"" behavior                      \
  "\", \"invert\": " invert "}"

static const char *const bad_steps[][2] = {
    {"", "pretokenizers is empty"},
    {BYTE_LEVEL ", " BYTE_LEVEL, "pretokenizers[0] is \"ByteLevel\""},
    {SPLIT("{\"Regex\": \"a\"}", "Isolated", "false"), "pretokenizers[0] is \"Split\""},
    {SPLIT("{\"String\": \"a\"}", "Isolated", "false") ", " BYTE_LEVEL,
     "pretokenizers[0].pattern must be {\"Regex\""},
    {SPLIT("{\"Regex\": \"a\"}", "Removed", "false") ", " BYTE_LEVEL,
     "pretokenizers[0].behavior is \"Removed\"; only Isolated"},
    {SPLIT("{\"Regex\": \"a\"}", "Isolated", "true") ", " BYTE_LEVEL, "invert is true"},
    {"{\"type\": \"Digits\", \"individual_digits\": true}, " BYTE_LEVEL,
     "pretokenizers[0] is \"Digits\""},
};

START_TEST(bad_step)
{
  refused(with_steps(bad_steps[_i][0]), bad_steps[_i][1]);
}
END_TEST

static const char *const bad_regexes[][2] = {
    {"(a", "does not compile: missing closing parenthesis"},
    {"a)", "does not compile"},
    {"[a", "does not compile: missing terminating ]"},
    {"\\\\p{Nonsense}", "does not compile: unknown property"},
    {"+", "does not compile"},
    {"\\\\w+", "has the escape \\w, which is not supported"},
    {"\\\\b", "the escape \\b"},
    {"(a)\\\\1", "the escape \\1"},
    {"\\\\x41", "an escape \\p, \\P or \\x without {}"},
    {"\\\\u12", "\\u without four"},
    {"\\\\", "the escape \\?"},
    {"[a[b]]", "a set in a set"},
    {"[a&&b]", "&& in a set"},
    {"[]a]", "] as the first of a set"},
    {"[\\\\s-z]", "- beside \\s"},
    {"[a-\\\\s]", "- beside \\s"},
    {"(?R)", "a group that starts otherwise"},
    {"(?m:a)", "a group that starts otherwise"},
    {"(*LIMIT_MATCH=1)a", "a group that starts with (*"},
    {"a{,3}", "a count without its lower bound"},
    {"a{1,3}+", "+ or ? behind a count"},
};

START_TEST(bad_regex)
{
  refused(with_regex(bad_regexes[_i][0]), bad_regexes[_i][1]);
}
END_TEST

START_TEST(long_regex)
{
  struct base_error e = {0};
  char text[5001];
  memset(text, 'a', 5000);
  text[5000] = 0;
  ck_assert_ptr_null(tokenizer_regex("f", "k", text, &e));
  ck_assert_str_eq(e.text, "k: the regex has 5000 bytes; at most 4096 are taken");
}
END_TEST

/* Bytes do not merge, so that what a regex matches shows only where words do: by ignore_merges. */
static int32_t one_word(const char *regex, const char *text)
{
  char *json = with_regex(regex);
  json = changed(json, "\"model\"", "\"ignore_merges\": false", "\"ignore_merges\": true");
  json = changed(json, "\"vocab\"", "\"A\": 65",
                 "\"A\": 65, \"AB\": 300, \"Ċ\xc4\xa0\": 301, \"áłİA\": 302, \"ÂłA\": 303");
  struct tokenizer *t = good(json);
  struct tokenizer_ids ids = {0};
  struct base_error e = {0};
  ck_assert_int_eq(tokenizer_encode(t, text, strlen(text), 0, &ids, &e), 0);
  const int32_t id = ids.n == 1 ? ids.id[0] : -1;
  free(ids.id);
  tokenizer_free(t);
  return id;
}

START_TEST(dialect)
{
  ck_assert_int_eq(one_word("A", "AB"), -1);
  ck_assert_int_eq(one_word("AB", "AB"), 300);
  ck_assert_int_eq(one_word("\\\\u0041B", "AB"), 300);
  ck_assert_int_eq(one_word("(?i:ab)", "AB"), 300);
  ck_assert_int_eq(one_word("[^\\\\s]+", "AB"), 300);
  ck_assert_int_eq(one_word("[\\\\S]+", "AB"), 300);
  ck_assert_int_eq(one_word("\\\\s+", "\n "), 301);
  ck_assert_int_eq(one_word("\\\\S+", "\n "), 301); /* one piece that does not match */
  ck_assert_int_eq(one_word("\\\\S+", "\xe1\xa0\x8e"
                                      "A"),
                   302); /* U+180E is no White_Space */
  ck_assert_int_eq(one_word(".", "\n "), -1);
  ck_assert_int_eq(one_word("x*", "AB"), -1); /* matches nothing, everywhere: cuts */
  ck_assert_int_eq(one_word("^", "\n "), -1); /* the start of any line */
  ck_assert_int_eq(one_word("(?!)", "AB"), 300);
}
END_TEST

/* Each word takes a time that is exponential in its length: cut off, soon. */
START_TEST(endless_regex)
{
  struct tokenizer *t = good(with_regex("(?:a|aa)+(?:a|aa)+(?!)"));
  struct tokenizer_ids ids = {0};
  struct base_error e = {0};
  char text[301];
  memset(text, 'a', 300);
  text[300] = 0;
  ck_assert_int_eq(tokenizer_encode(t, text, 300, 0, &ids, &e), -1);
  ck_assert_int_eq(e.code, BASE_INPUT);
  ck_assert_ptr_nonnull(strstr(e.text, "takes too long on the text, 0 bytes into a piece of 300"));
  ck_assert_uint_eq(ids.n, 0);
  free(ids.id);
  tokenizer_free(t);
}
END_TEST

/* ---- texts ---- */
static const struct {
  const char *text;
  size_t offset;
} bad_texts[] = {
    {"\x80", 0},
    {"ab\xff", 2},
    {"a\xc0\xaf", 1},         /* overlong */
    {"a\xe0\x9f\xbf", 1},     /* likewise */
    {"a\xed\xa0\x80", 1},     /* a surrogate */
    {"a\xf4\x90\x80\x80", 1}, /* past U+10FFFF */
    {"a\xf0\x9f\x98", 1},     /* cut */
    {"\xc3\xa9\xe2\x82x", 2}, /* likewise, inside */
    {"<|im_end|>\xc3", 10},
};

START_TEST(bad_text)
{
  struct tokenizer *t = good(base_text());
  struct tokenizer_ids ids = {0};
  struct base_error e = {0};
  char want[64];
  ck_assert_int_eq(tokenizer_encode(t, "x", 1, 0, &ids, &e), 0);
  const char *text = bad_texts[_i].text;
  ck_assert_int_eq(tokenizer_encode(t, text, strlen(text), 0, &ids, &e), -1);
  ck_assert_int_eq(e.code, BASE_INPUT);
  snprintf(want, sizeof want, "the text is not UTF-8 at byte %zu ", bad_texts[_i].offset);
  ck_assert_msg(!strncmp(e.text, want, strlen(want)), "%s", e.text);
  ck_assert_uint_eq(ids.n, 1);
  free(ids.id);
  tokenizer_free(t);
}
END_TEST

/* ---- the tokenizer of bytes ---- */
START_TEST(byte_tokens)
{
  struct tokenizer *t = good(base_text());
  struct tokenizer_ids ids = {0};
  struct tokenizer_text out = {0};
  struct base_error e = {0};
  size_t n = 0;
  ck_assert_uint_eq(tokenizer_vocab(t), 258);
  ck_assert_int_eq(tokenizer_id(t, "<|im_end|>"), 257);
  ck_assert_int_eq(tokenizer_id(t, "A"), 65);
  ck_assert_int_eq(tokenizer_id(t, "AB"), -1);
  ck_assert(tokenizer_is_special(t, 256) && !tokenizer_is_special(t, 65));
  ck_assert(!tokenizer_is_special(t, -1) && !tokenizer_is_special(t, 258));
  for (int32_t id = 0; id < 256; id++)
    ck_assert(tokenizer_bytes(t, id, &n)[0] == (char)id && n == 1);
  ck_assert_ptr_null(tokenizer_bytes(t, 258, &n));
  ck_assert_ptr_null(tokenizer_bytes(t, -1, &n));
  const char text[] = "a\0\xc3\xa9<|im_end|>";
  ck_assert_int_eq(tokenizer_encode(t, text, sizeof text - 1, 0, &ids, &e), 0);
  const int32_t want[] = {97, 0, 0xc3, 0xa9, 257};
  ck_assert_uint_eq(ids.n, 5);
  ck_assert_mem_eq(ids.id, want, sizeof want);
  const int32_t mixed[] = {257, 97, -5, 258, 0x7fffffff, 0xc3, 256};
  ck_assert_int_eq(tokenizer_decode(t, mixed, 7, TOKENIZER_SKIP_SPECIAL, &out, &e), 0);
  ck_assert_str_eq(out.byte, "a\xef\xbf\xbd");
  ck_assert_int_eq(tokenizer_decode(t, mixed, 2, 0, &out, &e), 0);
  ck_assert_str_eq(out.byte, "a\xef\xbf\xbd<|im_end|>a");
  ck_assert_int_eq(tokenizer_fits(t, 258, &e), 0);
  ck_assert_int_eq(tokenizer_fits(t, 257, &e), -1);
  ck_assert_ptr_nonnull(strstr(e.text, "ids up to 257, but the model's vocab_size is 257"));
  free(ids.id);
  free(out.byte);
  tokenizer_free(t);
}
END_TEST

START_TEST(bad_special)
{
  static const char *const bad[][2] = {
      {"<a>", ""}, {"<a>", "\xff\xff"}, {"<a>", "a"}, {"<a>", "\xc4\xa0"}, {"<a>", "<a>"}};
  struct base_error e = {0};
  ck_assert_int_eq(tokenizer_write_bytes(scratch_path("no.json"), bad[_i], 2, &e), -1);
  ck_assert_int_eq(e.code, BASE_INPUT);
  ck_assert_ptr_nonnull(strstr(e.text, _i < 4 ? "the special token 1 must be" : "there twice"));
  ck_assert_ptr_null(fopen(scratch_path("no.json"), "r"));
}
END_TEST

/* ---- hostile sizes ---- */
enum { MEGABYTE = 1 << 20 };

static char *repeated(const char *unit, size_t bytes)
{
  const size_t n = strlen(unit);
  char *text = malloc(bytes + n + 1);
  ck_assert_ptr_nonnull(text);
  for (size_t i = 0; i < bytes; i += n)
    memcpy(text + i, unit, n);
  text[bytes / n * n] = 0;
  return text;
}

/* The heap's work on a megabyte of one letter: n log n at most, and twice the letters take about
 * twice the work. */
START_TEST(work_is_n_log_n)
{
  char *json = changed(base_text(), "\"vocab\"", "\"A\": 65",
                       "\"A\": 65, \"AA\": 300, \"AAAA\": 301");
  struct tokenizer *t = good(changed(json, "\"merges\"", "[]", "[\"A A\", \"AA AA\"]"));
  char *text = repeated("A", MEGABYTE);
  uint64_t work[2];
  for (unsigned i = 0; i < 2; i++) {
    struct bpe b = {0};
    struct tokenizer_ids ids = {0};
    struct base_error e = {0};
    const size_t n = MEGABYTE >> (1 - i);
    ck_assert_int_eq(bpe_word(t, &b, (uint8_t *)text, n, &ids, &e), 0);
    ck_assert_uint_eq(ids.n, n / 4);
    work[i] = b.work;
    bpe_free(&b);
    free(ids.id);
  }
  ck_assert_uint_le(work[1], 2u * MEGABYTE * 20);
  ck_assert_uint_le(work[1] * 10, work[0] * 23);
  free(text);
  tokenizer_free(t);
}
END_TEST

/* Would take hours if anything were quadratic. */
START_TEST(megabytes)
{
  static const char *const units[] = {
      "A",  " ",    "\n",     "\xcc\x81\xcc\xa3", "\xe0\xbd\xb1\xe0\xbd\xb4",
      "<",  "<|im", "A \n\t", "\xea\xb0\x80",     "1",
      "'s", "\r\n"};
  char path[512];
  const char *srcdir = getenv("srcdir");
  snprintf(path, sizeof path, "%s/tests/data/tokenizer/qwen.json", srcdir ? srcdir : ".");
  struct base_error e = {0};
  struct tokenizer *t = tokenizer_open(path, &e);
  ck_assert_ptr_nonnull(t);
  char *text = repeated(units[_i], MEGABYTE);
  struct tokenizer_ids ids = {0};
  ck_assert_msg(!tokenizer_encode(t, text, strlen(text), 0, &ids, &e), "%s", e.text);
  ck_assert_uint_ge(ids.n, 1000);
  free(ids.id);
  free(text);
  tokenizer_free(t);
}
END_TEST

/* Long runs of marks are sorted otherwise than short ones. */
START_TEST(runs_of_marks)
{
  static const char *const marks[] = {"\xcc\x81", "\xcc\xa3", "\xcc\xb4", "\xcd\x85", "\xcc\x88"};
  for (unsigned n = 1; n < 100; n++) {
    char text[256] = "e", *mine = NULL;
    utf8proc_uint8_t *right;
    struct base_error e = {0};
    size_t mine_n;
    for (unsigned i = 0; i < n; i++)
      strcat(text, marks[i * i * 7 % 11 % 5]);
    ck_assert_int_eq(tokenizer_nfc(text, strlen(text), &mine, &mine_n, &e), 0);
    const utf8proc_ssize_t right_n = utf8proc_map((utf8proc_uint8_t *)text, 0, &right,
                                                  UTF8PROC_NULLTERM | UTF8PROC_STABLE |
                                                      UTF8PROC_COMPOSE);
    ck_assert_uint_eq(mine_n, (size_t)right_n);
    ck_assert_mem_eq(mine, right, mine_n);
    free(mine);
    free(right);
  }
}
END_TEST

#define EACH(c, test, list) tcase_add_loop_test(c, test, 0, sizeof list / sizeof *list)

int main(void)
{
  Suite *s = suite_create("tokenizer_files");
  TCase *c = tcase_create("files");
  tcase_add_checked_fixture(c, scratch_open, scratch_close);
  EACH(c, bad_part, bad_parts);
  tcase_add_test(c, truncated);
  tcase_add_test(c, missing_file);
  EACH(c, bad_step, bad_steps);
  EACH(c, bad_regex, bad_regexes);
  tcase_add_test(c, long_regex);
  tcase_add_test(c, dialect);
  suite_add_tcase(s, c);
  c = tcase_create("texts");
  tcase_add_checked_fixture(c, scratch_open, scratch_close);
  tcase_set_timeout(c, 60);
  tcase_add_test(c, endless_regex);
  EACH(c, bad_text, bad_texts);
  tcase_add_test(c, byte_tokens);
  tcase_add_loop_test(c, bad_special, 0, 5);
  tcase_add_test(c, work_is_n_log_n);
  tcase_add_loop_test(c, megabytes, 0, 12);
  tcase_add_test(c, runs_of_marks);
  suite_add_tcase(s, c);
  return suite_run(s);
}
