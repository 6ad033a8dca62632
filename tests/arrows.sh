#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Which room may include which: an arrow that is not in this table is a defect.
set -u
srcdir=${srcdir:-.}
. "$srcdir/tests/tap.sh"

# room, then the rooms whose headers it may include beside its own
arrow() { # ROOM ALLOWED...
  room=$1
  shift
  allowed=$(printf '|%s' "$room" "$@")
  (cd "$srcdir" && find "$room" -name '*.[ch]' -exec grep -HnE '^[[:space:]]*#[[:space:]]*include' {} +) |
    grep -E '#[[:space:]]*include[[:space:]]*["<](lull|base|models|sim|policies|calib|backend|cli|tests)/' |
    grep -vE "include[[:space:]]*[\"<](${allowed#|})/" >"$scratch/bad"
  ! [ -s "$scratch/bad" ]
  check "$room includes only what it may" $? "$scratch/bad"
}

arrow include/lull lull
arrow base lull
arrow models base lull
arrow policies lull
arrow sim base lull models
arrow backend base lull
arrow calib base lull models backend
arrow cli base lull models sim calib policies backend

(cd "$srcdir" && find policies -name '*.c' -exec grep -Hn '#[[:space:]]*include' {} +) |
  grep -vE '<(lull/policy|std[a-z]+|string|limits|inttypes)\.h>|"[a-z_]+\.h"' >"$scratch/bad"
! [ -s "$scratch/bad" ]
check 'a policy includes lull/policy.h, the C library and its room only' $? "$scratch/bad"

(cd "$srcdir" && find base models sim policies backend calib cli tests include -name '*.[ch]' \
  -exec grep -LF 'SPDX-License-Identifier: GPL-3.0-or-later' {} +) >"$scratch/bad"
! [ -s "$scratch/bad" ]
check 'every source names its licence' $? "$scratch/bad"
done_testing
