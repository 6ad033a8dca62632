/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The tokenizer against what the Python package `tokenizers` made of the same nasty strings. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>
#include <zlib.h>

#include "backend/tokenizer.h"
#include "backend/tokenizer_inner.h"
#include "tests/suite.h"

/* ---- the files of fixtures/make_tokenizer.py ---- */
static const char *fixture(const char *name)
{
  static char path[512];
  const char *srcdir = getenv("srcdir");
  snprintf(path, sizeof path, "%s/tests/data/tokenizer/%s", srcdir ? srcdir : ".", name);
  return path;
}

static struct tokenizer *open_fixture(const char *name)
{
  struct base_error e = {0};
  struct tokenizer *t = tokenizer_open(fixture(name), &e);
  ck_assert_msg(t != NULL, "%s: %s", name, e.text);
  return t;
}

/* Records of a file: a count, then as many elements. */
struct records {
  gzFile f;
  unsigned char *data;
  uint32_t n;
};

static struct records open_records(const char *name)
{
  struct records r = {.f = gzopen(fixture(name), "rb")};
  ck_assert_msg(r.f != NULL, "cannot open %s", fixture(name));
  return r;
}

static int next_record(struct records *r, size_t element)
{
  unsigned char head[4];
  const int got = gzread(r->f, head, sizeof head);
  if (!got)
    return 0;
  ck_assert_int_eq(got, 4);
  r->n = head[0] | (uint32_t)head[1] << 8 | (uint32_t)head[2] << 16 | (uint32_t)head[3] << 24;
  free(r->data);
  r->data = malloc(r->n * element + 1);
  ck_assert_ptr_nonnull(r->data);
  ck_assert_uint_eq((size_t)gzread(r->f, r->data, (unsigned)(r->n * element)), r->n * element);
  return 1;
}

static int32_t id_of(const struct records *r, size_t i)
{
  return r->data[2 * i] | (int32_t)r->data[2 * i + 1] << 8;
}

static void close_records(struct records *r)
{
  free(r->data);
  gzclose(r->f);
}

/* The ids of every string of the file `expected` are as they stand there. */
static unsigned compare_all(const char *json, const char *expected, unsigned flags)
{
  struct tokenizer *t = open_fixture(json);
  struct records text = open_records("strings.gz"), ids = open_records(expected);
  struct tokenizer_ids got = {0};
  unsigned n = 0;
  for (; next_record(&ids, 2); n++) {
    struct base_error e = {0};
    ck_assert(next_record(&text, 1));
    got.n = 0;
    ck_assert_msg(!tokenizer_encode(t, (char *)text.data, text.n, flags, &got, &e), "%u: %s", n,
                  e.text);
    for (size_t i = 0; i < got.n && i < ids.n; i++)
      ck_assert_msg(got.id[i] == id_of(&ids, i), "%s: string %u, id %zu: %d, not %d; '%.*s'", json,
                    n, i, got.id[i], id_of(&ids, i), (int)text.n, (char *)text.data);
    ck_assert_msg(got.n == ids.n, "%s: string %u: %zu ids, not %u", json, n, got.n, ids.n);
  }
  free(got.id);
  close_records(&text);
  close_records(&ids);
  tokenizer_free(t);
  return n;
}

START_TEST(qwen)
{
  ck_assert_uint_eq(compare_all("qwen.json", "qwen-ids.gz", TOKENIZER_ADD_SPECIAL), 5000);
}
END_TEST

START_TEST(llama)
{
  ck_assert_uint_eq(compare_all("llama.json", "llama-ids.gz", TOKENIZER_ADD_SPECIAL), 5000);
}
END_TEST

START_TEST(odd)
{
  ck_assert_uint_eq(compare_all("odd.json", "odd-ids.gz", 0), 1500);
}
END_TEST

START_TEST(plain)
{
  ck_assert_uint_eq(compare_all("qwen.json", "qwen-plain-ids.gz", TOKENIZER_NO_SPECIAL), 500);
}
END_TEST

