# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/step.c: F8, less than a chunk being left is no reason to plan
/^static void settle_boundary/,/^}/s/if (left < c->tokens)/if (0)/
