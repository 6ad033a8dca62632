# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/prefix.c: blocks are taken from the end of the queue
/^static int trim_queue/,/^}/s/c->front/c->back/g
