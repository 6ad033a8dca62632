/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A device that uses every freedom of the report rule (F8), at random: it reports at boundaries of
 * its own choice, ends repeats early at a boundary, and returns from wait early with nothing. No
 * one outside the world may be able to tell. It reads rows, and holds all that is asked of it to
 * what it knows of the requests (fuzz_rows.h): what is wrong fails a submit.
 *
 * If asked it is also late, as real devices are: that changes results, but none that does not add
 * up may come of it.
 */
#ifndef TESTS_FUZZ_DEVICE_H
#define TESTS_FUZZ_DEVICE_H

#include <lull/device.h>

#include "tests/fuzz_rows.h"

enum { FUZZ_LANES = 16, FUZZ_CHUNKS = 16 }; /* what lies beyond is not cut into pieces */

/*
 * A forward ticket of the caller, which the simulated device gets piece by piece: a piece's end is
 * a report of the ticket. The next piece is handed over when time moves, not before, so that a
 * boundary that was just reported can still be the last (F3).
 */
struct fuzz_ticket {
  struct lull_work work;   /* the piece; its batch is `batch` */
  struct lull_batch batch; /* as of the piece's first step */
  uint64_t ran;            /* steps of the piece that were reported */
  struct lull_chunk chunk[FUZZ_CHUNKS];
  uint64_t left;      /* steps of the ticket that were not */
  uint8_t open;       /* the caller waits for its end */
  uint8_t between;    /* a piece was reported, the next is not handed over */
  uint8_t stopping;   /* an interrupt took effect: the next end is the ticket's */
  lull_time boundary; /* of the last report, or its start */
};

/* Around a simulated device, which it borrows. Zero all but the first few. Free `rows`. */
struct fuzz_device {
  struct lull_device *inner;
  uint64_t word;   /* seed, then state */
  lull_time nap;   /* returns from wait up to so much later than now with nothing; 0: 1 us */
  int late;        /* returns from wait up to so much later */
  uint64_t pieces; /* reports within a ticket that were made up, so far */
  struct fuzz_ticket ticket[FUZZ_LANES]; /* by lane */
  struct fuzz_rows rows;
  int busy; /* lanes that have work */
};

extern const struct lull_device_ops fuzz_device_ops; /* on a (struct lull_device *) &fuzz_device */

#endif
