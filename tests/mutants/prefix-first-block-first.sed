# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/prefix.c: a request lets go of its first block first
/^static uint32_t let_go/,/^}/{s/^  uint32_t freed/  uint32_t all = chain ? chain->named : 0;\n&/;s/chain->link\[--chain->named\]/chain->link[all - chain->named--]/}
