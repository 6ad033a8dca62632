/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The replay device. A recording is read whole; each run's calls stand in one row of integers:
 * kind, how many were asked, how many answered, and the values of both.
 */
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "models/recording.h"
#include "models/recording_calls.h"

enum { LINE_MAX_BYTES = 1 << 17, HEAD = 3 };

/* The work on a lane. */
struct lane {
  int busy;
  int64_t kind, tag;
  uint64_t left; /* steps not told of */
};

struct run {
  char *arm, *candidate, *seed, *plan;
  int rows;
  int64_t *v; /* [n], owned: a call is kind, asked, answered, and their values */
  size_t n, room;
  uint64_t calls;
  int ended; /* its last line was read */
  /* while it is read: what a device may answer next */
  lull_time now;
  int64_t lanes; /* opened */
  struct lane lane[LULL_LANES];
};

struct replay {
  char name[256], device[64];
  char *line; /* being read: [LINE_MAX_BYTES] */
  struct run *run;
  size_t nruns, lines;
  int ended;
  /* the run that is replayed */
  const struct run *at;
  size_t next;    /* in its v */
  uint64_t calls; /* made so far */
  lull_time now;
  uint64_t steps, finished; /* told so far */
  int differs;
  char why[512];
};

__attribute__((cold, format(printf, 3, 4))) static int
fail(const struct replay *r, struct base_error *e, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  base_vfail_at(e, BASE_INPUT, r->name, (unsigned)r->lines, fmt, ap);
  va_end(ap);
  return -1;
}

/* ------------------------------------------------------------------------------------ reading ---
 */

static const char *text_of(const json_t *o, const char *key)
{
  const char *text = json_string_value(json_object_get(o, key));
  return text ? text : "";
}

static int read_head(struct replay *r, const json_t *o, const char *scenario, struct base_error *e)
{
  const json_t *version = json_object_get(o, "lull-recording");
  if (!json_is_integer(version))
    return fail(r, e, "no recording of a run: its first line does not say so");
  if (json_integer_value(version) != RECORDING_VERSION)
    return fail(r, e, "a recording of version %lld; this lull reads version %d",
                (long long)json_integer_value(version), RECORDING_VERSION);
  if (scenario && strcmp(text_of(o, "scenario"), scenario))
    return fail(r, e, "a recording of scenario '%.100s', not of '%.100s'", text_of(o, "scenario"),
                scenario);
  snprintf(r->device, sizeof r->device, "%s", text_of(o, "device"));
  return 0;
}

static int read_run(struct replay *r, const json_t *o, struct base_error *e)
{
  const json_t *names = json_object_get(o, "run");
  struct run *more = realloc(r->run, (r->nruns + 1) * sizeof *more);
  if (!more)
    return base_fail_memory(e);
  r->run = more;
  struct run *run = &more[r->nruns++];
  *run = (struct run){.rows = json_is_true(json_object_get(o, "rows")),
                      .arm = strdup(text_of(names, "arm")),
                      .candidate = strdup(text_of(names, "candidate")),
                      .seed = strdup(text_of(names, "seed")),
                      .plan = strdup(text_of(names, "plan"))};
  return run->arm && run->candidate && run->seed && run->plan ? 0 : base_fail_memory(e);
}

/* The run whose calls are being read, NULL between runs. */
static struct run *open_run(struct replay *r)
{
  struct run *run = r->nruns ? &r->run[r->nruns - 1] : NULL;
  return run && !run->ended ? run : NULL;
}

static int read_object(struct replay *r, const json_t *o, struct base_error *e)
{
  struct run *run = open_run(r);
  const json_t *calls = json_object_get(o, "calls"), *runs = json_object_get(o, "runs");
  if (run && json_is_integer(calls)) {
    run->ended = 1;
    if ((uint64_t)json_integer_value(calls) != run->calls)
      return fail(r, e, "the run made %lld calls, but %llu are recorded",
                  (long long)json_integer_value(calls), (unsigned long long)run->calls);
    return 0;
  }
  if (!run && json_is_object(json_object_get(o, "run")))
    return read_run(r, o, e);
  if (!run && json_is_integer(runs) && (uint64_t)json_integer_value(runs) == r->nruns) {
    r->ended = 1;
    return 0;
  }
  return fail(r, e, "neither a call, nor the start or end of a run, nor the end of all of them");
}

