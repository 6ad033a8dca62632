# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/batch.c: F20, the step at which a row finishes is rounded down
s/(left - r->phase_q16 + r->rate_q16 - 1) \/ r->rate_q16/(left - r->phase_q16) \/ r->rate_q16/
