# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/host.c: the watchdog on preemptions strikes one early
s/if (r->v\.preempts > limit)/if (r->v.preempts >= limit)/
