# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/step.c: F8, a plan that declines CHUNK is not asked where less than a chunk is left either
/^static void settle_boundary/,/^}/s/s->pending |= LULL_WAKE_CHUNK;/give_reason(s, LULL_WAKE_CHUNK);/
