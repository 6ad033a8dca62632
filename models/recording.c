/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The recorder: a device that passes every call on and writes it down with its answer. */
#include "models/recording.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/outfile.h"
#include "models/recording_calls.h"

struct recorder {
  struct base_outfile file;
  gzFile out;
  int failed; /* errno of the first line that was not written */
  uint64_t runs, calls;
  struct lull_device *inner;
  const struct lull_device_ops *ops;
};

static struct recorder *of(struct lull_device *d)
{
  return (struct recorder *)d;
}

/* ------------------------------------------------------------------------------------ writing ---
 */

/* A failure is told when the file is closed. */
static void note(struct recorder *r, int bad)
{
  if (bad && !r->failed)
    r->failed = errno ? errno : EIO;
}

static void put(struct recorder *r, const char *text)
{
  note(r, gzputs(r->out, text) < 0);
}

static void put_values(struct recorder *r, const int64_t *v, uint32_t n)
{
  put(r, "[");
  for (uint32_t i = 0; i < n; i++)
    note(r, gzprintf(r->out, i ? ",%lld" : "%lld", (long long)v[i]) <= 0);
  put(r, "]");
}

/* A call and its answer. */
static void put_call(struct recorder *r, const struct recording_call *c, const int64_t *answer,
                     uint32_t n)
{
  note(r, gzprintf(r->out, "[\"%s\",", recording_name[c->kind]) <= 0);
  put_values(r, c->asked, c->n);
  put(r, ",");
  put_values(r, answer, n);
  put(r, "]\n");
  r->calls++;
}

/* Takes the object. */
static int put_object(struct recorder *r, json_t *object, struct base_error *e)
{
  char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
  json_decref(object);
  if (!text)
    return base_fail_memory(e);
  put(r, text);
  put(r, "\n");
  free(text);
  return 0;
}

/* ----------------------------------------------------------------------------------- the calls ---
 */

static lull_time rec_now(struct lull_device *d)
{
  return of(d)->ops->now(of(d)->inner);
}

static int rec_lane_open(struct lull_device *d, const int *gpu, int n, int kind)
{
  struct recording_call c;
  int64_t lane = of(d)->ops->lane_open(of(d)->inner, gpu, n, kind);
  call_open(&c, gpu, n, kind);
  put_call(of(d), &c, &lane, 1);
  return (int)lane;
}

static int rec_submit(struct lull_device *d, const struct lull_work *w)
{
  struct recording_call c;
  call_submit(&c, w);
  int64_t st = of(d)->ops->submit(of(d)->inner, w);
  put_call(of(d), &c, &st, 1);
  return (int)st;
}

static void rec_interrupt(struct lull_device *d, lull_lane_id lane, int how)
{
  struct recording_call c;
  call_simple(&c, CALL_INTERRUPT, 2, lane, how);
  of(d)->ops->interrupt(of(d)->inner, lane, how);
  put_call(of(d), &c, NULL, 0);
}

static void rec_progress(struct lull_device *d, lull_lane_id lane, uint64_t *steps, lull_time *at)
{
  struct recording_call c;
  call_simple(&c, CALL_PROGRESS, 1, lane, 0);
  of(d)->ops->progress(of(d)->inner, lane, steps, at);
  int64_t answer[2] = {(int64_t)*steps, *steps ? *at : 0};
  put_call(of(d), &c, answer, 2);
}

static int rec_wait(struct lull_device *d, lull_time until, struct lull_completion *out, int max)
{
  struct recorder *r = of(d);
  struct recording_call c;
  int64_t answer[2 + LULL_LANES * CALL_COMPLETION];
  int n = r->ops->wait(r->inner, until, out, max);
  uint32_t told = n < 0 ? 0 : n > LULL_LANES ? LULL_LANES : (uint32_t)n;
  call_simple(&c, CALL_WAIT, 2, until, max);
  answer[0] = n;
  answer[1] = r->ops->now(r->inner);
  for (uint32_t i = 0; i < told; i++)
    completion_to_values(&out[i], answer + 2 + i * CALL_COMPLETION);
  put_call(r, &c, answer, 2 + told * CALL_COMPLETION);
  return n;
}

static int rec_reserve(struct lull_device *d, int gpu, int64_t bytes)
{
  struct recording_call c;
  int64_t st = of(d)->ops->reserve(of(d)->inner, gpu, bytes);
  call_simple(&c, CALL_RESERVE, 2, gpu, bytes);
  put_call(of(d), &c, &st, 1);
  return (int)st;
}

static void rec_release(struct lull_device *d, int gpu, int64_t bytes)
{
  struct recording_call c;
  of(d)->ops->release(of(d)->inner, gpu, bytes);
  call_simple(&c, CALL_RELEASE, 2, gpu, bytes);
  put_call(of(d), &c, NULL, 0);
}

