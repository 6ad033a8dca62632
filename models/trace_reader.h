/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the trace readers share: an open trace, and the two functions that a family of formats
 * (CSV, JSON lines) gives for it. Private to models/trace*.c.
 */
#ifndef MODELS_TRACE_READER_H
#define MODELS_TRACE_READER_H

#include "models/trace.h"
#include "models/trace_source.h"

enum { TRACE_HASH_TOKENS = 512 }; /* that a prefix id stands for, where a file does not say */

/* A row as the file states it. */
struct trace_raw {
  __int128 t_ns;           /* on the file's own clock; 128 bits since years go to 9999 */
  uint32_t prompt, output; /* tokens, zeros not yet judged */
  uint16_t ps;             /* of the time beyond t_ns, 0 .. 999 */
  int32_t accept_q16, phase_q16; /* as in trace_row */
  uint32_t id_tokens;
};

struct trace_family {
  /* Reads what stands before the first row; sets t->has_times, t->state. NULL: nothing does. */
  int (*start)(struct trace *t, struct base_error *e);
  /* Reads one line into *raw. May write into the line. */
  int (*row)(struct trace *t, char *line, size_t length, struct trace_raw *raw,
             struct base_error *e);
  void (*stop)(struct trace *t); /* frees t->state; NULL: it has none */
};
extern const struct trace_family trace_csv, trace_json;

struct trace {
  struct trace_source *source;
  const struct trace_family *family;
  void *state; /* the family's, owned */
  int format, has_times;
  struct trace_rules rules;
  uint64_t rows;
  uint64_t *ids;                  /* of the row's prompt; owned */
  uint32_t nids, room_ids;
  __int128 first_ps, previous_ps; /* times of the first and the last row */
  struct base_error error;        /* the failure that ended the reading */
};

/* BASE_INPUT at the line read last; returns -1. */
int trace_fail(const struct trace *t, struct base_error *e, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Adds an id to those of the row. */
int trace_add_hash(struct trace *t, uint64_t id, struct base_error *e);
/* Input text made fit for a message: quoted, cut, unprintable bytes as '?'; returns buf. */
enum { TRACE_QUOTE = 48 };
const char *trace_quote(const char *text, char buf[TRACE_QUOTE]);
/* Appends a quoted name to a comma-separated list in buf; what does not fit becomes "...". */
void trace_list_add(char *buf, size_t size, const char *name);

/* What follows serves the readers of measured runs too; it looks at t->source only. */

/* Checks that a column or key holds 0 to 2^31-1 tokens; `text` is how the file wrote it. */
int trace_tokens(const struct trace *t, const char *name, int64_t value, const char *text,
                 uint32_t *tokens, struct base_error *e);
/* Takes the first cell off *rest, which becomes NULL behind the last one; NULL: bad quotes. */
char *trace_csv_cell(char **rest);
/* Fails for those. */
int trace_bad_quotes(const struct trace *t, struct base_error *e);
/* Digits with or without '-' in front: 0; 1 if the value is cut to fit; -1 for other text. */
int trace_whole(const char *text, int64_t *value);
/* A cell as a count of tokens. */
int trace_csv_tokens(const struct trace *t, const char *name, const char *text, uint32_t *tokens,
                     struct base_error *e);
/* Wall clock "YYYY-MM-DD HH:MM:SS[.f{1,9}]" to ns since 1970, without a zone: 0, or -1 for any
 * other text or no such day. */
int trace_stamp(const char *text, __int128 *t_ns);

/* Reads all rows of t: the body of trace_read_stats. */
int trace_collect(struct trace *t, struct trace_stats *out, struct base_error *e);

/* Ids seen so far, to find the second use of one. Zero it before use. */
struct trace_ids {
  struct trace_id *slot; /* open addressing; owned */
  size_t slots, used;
};
/* 0: new; n > 0: already seen on line n; -1: out of memory. */
int64_t trace_ids_add(struct trace_ids *ids, const char *id, uint64_t line, struct base_error *e);
/* Refuses the second row of an id, and an empty one. */
int trace_check_id(const struct trace *t, struct trace_ids *ids, const char *id,
                   struct base_error *e);
void trace_ids_free(struct trace_ids *ids);

#endif
