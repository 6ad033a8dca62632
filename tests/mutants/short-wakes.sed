# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/plan.c: a time wake may come sooner than 1 us after its plan
/^static void close_plan/,/^}/s/p->wake_time < soonest ? soonest : p->wake_time/p->wake_time/
