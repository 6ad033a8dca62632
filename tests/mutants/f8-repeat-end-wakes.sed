# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/step.c: F8, the end of a repeat counts as a reason to plan
s/^  settle_boundary(w, s, c->end);/  s->pending |= LULL_WAKE_ASKED;\n&/
