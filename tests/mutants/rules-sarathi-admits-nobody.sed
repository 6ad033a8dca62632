# SPDX-License-Identifier: GPL-3.0-or-later
# policies/fcfs.c: Sarathi admits nobody in a step that preempted
# noticed by check_conformance
s/queue_serve(q, QUEUE_ALL) ?/!q->preempted \&\& queue_serve(q, QUEUE_ALL) ?/
