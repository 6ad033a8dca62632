/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The elements and attributes of a scenario. */
#include <lull/types.h>

#include "sim/scenario/fields.h"

#define NUMBER(raw, member, name, kind, preset, min, max, doc)                                     \
  {                                                                                                \
    name, kind, preset, min, max, NULL, offsetof(struct raw, member), doc                          \
  }
#define TEXT(raw, member, name, preset, doc)                                                       \
  {                                                                                                \
    name, FIELD_TEXT, preset, 0, 0, NULL, offsetof(struct raw, member), doc                        \
  }
#define ID(raw, member, name, preset, doc)                                                         \
  {                                                                                                \
    name, FIELD_ID, preset, 0, 0, NULL, offsetof(struct raw, member), doc                          \
  }
#define CHOICE(raw, member, name, preset, first, choices, doc)                                     \
  {                                                                                                \
    name, FIELD_CHOICE, preset, first, 0, choices, offsetof(struct raw, member), doc               \
  }

#define DAY INT64_C(86400000000000000)
#define HORIZON (106 * DAY)
#define MILLION 1000000

static const struct field scenario_fields[] = {
    TEXT(raw_scenario, version, "version", NULL, "version of this format: 1"),
    ID(raw_scenario, id, "id", NULL, "name of the scenario"),
    ID(raw_scenario, campaign, "campaign", "",
       "campaign that it belongs to; then every number of run, engine and classes needs a "
       "parameter element that says where it comes from"),
};

static const struct field run_fields[] = {
    NUMBER(raw_run, window, "window", FIELD_WINDOW, NULL, 1, HORIZON,
           "arrivals and refills stop here; \"trace\": with the last row of the longest trace"),
    NUMBER(raw_run, drain, "drain", FIELD_DRAIN, "none", 0, HORIZON,
           "deadline after the window for what was admitted; \"none\": it runs to completion"),
    NUMBER(raw_run, preempt_limit, "preempt-limit", FIELD_COUNT, "100000", 1, INT32_MAX,
           "a request that is preempted more often ends the run with an error: the policy makes "
           "no progress"),
    TEXT(raw_run, seeds, "seeds", NULL, "whole numbers separated by spaces, one run each"),
};

static const struct field machine_fields[] = {
    TEXT(raw_machine, gpu, "gpu", "", "name of the GPU; checked against the calibration"),
    TEXT(raw_machine, model, "model", "", "name of the model; checked against the calibration"),
    TEXT(raw_machine, calibration, "calibration", "",
         "measured costs: name of a built-in calibration or a path from the scenario's folder "
         "(with a / or ending in .h5); left out where the machine has an analytic child"),
};

static const struct field analytic_fields[] = {
    NUMBER(raw_analytic, base, "base", FIELD_TIME, "0", 0, DAY, "time of a step"),
    NUMBER(raw_analytic, per_token, "per-token", FIELD_TIME, "0", 0, DAY,
           "and of each token computed"),
    NUMBER(raw_analytic, per_row, "per-row", FIELD_TIME, "0", 0, DAY, "and of each decode row"),
    NUMBER(raw_analytic, per_context, "per-context", FIELD_TIME, "0", 0, DAY,
           "and of each KV token that a decode row reads"),
    NUMBER(raw_analytic, per_pair, "per-pair", FIELD_TIME, "0", 0, 1000 * (int64_t)MILLION,
           "and of each pair of a prompt's token and a token that it attends (exact to the ps)"),
    NUMBER(raw_analytic, kv_per_token, "kv-per-token", FIELD_BYTES, "0", 0, INT64_C(1) << 30,
           "KV bytes of a token, for copies"),
    NUMBER(raw_analytic, layers, "layers", FIELD_COUNT, "1", 1, 1024, "safe points of a step"),
};

/* Settings that a server or a candidate may override have one definition each. */
#define MAX_SEQS(raw, member, preset)                                                              \
  NUMBER(raw, member, "max-seqs", FIELD_COUNT, preset, 1, 65536, "most requests in the batch")
#define TOKEN_BUDGET(raw, member, preset)                                                          \
  NUMBER(raw, member, "token-budget", FIELD_TOKENS, preset, 1, 1 << 24,                            \
         "most tokens computed in a step, decode rows and prompt chunks")
#define BLOCK(raw, member, preset)                                                                 \
  NUMBER(raw, member, "block", FIELD_TOKENS, preset, 1, 65536, "tokens of a KV block")
#define HOST_LINK(raw, member, preset)                                                             \
  NUMBER(raw, member, "host-link", FIELD_BANDWIDTH, preset, 1, 0,                                  \
         "bandwidth between GPU and host, one direction, for swaps")
