/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a calibration of the engine on this machine is of. */
#ifndef CLI_SUBJECT_H
#define CLI_SUBJECT_H

#include "backend/weights.h"
#include "calib/measure.h"
#include "models/gpu.h"
#include "models/llm.h"

/* `subject` points into the rest. */
struct cli_subject {
  struct measure_subject subject;
  struct llm model;
  struct gpu gpu;
  char engine[64], source[1024], kernel[128];
};

/* The name is that of the built-in description of these shapes, else family, width and layers. */
int cli_subject_of(struct cli_subject *s, struct weights *w, const char *folder, const char *path,
                   int threads, struct base_error *e);

#endif
