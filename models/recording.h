/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Recordings: what a device answered in every run of an experiment, beside what it was asked, so
 * that a replay can answer the same again. The world that asks the same comes to the same decision
 * log and the same ledger, whatever the device was and however late it answered.
 *
 *   recorder_begin(rec, &run, inner, inner_ops, &dev, &ops, e);   world_run(cfg, dev, ops, ...);
 *   recorder_end(rec, e);                                         recorder_close(rec, e);
 *
 *   replay_begin(rp, &run, &dev, &ops, e);                        world_run(cfg, dev, ops, ...);
 *   replay_end(rp, e);
 *
 * FILE. Lines of JSON, compressed: {"lull-recording": 1, "scenario": ..., "device": ...}; for each
 * run {"run": {"arm", "candidate", "seed", "plan"}, "rows": ...}, a line ["name", [asked...],
 * [answered...]] for each call, of whole numbers, and {"calls": how many}; at the end {"runs": how
 * many}. Work of which much is asked says it in a digest. Tokens are not recorded. Adapter work and
 * sleep end in slot, level and version, a request that has an adapter in its slot.
 */
#ifndef MODELS_RECORDING_H
#define MODELS_RECORDING_H

#include <lull/device.h>

#include "base/error.h"

/* One run of an experiment. */
struct recording_run {
  const char *arm, *candidate;
  uint64_t seed;
  const char *plan; /* digest */
};

struct recorder;

/* A recording of a scenario's runs on a device; the names are for people and for the check that a
 * replay is of the same. */
struct recorder *recorder_open(const char *path, const char *scenario, const char *device,
                               struct base_error *e);
/* A device around `inner`, which is borrowed until recorder_end. */
int recorder_begin(struct recorder *r, const struct recording_run *run, struct lull_device *inner,
                   const struct lull_device_ops *ops, struct lull_device **dev,
                   const struct lull_device_ops **out, struct base_error *e);
/* The run has ended well. */
int recorder_end(struct recorder *r, struct base_error *e);
/* Puts the file in place; releases r in any case. */
int recorder_close(struct recorder *r, struct base_error *e);
/* Leaves nothing behind. NULL is fine. */
void recorder_abandon(struct recorder *r);

struct replay;

/* Reads a whole recording. BASE_INPUT, with the line: cut, of another version or scenario (NULL:
 * of any), no recording at all. */
struct replay *replay_open(const char *path, const char *scenario, struct base_error *e);
/* The same of text that is not compressed; `name` for messages. */
struct replay *replay_open_memory(const char *text, size_t size, const char *name,
                                  const char *scenario, struct base_error *e);
/* The device that was recorded. */
const char *replay_device(const struct replay *r);
/* The device that answers as in this run. BASE_INPUT where it is not recorded, or on another plan.
 * A call that the run did not make fails with LULL_DEV_DIFFERS and says which it is. */
int replay_begin(struct replay *r, const struct recording_run *run, struct lull_device **dev,
                 const struct lull_device_ops **ops, struct base_error *e);
/* BASE_INPUT if the run made more calls, or others. */
int replay_end(struct replay *r, struct base_error *e);
/* Of the run that was begun last. */
struct replay_stats {
  uint64_t steps;
  int64_t finished; /* requests; -1: the device was not told who they are */
};
void replay_get_stats(const struct replay *r, struct replay_stats *out);
void replay_close(struct replay *r);

#endif
