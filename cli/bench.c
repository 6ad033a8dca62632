/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * lull bench: how fast the simulator is, on workloads of its own, a row each. Each measurement runs
 * in a child process, so that its peak of memory is its own.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/speed_run.h"

enum { REPEATS = 5, REPEATS_OF_MANY = 3, MANY = 10000000, MAX_REPEATS = 99 };
static const uint64_t default_sizes[] = {10000, 1000000};

/* A row of the table. */
struct measured {
  struct speed_figures f; /* seconds: the median */
  double spread;
};

/* ---- measuring ---- */

/* What a child tells its parent, in one write. */
struct message {
  int rc;
  struct base_error e;
  struct speed_figures f;
};

static void child(int to, const struct speed_spec *spec, const char *data_dir, uint64_t requests)
{
  struct message m = {0};
  m.rc = speed_run(spec, data_dir, requests, &m.f, &m.e);
  ssize_t n = write(to, &m, sizeof m);
  _exit(n == (ssize_t)sizeof m ? 0 : BASE_ENV);
}

/* Reads the whole message; -1 if the child ended without it. */
static int receive(int from, struct message *m)
{
  size_t got = 0;
  while (got < sizeof *m) {
    ssize_t n = read(from, (char *)m + got, sizeof *m - got);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return -1;
    got += (size_t)n;
  }
  return 0;
}

static int run_in_child(const struct speed_spec *spec, const char *data_dir, uint64_t requests,
                        struct speed_figures *out, struct base_error *e)
{
  int ends[2], status = 0;
  struct message m;
  struct rusage used = {0};
  fflush(stdout);
  if (pipe(ends))
    return base_fail_errno(e, "cannot make a pipe");
  pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    child(ends[1], spec, data_dir, requests);
  }
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    return base_fail_errno(e, "cannot start a process");
  }
  int lost = receive(ends[0], &m);
  close(ends[0]);
  while (wait4(pid, &status, 0, &used) < 0 && errno == EINTR)
    ;
  if (lost && WIFSIGNALED(status))
    return base_fail(e, BASE_INCOMPLETE, "%s: the measurement was ended by signal %d", spec->name,
                     WTERMSIG(status));
  if (lost)
    return base_fail(e, BASE_ENV, "%s: the measurement ended without a result", spec->name);
  *out = m.f;
  out->peak_kib = used.ru_maxrss;
  if (m.rc)
    *e = m.e;
  return m.rc;
}

static int measure(const struct speed_spec *spec, const struct cli_options *o, uint64_t requests,
                   struct measured *out, struct base_error *e)
{
  double seconds[MAX_REPEATS];
  int n = o->repeat ? (int)o->repeat : requests >= MANY ? REPEATS_OF_MANY : REPEATS;
  int64_t peak = 0;
  for (int i = 0; i < n; i++) {
    if (o->no_fork ? speed_run(spec, o->data_dir, requests, &out->f, e)
                   : run_in_child(spec, o->data_dir, requests, &out->f, e))
      return -1;
    seconds[i] = out->f.seconds;
    peak = out->f.peak_kib > peak ? out->f.peak_kib : peak;
  }
  out->f.peak_kib = peak;
  out->f.seconds = speed_median(seconds, n, &out->spread);
  return 0;
}

/* ---- the table ---- */

static void print_head(void)
{
  printf("%-9s %-28s %9s %14s %7s %9s %9s %12s %9s %8s %9s %16s\n", "Workload", "", "Requests",
         "Rate", "Spread", "Msteps/s", "Mtokens/s", "x real time", "ns/event", "Peak MB",
         "Preempted", "Digest of ends");
}

static void print_row(const struct speed_spec *spec, const struct measured *m)
{
  const struct speed_figures *f = &m->f;
  double s = f->seconds > 0 ? f->seconds : 1e-9, rate = (double)f->requests / s;
  char peak[16] = "-", text[32];
  if (f->peak_kib)
    snprintf(peak, sizeof peak, "%.1f", (double)f->peak_kib * 1024 / 1e6);
  if (spec->flags & SPEED_SCENARIO)
    snprintf(text, sizeof text, "%.0f req/s", rate);
  else
    snprintf(text, sizeof text, "%.2f Mreq/s", rate / 1e6);
  printf("%-9s %-28s %9llu %14s %6.1f%% %9.2f %9.1f %12.0f %9.0f %8s %9llu %016llx\n", spec->name,
         spec->what, (unsigned long long)f->requests, text, 100 * m->spread,
         (double)f->steps / s / 1e6, (double)f->tokens / s / 1e6, (double)f->last / 1e12 / s,
         1e9 * s / (double)(f->events + f->plans), peak, (unsigned long long)f->preempts,
         (unsigned long long)f->digest);
  fflush(stdout);
}

