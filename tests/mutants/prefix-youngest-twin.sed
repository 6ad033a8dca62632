# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/prefix.c: of blocks of one name the last one to get it is found
s/^  while (\*at != NONE)$/  c->node[i].peer = *at;\n  while (0)/
