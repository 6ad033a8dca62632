# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/world.c: F15, arrivals of which nobody hears are taken in before what ended before them
# noticed by check_world_late
s/late && !in_past && /late \&\& /
