/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(struct cli_options, field)

const struct cli_option cli_option_table[] = {
    {"arm", 'a', "NAME", CLI_STRING, AT(arm), CLI_RUN | CLI_VALIDATE,
     "Run this arm only (and, in lull run, the baseline where a gate compares with it)."},
    {"seed", 's', "N", CLI_SEED, AT(seed), CLI_RUN | CLI_VALIDATE,
     "Run this seed instead of the scenario's. The report says that the seed was given by hand."},
    {"seed", 's', "N", CLI_SEED, AT(seed), CLI_MODELS,
     "Seed of the random weights, which it decides bit by bit. Default: 1."},
    {"weights", 0, "FOLDER", CLI_STRING, AT(weights_folder),
     CLI_GENERATE | CLI_RUN | CLI_CALIBRATE | CLI_VALIDATE,
     "The model: a folder with config.json, *.safetensors and (for texts) tokenizer.json of the "
     "Qwen3, Qwen2 or Llama family."},
    {"device", 0, "NAME", CLI_STRING, AT(device), CLI_CALIBRATE | CLI_VALIDATE,
     "The device that is measured, or run beside the simulated one: cpu."},
    {"calibration", 0, "NAME", CLI_STRING, AT(calibration), CLI_RUN | CLI_VALIDATE,
     "Costs by this calibration, a path or a built-in name, instead of the scenario's own."},
    {"quick", 0, NULL, CLI_FLAG, AT(quick), CLI_CALIBRATE,
     "Coarser grids, in about 10 s for a small model; without it about a minute."},
    {"device", 0, "NAME", CLI_STRING, AT(device), CLI_RUN,
     "What the arms run on: sim (the default) simulates; cpu computes every token on this machine, "
     "in real time, and needs --weights; replay answers as a device did that was recorded, and "
     "needs --recording. Sweeps and --explain-fit are for sim alone."},
    {"cores", 0, "LISTS", CLI_STRING, AT(cores), CLI_RUN | CLI_CALIBRATE | CLI_VALIDATE,
     "Processors of each GPU of the cpu device, for example 0-3:4-7 for two. Default: any."},
    {"adapters", 0, "FOLDER", CLI_STRING, AT(adapters), CLI_RUN,
     "Where the adapters go that background jobs train on the cpu device, each of a run that has "
     "ended: FOLDER/ARM+JOB+SEED, with +CANDIDATE behind the arm if it has one. Default: they are "
     "not kept."},
    {"record", 0, "FILE", CLI_STRING, AT(record), CLI_RUN,
     "Write what the device answered in each run, for --device replay. The file appears whole or "
     "not at all, and not if a signal stops the runs."},
    {"recording", 0, "FILE", CLI_STRING, AT(recording), CLI_RUN,
     "What --device replay answers from. The same decisions and the same ledger come of it, or an "
     "error that says what differs."},
    {"prompt", 0, "TEXT", CLI_STRING, AT(prompt), CLI_GENERATE, "Text to go on from, in UTF-8."},
    {"tokens", 0, "IDS", CLI_STRING, AT(tokens), CLI_GENERATE,
     "Token ids instead of a text, for example 1,2,3; ids are printed then. No tokenizer.json is "
     "needed."},
    {"max-tokens", 0, "N", CLI_COUNT, AT(max_tokens), CLI_GENERATE,
     "Longest answer, in tokens. Default: 128; never beyond what the model takes."},
    {"temperature", 0, "T", CLI_NUMBER, AT(temperature), CLI_GENERATE,
     "0, the default: always the likeliest token. Else tokens are drawn, from flatter "
     "distributions "
     "the higher it is."},
    {"top-k", 0, "K", CLI_COUNT, AT(top_k), CLI_GENERATE,
     "Draw among the K likeliest tokens only. Default: all."},
    {"top-p", 0, "P", CLI_FRACTION, AT(top_p), CLI_GENERATE,
     "Draw among the likeliest tokens that together have probability P. Default: 1."},
    {"seed", 's', "N", CLI_SEED, AT(seed), CLI_GENERATE,
     "What the draws depend on. Default: 0. The same seed gives the same text."},
    {"adapter", 0, "FOLDER", CLI_STRING, AT(adapter), CLI_GENERATE,
     "A LoRA adapter of the model, as PEFT writes it."},
    {"threads", 0, "N", CLI_COUNT, AT(threads),
     CLI_GENERATE | CLI_RUN | CLI_CALIBRATE | CLI_VALIDATE,
     "Threads that compute, in lull run for each GPU. Default: one for each processor, divided by "
     "the GPUs. What is computed does not depend on it."},
    {"path", 0, "NAME", CLI_STRING, AT(path),
     CLI_GENERATE | CLI_TRAIN | CLI_RUN | CLI_CALIBRATE | CLI_VALIDATE,
     "Kernels: avx512-bf16, avx512, avx2 or scalar. Default: the best that this processor has. The "
     "same ones give the same bits."},
    {"dtype", 0, "DTYPE", CLI_STRING, AT(dtype),
     CLI_GENERATE | CLI_RUN | CLI_CALIBRATE | CLI_VALIDATE,
     "Compute in bfloat16 or float32. Default: that of the weights."},
    {"stats", 0, NULL, CLI_FLAG, AT(stats), CLI_GENERATE,
     "Print on standard error which kernels ran, and tokens a second."},
    {"json", 0, "FILE", CLI_STRING, AT(json), CLI_RUN | CLI_VALIDATE,
     "Write the results as JSON. The same inputs give the same bytes. The file appears whole or "
     "not "
     "at all."},
    {"requests", 0, "FILE", CLI_STRING, AT(requests), CLI_RUN | CLI_VALIDATE,
     "Write one row for each request of each run: times, tokens, fate (in lull validate with "
     "--measured: measured and simulated times, always as CSV). HDF5 if FILE ends in .h5 or .hdf5, "
     "otherwise CSV."},
    {"log", 0, "FILE.csv", CLI_STRING, AT(log), CLI_RUN,
     "Write the decision log of each run: every event, plan and action, and what the policy itself "
     "logs."},
    {"data-dir", 'd', "FOLDER", CLI_STRING, AT(data_dir),
     CLI_RUN | CLI_CHECK | CLI_BENCH | CLI_VALIDATE,
     "Where files named data:... lie. Default: $LULL_DATA, else data/ in the source tree, else the "
     "installed data folder."},
    {"explain-fit", 0, NULL, CLI_FLAG, AT(explain_fit), CLI_RUN,
     "Print every parameter with its class (set, fitted, inferred, assumed), its reason, and how "
     "the "
     "ratio changes when it moves by 10%. Runs the scenario twice more for each."},
    {"set", 0, "XPATH=VALUE", CLI_SET, AT(set), CLI_RUN | CLI_CHECK | CLI_VALIDATE,
     "Change an attribute of the scenario before it is read, every one that XPATH matches, for "
     "example "
     "--set \"//s:class[@id='live']/s:arrivals/@rate=12/s\"; the prefix s: is the scenario's "
     "namespace. May "
     "be "
     "given several times."},
    {"no-fast-forward", 0, NULL, CLI_FLAG, AT(no_fast_forward), CLI_RUN | CLI_VALIDATE,
     "Simulate step by step. Slow; the results are the same, bit for bit."},
    {"no-sweeps", 0, NULL, CLI_FLAG, AT(no_sweeps), CLI_RUN,
     "Leave out the ungated tables that repeat the scenario over values of one attribute."},
    {"quiet", 'q', NULL, CLI_FLAG, AT(quiet),
     CLI_RUN | CLI_IMPORT | CLI_VALIDATE | CLI_MODELS | CLI_TRAIN | CLI_CALIBRATE,
     "Say nothing of progress (there is none either where standard error is no terminal, where "
     "TERM is "
     "dumb, or where CI is set)."},
    {"measured", 'm', "FILE", CLI_STRING, AT(measured), CLI_VALIDATE,
     "Records of a measured run, plain or gzip: LLMServingSim's JSON lines, the JSON of vllm bench "
     "serve --save-result --save-detailed, or CSV (arrival_ns, prompt_tokens, output_tokens, "
     "ttft_ns, e2e_ns and optionally id, itl_ns)."},
    {"gate", 'g', "GATE", CLI_GATE, 0, CLI_VALIDATE,
     "Require METRIC.STATISTIC<=BOUND, beside the gates of the scenario, for example "
     "--gate 'ttft.p95<=5%'; without a statistic of each of mean, p50, p90, p95 and p99. Metrics: "
     "ttft, tpot, itl, e2e, throughput, concurrency, and with --device useful-tokens, "
     "output-tokens, useful-rate, utilisation, makespan, steps, preemptions, finished. Statistics: "
     "those five and bias, of which the "
     "size of the relative error is judged; ks; correlation (with >=). May be given several "
     "times."},
    {"fit", 0, "host", CLI_STRING, AT(fit), CLI_VALIDATE,
     "With --measured: fit one scalar, host time a step, on the first half of the requests, and "
     "judge it on the second half, beside the value that the scenario gives."},
    {"format", 'f', "FORMAT", CLI_STRING, AT(format), CLI_TRACE,
     "Format of the trace: azure, vidur, mooncake or native."},
    {"from", 0, "SOURCE", CLI_STRING, AT(from), CLI_IMPORT,
     "Whose tables they are: aiconfigurator, llmservingsim, vidur or splitwise; or roofline: no "
     "table, all is derived from the shapes of the model and the data sheet of the GPU."},
    {"law", 0, "LAW", CLI_STRING, AT(law), CLI_IMPORT,
     "What to make of tables of aiconfigurator: pairs (a curve over attended pairs; element-wise "
     "kernels are the scenario's) or tables (grids, of one GPU of a tensor-parallel group). "
     "Default: pairs."},
    {"derive", 0, NULL, CLI_FLAG, AT(derive), CLI_IMPORT,
     "Have the attention derived from shapes and data sheet where tables of vidur lack it."},
    {"model", 0, "MODEL", CLI_STRING, AT(model), CLI_IMPORT,
     "Model description, for example qwen3-8b."},
    {"gpu", 0, "GPU", CLI_STRING, AT(gpu), CLI_IMPORT, "GPU description, for example h200-sxm."},
    {"weights", 0, "DTYPE", CLI_STRING, AT(weights), CLI_IMPORT,
     "Number format of the weights: fp8 or bfloat16. Tables of llmservingsim, vidur and splitwise "
     "are bfloat16."},
    {"weights", 0, "DTYPE", CLI_STRING, AT(weights), CLI_MODELS,
     "Number format of the weights: bfloat16 (the default) or float32."},
    {"kv", 0, "DTYPE", CLI_STRING, AT(kv), CLI_IMPORT,
     "Number format of the KV cache: fp8 or bfloat16. Tables of llmservingsim, vidur and "
     "splitwise are bfloat16."},
    {"tp", 0, "N", CLI_COUNT, AT(tp), CLI_IMPORT,
     "GPUs of the tensor-parallel group, of one of which all times are. Default: 1."},
    {"engine", 0, "TEXT", CLI_STRING, AT(engine), CLI_IMPORT,
     "Engine and version that the tables were measured with where they do not say it, for example "
     "'vLLM 0.19.0'. Default: what is known of the published files."},
    {"output", 'o', "FILE", CLI_STRING, AT(output), CLI_IMPORT | CLI_CALIBRATE,
     "Calibration file to write (HDF5)."},
    {"output", 'o', "FOLDER", CLI_STRING, AT(output), CLI_MODELS,
     "Folder to write config.json and model.safetensors to; it is made if it is missing."},
    {"force", 0, NULL, CLI_FLAG, AT(force), CLI_MODELS | CLI_TRAIN,
     "Write over a model or adapter that is in the folder already. Other files there stay."},
    {"max-seqs", 0, "N", CLI_COUNT, AT(max_seqs), CLI_CALIBRATION,
     "Decode rows of the largest step, to say what of it would be extrapolated."},
    {"token-budget", 0, "N", CLI_COUNT, AT(token_budget), CLI_CALIBRATION,
     "Tokens of the largest chunk, likewise."},
    {"max-context", 0, "N", CLI_COUNT, AT(max_context), CLI_CALIBRATION,
     "Tokens of the longest context, likewise."},
    {"max-seqs", 0, "N", CLI_COUNT, AT(max_seqs), CLI_CALIBRATE,
     "Sequences of the largest step. Default: 32. A scenario's max-seqs may not be larger."},
    {"token-budget", 0, "N", CLI_COUNT, AT(token_budget), CLI_CALIBRATE,
     "Tokens of the largest step. Default: 256. Beyond it the last line goes on."},
    {"max-context", 0, "N", CLI_COUNT, AT(max_context), CLI_CALIBRATE,
     "Tokens of the longest sequence. Default: 512. Beyond it the last line goes on."},
    {"workload", 'w', "NAME", CLI_STRING, AT(workload), CLI_BENCH,
     "W1 to W7; W1-log, W1-tables; out-10, out-1000; run-8, run-256; or all, the default."},
    {"requests", 'n', "N", CLI_COUNT, AT(count), CLI_BENCH,
     "Requests of each run. Default: 10,000 and 1,000,000, a row each."},
    {"repeat", 0, "N", CLI_COUNT, AT(repeat), CLI_BENCH,
     "Runs of each row, of which the median counts. Default: 5; 3 from 10,000,000 requests on."},
    {"no-fork", 0, NULL, CLI_FLAG, AT(no_fork), CLI_BENCH,
     "Run in this process, as profilers like it; memory is not measured then."},
    {"weights", 0, "FOLDER", CLI_STRING, AT(weights_folder), CLI_TRAIN,
     "The model to start from: config.json and *.safetensors, for example what 'lull models init' "
     "made."},
    {"task", 0, "NAME", CLI_STRING, AT(task), CLI_TRAIN,
     "What to learn. Default: problems, word problems in arithmetic as bytes."},
    {"output", 'o', "FOLDER", CLI_STRING, AT(output), CLI_TRAIN,
     "Train all weights and write the model there."},
    {"adapter", 0, "FOLDER", CLI_STRING, AT(adapter), CLI_TRAIN,
     "Instead of -o: train a LoRA adapter on the frozen weights and write it there."},
    {"rank", 0, "N", CLI_COUNT, AT(rank), CLI_TRAIN, "Rank of the adapter. Default: 8."},
    {"targets", 0, "LIST", CLI_STRING, AT(targets), CLI_TRAIN,
     "Layers that the adapter changes, of q, k, v, o, gate, up and down, with commas between. "
     "Default: all."},
    {"steps", 'n', "N", CLI_COUNT, AT(steps), CLI_TRAIN, "Steps of the optimiser. Default: 1000."},
    {"batch", 'b', "N", CLI_COUNT, AT(batch), CLI_TRAIN, "Problems of a step. Default: 32."},
    {"seq", 0, "N", CLI_COUNT, AT(seq), CLI_TRAIN, "Tokens of the longest problem. Default: 256."},
    {"lr", 0, "X", CLI_FRACTION, AT(rate), CLI_TRAIN,
     "Highest learning rate. Default: 0.004 for all weights, 0.002 for an adapter."},
    {"warmup", 0, "N", CLI_COUNT, AT(warmup), CLI_TRAIN,
     "Steps over which the learning rate rises. Default: a twentieth of all, at most 100."},
    {"schedule", 0, "NAME", CLI_STRING, AT(schedule), CLI_TRAIN,
     "cosine (falls to a twentieth at the end, the default) or constant."},
    {"seed", 's', "N", CLI_SEED, AT(seed), CLI_TRAIN,
     "Seed of the problems, and of a new adapter. Default: 1."},
    {"held-out", 0, "N", CLI_COUNT, AT(held_out), CLI_TRAIN,
     "Problems to be tested with that were not learnt. Default: 200."},
    {"losses", 0, "FILE.csv", CLI_STRING, AT(losses), CLI_TRAIN,
     "Write loss, learning rate and gradient norm of each step."},
    {"threads", 't', "N", CLI_COUNT, AT(threads), CLI_TRAIN,
     "Threads to compute with; the results are the same. Default: 1."},
    {"help", 'h', NULL, CLI_FLAG, AT(help), CLI_ANY, "Print help and exit."},
    {"version", 'V', NULL, CLI_FLAG, AT(version), CLI_ANY, "Print the version and exit."},
};
const size_t cli_noptions = sizeof cli_option_table / sizeof cli_option_table[0];