static void print_notes(const struct cli_options *o)
{
  putchar('\n');
  cli_print_filled(
      stdout, 0,
      "One process, one core, processor time. Rate: requests simulated a second, each with its KV "
      "blocks, ledger shares and latency statistics (TTFT, TPOT and E2E, exact up to 2^20 of them; "
      "token "
      "gaps), without records and, but for W1-log, without a decision log. Requests are drawn as "
      "they arrive, within the time; W7's are frozen before it. Spread: slowest less fastest over "
      "the median of the repeats. Event: an event delivered to the policy, or a plan. Peak MB: "
      "resident memory of the measuring process, libraries included. Preempted: preemptions. "
      "Digest of ends: of the times at which all requests ended.");
  if (o->no_fork)
    puts("Measured in one process: no peaks of memory.");
}

static double cost_of_request(const struct measured *m)
{
  return m->f.requests ? 1e9 * m->f.seconds / (double)m->f.requests : 0;
}

/* Two rows against each other: what a request costs must not depend on these. */
static void print_ratio(const char *what, const struct measured *few, const struct measured *many)
{
  double a = cost_of_request(few), b = cost_of_request(many);
  if (a > 0 && b > 0)
    printf("%-42s %5.2f  (%.0f ns against %.0f ns)\n", what, a > b ? a / b : b / a, a, b);
}

/* ---- the command ---- */

static int check_options(const struct cli_options *o, const struct speed_spec **one,
                         struct base_error *e)
{
  *one = NULL;
  if (o->repeat > MAX_REPEATS)
    return base_fail(e, BASE_USAGE, "--repeat: at most %d", MAX_REPEATS);
  if (o->count > INT32_MAX)
    return base_fail(e, BASE_USAGE, "--requests: at most %d", INT32_MAX);
  if (!o->workload || !strcmp(o->workload, "all"))
    return 0;
  *one = speed_find(o->workload);
  if (*one)
    return 0;
  const char *names[32];
  size_t n = 0;
  for (size_t i = 0; i < speed_count && n < 32; i++)
    names[n++] = speed_table[i].name;
  const char *near = base_nearest(o->workload, names, n);
  return base_fail(e, BASE_USAGE, "unknown workload '%s'%s%s%s", o->workload,
                   near ? "; did you mean '" : "; 'lull help bench' lists them", near ? near : "",
                   near ? "'?" : "");
}

/* A row of size n, or the reason why there is none. */
static int row(const struct speed_spec *spec, const struct cli_options *o, uint64_t n,
               struct measured *m, struct base_error *e)
{
  struct base_error absent = {0};
  *m = (struct measured){0};
  if (speed_load_check(spec, o->data_dir, &absent)) {
    printf("%-9s %-28s skipped: %s\n", spec->name, spec->what, absent.text);
    return 0;
  }
  if (measure(spec, o, n, m, e))
    return -1;
  print_row(spec, m);
  return 0;
}

static int all_rows(const struct cli_options *o, const uint64_t *size, size_t sizes,
                    struct base_error *e)
{
  struct measured m, out[2], run[2];
  for (size_t i = 0; i < speed_count; i++) {
    const struct speed_spec *spec = &speed_table[i];
    /* W1 to W7 at every size; the others, which are there to be compared, at the last */
    for (size_t k = strlen(spec->name) == 2 ? 0 : sizes - 1; k < sizes; k++) {
      if (row(spec, o, size[k], &m, e))
        return -1;
    }
    if (!strncmp(spec->name, "out-", 4))
      out[!strcmp(spec->name, "out-1000")] = m;
    if (!strncmp(spec->name, "run-", 4))
      run[!strcmp(spec->name, "run-256")] = m;
  }
  puts("\nCost of a request, larger over smaller:");
  print_ratio("  10 against 1,000 output tokens", &out[0], &out[1]);
  print_ratio("  8 against 256 running", &run[0], &run[1]);
  return 0;
}

int cli_bench(struct cli_line *line)
{
  const struct cli_options *o = &line->options;
  const uint64_t *size = o->count ? &o->count : default_sizes;
  size_t sizes = o->count ? 1 : sizeof default_sizes / sizeof default_sizes[0];
  const struct speed_spec *one;
  struct base_error e = {0};
  struct measured m;
  if (check_options(o, &one, &e))
    return cli_fail(&e);
  print_head();
  int rc = one ? 0 : all_rows(o, size, sizes, &e);
  for (size_t k = 0; one && !rc && k < sizes; k++)
    rc = row(one, o, size[k], &m, &e);
  if (rc)
    return cli_fail(&e);
  print_notes(o);
  return BASE_OK;
}
