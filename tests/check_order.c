/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Records leave by id, however requests end; what has to wait does not fill the memory. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "sim/report/order.h"
#include "tests/limits.h"
#include "tests/suite.h"

/* What left so far; each record's arrival is its id. */
struct left {
  uint64_t n;
  uint64_t refuse_at; /* no page from this record on; 0: all */
};

static int check_left(void *ctx, uint64_t first, const struct world_record *r, size_t n,
                      struct base_error *e)
{
  struct left *l = ctx;
  if (l->refuse_at && first >= l->refuse_at)
    return base_fail(e, BASE_ENV, "refused");
  ck_assert_uint_eq(first, l->n);
  for (size_t i = 0; i < n; i++)
    ck_assert_int_eq(r[i].arrival, (lull_time)(first + i));
  l->n += n;
  return 0;
}

static int put(struct order *o, uint64_t id, struct base_error *e)
{
  const struct world_record r = {.arrival = (lull_time)id};
  return order_put(o, (lull_id)id, &r, e);
}

/* Two runs through one order: everything backwards in blocks of `block`. */
static void blocks_backwards(uint64_t total, uint64_t block)
{
  struct left l = {0};
  struct base_error e = {0};
  struct order *o = order_new(check_left, &l);
  for (int run = 0; run < 2; run++) {
    l.n = 0;
    for (uint64_t at = 0; at < total; at += block)
      for (uint64_t i = at + block < total ? at + block : total; i-- > at;)
        ck_assert_msg(put(o, i, &e) == 0, "%s", e.text);
    ck_assert_msg(order_finish(o, total, 0, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(l.n, total);
  }
  order_free(o);
}

START_TEST(order_of_blocks)
{
  blocks_backwards(0, 1);
  blocks_backwards(1, 1);
  blocks_backwards(ORDER_PAGE, 3);
  blocks_backwards(ORDER_PAGE + 1, ORDER_PAGE);
  blocks_backwards(10 * ORDER_PAGE - 1, 3 * ORDER_PAGE);
}
END_TEST

/* All pages wait, and more of them than stay in memory. */
START_TEST(order_through_a_file)
{
  blocks_backwards((3 * ORDER_WAITING) * ORDER_PAGE + 5, (2 * ORDER_WAITING + 3) * ORDER_PAGE);
}
END_TEST

/* A request that ends last holds up all others, of which there are `pages` pages. */
static void one_straggler(uint64_t pages)
{
  struct left l = {0};
  struct base_error e = {0};
  struct order *o = order_new(check_left, &l);
  uint64_t total = pages * ORDER_PAGE;
  for (uint64_t i = 1; i < total; i++)
    ck_assert_int_eq(put(o, i, &e), 0);
  ck_assert_uint_eq(l.n, 0);
  ck_assert_int_eq(put(o, 0, &e), 0);
  ck_assert_uint_eq(l.n, total);
  ck_assert_int_eq(order_finish(o, total, 0, &e), 0);
  order_free(o);
}

START_TEST(order_lacks_one)
{
  struct left l = {0};
  struct base_error e = {0};
  struct order *o = order_new(check_left, &l);
  ck_assert_int_eq(put(o, 0, &e) | put(o, 2, &e), 0);
  ck_assert_int_eq(order_finish(o, 3, 0, &e), -1);
  ck_assert_int_eq(e.code, BASE_INVARIANT);
  order_free(o);
}
END_TEST

/* A taker that refuses is heard, and the order serves the next run. */
START_TEST(order_refused)
{
  struct left l = {.refuse_at = ORDER_PAGE};
  struct base_error e = {0};
  struct order *o = order_new(check_left, &l);
  for (uint64_t i = 0; i < 2 * ORDER_PAGE - 1; i++)
    ck_assert_int_eq(put(o, i, &e), 0);
  ck_assert_int_eq(put(o, 2 * ORDER_PAGE - 1, &e), -1);
  ck_assert_str_eq(e.text, "refused");
  ck_assert_int_eq(order_finish(o, 2 * ORDER_PAGE, 1, NULL), 0);
  l = (struct left){0};
  ck_assert_int_eq(put(o, 0, NULL), 0);
  ck_assert_int_eq(order_finish(o, 1, 0, NULL), 0);
  ck_assert_uint_eq(l.n, 1);
  order_free(o);
}
END_TEST

/* The temporary file has no room. */
START_TEST(order_full_disk)
{
  struct left l = {0};
  struct base_error e = {0};
  struct order *o = order_new(check_left, &l);
  uint64_t i = 1, total = 3 * ORDER_WAITING * ORDER_PAGE;
  limit_files(1 << 20);
  while (i < total && !put(o, i, &e))
    i++;
  ck_assert_uint_gt(i, ORDER_WAITING * ORDER_PAGE);
  ck_assert_uint_lt(i, total);
  ck_assert_int_eq(e.code, BASE_ENV);
  ck_assert_msg(strstr(e.text, "temporary file: ") != NULL, "%s", e.text);
  ck_assert_int_eq(order_finish(o, total, 1, NULL), 0);
  order_free(o);
}
END_TEST

static void straggler_of(int pages)
{
  one_straggler((uint64_t)pages);
}

/* 16 MiB of records at once, 160 MiB the other time. */
START_TEST(order_bounded)
{
  check_peaks(straggler_of, 3 * ORDER_WAITING / 2);
}
END_TEST

int main(void)
{
  Suite *s = suite_create("order");
  TCase *t = tcase_create("order");

  tcase_set_timeout(t, 120);
  tcase_add_test(t, order_of_blocks);
  tcase_add_test(t, order_through_a_file);
  tcase_add_test(t, order_lacks_one);
  tcase_add_test(t, order_refused);
  tcase_add_test(t, order_full_disk);
  tcase_add_test(t, order_bounded);
  suite_add_tcase(s, t);
  return suite_run(s);
}
