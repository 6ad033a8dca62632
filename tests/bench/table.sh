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
: >"$scratch/ratios"

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

# The programs by turns, so that what else the machine does meets all alike. A row is that of lull's
# median run; how many times slower it is than the bare loop, and how many times faster a first workload
# is than a second, are medians over the turns.
paired() { # REQUESTS WORKLOAD [WORKLOAD]
  n=$1
  shift
  : >"$scratch/turns"
  for turn in 1 2 3 4 5 6 7; do
    [ "$n" -lt 10000000 ] || [ "$turn" -le 3 ] || break
    for w in "$@"; do
      bench "$w" "$n" --repeat 1 || return
      "$BARELOOP" "$w" "$n" 1 | awk '{ printf "%s %s ", $3, $6 }' >>"$scratch/turns"
      sed -n 2p "$scratch/out" >>"$scratch/turns"
    done
  done
  awk -v kinds=$# -v ratios="$scratch/ratios" '
    function median(of, n,   i, j, x) {
      for (i = 2; i <= n; i++) for (j = i; j > 1 && of[j] < of[j - 1]; j--) {
        x = of[j]; of[j] = of[j - 1]; of[j - 1] = x }
      return of[int((n + 1) / 2)] }
    function spread(of, n) { return 100 * (1 / of[1] - 1 / of[n]) * of[int((n + 1) / 2)] } # of times
    { for (i = 3; i <= NF; i++) if ($i == "Mreq/s") rate = $(i - 1)
      k = (NR - 1) % kinds; t = int((NR - 1) / kinds) + 1
      bare[k, t] = $1; all[k, t] = rate; digest[k] = $2; ends[k] = $NF; name[k] = $3
      sub(/^[^ ]+ [^ ]+ /, ""); line[k, rate] = $0 }
    END {
      for (k = 0; k < kinds; k++) {
        for (i = 1; i <= t; i++) { r[i] = all[k, i]; b[i] = bare[k, i]; q[i] = b[i] / r[i] }
        m = median(r, t)
        row = line[k, m]
        sub(/ +[0-9.]+%/, sprintf("%7.1f%%", spread(r, t)), row)
        x = median(b, t)
        printf "%s %9.2f Mreq/s %6.1f%% %7.1f %s\n", row, x, spread(b, t), median(q, t),
          row ~ /^W6/ ? "-" : ends[k] == digest[k] ? "same" : "DIFFER" }
      if (kinds == 2) {
        for (i = 1; i <= t; i++) q[i] = all[0, i] / all[1, i]
        print name[0], name[1], median(q, t) >>ratios } }' "$scratch/turns" |
    tee -a "$scratch/rows"
}

row() { # REQUESTS WORKLOAD [WORKLOAD]
  case $2 in
  W7|*-*[a-z]) bench "$2" "$1" && sed -n 2p "$scratch/out" | tee -a "$scratch/rows" ;;
  *) paired "$@" ;;
  esac
}

for w in W1 W2 W3 W4 W5 W6 W7; do
  for n in $sizes; do
    row "$n" "$w"
  done
done
# Ten times as many in the same memory; W1 and W2 would last longer than a time can hold.
[ "${sizes##* }" -lt 10000000 ] || row 100000000 W4
middle=$(for n in $sizes; do [ "$n" -le 1000000 ] && echo "$n"; done | tail -n 1)
middle=${middle:-10000}
row "$middle" W1-log
row "$middle" W1-tables
row "$middle" out-10 out-1000
row "$middle" run-8 run-256
sed -n '4,$p' "$scratch/out"

# What is aimed at; times are reported and never a test.
awk '
  function rate(i) { for (i = 2; i <= NF; i++) if ($i ~ /req\/s$/) return $i == "req/s" ? $(i - 1) / 1e6 : $(i - 1) }
  function size(i) { for (i = 2; i <= NF; i++) if ($i ~ /req\/s$/) return $(i - 2) }
  function aim(what, value, bound, below) {
    printf "  %-46s %8.2f  %s %g: %s\n", what, value, below ? "<=" : ">=", bound,
      (below ? value <= bound : value >= bound) ? "yes" : "no" }
  FILENAME ~ /ratios$/ { ratio[$1] = $3 > 1 ? $3 : 1 / $3; next }
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
    if ("out-10" in ratio) aim("10 against 1,000 output tokens", ratio["out-10"], 1.5, 1)
    if ("run-8" in ratio) aim("8 against 256 running", ratio["run-8"], 2, 1)
    for (i = 1; i <= 7; i++) if (last["W" i]) {
      w = "W" i; aim(w " peak MB of " last[w] " requests", peak[w, last[w]], 300, 1) }
  }' "$scratch/ratios" "$scratch/rows"
! grep -q DIFFER "$scratch/rows"
