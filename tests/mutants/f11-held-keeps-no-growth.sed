# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/batch.c: KV of a step is not asked for by a row that fills its block
/^int64_t batch_next_growth/,/^}/s/server_blocks_for(s, next) - server_blocks_for(s, kv)/server_blocks_for(s, next - 1) - server_blocks_for(s, kv - 1)/
