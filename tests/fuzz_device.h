/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A device that uses every freedom of the report rule (F8): it ends repeats early at a boundary and
 * returns from wait early with nothing, at random. No one outside the world may be able to tell.
 */
#ifndef TESTS_FUZZ_DEVICE_H
#define TESTS_FUZZ_DEVICE_H

#include <lull/device.h>

/* Around a simulated device, which it borrows. */
struct fuzz_device {
  struct lull_device *inner;
  uint64_t word; /* seed, then state */
};

extern const struct lull_device_ops fuzz_device_ops; /* on a (struct lull_device *) &fuzz_device */

#endif
