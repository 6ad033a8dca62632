/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The tables of a BPE model: bytes of each id, id of each word, rank of each pair. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "backend/tokenizer_inner.h"

/* A power of two that n entries fill to two thirds at most, less one. */
static uint32_t mask_for(size_t n)
{
  uint32_t slots = 16;
  while (slots / 3 * 2 < n)
    slots *= 2;
  return slots - 1;
}

/* ---- tokens ---- */
static int make_room(struct tokenizer *t, int32_t id, struct base_error *e)
{
  const size_t need = (size_t)id + 1;
  if (need <= t->vocab)
    return 0;
  if (tokenizer_grow(&t->token, &t->token_room, need, sizeof *t->token, e))
    return -1;
  memset(t->token + t->vocab, 0, (need - t->vocab) * sizeof *t->token);
  t->vocab = (uint32_t)need;
  return 0;
}

/* Bytes of a new token into the pool; those of a word if its text is spelt in the alphabet. */
static int put_token(struct tokenizer *t, int32_t id, const char *text, size_t n, unsigned flags,
                     struct base_error *e)
{
  if (make_room(t, id, e) ||
      tokenizer_grow(&t->pool, &t->pool_room, t->pool_n + n + 1, sizeof *t->pool, e))
    return -1;
  uint8_t *at = t->pool + t->pool_n;
  long bytes = flags & TOKEN_ADDED ? -1 : tokenizer_unspell(text, n, at);
  if (bytes >= 0) {
    flags |= TOKEN_WORD;
  } else {
    memcpy(at, text, n);
    bytes = (long)n;
  }
  t->token[id] = (struct token){(uint32_t)t->pool_n, (uint32_t)bytes, flags | TOKEN_KNOWN};
  t->pool_n += (size_t)bytes;
  return 0;
}

static int bad_id(const char *name, const char *text, struct base_error *e)
{
  return base_fail_at(e, BASE_INPUT, name, 0,
                      "model.vocab: the id of \"%.64s\" is not a whole number from 0 to %d", text,
                      TOKENIZER_MAX_VOCAB - 1);
}

static int is_id(const json_t *value)
{
  return json_is_integer(value) && json_integer_value(value) >= 0 &&
         json_integer_value(value) < TOKENIZER_MAX_VOCAB;
}

static int read_tokens(struct tokenizer *t, json_t *vocab, const char *name, struct base_error *e)
{
  const char *text;
  json_t *value;
  json_object_foreach(vocab, text, value)
  {
    if (!is_id(value))
      return bad_id(name, text, e);
    const int32_t id = (int32_t)json_integer_value(value);
    if ((uint32_t)id < t->vocab && t->token[id].flags)
      return base_fail_at(e, BASE_INPUT, name, 0, "model.vocab: two tokens have the id %d", id);
    if (!*text)
      return base_fail_at(e, BASE_INPUT, name, 0, "model.vocab: the token %d is empty", id);
    if (put_token(t, id, text, strlen(text), 0, e))
      return -1;
  }
  return 0;
}

static int read_bytes(struct tokenizer *t, json_t *vocab, const char *name, struct base_error *e)
{
  char text[3];
  for (unsigned byte = 0; byte < 256; byte++) {
    tokenizer_byte_spelling((uint8_t)byte, text);
    const json_t *value = json_object_get(vocab, text);
    if (!value)
      return base_fail_at(e, BASE_INPUT, name, 0,
                          "model.vocab has no token for the byte 0x%02x (\"%s\"); only byte-level "
                          "vocabularies with all 256 bytes are supported",
                          byte, text);
    t->byte_id[byte] = (int32_t)json_integer_value(value);
  }
  return 0;
}

int vocab_add(struct tokenizer *t, json_t *vocab, int32_t id, const char *content, int special,
              const char *name, struct base_error *e)
{
  const json_t *value = json_object_get(vocab, content);
  const unsigned flags = TOKEN_ADDED | (special ? TOKEN_SPECIAL : 0);
  if (value && json_integer_value(value) != id)
    return base_fail_at(e, BASE_INPUT, name, 0,
                        "added_tokens: \"%.64s\" has the id %d, but %lld in model.vocab", content,
                        id, (long long)json_integer_value(value));
  if (!value && (uint32_t)id < t->vocab && t->token[id].flags)
    return base_fail_at(e, BASE_INPUT, name, 0,
                        "added_tokens: the id %d of \"%.64s\" is another token's too", id, content);
  if (!value)
    return put_token(t, id, content, strlen(content), flags, e);
  t->token[id].flags |= flags; /* and a word stays one */
  return 0;
}

/* ---- words by their bytes ---- */
static uint32_t word_slot(const struct tokenizer *t, const uint8_t *word, size_t n)
{
  uint32_t at = (uint32_t)XXH3_64bits(word, n) & t->word_mask;
  for (; t->word[at] >= 0; at = (at + 1) & t->word_mask) {
    const struct token *k = &t->token[t->word[at]];
    if (k->bytes == n && !memcmp(t->pool + k->at, word, n))
      break;
  }
  return at;
}

int32_t vocab_word(const struct tokenizer *t, const uint8_t *word, size_t n)
{
  return t->word[word_slot(t, word, n)];
}

