/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * How a calibration lies in its file, as tables that reading, writing, checking and sealing share.
 * Private to models/calibration*.c.
 *
 * The file: 512 bytes of envelope, then HDF5. The envelope is a line of text with the SHA-256 of
 * all bytes behind it, so that a damaged file is refused before the HDF5 library sees it (HDF5
 * permits such a user block; h5py reads the file as it is).
 */
#ifndef MODELS_CALIBRATION_IO_H
#define MODELS_CALIBRATION_IO_H

#include <stddef.h>

#include "models/calibration.h"

enum {
  CALIBRATION_ENVELOPE = 512,
  CALIBRATION_KNOTS_MAX = 4096,      /* of a curve, or one axis of the grid */
  CALIBRATION_CELLS_MAX = 1 << 18,   /* of the grid */
  CALIBRATION_ENTRIES_MAX = 64,      /* residuals, sources */
  CALIBRATION_SAMPLES_MAX = 1 << 18, /* rows of a set of samples */
  CALIBRATION_WIDTH_MAX = 16,        /* columns of one */
  CALIBRATION_FILE_MAX = 64 << 20    /* bytes */
};
#define CALIBRATION_FORMAT "lull calibration"

/* A member of a struct: a char array, a number, or a curve. */
struct calibration_slot {
  const char *name, *unit; /* unit "": none. Of a curve: of x */
  size_t offset, size;     /* size: of a char array */
  const char *y_unit;      /* of a curve */
  uint32_t knots;          /* of a curve: fewest knots that it must have */
};
struct calibration_slots {
  const struct calibration_slot *item;
  size_t n;
};

extern const struct calibration_slots calibration_texts;        /* char[] of struct calibration */
extern const struct calibration_slots calibration_shapes;       /* its uint32_t */
extern const struct calibration_slots calibration_sizes;        /* its int64_t */
extern const struct calibration_slots calibration_curves;       /* its curves, law PAIRS */
extern const struct calibration_slots calibration_table_curves; /* its curves, law TABLES */
extern const struct calibration_slots
    calibration_table_texts; /* its char[] that are TABLES' only */
extern const struct calibration_slots
    calibration_option_texts; /* its char[] that are TABLES' and in the file only if not "" */
extern const struct calibration_slots calibration_sample_texts;    /* of struct _samples */
extern const struct calibration_slots calibration_residual_texts;  /* of struct _residual */
extern const struct calibration_slots calibration_residual_counts; /* uint32_t */
extern const struct calibration_slots calibration_residual_reals;  /* double */
extern const struct calibration_slots calibration_source_texts;    /* of struct _source */

static inline void *calibration_at(const void *base, const struct calibration_slot *s)
{
  return (char *)(size_t)base + s->offset;
}

/* The curves that a calibration has by its law. */
static inline const struct calibration_slots *calibration_curves_of(const struct calibration *c)
{
  return c->law == CALIBRATION_TABLES ? &calibration_table_curves : &calibration_curves;
}

/* A lattice in the file: its group and the names of its axes. */
struct calibration_lattice {
  const char *name;
  size_t offset;
  uint32_t rank;
  const char *axis[LATTICE_RANK];
};
enum { CALIBRATION_LATTICES = 2 };
extern const struct calibration_lattice calibration_lattices[CALIBRATION_LATTICES];

static inline struct lattice *calibration_lattice_of(const struct calibration *c,
                                                     const struct calibration_lattice *s)
{
  return (struct lattice *)((char *)(size_t)c + s->offset);
}

/* The content of a HDF5 image, unchecked but for sizes; NULL on failure. `file` is for messages. */
struct calibration *calibration_from_image(const void *image, size_t size, const char *file,
                                           struct base_error *e);
/* The HDF5 image of a calibration, equal for equal content; *image is malloc'ed. */
int calibration_to_image(const struct calibration *c, unsigned char **image, size_t *size,
                         struct base_error *e);
/* Structure, ranges, monotonicity. */
int calibration_check(const struct calibration *c, const char *file, struct base_error *e);
/* The content's digest, 64 hex digits and NUL. */
void calibration_digest(const struct calibration *c, char hex[65]);

#endif