/* ---- there and back ---- */
static struct tokenizer_text decode(const struct tokenizer *t, const int32_t *id, size_t n,
                                    unsigned flags)
{
  struct tokenizer_text out = {0};
  struct base_error e = {0};
  ck_assert_int_eq(tokenizer_decode(t, id, n, flags, &out, &e), 0);
  return out;
}

/* The same ids one by one; each piece is of whole characters. */
static struct tokenizer_text stream(const struct tokenizer *t, const int32_t *id, size_t n)
{
  struct tokenizer_text out = {0};
  struct tokenizer_stream s = {0};
  struct base_error e = {0};
  for (size_t i = 0, before; i < n; i++) {
    before = out.n;
    ck_assert_int_eq(tokenizer_stream_push(t, &s, id[i], 0, &out, &e), 0);
    ck_assert_uint_eq(tokenizer_utf8_good((uint8_t *)out.byte + before, out.n - before),
                      out.n - before);
  }
  ck_assert_int_eq(tokenizer_stream_end(&s, &out, &e), 0);
  ck_assert_uint_eq(s.n, 0);
  return out;
}

static void same_text(const struct tokenizer_text *a, const char *b, size_t n, unsigned where)
{
  ck_assert_msg(a->n == n && (!n || !memcmp(a->byte, b, n)), "text %u: '%.*s' and '%.*s'", where,
                (int)a->n, a->byte ? a->byte : "", (int)n, b);
}

static void round_trip(const char *json, int nfc)
{
  struct tokenizer *t = open_fixture(json);
  struct records text = open_records("strings.gz");
  struct base_error e = {0};
  struct tokenizer_ids ids = {0};
  for (unsigned i = 0; next_record(&text, 1); i++) {
    utf8proc_uint8_t *normal = NULL;
    utf8proc_ssize_t n = text.n;
    if (nfc)
      n = utf8proc_map(text.data, n, &normal, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    ids.n = 0;
    ck_assert_int_eq(tokenizer_encode(t, (char *)text.data, text.n, 0, &ids, &e), 0);
    struct tokenizer_text whole = decode(t, ids.id, ids.n, 0), pieces = stream(t, ids.id, ids.n);
    same_text(&whole, nfc ? (char *)normal : (char *)text.data, (size_t)n, i);
    same_text(&whole, pieces.byte, pieces.n, i);
    free(whole.byte);
    free(pieces.byte);
    free(normal);
  }
  free(ids.id);
  close_records(&text);
  tokenizer_free(t);
}

/* An added token that is normalised away from a mark behind it comes back without it: qwen.json's
 * are cut out before, so that the mark stays. */
START_TEST(round_trips)
{
  round_trip("llama.json", 0);
}
END_TEST

START_TEST(round_trips_nfc)
{
  round_trip("qwen.json", 1);
}
END_TEST

/* Ids at random: broken characters become U+FFFD where Rust's from_utf8_lossy puts them. */
START_TEST(random_ids)
{
  struct tokenizer *t = open_fixture("qwen.json");
  struct records ids = open_records("random-ids.gz"), text = open_records("random.gz");
  unsigned n = 0;
  for (; next_record(&ids, 2); n++) {
    int32_t id[64];
    ck_assert(next_record(&text, 1));
    for (size_t i = 0; i < ids.n; i++)
      id[i] = id_of(&ids, i);
    struct tokenizer_text whole = decode(t, id, ids.n, 0), pieces = stream(t, id, ids.n);
    same_text(&whole, (char *)text.data, text.n, n);
    same_text(&pieces, (char *)text.data, text.n, n);
    free(whole.byte);
    free(pieces.byte);
  }
  ck_assert_uint_eq(n, 500);
  close_records(&ids);
  close_records(&text);
  tokenizer_free(t);
}
END_TEST

int main(void)
{
  Suite *s = suite_create("tokenizer");
  TCase *c = tcase_create("fixtures");
  tcase_set_timeout(c, 60);
  tcase_add_test(c, qwen);
  tcase_add_test(c, llama);
  tcase_add_test(c, odd);
  tcase_add_test(c, plain);
  tcase_add_test(c, round_trips);
  tcase_add_test(c, round_trips_nfc);
  tcase_add_test(c, random_ids);
  suite_add_tcase(s, c);
  return suite_run(s);
}
