/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What GPUs hold beside requests: adapters in slots, and whether they sleep. In the world's thread,
 * but for device_held_work.
 *
 * A load goes to an engine slot that no slot of the contract stands for, and the slot turns to it
 * when the load is told. So which version a request gets does not depend on how far the copy lane
 * is, and an engine needs one slot more than the world has. Works of a copy lane come one after
 * another, so one is enough.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/device_inner.h"

int device_refuse(struct lull_device *d, int status, const struct base_error *e)
{
  snprintf(d->why, sizeof d->why, "%s", e->text);
  return status;
}

int device_held_create(struct lull_device *d)
{
  d->held = calloc((size_t)d->ngpus, sizeof *d->held);
  for (int i = 0; d->held && i < d->ngpus; i++) {
    d->held[i].slot = calloc((size_t)d->gpu[i].adapters + 1, sizeof(struct device_version *));
    if (!d->held[i].slot)
      return -1;
  }
  return d->held ? 0 : -1;
}

void device_held_destroy(struct lull_device *d)
{
  for (int i = 0; d->held && i < d->ngpus; i++) {
    for (uint32_t k = 0; d->held[i].slot && k < d->gpu[i].adapters; k++)
      device_version_drop(d, i, d->held[i].slot[k]);
    free(d->held[i].slot);
  }
  free(d->held);
}

/* ----------------------------------------------------------------------------------- adapters ---
 */

void device_version_leave(struct lull_device *d, int gpu, struct device_version *v)
{
  if (!v || --v->users)
    return;
  d->reserved[gpu] -= v->bytes;
  d->held[gpu].adapter_bytes -= v->bytes;
  free(v);
}

void device_version_drop(struct lull_device *d, int gpu, struct device_version *v)
{
  if (!v)
    return;
  engine_adapter_drop(d->gpu[gpu].engine, v->engine_slot);
  device_version_leave(d, gpu, v);
}

int device_held_adapter(struct lull_device *d, int gpu, lull_id id, int slot,
                        struct device_version **v)
{
  struct base_error e = {0};
  *v = slot >= 0 && (uint32_t)slot < d->gpu[gpu].adapters ? d->held[gpu].slot[slot] : NULL;
  if (slot < 0 || *v)
    return LULL_DEV_OK;
  base_fail(&e, BASE_INPUT,
            "GPU %d: request %" PRId32 " asks for the adapter in slot %d, where none is loaded",
            gpu, id, slot);
  return device_refuse(d, LULL_DEV_BAD_CALL, &e);
}

static int stands_for(const struct device_held *h, uint32_t slots, int engine_slot)
{
  for (uint32_t i = 0; i < slots; i++) {
    if (h->slot[i] && h->slot[i]->engine_slot == engine_slot)
      return 1;
  }
  return 0;
}

/* The engine's slot that no slot stands for. */
static int spare_slot(const struct lull_device *d, int gpu)
{
  int spare = 0;
  while (stands_for(&d->held[gpu], d->gpu[gpu].adapters, spare))
    spare++;
  return spare;
}

static int take(struct lull_device *d, int gpu, int64_t bytes, const char *what)
{
  struct base_error e = {0};
  int64_t room = d->gpu[gpu].memory_bytes - d->reserved[gpu];
  if (bytes <= room) {
    d->reserved[gpu] += bytes;
    return LULL_DEV_OK;
  }
  base_fail(&e, BASE_INPUT, "GPU %d: %s takes %" PRId64 " bytes; %" PRId64 " are free", gpu, what,
            bytes, room);
  return device_refuse(d, LULL_DEV_NO_MEMORY, &e);
}

