# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/host.c: F11, blocks of a swap-out are free at the decision
/^int take_out/,/^}/s/^  if (how == LULL_SWAP)/  if (how == LULL_SWAP)\n    s->plan.blocks_left += r->v.blocks;\n&/
