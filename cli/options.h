/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The command line as two tables: commands and options. The same tables parse, suggest the nearest
 * name, and print help and the man page; nothing about an option stands anywhere else.
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "sim/scenario/scenario.h"

/* Values as given; strings are borrowed from argv. Zero it before parsing. */
struct cli_options {
  int help, version;
  const char *arm;
  int has_seed;
  uint64_t seed;
  const char *json, *requests, *log; /* output files */
  const char *data_dir;
  int explain_fit, no_fast_forward, quiet, no_sweeps;
  struct scenario_override *set; /* [nset], owned; targets owned too */
  uint32_t nset;
  const char *measured, *fit; /* validate: file, what is fitted */
  const char **gate;          /* validate: [ngates], owned; texts borrowed */
  uint32_t ngates;
  const char *format;                            /* trace */
  const char *from, *model, *gpu, *weights, *kv; /* import */
  const char *output;                            /* import: file to write */
  int force;                                     /* models, train: over a model that is there */
  const char *engine;                            /* import: engine of tables that do not say it */
  const char *law;                               /* import: pairs or tables; NULL: pairs */
  int derive;                                    /* import: attention may be derived */
  uint64_t tp;                                   /* import: GPUs of a group; 0: one */
  uint64_t max_seqs, token_budget, max_context;  /* calibration show; 0: not given */
  const char *workload;                          /* bench */
  uint64_t count, repeat;                        /* bench: requests, runs of each; 0: default */
  int no_fork;                                   /* bench: measure in this process */
  /* generate; numbers are 0 where they are not given */
  const char *weights_folder, *prompt, *tokens, *adapter, *path, *dtype;
  uint64_t max_tokens, top_k, threads;
  double temperature, top_p;
  int stats;
  /* train, which takes weights_folder, output, adapter, path and threads too; 0: not given */
  const char *task, *targets, *schedule, *losses;
  uint64_t steps, batch, seq, warmup, rank, held_out;
  double rate;
  const char *device, *cores, *record, *recording, *adapters; /* run */
  const char *calibration; /* run, validate: instead of the scenario's */
  int quick;               /* calibrate */
};

/* Commands, as bits of cli_option.commands. */
enum cli_command_bit {
  CLI_RUN = 1,
  CLI_CHECK = 2,
  CLI_POLICIES = 4,
  CLI_TRACE = 8,
  CLI_IMPORT = 16,
  CLI_HELP = 32,
  CLI_MAN = 64,
  CLI_BENCH = 128,
  CLI_CALIBRATION = 256,
  CLI_VALIDATE = 512,
  CLI_MODELS = 1024,
  CLI_GENERATE = 2048,
  CLI_TRAIN = 4096,
  CLI_CALIBRATE = 8192,
  CLI_ANY = 16383
};

/* What a command gets: its options and what is left of the line behind its name. */
struct cli_line {
  const struct cli_command *command;
  struct cli_options options;
  int nargs;
  char **arg;
};

/* One command. `run` returns an exit code; it prints data on stdout and failures on stderr. */
struct cli_command {
  const char *name;
  unsigned bit;           /* enum cli_command_bit */
  const char *args;       /* for the usage line */
  int min_args, max_args; /* max_args -1: any number */
  const char *missing;    /* what to say when there are too few */
  const char *summary;    /* one line; NULL: hidden */
  const char *text;       /* what it does, paragraphs separated by an empty line */
  int (*run)(struct cli_line *);
};

/* COUNT: a whole number of at least 1, in a uint64_t. NUMBER: at least 0, FRACTION: more than 0 and
 * at most 1, in a double. */
enum cli_kind {
  CLI_FLAG,
  CLI_STRING,
  CLI_COUNT,
  CLI_NUMBER,
  CLI_FRACTION,
  CLI_SEED,
  CLI_SET,
  CLI_GATE
};

struct cli_option {
  const char *name;
  char letter;       /* 0: none */
  const char *arg;   /* name of its argument, NULL: none */
  int kind;          /* enum cli_kind */
  size_t offset;     /* in struct cli_options */
  unsigned commands; /* bits of the commands that take it */
  const char *doc;
};

extern const struct cli_command cli_commands[];
extern const size_t cli_ncommands;
extern const struct cli_option cli_option_table[];
extern const size_t cli_noptions;

/* NULL: unknown. */
const struct cli_command *cli_command_find(const char *name);
/* The nearest name of a command, or NULL. */
const char *cli_command_nearest(const char *name);

/* Parses argv[1..] of a command (argv[0] is its name) into *line. -1 with BASE_USAGE. */
int cli_parse(const struct cli_command *c, int argc, char **argv, struct cli_line *line,
              struct base_error *e);
/* Frees what cli_parse allocated. */
void cli_line_free(struct cli_line *line);

#endif
