#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# make validate: measures the engine on this machine, runs each arm of the scenario on it and
# simulated, and renews what stands between the marks of the page. Needs $LULL; $RUN goes before it,
# for example RUN='chrt -f 10' where other programs would get in the way. The exit status is 1 if a
# gate of an arm fails, 4 if one was not judged because the machine was noisy.
set -u
LC_ALL=C TERM=dumb
export LC_ALL TERM
page=${1:?must name the page}
: "${LULL:?must name the program}"
RUN=${RUN:-}
here=$(cd "$(dirname "$0")" && pwd)
scenario=$here/../../scenarios/ci-live-batch-cpu.xml
arms='shared-priority shared-fcfs dedicated'
scratch=$(mktemp -d) || exit 6
trap 'rm -rf "$scratch"' EXIT
trap 'exit 5' HUP INT TERM

{
  sed -n 's/^model name[^:]*: /processor    /p' /proc/cpuinfo 2>/dev/null | sed -n 1p
  echo "processors   $(getconf _NPROCESSORS_ONLN), one thread a GPU"
  echo "load before  $(cut -d' ' -f1-3 /proc/loadavg 2>/dev/null)"
  [ -z "$RUN" ] || echo "run with     $RUN"
} >"$scratch/machine"
"$LULL" models init tiny -o "$scratch/w" >/dev/null || exit
$RUN "$LULL" calibrate --device cpu --weights "$scratch/w" --threads 1 --max-seqs 96 \
  --token-budget 256 --max-context 512 -o "$scratch/cpu.h5" 2>"$scratch/calibration" ||
  { cat "$scratch/calibration" >&2; exit 6; }
sed -i '/written to/d' "$scratch/calibration"
cat "$scratch/calibration"

worst=0
: >"$scratch/arms"
for arm in $arms; do
  note=
  set -- --gate 'ttft.p50<=10%' --gate 'tpot.p50<=10%' --gate 'itl.p50<=10%' \
    --gate 'e2e.p50<=10%' --gate 'useful-rate<=10%'
  if [ "$arm" = dedicated ] && [ "$(getconf _NPROCESSORS_ONLN)" -lt 3 ]; then
    set -- # two lanes and the world get in each other's way
    note=', not gated: two GPUs and the world need three processors'
  fi
  $RUN "$LULL" validate "$scenario" --device cpu --weights "$scratch/w" --threads 1 \
    --calibration "$scratch/cpu.h5" --arm "$arm" "$@" >"$scratch/one"
  code=$?
  case $code in 0) ;; 1) worst=1 ;; 4) [ $worst -ne 0 ] || worst=4 ;; *) cat "$scratch/one"; exit $code ;; esac
  { echo "arm $arm$note"
    awk '/^Metric/ { inside = 1 } /^Gate/ { inside = 0 }
      inside && !/KS distance/ && !/p90|p99/' "$scratch/one" | cat -s
    sed -n '/^Gate/,$p' "$scratch/one"
    echo; } >>"$scratch/arms"
done
cat "$scratch/arms"
awk -v dir="$scratch" '
  /^<!-- end -->$/ { inside = 0 }
  !inside
  /^<!-- (machine|calibration|arms) -->$/ {
    inside = 1
    print "```text"
    f = dir "/" $2
    while ((getline line < f) > 0) print line
    print "```" }' "$page" >"$scratch/page" && cp "$scratch/page" "$page"
exit $worst
