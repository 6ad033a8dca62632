/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Feeds bytes to the readers of kernel tables, as a file. replay.c feeds it files. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "calib/calib.h"
#include "calib/operators.h"
#include "calib/tables.h"
#include "models/calibration_io.h"
#include "models/gpu.h"
#include "models/llm.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct llm toy = {.name = "toy",
                               .hidden = 256,
                               .layers = 2,
                               .q_heads = 4,
                               .kv_heads = 2,
                               .head_dim = 64,
                               .intermediate = 512,
                               .vocab = 1024,
                               .max_position = 4096,
                               .source = "test"};
static const struct gpu box = {.name = "box",
                               .device = "TEST GPU",
                               .memory_bytes = INT64_C(16) << 30,
                               .memory_bytes_per_s = INT64_C(1000000000000),
                               .host_link_bytes_per_s = INT64_C(10000000000),
                               .gpu_link_bytes_per_s = INT64_C(10000000000),
                               .bf16_flops = INT64_C(100000000000000),
                               .fp8_flops = INT64_C(200000000000000),
                               .source = "test"};

/* Ends the program where the fuzzer notices. */
static void require(int good)
{
  if (!good)
    abort();
}

/* An error of input says what; anything else fails for lack of memory alone. */
static void require_error(const struct base_error *e)
{
  require(e->code == BASE_INPUT && e->text[0] && !strchr(e->text, '\n'));
}

/* What is taken is a calibration, or is said not to be one. */
static void require_calibration(struct calibration *c, const struct base_error *e)
{
  struct base_error why = {0};
  if (!c)
    require_error(e);
  else if (calibration_check(c, "fuzz", &why))
    require_error(&why);
  calibration_free(c);
}

static void read_tables(const char *path)
{
  struct base_error e[6] = {{0}};
  struct gemm_table gemm;
  struct attention_table attention;
  struct operators reduce = {0};
  const struct calib_input in = {.path = &path,
                                 .npaths = 1,
                                 .model = &toy,
                                 .gpu = &box,
                                 .weight_dtype = "bfloat16",
                                 .kv_dtype = "bfloat16",
                                 .tp = 1,
                                 .derive = 1};
  require_calibration(calib_fit_vidur(&in, NULL, &e[0]), &e[0]);
  require_calibration(calib_fit_splitwise(&in, NULL, &e[1]), &e[1]);
  if (gemm_load(&gemm, path, "fp8", box.device, &e[2]))
    require_error(&e[2]);
  else
    gemm_free(&gemm);
  if (attention_load(&attention, path, &toy, "bfloat16", box.device, &e[3]))
    require_error(&e[3]);
  else
    attention_free(&attention);
  if (operators_load_collective(&reduce, path, 2, box.device, &e[4]))
    require_error(&e[4]);
  operators_free(&reduce);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  char path[32];
  int fd = memfd_create("tables", 0);
  require(fd >= 0 && write(fd, data, size) == (ssize_t)size);
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  read_tables(path);
  close(fd);
  return 0;
}
