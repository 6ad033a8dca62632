# SPDX-License-Identifier: GPL-3.0-or-later
# models/cost.c: steps that wait for the host are merged, as if all waited as long
/^static void wait_for_host/,/^}/s/out->ctx_end_q16 = s->ctx_q16 + 1;/;/
