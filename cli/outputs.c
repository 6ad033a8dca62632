/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/outputs.h"

#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/outfile.h"

volatile int cli_stop;

static struct timespec asked; /* when */

/*
 * A signal asks. A supervisor may send it to the process and to its group at once, so one within a
 * second is the same one; a later one means it, whatever the program is doing.
 */
static void on_signal(int number)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (!cli_stop) {
    asked = now;
    cli_stop = 1;
  } else if (now.tv_sec - asked.tv_sec > 1) {
    signal(number, SIG_DFL);
    raise(number);
  }
}

int cli_catch_signals(struct base_error *e)
{
  struct sigaction a = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  sigemptyset(&a.sa_mask);
  const struct sigaction ignore = {.sa_handler = SIG_IGN};
  if (sigaction(SIGINT, &a, NULL) || sigaction(SIGTERM, &a, NULL) ||
      sigaction(SIGPIPE, &ignore, NULL))
    return base_fail_errno(e, "cannot catch signals");
  return 0;
}

/* Do two names stand for one regular file? A file that is not there yet is told by its name. */
static int same_file(const char *a, const char *b)
{
  struct stat x, y;
  if (!a || !b)
    return 0;
  if (stat(a, &x) || stat(b, &y))
    return !strcmp(a, b);
  return S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int cli_check_outputs(const char *const *output, int noutputs, const char *const *input,
                      int ninputs, struct base_error *e)
{
  struct base_outfile probe = {0};
  for (int i = 0; i < noutputs; i++) {
    for (int k = 0; k < ninputs; k++)
      if (same_file(output[i], input[k]))
        return base_fail(e, BASE_USAGE, "an output would replace %s '%.200s'",
                         k ? "the measured run" : "the scenario", input[k]);
    for (int k = 0; k < i; k++)
      if (same_file(output[i], output[k]))
        return base_fail(e, BASE_USAGE, "two outputs name one file, '%.200s'", output[i]);
  }
  if (output[0] && base_outfile_open(&probe, output[0], e))
    return -1;
  base_outfile_abandon(&probe);
  return 0;
}

struct experiment_options cli_experiment(const struct cli_options *o, struct cli_progress *p)
{
  return (struct experiment_options){.only_arm = o->arm,
                                     .has_seed = o->has_seed,
                                     .seed = o->seed,
                                     .max_repeat = o->no_fast_forward ? 1 : 0,
                                     .stop = &cli_stop,
                                     .progress = cli_progress_draw,
                                     .progress_ctx = p};
}