static int kind_of(const char *name)
{
  for (int k = 0; k < CALL_KINDS; k++)
    if (!strcmp(name, recording_name[k]))
      return k;
  return -1;
}

/* Fewest values answered, by kind. */
static size_t least_answer(int kind)
{
  static const size_t least[CALL_KINDS] = {1, 1, 0, 2, 2, 1, 0, 1, 1, 1, 0};
  return least[kind];
}

/* Appends n values; room grows. */
static int push(struct run *run, const int64_t *v, size_t n, struct base_error *e)
{
  if (run->n + n > run->room) {
    size_t room = 2 * run->room + n + 4096;
    int64_t *more = realloc(run->v, room * sizeof *more);
    if (!more)
      return base_fail_memory(e);
    run->v = more;
    run->room = room;
  }
  memcpy(run->v + run->n, v, n * sizeof *v);
  run->n += n;
  return 0;
}

/* All values of a list, which must be whole numbers. */
static int push_list(struct replay *r, struct run *run, const json_t *list, struct base_error *e)
{
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *value = json_array_get(list, i);
    int64_t v = json_integer_value(value);
    if (!json_is_integer(value))
      return fail(r, e, "value %zu is no whole number", i + 1);
    if (push(run, &v, 1, e))
      return -1;
  }
  return 0;
}

/* A completion of work that is under way, not of the future, with no more steps than are left. */
static int good_completion(struct run *run, const int64_t *v)
{
  struct lull_completion c;
  struct lane *l = v[1] >= 0 && v[1] < LULL_LANES ? &run->lane[v[1]] : NULL;
  completion_from_values(&c, v);
  if (!l || !l->busy || v[0] != l->tag || v[2] != l->kind || c.span.steps > l->left || c.end < 0 ||
      c.end > run->now || (c.span.steps == 1 && c.span.first_end != c.span.last_end) ||
      (c.span.steps && (c.aborted ? c.span.last_end > c.end : c.span.last_end != c.end)))
    return 0;
  l->left -= c.span.steps;
  l->busy = !c.final;
  return 1;
}

/* As many completions as it says. */
static int good_wait(struct run *run, const int64_t *answer, size_t n)
{
  int64_t told = answer[0] < 0 ? 0 : answer[0];
  if (told > LULL_LANES || n != 2 + (size_t)told * CALL_COMPLETION || answer[1] < run->now)
    return 0;
  run->now = answer[1];
  for (int64_t i = 0; i < told; i++) {
    if (!good_completion(run, answer + 2 + i * CALL_COMPLETION))
      return 0;
  }
  return 1;
}

/* What was submitted bounds what may be told of it. */
static int good_submit(struct run *run, const int64_t *asked, size_t n, int64_t status)
{
  if (n < 7 || asked[1] < 0 || asked[1] >= LULL_LANES)
    return 0;
  if (status == LULL_DEV_OK)
    run->lane[asked[1]] = (struct lane){.busy = 1,
                                        .kind = asked[0],
                                        .tag = asked[5],
                                        .left = asked[0] == LULL_WORK_FORWARD ? (uint64_t)asked[2]
                                                                              : 0};
  return 1;
}

/* Boundaries that are not told of yet. */
static int good_progress(const struct run *run, const int64_t *asked, size_t n,
                         const int64_t *answer)
{
  if (n < 1 || asked[0] < 0 || asked[0] >= LULL_LANES)
    return 0;
  return (uint64_t)answer[0] <= run->lane[asked[0]].left && answer[1] >= 0 && answer[1] <= run->now;
}

