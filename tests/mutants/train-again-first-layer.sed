# SPDX-License-Identifier: GPL-3.0-or-later
# backend/trainer_pass.c: always the first layer is computed once more
# noticed by check_autograd
s/trainer_layer_again(t, l)/trainer_layer_again(t, 0)/
