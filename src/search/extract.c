// From values to graphs. A graph that computes the roots is a choice of one derivation for every value that it needs. Values are unique, so each
// graph occurs once and no operator is in it twice. Choices are enumerated depth first, with a bound on operators that grows by one, so small graphs
// come first.
#include "search/space.h"

#include <string.h>

static const long STEPS = 60000; // for one bound; independent of the machine

struct extract_walk {
  const struct table *t;
  const uint8_t *least;
  int first_extra, max_extra, extra; // leaves from first_extra on are made by earlier kernels; at most max_extra of them
  bool (*take)(void *, const struct pick *);
  void *arg;
  int bound, ops, nroots;
  long steps;
  bool stopped, deeper; // deeper: the bound has excluded something
  int n;                // number of values needed so far
  int need[MAX_PICK], chosen[MAX_PICK];
  int above[MAX_PICK]; // operators between it and a root, along its first user
  int *at;             // value -> index in need, or -1
};

enum { OPEN = -2, LEAF = -1, NEVER = 255 };

// Whether value v depends on value u, by the derivations chosen so far.
static bool needs(const struct extract_walk *w, int v, int u)
{
  if (v == u) return true;
  int i = w->at[v];
  if (i < 0 || w->chosen[i] < 0) return false;
  const struct deriv *d = &w->t->d[w->chosen[i]];
  return needs(w, d->a, u) || (d->b >= 0 && needs(w, d->b, u));
}

static void put(const struct extract_walk *w, struct pick *p, bool *done, int v)
{
  int i = w->at[v];
  if (done[i]) return;
  done[i] = true;
  if (w->chosen[i] >= 0) {
    const struct deriv *d = &w->t->d[w->chosen[i]];
    put(w, p, done, d->a);
    if (d->b >= 0) put(w, p, done, d->b);
    p->ops++;
  }
  p->value[p->n] = v, p->deriv[p->n++] = w->chosen[i];
}

static void emit(struct extract_walk *w)
{
  struct pick p = {0};
  bool done[MAX_PICK] = {false};
  for (int pass = 0; pass < 2; pass++) // leaves first
    for (int i = 0; i < w->n; i++)
      if ((w->chosen[i] == LEAF) == !pass) put(w, &p, done, w->need[i]);
  if (!w->take(w->arg, &p)) w->stopped = true;
}

static bool ask(struct extract_walk *w, int v, int above)
{
  if (w->at[v] >= 0) return true;
  if (w->n == MAX_PICK) return false;
  w->at[v] = w->n, w->need[w->n] = v, w->above[w->n] = above, w->chosen[w->n++] = OPEN;
  return true;
}

static void drop(struct extract_walk *w, int n)
{
  while (w->n > n) w->at[w->need[--w->n]] = -1;
}

static void choose(struct extract_walk *w, int i);

static void derive(struct extract_walk *w, int i, int d)
{
  const struct deriv *x = &w->t->d[d];
  int v = w->need[i], n = w->n;
  if (needs(w, x->a, v) || (x->b >= 0 && needs(w, x->b, v))) return;
  w->chosen[i] = d, w->ops++;
  if (ask(w, x->a, w->above[i] + 1) && (x->b < 0 || ask(w, x->b, w->above[i] + 1))) choose(w, i + 1);
  drop(w, n);
  w->chosen[i] = OPEN, w->ops--;
}

// Whether the open values from i on need too many operators. Each open value that is no leaf needs one. The operators below a value add to those
// between it and a root.
static bool too_many(const struct extract_walk *w, int i)
{
  int open = 0;
  for (int k = i; k < w->n; k++) {
    int least = w->least[w->need[k]];
    open += k == i || least > 0;
    if (w->above[k] + least > w->bound) return true;
  }
  return w->ops + open > w->bound;
}

// Chooses a derivation for value number i and all later ones. New values are appended, so the recursion ends when no value is open.
static void choose(struct extract_walk *w, int i)
{
  if (w->stopped || ++w->steps > STEPS) {
    w->stopped |= w->steps > STEPS;
    return;
  }
  if (i == w->n) {
    if (w->ops == w->bound) emit(w);
    return;
  }
  const struct search_value *v = &w->t->v[w->need[i]];
  bool extra = v->leaf >= w->first_extra;
  if (i >= w->nroots && v->leaf >= 0 && w->extra + extra <= w->max_extra) {
    w->chosen[i] = LEAF, w->extra += extra;
    choose(w, i + 1);
    w->chosen[i] = OPEN, w->extra -= extra;
  }
  if (v->leaf >= 0 && !extra) return; // the program's inputs are not computed
  if (too_many(w, i)) {
    w->deeper = true;
    return;
  }
  for (int d = v->der; d >= 0 && !w->stopped; d = w->t->d[d].next) derive(w, i, d);
}

// Lower bounds that only grow: a value needs one operator more than its most expensive operand.
static void least_ops(const struct table *t, int first_extra, bool extra, uint8_t *least)
{
  memset(least, NEVER, (size_t)t->n);
  for (int i = 0; i < t->n; i++)
    if (t->v[i].leaf >= 0 && (extra || t->v[i].leaf < first_extra)) least[i] = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (int i = 0; i < t->n; i++)
      for (int d = t->v[i].der; d >= 0; d = t->d[d].next) {
        int a = least[t->d[d].a], b = t->d[d].b < 0 ? 0 : least[t->d[d].b], n = MIN(NEVER, 1 + MAX(a, b));
        if (n < least[i]) least[i] = (uint8_t)n, changed = true;
      }
  }
}

void extract_open(struct arena *mem, struct table *t, int first_extra)
{
  for (int k = 0; k < 2; k++) least_ops(t, first_extra, k, t->least[k] = NEWS(mem, uint8_t, t->n));
}

bool extract(const struct table *t, const int *roots, int nroots, int max_ops, int first_extra, int max_extra,
             bool (*take)(void *, const struct pick *), void *arg)
{
  struct arena mem = {0};
  struct extract_walk w = {
      .t = t, .least = t->least[max_extra > 0], .nroots = nroots, .first_extra = first_extra, .max_extra = max_extra, .take = take, .arg = arg};
  w.at = NEWS(&mem, int, t->n);
  memset(w.at, -1, sizeof *w.at * (size_t)t->n);
  bool complete = true;
  for (w.bound = 0; w.bound <= max_ops; w.bound++) {
    w.n = w.ops = 0, w.steps = 0, w.deeper = false;
    for (int i = 0; i < nroots; i++) ask(&w, roots[i], 0);
    choose(&w, 0);
    complete &= !w.stopped, w.stopped = false;
    drop(&w, 0);
    if (!w.deeper) break;
  }
  arena_close(&mem);
  return complete;
}
