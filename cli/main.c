/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The command `lull`: the table of commands, and the way from argv to one of them. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"

const struct cli_command cli_commands[] = {
    {"run", CLI_RUN, "SCENARIO", 1, 1,
     "no scenario is named; 'lull run c4-live-batch' runs the built-in one",
     "run a scenario and print its table and gates",
     "Runs every arm of a scenario with every seed, and prints what each arm got out of the paid "
     "GPU "
     "time, the ratios against the baseline, and the gates.\n\n"
     "SCENARIO is an XML file, or the name of a built-in scenario: c4-live-batch. The exit status "
     "says whether all gates pass.\n\n"
     "On SIGINT or SIGTERM the run stops, what is done is printed and marked as partial, and the "
     "exit status is 5; a signal more than a second later ends the program at once.",
     cli_run},
    {"check", CLI_CHECK, "SCENARIO", 1, 1,
     "no scenario is named; 'lull check c4-live-batch' checks the built-in one",
     "check a scenario and say what it holds",
     "Reads a scenario as 'lull run' does, with everything that it refers to, reports every "
     "mistake "
     "with file and line, and prints what would run: arms, classes, requests of each seed, KV "
     "pools, "
     "parameters by class. Runs nothing.",
     cli_check},
    {"validate", CLI_VALIDATE, "SCENARIO", 1, 1, "no scenario is named",
     "simulate a measured run, or one on this machine, and compare the two",
     "Simulates the requests of a measured run (their arrivals and lengths, instead of the "
     "scenario's own) with one arm of a scenario, and prints for TTFT, TPOT, ITL, E2E, throughput "
     "and concurrency what was measured, what was simulated, the errors, the distance of the two "
     "distributions, and how single requests agree.\n\n"
     "With --device cpu one arm is run on the engine of this machine instead, on the scenario's "
     "own "
     "plan, and simulated; printed as well are how far single steps are from what they should "
     "cost, "
     "and how far both runs decided alike. Give --weights, and --calibration of 'lull "
     "calibrate'.\n\n"
     "The gates are those of the scenario that have a statistic, and those of --gate. The exit "
     "status is 0 if all pass, 1 if one fails, 4 if one cannot be judged.",
     cli_validate},
    {"generate", CLI_GENERATE, "", 0, 0, "", "print text of a model, computed on this machine",
     "Goes on from a prompt with a model of the Qwen3, Qwen2 or Llama family, on the CPU, and "
     "prints "
     "the text as it comes, up to the model's end of text or --max-tokens. Give --weights, and "
     "--prompt or --tokens.\n\n"
     "The same command gives the same text on the same kernels (--path), with any number of "
     "threads. On SIGINT or SIGTERM the text ends and the exit status is 5.",
     cli_generate},
    {"policies", CLI_POLICIES, "[NAME|FILE.so]...", 0, -1, "",
     "list scheduling policies with their parameters",
     "Lists the built-in policies, or those named, with every parameter: kind, default, range and "
     "meaning. A policy in a shared object is named by its path, which has a slash in it.",
     cli_policies},
    {"models", CLI_MODELS, "[init MODEL]", 0, 2, "",
     "list models and GPUs, or make weights of a model",
     "Lists the built-in descriptions of models and GPUs.\n\n"
     "With init it writes random weights of a model's true shapes: enough to run the engine with, "
     "though not to read what it says. MODEL is a name of the list, a path of a description, or "
     "for Qwen3 the size alone: tiny, 0.6b, 1.7b, 4b, 8b. The same seed gives the same bytes on "
     "every machine. Files appear whole or not at all.",
     cli_models},
    {"trace", CLI_TRACE, "info FILE", 2, 2, "write 'lull trace info FILE --format FORMAT'",
     "print the statistics of a request trace",
     "Reads a whole trace, plain or gzip, and prints its statistics, a name and a value a line: "
     "requests, span, burstiness, lengths, and a CRC-32 of its contents.",
     cli_trace},
    {"import", CLI_IMPORT, "FILE|DIRECTORY...", 0, -1,
     "no table is named; 'lull help import' says which are needed",
     "turn measured kernel tables into a calibration file",
     "Fits curves to published kernel timings of one GPU, for the shapes of one model, and writes "
     "them with their residuals and where they come from.\n\n"
     "The tables are CSV files, plain or gzip. From aiconfigurator, in any order: GEMM, context "
     "(prefill) attention, and generation (decode) attention; --weights and --kv are needed. With "
     "--law tables all-reduce tables may follow, of a custom kernel and of NCCL.\n\n"
     "From llmservingsim, in any order or as a directory: dense, per_sequence and attention; with "
     "a skew table uneven batches are costed, with an all-reduce table of aiconfigurator's the "
     "collectives of a tensor-parallel group. A file is known by its header. Times that fall as "
     "work grows are told with their rows and kept.\n\n"
     "From vidur, in any order or as a directory: mlp, perhaps attention, all_reduce and "
     "send_recv. "
     "From splitwise: perf_model, whose times are of whole steps. From roofline no file: what it "
     "makes says everywhere that it is derived, and how far such costs were from measured ones.",
     cli_import},
    {"calibrate", CLI_CALIBRATE, "", 0, 0, "", "measure what steps cost on this machine",
     "Times steps of the engine on this machine, of many sizes and make-ups, and writes a "
     "calibration with which a simulated step is as long as one that is run, host time included. "
     "Give --device cpu, --weights and --output.\n\n"
     "Steps of at most --max-seqs sequences, --token-budget tokens and --max-context tokens a "
     "sequence are timed, in rounds, so that whatever else the machine does meets all of them; "
     "medians count. Printed are the errors of every fifth point, predicted from the others, those "
     "of whole steps of any make-up, and how far the same step differs before and after.",
     cli_calibrate},
    {"calibration", CLI_CALIBRATION, "show FILE | diff A B", 2, 3,
     "write 'lull calibration show FILE' or 'lull calibration diff A B'",
     "say what a calibration holds, or compare two",
     "show prints what a calibration was made for and from, what it covers, and its errors on "
     "held-out measurements. With --max-seqs, --token-budget or --max-context it says what of such "
     "steps would be extrapolated.\n\n"
     "diff compares two calibrations: what they are of, and how far their times differ where both "
     "were measured. The exit status is 1 if they differ.\n\n"
     "FILE is the name of a built-in calibration or a path.",
     cli_calibration},
    {"bench", CLI_BENCH, "", 0, 0, "", "measure how fast the simulator is",
     "Runs workloads of its own and prints a table, a row for each and size: rate, noise, steps "
     "and "
     "output tokens a second, simulated over real time, cost of an event, peak of memory.\n\n"
     "W1: Poisson arrivals, 6.45/s, of 512 prompt and 512 output tokens. W2: the same with the "
     "lengths of the Azure conversation trace. W3: the Azure code trace with its arrivals, end to "
     "end. W4: saturated, 256 running, short outputs. W5: four replicas. W6: the policy priority "
     "with a refilled batch backlog and a KV pool so tight that requests are preempted. W7: the "
     "shared-priority arm of c4-live-batch, with speculation. W2 and W3 need public data sets and "
     "are skipped where these are not there.\n\n"
     "W1-log: W1 with its decision log hashed. W1-tables: W1 with costs from measured tables; the "
     "others use an analytic formula. out-10 against out-1000: output lengths. run-8 against "
     "run-256: requests that run at a time.",
     cli_bench},
    {"train", CLI_TRAIN, "", 0, 0, "", "train a model, or a LoRA adapter, on this machine",
     "Trains on word problems in arithmetic, drawn as they are needed: all weights of a model "
     "(-o), "
     "or an adapter on frozen weights (--adapter). Computes in the number format of the weights, "
     "with fp32 masters and AdamW. At the end it says the loss on held-out problems and how many "
     "of "
     "them greedy generation solves. The same seed on the same kernel path gives the same "
     "bytes.\n\n"
     "On SIGINT or SIGTERM the training stops, what was learnt so far is written, and the exit "
     "status is 5.",
     cli_train},
    {"help", CLI_HELP, "[COMMAND]", 0, 1, "", "explain lull, or one of its commands",
     "Prints help for the program, or for one command.", cli_help},
    {"man", CLI_MAN, "", 0, 0, "", NULL, "Prints the manual page.", cli_man},
};
const size_t cli_ncommands = sizeof cli_commands / sizeof cli_commands[0];

