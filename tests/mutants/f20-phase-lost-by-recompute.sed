# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/host.c: F20, the fraction of a token is lost by a recompute
/^static void lose_kv/,/^}/s/^  r->v\.kv0 = 0;/&\n  r->phase_q16 = 0;/
