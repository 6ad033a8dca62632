/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Feeds bytes to the reader of recordings, and asks what it accepts for its first wait. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "models/recording.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the program where the fuzzer notices. */
static void require(int good)
{
  if (!good)
    abort();
}

/* A run that the corpus names: opens its lanes and waits, as far as the recording goes along. */
static void ask(struct replay *r)
{
  const struct recording_run run = {.arm = "a", .candidate = "", .seed = 1, .plan = "p"};
  struct lull_completion c[4];
  struct lull_device *dev;
  const struct lull_device_ops *ops;
  struct base_error e = {0};
  if (replay_begin(r, &run, &dev, &ops, &e)) {
    require(e.code == BASE_INPUT && e.text[0]);
    return;
  }
  lull_time now = ops->now(dev);
  require(now == 0);
  ops->lane_open(dev, (int[]){0}, 1, LULL_LANE_SERVE);
  int n = ops->wait(dev, 100, c, 4);
  require(n <= 4 && ops->now(dev) >= now);
  require(n >= 0 || ops->why(dev)[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct base_error e = {0};
  struct replay *r = replay_open_memory((const char *)data, size, "fuzz", NULL, &e);
  if (r)
    ask(r);
  else
    require(e.code == BASE_INPUT && e.text[0] && !strchr(e.text, '\n'));
  replay_close(r);
  return 0;
}
