# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/plan.c: a repeat is cut to the KV of one block too many
s/n = batch_feasible(w, s, n, free);/n = batch_feasible(w, s, n, free + 1);/
