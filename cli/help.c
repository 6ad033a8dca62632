/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Help and the man page, both from the tables of commands and options. */
#include <string.h>

#include "cli/commands.h"

enum { COLUMNS = 78, DOC_INDENT = 8 };

static const char description[] =
    "lull simulates GPUs that serve a language model to live users and fill the idle moments with "
    "batch work, and says how much more useful work a paid GPU-hour delivers, at what cost to the "
    "live users, under which scheduling policy.";

struct row {
  const char *name, *text;
};

static const struct row exit_codes[] = {
    {"0", "Done; all gates pass."},
    {"1", "A gate failed."},
    {"2", "The command line is wrong."},
    {"3", "The input is wrong; or a scenario, weights, calibration or plug-in cannot be read."},
    {"4", "A gate could not be decided."},
    {"5", "Incomplete: stopped by a signal; what is printed is marked as partial."},
    {"6",
     "The environment failed: memory, devices, files that cannot be written, or data that cannot "
     "be read: a trace, measured run, recording or table."},
    {"7", "An invariant broke, or a policy made no progress; the message says which."},
};

static const struct row environment[] = {
    {"LULL_DATA", "Folder of files that scenarios name as data:..., unless --data-dir is given."},
    {"LULL_POLICY_PATH", "Folders, separated by colons, in which policies are looked up by name as "
                         "lull-NAME-policy.so, before the installed policy folder."},
    {"TERM, CI", "No progress line where TERM is dumb or unset, or CI is set."},
};

static const struct row examples[] = {
    {"lull run c4-live-batch", "The built-in scenario: one shared GPU against two dedicated ones."},
    {"lull run c4-live-batch --arm shared-fcfs --json result.json", "One arm, results to a file."},
    {"lull trace info conv.csv.gz --format azure", "Statistics of a request trace."},
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

void cli_print_filled(FILE *out, int indent, const char *text)
{
  int column = 0;
  while (*text) {
    if (*text == '\n') {
      fputs(column ? "\n\n" : "\n", out);
      column = 0;
      text += strspn(text, "\n");
      continue;
    }
    int len = (int)strcspn(text, " \n");
    if (column && column + 1 + len > COLUMNS) {
      fputc('\n', out);
      column = 0;
    }
    column += fprintf(out, "%*s%.*s", column ? 1 : indent, "", len, text);
    text += len;
    text += strspn(text, " ");
  }
  fputc('\n', out);
}

void cli_print_usage(FILE *out)
{
  fputs("usage: lull COMMAND [OPTION]... [ARGUMENT]...\n"
        "Try 'lull run c4-live-batch', or 'lull --help'.\n",
        out);
}

static void print_option(FILE *out, const struct cli_option *o)
{
  char letter[5] = "    ";
  if (o->letter)
    letter[0] = '-', letter[1] = o->letter, letter[2] = ',';
  fprintf(out, "  %s--%s%s%s\n", letter, o->name, o->arg ? " " : "", o->arg ? o->arg : "");
  cli_print_filled(out, DOC_INDENT, o->doc);
}

static void print_options(FILE *out, unsigned commands)
{
  for (size_t i = 0; i < cli_noptions; i++)
    if (cli_option_table[i].commands & commands)
      print_option(out, &cli_option_table[i]);
}

static void print_rows(FILE *out, const struct row *row, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    fprintf(out, "  %s\n", row[i].name);
    cli_print_filled(out, DOC_INDENT, row[i].text);
  }
}

void cli_print_help(FILE *out)
{
  fputs("usage: lull COMMAND [OPTION]... [ARGUMENT]...\n\n", out);
  cli_print_filled(out, 0, description);
  fputs("\nCommands ('lull help COMMAND' says more):\n", out);
  for (size_t i = 0; i < cli_ncommands; i++)
    if (cli_commands[i].summary)
      fprintf(out, "  %-10s %s\n", cli_commands[i].name, cli_commands[i].summary);
  fputs("\nOptions of every command:\n", out);
  for (size_t i = 0; i < cli_noptions; i++)
    if (cli_option_table[i].commands == CLI_ANY)
      print_option(out, &cli_option_table[i]);
  fputs("\nExit status:\n", out);
  for (size_t i = 0; i < COUNT(exit_codes); i++)
    fprintf(out, "  %s  %s\n", exit_codes[i].name, exit_codes[i].text);
  fputs("\nEnvironment:\n", out);
  print_rows(out, environment, COUNT(environment));
  fputs("\nExamples:\n", out);
  print_rows(out, examples, COUNT(examples));
}

