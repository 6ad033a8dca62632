# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/world.c: F2, the next plan of an instant does not wait for what the last one caused
/^static int instant/,/^}/s/plan_server(w, s, why) || deliver(w)/plan_server(w, s, why)/
