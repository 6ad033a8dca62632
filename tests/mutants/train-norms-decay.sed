# SPDX-License-Identifier: GPL-3.0-or-later
# backend/trainer.c: norms decay too
# noticed by check_train
s/p->decay || t->o.decay_vectors/1/
