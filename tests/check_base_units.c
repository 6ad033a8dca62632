/* SPDX-License-Identifier: GPL-3.0-or-later */
/* base/units: values with units, decimal text. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/units.h"
#include "tests/suite.h"

static const struct {
  enum base_unit unit;
  const char *text;
  int64_t value;
} good[] = {
    {BASE_TIME, "1ps", 1},
    {BASE_TIME, "1ns", 1000},
    {BASE_TIME, "1us", 1000000},
    {BASE_TIME, "10ms", 10000000000},
    {BASE_TIME, "1.5s", 1500000000000},
    {BASE_TIME, "2min", 120000000000000},
    {BASE_TIME, "1h", 3600000000000000},
    {BASE_TIME, "106d", 9158400000000000000},
    {BASE_TIME, "0", 0},
    {BASE_TIME, "0.0", 0},
    {BASE_TIME, "0s", 0},
    {BASE_TIME, "1e-3s", 1000000000},
    {BASE_TIME, "1E+3ps", 1000},
    {BASE_TIME, "0.5ps", 0},
    {BASE_TIME, "1.5ps", 2},
    {BASE_TIME, "2.5ps", 2},
    {BASE_TIME, "2.50000000000000000000000000000001ps", 3},
    {BASE_TIME, "9223372036854775807ps", INT64_MAX},
    {BASE_TIME, "9223372036854775807.4999ps", INT64_MAX},
    {BASE_BYTES, "7B", 7},
    {BASE_BYTES, "1kB", 1000},
    {BASE_BYTES, "1MB", 1000000},
    {BASE_BYTES, "1GB", 1000000000},
    {BASE_BYTES, "1TB", 1000000000000},
    {BASE_BYTES, "1KiB", 1024},
    {BASE_BYTES, "1MiB", 1048576},
    {BASE_BYTES, "4GiB", 4294967296},
    {BASE_BYTES, "1TiB", 1099511627776},
    {BASE_BYTES, "0.1KiB", 102},
    {BASE_BANDWIDTH, "4.8TB/s", 4800000000000},
    {BASE_BANDWIDTH, "64GiB/s", 68719476736},
    {BASE_BANDWIDTH, "3B/s", 3},
    {BASE_BANDWIDTH, "3kB/s", 3000},
    {BASE_BANDWIDTH, "3KiB/s", 3072},
    {BASE_BANDWIDTH, "3MB/s", 3000000},
    {BASE_BANDWIDTH, "3MiB/s", 3145728},
    {BASE_BANDWIDTH, "3GB/s", 3000000000},
    {BASE_BANDWIDTH, "1TiB/s", 1099511627776},
    {BASE_RATE, "8/s", 8000000},
    {BASE_RATE, "3/min", 50000},
    {BASE_RATE, "2/min", 33333},
    {BASE_RATE, "18/h", 5000},
    {BASE_RATE, "0.0009/h", 0}, /* 1/4 */
    {BASE_RATE, "0.0018/h", 0}, /* 1/2: a tie */
    {BASE_RATE, "0.0054/h", 2}, /* 3/2: a tie */
    {BASE_RATE, "0.00180001/h", 1},
    {BASE_TOKENS, "200tok", 200},
    {BASE_TOKENS, "1e3tok", 1000},
    {BASE_TOKENS, "2.0tok", 2},
    {BASE_RATIO, "99%", 990000},
    {BASE_RATIO, "0.5", 500000},
    {BASE_RATIO, "1", 1000000},
    {BASE_RATIO, "0.00005%", 0},
    {BASE_RATIO, "0.00015%", 2},
    {BASE_COUNT, "32", 32},
    {BASE_COUNT, "+32", 32},
    {BASE_COUNT, "1e2", 100},
    {BASE_REAL, "2.25", 2250000},
    {BASE_REAL, ".5", 500000},
};

START_TEST(units_good)
{
  struct base_error e = {0};
  int64_t v = -1;
  ck_assert_msg(!base_unit_parse(good[_i].unit, good[_i].text, &v, &e), "%s: %s", good[_i].text,
                e.text);
  ck_assert_msg(v == good[_i].value, "%s gave %lld", good[_i].text, (long long)v);
}
END_TEST

