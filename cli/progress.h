/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The progress line on a terminal: one line of standard error, rewritten in place. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

struct cli_progress {
  int shown;     /* the line is on the screen */
  int off;       /* never show it */
  long long due; /* monotonic ms before which nothing is redrawn */
};

/* Off where standard error is no terminal, TERM is dumb or unset, CI is set, or `quiet`. */
void cli_progress_open(struct cli_progress *p, int quiet);
/* Draws, at most ten times a second. fraction in [0,1]. ctx: struct cli_progress. */
void cli_progress_draw(void *ctx, const char *what, double fraction);
/* Wipes the line. */
void cli_progress_clear(struct cli_progress *p);

#endif
