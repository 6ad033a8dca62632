/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The requests of a validation one by one, RFC 4180. */
#include <string.h>

#include "base/outfile.h"
#include "sim/validate/validate.h"

/* First token and last one from the arrival, ps, after a comma each. */
static void times(const struct validate_request *q, FILE *out)
{
  fprintf(out, ",%lld,%lld", (long long)(q->first - q->arrival), (long long)(q->last - q->arrival));
}

int validate_rows(const struct validation *v, const char *path, struct base_error *e)
{
  struct base_outfile file = {0};
  if (base_outfile_open(&file, path, e))
    return -1;
  fputs("line,arrival_ps,prompt,output,measured_ttft_ps,measured_e2e_ps,simulated_ttft_ps,"
        "simulated_e2e_ps\r\n",
        file.f);
  for (uint64_t i = 0; i < v->measured->n; i++) {
    const struct measured_request *q = &v->measured->row[i];
    fprintf(file.f, "%u,%lld,%u,%u", q->line, (long long)q->arrival_ns * 1000, q->prompt,
            q->output);
    times(&v->side[VALIDATE_MEASURED].request[i], file.f);
    times(&v->side[VALIDATE_SIMULATED].request[i], file.f);
    fputs("\r\n", file.f);
  }
  return base_outfile_commit(&file, e);
}