void cli_print_command_help(FILE *out, const struct cli_command *c)
{
  fprintf(out, "usage: lull %s [OPTION]...%s%s\n\n", c->name, *c->args ? " " : "", c->args);
  cli_print_filled(out, 0, c->text);
  fputs("\nOptions:\n", out);
  print_options(out, c->bit);
}

int cli_help(struct cli_line *line)
{
  if (!line->nargs) {
    cli_print_help(stdout);
    return BASE_OK;
  }
  const struct cli_command *c = cli_command_find(line->arg[0]);
  if (c) {
    cli_print_command_help(stdout, c);
    return BASE_OK;
  }
  struct base_error e = {0};
  const char *near = cli_command_nearest(line->arg[0]);
  base_fail(&e, BASE_USAGE, "unknown command '%s'%s%s%s", line->arg[0],
            near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
  return cli_fail(&e);
}

/* Text for roff: a hyphen, a backslash and a leading dot or quote mean something there. */
static void roff_text(FILE *out, const char *text)
{
  int start = 1;
  for (; *text; text++) {
    if (*text == '\n') {
      fputs("\n.PP\n", out);
      text += strspn(text, "\n") - 1;
      start = 1;
      continue;
    }
    if (start && (*text == '.' || *text == '\''))
      fputs("\\&", out);
    if (*text == '-')
      fputs("\\-", out);
    else if (*text == '\\')
      fputs("\\e", out);
    else
      fputc(*text, out);
    start = 0;
  }
}

static void roff_item(FILE *out, const char *name, const char *text)
{
  fputs(".TP\n.B ", out);
  roff_text(out, name);
  fputc('\n', out);
  roff_text(out, text);
  fputc('\n', out);
}

static void roff_option(FILE *out, const struct cli_option *o)
{
  fputs(".TP\n", out);
  if (o->letter)
    fprintf(out, "\\fB\\-%c\\fR, ", o->letter);
  fputs("\\fB\\-\\-", out);
  roff_text(out, o->name);
  fputs("\\fR", out);
  if (o->arg)
    fprintf(out, " \\fI%s\\fR", o->arg);
  fputc('\n', out);
  roff_text(out, o->doc);
  fputc('\n', out);
}

static void roff_command(FILE *out, const struct cli_command *c)
{
  fprintf(out, ".SS lull %s [\\fIOPTION\\fR]...%s%s\n", c->name, *c->args ? " " : "", c->args);
  roff_text(out, c->text);
  fputc('\n', out);
  for (size_t i = 0; i < cli_noptions; i++)
    if ((cli_option_table[i].commands & c->bit) && cli_option_table[i].commands != CLI_ANY)
      roff_option(out, &cli_option_table[i]);
}

static void roff_rows(FILE *out, const char *heading, const struct row *row, size_t n)
{
  fprintf(out, ".SH %s\n", heading);
  for (size_t i = 0; i < n; i++)
    roff_item(out, row[i].name, row[i].text);
}

int cli_man(struct cli_line *line)
{
  (void)line;
  FILE *out = stdout;
  fprintf(out,
          ".\\\" Made by 'lull man' from the tables of commands and options.\n"
          ".TH LULL 1 \"\" \"lull %s\" \"User Commands\"\n",
          PACKAGE_VERSION);
  fputs(".SH NAME\nlull \\- useful work per paid GPU\\-hour, simulated\n.SH SYNOPSIS\n"
        ".B lull\n\\fICOMMAND\\fR [\\fIOPTION\\fR]... [\\fIARGUMENT\\fR]...\n.SH DESCRIPTION\n",
        out);
  roff_text(out, description);
  fputs("\n.SH COMMANDS\n", out);
  for (size_t i = 0; i < cli_ncommands; i++)
    if (cli_commands[i].summary)
      roff_command(out, &cli_commands[i]);
  fputs(".SH OPTIONS OF EVERY COMMAND\n", out);
  for (size_t i = 0; i < cli_noptions; i++)
    if (cli_option_table[i].commands == CLI_ANY)
      roff_option(out, &cli_option_table[i]);
  roff_rows(out, "EXIT STATUS", exit_codes, COUNT(exit_codes));
  roff_rows(out, "ENVIRONMENT", environment, COUNT(environment));
  roff_rows(out, "EXAMPLES", examples, COUNT(examples));
  return BASE_OK;
}
