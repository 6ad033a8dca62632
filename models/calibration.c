/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "models/calibration.h"

#include <nettle/base16.h>
#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>

#include "base/outfile.h"
#include "models/calibration_io.h"
#include "models/describe.h"
#include "models/embedded.h"

/* ------------------------------------------------------------------------------- digests --- */

static void finish_hex(struct sha256_ctx *h, char hex[65])
{
  uint8_t raw[SHA256_DIGEST_SIZE];
  sha256_digest(h, sizeof raw, raw);
  base16_encode_update(hex, sizeof raw, raw);
  hex[64] = 0;
}

/* A number as 8 bytes, least significant first, whatever the machine. */
static void hash_number(struct sha256_ctx *h, uint64_t v)
{
  uint8_t b[8];
  for (int i = 0; i < 8; i++)
    b[i] = (uint8_t)(v >> (8 * i));
  sha256_update(h, sizeof b, b);
}

static void hash_numbers(struct sha256_ctx *h, const int64_t *v, size_t n)
{
  hash_number(h, n);
  for (size_t i = 0; i < n; i++)
    hash_number(h, (uint64_t)v[i]);
}

static void hash_texts(struct sha256_ctx *h, const void *base, const struct calibration_slots *s)
{
  for (size_t i = 0; i < s->n; i++) {
    const char *text = calibration_at(base, &s->item[i]);
    sha256_update(h, strlen(text) + 1, (const uint8_t *)text);
  }
}

static void hash_counts(struct sha256_ctx *h, const void *base, const struct calibration_slots *s)
{
  for (size_t i = 0; i < s->n; i++)
    hash_number(h, *(const uint32_t *)calibration_at(base, &s->item[i]));
}

static void hash_residual(struct sha256_ctx *h, const struct calibration_residual *r)
{
  hash_texts(h, r, &calibration_residual_texts);
  hash_counts(h, r, &calibration_residual_counts);
  for (size_t i = 0; i < calibration_residual_reals.n; i++) {
    uint64_t bits;
    memcpy(&bits, calibration_at(r, &calibration_residual_reals.item[i]), sizeof bits);
    hash_number(h, bits);
  }
}

/* What only the law TABLES has. */
static void hash_tables(struct sha256_ctx *h, const struct calibration *c)
{
  hash_number(h, c->tp);
  hash_texts(h, c, &calibration_table_texts);
  for (size_t i = 0; i < calibration_option_texts.n; i++) {
    const char *text = calibration_at(c, &calibration_option_texts.item[i]);
    if (*text)
      sha256_update(h, strlen(text) + 1, (const uint8_t *)text);
  }
  if (c->host_step_ps)
    hash_number(h, (uint64_t)c->host_step_ps);
  for (int i = 0; i < CALIBRATION_LATTICES; i++) {
    const struct lattice *l = calibration_lattice_of(c, &calibration_lattices[i]);
    for (uint32_t a = 0; a < l->rank; a++)
      hash_numbers(h, l->x[a], l->n[a]);
    hash_numbers(h, l->y, lattice_cells(l));
  }
  hash_number(h, c->nsamples);
  for (uint32_t i = 0; i < c->nsamples; i++) {
    const struct calibration_samples *s = &c->sample[i];
    hash_texts(h, s, &calibration_sample_texts);
    hash_number(h, s->width);
    hash_numbers(h, s->v, (size_t)s->n * s->width);
  }
}

static void hash_curves(struct sha256_ctx *h, const struct calibration *c)
{
  const struct calibration_slots *slots = calibration_curves_of(c);
  for (size_t i = 0; i < slots->n; i++) {
    const struct calibration_curve *v = calibration_at(c, &slots->item[i]);
    hash_numbers(h, v->x, v->n);
    hash_numbers(h, v->y, v->n);
  }
  const struct calibration_grid *g = &c->decode;
  hash_numbers(h, g->rows, g->nrows);
  hash_numbers(h, g->ctx, g->nctx);
  hash_numbers(h, g->ctx_measured, g->nrows);
  hash_numbers(h, g->y, (size_t)g->nrows * g->nctx);
}

void calibration_digest(const struct calibration *c, char hex[65])
{
  struct sha256_ctx h;
  sha256_init(&h);
  hash_number(&h, (uint64_t)c->law);
  hash_texts(&h, c, &calibration_texts);
  hash_counts(&h, c, &calibration_shapes);
  for (size_t i = 0; i < calibration_sizes.n; i++)
    hash_number(&h, *(const uint64_t *)calibration_at(c, &calibration_sizes.item[i]));
  hash_curves(&h, c);
  hash_number(&h, c->nresiduals);
  for (uint32_t i = 0; i < c->nresiduals; i++)
    hash_residual(&h, &c->residual[i]);
  hash_number(&h, c->nsources);
  for (uint32_t i = 0; i < c->nsources; i++)
    hash_texts(&h, &c->source[i], &calibration_source_texts);
  if (c->law == CALIBRATION_TABLES)
    hash_tables(&h, c);
  finish_hex(&h, hex);
}

void calibration_seal(struct calibration *c)
{
  calibration_digest(c, c->digest);
}