static int load_adapter(struct lull_device *d, struct device_lane *l, const struct lull_work *w)
{
  struct base_error e = {0};
  const struct adapter *a = d->o.adapter ? d->o.adapter(d->o.adapter_ctx, l->gpu, w->version)
                                         : NULL;
  if (!a) {
    base_fail(&e, BASE_INPUT, "GPU %d: there is no version %" PRIu64 " of an adapter", l->gpu,
              w->version);
    return device_refuse(d, LULL_DEV_BAD_CALL, &e);
  }
  struct device_version *v = malloc(sizeof *v);
  if (!v) {
    base_fail_memory(&e);
    return device_refuse(d, LULL_DEV_IO, &e);
  }
  *v = (struct device_version){.adapter = a,
                               .engine_slot = spare_slot(d, l->gpu),
                               .bytes = engine_adapter_bytes(d->gpu[l->gpu].engine, a),
                               .users = 1};
  int st = take(d, l->gpu, v->bytes, "an adapter");
  if (st) {
    free(v);
    return st;
  }
  d->held[l->gpu].adapter_bytes += v->bytes;
  l->version = v;
  return LULL_DEV_OK;
}

static int submit_adapter(struct lull_device *d, struct device_lane *l, const struct lull_work *w)
{
  struct base_error e = {0};
  struct device_version **slot = d->held[l->gpu].slot;
  if (w->slot < 0 || (uint32_t)w->slot >= d->gpu[l->gpu].adapters)
    base_fail(&e, BASE_INPUT, "GPU %d has no adapter slot %" PRId32 "; it has %" PRIu32, l->gpu,
              w->slot, d->gpu[l->gpu].adapters);
  else if (w->kind == LULL_WORK_ADAPTER_LOAD)
    return load_adapter(d, l, w);
  else if (!slot[w->slot])
    base_fail(&e, BASE_INPUT, "GPU %d: there is no adapter in slot %" PRId32 " to drop", l->gpu,
              w->slot);
  else {
    l->version = slot[w->slot];
    slot[w->slot] = NULL;
    return LULL_DEV_OK;
  }
  return device_refuse(d, LULL_DEV_BAD_CALL, &e);
}

/* The slot turns to what was loaded; what failed, or was dropped, goes. */
static void tell_adapter(struct lull_device *d, struct device_lane *l)
{
  struct device_version **slot = &d->held[l->gpu].slot[l->work.slot], *gone = l->version;
  l->version = NULL;
  if (l->work.kind == LULL_WORK_ADAPTER_LOAD && !l->done.status) {
    struct device_version *loaded = gone;
    loaded->adapter = NULL;
    gone = *slot;
    *slot = loaded;
    d->stats.adapter_loads++;
  }
  device_version_drop(d, l->gpu, gone);
}

/* -------------------------------------------------------------------------------------- sleep ---
 */

/* Is something under way, or not told yet, that sleep would take the memory of? */
static int in_the_way(const struct lull_device *d, int gpu, int level)
{
  for (int i = 0; i < d->nlanes; i++) {
    const struct device_lane *l = d->lane[i];
    if (l->gpu != gpu || !l->in_use)
      continue;
    if (l->kind == LULL_LANE_COPY ? !device_held_kind(l->work.kind)
                                  : l->kind == LULL_LANE_TRAIN && level == 2)
      return 1;
  }
  return 0;
}

/* The level that it has, or is on its way to; while it wakes, that which it had. */
static int level_of(const struct lull_device *d, int gpu)
{
  int level = d->held[gpu].level;
  for (int i = 0; i < d->nlanes; i++) {
    const struct device_lane *l = d->lane[i];
    if (l->gpu == gpu && l->in_use && l->work.kind == LULL_WORK_WEIGHTS_DROP)
      level = l->work.level;
  }
  return level;
}

int device_held_awake(struct lull_device *d, int gpu, int lane_kind)
{
  struct base_error e = {0};
  int level = level_of(d, gpu);
  if (level < (lane_kind == LULL_LANE_TRAIN ? 2 : 1))
    return LULL_DEV_OK;
  base_fail(&e, BASE_INPUT, "GPU %d sleeps (level %d); wake it first", gpu, level);
  return device_refuse(d, LULL_DEV_BAD_CALL, &e);
}

