// Tensors that earlier kernels may store in device memory besides the program's own. They are partial sums, and results of sums and products, that
// one kernel computes from the program's inputs. Partial sums of these, computed by a kernel that reads an earlier kernel's result, are also
// included. If there are more than the search can hold, it takes those on the cheapest plans. A plan's cost is bounded from below by the operations
// before and after the tensor, and by the bytes written and read. The bound depends only on the tensor, not on other candidates.
#include "search/space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct cuts_place { // a tensor, identified by its value
  mask has;
  uint64_t hash;
  bool used;    // false: the place is free
  double least; // least seconds to compute it,
  double rest;  // and to compute the program from it
};
struct places {
  struct arena mem;
  int n, room; // room: a power of two
  struct cuts_place *at;
};
struct offers {
  const struct cut_source *from;
  struct arena mem;
  struct places known, costs;
  int n, cap;
  struct cut *cut;
};

// ---- places ---------------------------------------------------------------------------------------------------------

static struct cuts_place *slot(const struct places *p, mask has, uint64_t hash)
{
  uint64_t i = hash_mix(has, hash);
  struct cuts_place *x;
  while ((x = &p->at[i++ & (uint64_t)(p->room - 1)])->used && (x->has != has || x->hash != hash)) {
  }
  return x;
}

static void grow(struct places *p)
{
  struct places old = *p;
  p->room = MAX(256, 2 * old.room);
  p->at = NEWS(&p->mem, struct cuts_place, p->room);
  for (int i = 0; i < old.room; i++)
    if (old.at[i].used) *slot(p, old.at[i].has, old.at[i].hash) = old.at[i];
}

// The entry for a tensor; added if it is new.
static struct cuts_place *place_of(struct places *p, mask has, uint64_t hash)
{
  if (2 * (p->n + 1) > p->room) grow(p);
  struct cuts_place *x = slot(p, has, hash);
  if (!x->used) *x = (struct cuts_place){has, hash, true, INFINITY, INFINITY}, p->n++;
  return x;
}

static bool is_known(const struct places *p, mask has, uint64_t hash) { return p->room && slot(p, has, hash)->used; }

// ---- candidates ----

bool cut_offered(const struct space *s, const struct table *t, const struct search_value *v, bool parts)
{
  mask has;
  int c, split = 0;
  if (v->leaf >= 0 || v->der < 0 || !value_saveable(s, t, v, &has)) return false;
  for (c = 0; c < s->nclass; c++) split += (has & all_of(c)) == bit(c, GRID);
  if (split || parts) return split == 1;
  for (int d = v->der; d >= 0; d = t->d[d].next)
    if (op_rows[t->d[d].op].rule == RULE_MAP) return false;
  return true;
}

// A hash of the whole tensor of v, or of its partial sums or maxima over class c.
static uint64_t whole_hash(const struct cut_source *from, const struct search_value *v, int c, enum op op)
{
  struct arena mem = {0};
  struct finger f;
  finger_fold(from->f, &mem, op, &v->f, bit(c, GRID), 1, &f);
  uint64_t hash = finger_hash(&f);
  arena_close(&mem);
  return hash;
}

static const enum op folds[] = {OP_SUM, OP_MAX};

// Whether v is partial sums of a known value.
static bool part_of_known(const struct offers *o, const struct search_value *v)
{
  int c;
  if (!partial_class(o->from->m->s, v->has, &c)) return false;
  for (size_t i = 0; i < COUNT(folds); i++)
    if (is_known(&o->known, v->has & ~bit(c, GRID), whole_hash(o->from, v, c, folds[i]))) return true;
  return false;
}

static void collect(struct offers *o)
{
  const struct cut_source *from = o->from;
  for (int d = 0; d < from->ndev; d++) place_of(&o->known, from->m->dev[d].has, from->m->dev[d].hash);
  for (int i = 0; i < from->ntables; i++)
    for (int k = 0; k < from->tables[i].n; k++) {
      const struct search_value *v = &from->tables[i].v[k];
      if (!v->f.v || !v->has || is_known(&o->known, v->has, v->hash)) continue;
      if (from->parts && !part_of_known(o, v)) continue;
      place_of(&o->known, v->has, v->hash);
      PUSH(&o->mem, o->cut, o->n, o->cap) = (struct cut){i, k, 0};
    }
}

// ---- lower bounds of plans through a tensor ----

// Least number of elements of a tensor with these pieces.
static double elements(const struct space *s, mask has)
{
  double n = 1;
  for (int c = 0; c < s->nclass; c++) {
    mask h = has & all_of(c);
    if (h == all_of(c))
      n *= (double)s->classes[c].extent;
    else if (h == bit(c, GRID))
      n *= 2;
  }
  return n;
}

// Seconds of all cores for one operator, over all blocks and iterations.
static double seconds(const struct model *m, const struct table *t, const struct deriv *d)
{
  const struct op_row *row = &op_rows[d->op];
  double n = elements(m->s, t->v[d->a].has | (d->b < 0 ? 0 : t->v[d->b].has));
  if (d->op == OP_MATMUL) return 2 * n / target_products(m->t, values_make_pairs(m, &t->v[d->a], &t->v[d->b]));
  return cost_rules(m->t)->operate(m->t, n, row->cost);
}

