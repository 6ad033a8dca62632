/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The kernels with AVX-512. */
#include "backend/cpu/kernels.h"

#if defined(__x86_64__)
#include <assert.h>
#include <math.h>
#include <string.h>

/* All that follows is compiled for these instructions, whatever the compiler's flags. */
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq"))),        \
                             apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq")
#endif
#include <immintrin.h>

#define PATH_NAME "avx512"
#define PATH_TABLE cpu_kernels_avx512
#include "backend/cpu/vec_avx512.inc"

#include "backend/cpu/path_table.inc"

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
