/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a GPU is on its data sheet. Read from a description (models/data/NAME.xml, or a file).
 */
#ifndef MODELS_GPU_H
#define MODELS_GPU_H

#include <stdint.h>

#include "base/error.h"

struct gpu {
  char name[64];
  char device[64]; /* as the driver calls it */
  int64_t memory_bytes;
  int64_t memory_bytes_per_s;    /* peak */
  int64_t host_link_bytes_per_s; /* peak, one direction */
  int64_t gpu_link_bytes_per_s;  /* between GPUs, peak, one direction; where the description has
                                    none (gpu-link), host_link_bytes_per_s */
  int64_t bf16_flops, fp8_flops; /* dense matrix peak, operations a second */
  char source[192];
};

/* By name or path; BASE_INPUT if unknown (with the nearest) or wrong. */
int gpu_open(const char *name_or_path, struct gpu *g, struct base_error *e);

#endif