static const struct cli_command *running; /* NULL: none is known yet */

int cli_fail(const struct base_error *e)
{
  char text[1280];
  fprintf(stderr, "lull: %s\n", base_error_format(e, text, sizeof text));
  if (e->code == BASE_USAGE)
    fprintf(stderr, "Try 'lull %s%s'.\n", running ? "help " : "--help",
            running ? running->name : "");
  return e->code ? e->code : BASE_INVARIANT;
}

int cli_fail_all(const struct base_errors *list)
{
  char text[1280];
  for (size_t i = 0; i < list->n; i++)
    fprintf(stderr, "lull: %s\n", base_error_format(&list->item[i], text, sizeof text));
  if (list->total > list->n)
    fprintf(stderr, "lull: and %zu more errors\n", list->total - list->n);
  return list->n ? list->item[0].code : BASE_ENV;
}

int cli_finish(int code)
{
  if (!fflush(stdout) && !ferror(stdout))
    return code;
  fprintf(stderr, "lull: error: cannot write standard output: %s\n",
          errno ? strerror(errno) : "an earlier write failed");
  return BASE_ENV;
}

static int print_version(void)
{
  puts("lull " PACKAGE_VERSION "\n"
       "Licence GPL-3.0-or-later, with an additional permission for the CUDA libraries.\n"
       "There is no warranty, to the extent permitted by law.");
  return BASE_OK;
}

