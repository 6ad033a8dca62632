# SPDX-License-Identifier: GPL-3.0-or-later
# models/simdev.c: F5, whole ticks done before a change of speed are forgotten
s/^  l->did += (d->now - l->anchor) \/ l->speed;$/  l->did += 0;/
