#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Runs the descriptors in tests/cli/*.test against the real program. A descriptor is a list of tests:
#
#   test  what is tested, one line
#   run   a shell command; lull is in PATH, $data is tests/data, the current folder is empty
#   exit  its exit code
#   out   a text that its standard output holds (any number of these)
#   err   a text that its standard error holds (any number of these)
#   quiet out|err    nothing at all is written there
#   absent FILE      is not there afterwards (nor any temporary file beside it)
#   same FILE FILE   hold the same bytes
#   needs FOLDER     skip the test unless this folder exists
#   where COMMAND    skip the test unless this command succeeds
#
# Lines of other kinds (blank, #) are ignored; a test ends where the next begins.
set -u
srcdir=${srcdir:-.}
. "$srcdir/tests/tap.sh"

: "${LULL:?must name the program}"
mkdir "$scratch/bin" "$scratch/run"
ln -s "$LULL" "$scratch/bin/lull"
PATH=$scratch/bin:$PATH
data=$(cd "$srcdir/tests/data" && pwd)
scenarios=$(cd "$srcdir/scenarios" && pwd)
unset LULL_POLICY_PATH
TERM=dumb
export PATH data scenarios TERM

begin() {
  name=$1 why='' ran='' skipped=''
  rm -rf "$scratch/run"
  mkdir "$scratch/run"
}

run_it() {
  [ -z "$skipped" ] || return
  ran=1
  (cd "$scratch/run" && sh -c "$1") >"$scratch/out" 2>"$scratch/err" </dev/null
  code=$?
}

holds() { # out|err TEXT
  grep -qF -e "$2" "$scratch/$1" || why="$why
std$1 does not hold: $2"
}

# The verdict of the test under way.
end() {
  [ -n "$name" ] || return
  if [ -n "$skipped" ]; then
    skip "$name" "$skipped"
  elif [ -z "$ran" ]; then
    fail "$name (no run line)"
  elif [ -n "$why" ]; then
    { printf 'exit %s%s\n' "$code" "$why"
      sed 's/^/stdout: /' "$scratch/out" | head -n 12
      sed 's/^/stderr: /' "$scratch/err" | head -n 12; } >"$scratch/why"
    fail "$name" "$scratch/why"
  else
    pass "$name"
  fi
  name=
}

line() { # KIND REST
  [ -z "$skipped" ] || [ "$1" = test ] || return
  case $1 in
  test) end; begin "$2" ;;
  needs) eval "where=$2"; [ -d "$where" ] || skipped="there is no folder $2" ;;
  where) (cd "$scratch/run" && sh -c "$2") >/dev/null 2>&1 </dev/null || skipped="this fails here: $2" ;;
  run) run_it "$2" ;;
  exit) [ "$code" = "$2" ] || why="$why
exit is not $2" ;;
  out|err) holds "$1" "$2" ;;
  quiet) [ ! -s "$scratch/$2" ] || why="$why
std$2 is not empty" ;;
  absent) [ -z "$(cd "$scratch/run" && find . -name "*$2*")" ] || why="$why
there is a file $2" ;;
  same) (cd "$scratch/run" && cmp -s "${2%% *}" "${2#* }") || why="$why
the files differ: $2" ;;
  esac
}

name='' skipped=''
for f in "$srcdir"/tests/cli/*.test; do
  while IFS= read -r text || [ -n "$text" ]; do
    kind=${text%% *} rest=${text#* }
    line "$kind" "${rest#"${rest%%[! ]*}"}"
  done <"$f"
  end
done
done_testing
