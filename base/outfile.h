/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Files that are either whole or not there: written under a temporary name beside the target,
 * flushed, then renamed. Where the target is no regular file (/dev/stdout, /dev/full, a pipe) it
 * is written directly. Every error of write, flush and close is reported.
 */
#ifndef BASE_OUTFILE_H
#define BASE_OUTFILE_H

#include <stdio.h>

#include "base/error.h"

struct base_outfile {
  FILE *f;        /* write here; a temporary file's descriptor may also be read */
  char *path;     /* owned */
  char *tmp;      /* owned; NULL when written directly */
};

int base_outfile_open(struct base_outfile *o, const char *path, struct base_error *e);
/* Flush, sync, rename; on failure nothing new is left behind. Releases o in both cases. */
int base_outfile_commit(struct base_outfile *o, struct base_error *e);
/* Removes the temporary; fine on a zeroed struct. */
void base_outfile_abandon(struct base_outfile *o);

/* Reads a whole file (at most max bytes) into a new NUL-terminated buffer; NULL on failure. */
char *base_read_file(const char *path, size_t max, size_t *size, struct base_error *e);
/* Lower-case hex SHA-256 (64 characters and NUL) of a file's bytes. */
int base_sha256_file(const char *path, char hex[65], struct base_error *e);

#endif
