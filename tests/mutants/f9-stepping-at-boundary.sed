# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/host.c: F9, a view tells a lane at a boundary from an idle one
s/s->v\.stepping = t < w->now;/s->v.stepping = 1;/