enum { NAMES_MAX = 64, LETTERS_MAX = 3 * NAMES_MAX + 3, LONG_BASE = 256 };

const struct cli_command *cli_command_find(const char *name)
{
  for (size_t i = 0; i < cli_ncommands; i++)
    if (!strcmp(cli_commands[i].name, name))
      return &cli_commands[i];
  return NULL;
}

const char *cli_command_nearest(const char *name)
{
  const char *names[NAMES_MAX];
  size_t n = 0;
  for (size_t i = 0; i < cli_ncommands && n < NAMES_MAX; i++)
    if (cli_commands[i].summary)
      names[n++] = cli_commands[i].name;
  return base_nearest(name, names, n);
}

/* The options of a command in getopt's form; `val` of option i is LONG_BASE + i. */
static void getopt_tables(const struct cli_command *c, struct option *longs, char *letters)
{
  size_t n = 0;
  *letters++ = ':';
  for (size_t i = 0; i < cli_noptions && n < NAMES_MAX; i++) {
    const struct cli_option *o = &cli_option_table[i];
    if (!(o->commands & c->bit))
      continue;
    longs[n++] = (struct option){o->name, o->arg ? required_argument : no_argument, NULL,
                                 LONG_BASE + (int)i};
    if (!o->letter)
      continue;
    *letters++ = o->letter;
    if (o->arg)
      *letters++ = ':';
  }
  longs[n] = (struct option){0};
  *letters = '\0';
}

