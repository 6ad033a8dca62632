# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/deliver.c: F2, a lane that ends gets new work before the arrivals of its instant
/^int deliver_reports/,/^}/s/^  emit_own(w);/  for (uint32_t i = 0; n \&\& i < w->cfg->nservers; i++) {\n    struct server *s = \&w->srv[i];\n    if (!w->closing \&\& !s->pending \&\& !s->copying \&\& !s->busy \&\& (s->rows || s->batch.chunks))\n      plan_submit(w, s);\n  }\n&/
