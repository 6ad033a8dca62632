# SPDX-License-Identifier: GPL-3.0-or-later
# backend/cpu/grad_attention.c: backwards a row does not see its own key
# noticed by check_grad
s/uint32_t seen = row + 1;/uint32_t seen = row ? row : 1;/