static const struct cli_option *option_by_value(int value)
{
  if (value >= LONG_BASE)
    return &cli_option_table[value - LONG_BASE];
  for (size_t i = 0; i < cli_noptions; i++)
    if (cli_option_table[i].letter == value)
      return &cli_option_table[i];
  return NULL;
}

/* A seed: an unsigned decimal number of at most 64 bits. */
static int parse_seed(const char *text, struct cli_options *o, struct base_error *e)
{
  char *end;
  errno = 0;
  unsigned long long v = isdigit((unsigned char)text[0]) ? strtoull(text, &end, 10) : 0;
  if (!isdigit((unsigned char)text[0]) || *end || errno)
    return base_fail(e, BASE_USAGE, "--seed: '%s' is no number from 0 to 2^64-1", text);
  o->seed = v;
  o->has_seed = 1;
  return 0;
}

/* A whole number of at least 1. */
static int parse_count(const struct cli_option *def, const char *text, uint64_t *to,
                       struct base_error *e)
{
  char *end = NULL;
  errno = 0;
  unsigned long long v = isdigit((unsigned char)text[0]) ? strtoull(text, &end, 10) : 0;
  if (!v || *end || errno)
    return base_fail(e, BASE_USAGE, "--%s: '%s' is no whole number of at least 1", def->name, text);
  *to = v;
  return 0;
}

