/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lull generate: text of a model, token by token, from the engine. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/cpu/cpu.h"
#include "backend/engine.h"
#include "backend/tokenizer.h"
#include "cli/commands.h"
#include "cli/outputs.h"
#include "cli/weights.h"

enum { CHUNK = 512, BLOCK = 16, ANSWER = 128, THREADS_MAX = 1024 };

/* One run of the command: what it opened, and what it counts. */
struct generation {
  const struct cli_options *o;
  struct weights *w;
  struct ops *ops;
  struct tokenizer *tokenizer; /* NULL: ids are read and printed */
  struct tokenizer_stream stream;
  struct tokenizer_text text; /* of the last token */
  struct tokenizer_ids prompt;
  struct engine *engine;
  uint32_t max_tokens, printed; /* tokens: at most, so far */
  double prompt_s, decode_s;
};

static double now_s(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ------------------------------------------------------------------------------- opening ---- */

/* Into `path` of PATH_MAX bytes. */
static int path_in(const char *folder, const char *name, char *path, struct base_error *e)
{
  if (snprintf(path, PATH_MAX, "%s/%s", folder, name) >= PATH_MAX)
    return base_fail(e, BASE_INPUT, "the path of %s in '%s' is too long", name, folder);
  return 0;
}

static int open_ops(struct generation *g, struct base_error *e)
{
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  uint64_t threads = g->o->threads ? g->o->threads : processors > 0 ? (uint64_t)processors : 1;
  if (threads > THREADS_MAX)
    return base_fail(e, BASE_USAGE, "--threads: %" PRIu64 " are more than %d", threads,
                     THREADS_MAX);
  g->ops = cpu_ops_create(g->w->dtype, NULL, (int)threads, g->o->path, e);
  return g->ops ? 0 : -1;
}

/* "1,2,3" */
static int parse_ids(const char *text, struct tokenizer_ids *ids, struct base_error *e)
{
  ids->id = malloc((strlen(text) / 2 + 1) * sizeof *ids->id);
  if (!ids->id)
    return base_fail_memory(e);
  for (const char *p = text;; p++) {
    char *end;
    errno = 0;
    long id = *p >= '0' && *p <= '9' ? strtol(p, &end, 10) : -1;
    if (id < 0 || id > INT32_MAX || errno || (*end && *end != ','))
      return base_fail(e, BASE_USAGE, "--tokens: '%.60s' is no list of ids; write --tokens 1,2,3",
                       text);
    ids->id[ids->n++] = (int32_t)id;
    p = end;
    if (!*p)
      return 0;
  }
}

static int encode_prompt(struct generation *g, struct base_error *e)
{
  char path[PATH_MAX];
  if (path_in(g->o->weights_folder, "tokenizer.json", path, e))
    return -1;
  if (access(path, F_OK))
    return base_fail(e, BASE_INPUT, "'%s' has no tokenizer.json; give ids with --tokens 1,2,3",
                     g->o->weights_folder);
  g->tokenizer = tokenizer_open(path, e);
  if (!g->tokenizer || tokenizer_fits(g->tokenizer, g->w->config.vocab, e) ||
      tokenizer_encode(g->tokenizer, g->o->prompt, strlen(g->o->prompt), TOKENIZER_ADD_SPECIAL,
                       &g->prompt, e))
    return -1;
  return 0;
}

static int read_prompt(struct generation *g, struct base_error *e)
{
  uint32_t longest = g->w->config.max_position;
  uint64_t wanted = g->o->max_tokens ? g->o->max_tokens : ANSWER;
  if (g->o->tokens ? parse_ids(g->o->tokens, &g->prompt, e) : encode_prompt(g, e))
    return -1;
  if (!g->prompt.n)
    return base_fail(e, BASE_INPUT, "the prompt has no tokens");
  if (g->prompt.n >= longest)
    return base_fail(
        e, BASE_INPUT,
        "a prompt of %zu tokens leaves no room for an answer: the model takes %" PRIu32,
        g->prompt.n, longest);
  uint32_t room = longest - (uint32_t)g->prompt.n;
  g->max_tokens = wanted < room ? (uint32_t)wanted : room;
  return 0;
}

static int load_adapter(struct generation *g, struct base_error *e)
{
  if (!g->o->adapter)
    return 0;
  struct adapter *a = adapter_open(g->o->adapter, &g->w->config, e);
  int bad = !a || engine_adapter_load(g->engine, 0, a, e);
  adapter_free(a);
  return bad ? -1 : 0;
}

static int open_engine(struct generation *g, struct base_error *e)
{
  uint32_t prompt = (uint32_t)g->prompt.n;
  struct engine_options options = {.block_tokens = BLOCK,
                                   .pages = (prompt + g->max_tokens + BLOCK - 1) / BLOCK,
                                   .max_tokens = prompt < CHUNK ? prompt : CHUNK,
                                   .max_seqs = 1,
                                   .adapters = g->o->adapter != NULL};
  struct engine_request r = {.prompt = g->prompt.id,
                             .prompt_tokens = prompt,
                             .max_tokens = g->max_tokens,
                             .adapter = g->o->adapter ? 0 : -1};
  r.how.temperature = (float)g->o->temperature;
  r.how.top_p = g->o->top_p > 0 ? (float)g->o->top_p : 1;
  r.how.top_k = g->o->top_k < UINT32_MAX ? (uint32_t)g->o->top_k : 0;
  r.how.seed = g->o->seed;
  g->engine = engine_create(g->w, g->ops, &options, e);
  if (!g->engine || load_adapter(g, e))
    return -1;
  return engine_begin(g->engine, 0, &r, e);
}

static int open_all(struct generation *g, struct base_error *e)
{
  if (!g->o->weights_folder)
    return base_fail(e, BASE_USAGE, "lull generate needs --weights FOLDER");
  if (!g->o->prompt == !g->o->tokens)
    return base_fail(e, BASE_USAGE, "lull generate needs either --prompt TEXT or --tokens IDS");
  g->w = cli_weights_open(g->o->weights_folder, g->o->dtype, e);
  if (!g->w || open_ops(g, e) || read_prompt(g, e) || open_engine(g, e))
    return -1;
  return 0;
}

static void close_all(struct generation *g)
{
  engine_destroy(g->engine);
  tokenizer_free(g->tokenizer);
  free(g->prompt.id);
  free(g->text.byte);
  if (g->ops)
    cpu_ops_destroy(g->ops);
  weights_free(g->w);
}

/* ---------------------------------------------------------------------------- generating ---- */

/* What is new of the text. Lost output ends the program in cli_finish. */
static int show_text(struct generation *g)
{
  if (g->text.n) /* else there may be no buffer */
    fwrite(g->text.byte, 1, g->text.n, stdout);
  g->text.n = 0;
  return fflush(stdout);
}

/* 0, or -1 with an error; *lost if it cannot be written. */
static int show_token(struct generation *g, int32_t token, int *lost, struct base_error *e)
{
  g->printed++;
  if (!g->tokenizer) {
    *lost = printf("%s%" PRId32, g->printed > 1 ? "," : "", token) < 0 || fflush(stdout);
    return 0;
  }
  if (tokenizer_stream_push(g->tokenizer, &g->stream, token, TOKENIZER_SKIP_SPECIAL, &g->text, e))
    return -1;
  *lost = show_text(g);
  return 0;
}

static int is_eos(const struct config *c, int32_t token)
{
  for (uint32_t i = 0; i < c->neos; i++)
    if (token == c->eos[i])
      return 1;
  return 0;
}

/* Chunks of the prompt. Result as engine_step's. */
static int read_in(struct generation *g, struct engine_token *out, struct base_error *e)
{
  uint32_t n = (uint32_t)g->prompt.n;
  int result = 0;
  double start = now_s();
  for (uint32_t at = 0; at < n && !result; at += CHUNK) {
    struct engine_chunk chunk = {0, at, n - at < CHUNK ? n - at : CHUNK};
    struct engine_step step = {.chunk = &chunk, .chunks = 1, .stop = &cli_stop, .out = out};
    result = engine_step(g->engine, &step, e);
  }
  g->prompt_s = now_s() - start;
  return result;
}

static int next_token(struct generation *g, struct engine_token *out, struct base_error *e)
{
  const int32_t row = 0;
  struct engine_step step = {.row = &row, .rows = 1, .stop = &cli_stop, .out = out};
  double start = now_s();
  int result = engine_step(g->engine, &step, e);
  g->decode_s += now_s() - start;
  return result;
}

/* Result as engine_step's. */
static int generate(struct generation *g, struct base_error *e)
{
  struct engine_token out;
  int lost = 0;
  int result = read_in(g, &out, e);
  while (!result && !is_eos(&g->w->config, out.token)) {
    if (show_token(g, out.token, &lost, e))
      return -1;
    if (lost || g->printed == g->max_tokens)
      break;
    result = next_token(g, &out, e);
  }
  return result;
}

static void print_stats(const struct generation *g)
{
  uint32_t n;
  engine_tokens(g->engine, 0, &n);
  uint32_t decoded = n - (uint32_t)g->prompt.n;
  decoded -= decoded > 0; /* the first token is the prompt's */
  fprintf(stderr, "lull: kernels %s, %s\n", g->ops->path,
          g->ops->dtype == TENSOR_BF16 ? "bfloat16" : "float32");
  fprintf(stderr, "lull: prompt: %zu tokens, %.3f s, %.1f tokens/s\n", g->prompt.n, g->prompt_s,
          g->prompt_s > 0 ? (double)g->prompt.n / g->prompt_s : 0);
  fprintf(stderr, "lull: decode: %" PRIu32 " tokens, %.3f s, %.1f tokens/s\n", decoded, g->decode_s,
          g->decode_s > 0 ? decoded / g->decode_s : 0);
}

int cli_generate(struct cli_line *line)
{
  struct base_error e = {0};
  struct generation g = {.o = &line->options};
  int code = BASE_OK;
  int result = cli_catch_signals(&e) || open_all(&g, &e) ? -1 : generate(&g, &e);
  if (g.printed) {
    if (g.tokenizer && !tokenizer_stream_end(&g.stream, &g.text, &e))
      show_text(&g);
    putchar('\n');
  }
  if (result < 0) {
    code = cli_fail(&e);
  } else if (result == ENGINE_ABORTED || cli_stop) {
    fputs("lull: stopped by a signal: the text is partial\n", stderr);
    code = BASE_INCOMPLETE;
  }
  if (result >= 0 && g.o->stats)
    print_stats(&g);
  close_all(&g);
  return code;
}
