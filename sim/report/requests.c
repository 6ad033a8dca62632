/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The file of requests: from the ends of requests, by way of their order, to a format. */
#include "sim/report/requests.h"

#include <stdlib.h>
#include <string.h>

#include "sim/report/order.h"

const char *const requests_fate[] = {
    [WORLD_PENDING] = "pending",      [WORLD_DONE] = "finished",
    [WORLD_FATE_FAILED] = "failed",   [WORLD_REJECTED] = "rejected",
    [WORLD_CANCELLED] = "cancelled",  [WORLD_EXPIRED] = "expired",
    [WORLD_UNFINISHED] = "unfinished"};

struct report_requests {
  const struct requests_format *format;
  void *file;
  struct order *order;
  struct experiment_sink sink;
  struct experiment_place run; /* the one at work */
  struct base_error failure;   /* the first of its requests; told at its end */
};

static int take(void *ctx, uint64_t first, const struct world_record *record, size_t n,
                struct base_error *e)
{
  struct report_requests *r = ctx;
  return r->format->rows(r->file, &r->run, first, record, n, e);
}

static int begin(void *ctx, const struct experiment_place *run, struct base_error *e)
{
  struct report_requests *r = ctx;
  r->run = *run;
  return r->format->begin(r->file, run, e);
}

static void ended(void *ctx, lull_id id, const struct world_record *record)
{
  struct report_requests *r = ctx;
  if (r->failure.code == BASE_OK)
    order_put(r->order, id, record, &r->failure);
}

static int end(void *ctx, const struct world_result *result, struct base_error *e)
{
  struct report_requests *r = ctx;
  int failed = r->failure.code != BASE_OK;
  if (failed && e && e->code == BASE_OK)
    *e = r->failure;
  if (order_finish(r->order, result->records, failed, e) || failed)
    return -1;
  return r->format->end(r->file, result, e);
}

int report_requests_is_hdf5(const char *path)
{
  const char *dot = strrchr(path, '.');
  return dot && (!strcmp(dot, ".h5") || !strcmp(dot, ".hdf5"));
}

struct report_requests *report_requests_open(const char *path, const struct scenario *s,
                                             struct base_error *e)
{
  struct report_requests *r = calloc(1, sizeof *r);
  if (!r) {
    base_fail_memory(e);
    return NULL;
  }
  r->format = report_requests_is_hdf5(path) ? &requests_hdf5 : &requests_csv;
  r->sink = (struct experiment_sink){r, begin, ended, end};
  r->order = order_new(take, r);
  if (!r->order)
    base_fail_memory(e);
  else
    r->file = r->format->open(path, s, e);
  if (r->file)
    return r;
  order_free(r->order);
  free(r);
  return NULL;
}

const struct experiment_sink *report_requests_sink(struct report_requests *r)
{
  return &r->sink;
}

int report_requests_close(struct report_requests *r, int partial, struct base_error *e)
{
  int rc = r->format->close(r->file, partial, e);
  order_free(r->order);
  free(r);
  return rc;
}

void report_requests_abandon(struct report_requests *r)
{
  if (!r)
    return;
  r->format->abandon(r->file);
  order_free(r->order);
  free(r);
}
