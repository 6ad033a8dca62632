# SPDX-License-Identifier: GPL-3.0-or-later
# backend/engine_step.c: noise depends on how a prompt was cut
# noticed by check_engine_equal
s/position = t->start + t->tokens/position = t->s->kv/
