// Savers: fragments to device memory, two elements at once if they are contiguous, or by runs (mma_store.c). If several warps or lanes have the same
// element, one of them stores it.
#include "lower/mma.h"

static void store(struct mma_kernel *k, const struct plan_access *a, const char *from, struct mma_shape s, int width, int e)
{
  const char *at = mma_address(k, a, s, width, e), *exists = s.cols >= 0 ? mma_column_exists(k->p, s.cols, width, e) : NULL;
  TEXT_SCOPE(k->t);
  text_if(k->t, exists);
  mma_move(k, k->p->job->store[a->tensor], arena_printf(k->mem, "out%d", e), width == 2, mma_element(k, from, s, width == 2, e),
           arena_printf(k->mem, width == 2 ? "%s.tile([2])[%s]" : "%s[%s]", k->global[a->tensor], at), "", true);
}

// The condition on warp, lane and existing rows under which a thread stores, joined by &&.
const char *mma_once(struct mma_kernel *k, struct mma_shape s)
{
  const struct mma_plan *p = k->p;
  struct str c = {0};
  bool split = s.cols >= 0 && p->cols[s.cols].split;
  if (!split && p->wn > 1) str_add(&c, "%s@wn == 0", c.n ? " && " : "");
  if (!s.rows && p->wm > 1) str_add(&c, "%s@wm == 0", c.n ? " && " : "");
  if (s.cols < 0) str_add(&c, "%s@lane %% 4 == 0", c.n ? " && " : "");
  if (!s.rows) str_add(&c, "%s@lane / 4 == 0", c.n ? " && " : "");
  return str_keep(k->mem, &c);
}

// If the tensor lacks a letter of the rows, only the rows with index 0 there store.
static void missing_letters(const struct mma_plan *p, uint32_t has, const struct lower_space *l, const char *index, struct str *c)
{
  int64_t below = 1;
  for (int i = l->n - 1; i >= 0; below *= p->n->extent[(int)l->axis[i--]])
    if (!(has >> l->axis[i] & 1) && p->n->extent[(int)l->axis[i]] > 1)
      str_add(c, "%s%s / %lld %% %lld == 0", c->n ? " && " : "", index, (long long)below, (long long)p->n->extent[(int)l->axis[i]]);
}

const char *mma_row_exists(struct mma_kernel *k, uint32_t has)
{
  const struct mma_plan *p = k->p;
  struct str c = {0};
  if (p->cut && mma_cut_ragged(p)) str_add(&c, "%s < %lld", mma_cut_row(p, "@pr", false), (long long)p->nrows);
  if (!p->cut && p->nrows < p->padded) str_add(&c, "@pr %% %lld < %lld", (long long)p->padded, (long long)p->nrows);
  if (!p->cut && p->wm * p->mt * 16 > p->nbatch * p->padded) str_add(&c, "%s@pr < %lld", c.n ? " && " : "", (long long)(p->nbatch * p->padded));
  missing_letters(p, has, &p->batch, "@b", &c);
  missing_letters(p, has, &p->rows, "@r", &c);
  return str_keep(k->mem, &c);
}

void mma_save(struct mma_kernel *k, int save)
{
  TEXT_ABOUT(k->t, k->p->k.save[save].about);
  const struct mma_plan *p = k->p;
  const struct plan_access *a = &p->n->save[save];
  int value = p->k.save[save].value;
  struct mma_shape s = p->shape[value];
  const struct mma_runs runs = p->runs ? mma_runs_of(p, save) : (struct mma_runs){0};
  if (runs.vector) {
    mma_store_runs(k, save, &runs);
    return;
  }
  const char *who = mma_once(k, s), *exists = s.rows ? mma_row_exists(k, mma_has(p, value)) : "";
  int width = s.cols >= 0 ? mma_width(p, a, &p->cols[s.cols].list, 2) : 1;
  text_if(k->t, who), mma_rows_open(k, s.rows), text_if(k->t, exists), mma_cols_open(k, s.cols);
  for (int e = 0; e < (s.cols >= 0 ? 2 : 1); e += width) store(k, a, k->reg[value], s, width, e);
}
