/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Makes the HDF5 image of a calibration: in memory, without times, so equal content is equal
 * bytes. */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/calibration_io.h"

/* What every write needs. `bad` collects: the first failure stops all later calls. */
struct writer {
  hid_t file, text, create; /* file; variable-length UTF-8; dataset creation without times */
  int bad;
};

static void note(struct writer *w, int failed)
{
  w->bad |= failed;
}

/* An attribute of one text. */
static void put_text(struct writer *w, hid_t at, const char *name, const char *text)
{
  hid_t space = H5Screate(H5S_SCALAR);
  hid_t a = space < 0 ? -1 : H5Acreate2(at, name, w->text, space, H5P_DEFAULT, H5P_DEFAULT);
  note(w, a < 0 || H5Awrite(a, w->text, &text) < 0);
  if (a >= 0)
    H5Aclose(a);
  if (space >= 0)
    H5Sclose(space);
}

/* An attribute of one whole number. */
static void put_number(struct writer *w, hid_t at, const char *name, int64_t value)
{
  hid_t space = H5Screate(H5S_SCALAR);
  hid_t a = space < 0 ? -1 : H5Acreate2(at, name, H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT);
  note(w, a < 0 || H5Awrite(a, H5T_NATIVE_INT64, &value) < 0);
  if (a >= 0)
    H5Aclose(a);
  if (space >= 0)
    H5Sclose(space);
}

