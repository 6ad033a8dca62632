# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/request.c: an async server sees who arrives during a step at its end
s/if (RARE(s->cfg->async) \&\& is_stepping(w, s))/if (0)/