/* All numbers end as floats: one that is none of them is refused. */
static int parse_number(const struct cli_option *def, const char *text, double *to,
                        struct base_error *e)
{
  int fraction = def->kind == CLI_FRACTION;
  char *end = NULL;
  double v = isdigit((unsigned char)text[0]) || text[0] == '.' ? strtod(text, &end) : -1;
  if (!(v >= 0) || end == text || *end || isinf((float)v) ||
      (fraction && !((float)v > 0 && v <= 1)))
    return base_fail(e, BASE_USAGE, "--%s: '%s' is no number %s", def->name, text,
                     fraction ? "of more than 0 and at most 1" : "of at least 0");
  *to = v;
  return 0;
}

/* XPATH=VALUE, split at the first '=' that lies outside of brackets. */
static int parse_set(const char *text, struct cli_options *o, struct base_error *e)
{
  const char *split = NULL;
  int depth = 0;
  for (const char *p = text; *p; p++) {
    depth += (*p == '[') - (*p == ']');
    if (*p == '=' && depth == 0 && !split)
      split = p;
  }
  if (!split || split == text)
    return base_fail(e, BASE_USAGE,
                     "--set: '%s' is not XPATH=VALUE; write --set \"//s:engine/@max-seqs=64\"",
                     text);
  struct scenario_override *more = realloc(o->set, (o->nset + 1) * sizeof *more);
  if (!more)
    return base_fail_memory(e);
  o->set = more;
  char *target = strndup(text, (size_t)(split - text));
  if (!target)
    return base_fail_memory(e);
  o->set[o->nset++] = (struct scenario_override){target, split + 1};
  return 0;
}

