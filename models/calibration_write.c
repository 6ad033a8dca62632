/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Makes the HDF5 image of a calibration: in memory, without times, so equal content is equal
 * bytes. */
#include <stdlib.h>
#include <string.h>

#include "base/h5.h"
#include "models/calibration_io.h"

/* What every write needs. */
struct writer {
  struct base_h5 h;
  hid_t create; /* dataset creation without times */
};

/* A dataset of n (or n x m, where m > 0) values, with its unit. */
static void put_array(struct writer *w, hid_t at, const char *name, const char *unit, hsize_t n,
                      hsize_t m, hid_t disk, hid_t memory, const void *values)
{
  hsize_t dims[2] = {n, m};
  hid_t space = H5Screate_simple(m ? 2 : 1, dims, NULL);
  hid_t d = space < 0 ? -1 : H5Dcreate2(at, name, disk, space, H5P_DEFAULT, w->create, H5P_DEFAULT);
  base_h5_note(&w->h,
               d < 0 || (n && H5Dwrite(d, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0));
  if (d >= 0 && *unit)
    base_h5_put_text(&w->h, d, "unit", unit);
  if (d >= 0)
    H5Dclose(d);
  if (space >= 0)
    H5Sclose(space);
}

static void put_numbers(struct writer *w, hid_t at, const char *name, const char *unit, hsize_t n,
                        hsize_t m, const int64_t *v)
{
  put_array(w, at, name, unit, n, m, H5T_STD_I64LE, H5T_NATIVE_INT64, v);
}

static hid_t open_group(struct writer *w, const char *name, const char *what)
{
  hid_t g = base_h5_group(&w->h, w->h.file, name);
  if (g >= 0)
    base_h5_put_text(&w->h, g, "what", what);
  return g;
}

static void write_curve(struct writer *w, const struct calibration_slot *s,
                        const struct calibration_curve *v)
{
  hid_t g = open_group(w, s->name, "time of one layer (of the whole head) over x");
  put_numbers(w, g, "x", s->unit, v->n, 0, v->x);
  put_numbers(w, g, "y", "ps", v->n, 0, v->y);
  base_h5_close_group(g);
}

static void write_grid(struct writer *w, const struct calibration_grid *v)
{
  hid_t g = open_group(w, "decode", "decode attention of one layer over rows, mean context");
  put_numbers(w, g, "rows", "rows", v->nrows, 0, v->rows);
  put_numbers(w, g, "ctx", "tokens", v->nctx, 0, v->ctx);
  put_numbers(w, g, "ctx_measured", "tokens", v->nrows, 0, v->ctx_measured);
  put_numbers(w, g, "y", "ps", v->nrows, v->nctx, v->y);
  base_h5_close_group(g);
}

/* Column `s` of n records, `stride` bytes each. */
static void write_texts(struct writer *w, hid_t g, const struct calibration_slot *s, size_t n,
                        const void *base, size_t stride)
{
  const char *column[CALIBRATION_ENTRIES_MAX];
  for (size_t i = 0; i < n; i++)
    column[i] = (const char *)base + i * stride + s->offset;
  put_array(w, g, s->name, s->unit, n, 0, w->h.text, w->h.text, column);
}

static void write_residuals(struct writer *w, const struct calibration *c)
{
  hid_t g = open_group(w, "residuals", "relative errors of held-out samples");
  size_t n = c->nresiduals;
  write_texts(w, g, &calibration_residual_texts.item[0], n, c->residual, sizeof *c->residual);
  for (size_t k = 0; k < calibration_residual_counts.n; k++) {
    int64_t column[CALIBRATION_ENTRIES_MAX];
    for (size_t i = 0; i < n; i++)
      column[i] = *(const uint32_t *)calibration_at(&c->residual[i],
                                                    &calibration_residual_counts.item[k]);
    put_numbers(w, g, calibration_residual_counts.item[k].name, "samples", n, 0, column);
  }
  for (size_t k = 0; k < calibration_residual_reals.n; k++) {
    const struct calibration_slot *s = &calibration_residual_reals.item[k];
    double column[CALIBRATION_ENTRIES_MAX];
    for (size_t i = 0; i < n; i++)
      column[i] = *(const double *)calibration_at(&c->residual[i], s);
    put_array(w, g, s->name, s->unit, n, 0, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, column);
  }
  base_h5_close_group(g);
}

static void write_sources(struct writer *w, const struct calibration *c)
{
  hid_t g = open_group(w, "sources", "files that the curves were made from");
  for (size_t k = 0; k < calibration_source_texts.n; k++)
    write_texts(w, g, &calibration_source_texts.item[k], c->nsources, c->source, sizeof *c->source);
  base_h5_close_group(g);
}

static void write_content(struct writer *w, const struct calibration *c)
{
  base_h5_put_text(&w->h, w->h.file, "format", CALIBRATION_FORMAT);
  base_h5_put_number(&w->h, w->h.file, "version", CALIBRATION_VERSION);
  base_h5_put_text(&w->h, w->h.file, "digest", c->digest);
  for (size_t i = 0; i < calibration_texts.n; i++)
    base_h5_put_text(&w->h, w->h.file, calibration_texts.item[i].name,
                     calibration_at(c, &calibration_texts.item[i]));
  for (size_t i = 0; i < calibration_shapes.n; i++)
    base_h5_put_number(&w->h, w->h.file, calibration_shapes.item[i].name,
                       *(const uint32_t *)calibration_at(c, &calibration_shapes.item[i]));
  for (size_t i = 0; i < calibration_sizes.n; i++)
    base_h5_put_number(&w->h, w->h.file, calibration_sizes.item[i].name,
                       *(const int64_t *)calibration_at(c, &calibration_sizes.item[i]));
  for (size_t i = 0; i < calibration_curves.n; i++)
    write_curve(w, &calibration_curves.item[i], calibration_at(c, &calibration_curves.item[i]));
  write_grid(w, &c->decode);
  write_residuals(w, c);
  write_sources(w, c);
}

/* The file lives in memory only. Its format is the earliest: the images that the library gives of
 * later ones have a wrong checksum in their superblock. */
static void writer_open(struct writer *w)
{
  hid_t access = base_h5_access(&w->h);
  base_h5_note(&w->h, H5Pset_fapl_core(access, 1 << 16, 0) < 0);
  base_h5_create(&w->h, "calibration", access);
  w->create = base_h5_dataset_list(&w->h);
}

static int writer_close(struct writer *w)
{
  if (w->create >= 0)
    H5Pclose(w->create);
  return base_h5_close(&w->h);
}

/* Copies the finished file out of the library. */
static void take_image(struct writer *w, unsigned char **image, size_t *size)
{
  base_h5_note(&w->h, H5Fflush(w->h.file, H5F_SCOPE_GLOBAL) < 0);
  ssize_t n = w->h.bad ? -1 : H5Fget_file_image(w->h.file, NULL, 0);
  base_h5_note(&w->h, n <= 0);
  if (w->h.bad)
    return;
  *size = (size_t)n;
  *image = malloc(*size);
  base_h5_note(&w->h, !*image || H5Fget_file_image(w->h.file, *image, *size) != n);
}

int calibration_to_image(const struct calibration *c, unsigned char **image, size_t *size,
                         struct base_error *e)
{
  struct writer w;
  *image = NULL;
  writer_open(&w);
  if (!w.h.bad) {
    write_content(&w, c);
    take_image(&w, image, size);
  }
  if (!writer_close(&w))
    return 0;
  free(*image);
  *image = NULL;
  return base_fail(e, BASE_ENV,
                   "the HDF5 library could not make the calibration's file image; "
                   "is there memory left?");
}
