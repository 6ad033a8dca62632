# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/request.c: a preempted request queues behind those that came after it
/^static inline lull_id waiting_place/,/^}/s/if (last < r->v\.id)/if (1)/
