# SPDX-License-Identifier: GPL-3.0-or-later
# policies/fcfs.c: Sarathi takes out a row before a prompt under way
# noticed by check_conformance
s/queue_latest(q, LULL_PREFILL, QUEUE_ALL)/-1/
