# SPDX-License-Identifier: GPL-3.0-or-later
# To be sourced by test scripts: TAP on stdout, one line a test, the plan at the end.
tap_n=0 tap_bad=0

pass() {
  tap_n=$((tap_n + 1))
  echo "ok $tap_n - $1"
}

# fail NAME [FILE]: with the first lines of FILE as diagnostics
fail() {
  tap_n=$((tap_n + 1)) tap_bad=$((tap_bad + 1))
  echo "not ok $tap_n - $1"
  [ -z "${2:-}" ] || head -n 40 "$2" | sed 's/^/# /'
}

# check NAME STATUS [FILE]: passes if STATUS is 0
check() {
  if [ "$2" = 0 ]; then pass "$1"; else fail "$1" "${3:-}"; fi
}

# skip NAME REASON
skip() {
  tap_n=$((tap_n + 1))
  echo "ok $tap_n - $1 # SKIP $2"
}

done_testing() {
  echo "1..$tap_n"
  [ "$tap_bad" = 0 ]
}

# A folder of its own, removed at the end.
scratch=$(mktemp -d) || { echo 'Bail out! no temporary folder'; exit 1; }
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
