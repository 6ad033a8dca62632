/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Weights as the command line names them. */
#ifndef CLI_WEIGHTS_H
#define CLI_WEIGHTS_H

#include "backend/weights.h"

/* Those of a folder, scanned, as `dtype` says: bfloat16, float32, or NULL for what they are.
 * NULL on failure. */
struct weights *cli_weights_open(const char *folder, const char *dtype, struct base_error *e);
/* XXH3-128 over names and bytes of all tensors, lower-case hex. */
int cli_weights_digest(struct weights *w, char hex[33], struct base_error *e);

#endif
