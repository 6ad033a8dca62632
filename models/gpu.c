/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "models/gpu.h"

#include <stddef.h>

#include "models/describe.h"

#define FIELD(xml, kind, field, most, optional)                                                    \
  {                                                                                                \
    xml, kind, offsetof(struct gpu, field), sizeof(((struct gpu *)0)->field), most, optional       \
  }

static const struct describe_field gpu_field[] = {
    FIELD("name", DESCRIBE_TEXT, name, 0, 0),
    FIELD("device", DESCRIBE_TEXT, device, 0, 0),
    FIELD("memory", DESCRIBE_BYTES, memory_bytes, 0, 0),
    FIELD("memory-bandwidth", DESCRIBE_BANDWIDTH, memory_bytes_per_s, 0, 0),
    FIELD("host-link", DESCRIBE_BANDWIDTH, host_link_bytes_per_s, 0, 0),
    FIELD("gpu-link", DESCRIBE_BANDWIDTH, gpu_link_bytes_per_s, 0, 1),
    FIELD("bf16-tflops", DESCRIBE_BIG, bf16_flops, 1000000, 0),
    FIELD("fp8-tflops", DESCRIBE_BIG, fp8_flops, 1000000, 0),
    FIELD("source", DESCRIBE_TEXT, source, 0, 0),
};

int gpu_open(const char *name_or_path, struct gpu *g, struct base_error *e)
{
  if (describe_open("gpu", name_or_path, gpu_field, sizeof gpu_field / sizeof gpu_field[0], g,
                    sizeof *g, e))
    return -1;
  if (!g->gpu_link_bytes_per_s) /* no link of their own: they reach each other through the host's */
    g->gpu_link_bytes_per_s = g->host_link_bytes_per_s;
  g->bf16_flops *= 1000000000000;
  g->fp8_flops *= 1000000000000;
  return 0;
}
