# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/step.c: an async server sees at the end of a step who arrived during it
s/settle_coming(w, s, s->submitted)/settle_coming(w, s, LULL_NEVER)/
