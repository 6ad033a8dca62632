#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# What was installed is enough: the policy of README.md compiles against the installed header through
# pkg-config, is listed, and runs a scenario, by path and by name.
#   installcheck.sh DESTDIR BINDIR PKGCONFIGDIR SCENARIODIR TESTDIR
set -eu
destdir=$1 bindir=$2 pkgconfigdir=$3 scenariodir=$4 testdir=$5
testdir=$(cd "$testdir" && pwd)

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
die() { echo "installcheck: $*" >&2; exit 1; }

lull=$destdir$bindir/lull
PKG_CONFIG_PATH=$destdir$pkgconfigdir
export PKG_CONFIG_PATH
[ -z "$destdir" ] || export PKG_CONFIG_SYSROOT_DIR="$destdir"

"$lull" --version | grep -q '^lull [0-9]' || die 'lull does not say its version'
for f in lull-scenario-1.xsd c4-live-batch.xml; do
  [ -r "$destdir$scenariodir/$f" ] || die "$f is not installed"
done
[ -d "$(pkg-config --variable=policydir lull)" ] || [ -d "$destdir$(pkg-config --variable=policydir lull)" ] ||
  die 'the policy folder is not installed'

sed -n '/^```c$/,/^```$/p' "$testdir/../README.md" | sed '1d;$d' >"$dir/first.c"
[ -s "$dir/first.c" ] || die 'there is no policy in README.md'
# shellcheck disable=SC2046
${CC:-cc} -Wall -Wextra -Wno-unused-parameter -Werror -shared -fPIC $(pkg-config --cflags lull) \
  -o "$dir/lull-first-policy.so" "$dir/first.c" || die 'the policy does not compile'

cd "$dir"
"$lull" policies ./lull-first-policy.so | grep -q '^first$' || die 'lull does not list the policy'
sed "s|policy=\"fcfs\"|policy=\"./lull-first-policy.so\"|" "$testdir/cli/small.xml" >by-path.xml
sed "s|policy=\"fcfs\"|policy=\"first\"|" "$testdir/cli/small.xml" >by-name.xml
"$lull" run by-path.xml --json path.json >path.txt || die 'the policy does not run by its path'
LULL_POLICY_PATH=$dir "$lull" run by-name.xml --json name.json >name.txt ||
  die 'the policy does not run by its name'
[ -s path.json ] && [ -s name.json ] || die 'there are no results'
echo 'installcheck: the policy of README.md compiles, is found by path and by name, and runs'
