# SPDX-License-Identifier: GPL-3.0-or-later
# policies/fcfs.c: the plan by Sarathi's rules stands though a row may find no free block
# noticed by check_conformance
s/|= LULL_WAKE_KV_LOW/|= 0/
