#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# The bare loop that speed is measured against does the same work: each request ends at the same
# picosecond as in lull, and step by step. No times are looked at.
set -u
srcdir=${srcdir:-.}
. "$srcdir/tests/tap.sh"

: "${LULL:?must name the program}" "${BARELOOP:?must name the bare loop}"

digest() { # COMMAND...: the last word of its row
  "$@" 2>>"$scratch/err" | awk 'length($NF) == 16 && $NF ~ /^[0-9a-f]+$/ { print $NF }'
}

n=3000
for w in W1 W2 W3 W4 W5 out-10 out-1000 run-8 run-256; do
  : >"$scratch/err"
  lull=$(digest "$LULL" bench --workload $w --requests $n --repeat 1)
  if "$LULL" bench --workload $w --requests 1 --repeat 1 2>&1 | grep -q 'public data set'; then
    skip "$w: the bare loop agrees" 'the data set is not there'
    continue
  fi
  bare=$(digest "$BARELOOP" $w $n)
  step=$(digest "$BARELOOP" --step $w $n)
  printf 'lull %s\nbare loop %s\nstep by step %s\n' "$lull" "$bare" "$step" >>"$scratch/err"
  [ -n "$lull" ] && [ "$lull" = "$bare" ] && [ "$bare" = "$step" ]
  check "$w: the bare loop agrees" $? "$scratch/err"
done

plain=$(digest "$LULL" bench --workload W1 --requests $n --repeat 1)
logged=$(digest "$LULL" bench --workload W1-log --requests $n --repeat 1 --no-fork)
[ -n "$plain" ] && [ "$plain" = "$logged" ]
check 'the log, or a child process, changes nothing' $?
done_testing