#define KV_BLOCKS(raw, member)                                                                     \
  NUMBER(raw, member, "kv-blocks", FIELD_COUNT, "", 1, INT32_MAX,                                  \
         "size of the KV pool; else it is worked out from memory-fraction")
#define MEMORY_FRACTION(raw, member)                                                               \
  NUMBER(raw, member, "memory-fraction", FIELD_RATIO, "", 1, MILLION,                              \
         "share of the GPU's memory that the engine takes: weights, reserve and KV pool")
#define RESERVE(raw, member, preset)                                                               \
  NUMBER(raw, member, "reserve", FIELD_BYTES, preset, 0, INT64_C(1) << 50,                         \
         "memory for activations and the runtime")
#define WATERMARK(raw, member, preset)                                                             \
  NUMBER(raw, member, "watermark", FIELD_RATIO, preset, 0, MILLION,                                \
         "share of the KV pool that an admission leaves free")
#define MAX_CONTEXT(raw, member, preset)                                                           \
  NUMBER(raw, member, "max-context", FIELD_TOKENS, preset, 2, INT32_MAX,                           \
         "longest prompt + output that the model takes")
#define ASYNC(raw, member, preset)                                                                 \
  CHOICE(raw, member, "async-scheduling", preset, 0, "no yes",                                     \
         "yes: the batch of a step is decided while the one before it runs, without knowing what " \
         "that one frees or who comes meanwhile (vLLM from 0.14 on unless told not to)")
#define PREFIX_CACHING(raw, member, preset)                                                        \
  CHOICE(raw, member, "prefix-caching", preset, 0, "no yes",                                       \
         "yes: KV blocks of prompts that begin alike are shared, and kept and found again while "  \
         "nobody needs their room (on in vLLM V1 unless told not to)")
#define DEPTH(raw, member, preset)                                                                 \
  NUMBER(raw, member, "depth", FIELD_COUNT, preset, 0, 16, "drafted tokens a step")

static const struct field engine_fields[] = {
    MAX_SEQS(raw_engine, max_seqs, NULL),
    TOKEN_BUDGET(raw_engine, token_budget, NULL),
    BLOCK(raw_engine, block, NULL),
    KV_BLOCKS(raw_engine, kv_blocks),
    MEMORY_FRACTION(raw_engine, memory_fraction),
    RESERVE(raw_engine, reserve, "0"),
    WATERMARK(raw_engine, watermark, "0"),
    HOST_LINK(raw_engine, host_link, NULL),
    MAX_CONTEXT(raw_engine, max_context, NULL),
    ASYNC(raw_engine, async, "no"),
    PREFIX_CACHING(raw_engine, prefix_caching, "no"),
};

static const struct field host_fields[] = {
    NUMBER(raw_engine, host_step, "step", FIELD_TIME, NULL, 0, DAY,
           "time of the host in every step, not hidden behind the GPU's"),
    NUMBER(raw_engine, host_overlapped, "overlapped", FIELD_TIME, "0", 0, DAY,
           "and time of the host that runs beside the kernels of the step before: where it is "
           "longer than a step's kernels, the step lasts as long"),
    NUMBER(raw_engine, graph_tokens, "graph-tokens", FIELD_TOKENS, "0", 0, MILLION,
           "most tokens of a step whose kernels are replayed from a captured graph (vLLM: twice "
           "max-seqs, at most 512)"),
    NUMBER(raw_engine, launches, "launches", FIELD_TIME, "0", 0, DAY,
           "what it adds to each layer of a larger step that its kernels are launched one by one"),
};

static const struct field elementwise_fields[] = {
    NUMBER(raw_engine, kernels, "kernels", FIELD_COUNT, NULL, 0, 1000,
           "element-wise kernels a layer"),
    NUMBER(raw_engine, launch, "launch", FIELD_TIME, NULL, 0, DAY, "launch time of one"),
    NUMBER(raw_engine, bandwidth, "bandwidth", FIELD_BANDWIDTH, NULL, 1000000, 0,
           "memory bandwidth that they reach"),
};

static const struct field speculation_fields[] = {
    DEPTH(raw_engine, depth, NULL),
    NUMBER(raw_engine, accept, "accept", FIELD_RATIO, NULL, 0, MILLION,
           "mean chance that a drafted token is accepted"),
    NUMBER(raw_engine, accept_sd, "accept-sd", FIELD_RATIO, "0", 0, MILLION / 2,
           "its standard deviation between requests (beta distributed)"),
    NUMBER(raw_engine, draft_layers, "draft-layers", FIELD_REAL, "0", 0, 1000 * (int64_t)MILLION,
           "size of the draft head, in bf16 layers of the model"),
    NUMBER(raw_engine, draft_head, "draft-head", FIELD_TIME, "0", 0, DAY,
           "time of its vocabulary head, a pass"),
};

