# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/world.c: F15, all that ended is taken in before the first event tells of it
# noticed by check_world_late
s/RARE(w->due < now || in_past) ?/w->due < now ?/
