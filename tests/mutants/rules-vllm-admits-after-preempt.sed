# SPDX-License-Identifier: GPL-3.0-or-later
# policies/priority.c: a step that preempted admits
# noticed by check_conformance
s/q->preempted ? 0 : admit(q)/admit(q)/