/* Could a device answer so to what it was asked, after all that was before? */
static int good_call(struct run *run, int kind, const int64_t *asked, size_t n,
                     const int64_t *answer, size_t answered)
{
  switch (kind) {
  case CALL_OPEN: /* lanes are numbered in order */
    return answer[0] < 0 || (answer[0] == run->lanes && ++run->lanes <= LULL_LANES);
  case CALL_SUBMIT:
    return good_submit(run, asked, n, answer[0]);
  case CALL_PROGRESS:
    return good_progress(run, asked, n, answer);
  case CALL_WAIT:
    return good_wait(run, answer, answered);
  case CALL_REPEAT:
    return answer[0] != 0;
  default:
    return 1;
  }
}

static int read_call(struct replay *r, const json_t *line, struct base_error *e)
{
  struct run *run = open_run(r);
  const json_t *asked = json_array_get(line, 1), *answer = json_array_get(line, 2);
  const char *name = json_string_value(json_array_get(line, 0));
  int kind = name ? kind_of(name) : -1;
  size_t na = json_array_size(asked), nr = json_array_size(answer);
  if (!run || kind < 0 || json_array_size(line) != 3 || !json_is_array(asked) ||
      !json_is_array(answer) || na > CALL_ASKED || nr < least_answer(kind))
    return fail(r, e, "no call of a device within a run");
  int64_t head[HEAD] = {kind, (int64_t)na, (int64_t)nr};
  if (push(run, head, HEAD, e) || push_list(r, run, asked, e) || push_list(r, run, answer, e))
    return -1;
  const int64_t *v = run->v + run->n - nr;
  if (!good_call(run, kind, v - na, na, v, nr))
    return fail(r, e, "no device answers '%s' so at this point", name);
  run->calls++;
  return 0;
}

static int read_line(struct replay *r, const char *text, size_t size, const char *scenario,
                     struct base_error *e)
{
  json_error_t j;
  r->lines++;
  json_t *line = json_loadb(text, size, 0, &j);
  int bad;
  if (!line)
    bad = fail(r, e, "no line of JSON at byte %d: the recording is cut or damaged", j.position);
  else if (r->ended)
    bad = fail(r, e, "something stands behind the end");
  else if (r->lines == 1)
    bad = read_head(r, line, scenario, e);
  else
    bad = json_is_array(line) ? read_call(r, line, e) : read_object(r, line, e);
  json_decref(line);
  return bad;
}

static struct replay *replay_new(const char *name, struct base_error *e)
{
  struct replay *r = calloc(1, sizeof *r);
  if (r)
    r->line = malloc(LINE_MAX_BYTES);
  if (!r || !r->line) {
    replay_close(r);
    base_fail_memory(e);
    return NULL;
  }
  snprintf(r->name, sizeof r->name, "%s", name);
  return r;
}

/* All lines were read. */
static struct replay *complete(struct replay *r, int bad, struct base_error *e)
{
  if (!bad && r->ended)
    return r;
  if (!bad)
    fail(r, e, "the recording is cut: its end is missing");
  replay_close(r);
  return NULL;
}

struct replay *replay_open(const char *path, const char *scenario, struct base_error *e)
{
  struct replay *r = replay_new(path, e);
  gzFile in = r ? gzopen(path, "rb") : NULL;
  int bad = 0, code;
  if (r && !in) {
    base_fail_errno(e, "cannot read '%s'", path);
    replay_close(r);
    return NULL;
  }
  while (r && !bad && gzgets(in, r->line, LINE_MAX_BYTES))
    bad = read_line(r, r->line, strlen(r->line), scenario, e);
  if (r && !bad) {
    gzerror(in, &code);
    if (code != Z_OK && code != Z_STREAM_END)
      bad = fail(r, e, "cannot be unpacked: the recording is cut or damaged");
  }
  if (in)
    gzclose(in);
  return r ? complete(r, bad, e) : NULL;
}

struct replay *replay_open_memory(const char *text, size_t size, const char *name,
                                  const char *scenario, struct base_error *e)
{
  struct replay *r = replay_new(name, e);
  int bad = 0;
  while (r && !bad && size) {
    const char *end = memchr(text, '\n', size);
    size_t n = end ? (size_t)(end - text) + 1 : size;
    bad = read_line(r, text, n, scenario, e);
    text += n;
    size -= n;
  }
  return r ? complete(r, bad, e) : NULL;
}

const char *replay_device(const struct replay *r)
{
  return r->device;
}

