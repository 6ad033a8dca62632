#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Runs every fuzz target over its corpus: inputs that once broke something, and one of each kind.
set -u
srcdir=${srcdir:-.}
. "$srcdir/tests/tap.sh"

for t in ${FUZZ_TARGETS:?must name the targets}; do
  for f in "$srcdir/tests/fuzz/corpus/$t"/*; do
    [ -f "$f" ] || { fail "$t: there is no corpus"; continue; }
    "tests/fuzz/replay_$t" "$f" >"$scratch/out" 2>&1
    check "$t: $(basename "$f")" $? "$scratch/out"
  done
done
done_testing
