# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/world.c: F2, of the servers with a reason the highest is planned first
/^static int plan_all/,/^}/s/&w->srv\[i\]/\&w->srv[w->cfg->nservers - 1 - i]/
