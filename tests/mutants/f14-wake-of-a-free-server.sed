# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/deliver.c: F14, a time wake reaches a server without a request
/^static int deliver_wake(/,/^}/s/if (!w->srv\[i\].unfinished)/if (0)/
