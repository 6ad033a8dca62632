/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A calibration of nothing but shapes and a data sheet. */
#include <string.h>

#include "calib/assemble.h"
#include "calib/calib.h"
#include "calib/collective.h"
#include "calib/source.h"
#include "models/calibration.h"
#include "models/gpu.h"
#include "models/llm.h"

/*
 * How far the law is from published tables, where both exist: what calib_compare says of each pair
 * (tests/check_importers.c works them out again). These are the errors to expect of a derived
 * calibration, and stand in each as its residuals. Part and measured table; points of the table, of
 * which none was fitted; p50, p95 and max of the relative error. Of Llama-3.1-8B, and of -70B on 4
 * GPUs.
 */
static const struct calibration_residual expected[] = {
    {"layer, h200-sxm bf16", 74, 74, 0.035, 0.144, 0.185},
    {"head, h200-sxm bf16", 74, 74, 0.05, 0.117, 0.185},
    {"decode attention, h200-sxm bf16", 152, 152, 0.085, 0.399, 0.455},
    {"prefill attention, h200-sxm bf16", 16, 16, 0.155, 0.27, 0.285},
    {"layer, h200-sxm fp8", 74, 74, 0.214, 0.47, 0.662},
    {"head, h200-sxm fp8", 74, 74, 0.05, 0.117, 0.185},
    {"decode attention, h200-sxm fp8", 152, 152, 0.246, 0.675, 0.746},
    {"prefill attention, h200-sxm fp8", 16, 16, 0.232, 0.377, 0.393},
    {"layer, a100-80g bf16", 21, 21, 0.073, 0.357, 0.418},
    {"head, a100-80g bf16", 21, 21, 0.072, 0.141, 0.199},
    {"decode attention, a100-80g bf16", 140, 140, 0.202, 0.336, 0.413},
    {"prefill attention, a100-80g bf16", 16, 16, 0.083, 0.371, 0.409},
    {"layer, rtx-pro-6000 bf16", 152, 152, 0.044, 0.172, 0.242},
    {"head, rtx-pro-6000 bf16", 40, 40, 0.062, 0.083, 0.095},
    {"decode attention, rtx-pro-6000 bf16", 171, 171, 0.081, 0.382, 0.608},
    {"prefill attention, rtx-pro-6000 bf16", 233, 233, 0.291, 0.814, 0.848},
    {"mixed attention, rtx-pro-6000 bf16", 18960, 18960, 0.381, 0.744, 2.282},
    {"all-reduce, h200-sxm, 4 GPUs", 23, 23, 0.318, 0.785, 0.807},
};
enum { EXPECTED = sizeof expected / sizeof expected[0] };

static int derive_body(struct calibration *c, const struct roofline *r, struct base_error *e)
{
  int64_t x[ASSEMBLE_KNOTS];
  struct roofline_linear op[ROOFLINE_LINEARS];
  size_t n = 0;
  roofline_linears(r->part, op);
  for (int64_t t = 1; t <= 1 << 17; t += t < 8 ? 1 : t / 8) /* dense: the bend is nowhere far */
    x[n++] = t;
  if (assemble_curve(&c->body, x, n, e))
    return -1;
  for (uint32_t i = 0; i < c->body.n; i++)
    for (int j = 0; j < ROOFLINE_LINEARS; j++)
      c->body.y[i] += roofline_gemm(r, r->weight_bytes, c->body.x[i], op[j].n, op[j].k);
  return 0;
}

static int derive_all(const struct calib_input *in, const struct roofline *r, struct calibration *c,
                      FILE *talk, struct base_error *e)
{
  if (derive_body(c, r, e) || assemble_elementwise(c, r) || assemble_once(c, r, e) ||
      assemble_head(c, r, e) || assemble_attention(c, r, e) ||
      collective_derive(c, in->gpu, ROOFLINE_GEMM_PS, NULL, e))
    return -1;
  assemble_sampler(c, r);
  if (assemble_mixed(c, e))
    return -1;
  strcpy(c->derived, CALIBRATION_ALL);
  source_text(c->engine, sizeof c->engine, "none: roofline of the data sheet");
  memcpy(assemble_residuals(c, EXPECTED), expected, sizeof expected);
  assemble_finish(c, talk);
  return 0;
}

struct calibration *calib_fit_roofline(const struct calib_input *in, FILE *talk,
                                       struct base_error *e)
{
  const struct assemble_of of = {in->model, in->gpu, in->weight_dtype, in->kv_dtype, in->tp};
  struct llm part;
  if (assemble_check_types(&of, e) || llm_shard(in->model, in->tp, &part, e))
    return NULL;
  const struct roofline r = {&part, in->gpu, strcmp(in->weight_dtype, "fp8") ? 2 : 1,
                             strcmp(in->kv_dtype, "fp8") ? 2 : 1};
  struct calibration *c = assemble_begin(&of, e);
  if (c && derive_all(in, &r, c, talk, e)) {
    calibration_free(c);
    return NULL;
  }
  return c;
}
