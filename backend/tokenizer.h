/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Text to token ids and back, as a checkpoint's tokenizer.json says: the byte-level BPE of the
 * Qwen2, Qwen3 and Llama-3 families, with the ids that Hugging Face's `tokenizers` gives.
 *
 *   struct tokenizer *t = tokenizer_open("model/tokenizer.json", &e);
 *   struct tokenizer_ids ids = {0};
 *   tokenizer_encode(t, text, strlen(text), TOKENIZER_ADD_SPECIAL, &ids, &e);
 *   struct tokenizer_stream s = {0};
 *   struct tokenizer_text out = {0};
 *   tokenizer_stream_push(t, &s, id, 0, &out, &e);     as each id is generated: whole characters
 *   tokenizer_stream_end(&s, &out, &e);
 *
 * The way of a text: added tokens that are not to be normalised are cut out; the rest is normalised
 * (NFC, or not at all); added tokens that are to be normalised are cut out; a regex cuts the rest
 * into words; in each word the pair of neighbours that was learnt first is merged, the leftmost of
 * equal ones, until none is left.
 *
 * What a file may hold: normalizer null, NFC or a Sequence of NFC; pre_tokenizer ByteLevel, or a
 * Sequence of Split (Regex, Isolated, not inverted) with ByteLevel at its end; model BPE whose
 * vocabulary has all 256 bytes, without byte_fallback, unk_token, dropout, prefix or suffix;
 * decoder ByteLevel; post_processor null, ByteLevel, TemplateProcessing or a Sequence of these.
 * Anything else is refused by its name. Regexes are PCRE2's; what PCRE2 and the regexes of
 * `tokenizers` understand differently is refused, and \s is the Unicode property White_Space.
 * Letters, digits and compositions are those of the installed PCRE2's and utf8proc's Unicode
 * versions. `tokenizers` 0.23 takes its NFC from Unicode 9: some hundred combining marks that are
 * younger it leaves where they stand among others; here they are sorted as Unicode wants it.
 *
 * A tokenizer does not change once it is open: any number of threads may use one.
 */
#ifndef BACKEND_TOKENIZER_H
#define BACKEND_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct tokenizer;

/* What encode and decode append to. Zero it before use; free() what it points to. */
struct tokenizer_ids {
  int32_t *id; /* owned */
  size_t n, room;
};
struct tokenizer_text {
  char *byte; /* owned; a NUL stands behind the last byte, if there is any */
  size_t n, room;
};

/* Reads a file. NULL on failure: BASE_INPUT, with the key that is wrong or not supported. */
struct tokenizer *tokenizer_open(const char *path, struct base_error *e);
/* The same of `size` bytes of text; `name` for messages. */
struct tokenizer *tokenizer_parse(const char *text, size_t size, const char *name,
                                  struct base_error *e);
void tokenizer_free(struct tokenizer *t);

enum {
  TOKENIZER_ADD_SPECIAL = 1,    /* encode: what the post_processor adds, such as Llama's bos */
  TOKENIZER_NO_SPECIAL = 2,     /* encode: special tokens in the text are text like any other */
  TOKENIZER_SKIP_SPECIAL = 4,   /* decode: special tokens are left out */
  TOKENIZER_MAX_BYTES = 1 << 28 /* longest text */
};

/* Appends the ids of a text. BASE_INPUT: not UTF-8 (the offset of the first bad byte is told), too
 * long, or one that the regex cannot be through with in reasonable time. On failure `out` holds
 * what it held before. */
int tokenizer_encode(const struct tokenizer *t, const char *text, size_t bytes, unsigned flags,
                     struct tokenizer_ids *out, struct base_error *e);

/* Appends the text of n ids. Ids that stand for nothing give nothing (a model's vocabulary may be
 * larger than the tokenizer's). Bytes that are not UTF-8 become U+FFFD, one for each longest
 * beginning of a character: the text is always UTF-8. Added tokens give their content. Fails only
 * for want of memory. */
int tokenizer_decode(const struct tokenizer *t, const int32_t *id, size_t n, unsigned flags,
                     struct tokenizer_text *out, struct base_error *e);

/* Decoding id by id: the same text as tokenizer_decode's, in pieces that are whole characters. Zero
 * it before use; it owns nothing. */
struct tokenizer_stream {
  uint8_t held[4]; /* the beginning of a character */
  unsigned n;
};
int tokenizer_stream_push(const struct tokenizer *t, struct tokenizer_stream *s, int32_t id,
                          unsigned flags, struct tokenizer_text *out, struct base_error *e);
/* No more ids come: what is held becomes U+FFFD. The stream is as new. */
int tokenizer_stream_end(struct tokenizer_stream *s, struct tokenizer_text *out,
                         struct base_error *e);

/* The largest id + 1. */
uint32_t tokenizer_vocab(const struct tokenizer *t);
/* BASE_INPUT, with both numbers, if an id is not below a model's vocabulary. */
int tokenizer_fits(const struct tokenizer *t, uint32_t model_vocab, struct base_error *e);
/* The id of an added token by its content ("<|im_end|>"), else of the token of these bytes;
 * -1: none. */
int32_t tokenizer_id(const struct tokenizer *t, const char *content);
/* The bytes of a token, which need not be UTF-8; NULL: no such token. Borrowed. */
const char *tokenizer_bytes(const struct tokenizer *t, int32_t id, size_t *bytes);
int tokenizer_is_special(const struct tokenizer *t, int32_t id);

/* Writes a tokenizer.json whose ids 0..255 are the bytes and 256.. the n special tokens: what a
 * model needs that was trained by this program on bytes. BASE_INPUT: a special token that is empty,
 * not UTF-8, a single byte or there twice. */
int tokenizer_write_bytes(const char *path, const char *const *special, size_t n,
                          struct base_error *e);

#endif
