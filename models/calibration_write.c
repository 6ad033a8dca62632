/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Makes the HDF5 image of a calibration: in memory, without times, so equal content is equal
 * bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/h5.h"
#include "models/calibration_io.h"

/* What every write needs. */
struct writer {
  struct base_h5 h;
  hid_t create; /* dataset creation without times */
};

/* A dataset of rank dimensions, with its unit. */
static void put_block(struct writer *w, hid_t at, const char *name, const char *unit, int rank,
                      const hsize_t *dims, hid_t disk, hid_t memory, const void *values)
{
  hid_t space = H5Screate_simple(rank, dims, NULL);
  hid_t d = space < 0 ? -1 : H5Dcreate2(at, name, disk, space, H5P_DEFAULT, w->create, H5P_DEFAULT);
  base_h5_note(
      &w->h, d < 0 || (dims[0] && H5Dwrite(d, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0));
  if (d >= 0 && *unit)
    base_h5_put_text(&w->h, d, "unit", unit);
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
  hid_t g = base_h5_group(&w->h, w->h.file, name);
  if (g >= 0)
    base_h5_put_text(&w->h, g, "what", what);
  return g;
}

static const char *what_of(const struct calibration_slot *s)
{
  if (strcmp(s->y_unit, "ps"))
    return "share of the way from t_mean to t_max over x";
  if (!strcmp(s->name, "once"))
    return "time of what runs once a step, whatever the layers, over x";
  return "time of one layer (of the whole head) over x";
}

static void write_curve(struct writer *w, const struct calibration_slot *s,
                        const struct calibration_curve *v)
{
  hid_t g = open_group(w, s->name, what_of(s));
  put_numbers(w, g, "x", s->unit, v->n, 0, v->x);
  put_numbers(w, g, "y", s->y_unit, v->n, 0, v->y);
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

static void write_lattice(struct writer *w, const struct calibration_lattice *s,
                          const struct lattice *l)
{
  hsize_t dims[LATTICE_RANK];
  int rows = l->rank > 2;
  hid_t g = open_group(w, s->name,
                       rows
                           ? "attention of one layer, chunk and decode rows in one call"
                           : "attention of one layer over a chunk and its history, no decode rows");
  for (uint32_t a = 0; a < l->rank; a++) {
    dims[a] = l->n[a];
    put_numbers(w, g, s->axis[a], strcmp(s->axis[a], "rows") ? "tokens" : "rows", l->n[a], 0,
                l->x[a]);
  }
  put_block(w, g, "y", "ps", (int)l->rank, dims, H5T_STD_I64LE, H5T_NATIVE_INT64, l->y);
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
  base_h5_close_group(g);
}

/* What only the law TABLES has. */
static void write_tables(struct writer *w, const struct calibration *c)
{
  base_h5_put_number(&w->h, w->h.file, "tp", c->tp);
  if (c->host_step_ps)
    base_h5_put_number(&w->h, w->h.file, "host_step_ps", c->host_step_ps);
  for (size_t i = 0; i < calibration_table_texts.n; i++)
    base_h5_put_text(&w->h, w->h.file, calibration_table_texts.item[i].name,
                     calibration_at(c, &calibration_table_texts.item[i]));
  for (size_t i = 0; i < calibration_option_texts.n; i++) {
    const char *text = calibration_at(c, &calibration_option_texts.item[i]);
    if (*text)
      base_h5_put_text(&w->h, w->h.file, calibration_option_texts.item[i].name, text);
  }
  for (int i = 0; i < CALIBRATION_LATTICES; i++)
    write_lattice(w, &calibration_lattices[i], calibration_lattice_of(c, &calibration_lattices[i]));
  write_samples(w, c);
}

static void write_content(struct writer *w, const struct calibration *c)
{
  base_h5_put_text(&w->h, w->h.file, "format", CALIBRATION_FORMAT);
  base_h5_put_number(&w->h, w->h.file, "version", c->law);
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
  const struct calibration_slots *slots = calibration_curves_of(c);
  for (size_t i = 0; i < slots->n; i++)
    write_curve(w, &slots->item[i], calibration_at(c, &slots->item[i]));
  write_grid(w, &c->decode);
  write_residuals(w, c);
  write_sources(w, c);
  if (c->law == CALIBRATION_TABLES)
    write_tables(w, c);
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
