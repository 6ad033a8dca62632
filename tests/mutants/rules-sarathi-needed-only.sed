# SPDX-License-Identifier: GPL-3.0-or-later
# policies/fcfs.c: Sarathi preempts only for a block that a row needs
# noticed by check_conformance
s/walk_free(&w) < 1/walk_free(\&w) < w.need/
