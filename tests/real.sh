# SPDX-License-Identifier: GPL-3.0-or-later
# To be sourced, after tap.sh, by scripts that run scenarios on the real engine.

# same_results JSON JSON: the same but for the device, which is another
same_results() {
  for f in "$1" "$2"; do
    sed '/^ "device": {/,/^ },*$/d' "$f" >"$f.rest"
  done
  cmp "$1.rest" "$2.rest" >"$scratch/differ" 2>&1
}

# interrupt PID RECORDING: SIGINT once it has begun to record; its exit code
interrupt() {
  for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    ls "$2".tmp* >/dev/null 2>&1 && break
    sleep 0.5
  done
  sleep 0.5
  kill -INT "$1"
  wait "$1"
}
