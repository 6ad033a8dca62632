# SPDX-License-Identifier: GPL-3.0-or-later
# policies/priority.c: waiting requests come before prompts under way
# noticed by check_conformance
s/^    queue_prefill(q, QUEUE_ALL);$/    admit(q), queue_prefill(q, QUEUE_ALL);/
