# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/step.c: F25, a step under way at the end of a run is charged to its own end
s/RARE(w->closing) ? w->out->end : LULL_NEVER/LULL_NEVER/
