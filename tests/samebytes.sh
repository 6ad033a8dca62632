#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# The same input gives the same bytes: run twice, built without optimisation, and step by step.
set -u
srcdir=${srcdir:-.}
. "$srcdir/tests/tap.sh"

: "${LULL:?must name the program}"
TERM=dumb
export TERM

results() { # NAME PROGRAM ARGS...: runs and keeps JSON, requests and table under NAME
  to=$scratch/$1
  shift
  "$@" --json "$to.json" --requests "$to.csv" --no-sweeps >"$to.txt" 2>"$to.err"
  code=$?
  [ $code -le 1 ] || { echo "# exit $code: $*"; head -n 5 "$to.err" | sed 's/^/# /'; }
}

same() { # WHAT NAME NAME
  for kind in json csv txt; do
    cmp -s "$scratch/$2.$kind" "$scratch/$3.$kind" && [ -s "$scratch/$2.$kind" ]
    check "$1: $kind" $?
  done
}

for scenario in c4-live-batch "$srcdir/tests/cli/small.xml"; do
  name=$(basename "$scenario" .xml)
  results first "$LULL" run "$scenario" --seed 17
  results again "$LULL" run "$scenario" --seed 17
  same "$name, run twice" first again
  if [ -x ./lull-O0 ]; then
    results plain ./lull-O0 run "$scenario" --seed 17
    same "$name, without optimisation" first plain
  else
    skip "$name, without optimisation" 'this build has no second program'
  fi
done

results first "$LULL" run "$srcdir/tests/cli/small.xml"
results steps "$LULL" run "$srcdir/tests/cli/small.xml" --no-fast-forward
same 'step by step' first steps
done_testing
