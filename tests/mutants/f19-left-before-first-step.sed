# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/batch.c: F19, a row that leaves before its first step stays in the list of new rows
/^static void drop_fresh/,/^}/s/s->fresh_of\[r->v\.cls\]--;//
