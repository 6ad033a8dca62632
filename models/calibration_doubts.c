/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Whether the times of a calibration that was measured here may be trusted, by its own records. */
#include <string.h>

#include "models/calibration.h"

/* The machine's noise is no error of a curve. */
static int is_noise(const struct calibration_residual *r)
{
  return !strcmp(r->curve, CALIBRATION_NOISE);
}

static int is_steps(const struct calibration_residual *r)
{
  static const char steps[] = "steps of ";
  return !strncmp(r->curve, steps, sizeof steps - 1);
}

int calibration_doubts(const struct calibration *c, char *text, size_t size)
{
  const struct calibration_residual *noise = NULL, *steps = NULL;
  size_t used = 0;
  text[0] = '\0';
  for (uint32_t i = 0; c->host_step_ps && i < c->nresiduals; i++) {
    const struct calibration_residual *r = &c->residual[i];
    if (is_noise(r) && r->p50 > CALIBRATION_NOISY)
      noise = r;
    if (is_steps(r) && r->p95 > CALIBRATION_COARSE && (!steps || r->p95 > steps->p95))
      steps = r;
  }
  if (!noise && !steps)
    return 0;
  if (noise)
    used = (size_t)snprintf(
        text, size, "the machine was not quiet: one step took %.0f%% longer once than another time",
        100 * noise->p50);
  if (steps && used < size)
    used += (size_t)snprintf(text + used, size - used,
                             "%s%s are met within %.0f%% only (p95, held out)", used ? "; " : "",
                             steps->curve, 100 * steps->p95);
  if (used < size)
    snprintf(text + used, size - used, "; measure again, with nothing else running");
  return 1;
}

void calibration_worst(const struct calibration *c, const struct calibration_residual **p50,
                       const struct calibration_residual **p95)
{
  *p50 = *p95 = NULL;
  for (uint32_t i = 0; i < c->nresiduals; i++) {
    const struct calibration_residual *r = &c->residual[i];
    if (is_noise(r))
      continue;
    *p50 = !*p50 || r->p50 > (*p50)->p50 ? r : *p50;
    *p95 = !*p95 || r->p95 > (*p95)->p95 ? r : *p95;
  }
}
