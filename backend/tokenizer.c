/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Text to ids: the steps of the header's text, each handing its pieces to the next. */
#include "backend/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "backend/tokenizer_inner.h"

int tokenizer_grow(void *array, size_t *room, size_t need, size_t size, struct base_error *e)
{
  void *old;
  if (need <= *room)
    return 0;
  memcpy(&old, array, sizeof old);
  const size_t more = need > 2 * *room ? need : 2 * *room;
  void *new = more <= SIZE_MAX / size ? realloc(old, more * size) : NULL;
  if (!new)
    return base_fail_memory(e);
  memcpy(array, &new, sizeof new);
  *room = more;
  return 0;
}

int tokenizer_put(struct tokenizer_ids *out, int32_t id, struct base_error *e)
{
  if (tokenizer_grow(&out->id, &out->room, out->n + 1, sizeof *out->id, e))
    return -1;
  out->id[out->n++] = id;
  return 0;
}

/* What one call of tokenizer_encode works with. */
struct encoding {
  const struct tokenizer *t;
  unsigned flags;
  struct tokenizer_ids *out;
  struct base_error *e;
  struct bpe bpe;
  pcre2_match_data *match;
  pcre2_match_context *limits;
};

static int run_step(struct encoding *x, unsigned step, const char *text, size_t n);

/* An endless search is cut off: a regex that backtracks may take a time that grows with its text,
 * but not with the square of it, on each word. */
static int limit_search(struct encoding *x, size_t bytes)
{
  x->match = pcre2_match_data_create(1, NULL);
  x->limits = pcre2_match_context_create(NULL);
  if (!x->match || !x->limits)
    return base_fail_memory(x->e);
  const size_t steps = 10000 + 64 * bytes;
  pcre2_set_match_limit(x->limits, (uint32_t)(steps < UINT32_MAX ? steps : UINT32_MAX));
  pcre2_set_heap_limit(x->limits, 1 << 18); /* KiB */
  return 0;
}

/* The next match at or behind `at`: 1, 0 for none, -1. */
static int search(struct encoding *x, const pcre2_code *regex, const char *text, size_t n,
                  size_t at)
{
  PCRE2_SPTR subject = (PCRE2_SPTR)text;
  int r = pcre2_match(regex, subject, n, at, PCRE2_NO_UTF_CHECK, x->match, x->limits);
  if (r == PCRE2_ERROR_JIT_STACKLIMIT)
    r = pcre2_match(regex, subject, n, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, x->match, x->limits);
  if (r >= 0)
    return 1;
  if (r == PCRE2_ERROR_NOMATCH)
    return 0;
  if (r == PCRE2_ERROR_NOMEMORY)
    return base_fail_memory(x->e);
  return base_fail(x->e, BASE_INPUT,
                   "the pre_tokenizer's regex takes too long on the text, %zu bytes into a piece "
                   "of %zu",
                   at, n);
}

static size_t next_character(const char *text, size_t n, size_t at)
{
  for (at++; at < n && ((uint8_t)text[at] & 0xc0) == 0x80;)
    at++;
  return at;
}

/* Matches, and what stands between them, are pieces of their own. */
static int cut(struct encoding *x, unsigned step, const char *text, size_t n)
{
  const pcre2_code *regex = x->t->step[step].regex;
  const PCRE2_SIZE *found = pcre2_get_ovector_pointer(x->match);
  size_t done = 0;
  for (size_t at = 0; at < n;) {
    const int r = search(x, regex, text, n, at);
    if (r < 0)
      return -1;
    if (!r)
      break;
    const size_t start = found[0], stop = found[1];
    if (run_step(x, step + 1, text + done, start - done) ||
        run_step(x, step + 1, text + start, stop - start))
      return -1;
    done = stop;
    at = stop > start ? stop : next_character(text, n, stop);
  }
  return run_step(x, step + 1, text + done, n - done);
}

/* A space in front, then the step's cut. */
static int prefix(struct encoding *x, unsigned step, const char *text, size_t n)
{
  char *spaced = malloc(n + 1);
  if (!spaced)
    return base_fail_memory(x->e);
  spaced[0] = ' ';
  memcpy(spaced + 1, text, n);
  const int r = run_step(x, step, spaced, n + 1);
  free(spaced);
  return r;
}

static int run_step(struct encoding *x, unsigned step, const char *text, size_t n)
{
  if (!n)
    return 0;
  if (step == x->t->steps)
    return bpe_word(x->t, &x->bpe, (const uint8_t *)text, n, x->out, x->e);
  if (x->t->step[step].prefix_space && text[0] != ' ')
    return prefix(x, step, text, n);
  if (x->t->step[step].regex)
    return cut(x, step, text, n);
  return run_step(x, step + 1, text, n);
}

