/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a call of the device contract is in a recording: a name, and what was asked, as integers. */
#ifndef MODELS_RECORDING_CALLS_H
#define MODELS_RECORDING_CALLS_H

#include <lull/device.h>

enum { RECORDING_VERSION = 1 };

enum recording_kind {
  CALL_OPEN,
  CALL_SUBMIT,
  CALL_INTERRUPT,
  CALL_PROGRESS,
  CALL_WAIT,
  CALL_RESERVE,
  CALL_RELEASE,
  CALL_REPEAT,
  CALL_DEPTH,
  CALL_REQUEST,
  CALL_FORGET,
  CALL_KINDS
};

/* Most values asked in a call; of a completion. */
enum { CALL_ASKED = 24, CALL_COMPLETION = 13 };

struct recording_call {
  int kind;
  uint32_t n;
  int64_t asked[CALL_ASKED];
};

extern const char *const recording_name[CALL_KINDS];

/* Each fills *c. */
void call_open(struct recording_call *c, const int *gpu, int n, int kind);
void call_submit(struct recording_call *c, const struct lull_work *w);
void call_request(struct recording_call *c, lull_id id, const struct lull_device_request *who);
/* Any other: up to two values. */
void call_simple(struct recording_call *c, int kind, uint32_t n, int64_t a, int64_t b);

/* A completion as integers and back, but for its tokens. */
void completion_to_values(const struct lull_completion *c, int64_t v[CALL_COMPLETION]);
void completion_from_values(struct lull_completion *c, const int64_t v[CALL_COMPLETION]);

#endif
