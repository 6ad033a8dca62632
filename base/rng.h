/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Named random streams: counter-based (Philox4x32-10, Salmon et al., SC'11), registered as a GSL
 * generator so that GSL's distributions run on it.
 *
 * A stream is keyed by (seed, name): "arrivals/live", "prompt/batch". Within a stream every entity
 * (request i of its class) has its own sub-sequence, so what is drawn for it depends on nothing
 * that was drawn before: arms that share a seed share their draws (common random numbers).
 *
 *   gsl_rng *r = base_rng_open(17, "prompt/live");
 *   base_rng_entity(r, i);
 *   double x = gsl_ran_lognormal(r, zeta, sigma);
 */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <gsl/gsl_rng.h>
#include <stdint.h>

extern const gsl_rng_type *const base_rng_philox;

/* A stream at entity 0, draw 0; NULL when out of memory. Free with gsl_rng_free. */
gsl_rng *base_rng_open(uint64_t seed, const char *name);
/* Goes to draw 0 of an entity. */
void base_rng_entity(gsl_rng *r, uint64_t entity);
/* The key of a stream, for who counts the blocks himself. */
void base_rng_key(uint64_t seed, const char *name, uint32_t key[2]);
/* The raw block function: 10 rounds of Philox4x32 of counter c under key k, for test vectors. */
void base_philox4x32(const uint32_t c[4], const uint32_t k[2], uint32_t out[4]);

#endif
