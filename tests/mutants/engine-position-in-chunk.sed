# SPDX-License-Identifier: GPL-3.0-or-later
# backend/engine_step.c: positions start anew with each chunk
# noticed by check_engine_steps
s/position\[b->rows++\] = t->start + i/position[b->rows++] = i/
