# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/deliver.c: F18, wake_classes is not looked at
s/ && (s->plan\.wake_classes >> r->v\.cls & 1)//
