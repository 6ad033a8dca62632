/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A tokenizer.json. What is not known is refused: a key that is passed over gives other ids. */
#include <stdlib.h>
#include <string.h>

#include "backend/tokenizer_inner.h"
#include "base/outfile.h"

static const size_t max_file = (size_t)1 << 28;

struct reader {
  struct tokenizer *t;
  const char *name; /* of the file */
  struct base_error *e;
};

#define REFUSE(r, ...) base_fail_at((r)->e, BASE_INPUT, (r)->name, 0, __VA_ARGS__)

static const char *type_of(const json_t *o)
{
  const char *type = json_string_value(json_object_get(o, "type"));
  return type ? type : "";
}

static int is_type(const json_t *o, const char *type)
{
  return !strcmp(type_of(o), type);
}

/* Whether a value says nothing. */
static int is_off(const json_t *value)
{
  return !value || json_is_null(value) || json_is_false(value) ||
         (json_is_string(value) && !*json_string_value(value)) ||
         (json_is_number(value) && !(json_number_value(value) > 0 || json_number_value(value) < 0));
}

static int is_one_of(const char *key, const char *const *known)
{
  for (; *known; known++)
    if (!strcmp(key, *known))
      return 1;
  return 0;
}

/* `where` is an object of known keys only. */
static int check_keys(const struct reader *r, json_t *o, const char *where,
                      const char *const *known)
{
  const char *key;
  json_t *value;
  if (!json_is_object(o))
    return REFUSE(r, "%s is missing or not an object", where);
  json_object_foreach(o, key, value)
  {
    if (is_one_of(key, known))
      continue;
    size_t n = 0;
    while (known[n])
      n++;
    const char *near = base_nearest(key, known, n);
    return REFUSE(r, "%s: the key \"%.64s\" is not supported%s%s%s", where, key,
                  near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
  }
  return 0;
}

/* A key that is true or false; `otherwise` where it is missing, -1: it must not be. */
static int get_flag(const struct reader *r, const json_t *o, const char *where, const char *key,
                    int otherwise, int *flag)
{
  const json_t *value = json_object_get(o, key);
  *flag = value ? json_is_true(value) : otherwise;
  if (value ? json_is_boolean(value) : otherwise >= 0)
    return 0;
  return REFUSE(r, "%s.%s must be true or false", where, key);
}

static int get_array(const struct reader *r, json_t *o, const char *where, const char *key,
                     json_t **array)
{
  *array = json_object_get(o, key);
  return json_is_array(*array) ? 0 : REFUSE(r, "%s.%s is missing or not a list", where, key);
}

/* ---- normalizer ---- */
static int read_normalizer(const struct reader *r, json_t *o)
{
  static const char *const keys[] = {"type", "normalizers", NULL};
  json_t *list = NULL, *one;
  size_t i;
  if (is_off(o))
    return 0;
  if (check_keys(r, o, "normalizer", keys))
    return -1;
  if (is_type(o, "Sequence")) {
    if (get_array(r, o, "normalizer", "normalizers", &list))
      return -1;
    json_array_foreach(list, i, one)
    {
      if (!is_type(one, "NFC"))
        return REFUSE(r, "normalizer.normalizers[%zu] is \"%.64s\"; only NFC is supported", i,
                      type_of(one));
    }
    r->t->nfc = json_array_size(list) > 0;
    return 0;
  }
  r->t->nfc = is_type(o, "NFC");
  if (r->t->nfc)
    return 0;
  return REFUSE(r, "normalizer is \"%.64s\"; null, NFC and a Sequence of NFC are supported",
                type_of(o));
}

/* ---- pre_tokenizer ---- */
static int add_step(const struct reader *r, const char *where, const char *pattern, int prefix)
{
  struct tokenizer *t = r->t;
  pcre2_code *regex = NULL;
  if (t->steps == TOKENIZER_MAX_STEPS)
    return REFUSE(r, "pre_tokenizer has more than %d steps", TOKENIZER_MAX_STEPS);
  if (pattern && !(regex = tokenizer_regex(r->name, where, pattern, r->e)))
    return -1;
  t->step[t->steps++] = (struct pre_step){regex, prefix};
  return 0;
}

static int read_split(const struct reader *r, json_t *o, const char *where)
{
  static const char *const keys[] = {"type", "pattern", "behavior", "invert", NULL};
  const char *pattern = json_string_value(json_object_get(json_object_get(o, "pattern"), "Regex"));
  const char *behavior = json_string_value(json_object_get(o, "behavior"));
  int invert;
  if (check_keys(r, o, where, keys) || get_flag(r, o, where, "invert", 0, &invert))
    return -1;
  if (!pattern || json_object_size(json_object_get(o, "pattern")) != 1)
    return REFUSE(r, "%s.pattern must be {\"Regex\": \"...\"}", where);
  if (!behavior || strcmp(behavior, "Isolated"))
    return REFUSE(r, "%s.behavior is \"%.64s\"; only Isolated is supported", where,
                  behavior ? behavior : "");
  if (invert)
    return REFUSE(r, "%s.invert is true; only false is supported", where);
  return add_step(r, where, pattern, 0);
}

static int read_byte_level(const struct reader *r, json_t *o, const char *where)
{
  static const char *const keys[] = {"type", "add_prefix_space", "trim_offsets", "use_regex", NULL};
  int prefix, regex;
  if (check_keys(r, o, where, keys) || get_flag(r, o, where, "add_prefix_space", -1, &prefix) ||
      get_flag(r, o, where, "use_regex", 1, &regex))
    return -1;
  return add_step(r, where, regex ? tokenizer_gpt2_regex : NULL, prefix);
}

static int read_sequence(const struct reader *r, json_t *o)
{
  static const char *const keys[] = {"type", "pretokenizers", NULL};
  json_t *list, *one;
  char where[64];
  size_t i;
  if (check_keys(r, o, "pre_tokenizer", keys) ||
      get_array(r, o, "pre_tokenizer", "pretokenizers", &list))
    return -1;
  const size_t n = json_array_size(list);
  json_array_foreach(list, i, one)
  {
    const int last = i + 1 == n;
    snprintf(where, sizeof where, "pre_tokenizer.pretokenizers[%zu]", i);
    if (!is_type(one, last ? "ByteLevel" : "Split"))
      return REFUSE(r,
                    "%s is \"%.64s\"; a Sequence of Split with one ByteLevel at its end is "
                    "supported",
                    where, type_of(one));
    if (last ? read_byte_level(r, one, where) : read_split(r, one, where))
      return -1;
  }
  return n ? 0 : REFUSE(r, "pre_tokenizer.pretokenizers is empty; it must end in ByteLevel");
}

static int read_pre_tokenizer(const struct reader *r, json_t *o)
{
  if (is_type(o, "ByteLevel"))
    return read_byte_level(r, o, "pre_tokenizer");
  if (is_type(o, "Sequence"))
    return read_sequence(r, o);
  return REFUSE(r,
                "pre_tokenizer is \"%.64s\"; ByteLevel, and a Sequence of Split and ByteLevel, are "
                "supported",
                type_of(o));
}

/* ---- post_processor ---- */
static int put_template_ids(const struct reader *r, json_t *o, const char *token, size_t *room,
                            size_t *n)
{
  json_t *ids = json_object_get(json_object_get(json_object_get(o, "special_tokens"), token),
                                "ids");
  json_t *id;
  size_t i;
  if (!json_is_array(ids))
    return REFUSE(r, "post_processor.special_tokens has no ids for \"%.64s\"", token);
  json_array_foreach(ids, i, id)
  {
    if (!json_is_integer(id) || json_integer_value(id) < 0 ||
        json_integer_value(id) >= r->t->vocab || !r->t->token[json_integer_value(id)].flags)
      return REFUSE(r, "post_processor.special_tokens: an id of \"%.64s\" is no token's", token);
    if (tokenizer_grow(&r->t->around, room, *n + 1, sizeof *r->t->around, r->e))
      return -1;
    r->t->around[(*n)++] = (int32_t)json_integer_value(id);
  }
  return 0;
}

/* Special tokens, the text (Sequence A) once, special tokens. */
static int read_single(const struct reader *r, json_t *o, json_t *single)
{
  size_t i, room = 0, n = 0, texts = 0;
  json_t *one;
  json_array_foreach(single, i, one)
  {
    const char *text = json_string_value(json_object_get(json_object_get(one, "Sequence"), "id"));
    const char *token = json_string_value(
        json_object_get(json_object_get(one, "SpecialToken"), "id"));
    if (text && !strcmp(text, "A")) {
      texts++;
      r->t->before = n;
    } else if (!token) {
      return REFUSE(r, "post_processor.single[%zu] is neither a SpecialToken nor Sequence A", i);
    } else if (put_template_ids(r, o, token, &room, &n)) {
      return -1;
    }
  }
  r->t->after = n - r->t->before;
  return texts == 1 ? 0 : REFUSE(r, "post_processor.single must have Sequence A once");
}

static int read_template(const struct reader *r, json_t *o)
{
  static const char *const keys[] = {"type", "single", "pair", "special_tokens", NULL};
  json_t *single;
  if (check_keys(r, o, "post_processor", keys) ||
      get_array(r, o, "post_processor", "single", &single))
    return -1;
  if (r->t->around)
    return REFUSE(r, "post_processor has two TemplateProcessing; one is supported");
  return read_single(r, o, single);
}

/* ByteLevel changes offsets only, which nobody asks for. */
static int read_processor(const struct reader *r, json_t *o)
{
  if (is_off(o) || is_type(o, "ByteLevel"))
    return 0;
  if (is_type(o, "TemplateProcessing"))
    return read_template(r, o);
  return REFUSE(
      r,
      "post_processor is \"%.64s\"; null, ByteLevel, TemplateProcessing and a Sequence of "
      "these are supported",
      type_of(o));
}

static int read_post_processor(const struct reader *r, json_t *o)
{
  json_t *list, *one;
  size_t i;
  if (!is_type(o, "Sequence"))
    return read_processor(r, o);
  if (get_array(r, o, "post_processor", "processors", &list))
    return -1;
  json_array_foreach(list, i, one)
  {
    if (read_processor(r, one))
      return -1;
  }
  return 0;
}

/* ---- added_tokens ---- */
static int get_added(const struct reader *r, json_t *o, struct added *a, const char **content,
                     int *normalized)
{
  static const char *const keys[] = {"id",     "content",    "single_word", "lstrip",
                                     "rstrip", "normalized", "special",     NULL};
  const char *where = "added_tokens";
  const json_t *id = json_object_get(o, "id");
  *content = json_string_value(json_object_get(o, "content"));
  if (check_keys(r, o, where, keys) || get_flag(r, o, where, "single_word", -1, &a->single_word) ||
      get_flag(r, o, where, "lstrip", -1, &a->lstrip) ||
      get_flag(r, o, where, "rstrip", -1, &a->rstrip) ||
      get_flag(r, o, where, "normalized", -1, normalized) ||
      get_flag(r, o, where, "special", -1, &a->special))
    return -1;
  if (!*content || !**content || strlen(*content) > TOKENIZER_MAX_ADDED)
    return REFUSE(r, "added_tokens: content must be a text of 1 to %d bytes", TOKENIZER_MAX_ADDED);
  if (!json_is_integer(id) || json_integer_value(id) < 0 ||
      json_integer_value(id) >= TOKENIZER_MAX_VOCAB)
    return REFUSE(r, "added_tokens: the id of \"%.64s\" is not a whole number from 0 to %d",
                  *content, TOKENIZER_MAX_VOCAB - 1);
  a->id = (int32_t)json_integer_value(id);
  return 0;
}

static int keep_added(const struct reader *r, struct added *a, const char *content, int normalized)
{
  struct added_set *set = normalized ? &r->t->normal : &r->t->raw;
  a->bytes = strlen(content);
  if (normalized && r->t->nfc && tokenizer_nfc(content, a->bytes, &a->text, &a->bytes, r->e))
    return -1;
  if (!a->text && !(a->text = strdup(content)))
    return base_fail_memory(r->e);
  if (!added_insert(set, a, r->e))
    return 0;
  free(a->text);
  return -1;
}

static int check_twins(const struct reader *r, struct added_set *set)
{
  const long twin = added_sort(set);
  if (twin < 0)
    return 0;
  return REFUSE(r, "added_tokens: \"%.*s\" is there twice", (int)set->item[twin].bytes,
                set->item[twin].text);
}

static int read_added(const struct reader *r, json_t *list, json_t *vocab)
{
  json_t *one;
  size_t i;
  if (list && !json_is_array(list))
    return REFUSE(r, "added_tokens is not a list");
  json_array_foreach(list, i, one)
  {
    struct added a = {0};
    const char *content;
    int normalized;
    if (get_added(r, one, &a, &content, &normalized) ||
        vocab_add(r->t, vocab, a.id, content, a.special, r->name, r->e) ||
        keep_added(r, &a, content, normalized))
      return -1;
  }
  return check_twins(r, &r->t->raw) || check_twins(r, &r->t->normal) ? -1 : 0;
}

/* ---- model ---- */
static int read_model(const struct reader *r, json_t *o)
{
  static const char *const keys[] = {"type",
                                     "dropout",
                                     "unk_token",
                                     "continuing_subword_prefix",
                                     "end_of_word_suffix",
                                     "fuse_unk",
                                     "byte_fallback",
                                     "ignore_merges",
                                     "vocab",
                                     "merges",
                                     NULL};
  static const char *const off[] = {"dropout", "unk_token", "continuing_subword_prefix",
                                    "end_of_word_suffix", "byte_fallback"};
  json_t *vocab = json_object_get(o, "vocab"), *merges;
  if (json_is_object(o) && !is_type(o, "BPE"))
    return REFUSE(r, "model.type is \"%.64s\"; only BPE is supported", type_of(o));
  if (check_keys(r, o, "model", keys) || get_array(r, o, "model", "merges", &merges) ||
      get_flag(r, o, "model", "ignore_merges", 0, &r->t->ignore_merges))
    return -1;
  for (size_t i = 0; i < sizeof off / sizeof *off; i++)
    if (!is_off(json_object_get(o, off[i])))
      return REFUSE(r, "model.%s is set; only byte-level BPE without it is supported", off[i]);
  if (!json_is_object(vocab))
    return REFUSE(r, "model.vocab is missing or not an object");
  return vocab_read(r->t, vocab, merges, r->name, r->e);
}

static int read_all(const struct reader *r, json_t *root)
{
  static const char *const keys[] = {
      "version",       "truncation",     "padding", "added_tokens", "normalizer",
      "pre_tokenizer", "post_processor", "decoder", "model",        NULL};
  json_t *model = json_object_get(root, "model"), *decoder = json_object_get(root, "decoder");
  if (check_keys(r, root, "the file", keys))
    return -1;
  if (!is_off(json_object_get(root, "truncation")) || !is_off(json_object_get(root, "padding")))
    return REFUSE(r, "truncation and padding are not supported: set them to null");
  if (!is_type(decoder, "ByteLevel"))
    return REFUSE(r, "decoder is \"%.64s\"; only ByteLevel is supported", type_of(decoder));
  if (read_normalizer(r, json_object_get(root, "normalizer")) ||
      read_pre_tokenizer(r, json_object_get(root, "pre_tokenizer")) || read_model(r, model) ||
      read_added(r, json_object_get(root, "added_tokens"), json_object_get(model, "vocab")) ||
      read_post_processor(r, json_object_get(root, "post_processor")))
    return -1;
  return vocab_index(r->t, r->e) || bpe_find_whole(r->t, r->e) ? -1 : 0;
}

struct tokenizer *tokenizer_parse(const char *text, size_t size, const char *name,
                                  struct base_error *e)
{
  json_error_t error;
  json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
  if (!root) {
    base_fail_at(e, BASE_INPUT, name, error.line > 0 ? (unsigned)error.line : 0, "not JSON: %s",
                 error.text);
    return NULL;
  }
  struct tokenizer *t = calloc(1, sizeof *t);
  const struct reader r = {t, name, e};
  if (!t)
    base_fail_memory(e);
  else if (read_all(&r, root)) {
    tokenizer_free(t);
    t = NULL;
  }
  json_decref(root);
  return t;
}

struct tokenizer *tokenizer_open(const char *path, struct base_error *e)
{
  size_t size;
  char *text = base_read_file(path, max_file, &size, e);
  struct tokenizer *t = text ? tokenizer_parse(text, size, path, e) : NULL;
  free(text);
  return t;
}
