# SPDX-License-Identifier: GPL-3.0-or-later
# backend/engine_step.c: of the sequences with one adapter the rows of the last only have it
# noticed by check_engine_equal
s/rows += t->tokens/rows = t->tokens/
