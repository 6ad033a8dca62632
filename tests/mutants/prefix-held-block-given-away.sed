# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/prefix.c: a block that others hold goes into the queue when one lets go
/^static uint32_t let_go/,/^}/s/} else if (--n->refs) {/} else if (--n->refs > 1) {/
