/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Writing HDF5 files whose bytes depend on their content only: no object keeps times, and the
 * format is bounded, whatever the library's version. A failure is noted and stops no caller: every
 * later call is harmless, and `bad` is looked at where it matters, at the latest at the close.
 *
 *   struct base_outfile out;
 *   struct base_h5_outfile under;
 *   struct base_h5 h;
 *   base_outfile_open(&out, "file.h5", e);
 *   base_h5_create(&h, out.path, base_h5_over(&h, base_h5_access(&h), &out, &under));
 *   hid_t g = base_h5_group(&h, h.file, "samples");
 *   base_h5_put_number(&h, g, "version", 1);
 *   base_h5_close_group(g);
 *   if (base_h5_close(&h) || under.error) ...
 *   base_outfile_commit(&out, e);
 */
#ifndef BASE_H5_H
#define BASE_H5_H

#include <hdf5.h>
#include <stdint.h>

#include "base/outfile.h"

/* A file that is being written, and what every write needs. */
struct base_h5 {
  hid_t file;         /* -1: could not be made */
  hid_t text;         /* variable-length UTF-8: h5py reads it as str */
  int bad;            /* something failed */
  H5E_auto2_t report; /* how the library reported errors before: put back at the close */
  void *report_data;
};

/* Notes a failure. */
static inline void base_h5_note(struct base_h5 *h, int failed)
{
  h->bad |= failed;
}

/* Starts *h, silences the library's own messages, and returns a file access list within the bounds
 * of the format, to which a driver may be added; -1 (noted) on failure. base_h5_create takes it. */
hid_t base_h5_access(struct base_h5 *h);
/*
 * Where HDF5 writes when it writes to an output file. The library does not survive a write that
 * fails (1.10 crashes at the process's end), so it is never told: the first failure is kept here,
 * and what it writes from then on goes nowhere. Look at `error` after every step that may have
 * written.
 */
struct base_h5_outfile {
  int fd;    /* of the output file, borrowed */
  int error; /* errno of the first write or read that failed; 0: none */
};
/* Sets *under up and makes it the driver of an access list, which is returned. `o` was opened with
 * a temporary file (o->tmp); both must outlive base_h5_close. */
hid_t base_h5_over(struct base_h5 *h, hid_t access, struct base_outfile *o,
                   struct base_h5_outfile *under);
/* Creates the file, replacing what has its name, and releases the access list. h->bad on failure;
 * base_h5_close is due in any case. */
void base_h5_create(struct base_h5 *h, const char *name, hid_t access);
/* Writes out all that is open and closes it; 0, or -1 if anything failed since base_h5_access. */
int base_h5_close(struct base_h5 *h);

/* An attribute of one text or number; `at`: file, group or dataset. */
void base_h5_put_text(struct base_h5 *h, hid_t at, const char *name, const char *text);
void base_h5_put_number(struct base_h5 *h, hid_t at, const char *name, int64_t value);
/* A new group under `at`, or -1 (noted). */
hid_t base_h5_group(struct base_h5 *h, hid_t at, const char *name);
void base_h5_close_group(hid_t group); /* -1 is fine */
/* A new list of dataset properties, without times, to be closed by H5Pclose; -1 (noted). */
hid_t base_h5_dataset_list(struct base_h5 *h);

#endif