static const struct {
  enum base_unit unit;
  const char *text, *says;
} bad[] = {
    {BASE_TIME, "10", "write 10ms or 10s"},
    {BASE_BYTES, "10", "write 10MiB or 10GB"},
    {BASE_BANDWIDTH, "10", "write 10GB/s"},
    {BASE_RATE, "8", "write 8/s or 8/min"},
    {BASE_TOKENS, "200", "write 200tok"},
    {BASE_TIME, "10sec", "units of time are: d h min s ms us ns ps"},
    {BASE_TIME, "10 ms", "space"},
    {BASE_TIME, "10ms ", "unknown unit"},
    {BASE_TIME, " 10ms", "not a number"},
    {BASE_TIME, "10e", "unknown unit"},
    {BASE_TIME, "", "empty"},
    {BASE_TIME, "nan", "not a number"},
    {BASE_TIME, "inf", "not a number"},
    {BASE_TIME, ".ms", "not a number"},
    {BASE_TIME, "1..5s", "unknown unit"},
    {BASE_TIME, "1,5s", "unknown unit"},
    {BASE_TIME, "0x10s", "unknown unit"},
    {BASE_TIME, "-1s", "negative"},
    {BASE_TIME, "107d", "too large"},
    {BASE_TIME, "9223372036854775808ps", "too large"},
    {BASE_TIME, "9223372036854775807.5ps", "too large"},
    {BASE_TIME, "1e999999999999999999999ps", "too large"},
    {BASE_BYTES, "8388608TiB", "too large"},
    {BASE_RATE, "1e18/s", "too large"},
    {BASE_TOKENS, "2.5tok", "whole number"},
    {BASE_COUNT, "2.5", "whole number"},
    {BASE_COUNT, "5%", "has no unit"},
    {BASE_COUNT, "-3", "negative"},
    {BASE_RATIO, "5x", "units of ratio are: %"},
    {BASE_REAL, "1s", "has no unit"},
};

START_TEST(units_bad)
{
  struct base_error e = {0};
  int64_t v = 4711;
  ck_assert_int_eq(base_unit_parse(bad[_i].unit, bad[_i].text, &v, &e), -1);
  ck_assert_int_eq(v, 4711);
  ck_assert_int_eq(e.code, BASE_INPUT);
  ck_assert_uint_eq(e.line, 0);
  ck_assert_msg(strstr(e.text, bad[_i].says), "%s: %s", bad[_i].text, e.text);
  ck_assert_int_eq(base_unit_parse(bad[_i].unit, bad[_i].text, &v, NULL), -1);
}
END_TEST

START_TEST(units_too_many_digits)
{
  char text[400];
  struct base_error e = {0};
  int64_t v;
  memset(text, '1', sizeof text);
  text[1] = '.';
  strcpy(text + sizeof text - 3, "ps");
  ck_assert_int_eq(base_unit_parse(BASE_TIME, text, &v, &e), -1);
  ck_assert_ptr_nonnull(strstr(e.text, "digits"));
}
END_TEST

static const struct {
  enum base_unit unit;
  int64_t value;
  const char *text;
} shortest[] = {
    {BASE_TIME, 0, "0"},
    {BASE_TIME, 10000000000, "10ms"},
    {BASE_TIME, 1500000000000, "1.5s"},
    {BASE_TIME, 120000000000000, "2min"},
    {BASE_TIME, 1, "1ps"},
    {BASE_TIME, 86400000000000001, "86400.000000000001s"},
    {BASE_BYTES, 4294967296, "4GiB"},
    {BASE_BYTES, 123456789, "123456789B"},
    {BASE_BANDWIDTH, 4800000000000, "4.8TB/s"},
    {BASE_RATE, 8000000, "8/s"},
    {BASE_RATE, 33333, "2/min"},
    {BASE_TOKENS, 200, "200tok"},
    {BASE_RATIO, 990000, "99%"},
    {BASE_RATIO, 500000, "0.5"},
    {BASE_COUNT, 32, "32"},
    {BASE_REAL, 2250000, "2.25"},
};

START_TEST(units_format)
{
  char buf[64];
  ck_assert_str_eq(base_unit_format(shortest[_i].unit, shortest[_i].value, buf, sizeof buf),
                   shortest[_i].text);
}
END_TEST

/* A value of 1 to 63 bits, so that all magnitudes come up. */
static int64_t any_magnitude(gsl_rng *r)
{
  uint64_t x = (uint64_t)gsl_rng_get(r) << 32 | gsl_rng_get(r);
  return (int64_t)(x >> (1 + gsl_rng_uniform_int(r, 63)));
}

START_TEST(units_round_trip)
{
  gsl_rng *r = base_rng_open(1, "round trip");
  for (int i = 0; i < 20000; i++) {
    int64_t value = any_magnitude(r), back = -1;
    char buf[80];
    struct base_error e = {0};
    base_unit_format((enum base_unit)_i, value, buf, sizeof buf);
    ck_assert_msg(!base_unit_parse((enum base_unit)_i, buf, &back, &e), "%s: %s", buf, e.text);
    ck_assert_msg(back == value, "%lld as '%s' gave %lld", (long long)value, buf, (long long)back);
  }
  gsl_rng_free(r);
}
END_TEST

