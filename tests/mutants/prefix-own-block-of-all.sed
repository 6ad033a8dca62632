# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/prefix.c: what requests generate is the same for all
s/name_after(parent, 1, (uint64_t)r->v.id, i)/name_after(parent, 1, 0, i)/
