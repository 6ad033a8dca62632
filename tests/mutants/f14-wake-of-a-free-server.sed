# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/deliver.c: F14, a time wake reaches a server without a request
/^static int deliver_wakes/,/^}/s/if (!s->unfinished)/if (0)/