int vocab_index(struct tokenizer *t, struct base_error *e)
{
  t->word_mask = mask_for(t->vocab);
  t->word = malloc(((size_t)t->word_mask + 1) * sizeof *t->word);
  if (!t->word)
    return base_fail_memory(e);
  memset(t->word, 0xff, ((size_t)t->word_mask + 1) * sizeof *t->word);
  for (uint32_t id = 0; id < t->vocab; id++) {
    const struct token *k = &t->token[id];
    if (k->flags & TOKEN_WORD)
      t->word[word_slot(t, t->pool + k->at, k->bytes)] = (int32_t)id;
  }
  return 0;
}

/* ---- merges ---- */
/* The two parts of a merge, "a b" or ["a", "b"]; *n1 bytes of the first. */
static int parts(const json_t *merge, const char **one, size_t *n1, const char **two)
{
  if (json_is_array(merge) && json_array_size(merge) == 2) {
    *one = json_string_value(json_array_get(merge, 0));
    *two = json_string_value(json_array_get(merge, 1));
    *n1 = *one ? strlen(*one) : 0;
    return *one && *two ? 0 : -1;
  }
  *one = json_string_value(merge);
  const char *blank = *one ? strchr(*one, ' ') : NULL;
  if (!blank || strchr(blank + 1, ' '))
    return -1;
  *n1 = (size_t)(blank - *one);
  *two = blank + 1;
  return 0;
}

struct merge_ids {
  int32_t left, right, both;
};

static int look_up(const json_t *vocab, const char *text, size_t rank, const char *name,
                   int32_t *id, struct base_error *e)
{
  const json_t *value = json_object_get(vocab, text);
  if (!value)
    return base_fail_at(e, BASE_INPUT, name, 0,
                        "model.merges[%zu]: \"%.64s\" is not in model.vocab", rank, text);
  *id = (int32_t)json_integer_value(value);
  return 0;
}

/* `text` has room for both parts. */
static int find_parts(const json_t *vocab, const char *one, size_t n1, const char *two, char *text,
                      size_t rank, const char *name, struct merge_ids *m, struct base_error *e)
{
  memcpy(text, one, n1);
  text[n1] = 0;
  if (look_up(vocab, text, rank, name, &m->left, e) ||
      look_up(vocab, two, rank, name, &m->right, e))
    return -1;
  strcpy(text + n1, two);
  return look_up(vocab, text, rank, name, &m->both, e);
}

/* Of two merges of one pair the last counts, as in `tokenizers`. */
static void put_merge(struct tokenizer *t, const struct merge_ids *m, uint32_t rank)
{
  const uint64_t key = (uint64_t)(uint32_t)m->left << 32 | (uint32_t)m->right;
  uint32_t at = (uint32_t)(key * 0x9e3779b97f4a7c15u >> 32) & t->merge_mask;
  while (t->merge[at].left >= 0 && (t->merge[at].left != m->left || t->merge[at].right != m->right))
    at = (at + 1) & t->merge_mask;
  t->merge[at] = (struct merge_slot){m->left, m->right, rank};
  t->merged[rank] = m->both;
}

static int read_merge(struct tokenizer *t, const json_t *vocab, const json_t *merge, size_t rank,
                      const char *name, char **text, size_t *room, struct base_error *e)
{
  const char *one, *two;
  struct merge_ids m = {0};
  size_t n1;
  if (parts(merge, &one, &n1, &two))
    return base_fail_at(e, BASE_INPUT, name, 0,
                        "model.merges[%zu] is not two tokens: write \"a b\" or [\"a\", \"b\"]",
                        rank);
  if (tokenizer_grow(text, room, n1 + strlen(two) + 1, 1, e) ||
      find_parts(vocab, one, n1, two, *text, rank, name, &m, e))
    return -1;
  put_merge(t, &m, (uint32_t)rank);
  return 0;
}

/* merges.txt begins with a line of its own, which some files have taken over. */
static int is_version(const json_t *merge)
{
  const char *text = json_string_value(merge);
  return text && !strncmp(text, "#version", 8);
}

static int make_merges(struct tokenizer *t, size_t n, struct base_error *e)
{
  t->merges = n;
  t->merge_mask = mask_for(n);
  t->merge = malloc(((size_t)t->merge_mask + 1) * sizeof *t->merge);
  t->merged = calloc(n + 1, sizeof *t->merged);
  if (!t->merge || !t->merged)
    return base_fail_memory(e);
  for (size_t i = 0; i <= t->merge_mask; i++)
    t->merge[i] = (struct merge_slot){-1, -1, 0};
  return 0;
}

static int read_merges(struct tokenizer *t, const json_t *vocab, const json_t *merges,
                       const char *name, struct base_error *e)
{
  char *text = NULL;
  size_t room = 0, rank;
  const json_t *merge;
  int result = 0;
  if (json_array_size(merges) > TOKENIZER_MAX_VOCAB * (size_t)2)
    return base_fail_at(e, BASE_INPUT, name, 0, "model.merges has more than %d merges",
                        TOKENIZER_MAX_VOCAB * 2);
  if (make_merges(t, json_array_size(merges), e))
    return -1;
  json_array_foreach(merges, rank, merge)
  {
    if (!is_version(merge) &&
        (result = read_merge(t, vocab, merge, rank, name, &text, &room, e)) != 0)
      break;
  }
  free(text);
  return result;
}

int vocab_read(struct tokenizer *t, json_t *vocab, json_t *merges, const char *name,
               struct base_error *e)
{
  return read_tokens(t, vocab, name, e) || read_bytes(t, vocab, name, e) ||
                 read_merges(t, vocab, merges, name, e)
             ? -1
             : 0;
}
