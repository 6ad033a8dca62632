# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/deliver.c: DRAIN comes after timers, not before
/^static int pass(/,/^}/{/deliver_drain/d;s/deliver_arrivals(w, any) ||/deliver_arrivals(w, any) ||/;s/(w->ntimers && deliver_timers(w, any)) ||/(w->ntimers \&\& deliver_timers(w, any)) || (!w->drained \&\& w->now >= w->cfg->window \&\& deliver_drain(w, any)) ||/}
