# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/step.c: F6, shares of a run are taken by the contexts at its start
/^static void credit_narrow/,/^}/{s/ + pairs);/);/;s/ + pairs \* s->ctx_inc_q16//}
