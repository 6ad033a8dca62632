/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a device that computes tokens must find true of everything the world asks of it: a shadow
 * of all requests, their tokens and their KV, against which rows, chunks, copies and aggregates of
 * every work are held.
 */
#ifndef TESTS_FUZZ_ROWS_H
#define TESTS_FUZZ_ROWS_H

#include <lull/device.h>

struct fuzz_request {
  uint32_t tokens; /* known: prompt and what was generated */
  uint32_t end;    /* prompt + output */
  uint32_t kv;     /* of these, with KV */
  lull_lane_id lane;
  uint8_t known, loose; /* loose: it speculates, so that its counters are not known */
  uint8_t away;         /* its KV is on the host, or on its way */
  uint64_t mark;        /* the last work that held it */
};

struct fuzz_rows {
  struct fuzz_request *r; /* [n], owned */
  lull_id n;
  uint64_t works; /* so far */
  struct {
    struct lull_work work; /* the last one */
    uint64_t ran;          /* steps of it that were reported */
  } lane[LULL_LANES];
  char wrong[160]; /* the first thing that is not true; "": nothing */
};

/* The calls, before they are passed on. -1: something is wrong now. */
int fuzz_rows_request(struct fuzz_rows *f, lull_id id, const struct lull_device_request *who);
void fuzz_rows_forget(struct fuzz_rows *f, lull_id id, int how);
int fuzz_rows_submit(struct fuzz_rows *f, const struct lull_work *w);
/* A completion, as its lane's device reports it. */
void fuzz_rows_completed(struct fuzz_rows *f, const struct lull_completion *c);
void fuzz_rows_free(struct fuzz_rows *f);

#endif
