# SPDX-License-Identifier: GPL-3.0-or-later
# models/simdev.c: the longest row does not grow during a repeat
s/(b->ctx_max + step)/b->ctx_max/
