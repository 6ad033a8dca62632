# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/deliver.c: DRAIN comes after timers, not before
/^static int pass(/,/^}/{s/(!w->drained && w->now >= w->window && deliver_drain(w, any)) || //;s/|| deliver_wakes(w, any))/|| (!w->drained \&\& w->now >= w->window \&\& deliver_drain(w, any)) || deliver_wakes(w, any))/}
