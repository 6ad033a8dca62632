# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/host.c: a device is told who a request is only when it is preempted
/^static int admit/,/^}/s/if (RARE(w->telling) \&\& !r->known)/if (w->telling \&\& !r->known \&\& r->v.preempts)/