static uint64_t rec_max_repeat(struct lull_device *d)
{
  struct recording_call c;
  int64_t n = (int64_t)of(d)->ops->max_repeat(of(d)->inner);
  call_simple(&c, CALL_REPEAT, 0, 0, 0);
  put_call(of(d), &c, &n, 1);
  return (uint64_t)n;
}

static int rec_depth(struct lull_device *d)
{
  struct recording_call c;
  int64_t n = of(d)->ops->depth(of(d)->inner);
  call_simple(&c, CALL_DEPTH, 0, 0, 0);
  put_call(of(d), &c, &n, 1);
  return (int)n;
}

static int rec_request(struct lull_device *d, lull_id id, const struct lull_device_request *who)
{
  struct recording_call c;
  int64_t st = of(d)->ops->request(of(d)->inner, id, who);
  call_request(&c, id, who);
  put_call(of(d), &c, &st, 1);
  return (int)st;
}

static void rec_forget(struct lull_device *d, lull_id id, int how)
{
  struct recording_call c;
  of(d)->ops->forget(of(d)->inner, id, how);
  call_simple(&c, CALL_FORGET, 2, id, how);
  put_call(of(d), &c, NULL, 0);
}

static const char *rec_why(struct lull_device *d)
{
  const struct lull_device_ops *ops = of(d)->ops;
  return LULL_HAS(ops, why) && ops->why ? ops->why(of(d)->inner) : NULL;
}

#define RECORDER_OPS                                                                               \
  .size = sizeof(struct lull_device_ops), .abi = LULL_DEVICE_ABI, .now = rec_now,                  \
  .lane_open = rec_lane_open, .submit = rec_submit, .interrupt = rec_interrupt,                    \
  .progress = rec_progress, .wait = rec_wait, .reserve = rec_reserve, .release = rec_release,      \
  .max_repeat = rec_max_repeat, .depth = rec_depth, .why = rec_why

static const struct lull_device_ops plain_ops = {RECORDER_OPS};
static const struct lull_device_ops rows_ops = {RECORDER_OPS, .request = rec_request,
                                                .forget = rec_forget};

/* ------------------------------------------------------------------------------- the file ---- */

struct recorder *recorder_open(const char *path, const char *scenario, const char *device,
                               struct base_error *e)
{
  struct recorder *r = calloc(1, sizeof *r);
  if (!r) {
    base_fail_memory(e);
    return NULL;
  }
  if (base_outfile_open(&r->file, path, e)) {
    free(r);
    return NULL;
  }
  int fd = dup(fileno(r->file.f));
  r->out = fd < 0 ? NULL : gzdopen(fd, "wb");
  if (!r->out) {
    if (fd >= 0)
      close(fd);
    base_fail_errno(e, "cannot write '%s'", path);
    recorder_abandon(r);
    return NULL;
  }
  if (put_object(r,
                 json_pack("{s:i,s:s,s:s}", "lull-recording", RECORDING_VERSION, "scenario",
                           scenario, "device", device),
                 e)) {
    recorder_abandon(r);
    return NULL;
  }
  return r;
}

int recorder_begin(struct recorder *r, const struct recording_run *run, struct lull_device *inner,
                   const struct lull_device_ops *ops, struct lull_device **dev,
                   const struct lull_device_ops **out, struct base_error *e)
{
  char seed[24];
  int rows = LULL_HAS(ops, forget) && ops->request && ops->forget;
  snprintf(seed, sizeof seed, "%llu", (unsigned long long)run->seed);
  r->inner = inner;
  r->ops = ops;
  r->calls = 0;
  *dev = (struct lull_device *)r;
  *out = rows ? &rows_ops : &plain_ops;
  return put_object(r,
                    json_pack("{s:{s:s,s:s,s:s,s:s},s:b}", "run", "arm", run->arm, "candidate",
                              run->candidate ? run->candidate : "", "seed", seed, "plan", run->plan,
                              "rows", rows),
                    e);
}

int recorder_end(struct recorder *r, struct base_error *e)
{
  r->runs++;
  return put_object(r, json_pack("{s:I}", "calls", (json_int_t)r->calls), e);
}

int recorder_close(struct recorder *r, struct base_error *e)
{
  int bad = put_object(r, json_pack("{s:I}", "runs", (json_int_t)r->runs), e);
  note(r, gzclose(r->out) != Z_OK);
  r->out = NULL;
  if (!bad && !r->failed) {
    bad = base_outfile_commit(&r->file, e);
    free(r);
    return bad;
  }
  base_fail(e, BASE_ENV, "cannot write '%s': %s", r->file.path, strerror(r->failed));
  recorder_abandon(r);
  return -1;
}

void recorder_abandon(struct recorder *r)
{
  if (!r)
    return;
  if (r->out)
    gzclose(r->out);
  base_outfile_abandon(&r->file);
  free(r);
}
