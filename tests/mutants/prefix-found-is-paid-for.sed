# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/host.c: blocks that others hold are counted as taken at admission
s/need -= found - idle;/need -= 0;/
