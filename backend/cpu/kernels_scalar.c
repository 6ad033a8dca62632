/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The kernels in plain C. */
#include "backend/cpu/kernels.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define PATH_NAME "scalar"
#define PATH_TABLE cpu_kernels_scalar
#include "backend/cpu/vec_scalar.inc"

#include "backend/cpu/path_table.inc"
