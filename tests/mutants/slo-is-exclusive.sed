# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/request.c: a target that is met exactly counts as missed
/^static inline void settle_done/,/^}/s/<= c->slo_ttft/< c->slo_ttft/
