#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Deliberate mistakes: each must make the property test fail, else that test proves little.
#
# mutants/NAME.sed edits a copy of one source file; its second line is "# FILE: what is wrong". A third
# line "# noticed by SUITE" names another suite, where the property test is no judge: of policies it
# only knows that two worlds obey them. The copy is compiled and linked before the library that holds
# the right one. A mutation that no longer changes its file, or does not compile, is a failure too. All
# of them run where LULL_TEST_LONG is set, else those of `quick`; arguments name others.
set -u
srcdir=${srcdir:-.}
. "$srcdir/tests/tap.sh"

: "${LULL:?must name the program}"
: "${MUTANT_COMPILE:?must compile C files for this build}"
: "${MUTANT_LIBS:?must name what the property test is linked with}"
quick='f2-submit-early f3-boundary-at-now f6-shares-a-submit f11-growth-at-the-border
  f19-gap-of-resumed-rows preempted-goes-last rules-sarathi-needed-only rules-vllm-goes-on
  engine-swap-one-page'
seeds=${LULL_MUTATION_SEEDS:-2000}
seconds=120

# build SUITE: it, with $scratch/mutant.c in the place of the file it is a copy of
build() {
  $MUTANT_COMPILE -w -DLULL_POLICY_BUILTIN -I"$srcdir/policies" -c "$scratch/mutant.c" \
    -o "$scratch/mutant.o" >"$scratch/out" 2>&1 &&
    $MUTANT_COMPILE -o "$scratch/mutant" "tests/$1.o" "$scratch/mutant.o" \
      libtesting.a liblull.a $MUTANT_LIBS >"$scratch/out" 2>&1
}

# run_seeds N: 0 they pass, 124 or more not within the time, else one does not
run_seeds() {
  rm -rf "$scratch"/failing-*
  CK_FORK=no LULL_PROPERTY_N=$1 LULL_PROPERTY_STOP=1 LULL_PROPERTY_FOLDER=$scratch \
    timeout -k 1 "$seconds" "$scratch/mutant" >"$scratch/out" 2>&1
}

# run_suite: likewise; a test is a process of its own, since a mistake may make what follows crash
run_suite() {
  CK_FORK=yes timeout -k 1 "$seconds" "$scratch/mutant" >"$scratch/out" 2>&1
}

# written: the scenario of the seed that failed is there, and is one
written() {
  "$LULL" check "$scratch"/failing-*/scenario.xml >"$scratch/checked" 2>&1
}

try() { # NAME
  script=$srcdir/tests/mutants/$1.sed
  about=$(sed -n '2s/^# //p' "$script")
  file=${about%%:*}
  name="$1 (${about#*: })"
  suite=$(sed -n '3s/^# noticed by //p' "$script")
  if ! sed -f "$script" "$srcdir/$file" >"$scratch/mutant.c" 2>"$scratch/out"; then
    fail "$name: no script for sed" "$scratch/out"
  elif cmp -s "$srcdir/$file" "$scratch/mutant.c"; then
    fail "$name: changes nothing in $file; bring it up to date"
  elif ! build "${suite:-check_world_property}"; then
    fail "$name: does not compile" "$scratch/out"
  elif [ -n "$suite" ]; then
    run_suite
    code=$?
    if [ $code -ne 0 ] && [ $code -lt 124 ]; then
      pass "$name"
    else
      fail "$name: not noticed by $suite, exit code $code" "$scratch/out"
    fi
  else
    run_seeds "$seeds"
    code=$?
    if [ $code -eq 0 ] || grep -q 'no longer reach' "$scratch/out"; then
      fail "$name: not noticed in $seeds seeds" "$scratch/out"
    elif [ $code -eq 124 ] || [ $code -eq 137 ]; then
      fail "$name: neither noticed nor over in $seconds s" "$scratch/out"
    elif grep -q '^seed ' "$scratch/out" && ! written; then
      fail "$name: noticed, but the seed's scenario was not written" "$scratch/checked"
    else
      pass "$name"
      sed -n '/^seed /{s/^/# /p;q;}' "$scratch/out"
    fi
  fi
}

if [ ! -f tests/check_world_property.o ]; then
  skip 'mutations' 'the property test was not built'
  done_testing
  exit
fi
command -v timeout >/dev/null || { skip 'mutations' 'no timeout command'; done_testing; exit; }

# The way they are built is right if a copy without a mistake passes.
cp "$srcdir/sim/world/step.c" "$scratch/mutant.c"
build check_world_property && run_seeds 100
check 'no mutation' $? "$scratch/out"

if [ $# -gt 0 ]; then
  names=$*
elif [ -n "${LULL_TEST_LONG:-}" ]; then
  names=$(cd "$srcdir/tests/mutants" && ls ./*.sed | sed 's|^\./||; s|\.sed$||')
else
  names=$quick
fi
for name in $names; do
  try "$name"
done
done_testing
