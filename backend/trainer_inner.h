/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the trainer's files share: its state, and the pass over the layers. */
#ifndef BACKEND_TRAINER_INNER_H
#define BACKEND_TRAINER_INNER_H

#include "backend/trainer.h"

/* A trained tensor: its part of the flat arrays. */
struct trainer_param {
  struct tensor *tensor;
  size_t at, n;
  int decay;
};

/* Activations that a layer's backward reads, each [rows][its width]. */
enum trainer_kept {
  KEPT_X,      /* entering the layer; kept for each layer in any case */
  KEPT_NORMED, /* by input_norm */
  KEPT_Q_RAW,  /* before norm and rotation */
  KEPT_K_RAW,
  KEPT_Q,
  KEPT_K,
  KEPT_V,
  KEPT_ATTENDED,
  KEPT_MID, /* after attention */
  KEPT_MID_NORMED,
  KEPT_GATE,
  KEPT_UP,
  KEPT_GATED,
  KEPT_COUNT
};

/* Gradients of activations. */
enum trainer_slope {
  SLOPE_X,
  SLOPE_NORMED,
  SLOPE_Q,
  SLOPE_K,
  SLOPE_V,
  SLOPE_ATTENDED,
  SLOPE_GATE,
  SLOPE_UP,
  SLOPE_GATED,
  SLOPE_COUNT
};

struct trainer {
  struct weights *w;
  struct adapter *a;
  struct grad *g;
  struct trainer_options o;
  struct trainer_param *param; /* sorted by tensor */
  size_t nparams, total;
  float *master, *m, *v; /* [total] */
  float *sum, *fresh;    /* gradients: of all micro-batches, of the one under way */
  uint64_t counted;      /* tokens in sum */
  uint64_t steps;

  /* Workspace, in the backend's memory. */
  void **kept; /* [layers or 1][KEPT_COUNT]; KEPT_X of every layer */
  float **lse; /* [layers or 1] */
  void *x, *delta, *last, *logits;
  float *slope[SLOPE_COUNT];
  float *turn, *loss, *dlogits;
  /* Of counted rows, `chunk` at a time: logits exist of no more at once. */
  uint32_t chunk;
  void *picked;   /* hidden states */
  float *dpicked; /* their gradients */
  float *losses;  /* [chunk], on the host */
  uint32_t *picked_row;
  int32_t *picked_target;
  double loss_sum;
  float *inv_freq;
  size_t bytes;

  /* The micro-batch. */
  int32_t *token, *target; /* [max_tokens] */
  uint32_t *position;
  struct grad_seq *seq; /* [max_tokens] */
  uint32_t rows, nseq;
  const volatile int *stop;
};

/* Width of a row of what is kept. */
uint32_t trainer_width(const struct config *c, int kept);
void *trainer_kept_at(const struct trainer *t, uint32_t layer, int kept);
/* Gradients under way of a tensor; NULL: it is not trained. */
float *trainer_fresh(const struct trainer *t, const struct tensor *of);

/* All layers and the final norm; 1: stopped. */
int trainer_forward(struct trainer *t);
/* A layer once more from its kept input. */
void trainer_layer_again(struct trainer *t, uint32_t layer);
/* loss_sum of all rows; with `back` also SLOPE_NORMED of the final norm's output. */
void trainer_head(struct trainer *t, int back);
/* From SLOPE_NORMED to all weights; 1: stopped. */
int trainer_backward(struct trainer *t);

#endif
