#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Writes, on stdout, a C file that holds the named files as a table of struct embedded_file.
#   embed.sh SRCDIR NAME...     NAME is a path below SRCDIR; the order given is kept
set -eu
LC_ALL=C
export LC_ALL
srcdir=$1
shift

echo '/* Made by build-aux/embed.sh from the files named below. */'
echo '#include "models/embedded.h"'
n=0
for name; do
  [ -r "$srcdir/$name" ] || { echo "embed.sh: cannot read $srcdir/$name" >&2; exit 1; }
  printf '\n/* %s */\nstatic const unsigned char file_%d[] = {\n' "$name" "$n"
  od -An -v -tu1 "$srcdir/$name" | sed 's/^  *//; s/  */,/g; s/$/,/'
  echo '0};'
  n=$((n + 1))
done

printf '\nconst struct embedded_file embedded_files[] = {\n'
n=0
for name; do
  printf '  {"%s", file_%d, sizeof file_%d - 1},\n' "$name" "$n" "$n"
  n=$((n + 1))
done
echo '  {0, 0, 0}};'
echo "const size_t embedded_count = $n;"
