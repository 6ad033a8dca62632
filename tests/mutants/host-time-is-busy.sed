# SPDX-License-Identifier: GPL-3.0-or-later
# models/simdev.c: the host time of a step counts as busy
s/ - (lull_time)n \* g->host \* LULL_TICK_PS;/;/
