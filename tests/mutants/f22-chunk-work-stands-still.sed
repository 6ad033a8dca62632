# SPDX-License-Identifier: GPL-3.0-or-later
# models/simdev.c: a chunk costs in every step of a repeat what it does in the first
/^static void shape_of/,/^}/s/if (step && b->chunks)/if (0)/
