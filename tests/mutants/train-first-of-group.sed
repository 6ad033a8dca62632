# SPDX-License-Identifier: GPL-3.0-or-later
# backend/cpu/grad_attention.c: of the query heads of a key head only the first counts
# noticed by check_grad
s/q < group; q++/q < 1; q++/
