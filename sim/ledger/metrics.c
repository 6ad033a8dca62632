/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The table of metrics: the one place where a name, its unit and its meaning meet. */
#include <math.h>
#include <string.h>

#include "sim/ledger/summary.h"

const struct summary_metric_info summary_metrics[METRICS] = {
    [METRIC_USEFUL_RATE] =
        {"useful-tokens-per-gpu-hour", "Useful tokens/GPU-hour", "tok/GPU-h",
         "output tokens of live requests that met their SLO and of finished batch "
         "items, over all paid GPU-hours, drain included"},
    [METRIC_RATIO] = {"ratio", "Ratio to baseline", "1",
                      "useful tokens per GPU-hour over the baseline's, both pooled over seeds"},
    [METRIC_ATTAINMENT] = {"attainment", "Live SLO attainment", "1",
                           "share of offered live requests that met both TTFT and TPOT targets"},
    [METRIC_ATTAINMENT_HALF] = {"attainment-half", "Attainment at half the targets", "1",
                                "the same with both targets halved"},
    [METRIC_ATTAINMENT_DOUBLE] = {"attainment-double", "Attainment at twice the targets", "1",
                                  "the same with both targets doubled"},
    [METRIC_ERRORS] = {"errors", "Errors", "requests",
                       "requests of all classes that failed, were rejected or expired"},
    [METRIC_TTFT_P50] = {"ttft-p50", "TTFT p50", "s",
                         "first token minus scheduled arrival, finished live requests, median"},
    [METRIC_TTFT_P95] = {"ttft-p95", "TTFT p95", "s", "the same, 95th percentile"},
    [METRIC_TTFT_P99] = {"ttft-p99", "TTFT p99", "s", "the same, 99th percentile"},
    [METRIC_TPOT_P50] =
        {"tpot-p50", "TPOT p50", "s",
         "(last - first token) / (tokens - 1), finished live requests of two or more "
         "tokens, median"},
    [METRIC_TPOT_P95] = {"tpot-p95", "TPOT p95", "s", "the same, 95th percentile"},
    [METRIC_E2E_P50] = {"e2e-p50", "E2E p50", "s",
                        "last token minus scheduled arrival, finished live requests, median"},
    [METRIC_E2E_P95] = {"e2e-p95", "E2E p95", "s", "the same, 95th percentile"},
    [METRIC_ITL_P50] = {"itl-p50", "Token gap p50", "s",
                        "gap between two steps that delivered tokens to a live request, median"},
    [METRIC_ITL_P95] = {"itl-p95", "Token gap p95", "s", "the same, 95th percentile"},
    [METRIC_ITL_P99] = {"itl-p99", "Token gap p99", "s", "the same, 99th percentile"},
    [METRIC_DEVICE_BUSY] =
        {"device-busy", "Utilisation, device-busy", "1",
         "share of paid time with a kernel of a step or a micro-step of a job running"},
    [METRIC_LEDGER_BUSY] =
        {"ledger-busy", "Utilisation, ledger-busy", "1",
         "share of paid time in the accounts live useful, batch useful and training"},
    [METRIC_GPU_SECONDS] = {"gpu-seconds", "Paid GPU-seconds", "GPU-s",
                            "time from the start to the end of drain, times GPUs"},
    [METRIC_PREEMPTIONS] = {"preemptions", "Preemptions", "1",
                            "requests taken off a server's batch"},
    [METRIC_DISCARDED] = {"discarded-tokens", "Discarded tokens", "tok",
                          "KV tokens dropped by preemption, to be computed again"},
    [METRIC_LIVE_RATE] = {"live-tokens-per-second", "Live useful tokens/s", "tok/s",
                          "useful live tokens over elapsed time"},
    [METRIC_BATCH_RATE] = {"batch-tokens-per-second", "Batch useful tokens/s", "tok/s",
                           "useful batch tokens over elapsed time"},
    [METRIC_OFFERED] = {"offered", "Requests offered", "requests", "arrivals in the window"},
    [METRIC_FINISHED] = {"finished", "Requests finished", "requests", "all output delivered"},
    [METRIC_UNFINISHED] = {"unfinished", "Requests unfinished", "requests",
                           "neither finished nor ended otherwise at the end"},
    [METRIC_HIT_RATE] = {"prefix-hit-rate", "Prefix cache hit rate", "1",
                         "share of the tokens that admissions wanted computed whose KV the prefix "
                         "cache held"},
};