static int add_gate(const char *text, struct cli_options *o, struct base_error *e)
{
  const char **more = realloc(o->gate, (o->ngates + 1) * sizeof *more);
  if (!more)
    return base_fail_memory(e);
  o->gate = more;
  o->gate[o->ngates++] = text;
  return 0;
}

/* Stores an option's value; a string or file option given twice is an error, not a surprise. */
static int store(const struct cli_option *def, const char *value, struct cli_options *o,
                 struct base_error *e)
{
  char *at = (char *)o + def->offset;
  switch (def->kind) {
  case CLI_FLAG:
    *(int *)(void *)at = 1;
    return 0;
  case CLI_COUNT:
    return parse_count(def, value, (uint64_t *)(void *)at, e);
  case CLI_NUMBER:
  case CLI_FRACTION:
    return parse_number(def, value, (double *)(void *)at, e);
  case CLI_SEED:
    return parse_seed(value, o, e);
  case CLI_SET:
    return parse_set(value, o, e);
  case CLI_GATE:
    return add_gate(value, o, e);
  default:
    if (!*value)
      return base_fail(e, BASE_USAGE, "--%s: an empty string is no %s", def->name, def->arg);
    if (*(const char **)(void *)at)
      return base_fail(e, BASE_USAGE, "--%s is given twice", def->name);
    *(const char **)(void *)at = value;
    return 0;
  }
}

