/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "calib/falls.h"

#include <string.h>

void falls_note(struct falls *f, int64_t less_ps, unsigned less, int64_t more_ps, unsigned more)
{
  if (more_ps >= less_ps)
    return;
  struct fall x = {more, less, (int64_t)((__int128)(less_ps - more_ps) * 1000000 / less_ps)};
  size_t i = f->known < FALLS_TOLD ? f->known++ : FALLS_TOLD;
  f->n++;
  for (; i > 0 && f->worst[i - 1].ppm < x.ppm; i--)
    if (i < FALLS_TOLD)
      f->worst[i] = f->worst[i - 1];
  if (i < FALLS_TOLD)
    f->worst[i] = x;
}

void falls_tell(const struct falls *f, const char *path, size_t rows, FILE *talk)
{
  const char *slash = strrchr(path, '/');
  if (!talk || !f->n)
    return;
  fprintf(talk, "%s: %zu of %zu rows are quicker than their neighbour with less work; most:",
          slash ? slash + 1 : path, f->n, rows);
  for (size_t i = 0; i < f->known; i++)
    fprintf(talk, "%s row %u by %.1f%% (than row %u)", i ? "," : "", f->worst[i].line,
            (double)f->worst[i].ppm / 1e4, f->worst[i].than);
  fputc('\n', talk);
}
