# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/step.c: F6, shares of a run are taken by the contexts at its start
/^static void credit/,/^}/{s/ + steps \* (steps - 1) \/ 2)/)/;s/(base_int128)s->ctx_inc_q16 \* (steps \* (steps - 1) \/ 2)/0/}
