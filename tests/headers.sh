#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Every header compiles alone: the public ones as C and C++, strictly; the others as C.
set -u
srcdir=${srcdir:-.}
. "$srcdir/tests/tap.sh"

c=${CC:-cc}
strict="-Wall -Wextra -Wpedantic -Werror -fsyntax-only -I$srcdir/include"

compile() { # NAME HEADER COMPILER FLAGS...
  what=$1 header=$2
  shift 2
  echo "#include <$header>" >"$scratch/one.$ext"
  "$@" "$scratch/one.$ext" 2>"$scratch/err"
  check "$header alone as $what" $? "$scratch/err"
}

for h in types policy device; do
  ext=c
  # shellcheck disable=SC2086
  compile C "lull/$h.h" $c -std=c99 $strict
  ext=cc
  if [ "${CXX:-none}" = none ]; then
    skip "lull/$h.h alone as C++" 'there is no C++ compiler'
  else
    # shellcheck disable=SC2086
    compile C++ "lull/$h.h" $CXX -std=c++11 $strict
  fi
done

ext=c
libraries=$(pkg-config --cflags gsl libxml-2.0 jansson nettle zlib libxxhash libpcre2-8 libutf8proc 2>/dev/null)
hdf5=$(pkg-config --cflags hdf5 2>/dev/null || pkg-config --cflags hdf5-serial 2>/dev/null)
for h in $(cd "$srcdir" && find base models sim backend calib cli -name '*.h' | sort); do
  # shellcheck disable=SC2086
  compile C "$h" $c -std=gnu17 -Wall -Wextra -Wno-unused-parameter -Werror -fsyntax-only -I"$srcdir" \
    -I"$srcdir/include" $libraries $hdf5
done
done_testing
