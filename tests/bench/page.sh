#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# make speed-page: measures anew and puts the results between the marks of the page. The figures on
# record for the instruction count are renewed too.
set -u
LC_ALL=C
export LC_ALL
page=${1:?must name the page}
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d) || exit 6
trap 'rm -rf "$scratch"' EXIT
trap 'exit 5' HUP INT TERM

{
  sed -n 's/^model name[^:]*: /processor    /p' /proc/cpuinfo 2>/dev/null | sed -n 1p
  echo "cores        $(getconf _NPROCESSORS_ONLN)"
  echo "compiler     $(${CC:-gcc} --version | sed -n 1p), -O2"
  echo "C library    $(getconf GNU_LIBC_VERSION 2>/dev/null || echo unknown)"
} >"$scratch/machine"
sh "$here/table.sh" >"$scratch/all" || { cat "$scratch/all"; exit 1; }
# the notes between table and aims stand in the page itself
awk '/^Cost of a request/ || /^One process/ { skip = 1 } /^Aims/ { skip = 0; print "" } !skip' "$scratch/all" >"$scratch/table"
sh "$here/instructions.sh" --update >"$scratch/instructions" || exit 1
awk -v dir="$scratch" '
  /^<!-- end -->$/ { inside = 0 }
  !inside
  /^<!-- (machine|table|instructions) -->$/ {
    inside = 1
    print "```text"
    f = dir "/" $2
    while ((getline line < f) > 0) print line
    print "```" }' "$page" >"$scratch/page" && cp "$scratch/page" "$page"
