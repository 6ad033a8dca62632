/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Times that fall as work grows: noise, or a kernel that changes its way. They are kept as
 * measured, and told. */
#include "calib/falls.h"
#include "calib/operators.h"

static void tell_operators(const struct operator_row *row, size_t n, const char *path, FILE *talk)
{
  struct falls f = {0};
  for (size_t i = 1; i < n; i++)
    if (row[i].op == row[i - 1].op)
      falls_note(&f, row[i - 1].ps, row[i - 1].line, row[i].ps, row[i].line);
  falls_tell(&f, path, n, talk);
}

static int same_but_context(const struct operators_attention_row *a,
                            const struct operators_attention_row *b)
{
  return a->x[0] == b->x[0] && a->x[1] == b->x[1] && a->x[2] == b->x[2];
}

/* Rows are sorted with the context last, so that neighbours along it stand together; along the
 * history the last row with the same other coordinates is looked for. */
static const struct operators_attention_row *
before_in_history(const struct operators_attention_row *first,
                  const struct operators_attention_row *r)
{
  for (const struct operators_attention_row *p = r; p-- > first && p->x[0] == r->x[0];)
    if (p->x[1] < r->x[1] && p->x[2] == r->x[2] && p->x[3] == r->x[3])
      return p;
  return NULL;
}

void operators_tell_falls(const struct operators *t, FILE *talk)
{
  struct falls f = {0};
  if (!talk)
    return;
  tell_operators(t->dense, t->ndense, t->path[OPERATORS_DENSE], talk);
  tell_operators(t->sequence, t->nsequence, t->path[OPERATORS_SEQUENCE], talk);
  for (size_t i = 1; i < t->nattention; i++) {
    const struct operators_attention_row *r = &t->attention[i], *p = NULL;
    if (same_but_context(r - 1, r) && r->x[3])
      p = r - 1;
    if (r->x[0] && (!p || p->ps <= r->ps))
      p = before_in_history(t->attention, r);
    if (p)
      falls_note(&f, p->ps, p->line, r->ps, r->line);
  }
  falls_tell(&f, t->path[OPERATORS_ATTENTION], t->nattention, talk);
}
