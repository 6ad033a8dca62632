/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Ids to text: the bytes of the tokens, made UTF-8 one byte after the other. */
#include <stdlib.h>
#include <string.h>

#include "backend/tokenizer_inner.h"

static int put_text(struct tokenizer_text *out, const void *text, size_t n, struct base_error *e)
{
  if (tokenizer_grow(&out->byte, &out->room, out->n + n + 1, 1, e))
    return -1;
  memcpy(out->byte + out->n, text, n);
  out->n += n;
  out->byte[out->n] = 0;
  return 0;
}

static int put_replacement(struct tokenizer_text *out, struct base_error *e)
{
  return put_text(out, "\xef\xbf\xbd", 3, e);
}

/* Once more with what is held: it was the beginning of a character before its last byte came. */
static int settle(struct tokenizer_stream *s, struct tokenizer_text *out, struct base_error *e)
{
  unsigned length;
  while (s->n) {
    const int kind = tokenizer_utf8(s->held, s->n, &length);
    if (!kind)
      return 0;
    if (kind > 0 ? put_text(out, s->held, length, e) : put_replacement(out, e))
      return -1;
    s->n -= length;
    memmove(s->held, s->held + length, s->n);
  }
  return 0;
}

int tokenizer_stream_push(const struct tokenizer *t, struct tokenizer_stream *s, int32_t id,
                          unsigned flags, struct tokenizer_text *out, struct base_error *e)
{
  size_t n = 0;
  const char *byte = tokenizer_bytes(t, id, &n);
  if (flags & TOKENIZER_SKIP_SPECIAL && tokenizer_is_special(t, id))
    n = 0;
  for (size_t i = 0; i < n; i++) {
    s->held[s->n++] = (uint8_t)byte[i];
    if (settle(s, out, e))
      return -1;
  }
  return 0;
}

int tokenizer_stream_end(struct tokenizer_stream *s, struct tokenizer_text *out,
                         struct base_error *e)
{
  const unsigned held = s->n;
  s->n = 0;
  return held ? put_replacement(out, e) : 0;
}

int tokenizer_decode(const struct tokenizer *t, const int32_t *id, size_t n, unsigned flags,
                     struct tokenizer_text *out, struct base_error *e)
{
  struct tokenizer_stream s = {0};
  for (size_t i = 0; i < n; i++)
    if (tokenizer_stream_push(t, &s, id[i], flags, out, e))
      return -1;
  return tokenizer_stream_end(&s, out, e);
}
