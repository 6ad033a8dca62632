# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/prefix.c: a block that is not full is named
/^void prefix_name/,/^}/s/r->v.kv0 >> s->block_shift/(r->v.kv0 + s->v.block_tokens - 1) >> s->block_shift/