static const struct field class_fields[] = {
    ID(raw_class, id, "id", NULL, "name of the class"),
    CHOICE(raw_class, live, "kind", NULL, 0, "batch live",
           "live: somebody waits, an slo is due; batch: not"),
};

static const struct field arrivals_fields[] = {
    CHOICE(raw_arrivals, process, "process", NULL, 0, "none constant poisson gamma trace backlog",
           "none: only what an arm's backlog elements release; constant: evenly spaced; trace: "
           "times and lengths of a file; backlog: always more, released as requests end"),
    NUMBER(raw_arrivals, rate, "rate", FIELD_RATE, "", 1, 0,
           "mean arrivals (constant, poisson, gamma)"),
    NUMBER(raw_arrivals, cv, "cv", FIELD_REAL, "", 1000, 100 * (int64_t)MILLION,
           "coefficient of variation of the times between arrivals (gamma)"),
    NUMBER(raw_arrivals, below, "below", FIELD_COUNT, "", 1, 1000000,
           "a new item is released while the server's requests are below this (backlog)"),
};

#define TOKENS_MAX ((1 << 30) - 1)
static const struct field dist_fields[] = {
    CHOICE(raw_dist, dist, "dist", NULL, 0, "constant lognormal uniform exponential",
           "distribution; drawn, rounded, clamped to min and max"),
    NUMBER(raw_dist, mean, "mean", FIELD_TOKENS, "", 1, TOKENS_MAX,
           "mean before clamping (all but uniform)"),
    NUMBER(raw_dist, sigma, "sigma", FIELD_REAL, "", 0, 5 * (int64_t)MILLION,
           "standard deviation of the logarithm (lognormal)"),
    NUMBER(raw_dist, min, "min", FIELD_TOKENS, "1tok", 1, TOKENS_MAX, "least"),
    NUMBER(raw_dist, max, "max", FIELD_TOKENS, "", 1, TOKENS_MAX, "most (all but constant)"),
};

static const struct field trace_fields[] = {
    CHOICE(raw_trace, format, "format", NULL, 0, "azure vidur mooncake native",
           "format of the file"),
    TEXT(raw_trace, href, "href", NULL,
         "data:NAME in the data folder, or a path below the scenario's folder"),
    TEXT(raw_trace, sha256, "sha256", "", "digest of the file; required for data:"),
    NUMBER(raw_trace, speed, "speed", FIELD_REAL, "1", 1000, 1000 * (int64_t)MILLION,
           "replay speed: times are divided by it"),
    NUMBER(raw_trace, limit, "limit", FIELD_COUNT, "0", 0, INT32_MAX, "most rows; 0: all"),
    NUMBER(raw_trace, start, "start", FIELD_TIME, "0", 0, HORIZON,
           "moment of the window at which the first row arrives"),
};

static const struct field items_fields[] = {
    CHOICE(raw_items, format, "format", NULL, 0, "azure vidur mooncake native",
           "format of the file"),
    TEXT(raw_items, href, "href", NULL,
         "data:NAME in the data folder, or a path below the scenario's folder"),
    TEXT(raw_items, sha256, "sha256", "", "digest of the file; required for data:"),
};

static const struct field slo_fields[] = {
    NUMBER(raw_slo, ttft, "ttft", FIELD_TIME, NULL, 1, HORIZON, "time to the first token, at most"),
    NUMBER(raw_slo, tpot, "tpot", FIELD_TIME, NULL, 1, HORIZON, "time a token after it, at most"),
};

static const struct field arm_fields[] = {
    ID(raw_arm, id, "id", NULL, "name of the arm"),
    TEXT(raw_arm, policy, "policy", "",
         "scheduling policy: built in, installed, or the path of a shared object; may be left out "
         "with an engine: fcfs"),
    CHOICE(raw_arm, engine, "engine", "", 0, "vllm-v1 sarathi",
           "engine whose scheduling rules the servers follow, and whose defaults they have: see "
           "Named engines"),
    TEXT(raw_arm, title, "title", "", "what it is, for tables"),
    CHOICE(raw_arm, baseline, "baseline", "no", 0, "no yes", "yes: ratios are against this arm"),
    NUMBER(raw_arm, qualify, "qualify", FIELD_RATIO, "0", 0, MILLION,
           "attainment that a candidate of the baseline needs to be chosen"),
};

