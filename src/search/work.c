// The work of a kernel's values, as far as its cost depends on it. The thousands of derivations of a table do few kinds of work: all products of the
// same tiles over a class, all elementwise operators on a tile. So the cost of a kind for given sizes is computed once, and kernels with the same
// work get the same sizes.
#include "search/space.h"

#include <string.h>

static struct work load_work(const struct model *m, const struct search_value *v, bool feeds)
{
  return (struct work){
      .feeds = feeds, .kind = WORK_LOAD, .device = v->leaf, .looped = v->phase == VARYING, .elem = m->dev[v->leaf].has ? 4 : 0, .stored = v->stored};
}

static const struct tensor *input_of(const struct model *m, const struct search_value *v)
{
  const int input = v->leaf < 0 ? -1 : m->dev[v->leaf].input;
  return input < 0 ? NULL : &m->s->p->tensors[input];
}

static bool has_f32(const struct graph *p)
{
  for (int i = 0; i < p->nnodes; i++)
    if (p->nodes[i].op == OP_INPUT && p->tensors[p->nodes[i].out].dtype == F32) return true;
  return false;
}

bool values_make_pairs(const struct model *m, const struct search_value *a, const struct search_value *b)
{
  const struct tensor *x = input_of(m, a), *y = input_of(m, b);
  if (y) return y->dtype == BF16;
  return b->leaf < 0 && x && x->dtype == BF16 && m->t->pair_flops > m->t->flops && !has_f32(m->s->p);
}

static struct work product_work(const struct model *m, const struct table *t, const struct search_value *v, const struct deriv *d)
{
  mask a = t->v[d->a].stored, b = t->v[d->b].stored, over = a & all_of(d->cls), batch = a & b & ~over;
  return (struct work){.kind = WORK_PRODUCT,
                       .looped = v->phase == VARYING,
                       .elem = 4,
                       .pairs = cost_rules(m->t)->pairs && values_make_pairs(m, &t->v[d->a], &t->v[d->b]),
                       .frozen = cost_rules(m->t)->pairs && input_of(m, &t->v[d->b]) && input_of(m, &t->v[d->b])->frozen,
                       .stored = v->stored,
                       .over = over,
                       .batch = batch,
                       .rows = a & ~over & ~batch,
                       .cols = b & ~over & ~batch};
}

static bool is_product(const struct table *t, int v)
{
  for (int k = t->v[v].der; k >= 0; k = t->d[k].next)
    if (t->d[k].op == OP_MATMUL) return true;
  return false;
}

static struct work pass_work(const struct model *m, const struct table *t, const struct search_value *v, const struct deriv *d)
{
  const struct op_row *row = &op_rows[d->op];
  bool reciprocal = d->op == OP_DIV && t->v[d->b].stored != v->stored; // one reciprocal for each row, and products
  struct work w = {.kind = WORK_PASS,
                   .looped = row->rule == RULE_ACCUM || v->phase == VARYING,
                   .elem = 4,
                   .stored = v->stored,
                   .rows = row->rule == RULE_MAP ? v->stored : t->v[d->a].stored,
                   .ops = reciprocal ? 1 : row->cost};
  if (!cost_rules(m->t)->feeds) return w;
  w.folds = row->rule == RULE_REDUCE || (row->flags & REDUCES);
  if (row->rule == RULE_ACCUM && !w.folds && is_product(t, d->a)) w.ops = 0; // it accumulates by itself
  return w;
}

struct index { // index of all works so far
  int n;       // slots, a power of two
  int *slot;   // a work's number plus 1, or 0
};

static int intern(struct table *t, struct index *x, struct work w)
{
  uint64_t i = hash_bytes(&w, sizeof w, 0);
  int *at;
  while (*(at = &x->slot[i & (uint64_t)(x->n - 1)]) && memcmp(&t->work[*at - 1], &w, sizeof w)) i++;
  if (!*at) t->work[t->nwork] = w, *at = ++t->nwork;
  return *at - 1;
}

// For each value: whether a product reads it.
static const bool *fed(struct arena *mem, const struct model *m, const struct table *t)
{
  bool *feeds = NEWS(mem, bool, t->n + 1);
  for (int k = 0; k < t->nd && cost_rules(m->t)->feeds; k++)
    if (t->d[k].op == OP_MATMUL) feeds[t->d[k].a] = feeds[t->d[k].b] = true;
  return feeds;
}

void work_open(struct arena *mem, const struct model *m, struct table *t)
{
  struct arena scratch = {0};
  struct index x = {.n = 64};
  while (x.n < 4 * (t->n + 2 * t->nd)) x.n *= 2;
  x.slot = NEWS(&scratch, int, x.n);
  struct work *found = t->work = NEWS(&scratch, struct work, 2 * (t->n + t->nd));
  t->load_work = NEWS(mem, int, t->n), t->save_work = NEWS(mem, int, t->n), t->deriv_work = NEWS(mem, int, t->nd);
  t->computed_work = NEWS(mem, int, t->nd);
  const bool *feeds = fed(&scratch, m, t);
  t->nwork = 0;
  for (int i = 0; i < t->n; i++) {
    const struct search_value *v = &t->v[i];
    if (v->leaf >= 0) t->load_work[i] = intern(t, &x, load_work(m, v, feeds[i]));
    t->save_work[i] = intern(t, &x, (struct work){.kind = WORK_SAVE, .rows = v->has});
    for (int k = v->der; k >= 0; k = t->d[k].next) {
      const bool multiplies = t->d[k].op == OP_MATMUL;
      struct work w = multiplies ? product_work(m, t, v, &t->d[k]) : pass_work(m, t, v, &t->d[k]);
      t->deriv_work[k] = t->computed_work[k] = intern(t, &x, w);
      if (!multiplies || !cost_rules(m->t)->feeds) continue;
      w.computed = true;
      t->computed_work[k] = intern(t, &x, w);
    }
  }
  t->work = arena_copy(mem, found, sizeof *found * (size_t)t->nwork);
  arena_close(&scratch);
}

static bool loads(const struct pick *p, int value)
{
  for (int i = 0; i < p->n && p->deriv[i] < 0; i++) // leaves come first
    if (p->value[i] == value) return true;
  return false;
}

static int work_at(const struct table *t, const struct pick *p, int i)
{
  const int k = p->deriv[i];
  if (k < 0) return t->load_work[p->value[i]];
  if (t->deriv_work[k] == t->computed_work[k] || loads(p, t->d[k].a) || loads(p, t->d[k].b)) return t->deriv_work[k];
  return t->computed_work[k];
}

void work_of(const struct table *t, const struct pick *p, const int *roots, int nroots, struct works *w)
{
  w->n = 0;
  for (int i = 0; i < p->n; i++) w->id[w->n++] = work_at(t, p, i);
  for (int i = 0; i < nroots; i++) w->id[w->n++] = t->save_work[roots[i]];
}
