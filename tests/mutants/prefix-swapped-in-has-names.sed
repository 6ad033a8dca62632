# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/prefix.c: what came back from the host has names
s/r->chain->hidden = 1;/r->chain->hidden = 0;/
