# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/plan.c: the rows that a device reads are those of the first step
s/if (s->row_version == s->batch.version)/if (s->row_version)/
