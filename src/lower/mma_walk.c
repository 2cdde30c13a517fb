// Addresses (lower_walk.c) by letters: a tensor has a stride for each letter.
#include "lower/mma.h"

#include <string.h>

void mma_list_strides(const struct norm *n, const struct lower_space *l, int64_t stride[MAX_LETTERS])
{
  int64_t step = 1;
  memset(stride, 0, sizeof *stride * MAX_LETTERS);
  for (int i = l->n - 1; i >= 0; step *= n->extent[(int)l->axis[i--]]) stride[(int)l->axis[i]] = step;
}

bool mma_list_same(const struct lower_space *a, const struct lower_space *b) { return a->n == b->n && !memcmp(a->axis, b->axis, (size_t)a->n); }

void mma_list_add(const struct norm *n, struct lower_space *l, int count, const int8_t *letter, uint32_t wanted)
{
  for (int i = 0; i < count; i++)
    if (wanted >> letter[i] & 1) space_push(l, n->extent, letter[i]);
}

void mma_list_add_of(const struct norm *n, struct lower_space *l, const struct norm_tensor *t, uint32_t wanted)
{
  for (int d = 0; d < t->ndims; d++) mma_list_add(n, l, t->dim[d].n, t->dim[d].letter, wanted);
}

void mma_walk_text(const struct lower_walk *w, const char *index, struct str *out)
{
  struct str within = {0};
  str_add(&within, "(%s)", index);
  walk_text(w, str_text(&within), out);
  str_free(&within);
}

void mma_walk_list(const struct mma_plan *p, const struct lower_space *l, const int64_t *stride, int unit, int index_unit, const char *index,
                   struct str *out)
{
  struct lower_walk w;
  CHECK(space_walk(l, p->n->extent, stride, unit, index_unit, &w));
  mma_walk_text(&w, index, out);
}

void mma_walk_base(const struct mma_plan *p, const struct plan_access *a, int unit, const char *it, struct str *out)
{
  const struct graph *b = p->n->block;
  struct lower_walk grid = {0}, loop = {0};
  str_add(out, "%lld", (long long)(a->offset / unit));
  for (int i = b->ngrid - 1; i >= 0; i--) walk_add(&grid, b->grid[i], a->grid[i] / unit);
  for (int i = 0; i < b->nloop; i++) walk_add(&loop, b->loop[i], a->loop[i] / unit);
  mma_walk_text(&grid, "@bid", out);
  mma_walk_text(&loop, it, out);
}

static const struct copy_meta *meta_of(const struct mma_plan *p, const struct plan_access *a)
{
  const struct meta *m = &p->n->passes->meta;
  const bool save = a >= p->n->save && a < p->n->save + p->n->nsave;
  return save ? &m->save[a - p->n->save] : &m->iter[a - p->n->iter];
}

bool mma_lies_along(const struct mma_plan *p, const struct plan_access *a, const struct lower_space *l)
{
  return l->n && l->axis[l->n - 1] == meta_of(p, a)->along;
}

int mma_width(const struct mma_plan *p, const struct plan_access *a, const struct lower_space *l, int most)
{
  return mma_lies_along(p, a, l) ? MIN(meta_of(p, a)->chunk, most) : 1;
}
