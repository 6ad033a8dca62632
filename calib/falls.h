/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Times that fall as work grows: noise, or a kernel that changes its way. They are kept as
 * measured, and told with their rows. */
#ifndef CALIB_FALLS_H
#define CALIB_FALLS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { FALLS_TOLD = 5 };

/* A row (1-based line) that is quicker than one with less work, by parts a million. */
struct fall {
  unsigned line, than;
  int64_t ppm;
};

/* Zero before use. */
struct falls {
  struct fall worst[FALLS_TOLD]; /* by size */
  size_t n, known;
};

/* Compares two rows of a table of which the second is more work. */
void falls_note(struct falls *f, int64_t less_ps, unsigned less, int64_t more_ps, unsigned more);
/* One line, if there was any; talk may be NULL. */
void falls_tell(const struct falls *f, const char *path, size_t rows, FILE *talk);

#endif
