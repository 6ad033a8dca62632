# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/step.c: F6, chunks of a step that saw two active sets get a unit too much
/static void credit_wide/,/^}/s/(base_int128)v \* chunk_pairs(k)/(base_int128)v * chunk_pairs(k) + 1/
