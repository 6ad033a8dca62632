#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Instructions a request, counted by callgrind: the same on a busy machine as on an idle one. The
# slope between two sizes, so that the start of the process does not count.
#   instructions.sh            compare with instructions.csv: fails if more than 10% above the figure
#                              for this compiler and C library; only prints where there is none
#   instructions.sh --update   write the figures of this compiler and C library there
#   LULL, CC                   the program, and what it was built with
set -u
LC_ALL=C
export LC_ALL
: "${LULL:?must name the program}"
here=$(cd "$(dirname "$0")" && pwd)
figures=${INSTRUCTIONS:-$here/instructions.csv}
few=1000 many=10000 workloads='W1 W6'
command -v valgrind >/dev/null 2>&1 || { echo 'instructions: skipped: there is no valgrind'; exit 77; }
scratch=$(mktemp -d) || exit 6
trap 'rm -rf "$scratch"' EXIT
trap 'exit 5' HUP INT TERM

compiler=$(${CC:-gcc} --version | sed -n 1p | tr -d ',')
libc=$(getconf GNU_LIBC_VERSION 2>/dev/null || echo unknown)

count() { # WORKLOAD REQUESTS: instructions in all
  valgrind --tool=callgrind --callgrind-out-file="$scratch/$1.$2" \
    "$LULL" bench --workload "$1" --requests "$2" --repeat 1 --no-fork >"$scratch/out" 2>"$scratch/err" || {
    cat "$scratch/err" >&2
    return 1
  }
  sed -n 's/^\(totals\|summary\): *\([0-9]*\).*/\2/p' "$scratch/$1.$2" | tail -n 1
}

functions() { # FILE: instructions and name of every function
  callgrind_annotate --auto=no --threshold=100 "$1" 2>/dev/null | awk '
    /^[ 0-9,]+ +\([ 0-9.]+%\) .*:/ {
      c = $1; gsub(",", "", c)
      sub(/^[ 0-9,]+ +\([ 0-9.]+%\) +/, ""); sub(/ \[.*/, ""); sub(/^.*:/, "")
      print c, $0 }'
}

costliest() { # WORKLOAD INSTRUCTIONS: the five that took most of what a request takes
  functions "$scratch/$1.$few" >"$scratch/few"
  functions "$scratch/$1.$many" >"$scratch/many"
  awk -v n=$((many - few)) -v all="$2" '
    { c = $1; $1 = "" }
    FNR == NR { few[$0] += c; next }
    { many[$0] += c }
    END { for (f in many) {
      x = (many[f] - few[f]) / n
      printf "%8.0f %5.1f%% %s\n", x, 100 * x / all, f } }' "$scratch/few" "$scratch/many" |
    sort -rn | head -n 5
}

bad=0
[ "${1:-}" != --update ] || {
  [ -f "$figures" ] || echo 'workload,compiler,libc,instructions a request' >"$figures"
  grep -vF ",$compiler,$libc," "$figures" >"$scratch/new"
}
for w in $workloads; do
  a=$(count "$w" $few) && b=$(count "$w" $many) || { echo "instructions: $w: failed"; bad=1; continue; }
  now=$(((b - a) / (many - few)))
  was=$(awk -F, -v w="$w" -v c="$compiler" -v l="$libc" '$1 == w && $2 == c && $3 == l { print $4 }' "$figures")
  if [ "${1:-}" = --update ]; then
    echo "$w,$compiler,$libc,$now" >>"$scratch/new"
    verdict=written
  elif [ -z "$was" ]; then
    verdict="ok (no figure for $compiler, $libc)"
  elif [ $((now * 10)) -gt $((was * 11)) ]; then
    verdict="failed: more than 10% above $was" bad=1
  else
    verdict="ok ($was on record)"
  fi
  echo "instructions: $w: $now a request: $verdict"
  costliest "$w" $now
done
[ "${1:-}" != --update ] || [ $bad != 0 ] || cp "$scratch/new" "$figures"
exit $bad
