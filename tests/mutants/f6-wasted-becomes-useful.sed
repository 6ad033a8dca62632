# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/host.c: F6, what was earned before KV was lost counts as useful
/^static void lose_kv/,/^}/s/rec->wasted += r->pending/rec->share += r->pending/