int summary_metric_by_name(const char *name)
{
  for (int m = 0; m < METRICS; m++)
    if (!strcmp(name, summary_metrics[m].name))
      return m;
  return -1;
}

static uint64_t sum_classes(const uint64_t n[LULL_CLASSES])
{
  uint64_t sum = 0;
  for (int c = 0; c < LULL_CLASSES; c++)
    sum += n[c];
  return sum;
}

uint64_t summary_looked_up(const struct summary *s)
{
  return sum_classes(s->looked_up_tokens);
}

uint64_t summary_cached(const struct summary *s)
{
  return sum_classes(s->cached_tokens);
}

/* a / b, undefined for b = 0. */
static double quotient(double a, double b)
{
  return b > 0 ? a / b : NAN;
}

/* Percentile of a sample of ps, in seconds. */
static double sample(const struct base_sample *x, double p)
{
  return base_sample_percentile(x, p) / 1e12;
}

/* Percentile of the token gaps, in seconds. */
static double gaps(const struct summary *s, double p)
{
  return s->itl.bin && s->itl.n ? base_hist_percentile(&s->itl, p) / 1e12 : NAN;
}

double summary_value(const struct summary *s, int metric)
{
  switch (metric) {
  case METRIC_USEFUL_RATE:
    return quotient((double)s->useful_tokens * 3600, s->gpu_seconds);
  case METRIC_ATTAINMENT:
    return quotient((double)s->live_met, (double)s->live_offered);
  case METRIC_ATTAINMENT_HALF:
    return quotient((double)s->live_met_half, (double)s->live_offered);
  case METRIC_ATTAINMENT_DOUBLE:
    return quotient((double)s->live_met_double, (double)s->live_offered);
  case METRIC_ERRORS:
    return s->runs ? (double)s->errors : NAN;
  case METRIC_TTFT_P50:
    return sample(&s->ttft, 0.5);
  case METRIC_TTFT_P95:
    return sample(&s->ttft, 0.95);
  case METRIC_TTFT_P99:
    return sample(&s->ttft, 0.99);
  case METRIC_TPOT_P50:
    return sample(&s->tpot, 0.5);
  case METRIC_TPOT_P95:
    return sample(&s->tpot, 0.95);
  case METRIC_E2E_P50:
    return sample(&s->e2e, 0.5);
  case METRIC_E2E_P95:
    return sample(&s->e2e, 0.95);
  case METRIC_ITL_P50:
    return gaps(s, 0.5);
  case METRIC_ITL_P95:
    return gaps(s, 0.95);
  case METRIC_ITL_P99:
    return gaps(s, 0.99);
  case METRIC_DEVICE_BUSY:
    return s->gpu_seconds > 0 ? s->device_busy : NAN;
  case METRIC_LEDGER_BUSY:
    return s->gpu_seconds > 0 ? s->ledger_busy : NAN;
  case METRIC_GPU_SECONDS:
    return s->runs ? s->gpu_seconds : NAN;
  case METRIC_PREEMPTIONS:
    return s->runs ? (double)s->preempts : NAN;
  case METRIC_DISCARDED:
    return s->runs ? (double)s->discarded_tokens : NAN;
  case METRIC_LIVE_RATE:
    return quotient((double)s->live_useful_tokens, s->seconds);
  case METRIC_BATCH_RATE:
    return quotient((double)s->batch_useful_tokens, s->seconds);
  case METRIC_OFFERED:
    return s->runs ? (double)s->offered : NAN;
  case METRIC_FINISHED:
    return s->runs ? (double)s->finished : NAN;
  case METRIC_UNFINISHED:
    return s->runs ? (double)s->unfinished : NAN;
  case METRIC_HIT_RATE:
    return quotient((double)summary_cached(s), (double)summary_looked_up(s));
  default:
    return NAN;
  }
}
