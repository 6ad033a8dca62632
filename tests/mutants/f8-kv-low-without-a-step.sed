# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/plan.c: KV_LOW holds before a step was done
s/(p->wake & LULL_WAKE_KV_LOW) && steps &&/(p->wake \& LULL_WAKE_KV_LOW) \&\&/
