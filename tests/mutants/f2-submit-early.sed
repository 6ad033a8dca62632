# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/deliver.c: F2, a lane that ends gets new work before the arrivals of its instant
/^int deliver_completions/,/^}/s/^  emit_own(w);/  for (uint32_t i = 0; n \&\& i < w->cfg->nservers; i++)\n    if (!w->closing \&\& !w->srv[i].pending \&\& !w->srv[i].copying)\n      plan_submit(w, \&w->srv[i]);\n&/