static int encode_words(struct encoding *x, const char *text, size_t n)
{
  return run_step(x, 0, text, n);
}

/* Added tokens of the set, and what stands between them through `rest`. */
static int cut_added(struct encoding *x, const struct added_set *set, const char *text, size_t n,
                     int (*rest)(struct encoding *x, const char *text, size_t n))
{
  size_t at = 0, taken = 0, start, stop;
  const struct added *a;
  while ((a = added_next(set, text, n, x->flags, taken, &at, &start, &stop)) != NULL) {
    if ((start > taken && rest(x, text + taken, start - taken)) ||
        tokenizer_put(x->out, a->id, x->e))
      return -1;
    taken = stop;
  }
  return taken < n ? rest(x, text + taken, n - taken) : 0;
}

static int encode_normalised(struct encoding *x, const char *text, size_t n)
{
  return cut_added(x, &x->t->normal, text, n, encode_words);
}

static int encode_raw(struct encoding *x, const char *text, size_t n)
{
  char *owned = NULL;
  if (x->t->nfc && tokenizer_nfc(text, n, &owned, &n, x->e))
    return -1;
  const int r = encode_normalised(x, owned ? owned : text, n);
  free(owned);
  return r;
}

static int put_around(struct encoding *x, size_t from, size_t n)
{
  for (size_t i = 0; x->flags & TOKENIZER_ADD_SPECIAL && i < n; i++)
    if (tokenizer_put(x->out, x->t->around[from + i], x->e))
      return -1;
  return 0;
}

static int check_text(const char *text, size_t bytes, struct base_error *e)
{
  if (bytes > TOKENIZER_MAX_BYTES)
    return base_fail(e, BASE_INPUT, "the text has %zu bytes; at most %d are taken", bytes,
                     TOKENIZER_MAX_BYTES);
  const size_t good = tokenizer_utf8_good((const uint8_t *)text, bytes);
  if (good == bytes)
    return 0;
  return base_fail(e, BASE_INPUT, "the text is not UTF-8 at byte %zu (0x%02x)", good,
                   (unsigned)(uint8_t)text[good]);
}

int tokenizer_encode(const struct tokenizer *t, const char *text, size_t bytes, unsigned flags,
                     struct tokenizer_ids *out, struct base_error *e)
{
  struct encoding x = {.t = t, .flags = flags, .out = out, .e = e};
  const size_t n = out->n;
  int r = check_text(text, bytes, e) || limit_search(&x, bytes) || put_around(&x, 0, t->before) ||
          cut_added(&x, &t->raw, text, bytes, encode_raw) || put_around(&x, t->before, t->after);
  bpe_free(&x.bpe);
  pcre2_match_context_free(x.limits);
  pcre2_match_data_free(x.match);
  if (r)
    out->n = n;
  return r ? -1 : 0;
}

uint32_t tokenizer_vocab(const struct tokenizer *t)
{
  return t->vocab;
}

int tokenizer_fits(const struct tokenizer *t, uint32_t model_vocab, struct base_error *e)
{
  if (t->vocab <= model_vocab)
    return 0;
  return base_fail(e, BASE_INPUT,
                   "the tokenizer has ids up to %u, but the model's vocab_size is %u: they do not "
                   "belong together",
                   t->vocab - 1, model_vocab);
}

static const struct added *find_added(const struct added_set *set, const char *content, size_t n)
{
  for (size_t i = 0; i < set->n; i++)
    if (set->item[i].bytes == n && !memcmp(set->item[i].text, content, n))
      return &set->item[i];
  return NULL;
}

int32_t tokenizer_id(const struct tokenizer *t, const char *content)
{
  const size_t n = strlen(content);
  const struct added *a = find_added(&t->raw, content, n);
  if (!a)
    a = find_added(&t->normal, content, n);
  return a ? a->id : vocab_word(t, (const uint8_t *)content, n);
}

const char *tokenizer_bytes(const struct tokenizer *t, int32_t id, size_t *bytes)
{
  if (id < 0 || (uint32_t)id >= t->vocab || !t->token[id].flags)
    return NULL;
  *bytes = t->token[id].bytes;
  return (const char *)t->pool + t->token[id].at;
}

int tokenizer_is_special(const struct tokenizer *t, int32_t id)
{
  return id >= 0 && (uint32_t)id < t->vocab && t->token[id].flags & TOKEN_SPECIAL;
}

void tokenizer_free(struct tokenizer *t)
{
  if (!t)
    return;
  for (unsigned i = 0; i < t->steps; i++)
    pcre2_code_free(t->step[i].regex);
  added_free(&t->raw);
  added_free(&t->normal);
  free(t->token);
  free(t->pool);
  free(t->word);
  free(t->merge);
  free(t->merged);
  free(t->around);
  free(t);
}
