/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A folder for the files that a suite writes: made and removed with all it holds by a fixture. */
#ifndef TESTS_SCRATCH_H
#define TESTS_SCRATCH_H

#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char scratch_folder[64];

/* A path in the folder; up to eight may be held at once. */
static inline const char *scratch_path(const char *name)
{
  static char path[8][sizeof scratch_folder + 256];
  static unsigned next;
  next = (next + 1) % 8;
  snprintf(path[next], sizeof path[next], "%s/%s", scratch_folder, name);
  return path[next];
}

static inline void scratch_open(void)
{
  strcpy(scratch_folder, "check-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(scratch_folder));
}

static inline void scratch_close(void)
{
  DIR *d = opendir(scratch_folder);
  ck_assert_ptr_nonnull(d);
  for (const struct dirent *f; (f = readdir(d)) != NULL;)
    if (strcmp(f->d_name, ".") && strcmp(f->d_name, ".."))
      unlink(scratch_path(f->d_name));
  closedir(d);
  rmdir(scratch_folder);
}

#endif
