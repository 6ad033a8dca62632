/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A scenario of two arms and three seeds, an experiment on it, and a world's result, all made by
 * hand so that every figure is known. Included by the suites that use it. */
#ifndef TESTS_REPORT_FIXTURE_H
#define TESTS_REPORT_FIXTURE_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "sim/ledger/verdict.h"

enum { SEEDS = 3, SHARED = 0, DEDICATED = 1 };
static const int64_t second = 1000000000000; /* ps */

static struct scenario_candidate shared_candidate[] = {{.id = ""}};
static struct scenario_candidate dedicated_candidate[] = {{.id = "k3"}, {.id = "k0"}};
static struct scenario_class classes[] = {{.id = "live", .interactive = 1}, {.id = "batch"}};
static uint64_t seeds[SEEDS] = {17, 29, 43};

struct fixture {
  struct scenario s;
  struct scenario_arm arm[2];
  struct scenario_gate gate[3];
  struct scenario_reference reference[3];
  struct scenario_parameter parameter[2];
  struct experiment x;
  struct experiment_arm xarm[2];
  struct experiment_gate xgate[3];
};
static struct fixture f;

/* The useful rate is chosen by tokens: one GPU for 3,600 s, so tokens/GPU-hour = tokens. */
static void set_run(int arm, int candidate, int seed, uint64_t tokens, uint64_t met)
{
  struct experiment_run *r = &f.xarm[arm].run[candidate * SEEDS + seed];

  r->sum.runs = 1;
  r->sum.ngpus = 1;
  r->sum.gpu_seconds = r->sum.seconds = 3600;
  r->sum.device_busy = 0.5;
  r->sum.ledger_busy = 0.25;
  r->sum.account[WORLD_LIVE_USEFUL] = 900;
  r->sum.account[WORLD_IDLE] = 2700;
  r->sum.useful_tokens = tokens;
  r->sum.live_useful_tokens = tokens / 4;
  r->sum.batch_useful_tokens = tokens - tokens / 4;
  r->sum.offered = r->sum.finished = r->sum.live_offered = 1000;
  r->sum.live_met = met;
  strcpy(r->plan_digest, "00112233445566778899aabbccddeeff");
  strcpy(r->log_digest, "ffeeddccbbaa99887766554433221100");
}

static void set_up(void)
{
  memset(&f, 0, sizeof f);
  f.arm[SHARED] = (struct scenario_arm){
      .id = "shared", .title = "Both", .ngpus = 1, .ncandidates = 1, .candidate = shared_candidate};
  f.arm[DEDICATED] = (struct scenario_arm){.id = "dedicated",
                                           .title = "Apart",
                                           .ngpus = 2,
                                           .ncandidates = 2,
                                           .candidate = dedicated_candidate};
  f.gate[0] = (struct scenario_gate){
      .id = "ratio", .metric = "ratio", .arm = "shared", .has_min = 1, .min = 1.5};
  f.gate[1] = (struct scenario_gate){
      .id = "slo", .metric = "attainment", .arm = "shared", .has_min = 1, .min = 0.99};
  f.gate[2] = (struct scenario_gate){
      .id = "errors", .metric = "errors", .arm = "shared", .has_max = 1, .max = 0};
  f.reference[0] = (struct scenario_reference){"shared", "ratio", 1.5066, "report 014"};
  f.reference[1] = (struct scenario_reference){"shared", "useful-tokens-per-gpu-hour", 49540000,
                                               "report 014"};
  f.reference[2] = (struct scenario_reference){"dedicated", "useful-tokens-per-gpu-hour", 32880000,
                                               "report 014"};
  f.parameter[0] = (struct scenario_parameter){
      "/s:scenario/s:class/@rate", "live rate", "18/s", "decides l/b", ORIGIN_INFERRED, 7};
  f.parameter[1] = (struct scenario_parameter){"/s:scenario/@seeds", "seeds",    "17 29 43",
                                               "as published",       ORIGIN_SET, 8};
  f.s = (struct scenario){.file = "x.xml",
                          .id = "two-arms",
                          .title = "A title",
                          .window = 300 * second,
                          .drain = LULL_NEVER,
                          .nseeds = SEEDS,
                          .seed = seeds,
                          .gpu = "h200-sxm",
                          .model = "qwen3-8b",
                          .nclasses = 2,
                          .cls = classes,
                          .narms = 2,
                          .arm = f.arm,
                          .baseline = DEDICATED,
                          .qualify_attainment = 0.99,
                          .ngates = 3,
                          .gate = f.gate,
                          .nreferences = 3,
                          .reference = f.reference,
                          .nparameters = 2,
                          .parameter = f.parameter};
  f.x = (struct experiment){
      .scenario = &f.s, .nseeds = SEEDS, .seed = seeds, .arm = f.xarm, .gate = f.xgate};
  for (int a = 0; a < 2; a++) {
    f.xarm[a].ncandidates = f.arm[a].ncandidates;
    f.xarm[a].run = calloc(f.arm[a].ncandidates * SEEDS, sizeof *f.xarm[a].run);
    f.xarm[a].best = calloc(SEEDS, sizeof(int));
    f.xarm[a].ratio = calloc(SEEDS, sizeof(double));
    ck_assert(f.xarm[a].run && f.xarm[a].best && f.xarm[a].ratio);
  }
  for (int k = 0; k < SEEDS; k++) {
    set_run(SHARED, 0, k, 50000000 * (uint64_t)(15 + k) / 10, 1000);
    set_run(DEDICATED, 0, k, 50000000, 995);
    set_run(DEDICATED, 1, k, 60000000, 900); /* faster, but not qualified */
  }
}

