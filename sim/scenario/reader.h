/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Inside of the scenario reader. The way of a document: load (parse, includes) -> override ->
 * structure (names, schema) -> read (values, references) -> resolve (costs, memory, files).
 * Each part collects its errors and goes on.
 */
#ifndef SIM_SCENARIO_READER_H
#define SIM_SCENARIO_READER_H

#include <libxml/tree.h>
#include <libxml/xpath.h>

#include "sim/scenario/arena.h"
#include "sim/scenario/fields.h"
#include "sim/scenario/scenario.h"

#define SCENARIO_NAMESPACE "urn:lull:scenario:1"
#define XINCLUDE_NAMESPACE "http://www.w3.org/2001/XInclude"

/* Limits of what is read; beyond them a scenario is refused. */
enum {
  LIMIT_BYTES = 16 << 20, /* of all files together */
  LIMIT_ELEMENTS = 50000, /* likewise */
  LIMIT_PIECE = 16 << 10, /* bytes from one "<" to the next */
  LIMIT_INCLUDES = 64,
  LIMIT_INCLUDE_DEPTH = 8,
  LIMIT_ARMS = 64,
  LIMIT_BACKLOGS = LULL_SERVERS * LULL_CLASSES, /* of an arm */
  LIMIT_CANDIDATES = 64,
  LIMIT_GATES = 256,
  LIMIT_REFERENCES = 1024,
  LIMIT_PARAMETERS = 1024,
  LIMIT_SWEEPS = 64,
  LIMIT_VALUES = 256,
  LIMIT_SEEDS = 256,
  LIMIT_ITEMS = 1 << 20, /* rows of an items file */
  LIMIT_ROWS = 100000000 /* arrivals of a plan */
};

/* A configuration of an engine that was met, and what became of it: servers with equal settings
 * share one cost model, and its errors are told once. */
struct resolved {
  struct raw_engine raw;
  struct raw_analytic analytic;
  struct scenario_engine engine;
  int good;
};

/* A scenario with what it owns; the public part comes first. */
struct scenario_whole {
  struct scenario s;
  struct arena arena;
  struct calibration *calib;
  struct cost_model **model; /* [nmodels], malloc'd */
  size_t nmodels;
};

struct reader {
  struct scenario_whole *whole;
  struct arena *arena;
  const struct scenario_options *options;
  struct base_errors *errors;
  const char *file;   /* of the scenario, for messages */
  const char *folder; /* that of the file, as written; NULL: no files may be included */
  char *root;         /* its real path, malloc'd */
  xmlDoc *doc;
  xmlXPathContext *xpath;
  size_t bytes, elements, includes, xpath_work;
  int incomplete; /* a required value is missing: the schema has said so */
  struct raw_engine engine;
  int states_async, states_caching, states_watermark; /* does <engine>? Else a named one decides */
  struct raw_analytic analytic;
  int is_analytic;
  struct resolved *resolved; /* malloc'd */
  size_t nresolved;
  uint32_t unfit;    /* classes of which no request fits some server, as was told */
  int64_t trace_end; /* scheduled arrival of the last trace row, ps; -1: no trace */
};

/* ---- load.c: files to one document ---- */
/* From memory; name is for messages. Sets r->doc. */
int load_document(struct reader *r, const char *name, const char *data, size_t size);
/* A path below r->folder ("." and ".." checked, links resolved), joined; NULL and an error text
 * otherwise. In the arena. */
const char *load_below(struct reader *r, const char *folder, const char *href,
                       struct base_error *e);

/* ---- structure.c: names and schema ---- */
void structure_check(struct reader *r);

/* ---- target.c: attributes by XPath ---- */
/* The attributes that target names; *n how many (at most max are stored). */
int target_find(struct reader *r, const char *target, xmlAttr **attr, int max, int *n,
                struct base_error *e);
/* Its table entry; fails for attributes that are no settings (of parameters, sweeps, ...). */
const struct field *target_field(const xmlAttr *attr, struct base_error *e);
/* "live/arrivals/rate". */
const char *target_name(struct reader *r, const xmlAttr *attr);
void target_override(struct reader *r);

