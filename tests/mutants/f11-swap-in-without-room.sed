# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/host.c: F11, a swap-in takes no block for the next step
/^static int resume_swapped/,/^}/s/ + batch_next_growth(.*);$/;/
