/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Feeds bytes to the readers of measured runs, as a file. replay.c feeds it files. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "models/measured.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the program where the fuzzer notices. */
static void require(int good)
{
  if (!good)
    abort();
}

/* Every request keeps what the header promises, and its gaps lie side by side with the others'. */
static void require_rows(const struct measured *m)
{
  size_t gaps = 0;
  require(m->n >= 1 && m->row[0].arrival_ns == 0);
  for (uint64_t i = 0; i < m->n; i++) {
    const struct measured_request *q = &m->row[i];
    require(i == 0 || q->arrival_ns >= m->row[i - 1].arrival_ns);
    require(q->ttft_ns >= 0 && q->e2e_ns >= q->ttft_ns && q->arrival_ns >= 0);
    require(q->prompt && q->output && q->ngaps < q->output && q->line >= 1);
    require(q->gap + q->ngaps <= m->ngaps);
    gaps += q->ngaps;
  }
  require(gaps == m->ngaps && (m->has_gaps || !gaps));
  for (size_t i = 0; i < m->ngaps; i++)
    require(m->gap_ns[i] >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct base_error e = {0};
  struct measured *m = measured_open_memory(data, size, "fuzz", &e);
  if (m)
    require_rows(m);
  else
    require(e.code == BASE_INPUT && e.line >= 1 && e.text[0] && !strchr(e.text, '\n'));
  measured_close(m);
  return 0;
}
