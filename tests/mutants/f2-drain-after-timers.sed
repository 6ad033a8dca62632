# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/deliver.c: DRAIN comes after timers, not before
/^int deliver(/,/^}/{s/ || deliver_drain(w, &any)//;s/deliver_timers(w, &any)/deliver_timers(w, \&any) || deliver_drain(w, \&any)/}
