/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The tokenizer.json of the 256 bytes, as this program's own small models use it. */
#include <stdlib.h>
#include <string.h>

#include "backend/tokenizer_inner.h"
#include "base/outfile.h"

static int check_special(const char *const *special, size_t n, struct base_error *e)
{
  for (size_t i = 0; i < n; i++) {
    const size_t bytes = strlen(special[i]);
    uint8_t spelt[TOKENIZER_MAX_ADDED];
    if (!bytes || bytes > TOKENIZER_MAX_ADDED ||
        tokenizer_utf8_good((const uint8_t *)special[i], bytes) != bytes ||
        tokenizer_unspell(special[i], bytes, spelt) == 1)
      return base_fail(
          e, BASE_INPUT,
          "the special token %zu must be UTF-8 of 2 to %d bytes and no single character", i,
          TOKENIZER_MAX_ADDED);
    for (size_t k = 0; k < i; k++)
      if (!strcmp(special[i], special[k]))
        return base_fail(e, BASE_INPUT, "the special token \"%.64s\" is there twice", special[i]);
  }
  return 0;
}

static json_t *byte_vocab(void)
{
  json_t *vocab = json_object();
  char text[3];
  for (int byte = 0; vocab && byte < 256; byte++) {
    tokenizer_byte_spelling((uint8_t)byte, text);
    json_object_set_new(vocab, text, json_integer(byte));
  }
  return vocab;
}

static json_t *added_tokens(const char *const *special, size_t n)
{
  json_t *list = json_array();
  for (size_t i = 0; i < n; i++)
    json_array_append_new(list, json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id",
                                          (int)(256 + i), "content", special[i], "single_word", 0,
                                          "lstrip", 0, "rstrip", 0, "normalized", 0, "special", 1));
  return list;
}

static json_t *byte_level(void)
{
  return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0,
                   "trim_offsets", 0, "use_regex", 0);
}

static json_t *whole(const char *const *special, size_t n)
{
  return json_pack("{s:s, s:n, s:n, s:o, s:n, s:o, s:n, s:o, s:{s:s, s:n, s:n, s:n, s:n, s:b, s:b, "
                   "s:b, s:o, s:[]}}",
                   "version", "1.0", "truncation", "padding", "added_tokens",
                   added_tokens(special, n), "normalizer", "pre_tokenizer", byte_level(),
                   "post_processor", "decoder", byte_level(), "model", "type", "BPE", "dropout",
                   "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0,
                   "byte_fallback", 0, "ignore_merges", 0, "vocab", byte_vocab(), "merges");
}

int tokenizer_write_bytes(const char *path, const char *const *special, size_t n,
                          struct base_error *e)
{
  struct base_outfile o;
  if (check_special(special, n, e))
    return -1;
  json_t *root = whole(special, n);
  char *text = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
  json_decref(root);
  if (!text)
    return base_fail_memory(e);
  int r = base_outfile_open(&o, path, e);
  if (!r) {
    fputs(text, o.f);
    fputc('\n', o.f);
    r = base_outfile_commit(&o, e);
  }
  free(text);
  return r;
}
