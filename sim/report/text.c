/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/report/text.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "sim/report/report.h"

struct text_cell text_number(double value, int decimals)
{
  struct text_cell c = {"-"};

  if (!isnan(value))
    snprintf(c.s, sizeof c.s, "%.*f", decimals, value);
  return c;
}

struct text_cell text_change(double change)
{
  struct text_cell c = {"-"};

  if (!isnan(change) && !isinf(change))
    snprintf(c.s, sizeof c.s, fabs(change) < 1 ? "%+.1f%%" : "%+.0f%%", 100 * change);
  if (!strcmp(c.s, "-0.0%"))
    c.s[0] = '+';
  return c;
}

struct text_cell text_error(double error)
{
  struct text_cell c = text_change(error);

  if (error < 0 && c.s[0] == '+')
    c.s[0] = '-';
  return c;
}

struct text_cell text_difference(double ours, double reference)
{
  struct text_cell c = {"-"};

  if (isnan(ours) || isnan(reference))
    return c;
  if (reference != 0)
    return text_change(ours / reference - 1);
  snprintf(c.s, sizeof c.s, ours == 0 ? "0" : "%+.4g", ours);
  return c;
}

struct text_cell text_seconds(lull_time ps)
{
  struct text_cell c;
  size_t n;

  snprintf(c.s, sizeof c.s, "%.6f", (double)ps / 1e12);
  for (n = strlen(c.s); c.s[n - 1] == '0'; n--)
    c.s[n - 1] = '\0';
  if (c.s[n - 1] == '.')
    c.s[n - 1] = '\0';
  return c;
}

void text_add(struct text_line *l, const char *format, ...)
{
  size_t room = sizeof l->s - l->n;
  va_list ap;
  int n;

  va_start(ap, format);
  n = vsnprintf(l->s + l->n, room, format, ap);
  va_end(ap);
  if (n > 0)
    l->n += (size_t)n < room ? (size_t)n : room - 1;
}

void text_end(struct text_line *l, FILE *out)
{
  while (l->n && l->s[l->n - 1] == ' ')
    l->n--;
  fprintf(out, "%.*s\n", (int)l->n, l->s);
  l->n = 0;
}

/* Length of the word at s. */
static int word(const char *s)
{
  return (int)strcspn(s, " \t\r\n");
}

void text_wrap(FILE *out, const char *lead, int indent, const char *text)
{
  int column = fprintf(out, "%-*s", indent, lead ? lead : "");
  int first = 1;

  if (!text)
    text = "";
  for (text += strspn(text, " \t\r\n"); *text; text += strspn(text, " \t\r\n")) {
    int n = word(text);

    if (!first && column + 1 + n > REPORT_WIDTH) {
      column = fprintf(out, "\n%*s", indent, "") - 1;
      first = 1;
    }
    column += fprintf(out, "%s%.*s", first ? "" : " ", n, text);
    first = 0;
    text += n;
  }
  fputc('\n', out);
}

int text_done(FILE *out, struct base_error *e)
{
  if (fflush(out) || ferror(out))
    return base_fail_errno(e, "the report could not be written");
  return 0;
}
