# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/batch.c: KV of n steps is counted a token off at the border of a block
/^int64_t batch_growth/,/^}/s/at = mask - (uint32_t)s->step;/at = mask - (uint32_t)s->step - 1;/
