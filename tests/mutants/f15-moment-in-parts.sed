# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/deliver.c: F15, of two ends at one moment the first is told of before the second is taken in
# noticed by check_world_late
s/if (i + 1 == n || w->comp\[i + 1\].end > w->comp\[i\].end)/if (n)/
