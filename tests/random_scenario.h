/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Small random runs for property tests: everything follows from a 64-bit seed. Lengths like to be
 * whole blocks, pools are tiny, and most times lie on a grid of 640 ps, so that exact ties and
 * shortages are the rule. A quarter of those in which no server speculates takes its costs from a
 * calibration: the embedded fp8 one, with steps of milliseconds and a law that changes at short
 * contexts, or that of toy_tables.h, with laws for steps with chunks and for uneven batches; all
 * other times are longer by the factor `tempo`. All of it can be said in a scenario file.
 */
#ifndef TESTS_RANDOM_SCENARIO_H
#define TESTS_RANDOM_SCENARIO_H

#include "models/cost.h"
#include "models/simdev.h"
#include "sim/world/world.h"

struct calibration;

#define RANDOM_CALIBRATION "h200-sxm-qwen3-8b-fp8" /* embedded */
#define RANDOM_TABLES "toy.h5"                     /* written beside the scenario */
enum { RANDOM_SERVERS = 3, RANDOM_CLASSES = 3, RANDOM_BACKLOGS = 3, RANDOM_PARAMS = 32,
       RANDOM_PREFIXES = 4 };

struct random_scenario {
  uint64_t seed;
  struct world_config cfg;               /* max_repeat, log and log_ctx are the caller's to set */
  struct simdev_gpu gpu[RANDOM_SERVERS]; /* [cfg.ngpus] */
  struct world_class cls[RANDOM_CLASSES];
  struct world_server server[RANDOM_SERVERS];
  struct world_backlog backlog[RANDOM_BACKLOGS];
  struct world_job job[RANDOM_SERVERS];
  struct cost_model *cost[RANDOM_SERVERS];       /* owned, by GPU */
  struct cost_analytic analytic[RANDOM_SERVERS]; /* what it was made from, by GPU */
  struct cost_settings settings; /* likewise if calibrated, but for what each server bounds */
  const struct calibration *calibration; /* of all servers, the test's own; NULL: they have none */
  lull_time tempo;                               /* 1 where they are not */
  struct world_arrival *arrival;                 /* owned, in time order */
  struct world_prefix *prefix[RANDOM_PREFIXES]; /* owned: what arrivals may begin with; NULL: none */
  uint32_t narrivals, cursor;
  int hasty;     /* a server's steps last a few ticks */
  uint32_t roof; /* most tokens that a usual request has */
  int64_t params[RANDOM_PARAMS];
};

/* NULL on failure. */
struct random_scenario *random_scenario_create(uint64_t seed, struct base_error *e);
/* Makes it ready for another run. */
void random_scenario_rewind(struct random_scenario *s);
void random_scenario_destroy(struct random_scenario *s);
/*
 * Writes what was drawn as a scenario that `lull run` takes, into a folder that is made if it is not
 * there: scenario.xml, the calibration where it is no embedded one, CLASS.csv (arrivals) and CLASS-items.csv (the first `items` items of its
 * backlogs; any later one would be another, so there must be enough). The policies of
 * nasty_policy.h are named as shared objects of the folder `modules`, an absolute path.
 */
int random_scenario_write(const struct random_scenario *s, const char *folder, const char *modules,
                          uint64_t items, struct base_error *e);
/* Item `index` of backlog class cls. */
void random_scenario_item(const struct random_scenario *s, int cls, uint64_t index,
                          struct world_arrival *out);

#endif
