# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/batch.c: F1, rows that finish together do so from the highest id down
/^static inline int before/,/^}/s/: a->id < b->id/: a->id > b->id/
