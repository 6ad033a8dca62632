# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/world.c: F2, the next plan of an instant does not wait for what the last one caused
/^static int plan_all/,/^}/s/if (!is_quiet(w))/if (0)/
