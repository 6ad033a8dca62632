/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How PEFT calls the parts of an adapter; inside of the readers and writers of adapters. */
#ifndef BACKEND_ADAPTER_LAYOUT_H
#define BACKEND_ADAPTER_LAYOUT_H

#include "backend/adapter.h"
#include "base/outfile.h"

enum { ADAPTER_NAME = 96 };

/* "q_proj" */
const char *adapter_module(int target);
/* Writes the file that adapter_config_parse reads. */
int adapter_config_write(const char *path, const struct adapter_config *c, struct base_error *e);

#endif
