# SPDX-License-Identifier: GPL-3.0-or-later
# backend/engine_swap.c: all pages that are swapped come from the sequence's first
# noticed by check_engine_steps
s/s->page\[i\]),$/s->page[0]),/
