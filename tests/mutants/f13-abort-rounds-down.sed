# SPDX-License-Identifier: GPL-3.0-or-later
# models/simdev.c: F13, the ticks done of an aborted step are rounded down
s/(d->now - from + l->speed - 1) \/ l->speed/(d->now - from) \/ l->speed/
