# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/step.c: an async server gives away at once what a finish frees
s/if (!RARE(s->cfg->async)) {/if (1) {/
