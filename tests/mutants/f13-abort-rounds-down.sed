# SPDX-License-Identifier: GPL-3.0-or-later
# models/simdev.c: F13, the ticks done of an aborted step are rounded down
s/(d->now - start + LULL_TICK_PS - 1) \/ LULL_TICK_PS/(d->now - start) \/ LULL_TICK_PS/
