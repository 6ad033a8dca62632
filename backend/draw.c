/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "backend/draw.h"

#include "base/rng.h"

/* Of the sum of eight uniform integers below 2^16: mean, and root of the variance
 * 8 (2^32 - 1) / 12. */
enum { SUM_MEAN = 4 * 65535 };
static const double sum_deviation = 53509.91992145008;

static void put(void *to, size_t i, int dtype, float x)
{
  if (dtype == TENSOR_BF16)
    ((uint16_t *)to)[i] = bf16_from_f32(x);
  else
    ((float *)to)[i] = x;
}

static float sum_of_halves(const uint32_t w[4])
{
  uint32_t sum = 0;
  for (int i = 0; i < 4; i++)
    sum += (w[i] & 0xffff) + (w[i] >> 16);
  return (float)((int32_t)sum - SUM_MEAN);
}

void draw_normal(uint64_t seed, const char *name, uint64_t first, size_t n, double deviation,
                 int dtype, void *to)
{
  uint32_t key[2], w[4];
  float factor = (float)(deviation / sum_deviation);
  base_rng_key(seed, name, key);
  for (size_t i = 0; i < n; i++) {
    uint64_t at = first + i;
    base_philox4x32((uint32_t[4]){(uint32_t)at, (uint32_t)(at >> 32), 0, 0}, key, w);
    put(to, i, dtype, sum_of_halves(w) * factor);
  }
}

void draw_constant(float value, size_t n, int dtype, void *to)
{
  for (size_t i = 0; i < n; i++)
    put(to, i, dtype, value);
}