/* An option that the command does not have: names the nearest, or the command that has it. */
static int unknown_option(const struct cli_command *c, const char *word, struct base_error *e)
{
  char name[64];
  size_t len = strcspn(word, "=");
  if (strncmp(word, "--", 2) || len >= sizeof name)
    return base_fail(e, BASE_USAGE, "lull %s: unknown option '%s'", c->name, word);
  memcpy(name, word, len);
  name[len] = '\0';
  const char *names[NAMES_MAX];
  size_t n = 0;
  for (size_t i = 0; i < cli_noptions && n < NAMES_MAX; i++)
    if (cli_option_table[i].commands & c->bit)
      names[n++] = cli_option_table[i].name;
  const char *near = base_nearest(name + 2, names, n);
  if (near)
    return base_fail(e, BASE_USAGE, "lull %s: unknown option '%s'; did you mean '--%s'?", c->name,
                     name, near);
  return base_fail(e, BASE_USAGE, "lull %s: unknown option '%s'", c->name, name);
}

static int parse_options(const struct cli_command *c, int argc, char **argv, struct cli_options *o,
                         struct base_error *e)
{
  struct option longs[NAMES_MAX + 1];
  char letters[LETTERS_MAX];
  getopt_tables(c, longs, letters);
  opterr = 0;
  optind = 0;
  for (;;) {
    int value = getopt_long(argc, argv, letters, longs, NULL);
    if (value == -1)
      return 0;
    const struct cli_option *def = value == '?' || value == ':' ? NULL : option_by_value(value);
    if (def && store(def, optarg, o, e))
      return -1;
    if (def)
      continue;
    const char *word = argv[optind - 1];
    if (value == ':')
      return base_fail(e, BASE_USAGE, "lull %s: option '%s' needs an argument", c->name, word);
    if (optopt >= LONG_BASE)
      return base_fail(e, BASE_USAGE, "lull %s: option '--%s' takes no argument", c->name,
                       option_by_value(optopt)->name);
    if (optopt) {
      char letter[3] = {'-', (char)optopt, '\0'};
      return unknown_option(c, letter, e);
    }
    return unknown_option(c, word, e);
  }
}

int cli_parse(const struct cli_command *c, int argc, char **argv, struct cli_line *line,
              struct base_error *e)
{
  line->command = c;
  if (parse_options(c, argc, argv, &line->options, e))
    return -1;
  line->arg = argv + optind;
  line->nargs = argc - optind;
  if (line->options.help || line->options.version)
    return 0;
  if (line->nargs < c->min_args)
    return base_fail(e, BASE_USAGE, "lull %s: %s", c->name, c->missing);
  if (c->max_args >= 0 && line->nargs > c->max_args)
    return base_fail(e, BASE_USAGE, "lull %s: '%s' is one argument too many", c->name,
                     line->arg[c->max_args]);
  return 0;
}

void cli_line_free(struct cli_line *line)
{
  for (uint32_t i = 0; i < line->options.nset; i++)
    free((char *)line->options.set[i].target);
  free(line->options.set);
  free(line->options.gate);
  line->options.gate = NULL;
  line->options.ngates = 0;
  line->options.set = NULL;
  line->options.nset = 0;
}
