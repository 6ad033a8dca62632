# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/plan.c: F14, an empty plan that wanted steps is not asked once more
s/return plan_once(w, s, LULL_WAKE_EMPTY);/return 0;/
