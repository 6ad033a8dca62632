# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/deliver.c: backlogs are refilled from the last to the first
s/&w->cfg->backlog\[i\]/\&w->cfg->backlog[w->cfg->nbacklogs - 1 - i]/
