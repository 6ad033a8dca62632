/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/validate/names.h"

#include <string.h>

#include "base/error.h"

const struct validate_metric_info validate_metrics[VALIDATE_METRICS] = {
    [VALIDATE_TTFT] = {"ttft", "s", "TTFT, ms", 1e3, 2,
                       "first token - arrival, a sample a request"},
    [VALIDATE_TPOT] =
        {"tpot", "s", "TPOT, ms", 1e3, 3,
         "(last token - first token) / (tokens - 1), a sample a request of two tokens "
         "or more"},
    [VALIDATE_ITL] = {"itl", "s", "ITL, ms", 1e3, 3,
                      "gap between deliveries of tokens to one request, all requests together, "
                      "binned within 0.1%"},
    [VALIDATE_E2E] = {"e2e", "s", "E2E, ms", 1e3, 2, "last token - arrival, a sample a request"},
    [VALIDATE_THROUGHPUT] = {"throughput", "tokens/s", "Output tokens/s", 1, 1,
                             "mean: output tokens / (last token - first arrival); otherwise output "
                             "tokens in each whole second, a request's tokens spread evenly from "
                             "its first to its last"},
    [VALIDATE_CONCURRENCY] = {"concurrency", "requests", "Requests in system", 1, 2,
                              "requests that have arrived and not ended; mean: over the time from "
                              "first arrival to last token; otherwise the mean of each whole "
                              "second"},
    [VALIDATE_USEFUL] = {"useful-tokens", "tokens", "Useful tokens", 1, 0,
                         "output tokens of live requests that met their targets and of finished "
                         "batch items"},
    [VALIDATE_OUTPUT] = {"output-tokens", "tokens", "Output tokens", 1, 0, "of all requests"},
    [VALIDATE_RATE] = {"useful-rate", "tokens/GPU-h", "Useful/GPU-hour", 1, 0,
                       "useful tokens over all paid GPU-hours, drain included"},
    [VALIDATE_BUSY] = {"utilisation", "1", "Utilisation, %", 100, 2,
                       "share of paid time with a kernel of a step running"},
    [VALIDATE_MAKESPAN] = {"makespan", "s", "Makespan, s", 1, 3,
                           "from the start to the end of the last request"},
    [VALIDATE_STEPS] = {"steps", "steps", "Steps", 1, 0, "of all servers"},
    [VALIDATE_PREEMPTIONS] = {"preemptions", "requests", "Preemptions", 1, 0,
                              "requests taken off a server's batch"},
    [VALIDATE_FINISHED] = {"finished", "requests", "Finished requests", 1, 0, "of all classes"},
};

const struct validate_statistic_info validate_statistics[VALIDATE_STATISTICS] = {
    [VALIDATE_MEAN] = {"mean", "arithmetic mean"},
    [VALIDATE_P50] = {"p50", "median, type 7"},
    [VALIDATE_P90] = {"p90", "90th percentile, type 7"},
    [VALIDATE_P95] = {"p95", "95th percentile, type 7"},
    [VALIDATE_P99] = {"p99", "99th percentile, type 7"},
    [VALIDATE_KS] = {"ks", "Kolmogorov-Smirnov distance of the two distributions, 0 to 1"},
    [VALIDATE_CORRELATION] = {"correlation",
                              "Pearson's, over requests (throughput, concurrency: over seconds)"},
    [VALIDATE_BIAS] = {"bias", "mean of (simulated - measured) / measured, over the same"},
};

int validate_metric_by_name(const char *name)
{
  for (int i = 0; i < VALIDATE_METRICS; i++)
    if (!strcmp(name, validate_metrics[i].name))
      return i;
  return -1;
}

int validate_statistic_by_name(const char *name)
{
  for (int i = 0; i < VALIDATE_STATISTICS; i++)
    if (!strcmp(name, validate_statistics[i].name))
      return i;
  return -1;
}

const char *validate_metric_nearest(const char *name)
{
  const char *names[VALIDATE_METRICS];
  for (int i = 0; i < VALIDATE_METRICS; i++)
    names[i] = validate_metrics[i].name;
  return base_nearest(name, names, VALIDATE_METRICS);
}

const char *validate_statistic_nearest(const char *name)
{
  const char *names[VALIDATE_STATISTICS];
  for (int i = 0; i < VALIDATE_STATISTICS; i++)
    names[i] = validate_statistics[i].name;
  return base_nearest(name, names, VALIDATE_STATISTICS);
}