static const struct field param_fields[] = {
    TEXT(raw_param, name, "name", NULL, "parameter of the policy"),
    TEXT(raw_param, value, "value", NULL, "its value, with unit"),
};

static const struct field server_fields[] = {
    ID(raw_server, id, "id", NULL, "name of the server"),
    NUMBER(raw_server, gpu, "gpu", FIELD_COUNT, NULL, 0, LULL_SERVERS - 1,
           "the GPU that it runs on, numbered from 0"),
    TEXT(raw_server, classes, "classes", NULL,
         "classes that it serves, separated by spaces; \"\": none"),
    MAX_SEQS(raw_server, engine.max_seqs, ""),
    TOKEN_BUDGET(raw_server, engine.token_budget, ""),
    BLOCK(raw_server, engine.block, ""),
    KV_BLOCKS(raw_server, engine.kv_blocks),
    MEMORY_FRACTION(raw_server, engine.memory_fraction),
    RESERVE(raw_server, engine.reserve, ""),
    WATERMARK(raw_server, engine.watermark, ""),
    HOST_LINK(raw_server, engine.host_link, ""),
    MAX_CONTEXT(raw_server, engine.max_context, ""),
    DEPTH(raw_server, engine.depth, ""),
    ASYNC(raw_server, engine.async, ""),
    PREFIX_CACHING(raw_server, engine.prefix_caching, ""),
};

static const struct field job_fields[] = {
    ID(raw_job, id, "id", NULL, "name of the job"),
    NUMBER(raw_job, gpu, "gpu", FIELD_COUNT, NULL, 0, LULL_SERVERS - 1,
           "the GPU that it shares with a server"),
    NUMBER(raw_job, micro_step, "micro-step", FIELD_TIME, NULL, LULL_TICK_PS, DAY,
           "time of a micro-step on a GPU of its own (rounded to ticks of 64 ps); it is never cut "
           "short"),
    NUMBER(raw_job, micro_steps, "micro-steps", FIELD_COUNT, "0", 0, INT64_MAX,
           "how many, then the job is done; 0: it goes on to the end of the run"),
    NUMBER(raw_job, contention, "contention", FIELD_REAL, NULL, MILLION, 1000 * (int64_t)MILLION,
           "how many times longer a step and a micro-step take while both are under way, 2: "
           "time-slicing (rounded to 64ths)"),
    CHOICE(raw_job, paused, "paused", "no", 0, "no yes",
           "yes: it waits until the policy lets it run"),
    NUMBER(raw_job, batch, "batch", FIELD_COUNT, "8", 1, 4096,
           "on a real device, problems of a micro-step; a simulated one takes micro-step's time"),
    NUMBER(raw_job, accumulate, "accumulate", FIELD_COUNT, "1", 1, 1000000,
           "on a real device, micro-steps whose gradients are added up for an optimiser step, which "
           "is part of the last of them"),
    NUMBER(raw_job, rank, "rank", FIELD_COUNT, "8", 1, 1024,
           "on a real device, rank of the LoRA adapter that it trains"),
    NUMBER(raw_job, rate, "learning-rate", FIELD_REAL, "0.002", 1, 1000 * (int64_t)MILLION,
           "on a real device, the same in every optimiser step"),
};

static const struct field backlog_fields[] = {
    TEXT(raw_backlog, server, "server", NULL, "server of this arm to which items go"),
    TEXT(raw_backlog, cls, "class", NULL, "class of the items"),
    NUMBER(raw_backlog, below, "below", FIELD_COUNT, NULL, 1, 1000000,
           "a new item is released while the server's requests are below this"),
};

static const struct field candidate_fields[] = {
    ID(raw_candidate, id, "id", NULL, "name of the candidate"),
};

static const struct field set_fields[] = {
    TEXT(raw_set, server, "server", NULL, "server of this arm"),
    TEXT(raw_set, attribute, "attribute", NULL, "an engine setting that a server may override"),
    TEXT(raw_set, value, "value", NULL, "its value, with unit"),
};

static const struct field gate_fields[] = {
    ID(raw_gate, id, "id", NULL, "name of the gate"),
    TEXT(raw_gate, arm, "arm", NULL, "the arm that is judged"),
    TEXT(raw_gate, metric, "metric", NULL, "what is judged; ratio: against the baseline"),
    TEXT(raw_gate, statistic, "statistic", "",
         "makes it a gate of lull validate on the error of this statistic (docs/validate.md)"),
    TEXT(raw_gate, min, "min", "", "least that passes, in the metric's unit"),
    TEXT(raw_gate, max, "max", "", "most that passes"),
};

