# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/deliver.c: a backlog is refilled up to one more than `below`
s/unfinished < b->below/unfinished <= b->below/
