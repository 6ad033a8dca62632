# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/plan.c: KV_LOW is noticed a step late where steps are merged
s/n = above + 1;/n = above + 2 < n ? above + 2 : n;/
