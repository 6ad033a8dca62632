/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The regexes of a pre_tokenizer, which `tokenizers` gives to Oniguruma (Ruby's syntax), for PCRE2.
 * What both understand alike is passed on, \s and \u are spelt out, the rest is refused: a text
 * that is cut differently gives other ids without a word.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "backend/tokenizer_inner.h"

const char tokenizer_gpt2_regex[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/* White_Space and the rest. PCRE2's own \s has U+180E too. */
static const char space[] = "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}"
                            "\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
static const char no_space[] =
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}"
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}"
    "\\x{3001}-\\x{10ffff}";

enum { LONGEST = 4096, EXPANSION = 256 }; /* bytes of a pattern; of what a byte becomes */

struct pattern {
  const char *in;  /* at what is next */
  char *out;       /* where it goes */
  const char *set; /* the start of the set's text in the output, NULL: not in a set */
  char why[96];    /* it is refused */
};

static int refuse(struct pattern *p, const char *what)
{
  snprintf(p->why, sizeof p->why, "%s", what);
  return -1;
}

static void put(struct pattern *p, const char *text, size_t n)
{
  memcpy(p->out, text, n);
  p->out += n;
}

static void copy(struct pattern *p, size_t n)
{
  put(p, p->in, n);
  p->in += n;
}

/* \s or \S */
static int put_space(struct pattern *p, const char *ranges)
{
  p->in += 2;
  if (p->set) {
    if ((p->out > p->set && p->out[-1] == '-') || (p->in[0] == '-' && p->in[1] != ']'))
      return refuse(p, "- beside \\s in a set");
    put(p, ranges, strlen(ranges));
    return 0;
  }
  put(p, "[", 1);
  put(p, ranges, strlen(ranges));
  put(p, "]", 1);
  return 0;
}

/* \p{..}, \P{..}, \x{..} */
static int put_braced(struct pattern *p)
{
  const char *end = p->in[2] == '{' ? strchr(p->in, '}') : NULL;
  if (!end)
    return refuse(p, "an escape \\p, \\P or \\x without {}");
  copy(p, (size_t)(end + 1 - p->in));
  return 0;
}

static int put_unicode(struct pattern *p)
{
  for (unsigned i = 2; i < 6; i++)
    if (!isxdigit((unsigned char)p->in[i]))
      return refuse(p, "\\u without four hexadecimal digits");
  put(p, "\\x{", 3);
  put(p, p->in + 2, 4);
  put(p, "}", 1);
  p->in += 6;
  return 0;
}

static int put_escape(struct pattern *p)
{
  const char c = p->in[1];
  if (c == 's' || c == 'S')
    return put_space(p, c == 's' ? space : no_space);
  if (c == 'p' || c == 'P' || c == 'x')
    return put_braced(p);
  if (c == 'u')
    return put_unicode(p);
  if (!c || (!strchr("rntfdD", c) && !ispunct((unsigned char)c))) {
    snprintf(p->why, sizeof p->why, "the escape \\%c", c && isprint((unsigned char)c) ? c : '?');
    return -1;
  }
  copy(p, 2);
  return 0;
}

static int put_group(struct pattern *p)
{
  static const char *const kinds[] = {
      "(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!", "(?i:", "(?i)", "(?-i:"};
  if (p->in[1] == '*')
    return refuse(p, "a group that starts with (*");
  for (size_t i = 0; p->in[1] == '?' && i < sizeof kinds / sizeof *kinds; i++)
    if (!strncmp(p->in, kinds[i], strlen(kinds[i]))) {
      copy(p, strlen(kinds[i]));
      return 0;
    }
  if (p->in[1] == '?')
    return refuse(p,
                  "a group that starts otherwise than (?: (?= (?! (?> (?<= (?<! (?i: (?-i: (?i)");
  copy(p, 1);
  return 0;
}

static int put_set_start(struct pattern *p)
{
  copy(p, p->in[1] == '^' ? 2 : 1);
  p->set = p->out;
  return *p->in == ']' ? refuse(p, "] as the first of a set") : 0;
}

static int put_in_set(struct pattern *p)
{
  if (*p->in == '[')
    return refuse(p, "a set in a set");
  if (p->in[0] == '&' && p->in[1] == '&')
    return refuse(p, "&& in a set");
  if (*p->in == ']')
    p->set = NULL;
  copy(p, 1);
  return 0;
}

static int put_next(struct pattern *p)
{
  const char c = p->in[0], next = p->in[1];
  if (c == '\\')
    return put_escape(p);
  if (p->set)
    return put_in_set(p);
  if (c == '[')
    return put_set_start(p);
  if (c == '(')
    return put_group(p);
  if (c == '{' && next == ',')
    return refuse(p, "a count without its lower bound");
  if (c == '}' && (next == '+' || next == '?'))
    return refuse(p, "+ or ? behind a count");
  copy(p, 1);
  return 0;
}

static pcre2_code *compile(const char *pattern, size_t n, char *why, size_t size,
                           struct base_error *e)
{
  pcre2_compile_context *c = pcre2_compile_context_create(NULL);
  PCRE2_SIZE offset;
  int error;
  if (!c) {
    base_fail_memory(e);
    return NULL;
  }
  pcre2_set_newline(c, PCRE2_NEWLINE_LF);
  pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern, n,
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NO_AUTO_CAPTURE |
                                       PCRE2_NEVER_BACKSLASH_C,
                                   &error, &offset, c);
  pcre2_compile_context_free(c);
  if (!code)
    pcre2_get_error_message(error, (PCRE2_UCHAR *)why, size);
  else
    (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE); /* without it, it is only slower */
  return code;
}

pcre2_code *tokenizer_regex(const char *name, const char *key, const char *pattern,
                            struct base_error *e)
{
  struct pattern p = {.in = pattern};
  char why[128] = "";
  pcre2_code *code = NULL;
  const size_t n = strlen(pattern);
  if (n > LONGEST) {
    base_fail_at(e, BASE_INPUT, name, 0, "%s: the regex has %zu bytes; at most %d are taken", key,
                 n, LONGEST);
    return NULL;
  }
  char *text = malloc(n * EXPANSION + 1);
  if (!text) {
    base_fail_memory(e);
    return NULL;
  }
  p.out = text;
  while (*p.in && !p.why[0])
    (void)put_next(&p);
  if (p.why[0])
    base_fail_at(e, BASE_INPUT, name, 0, "%s: the regex has %s, which is not supported", key,
                 p.why);
  else if (!(code = compile(text, (size_t)(p.out - text), why, sizeof why, e)))
    base_fail_at(e, BASE_INPUT, name, 0, "%s: the regex does not compile: %s", key, why);
  free(text);
  return code;
}