static int submit_sleep(struct lull_device *d, const struct device_lane *l,
                        const struct lull_work *w)
{
  struct base_error e = {0};
  const struct device_held *h = &d->held[l->gpu];
  if (w->level != 1 && w->level != 2)
    base_fail(&e, BASE_INPUT, "sleep of level %" PRId32 "; there are 1 and 2", w->level);
  else if (h->level)
    base_fail(&e, BASE_INPUT, "GPU %d sleeps already (level %d); wake it first", l->gpu, h->level);
  else if (in_the_way(d, l->gpu, w->level))
    base_fail(&e, BASE_INPUT, "GPU %d: a copy of KV, or training, is under way; let it end first",
              l->gpu);
  else
    return LULL_DEV_OK;
  return device_refuse(d, LULL_DEV_BAD_CALL, &e);
}

static int submit_wake(struct lull_device *d, const struct device_lane *l)
{
  struct base_error e = {0};
  if (d->held[l->gpu].level)
    return take(d, l->gpu, d->held[l->gpu].slept_bytes, "waking");
  base_fail(&e, BASE_INPUT, "GPU %d does not sleep", l->gpu);
  return device_refuse(d, LULL_DEV_BAD_CALL, &e);
}

/* What is reserved beside adapters and, in level 1, weights is the most that sleep can give back.
 */
static void tell_sleep(struct lull_device *d, struct device_lane *l)
{
  struct device_held *h = &d->held[l->gpu];
  int64_t most = d->reserved[l->gpu] - h->adapter_bytes;
  if (l->done.status)
    return;
  if (l->work.level == 1)
    most -= d->gpu[l->gpu].held_bytes;
  h->level = l->work.level;
  h->slept_bytes = l->given_bytes < most ? l->given_bytes : most;
  d->reserved[l->gpu] -= h->slept_bytes;
  d->stats.slept++;
  d->stats.slept_bytes += h->slept_bytes;
}

static void tell_wake(struct lull_device *d, struct device_lane *l)
{
  struct device_held *h = &d->held[l->gpu];
  if (l->done.status) {
    d->reserved[l->gpu] -= h->slept_bytes;
    return;
  }
  h->level = 0;
  h->slept_bytes = 0;
}

/* --------------------------------------------------------------------------------------- both ---
 */

int device_held_kind(int kind)
{
  return kind >= LULL_WORK_ADAPTER_LOAD && kind <= LULL_WORK_WEIGHTS_DROP;
}

int device_held_submit(struct lull_device *d, struct device_lane *l, const struct lull_work *w)
{
  switch (w->kind) {
  case LULL_WORK_WEIGHTS_DROP:
    return submit_sleep(d, l, w);
  case LULL_WORK_WEIGHTS_LOAD:
    return submit_wake(d, l);
  default:
    return submit_adapter(d, l, w);
  }
}

void device_held_told(struct lull_device *d, struct device_lane *l)
{
  switch (l->work.kind) {
  case LULL_WORK_WEIGHTS_DROP:
    tell_sleep(d, l);
    break;
  case LULL_WORK_WEIGHTS_LOAD:
    tell_wake(d, l);
    break;
  default:
    tell_adapter(d, l);
  }
}

int device_held_work(struct device_lane *l)
{
  struct engine *en = l->d->gpu[l->gpu].engine;
  switch (l->work.kind) {
  case LULL_WORK_WEIGHTS_DROP:
    l->given_bytes = engine_sleep(en, l->work.level, &l->error);
    return l->given_bytes < 0 ? -1 : 0;
  case LULL_WORK_WEIGHTS_LOAD:
    return engine_wake(en, &l->error) < 0 ? -1 : 0;
  case LULL_WORK_ADAPTER_LOAD:
    return engine_adapter_load(en, l->version->engine_slot, l->version->adapter, &l->error);
  default:
    engine_adapter_drop(en, l->version->engine_slot);
    return 0;
  }
}
