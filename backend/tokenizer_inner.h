/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the files of the tokenizer share: its tables, and the steps of encoding. */
#ifndef BACKEND_TOKENIZER_INNER_H
#define BACKEND_TOKENIZER_INNER_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <jansson.h>
#include <pcre2.h>

#include "backend/tokenizer.h"

enum {
  TOKENIZER_MAX_VOCAB = 1 << 20, /* ids are below it */
  TOKENIZER_MAX_ADDED = 1024,    /* bytes of an added token's content */
  TOKENIZER_MAX_STEPS = 16       /* of a pre_tokenizer */
};

enum { TOKEN_KNOWN = 1, TOKEN_ADDED = 2, TOKEN_SPECIAL = 4, TOKEN_WORD = 8, TOKEN_WHOLE = 16 };

/* A token of the vocabulary: bytes of the pool. TOKEN_WORD: spelt in the alphabet of bytes, so that
 * text can become it. TOKEN_WHOLE: the text of its bytes does, being a word: its merges lead to it,
 * or are ignored. */
struct token {
  uint32_t at, bytes;
  uint32_t flags;
};

/* Added tokens, sorted by their text. */
struct added {
  char *text; /* owned; normalised where that is asked */
  size_t bytes;
  int32_t id;
  int special, lstrip, rstrip, single_word;
};
struct added_set {
  struct added *item;
  size_t n, room;
  uint8_t starts[256]; /* whether one starts with the byte */
};

/* One step of the pre_tokenizer: first a space in front of what has none, then a cut. */
struct pre_step {
  pcre2_code *regex; /* NULL: no cut */
  int prefix_space;
};

/* A slot of the table of merges: rank of a pair; TOKEN_NONE in `left`: empty. */
struct merge_slot {
  int32_t left, right;
  uint32_t rank;
};

struct tokenizer {
  struct token *token; /* [vocab] */
  size_t token_room;
  uint32_t vocab;
  uint8_t *pool; /* bytes of all tokens */
  size_t pool_n, pool_room;
  int32_t *word; /* [word_mask + 1], by the hash of a token's bytes: ids of words, -1: empty */
  uint32_t word_mask;
  struct merge_slot *merge; /* [merge_mask + 1], by the hash of the pair */
  uint32_t merge_mask;
  int32_t *merged; /* [merges]: what the pair of a rank becomes */
  size_t merges;
  int32_t byte_id[256];
  int ignore_merges, nfc;
  struct added_set raw, normal; /* matched before and after normalisation */
  struct pre_step step[TOKENIZER_MAX_STEPS];
  unsigned steps;
  int32_t *around; /* what the post_processor puts before and after the text */
  size_t before, after;
};

/* Room for `need` elements of `size` bytes in *array, whose room is *room; at least doubled. */
int tokenizer_grow(void *array, size_t *room, size_t need, size_t size, struct base_error *e);
int tokenizer_put(struct tokenizer_ids *out, int32_t id, struct base_error *e);

/* ---- tokenizer_utf8.c ---- */
/* The character at p (n >= 1 bytes): 1 it is one of *length bytes; 0 the n bytes are the beginning
 * of one; -1 they are neither, and *length is the longest part that could begin one, or 1. */
int tokenizer_utf8(const uint8_t *p, size_t n, unsigned *length);
/* Number of bytes before the first that is not UTF-8; n: all are. */
size_t tokenizer_utf8_good(const uint8_t *p, size_t n);
/* Unicode's White_Space, and \w as Rust's regexes have it, of a code point. */
int tokenizer_is_space(int32_t c);
int tokenizer_is_word(int32_t c);
/* The character of the alphabet that stands for a byte, as UTF-8 with a NUL behind. */
void tokenizer_byte_spelling(uint8_t byte, char text[3]);
/* Bytes of a token spelt in the alphabet, into out (as large as the text). -1: it has other
 * characters. */
long tokenizer_unspell(const char *text, size_t n, uint8_t *out);

/* ---- tokenizer_nfc.c ---- */
/* NFC of valid UTF-8. *out is NULL if the text is NFC already, as far as can be seen quickly; else
 * it is owned by the caller. Time is linear. */
int tokenizer_nfc(const char *text, size_t n, char **out, size_t *out_n, struct base_error *e);

/* ---- tokenizer_regex.c ---- */
extern const char tokenizer_gpt2_regex[];
/* NULL: refused; the message goes behind "KEY: ". */
pcre2_code *tokenizer_regex(const char *name, const char *key, const char *pattern,
                            struct base_error *e);

/* ---- tokenizer_bpe.c ---- */
struct bpe_symbol {
  int32_t id; /* -1: merged into the one on its left */
  uint32_t prev, next;
};
struct bpe {
  struct bpe_symbol *symbol;
  uint64_t *heap; /* rank << 32 | position: the least on top */
  size_t n, symbol_room, heap_room;
  uint64_t work; /* heap levels walked so far: what the time is made of */
};
void bpe_free(struct bpe *b);
/* Appends the ids of a word of 1 .. TOKENIZER_MAX_BYTES * 4 bytes. O(n log n). */
int bpe_word(const struct tokenizer *t, struct bpe *b, const uint8_t *word, size_t n,
             struct tokenizer_ids *out, struct base_error *e);
/* Marks the tokens that are TOKEN_WHOLE, so that their words need no merging. */
int bpe_find_whole(struct tokenizer *t, struct base_error *e);
/* Rank of a pair, -1: none. */
int64_t bpe_rank(const struct tokenizer *t, int32_t left, int32_t right);

/* ---- tokenizer_vocab.c ---- */
/* The word of these bytes, -1: none. */
int32_t vocab_word(const struct tokenizer *t, const uint8_t *word, size_t n);
int vocab_read(struct tokenizer *t, json_t *vocab, json_t *merges, const char *name,
               struct base_error *e);
/* An added token, which may be in the vocabulary under the same id. */
int vocab_add(struct tokenizer *t, json_t *vocab, int32_t id, const char *content, int special,
              const char *name, struct base_error *e);
/* The table of words, once all tokens are there. */
int vocab_index(struct tokenizer *t, struct base_error *e);

/* ---- tokenizer_added.c ---- */
int added_insert(struct added_set *set, const struct added *a, struct base_error *e);
/* Once all are there. Index of the second of two with one text, else -1. */
long added_sort(struct added_set *set);
void added_free(struct added_set *set);
/* The next token in text[*at..n): its place in the set, or NULL. *start, *stop: what it takes of
 * the text; *at: where to look next. `taken`: where the last one stopped. */
const struct added *added_next(const struct added_set *set, const char *text, size_t n,
                               unsigned flags, size_t taken, size_t *at, size_t *start,
                               size_t *stop);

#endif