/* A dataset of rank dimensions, with its unit. */
static void put_block(struct writer *w, hid_t at, const char *name, const char *unit, int rank,
                      const hsize_t *dims, hid_t disk, hid_t memory, const void *values)
{
  hid_t space = H5Screate_simple(rank, dims, NULL);
  hid_t d = space < 0 ? -1 : H5Dcreate2(at, name, disk, space, H5P_DEFAULT, w->create, H5P_DEFAULT);
  note(w, d < 0 || (dims[0] && H5Dwrite(d, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0));
  if (d >= 0 && *unit)
    put_text(w, d, "unit", unit);
  if (d >= 0)
    H5Dclose(d);
  if (space >= 0)
    H5Sclose(space);
}

/* The same of n, or n x m where m > 0. */
static void put_array(struct writer *w, hid_t at, const char *name, const char *unit, hsize_t n,
                      hsize_t m, hid_t disk, hid_t memory, const void *values)
{
  const hsize_t dims[2] = {n, m};
  put_block(w, at, name, unit, m ? 2 : 1, dims, disk, memory, values);
}

static void put_numbers(struct writer *w, hid_t at, const char *name, const char *unit, hsize_t n,
                        hsize_t m, const int64_t *v)
{
  put_array(w, at, name, unit, n, m, H5T_STD_I64LE, H5T_NATIVE_INT64, v);
}

static hid_t open_group(struct writer *w, const char *name, const char *what)
{
  hid_t p = H5Pcreate(H5P_GROUP_CREATE);
  hid_t g = -1;
  if (p >= 0 && H5Pset_obj_track_times(p, 0) >= 0)
    g = H5Gcreate2(w->file, name, H5P_DEFAULT, p, H5P_DEFAULT);
  if (p >= 0)
    H5Pclose(p);
  note(w, g < 0);
  if (g >= 0)
    put_text(w, g, "what", what);
  return g;
}

static void close_group(hid_t g)
{
  if (g >= 0)
    H5Gclose(g);
}

static void write_curve(struct writer *w, const struct calibration_slot *s,
                        const struct calibration_curve *v)
{
  int time = strcmp(s->y_unit, "ps") == 0;
  hid_t g = open_group(w, s->name,
                       time ? "time of one layer (of the whole head) over x"
                            : "share of the way from t_mean to t_max over x");
  put_numbers(w, g, "x", s->unit, v->n, 0, v->x);
  put_numbers(w, g, "y", s->y_unit, v->n, 0, v->y);
  close_group(g);
}

static void write_grid(struct writer *w, const struct calibration_grid *v)
{
  hid_t g = open_group(w, "decode", "decode attention of one layer over rows, mean context");
  put_numbers(w, g, "rows", "rows", v->nrows, 0, v->rows);
  put_numbers(w, g, "ctx", "tokens", v->nctx, 0, v->ctx);
  put_numbers(w, g, "ctx_measured", "tokens", v->nrows, 0, v->ctx_measured);
  put_numbers(w, g, "y", "ps", v->nrows, v->nctx, v->y);
  close_group(g);
}

static void write_lattice(struct writer *w, const struct calibration_lattice *s,
                          const struct lattice *l)
{
  hsize_t dims[LATTICE_RANK];
  hid_t g = open_group(w, s->name, "attention of one layer, chunk and decode rows in one call");
  for (uint32_t a = 0; a < l->rank; a++) {
    dims[a] = l->n[a];
    put_numbers(w, g, s->axis[a], strcmp(s->axis[a], "rows") ? "tokens" : "rows", l->n[a], 0,
                l->x[a]);
  }
  put_block(w, g, "y", "ps", (int)l->rank, dims, H5T_STD_I64LE, H5T_NATIVE_INT64, l->y);
  close_group(g);
}

/* Column `s` of n records, `stride` bytes each. */
static void write_texts(struct writer *w, hid_t g, const struct calibration_slot *s, size_t n,
                        const void *base, size_t stride)
{
  const char *column[CALIBRATION_ENTRIES_MAX];
  for (size_t i = 0; i < n; i++)
    column[i] = (const char *)base + i * stride + s->offset;
  put_array(w, g, s->name, s->unit, n, 0, w->text, w->text, column);
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
  close_group(g);
}

static void write_sources(struct writer *w, const struct calibration *c)
{
  hid_t g = open_group(w, "sources", "files that the curves were made from");
  for (size_t k = 0; k < calibration_source_texts.n; k++)
    write_texts(w, g, &calibration_source_texts.item[k], c->nsources, c->source, sizeof *c->source);
  close_group(g);
}

static void write_samples(struct writer *w, const struct calibration *c)
{
  hid_t g = open_group(w, "samples", "measured values, one row a sample; their columns by name");
  for (size_t k = 0; k < calibration_sample_texts.n; k++)
    write_texts(w, g, &calibration_sample_texts.item[k], c->nsamples, c->sample, sizeof *c->sample);
  for (uint32_t i = 0; i < c->nsamples; i++) {
    const struct calibration_samples *s = &c->sample[i];
    char name[16];
    snprintf(name, sizeof name, "data%u", i);
    put_numbers(w, g, name, "", s->n, s->width, s->v);
  }
  close_group(g);
}

/* What only the law TABLES has. */
static void write_tables(struct writer *w, const struct calibration *c)
{
  put_number(w, w->file, "tp", c->tp);
  for (size_t i = 0; i < calibration_table_texts.n; i++)
    put_text(w, w->file, calibration_table_texts.item[i].name,
             calibration_at(c, &calibration_table_texts.item[i]));
  for (int i = 0; i < CALIBRATION_LATTICES; i++)
    write_lattice(w, &calibration_lattices[i], calibration_lattice_of(c, &calibration_lattices[i]));
  write_samples(w, c);
}

static void write_content(struct writer *w, const struct calibration *c)
{
  put_text(w, w->file, "format", CALIBRATION_FORMAT);
  put_number(w, w->file, "version", c->law);
  put_text(w, w->file, "digest", c->digest);
  for (size_t i = 0; i < calibration_texts.n; i++)
    put_text(w, w->file, calibration_texts.item[i].name,
             calibration_at(c, &calibration_texts.item[i]));
  for (size_t i = 0; i < calibration_shapes.n; i++)
    put_number(w, w->file, calibration_shapes.item[i].name,
               *(const uint32_t *)calibration_at(c, &calibration_shapes.item[i]));
  for (size_t i = 0; i < calibration_sizes.n; i++)
    put_number(w, w->file, calibration_sizes.item[i].name,
               *(const int64_t *)calibration_at(c, &calibration_sizes.item[i]));
  const struct calibration_slots *slots = calibration_curves_of(c);
  for (size_t i = 0; i < slots->n; i++)
    write_curve(w, &slots->item[i], calibration_at(c, &slots->item[i]));
  write_grid(w, &c->decode);
  write_residuals(w, c);
  write_sources(w, c);
  if (c->law == CALIBRATION_TABLES)
    write_tables(w, c);
}

/* A file that lives in memory only. Its format is the earliest: the images that the library gives
 * of later ones have a wrong checksum in their superblock. */
static hid_t memory_file(void)
{
  hid_t access = H5Pcreate(H5P_FILE_ACCESS), create = H5Pcreate(H5P_FILE_CREATE), file = -1;
  if (access >= 0 && create >= 0 && H5Pset_fapl_core(access, 1 << 16, 0) >= 0 &&
      H5Pset_libver_bounds(access, H5F_LIBVER_EARLIEST, H5F_LIBVER_V18) >= 0 &&
      H5Pset_obj_track_times(create, 0) >= 0)
    file = H5Fcreate("calibration", H5F_ACC_TRUNC, create, access);
  if (create >= 0)
    H5Pclose(create);
  if (access >= 0)
    H5Pclose(access);
  return file;
}

static int writer_open(struct writer *w)
{
  w->file = memory_file();
  w->text = H5Tcopy(H5T_C_S1);
  w->create = H5Pcreate(H5P_DATASET_CREATE);
  w->bad = w->file < 0 || w->text < 0 || w->create < 0 || H5Tset_size(w->text, H5T_VARIABLE) < 0 ||
           H5Tset_cset(w->text, H5T_CSET_UTF8) < 0 || H5Pset_obj_track_times(w->create, 0) < 0;
  return w->bad;
}

static void writer_close(struct writer *w)
{
  if (w->create >= 0)
    H5Pclose(w->create);
  if (w->text >= 0)
    H5Tclose(w->text);
  if (w->file >= 0)
    note(w, H5Fclose(w->file) < 0);
}

/* Copies the finished file out of the library. */
static void take_image(struct writer *w, unsigned char **image, size_t *size)
{
  note(w, H5Fflush(w->file, H5F_SCOPE_GLOBAL) < 0);
  ssize_t n = w->bad ? -1 : H5Fget_file_image(w->file, NULL, 0);
  note(w, n <= 0);
  if (w->bad)
    return;
  *size = (size_t)n;
  *image = malloc(*size);
  note(w, !*image || H5Fget_file_image(w->file, *image, *size) != n);
}

int calibration_to_image(const struct calibration *c, unsigned char **image, size_t *size,
                         struct base_error *e)
{
  struct writer w;
  H5E_auto2_t report;
  void *data;
  *image = NULL;
  H5Eget_auto2(H5E_DEFAULT, &report, &data);
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
  if (!writer_open(&w)) {
    write_content(&w, c);
    take_image(&w, image, size);
  }
  writer_close(&w);
  H5Eset_auto2(H5E_DEFAULT, report, data);
  if (!w.bad)
    return 0;
  free(*image);
  *image = NULL;
  return base_fail(e, BASE_ENV,
                   "the HDF5 library could not make the calibration's file image; "
                   "is there memory left?");
}