/* More threads than processors are no mistake, but slow: each operation waits for all of them. */
static void tell_threads(const struct cli_options *o)
{
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  if (o->threads && n > 0 && o->threads > (uint64_t)n && !o->quiet)
    fprintf(stderr, "lull: --threads %" PRIu64 " on %ld processor%s: this will be slow\n",
            o->threads, n, n == 1 ? "" : "s");
}

/* argv[0] is the command's name. */
static int run_command(const struct cli_command *c, int argc, char **argv)
{
  struct base_error e = {0};
  struct cli_line line = {0};
  int code;
  running = c->summary ? c : NULL;
  if (cli_parse(c, argc, argv, &line, &e)) {
    code = cli_fail(&e);
  } else if (line.options.help) {
    cli_print_command_help(stdout, c);
    code = BASE_OK;
  } else if (line.options.version) {
    code = print_version();
  } else {
    tell_threads(&line.options);
    code = c->run(&line);
  }
  cli_line_free(&line);
  return code;
}

static int unknown_command(const char *name)
{
  struct base_error e = {0};
  const char *near = cli_command_nearest(name);
  base_fail(&e, BASE_USAGE, "unknown %s '%s'%s%s%s", name[0] == '-' ? "option" : "command", name,
            near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
  return cli_fail(&e);
}

int main(int argc, char **argv)
{
  /* A limit on file size is then an error of the write, which removes the temporary file. */
  signal(SIGXFSZ, SIG_IGN);
  if (argc < 2) {
    cli_print_usage(stderr);
    return BASE_USAGE;
  }
  const char *name = argv[1];
  int code;
  const struct cli_command *c = cli_command_find(name);
  if (!strcmp(name, "--help") || !strcmp(name, "-h")) {
    cli_print_help(stdout);
    code = BASE_OK;
  } else if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
    code = print_version();
  } else if (c) {
    code = run_command(c, argc - 1, argv + 1);
  } else {
    code = unknown_command(name);
  }
  return cli_finish(code);
}
