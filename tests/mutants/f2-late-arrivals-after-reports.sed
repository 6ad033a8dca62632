# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/world.c: F2, arrivals that may wait are taken in although a lane would stop for them
s/ && !w->listening && w->next.time/ \&\& w->next.time/
