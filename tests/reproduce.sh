#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# What the property test prints of a seed that fails can be pasted: the folder is there, both runs of
# its scenario end as one another, and the seed alone runs again. The seeds are only said to fail, so
# the outputs must be the same bytes.
set -u
srcdir=${srcdir:-.}
. "$srcdir/tests/tap.sh"

: "${LULL:?must name the program}"
test=tests/check_world_property
[ -x "$test" ] || { skip 'reproduce' 'the property test was not built'; done_testing; exit; }

# commands: those that the test printed for its scenario, with the program under test
commands() {
  sed -n "s|^  ./lull |'$LULL' |p" "$scratch/out"
}

# run_printed: runs them; their exits, one a line, to $scratch/codes
run_printed() {
  commands | while read -r line; do
    eval "$line" >>"$scratch/table" 2>>"$scratch/errors"
    echo $?
  done >"$scratch/codes"
}

for seed in 1 5 8 13 59; do # plain, calibrated, with jobs, with a loaded policy, one that breaks off
  folder=$scratch/failing-$seed
  : >"$scratch/errors"
  if LULL_PROPERTY_PRETEND=$seed LULL_PROPERTY_FROM=$seed LULL_PROPERTY_N=1 \
    LULL_PROPERTY_FOLDER=$scratch "$test" >"$scratch/out" 2>&1; then
    fail "seed $seed: was to fail"
    continue
  fi
  run_printed
  [ "$(commands | wc -l)" = 2 ] && [ "$(sort -u "$scratch/codes" | wc -l)" = 1 ]
  check "seed $seed: two commands are printed, and end alike" $? "$scratch/out"
  if [ "$(head -n 1 "$scratch/codes")" = 0 ]; then
    [ -s "$folder/a.csv" ] && cmp "$folder/a.csv" "$folder/b.csv" >>"$scratch/errors" 2>&1 &&
      [ -s "$folder/a.json" ] && cmp "$folder/a.json" "$folder/b.json" >>"$scratch/errors" 2>&1
    check "seed $seed: merged and step by step the same bytes" $? "$scratch/errors"
  else
    [ "$(sort -u "$scratch/errors" | wc -l)" = 1 ]
    check "seed $seed: merged and step by step the same failure" $? "$scratch/errors"
  fi
  line=$(sed -n 's|^  \(srcdir=.*LULL_PROPERTY_SEED=.*\)|\1|p' "$scratch/out")
  [ -n "$line" ] && eval "$line" >"$scratch/again" 2>&1
  check "seed $seed: alone, and not said to fail, it passes" $? "$scratch/again"
done
done_testing
