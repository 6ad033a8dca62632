# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/world.c: F14, a watchdog counts waits, which depend on how steps are merged
/^static int pass_time/,/^}/s/^  lull_time before = w->now;/  if (++w->idle_events > 12)\n    return world_broken(w, "too many waits");\n&/
