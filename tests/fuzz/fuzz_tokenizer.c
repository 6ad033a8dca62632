/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Feeds bytes to the tokenizer: up to the first NUL a tokenizer.json, if they start with a brace,
 * else the regex of one that is made here; behind it the text to encode. replay.c feeds it files.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "backend/tokenizer_inner.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LONGEST_TEXT = 2000 }; /* a regex may take a time that is quadratic in it */

/* Ends the program where the fuzzer notices. */
static void require(int good)
{
  if (!good)
    abort();
}

static void require_message(const struct base_error *e)
{
  require(e->code == BASE_INPUT && e->text[0] && !strchr(e->text, '\n'));
}

static json_t *make_vocab(void)
{
  static const char *const more[] = {"aa", "aaaa", "ab", "aab", "Ġa", "ĠĠ", "Ã©", "12"};
  json_t *vocab = json_object();
  char text[3];
  for (int byte = 0; byte < 256; byte++) {
    tokenizer_byte_spelling((uint8_t)byte, text);
    json_object_set_new(vocab, text, json_integer(byte));
  }
  for (int i = 0; i < 8; i++)
    json_object_set_new(vocab, more[i], json_integer(256 + i));
  return vocab;
}

/* A file with the regex; NULL: it is no text that JSON takes. */
static char *make_json(const char *regex)
{
  json_t *root = json_pack(
      "{s:s, s:[{s:i, s:s, s:b, s:b, s:b, s:b, s:b}], s:{s:s, s:[{s:s, s:{s:s}, s:s}, {s:s, s:b, "
      "s:b}]}, s:{s:s}, s:{s:s, s:o, s:[s, s, s, s, s, s, s, s]}}",
      "version", "1.0", "added_tokens", "id", 300, "content", "<a>", "single_word", 0, "lstrip", 0,
      "rstrip", 0, "normalized", 0, "special", 1, "pre_tokenizer", "type", "Sequence",
      "pretokenizers", "type", "Split", "pattern", "Regex", regex, "behavior", "Isolated", "type",
      "ByteLevel", "add_prefix_space", 0, "use_regex", 0, "decoder", "type", "ByteLevel", "model",
      "type", "BPE", "vocab", make_vocab(), "merges", "a a", "aa aa", "a b", "a ab", "Ġ a", "Ġ Ġ",
      "Ã ©", "1 2");
  char *text = root ? json_dumps(root, 0) : NULL;
  json_decref(root);
  return text;
}

/* Ids are tokens, and what they decode to is UTF-8; `same`: the text itself. */
static void require_ids(const struct tokenizer *t, const char *text, size_t n, int same)
{
  struct base_error e = {0};
  struct tokenizer_ids ids = {0};
  struct tokenizer_text out = {0};
  if (tokenizer_encode(t, text, n, TOKENIZER_ADD_SPECIAL, &ids, &e)) {
    require_message(&e);
    require(!ids.n);
  } else {
    size_t bytes;
    for (size_t i = 0; i < ids.n; i++)
      require(tokenizer_bytes(t, ids.id[i], &bytes) != NULL);
    require(!tokenizer_decode(t, ids.id, ids.n, 0, &out, &e));
    require(tokenizer_utf8_good((uint8_t *)out.byte, out.n) == out.n);
    require(!same || (out.n == n && (!n || !memcmp(out.byte, text, n))));
  }
  free(ids.id);
  free(out.byte);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct base_error e = {0};
  const uint8_t *end = size ? memchr(data, 0, size) : NULL;
  if (!end)
    return 0;
  const int whole = data[0] == '{';
  const size_t head = (size_t)(end - data), rest = size - head - 1;
  char *made = whole ? NULL : make_json((const char *)data);
  if (!whole && !made)
    return 0;
  struct tokenizer *t = tokenizer_parse(whole ? (const char *)data : made,
                                        whole ? head : strlen(made), "fuzz", &e);
  if (t)
    require_ids(t, (const char *)end + 1, rest < LONGEST_TEXT ? rest : LONGEST_TEXT, !whole);
  else
    require_message(&e);
  tokenizer_free(t);
  free(made);
  return 0;
}
