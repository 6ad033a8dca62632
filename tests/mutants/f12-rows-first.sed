# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/plan.c: F12, rows are forced out before prompts
s/{LULL_PREFILL, LULL_DECODE};/{LULL_DECODE, LULL_PREFILL};/
