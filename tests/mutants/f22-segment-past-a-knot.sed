# SPDX-License-Identifier: GPL-3.0-or-later
# models/simdev.c: F22, a run of steps goes one step past a knot of the cost
s/- s\.ctx_q16 + b->ctx_inc_q16 - 1)/- s.ctx_q16 + 2 * b->ctx_inc_q16 - 1)/
