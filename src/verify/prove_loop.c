// Accumulators. A summing loop is a sum over its iterations. In a joining loop, a piece of the subscript selects the iteration.
//
// A running maximum m_i is the maximum of its argument over iterations up to i. Within the loop the only law used is that equal arguments in equal
// loops give equal maxima. After the loop it is the maximum over all iterations. An accumulator that is rescaled by exp(change), where change is m
// before the iteration minus m after it, is solved by induction over the iterations. With a_0 = x_0 and a_i = a_(i-1) exp(m_(i-1) - m_i) + x_i,
//  a_i exp(m_i) = sum of x_j exp(m_j) over j <= i,
// so after the loop a = exp(-m) * sum of x_j exp(m_j) over all iterations. Other factors are not solved.
#include "verify/prove.h"

#include <string.h>

struct loop {
  const struct step *w;
  struct subscript at[MAX_DIMS], loop[MAX_LOOPS]; // of the argument; of the iteration
  const struct term *change;                      // argument of exp in the factor, set by the body
};

static const struct shape *shape(const struct step *w, int t) { return &w->s->g->tensors[t].shape; }

static struct scope *iteration(const struct loop *l)
{
  const struct scope *after = l->w->s;
  struct scope *s = unfold_scope(l->w->p, after->g, after->above, after->nest);
  memcpy(s->grid, after->grid, sizeof s->grid);
  memcpy(s->loop, l->loop, sizeof s->loop);
  s->after = false;
  return s;
}

// Finds the iterations that contribute to an element. *over gets digits to sum over; the other axes get pieces of the subscript.
static bool iterations(struct loop *l, struct subscript *over)
{
  const struct step *w = l->w;
  const struct graph *g = w->s->g;
  const struct shape *x = shape(w, w->n->in[0]);
  struct subscript high[MAX_DIMS] = {0};
  bool joins = op_rows[w->n->op].attrs & A_FMAP;
  memcpy(l->at, w->at, sizeof *l->at * (size_t)x->n);
  for (int d = 0; d < x->n && joins; d++)
    if (!subscript_cut(w->p, w->at[d], x->d[d], &high[d], &l->at[d])) return false;
  for (int i = g->nloop - 1; i >= 0; i--) {
    int d = joins ? w->n->a.fmap[i] : REPLICA;
    if (d != REPLICA && !subscript_cut(w->p, high[d], g->loop[i], &high[d], &l->loop[i])) return false;
    if (d != REPLICA) continue;
    l->loop[i] = subscript_of(w->p, digit_new(w->p, g->loop[i], false));
    *over = subscript_join(w->p, l->loop[i], *over);
  }
  return true;
}

// x_j exp(m_j). Records the change in whose exp the factor is.
static struct term *unscaled(struct loop *l, const struct scope *s, struct term *x)
{
  struct prover *p = l->w->p;
  struct term *f = x ? unfold_argument(l->w, s, 1) : NULL;
  if (!f) return NULL;
  if (f->kind != TERM_EXP || !f->x->running || f->x->scope != s)
    return prove_give_up(p, "an accumulator rescaled by something else than exp of the change of a running maximum");
  l->change = f->x;
  return term_new(p, TERM_MUL, x, term_new(p, TERM_EXP, unfold(p, s, f->x->running->out, f->x->place), NULL));
}

static struct term *body(const void *arg)
{
  struct loop *l = *(struct loop *const *)arg;
  unsigned flags = op_rows[l->w->n->op].flags;
  const struct scope *s = iteration(l);
  struct term *x = unfold(l->w->p, s, l->w->n->in[0], l->at);
  if (flags & RMS) x = term_new(l->w->p, TERM_MUL, x, x);
  return flags & RESCALES ? unscaled(l, s, x) : x;
}

static struct term *summed(struct loop *l, struct subscript over)
{
  const struct step *w = l->w;
  struct prover *p = w->p;
  unsigned flags = op_rows[w->n->op].flags;
  int64_t len = 1;
  if (flags & REDUCES) {
    int dim = w->n->a.dim;
    if (op_rows[w->n->op].attrs & A_EXTENT) return prove_give_up(p, "partial sums that were not expanded");
    len = shape(w, w->n->in[0])->d[dim] / shape(w, w->t)->d[dim];
    struct subscript fold = subscript_of(p, digit_new(p, len, false));
    l->at[dim] = subscript_join(p, l->at[dim], fold), over = subscript_join(p, over, fold);
  }
  struct term *sum = term_sum(p, over, body, &l);
  if (!sum) return NULL;
  if (flags & MEAN) sum = term_new(p, TERM_MUL, sum, term_ratio(p, 1, (whole)len * graph_iterations(w->s->g)));
  if (flags & RMS) sum = term_new(p, TERM_SQRT, sum, NULL);
  if (!(flags & RESCALES)) return sum;
  struct term *last = unfold(p, w->s, l->change->running->out, l->change->place);
  return term_new(p, TERM_MUL, sum, term_new(p, TERM_INVERSE, term_new(p, TERM_EXP, last, NULL), NULL));
}

// ---- running maxima ----

// The running maximum inside the loop: its argument in any iteration, and the current iteration.
static struct term *so_far(const struct step *w)
{
  struct prover *p = w->p;
  struct subscript over = {0}, at[2 * MAX_LOOPS] = {0};
  struct loop l = {.w = w}, *arg = &l;
  int n = w->s->g->nloop;
  for (int d = 0; d < shape(w, w->t)->n; d++)
    if (subscript_chosen(p, w->at[d])) return prove_give_up(p, "a data-dependent index in a running maximum");
  if (!iterations(&l, &over)) return NULL;
  struct term *t = term_new(p, TERM_RUNNING, body(&arg), NULL);
  if (!t) return NULL;
  memcpy(at, w->s->loop, sizeof *at * (size_t)n), memcpy(at + n, l.loop, sizeof *at * (size_t)n);
  t->n = 2 * n, t->at = arena_copy(p->mem, at, sizeof at);
  if (w->t == w->n->out) return t;
  t->change = true, t->scope = w->s, t->running = w->n;
  t->place = arena_copy(p->mem, w->at, sizeof *w->at * (size_t)shape(w, w->t)->n);
  return t;
}

static struct term *running(const struct step *w)
{
  struct subscript over = {0};
  struct loop l = {.w = w}, *arg = &l;
  if (!w->s->after) return so_far(w);
  if (w->t != w->n->out) return prove_give_up(w->p, "the last change of a running maximum");
  if (!iterations(&l, &over)) return NULL;
  return term_max(w->p, over, body(&arg));
}

struct term *unfold_accumulator(const struct step *w)
{
  struct subscript over = {0};
  struct loop l = {.w = w};
  if (op_rows[w->n->op].flags & RUNNING) return running(w);
  return iterations(&l, &over) ? summed(&l, over) : NULL;
}