/* ------------------------------------------------------------------------------ envelope --- */

static const char envelope_head[] = "lull calibration\nsha256 ";

/* The 512 bytes that stand before an image: two lines, then line feeds. */
static void envelope_make(const unsigned char *image, size_t n, char out[CALIBRATION_ENVELOPE])
{
  struct sha256_ctx h;
  char hex[65];
  sha256_init(&h);
  sha256_update(&h, n, image);
  finish_hex(&h, hex);
  memset(out, '\n', CALIBRATION_ENVELOPE);
  memcpy(out, envelope_head, sizeof envelope_head - 1);
  memcpy(out + sizeof envelope_head - 1, hex, 64);
}

/* Is the file whole? */
static int envelope_check(const unsigned char *data, size_t n, const char *file,
                          struct base_error *e)
{
  char want[CALIBRATION_ENVELOPE];
  if (n < sizeof want || memcmp(data, envelope_head, sizeof envelope_head - 1))
    return base_fail_at(e, BASE_INPUT, file, 0,
                        "not a calibration file: its first 512 bytes are no calibration's "
                        "envelope; make one with lull import or lull calibrate");
  envelope_make(data + sizeof want, n - sizeof want, want);
  if (memcmp(data, want, sizeof want))
    return base_fail_at(e, BASE_INPUT, file, 0,
                        "the file is damaged or cut short: its bytes do not have the SHA-256 "
                        "that its envelope states; get it again, or make it anew with lull import "
                        "or lull calibrate");
  return 0;
}

/* -------------------------------------------------------------------------- open and close --- */

static void free_curves(struct calibration *c, const struct calibration_slots *slots)
{
  for (size_t i = 0; i < slots->n; i++) {
    struct calibration_curve *v = calibration_at(c, &slots->item[i]);
    free(v->x);
    free(v->y);
    *v = (struct calibration_curve){0};
  }
}

void calibration_free(struct calibration *c)
{
  if (!c)
    return;
  free_curves(c, &calibration_curves); /* some are in both lists */
  free_curves(c, &calibration_table_curves);
  for (int i = 0; i < CALIBRATION_LATTICES; i++)
    lattice_free(calibration_lattice_of(c, &calibration_lattices[i]));
  for (uint32_t i = 0; i < c->nsamples; i++)
    free(c->sample[i].v);
  free(c->sample);
  free(c->decode.rows);
  free(c->decode.ctx);
  free(c->decode.y);
  free(c->decode.ctx_measured);
  free(c->residual);
  free(c->source);
  free(c);
}

static int check_digest(const struct calibration *c, const char *file, struct base_error *e)
{
  char hex[65];
  calibration_digest(c, hex);
  if (strcmp(hex, c->digest))
    return base_fail_at(e, BASE_INPUT, file, 0,
                        "the content has the digest %.12s..., but the calibration states %.12s...: "
                        "it was changed after it was sealed",
                        hex, c->digest);
  return 0;
}

static struct calibration *from_bytes(const unsigned char *data, size_t n, const char *file,
                                      struct base_error *e)
{
  if (envelope_check(data, n, file, e))
    return NULL;
  struct calibration *c = calibration_from_image(data + CALIBRATION_ENVELOPE,
                                                 n - CALIBRATION_ENVELOPE, file, e);
  if (c && (calibration_check(c, file, e) || check_digest(c, file, e))) {
    calibration_free(c);
    return NULL;
  }
  return c;
}

struct calibration *calibration_open(const char *name_or_path, struct base_error *e)
{
  if (!describe_is_path(name_or_path, ".h5")) {
    const struct embedded_file *f = describe_embedded("calibration", name_or_path, ".h5", e);
    return f ? from_bytes(f->data, f->size, f->name, e) : NULL;
  }
  size_t n;
  char *data = base_read_file(name_or_path, CALIBRATION_FILE_MAX, &n, e);
  if (!data)
    return NULL;
  struct calibration *c = from_bytes((unsigned char *)data, n, name_or_path, e);
  free(data);
  return c;
}

static int write_bytes(const unsigned char *image, size_t n, const char *path, struct base_error *e)
{
  struct base_outfile o = {0};
  char envelope[CALIBRATION_ENVELOPE];
  if (base_outfile_open(&o, path, e))
    return -1;
  envelope_make(image, n, envelope);
  if (fwrite(envelope, 1, sizeof envelope, o.f) != sizeof envelope ||
      fwrite(image, 1, n, o.f) != n) {
    base_fail_errno(e, "cannot write %s", path);
    base_outfile_abandon(&o);
    return -1;
  }
  return base_outfile_commit(&o, e);
}

int calibration_write(const struct calibration *c, const char *path, struct base_error *e)
{
  unsigned char *image;
  size_t n;
  if (calibration_check(c, path, e) || check_digest(c, path, e))
    return -1;
  if (calibration_to_image(c, &image, &n, e))
    return -1;
  int rc = n > CALIBRATION_FILE_MAX - CALIBRATION_ENVELOPE
               ? base_fail(e, BASE_INPUT, "the calibration is too large for a file: %zu bytes", n)
               : write_bytes(image, n, path, e);
  free(image);
  return rc;
}
