# SPDX-License-Identifier: GPL-3.0-or-later
# backend/trainer.c: a micro-batch that was stopped on its way back counts
# noticed by check_train
s/if (trainer_backward(t))/if (trainer_backward(t) \&\& (gather(t, l.tokens), 1))/
