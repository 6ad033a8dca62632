# SPDX-License-Identifier: GPL-3.0-or-later
# backend/trainer.c: the norm is of the summed gradient
# noticed by check_autograd
s|t->total)) / (double)t->counted|t->total))|
