/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "models/calibration_io.h"

#define SLOT(type, field, unit)                                                                    \
  {                                                                                                \
#field, unit, offsetof(type, field), sizeof(((type *)0)->field), "", 0                         \
  }
#define CURVE(field, unit, y_unit, knots)                                                          \
  {                                                                                                \
#field, unit, offsetof(struct calibration, field), sizeof(struct calibration_curve), y_unit,   \
        knots                                                                                      \
  }
#define TABLE(item)                                                                                \
  {                                                                                                \
    item, sizeof item / sizeof item[0]                                                             \
  }
#define C(field, unit) SLOT(struct calibration, field, unit)
#define R(field, unit) SLOT(struct calibration_residual, field, unit)
#define S(field) SLOT(struct calibration_source, field, "")

static const struct calibration_slot text[] = {C(name, ""),         C(model, ""),    C(gpu, ""),
                                               C(weight_dtype, ""), C(kv_dtype, ""), C(engine, "")};
static const struct calibration_slot shape[] = {C(layers, ""),  C(hidden, ""),  C(intermediate, ""),
                                                C(vocab, ""),   C(q_heads, ""), C(kv_heads, ""),
                                                C(head_dim, "")};
static const struct calibration_slot bytes[] = {C(weight_bytes, "B"), C(kv_bytes_per_token, "B"),
                                                C(gpu_memory_bytes, "B"),
                                                C(prefill_token_fs, "fs")};
static const struct calibration_slot curve[] = {
    CURVE(body, "tokens", "ps", 2), CURVE(head, "positions", "ps", 2),
    CURVE(draft_layer, "tokens", "ps", 2), CURVE(prefill, "pairs", "ps", 2)};
static const struct calibration_slot table_curve[] = {
    CURVE(body, "tokens", "ps", 2),       CURVE(head, "positions", "ps", 2),
    CURVE(once, "tokens", "ps", 2),       CURVE(collective, "B", "ps", 0),
    CURVE(skew_decode, "rows", "ppm", 0), CURVE(skew_mixed, "rows", "ppm", 0)};
static const struct calibration_slot table_text[] = {C(collective_note, "")};
static const struct calibration_slot option_text[] = {C(derived, ""), C(sampled, "")};
static const struct calibration_slot sample_text[] = {
    SLOT(struct calibration_samples, name, ""), SLOT(struct calibration_samples, columns, "")};
static const struct calibration_slot residual_text[] = {R(curve, "")};
static const struct calibration_slot residual_count[] = {R(samples, ""), R(heldout, "")};
static const struct calibration_slot residual_real[] = {R(p50, "1"), R(p95, "1"), R(max, "1")};
static const struct calibration_slot source_text[] = {S(file),   S(sha256),  S(engine),
                                                      S(kernel), S(licence), S(url)};

const struct calibration_slots calibration_texts = TABLE(text);
const struct calibration_slots calibration_shapes = TABLE(shape);
const struct calibration_slots calibration_sizes = TABLE(bytes);
const struct calibration_slots calibration_curves = TABLE(curve);
const struct calibration_slots calibration_table_curves = TABLE(table_curve);
const struct calibration_slots calibration_table_texts = TABLE(table_text);
const struct calibration_slots calibration_option_texts = TABLE(option_text);
const struct calibration_slots calibration_sample_texts = TABLE(sample_text);
const struct calibration_slots calibration_residual_texts = TABLE(residual_text);
const struct calibration_slots calibration_residual_counts = TABLE(residual_count);
const struct calibration_slots calibration_residual_reals = TABLE(residual_real);
const struct calibration_slots calibration_source_texts = TABLE(source_text);

const struct calibration_lattice calibration_lattices[CALIBRATION_LATTICES] = {
    {"prompt", offsetof(struct calibration, prompt), 2, {"chunk", "history"}},
    {"mixed", offsetof(struct calibration, mixed), 4, {"chunk", "history", "rows", "ctx"}}};
