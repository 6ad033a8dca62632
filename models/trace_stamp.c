/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "models/trace_reader.h"

/* Reads exactly `digits` decimal digits; -1 if there are fewer. */
static int fixed_digits(const char **p, int digits)
{
  int value = 0;
  for (int i = 0; i < digits; i++, (*p)++) {
    if (**p < '0' || **p > '9')
      return -1;
    value = value * 10 + (**p - '0');
  }
  return value;
}

static int days_in_month(int year, int month)
{
  static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  int leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  return days[month - 1] + (month == 2 && leap);
}

/* Days from 1970-01-01 to a day of the Gregorian calendar, years 1 to 9999. */
static int64_t days_since_1970(int year, int month, int day)
{
  int64_t past = year - 1; /* whole years since 0001-01-01, which is day -719162 */
  int64_t days = past * 365 + past / 4 - past / 100 + past / 400 - 719162;
  for (int m = 1; m < month; m++)
    days += days_in_month(year, m);
  return days + day - 1;
}

/* ".f{1,9}" or nothing, up to the end of the text, in ns; -1 for other text. */
static int64_t fraction_ns(const char *p)
{
  int64_t ns = 0, scale = 100000000;
  if (!*p)
    return 0;
  if (*p++ != '.' || !*p)
    return -1;
  for (; *p >= '0' && *p <= '9' && scale; p++, scale /= 10)
    ns += (*p - '0') * scale;
  return *p ? -1 : ns;
}

int trace_stamp(const char *text, __int128 *t_ns)
{
  static const struct {
    int digits, min, max;
    char end; /* what follows; 0: anything */
  } field[] = {{4, 1, 9999, '-'}, {2, 1, 12, '-'}, {2, 1, 31, ' '},
               {2, 0, 23, ':'},   {2, 0, 59, ':'}, {2, 0, 59, 0}};
  int v[6];
  for (int i = 0; i < 6; i++) {
    v[i] = fixed_digits(&text, field[i].digits);
    if (v[i] < field[i].min || v[i] > field[i].max)
      return -1;
    if (field[i].end && *text++ != field[i].end)
      return -1;
  }
  int64_t ns = fraction_ns(text);
  if (v[2] > days_in_month(v[0], v[1]) || ns < 0)
    return -1;
  int64_t days = days_since_1970(v[0], v[1], v[2]);
  int64_t seconds = ((days * 24 + v[3]) * 60 + v[4]) * 60 + v[5];
  *t_ns = (__int128)seconds * 1000000000 + ns;
  return 0;
}