static const struct {
  const char *text;
  int digits, rc;
  int64_t value;
  const char *rest;
} decimals[] = {
    {"199.96150599999999", 9, 0, 199961506000, ""},
    {"5.8926549999999995", 9, 0, 5892655000, ""},
    {"0.5", 0, 0, 0, ""},
    {"1.5", 0, 0, 2, ""},
    {"2.5", 0, 0, 2, ""},
    {"3.5", 0, 0, 4, ""},
    {"-2.5", 0, 0, -2, ""},
    {"-3.5", 0, 0, -4, ""},
    {"2.49999999999999999999999999999999999999", 0, 0, 2, ""},
    {"2.50000000000000000000000000000000000001", 0, 0, 3, ""},
    {"00000000000000000000000000000000012.34,x", 1, 0, 123, ",x"},
    {"12345678901234567890123", -10, 0, 1234567890123, ""},
    {"1e3", 0, 0, 1000, ""},
    {"1.25E-1;", 2, 0, 12, ";"},
    {"1.35e-1", 2, 0, 14, ""},
    {"1e+2x", 0, 0, 100, "x"},
    {"7e", 0, 0, 7, "e"},
    {"7e+", 0, 0, 7, "e+"},
    {"7.e1", 0, 0, 70, ""},
    {"0e999999999999999999999", 9, 0, 0, ""},
    {"1e-999999999999999999999", 9, 0, 0, ""},
    {"0.04e0", 1, 0, 0, ""},
    {"0.05", 1, 0, 0, ""},
    {"0.06", 1, 0, 1, ""},
    {"9223372036854775807", 0, 0, INT64_MAX, ""},
    {"9223372036854775807.5", 0, -1, 0, ""},
    {"-9223372036854775808", 0, 0, INT64_MIN, ""},
    {"-9223372036854775808.5", 0, 0, INT64_MIN, ""},
    {"-9223372036854775808.51", 0, -1, 0, ""},
    {"9223372036854775808", 0, -1, 0, ""},
    {"1e400", 0, -1, 0, ""},
    {"", 0, -1, 0, ""},
    {"-", 0, -1, 0, "-"},
    {".", 0, -1, 0, "."},
    {"abc", 0, -1, 0, "abc"},
    {" 1", 0, -1, 0, " 1"},
};

START_TEST(units_decimal)
{
  int64_t v = 0;
  const char *end = NULL;
  ck_assert_msg(base_decimal(decimals[_i].text, decimals[_i].digits, &v, &end) == decimals[_i].rc,
                "%s", decimals[_i].text);
  ck_assert_msg(v == decimals[_i].value, "%s gave %lld", decimals[_i].text, (long long)v);
  ck_assert_str_eq(end, decimals[_i].rest);
}
END_TEST

/* What lies beyond the digits that are kept decides a tie. */
START_TEST(units_decimal_long)
{
  char text[2000];
  int64_t v;
  memset(text, '0', sizeof text);
  memcpy(text, "2.5", 3);
  text[sizeof text - 1] = 0;
  ck_assert_int_eq(base_decimal(text, 0, &v, NULL), 0);
  ck_assert_int_eq(v, 2);
  text[sizeof text - 2] = '1';
  ck_assert_int_eq(base_decimal(text, 0, &v, NULL), 0);
  ck_assert_int_eq(v, 3);
}
END_TEST

/* Against the C library, where both are exact: up to 15 digits. */
START_TEST(units_decimal_random)
{
  gsl_rng *r = base_rng_open(2, "decimal");
  for (int i = 0; i < 20000; i++) {
    char text[64];
    int64_t whole = (int64_t)gsl_rng_uniform_int(r, 1000000), v;
    unsigned long micro = gsl_rng_uniform_int(r, 1000000);
    snprintf(text, sizeof text, "%lld.%06lu", (long long)whole, micro);
    ck_assert_int_eq(base_decimal(text, 9, &v, NULL), 0);
    ck_assert_int_eq(v, whole * 1000000000 + (int64_t)micro * 1000);
  }
  gsl_rng_free(r);
}
END_TEST

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static TCase *units_case(void)
{
  TCase *t = tcase_create("units");
  tcase_add_loop_test(t, units_good, 0, COUNT(good));
  tcase_add_loop_test(t, units_bad, 0, COUNT(bad));
  tcase_add_test(t, units_too_many_digits);
  tcase_add_loop_test(t, units_format, 0, COUNT(shortest));
  tcase_add_loop_test(t, units_round_trip, BASE_TIME, BASE_REAL + 1);
  tcase_add_loop_test(t, units_decimal, 0, COUNT(decimals));
  tcase_add_test(t, units_decimal_long);
  tcase_add_test(t, units_decimal_random);
  return t;
}

int main(void)
{
  Suite *s = suite_create("base units");
  suite_add_tcase(s, units_case());
  return suite_run(s);
}
