# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/step.c: F19, a row that comes back has the gap of the others
/^static void first_gaps/,/^}/s/end - r->last_emit/end - s->last_emit/
