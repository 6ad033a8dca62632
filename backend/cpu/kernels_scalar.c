/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The kernels in plain C. */
#include "backend/cpu/kernels.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "backend/cpu/vec_scalar.inc"

#include "backend/cpu/linear.inc"
#include "backend/cpu/rows.inc"

#include "backend/cpu/attention.inc"

const struct cpu_kernels cpu_kernels_scalar = {
    .name = "scalar",
    .linear = linear,
    .norm = norm,
    .rope = rope,
    .attention = attention,
    .swiglu = swiglu,
    .add_scaled = add_scaled,
    .max = row_max,
    .exp_sum = exp_sum,
};
