/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { REDRAW_MS = 100, WHAT_MAX = 60 };

void cli_progress_open(struct cli_progress *p, int quiet)
{
  const char *term = getenv("TERM"), *ci = getenv("CI");
  *p = (struct cli_progress){0};
  p->off = quiet || !isatty(STDERR_FILENO) || !term || !*term || !strcmp(term, "dumb") ||
           (ci && *ci);
}

/* Only to pace the drawing; nothing that is printed depends on it. */
static long long monotonic_ms(void)
{
  struct timespec t;
  if (clock_gettime(CLOCK_MONOTONIC, &t))
    return 0;
  return (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void cli_progress_draw(void *ctx, const char *what, double fraction)
{
  struct cli_progress *p = ctx;
  if (p->off)
    return;
  long long now = monotonic_ms();
  if (now < p->due)
    return;
  p->due = now + REDRAW_MS;
  p->shown = 1;
  fprintf(stderr, "\r\033[K%3d%%  %.*s", (int)(fraction * 100), WHAT_MAX, what ? what : "");
  fflush(stderr);
}

void cli_progress_clear(struct cli_progress *p)
{
  if (p->shown)
    fputs("\r\033[K", stderr);
  p->shown = 0;
}
