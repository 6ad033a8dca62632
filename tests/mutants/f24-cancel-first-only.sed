# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/host.c: cancel_timer takes one timer of the tag only
/^static void h_cancel_timer/,/^}/s/if (w->timer\[i\]\.tag != tag)/if (w->timer[i].tag != tag || n < i)/
