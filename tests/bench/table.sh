#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# make bench: the table of `lull bench` with, beside each row, the bare loop on the same requests in
# the same run, and how many times slower lull is. Several minutes.
#   LULL, BARELOOP   the programs
#   BENCH_SIZES      requests a run (default: 10000 1000000 10000000)
# Where both programs must agree on when each request ends, and do, it says "same".
set -u
LC_ALL=C
export LC_ALL
: "${LULL:?must name the program}" "${BARELOOP:?must name the bare loop}"
sizes=${BENCH_SIZES:-10000 1000000 10000000}
scratch=$(mktemp -d) || exit 6
trap 'rm -rf "$scratch"' EXIT
trap 'exit 5' HUP INT TERM

bench() { # WORKLOAD REQUESTS [OPTION...]: the table of lull bench into out
  w=$1 n=$2
  shift 2
  "$LULL" bench --workload "$w" --requests "$n" "$@" >"$scratch/out" 2>"$scratch/err" || {
    printf '%-9s %s requests: skipped: ' "$w" "$n"
    sed -n '1s/^lull: //p' "$scratch/err"
    return 1
  }
  [ -f "$scratch/head" ] || {
    sed -n 1p "$scratch/out" >"$scratch/head"
    printf '%s %16s %7s %7s %s\n' "$(cat "$scratch/head")" 'Bare loop' Spread Times 'Ends'
  }
}

# The two programs by turns, so that what else the machine does meets both. The row is that of lull's
# median run; how many times slower is the median over the turns.
paired() { # WORKLOAD REQUESTS
  : >"$scratch/turns"
  for turn in 1 2 3 4 5 6 7; do
    [ "$2" -lt 10000000 ] || [ "$turn" -le 3 ] || break
    bench "$1" "$2" --repeat 1 || return
    "$BARELOOP" "$1" "$2" 1 | awk '{ printf "%s %s ", $3, $6 }' >>"$scratch/turns"
    sed -n 2p "$scratch/out" >>"$scratch/turns"
  done
  awk '
    function median(of, n,   i, j, x) {
      for (i = 2; i <= n; i++) for (j = i; j > 1 && of[j] < of[j - 1]; j--) {
        x = of[j]; of[j] = of[j - 1]; of[j - 1] = x }
      return of[int((n + 1) / 2)] }
    function spread(of, n) { return 100 * (1 / of[1] - 1 / of[n]) * of[int((n + 1) / 2)] } # of times
    { for (i = 3; i <= NF; i++) if ($i == "Mreq/s") rate = $(i - 1)
      bare[NR] = $1; times[NR] = $1 / rate; all[NR] = rate; digest = $2; ends = $NF
      sub(/^[^ ]+ [^ ]+ /, ""); line[rate] = $0 }
    END {
      m = median(all, NR)
      row = line[m]
      sub(/ +[0-9.]+%/, sprintf("%7.1f%%", spread(all, NR)), row)
      b = median(bare, NR)
      printf "%s %9.2f Mreq/s %6.1f%% %7.1f %s\n", row, b, spread(bare, NR), median(times, NR),
        row ~ /^W6/ ? "-" : ends == digest ? "same" : "DIFFER" }' "$scratch/turns" |
    tee -a "$scratch/rows"
}

row() { # WORKLOAD REQUESTS
  case $1 in
  W7|*-*[a-z]) bench "$1" "$2" && sed -n 2p "$scratch/out" | tee -a "$scratch/rows" ;;
  *) paired "$1" "$2" ;;
  esac
}

for w in W1 W2 W3 W4 W5 W6 W7; do
  for n in $sizes; do
    row "$w" "$n"
  done
done
# Ten times as many in the same memory; W1 and W2 would last longer than a time can hold.
[ "${sizes##* }" -lt 10000000 ] || row W4 100000000
middle=$(for n in $sizes; do [ "$n" -le 1000000 ] && echo "$n"; done | tail -n 1)
for w in W1-log W1-tables out-10 out-1000 run-8 run-256; do
  row "$w" "${middle:-10000}"
done
sed -n '4,$p' "$scratch/out"

# What is aimed at; times are reported and never a test.
awk '
  function rate(i) { for (i = 2; i <= NF; i++) if ($i ~ /req\/s$/) return $i == "req/s" ? $(i - 1) / 1e6 : $(i - 1) }
  function size(i) { for (i = 2; i <= NF; i++) if ($i ~ /req\/s$/) return $(i - 2) }
  function aim(what, value, bound, below) {
    printf "  %-46s %8.2f  %s %g: %s\n", what, value, below ? "<=" : ">=", bound,
      (below ? value <= bound : value >= bound) ? "yes" : "no" }
  function over(a, b) { return a > b ? a / b : b / a }
  { n = size(); r[$1, n] = rate(); last[$1] = n > last[$1] ? n : last[$1]
    if ($(NF - 1) ~ /^[0-9.]+$/) times[$1, n] = $(NF - 1)
    if (n < 2000000) at[$1] = n
    for (i = NF; i > 1; i--) if (length($i) == 16 && $i ~ /^[0-9a-f]+$/) { peak[$1, n] = $(i - 2); break } }
  END {
    print "\nAims"
    for (i = 1; i <= 3; i++) if (at["W" i]) aim("W" i " Mreq/s", r["W" i, at["W" i]], 1)
    for (i = 1; i <= 6; i++) if (at["W" i])
      aim("W" i " times slower than the bare loop", times["W" i, at["W" i]], i == 6 ? 10 : 6, 1)
    if (at["W7"]) aim("W7 Mreq/s", r["W7", at["W7"]], 0.1)
    aim("10 against 1,000 output tokens", over(r["out-10", at["out-10"]], r["out-1000", at["out-1000"]]), 1.5, 1)
    aim("8 against 256 running", over(r["run-8", at["run-8"]], r["run-256", at["run-256"]]), 2, 1)
    for (i = 1; i <= 7; i++) if (last["W" i]) {
      w = "W" i; aim(w " peak MB of " last[w] " requests", peak[w, last[w]], 300, 1) }
  }' "$scratch/rows"
! grep -q DIFFER "$scratch/rows"
