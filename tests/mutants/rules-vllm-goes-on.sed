# SPDX-License-Identifier: GPL-3.0-or-later
# policies/priority.c: those behind a victim at its own turn have theirs
# noticed by check_conformance
s/^        hold_rest(&w);$/        ;/;s/^      hold_rest(&w);$/      ;/