void replay_close(struct replay *r)
{
  if (!r)
    return;
  for (size_t i = 0; i < r->nruns; i++) {
    free(r->run[i].arm);
    free(r->run[i].candidate);
    free(r->run[i].seed);
    free(r->run[i].plan);
    free(r->run[i].v);
  }
  free(r->run);
  free(r->line);
  free(r);
}

/* ----------------------------------------------------------------------------------- replaying ---
 */

static struct replay *of(struct lull_device *d)
{
  return (struct replay *)d;
}

/* "submit(0, 1, 2)" into text. */
static void describe(char *text, size_t size, int kind, const int64_t *v, size_t n)
{
  size_t used = (size_t)snprintf(text, size, "%s(", recording_name[kind]);
  for (size_t i = 0; i < n && used < size; i++)
    used += (size_t)snprintf(text + used, size - used, i ? ", %lld" : "%lld", (long long)v[i]);
  if (used < size)
    snprintf(text + used, size - used, ")");
}

__attribute__((cold)) static void note_difference(struct replay *r, const struct recording_call *c)
{
  const int64_t *v = r->at->v + r->next;
  char asked[220], recorded[220] = "no further call";
  if (r->differs++)
    return;
  describe(asked, sizeof asked, c->kind, c->asked, c->n);
  if (r->next < r->at->n)
    describe(recorded, sizeof recorded, (int)v[0], v + HEAD, (size_t)v[1]);
  snprintf(r->why, sizeof r->why, "call %llu of the run is %s, but %s is recorded",
           (unsigned long long)r->calls, asked, recorded);
}

/* What was answered to this call, or NULL if it is not the one that comes next. */
static const int64_t *answer_to(struct replay *r, const struct recording_call *c)
{
  const int64_t *v = r->at->v + r->next;
  r->calls++;
  if (!r->differs && r->next < r->at->n && v[0] == c->kind && v[1] == c->n &&
      !memcmp(v + HEAD, c->asked, c->n * sizeof *v)) {
    r->next += HEAD + (size_t)v[1] + (size_t)v[2];
    return v + HEAD + v[1];
  }
  note_difference(r, c);
  return NULL;
}

static int64_t simple(struct lull_device *d, int kind, uint32_t n, int64_t a, int64_t b,
                      int64_t instead)
{
  struct recording_call c;
  call_simple(&c, kind, n, a, b);
  const int64_t *answer = answer_to(of(d), &c);
  return answer && least_answer(kind) ? answer[0] : instead;
}

static lull_time re_now(struct lull_device *d)
{
  return of(d)->now;
}

static int re_lane_open(struct lull_device *d, const int *gpu, int n, int kind)
{
  struct recording_call c;
  call_open(&c, gpu, n, kind);
  const int64_t *answer = answer_to(of(d), &c);
  return answer ? (int)answer[0] : LULL_DEV_DIFFERS;
}

static int re_submit(struct lull_device *d, const struct lull_work *w)
{
  struct recording_call c;
  call_submit(&c, w);
  const int64_t *answer = answer_to(of(d), &c);
  return answer ? (int)answer[0] : LULL_DEV_DIFFERS;
}

static void re_interrupt(struct lull_device *d, lull_lane_id lane, int how)
{
  simple(d, CALL_INTERRUPT, 2, lane, how, 0);
}

static void re_progress(struct lull_device *d, lull_lane_id lane, uint64_t *steps, lull_time *at)
{
  struct recording_call c;
  call_simple(&c, CALL_PROGRESS, 1, lane, 0);
  const int64_t *answer = answer_to(of(d), &c);
  *steps = answer ? (uint64_t)answer[0] : 0;
  if (*steps)
    *at = answer[1];
}

static int re_wait(struct lull_device *d, lull_time until, struct lull_completion *out, int max)
{
  struct replay *r = of(d);
  struct recording_call c;
  call_simple(&c, CALL_WAIT, 2, until, max);
  const int64_t *answer = answer_to(r, &c);
  if (!answer || answer[0] > max)
    return LULL_DEV_DIFFERS;
  r->now = answer[1];
  for (int i = 0; i < (int)answer[0]; i++) {
    completion_from_values(&out[i], answer + 2 + i * CALL_COMPLETION);
    r->steps += out[i].span.steps;
  }
  return (int)answer[0];
}

