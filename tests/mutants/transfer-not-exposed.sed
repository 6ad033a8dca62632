# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/account.c: idle time during a copy is plain idle
/^static void charge_idle/,/^}/s/if (s->copying)/if (0)/
