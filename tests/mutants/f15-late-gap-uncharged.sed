# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/step.c: F15, the time from a step's end to its delivery is nobody's
s/^    charge_late(w, s, c->end);/    (void)charge_late;/
