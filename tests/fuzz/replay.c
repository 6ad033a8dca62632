/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Feeds files to a fuzz target, one after the other: the corpus without a fuzzer. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path)
{
  static uint8_t data[4 << 20];
  FILE *f = fopen(path, "rb");
  if (!f) {
    perror(path);
    return -1;
  }
  size_t size = fread(data, 1, sizeof data, f);
  int bad = ferror(f);
  if (bad)
    fprintf(stderr, "%s: cannot be read\n", path);
  fclose(f);
  return bad ? -1 : LLVMFuzzerTestOneInput(data, size);
}

int main(int argc, char **argv)
{
  int bad = 0;
  for (int i = 1; i < argc; i++)
    bad |= run_file(argv[i]) != 0;
  return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