/* ---- attributes.c: tables to structs, errors with their place ---- */
const char *node_file(const struct reader *r, const xmlNode *node);
unsigned node_line(const xmlNode *node);
int node_fail(struct reader *r, const xmlNode *node, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Only if no error with this text was told: for settings that several servers share. */
int node_fail_once(struct reader *r, const xmlNode *node, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Adds e, placed at the node where it has no place of its own. */
int node_fail_with(struct reader *r, const xmlNode *node, const char *what,
                   const struct base_error *e);
/* Fills a raw struct from a node's attributes (defaults included). -1 if any is bad. */
int attributes_read(struct reader *r, const xmlNode *node, void *raw);
/* All fields of an element unset or at their defaults, as if it were written without attributes. */
void attributes_default(struct reader *r, const char *element, void *raw);
const xmlNode *child_first(const xmlNode *parent, const char *name);
const xmlNode *child_next(const xmlNode *node);
/* How many; more than limit is an error (and limit is returned). */
size_t child_count(struct reader *r, const xmlNode *parent, const char *name, size_t limit);
/* Text without space at its ends and with runs of space inside made one; in the arena. */
const char *node_text(struct reader *r, const xmlNode *node);

/* ---- read*.c ---- */
void read_frame(struct reader *r, const xmlNode *root); /* scenario, run, machine, engine */
void read_classes(struct reader *r, const xmlNode *root);
void read_arms(struct reader *r, const xmlNode *root);
void read_claims(struct reader *r, const xmlNode *root);  /* gates, references */
void read_origins(struct reader *r, const xmlNode *root); /* parameters, sweeps */
/* Index of a class or arm by id, -1. */
int class_by_id(const struct scenario *s, const char *id);
int arm_by_id(const struct scenario *s, const char *id);
/* Applies server settings that are set over the engine's. */
void engine_overlay(struct raw_engine *engine, const struct raw_engine *over);

/* ---- engines.c: the engine that an arm names ----
 * NULL stands for none, which has no say in anything. */
struct named_engine;
const struct named_engine *engines_find(int64_t choice); /* raw_arm.engine */
const char *engines_name(const struct named_engine *n);
/* The policy of an arm that states `policy` (NULL: none), NULL: none. A contradiction is an error. */
const char *engines_policy(struct reader *r, const xmlNode *arm, const struct named_engine *n,
                          const char *policy);
/* Sets the parameters that the engine decides. */
int engines_params(const struct named_engine *n, struct scenario_arm *arm, struct base_error *e);
/* Does a parameter that is written agree with it? 0, or -1 with an error. */
int engines_param_stated(struct reader *r, const xmlNode *param, const struct named_engine *n,
                        const struct lull_policy *p, const struct raw_param *stated);
/* Notes which settings with defaults of the named engine's own <engine> states. */
void engines_note(struct reader *r, const xmlNode *engine);
/* Those defaults into `raw`, which was read from <engine>. */
void engines_defaults(const struct reader *r, const struct named_engine *n, struct raw_engine *raw);
/* Does the engine have these settings? 0, or -1 with an error. */
int engines_check(struct reader *r, const xmlNode *node, const struct named_engine *n,
                 const struct raw_engine *raw);

/* ---- resolve.c: engines to cost models and KV pools ---- */
/* analytic: its costs where the machine is an analytic one. */
int resolve_engine(struct reader *r, const xmlNode *node, const struct raw_engine *raw,
                   const struct raw_analytic *analytic, struct scenario_engine *out);

/* ---- files.c: trace files ---- */
/* Finds and checks a file by its name; sets f->path. */
int files_find(struct reader *r, const xmlNode *node, struct scenario_file *f);
/* Reads all rows of the class's items into the arena. */
int files_read_items(struct reader *r, struct scenario_class *c, struct base_error *e);
/* Scheduled time of a row of the class's trace, ps; LULL_NEVER when beyond any window. */
lull_time trace_time(const struct scenario_class *c, const struct trace_row *row);
/* Arrival of the last row that the class takes, ps. */
int files_trace_end(const struct scenario_class *c, lull_time *end, struct base_error *e);

#endif