static const struct field reference_fields[] = {
    TEXT(raw_reference, arm, "arm", NULL, "the arm beside which it is printed"),
    TEXT(raw_reference, metric, "metric", NULL, "the metric"),
    TEXT(raw_reference, value, "value", NULL, "the published value, in the metric's unit"),
    TEXT(raw_reference, source, "source", NULL, "where it was published"),
};

static const struct field parameter_fields[] = {
    TEXT(raw_parameter, target, "target", NULL,
         "XPath (prefix s:) from the scenario element to one attribute"),
    CHOICE(raw_parameter, origin, "class", NULL, 0, "set fitted inferred assumed",
           "set by the published work, fitted on the baseline, inferred from another arm, assumed"),
};

static const struct field sweep_fields[] = {
    ID(raw_sweep, id, "id", NULL, "name of the table"),
    CHOICE(raw_sweep, kind, "kind", NULL, 0, "ratio curve best",
           "ratio: arms against the baseline; curve: also over the live share; best: the best "
           "value on each side"),
    TEXT(raw_sweep, target, "target", NULL, "XPath (prefix s:) to the attribute that moves"),
    TEXT(raw_sweep, values, "values", NULL, "its values, separated by spaces"),
};

#define FIELDS(f) f, sizeof(f) / sizeof *(f)
const struct element scenario_elements[] = {
    {"scenario", FIELDS(scenario_fields),
     "title note run machine engine class arm gate reference parameter sweep", 0,
     "the document: what to compare"},
    {"title", NULL, 0, "", 1, "one line for people"},
    {"note", NULL, 0, "", 1, "what readers of the results must know"},
    {"run", FIELDS(run_fields), "", 0, "how long, and with which seeds"},
    {"machine", FIELDS(machine_fields), "analytic", 0, "what the work runs on"},
    {"analytic", FIELDS(analytic_fields), "", 0,
     "a cost model by coefficients instead of a calibration (rounded to ticks of 64 ps)"},
    {"engine", FIELDS(engine_fields), "host elementwise speculation", 0,
     "settings of every server's engine; give kv-blocks or memory-fraction"},
    {"host", FIELDS(host_fields), "", 0, "required with a calibration"},
    {"elementwise", FIELDS(elementwise_fields), "", 0,
     "required with a calibration, but for one of operator tables, which hold these kernels"},
    {"speculation", FIELDS(speculation_fields), "", 0, "speculative decoding"},
    {"class", FIELDS(class_fields), "arrivals trace items prompt output slo", 0,
     "a kind of request, in order of importance"},
    {"arrivals", FIELDS(arrivals_fields), "", 0, "when requests arrive"},
    {"trace", FIELDS(trace_fields), "", 0, "the file of a trace process"},
    {"items", FIELDS(items_fields), "", 0,
     "a file whose lengths the items of the class's backlogs take in turn, from its start again at "
     "its end"},
    {"prompt", FIELDS(dist_fields), "", 0, "prompt lengths (not with a trace)"},
    {"output", FIELDS(dist_fields), "", 0, "output lengths (not with a trace)"},
    {"slo", FIELDS(slo_fields), "", 0, "targets of a live class; both must be met"},
    {"arm", FIELDS(arm_fields), "param server job backlog candidate", 0, "one way to run it"},
    {"param", FIELDS(param_fields), "", 0, "a parameter of the arm's policy"},
    {"server", FIELDS(server_fields), "analytic", 0,
     "an engine on a GPU; engine settings given here hold for it alone, and so do an analytic "
     "child's costs"},
    {"job", FIELDS(job_fields), "", 0,
     "training in the background on a server's GPU, at most one job a GPU"},
    {"backlog", FIELDS(backlog_fields), "", 0,
     "a backlog of this arm, in the place of those that process=\"backlog\" stands for: one a "
     "server of the class"},
    {"candidate", FIELDS(candidate_fields), "set", 0,
     "one configuration of the arm; by seed the best that qualifies is taken"},
    {"set", FIELDS(set_fields), "", 0, "changes a setting of a server in this candidate"},
    {"gate", FIELDS(gate_fields), "", 0, "a requirement, registered before the run"},
    {"reference", FIELDS(reference_fields), "", 0, "a published figure to print beside ours"},
    {"parameter", FIELDS(parameter_fields), "", 1,
     "where a value comes from; the text is the reason"},
    {"sweep", FIELDS(sweep_fields), "title note", 0,
     "a second table, never gated: the scenario again at each value"},
};
const size_t scenario_element_count = sizeof scenario_elements / sizeof *scenario_elements;