static int re_reserve(struct lull_device *d, int gpu, int64_t bytes)
{
  return (int)simple(d, CALL_RESERVE, 2, gpu, bytes, LULL_DEV_DIFFERS);
}

static void re_release(struct lull_device *d, int gpu, int64_t bytes)
{
  simple(d, CALL_RELEASE, 2, gpu, bytes, 0);
}

static uint64_t re_max_repeat(struct lull_device *d)
{
  return (uint64_t)simple(d, CALL_REPEAT, 0, 0, 0, 1);
}

static int re_depth(struct lull_device *d)
{
  return (int)simple(d, CALL_DEPTH, 0, 0, 0, 1);
}

static int re_request(struct lull_device *d, lull_id id, const struct lull_device_request *who)
{
  struct recording_call c;
  call_request(&c, id, who);
  const int64_t *answer = answer_to(of(d), &c);
  return answer ? (int)answer[0] : LULL_DEV_DIFFERS;
}

static void re_forget(struct lull_device *d, lull_id id, int how)
{
  simple(d, CALL_FORGET, 2, id, how, 0);
  of(d)->finished += how == LULL_FORGET_FINISHED;
}

static const char *re_why(struct lull_device *d)
{
  return of(d)->why[0] ? of(d)->why : "the recorded device failed here";
}

#define REPLAY_OPS                                                                                 \
  .size = sizeof(struct lull_device_ops), .abi = LULL_DEVICE_ABI, .now = re_now,                   \
  .lane_open = re_lane_open, .submit = re_submit, .interrupt = re_interrupt,                       \
  .progress = re_progress, .wait = re_wait, .reserve = re_reserve, .release = re_release,          \
  .max_repeat = re_max_repeat, .depth = re_depth, .why = re_why

static const struct lull_device_ops plain_ops = {REPLAY_OPS};
static const struct lull_device_ops rows_ops = {REPLAY_OPS, .request = re_request,
                                                .forget = re_forget};

int replay_begin(struct replay *r, const struct recording_run *run, struct lull_device **dev,
                 const struct lull_device_ops **ops, struct base_error *e)
{
  char seed[24];
  const char *candidate = run->candidate ? run->candidate : "";
  snprintf(seed, sizeof seed, "%llu", (unsigned long long)run->seed);
  for (size_t i = 0; i < r->nruns; i++) {
    const struct run *k = &r->run[i];
    if (strcmp(k->arm, run->arm) || strcmp(k->candidate, candidate) || strcmp(k->seed, seed))
      continue;
    if (strcmp(k->plan, run->plan))
      return base_fail_at(e, BASE_INPUT, r->name, 0,
                          "it was recorded on other requests: their digest is %.40s, not %.40s",
                          k->plan, run->plan);
    r->at = k;
    r->next = r->calls = r->steps = r->finished = 0;
    r->now = 0;
    r->differs = 0;
    r->why[0] = '\0';
    *dev = (struct lull_device *)r;
    *ops = k->rows ? &rows_ops : &plain_ops;
    return 0;
  }
  return base_fail_at(e, BASE_INPUT, r->name, 0,
                      "no run of arm '%.60s'%s%.40s, seed %s, is recorded", run->arm,
                      *candidate ? ", candidate " : "", candidate, seed);
}

int replay_end(struct replay *r, struct base_error *e)
{
  if (r->differs)
    return base_fail_at(e, BASE_INPUT, r->name, 0, "%s", r->why);
  if (r->next < r->at->n)
    return base_fail_at(e, BASE_INPUT, r->name, 0,
                        "the run ended after %llu calls, but %llu are recorded",
                        (unsigned long long)r->calls, (unsigned long long)r->at->calls);
  return 0;
}

void replay_get_stats(const struct replay *r, struct replay_stats *out)
{
  out->steps = r->steps;
  out->finished = r->at->rows ? (int64_t)r->finished : -1;
}
