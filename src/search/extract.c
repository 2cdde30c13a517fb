// From values to graphs. A graph that computes the roots is a choice of one derivation for every value that it
// needs; values are named by what they are, so each graph comes up once and no operator is in it twice. The
// choices are walked depth first under a bound on operators that grows by one, so small graphs come first.
#include "search/space.h"

#include <string.h>

static const long STEPS = 60000; // of one bound; counts the same everywhere

struct walk {
  const struct table *t;
  int first_extra, max_extra, extra; // leaves from here on are made by earlier kernels: at most so many
  bool (*take)(void *, const struct pick *);
  void *arg;
  int bound, ops, nroots;
  long steps;
  bool stopped, deeper; // deeper: something was cut by the bound
  int n;                // values needed so far
  int need[MAX_PICK], chosen[MAX_PICK];
  int *at;              // value -> index in need, or -1
};

enum { OPEN = -2, LEAF = -1 };

// Does value v, as far as chosen, need value u?
static bool needs(const struct walk *w, int v, int u)
{
  if (v == u) return true;
  int i = w->at[v];
  if (i < 0 || w->chosen[i] < 0) return false;
  const struct deriv *d = &w->t->d[w->chosen[i]];
  return needs(w, d->a, u) || (d->b >= 0 && needs(w, d->b, u));
}

static void put(const struct walk *w, struct pick *p, bool *done, int v)
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

static void emit(struct walk *w)
{
  struct pick p = {0};
  bool done[MAX_PICK] = {false};
  for (int pass = 0; pass < 2; pass++) // leaves first
    for (int i = 0; i < w->n; i++)
      if ((w->chosen[i] == LEAF) == !pass) put(w, &p, done, w->need[i]);
  if (!w->take(w->arg, &p)) w->stopped = true;
}

static bool ask(struct walk *w, int v)
{
  if (w->at[v] >= 0) return true;
  if (w->n == MAX_PICK) return false;
  w->at[v] = w->n, w->need[w->n] = v, w->chosen[w->n++] = OPEN;
  return true;
}

static void drop(struct walk *w, int n)
{
  while (w->n > n) w->at[w->need[--w->n]] = -1;
}

static void choose(struct walk *w, int i);

static void derive(struct walk *w, int i, int d)
{
  const struct deriv *x = &w->t->d[d];
  int v = w->need[i], n = w->n;
  if (needs(w, x->a, v) || (x->b >= 0 && needs(w, x->b, v))) return;
  w->chosen[i] = d, w->ops++;
  if (ask(w, x->a) && (x->b < 0 || ask(w, x->b))) choose(w, i + 1);
  drop(w, n);
  w->chosen[i] = OPEN, w->ops--;
}

// Decides value number i and everything after it. Values that became needed stand behind it, so this ends when
// none is open.
static void choose(struct walk *w, int i)
{
  if (w->stopped || ++w->steps > STEPS) {
    w->stopped |= w->steps > STEPS;
    return;
  }
  if (i == w->n) {
    if (w->ops == w->bound) emit(w);
    return;
  }
  const struct value *v = &w->t->v[w->need[i]];
  bool extra = v->leaf >= w->first_extra;
  if (i >= w->nroots && v->leaf >= 0 && w->extra + extra <= w->max_extra) {
    w->chosen[i] = LEAF, w->extra += extra;
    choose(w, i + 1);
    w->chosen[i] = OPEN, w->extra -= extra;
  }
  if (v->leaf >= 0 && !extra) return; // the program's inputs are not computed
  int open = 0; // values behind this one that no leaf can give
  for (int k = i + 1; k < w->n; k++) open += w->t->v[w->need[k]].leaf < 0;
  if (w->ops + 1 + open > w->bound) {
    w->deeper = true;
    return;
  }
  for (int d = v->der; d >= 0 && !w->stopped; d = w->t->d[d].next) derive(w, i, d);
}

bool extract(const struct table *t, const int *roots, int nroots, int max_ops, int first_extra, int max_extra,
             bool (*take)(void *, const struct pick *), void *arg)
{
  struct arena mem = {0};
  struct walk w = {.t = t, .nroots = nroots, .first_extra = first_extra, .max_extra = max_extra, .take = take, .arg = arg};
  w.at = NEWS(&mem, int, t->n);
  memset(w.at, -1, sizeof *w.at * (size_t)t->n);
  bool complete = true;
  for (w.bound = 0; w.bound <= max_ops && complete; w.bound++) {
    w.n = w.ops = 0, w.steps = 0, w.deeper = false;
    for (int i = 0; i < nroots; i++) ask(&w, roots[i]);
    choose(&w, 0);
    complete = !w.stopped;
    drop(&w, 0);
    if (!w.deeper) break;
  }
  arena_close(&mem);
  return complete;
}
