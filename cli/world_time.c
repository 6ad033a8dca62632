/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/world_time.h"

#include <stdio.h>

#include "cli/device.h"
#include "cli/outputs.h"
#include "sim/scenario/scenario.h"

enum { BLOCK = 16 };

/* Half as many rows as may be, prompts and answers of a quarter of the context; costs are of no
 * account. What is under way at the end is dropped. */
static const char text[] =
    "<scenario xmlns='urn:lull:scenario:1' version='1' id='world'><title>world</title>"
    "<run window='%us' drain='0s' seeds='1'/>"
    "<machine><analytic base='100us' kv-per-token='1KiB'/></machine>"
    "<engine max-seqs='%u' token-budget='%utok' block='%utok' kv-blocks='%u' host-link='1GB/s'"
    " max-context='%utok'/>"
    "<class id='batch' kind='batch'><arrivals process='backlog' below='%u'/>"
    "<prompt dist='constant' mean='%utok'/><output dist='constant' mean='%utok'/></class>"
    "<arm id='world' policy='fcfs'><server id='s' gpu='0' classes='batch'/></arm></scenario>";

static struct scenario *open_scenario(const struct cli_options *o,
                                      const struct measure_limits *most, struct base_error *e)
{
  char xml[sizeof text + 128];
  struct base_errors errors = {0};
  const struct scenario_options none = {0};
  uint32_t part = most->max_context / 4, pages = most->max_context / BLOCK + 2;
  int n = snprintf(xml, sizeof xml, text, o->quick ? 1 : 3, most->max_seqs, most->token_budget,
                   (unsigned)BLOCK, pages * most->max_seqs, most->max_context,
                   most->max_seqs / 2 + 1, part, part);
  struct scenario *s = scenario_open_memory("world.xml", NULL, xml, (size_t)n, &none, &errors);
  if (!s)
    base_fail(e, BASE_INVARIANT, "the scenario of the world's time: %.500s",
              errors.n ? errors.item[0].text : "no memory");
  base_errors_free(&errors);
  return s;
}

int cli_world_time(const struct cli_options *o, const struct measure_limits *most, int64_t *ps,
                   struct base_error *e)
{
  struct scenario *s = open_scenario(o, most, e);
  struct cli_device *d = s ? cli_device_open(o, s, e) : NULL;
  const struct experiment_options run = {.device = d ? cli_device_hook(d) : NULL,
                                         .stop = &cli_stop};
  struct experiment *x = d ? experiment_run(s, &run, e) : NULL;
  if (x)
    *ps = cli_device_away(d);
  experiment_free(x);
  cli_device_close(d);
  scenario_close(s);
  return x ? 0 : -1;
}
