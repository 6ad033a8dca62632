# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/plan.c: F8, a repeat runs past wake_steps
/^static uint64_t repeat_bound/,/^}/s/if ((p->wake & LULL_WAKE_STEPS) && p->wake_steps/if (0 \&\& p->wake_steps/
