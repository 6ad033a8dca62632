# SPDX-License-Identifier: GPL-3.0-or-later
# backend/model.c: frequencies are rounded once, not as transformers does
# noticed by check_engine
s/1 \/ (float)pow(c->rope_theta, 2.0/(float)pow(c->rope_theta, -2.0/
