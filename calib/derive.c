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
 * calibration, and stand in each as its residuals.
 */
static const struct calibration_residual expected[] = {
#include "calib/roofline_errors.h"
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
