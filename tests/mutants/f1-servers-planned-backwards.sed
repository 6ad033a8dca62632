# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/plan.c: F2, of the servers with a reason the highest is planned first
/^struct server \*plan_wanted/,/^}/s/&w->srv\[i\]/\&w->srv[w->cfg->nservers - 1 - i]/
