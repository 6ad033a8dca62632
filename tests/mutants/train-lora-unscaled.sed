# SPDX-License-Identifier: GPL-3.0-or-later
# backend/cpu/grad.c: the gradient of B lacks the scale
# noticed by check_grad
/low_x\[i\] \*= scale/d
