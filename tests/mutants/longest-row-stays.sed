# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/batch.c: who leaves the batch, the longest row is forgotten
s/heap_remove(s->longest, s->longest_at, s->longest_at\[r->slot\], s->rows)/heap_remove(s->longest, s->longest_at, 0, s->rows)/
