# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/plan.c: a copy moves the blocks that are held, not those that hold tokens
/^int queue_copy/,/^}/s/int64_t blocks = .*;/int64_t blocks = r->v.blocks;/
