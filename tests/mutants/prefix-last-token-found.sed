# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/prefix.c: all of a prompt may be found, its last token too
s/(r->v.prefill_target - 1) >> s->block_shift/r->v.prefill_target >> s->block_shift/