// For each value of t: the time of the operators on the longest path to it.
static void least_before(const struct model *m, const struct table *t, double *least)
{
  for (int i = 0; i < t->n; i++) least[i] = t->v[i].leaf >= 0 ? 0 : INFINITY;
  for (bool changed = true; changed;) {
    changed = false;
    for (int i = 0; i < t->n; i++)
      for (int d = t->v[i].der; d >= 0; d = t->d[d].next) {
        double in = fmax(least[t->d[d].a], t->d[d].b < 0 ? 0 : least[t->d[d].b]), x = in + seconds(m, t, &t->d[d]);
        if (x < least[i]) least[i] = x, changed = true;
      }
  }
}

// For each value of t: the time of the operators on the shortest path to an output; infinite if there is none.
static void least_after(const struct cut_source *from, const struct table *t, double *rest)
{
  const struct space *s = from->m->s;
  for (int i = 0; i < t->n; i++) {
    rest[i] = INFINITY;
    for (int o = 0; o < s->nout; o++)
      if (t->v[i].has == s->visit[s->out[o]].full && t->v[i].hash == from->ref->hash[s->out[o]]) rest[i] = 0;
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (int i = t->n - 1; i >= 0; i--)
      for (int d = t->v[i].der; d >= 0 && isfinite(rest[i]); d = t->d[d].next) {
        double x = rest[i] + seconds(from->m, t, &t->d[d]);
        if (x < rest[t->d[d].a]) rest[t->d[d].a] = x, changed = true;
        if (t->d[d].b >= 0 && x < rest[t->d[d].b]) rest[t->d[d].b] = x, changed = true;
      }
  }
}

static void price_table(struct offers *o, const struct table *t)
{
  struct arena mem = {0};
  double *least = NEWS(&mem, double, t->n + 1), *rest = NEWS(&mem, double, t->n + 1);
  least_before(o->from->m, t, least), least_after(o->from, t, rest);
  for (int i = 0; i < t->n; i++) {
    if (!t->v[i].has) continue;
    struct cuts_place *p = place_of(&o->costs, t->v[i].has, t->v[i].hash);
    p->least = fmin(p->least, least[i]), p->rest = fmin(p->rest, rest[i]);
  }
  arena_close(&mem);
}

// Bytes that every plan moves: inputs and outputs.
static double all_bytes(const struct model *m)
{
  const struct graph *p = m->s->p;
  double bytes = 0;
  for (int i = 0; i < p->nnodes; i++) {
    const struct node *n = &p->nodes[i];
    const struct tensor *x = &p->tensors[n->op == OP_OUTPUT ? n->in[0] : n->out];
    if (n->op == OP_INPUT || n->op == OP_OUTPUT) bytes += dtype_bytes(x->dtype) * (double)shape_size(&x->shape);
  }
  return bytes;
}

static double cost_through(struct offers *o, const struct cut *cut, double bytes)
{
  const struct model *m = o->from->m;
  const struct search_value *v = &o->from->tables[cut->table].v[cut->value];
  const struct cuts_place *p = place_of(&o->costs, v->has, v->hash);
  double rest = p->rest, least = p->least;
  int c;
  if (partial_class(m->s, v->has, &c)) {
    mask has = v->has & ~bit(c, GRID);
    for (size_t i = 0; i < COUNT(folds); i++) rest = fmin(rest, place_of(&o->costs, has, whole_hash(o->from, v, c, folds[i]))->rest);
  }
  double compute = least + (isfinite(rest) ? rest : 0), memory = (bytes + 8 * elements(m->s, v->has)) / m->t->bandwidth;
  return fmax(compute, memory) + 0.3 * fmin(compute, memory);
}

// The logarithmic step that contains this cost, as an integer. A step is 1.6 to 3.1 percent wide; costs within one step compare equal.
static int64_t step_of(double cost)
{
  int e;
  double m = frexp(cost, &e);
  return (int64_t)e * 32 + (int64_t)(m * 64) - 32;
}

// The order of candidates by cost. The fewest operators break ties, so the order does not depend on the limit on values.
static int by_cost(const void *x, const void *y)
{
  const struct cut *a = x, *b = y;
  int64_t i = step_of(a->cost), k = step_of(b->cost);
  if (i != k) return i < k ? -1 : 1;
  return a->value != b->value ? a->value - b->value : a->table - b->table;
}

static int by_order(const void *x, const void *y)
{
  const struct cut *a = x, *b = y;
  return a->table != b->table ? a->table - b->table : a->value - b->value;
}

static void keep_cheapest(struct offers *o, int most)
{
  double bytes = all_bytes(o->from->m);
  for (int i = 0; i < o->from->ntables; i++) price_table(o, &o->from->tables[i]);
  for (int i = 0; i < o->n; i++) o->cut[i].cost = cost_through(o, &o->cut[i], bytes);
  qsort(o->cut, (size_t)o->n, sizeof *o->cut, by_cost);
  qsort(o->cut, (size_t)(o->n = most), sizeof *o->cut, by_order);
}

int cuts_choose(struct arena *mem, const struct cut_source *from, int most, struct cut **out, bool *all)
{
  struct offers o = {.from = from};
  collect(&o);
  *all = o.n <= most;
  if (!*all) keep_cheapest(&o, most);
  *out = arena_copy(mem, o.cut, sizeof *o.cut * (size_t)o.n);
  arena_close(&o.mem), arena_close(&o.known.mem), arena_close(&o.costs.mem);
  return o.n;
}
