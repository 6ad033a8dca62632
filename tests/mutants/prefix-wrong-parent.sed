# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/prefix.c: a block is named by its own content, not by what is before it
s/= c->known ? c->link\[c->known - 1\]\.name : /= /
