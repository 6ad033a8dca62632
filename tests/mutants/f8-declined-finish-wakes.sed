# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/step.c: F8, a plan that declines FINISH and CHUNK is asked all the same
/give_reason(struct server/,/^}/s/reason & ~s->plan.decline/reason/