static void tear_down(void)
{
  for (int a = 0; a < 2; a++) {
    summary_free(&f.xarm[a].pooled);
    free(f.xarm[a].run);
    free(f.xarm[a].best);
    free(f.xarm[a].ratio);
  }
}

static void reach(void)
{
  struct base_error e = {0};

  ck_assert_int_eq(verdict_reach(&f.x, &e), 0);
}

/* Targets 100 ms and 10 ms. Requests: one that meets half the targets, one that just meets them,
 * one that meets them only doubled, one token only, unfinished, and one of batch. */
static struct world_record records[] = {
    {0, 0, 50000000000, 90000000000, 10, 9, 9, 0, 0, 0, 0, 0, 0, WORLD_DONE, 1, 0},
    {0, 0, 100000000000, 180000000000, 10, 9, 9, 1, 7, 0, 0, 0, 0, WORLD_DONE, 1, 6},
    {0, 0, 100000000001, 180000000000, 10, 9, 9, 0, 0, 0, 0, 0, 0, WORLD_DONE, 0, 0},
    {0, 0, 20000000000, 20000000000, 10, 1, 1, 0, 0, 0, 0, 0, 0, WORLD_DONE, 1, 0},
    {0, 0, LULL_NEVER, LULL_NEVER, 10, 9, 0, 0, 0, 0, 0, -1, 0, WORLD_UNFINISHED, 0, 0},
    {0, 0, 100000000, 200000000, 10, 5, 5, 0, 0, 0, 0, 0, 1, WORLD_DONE, 0, 0},
};
static const struct world_class two_classes[] = {{"li\"ve, fast", 1, 100000000000, 10000000000},
                                                 {"batch", 0, 0, 0}};

static struct world_result hand_result(void)
{
  struct world_result r = {.record = records,
                           .records = 6,
                           .nclasses = 2,
                           .end = second,
                           .paid = (base_int128)second * 2 * 12,
                           .steps = 40};

  r.cls[0] = (struct world_class_result){.offered = 6,
                                         .finished = 4,
                                         .rejected = 1,
                                         .unfinished = 1,
                                         .met = 3,
                                         .output_tokens = 28,
                                         .useful_tokens = 19,
                                         .preempts = 1,
                                         .discarded = 7};
  r.cls[1] = (struct world_class_result){
      .offered = 1, .finished = 1, .output_tokens = 5, .useful_tokens = 5};
  r.gpu_busy[0] = second / 2;
  r.gpu_busy[1] = second;
  r.account[WORLD_LIVE_USEFUL] = (base_int128)second * 6;
  r.account[WORLD_BATCH_USEFUL] = (base_int128)second * 3;
  r.account[WORLD_IDLE] = (base_int128)second * 15;
  return r;
}

#endif
