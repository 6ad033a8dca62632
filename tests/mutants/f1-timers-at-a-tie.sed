# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/host.c: F1, timers of one moment come last set first
s/w->timer\[i - 1\]\.at > at/w->timer[i - 1].at >= at/
