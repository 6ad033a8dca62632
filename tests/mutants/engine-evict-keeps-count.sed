# SPDX-License-Identifier: GPL-3.0-or-later
# backend/engine.c: keys and values are thought to be there after an eviction
# noticed by check_engine_steps
/^  s->kv = 0;$/d
