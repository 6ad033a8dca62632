/* SPDX-License-Identifier: GPL-3.0-or-later */
/* An HDF5 file driver on the descriptor of an output file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/h5.h"

#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

/* An open file, as the library sees it. */
struct driven {
  H5FD_t pub; /* the library's; first */
  struct base_h5_outfile *under;
  haddr_t allocated, end; /* end of what the library uses; of what it has written */
};

/* What goes along with an access list; copied by the library. */
struct settings {
  struct base_h5_outfile *under;
};

static H5FD_t *driven_open(const char *name, unsigned flags, hid_t access, haddr_t max)
{
  const struct settings *s = H5Pget_driver_info(access);
  struct driven *d = s ? calloc(1, sizeof *d) : NULL;
  (void)name, (void)flags, (void)max;
  if (!d)
    return NULL;
  d->under = s->under;
  return &d->pub;
}

static herr_t driven_close(H5FD_t *file)
{
  free(file);
  return 0;
}

static herr_t driven_query(const H5FD_t *file, unsigned long *flags)
{
  (void)file;
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
           H5FD_FEAT_AGGREGATE_SMALLDATA;
  return 0;
}

static haddr_t driven_allocated(const H5FD_t *file, H5FD_mem_t type)
{
  (void)type;
  return ((const struct driven *)file)->allocated;
}

static herr_t driven_allocate(H5FD_t *file, H5FD_mem_t type, haddr_t end)
{
  (void)type;
  ((struct driven *)file)->allocated = end;
  return 0;
}

static haddr_t driven_end(const H5FD_t *file, H5FD_mem_t type)
{
  (void)type;
  return ((const struct driven *)file)->end;
}

/* Keeps the reason of a failure. */
static void fail(struct driven *d)
{
  if (!d->under->error)
    d->under->error = errno ? errno : EIO;
}

/* What was never written reads as zeros. */
static herr_t driven_read(H5FD_t *file, H5FD_mem_t type, hid_t transfer, haddr_t at, size_t size,
                          void *buffer)
{
  struct driven *d = (struct driven *)file;
  unsigned char *to = buffer;
  (void)type, (void)transfer;
  while (size) {
    ssize_t n = pread(d->under->fd, to, size, (off_t)at);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      fail(d);
    if (n <= 0) {
      memset(to, 0, size);
      break;
    }
    to += n;
    at += (haddr_t)n;
    size -= (size_t)n;
  }
  return 0;
}

static herr_t driven_write(H5FD_t *file, H5FD_mem_t type, hid_t transfer, haddr_t at, size_t size,
                           const void *buffer)
{
  struct driven *d = (struct driven *)file;
  const unsigned char *from = buffer;
  (void)type, (void)transfer;
  if (at + size > d->end)
    d->end = at + size;
  while (size && !d->under->error) {
    ssize_t n = pwrite(d->under->fd, from, size, (off_t)at);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0) {
      fail(d);
      break;
    }
    from += n;
    at += (haddr_t)n;
    size -= (size_t)n;
  }
  return 0;
}

/* The file ends where the library's use of it ends. */
static herr_t driven_truncate(H5FD_t *file, hid_t transfer, hbool_t closing)
{
  struct driven *d = (struct driven *)file;
  (void)transfer, (void)closing;
  if (d->end == d->allocated)
    return 0;
  if (!d->under->error && ftruncate(d->under->fd, (off_t)d->allocated))
    fail(d);
  d->end = d->allocated;
  return 0;
}

static const H5FD_class_t driver = {
#ifdef H5FD_CLASS_VERSION
    .version = H5FD_CLASS_VERSION,
    .value = 600, /* any beyond those that are reserved */
#endif
    .name = "lull-outfile",
    .maxaddr = INT64_MAX,
    .fc_degree = H5F_CLOSE_STRONG,
    .fapl_size = sizeof(struct settings),
    .open = driven_open,
    .close = driven_close,
    .query = driven_query,
    .get_eoa = driven_allocated,
    .set_eoa = driven_allocate,
    .get_eof = driven_end,
    .read = driven_read,
    .write = driven_write,
    .truncate = driven_truncate,
    .fl_map = H5FD_FLMAP_DICHOTOMY};

hid_t base_h5_over(struct base_h5 *h, hid_t access, struct base_outfile *o,
                   struct base_h5_outfile *under)
{
  const struct settings s = {under};
  *under = (struct base_h5_outfile){.fd = fileno(o->f)};
  hid_t id = H5FDregister(&driver);
  base_h5_note(h, id < 0 || H5Pset_driver(access, id, &s) < 0);
  if (id >= 0)
    H5FDunregister(id); /* the list keeps it */
  return access;
}
