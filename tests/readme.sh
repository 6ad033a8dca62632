#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# What the README shows is what the program does: its tables are really printed, its policy compiles
# and runs. The table of --explain-fit takes a minute: only where LULL_TEST_LONG is set.
set -u
srcdir=${srcdir:-.}
. "$srcdir/tests/tap.sh"

: "${LULL:?must name the program}"
readme=$srcdir/README.md
here=$PWD
TERM=dumb
export TERM

block() { # FENCE N: the N-th block that a line "```FENCE" opens
  awk -v fence="\`\`\`$1" -v want="$2" '
    $0 == fence { n++; inside = n == want; next }
    $0 == "```" { inside = 0 }
    inside' "$readme"
}

shown() { # WHAT N COMMAND...: every line of the N-th text block is printed by the command
  what=$1
  block text "$2" >"$scratch/shown"
  shift 2
  "$@" >"$scratch/printed" 2>"$scratch/err"
  : >"$scratch/missing"
  while IFS= read -r line; do
    grep -Fxq -e "$line" "$scratch/printed" || printf 'not printed: %s\n' "$line" >>"$scratch/missing"
  done <"$scratch/shown"
  [ -s "$scratch/shown" ] && [ ! -s "$scratch/missing" ]
  check "$what" $? "$scratch/missing"
}

shown 'the table of C4' 1 "$LULL" run c4-live-batch --no-sweeps
if [ -n "${LULL_TEST_LONG:-}" ]; then
  shown 'the table of --explain-fit' 2 "$LULL" run c4-live-batch --no-sweeps --explain-fit
else
  skip 'the table of --explain-fit' 'it takes a minute; make check-long'
fi

awk '/^    cat >measured.csv/ { on = 1 } on { print substr($0, 5) } /^    lull validate/ { on = 0 }' "$readme" \
  >"$scratch/measured.sh"
grep -q '^lull validate' "$scratch/measured.sh" &&
  (cd "$scratch" && lull() { (cd "$here" && "$LULL" "$1" "$srcdir/$2" "$3" "$scratch/$4" "$5" "$6"); } &&
    . ./measured.sh) >"$scratch/out" 2>&1
check 'a measured run is compared' $? "$scratch/out"

block c 1 >"$scratch/first.c"
${CC:-cc} -shared -fPIC -Wall -Wextra -Werror -I"$srcdir/include" -o "$scratch/first.so" "$scratch/first.c" \
  2>"$scratch/err"
check 'the policy compiles' $? "$scratch/err"
sed "s|policy=\"fcfs\"|policy=\"$scratch/first.so\"|" "$srcdir/tests/cli/small.xml" >"$scratch/s.xml"
grep -q first.so "$scratch/s.xml" && "$LULL" policies "$scratch/first.so" >"$scratch/out" 2>&1
check 'the policy loads' $? "$scratch/out"
"$LULL" run "$scratch/s.xml" --no-sweeps >"$scratch/out" 2>&1
[ $? -le 1 ]
check 'the policy runs' $? "$scratch/out"

done_testing
