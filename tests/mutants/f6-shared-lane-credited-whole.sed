# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/jobs.c: F6, two lanes at work on a GPU are both credited whole
s/ ? WORLD_CREDIT \/ 2 : WORLD_CREDIT;/ ? WORLD_CREDIT : WORLD_CREDIT;/
