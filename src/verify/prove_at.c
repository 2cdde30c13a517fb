// Elements at data-dependent indices. Such an index is an opaque number t inside a subscript. On the way to an input, a digit represents t and passes
// through every operator that keeps the dimension whole. Then x[.., t, ..] is F(t, e). F is an unknown function. e is an element, at the other
// subscripts, of an array that occurs nowhere else. For the actual x such F and e exist, because t and the other subscripts determine the element. So
// an identity for all F and e holds for x.
//
// An updated state and the result of topk are separate arrays. Two of them are the same array if both graphs compute them with the same operators
// from the same inputs. Updates and topk inside blocks are not decided.
#include "verify/prove.h"

#include <string.h>

enum { MADE_ARRAYS = 1 << 21, CHOSEN_SHIFT = 22 };

static const struct shape *shape(const struct step *w, int t) { return &w->s->g->tensors[t].shape; }

bool subscript_chosen(const struct prover *p, struct subscript s)
{
  for (int i = 0; i < s.n; i++) {
    if (s.p[i].digit < 0) continue;
    const struct digit *d = &p->digits[s.p[i].digit];
    if (d->chosen || subscript_chosen(p, d->parts)) return true;
  }
  return false;
}

// The data-dependent number that s consists of; NULL: it is not exactly one such number.
static struct term *number_of(const struct prover *p, struct subscript s)
{
  if (s.n != 1 || s.p->digit < 0) return NULL;
  const struct digit *d = &p->digits[s.p->digit];
  return s.p->div == 1 && s.p->extent == d->extent ? d->chosen : NULL;
}

struct term *unfold_element(const struct step *w, int array, const struct subscript *at, int n)
{
  struct prover *p = w->p;
  struct subscript rest[MAX_DIMS] = {0};
  struct term *number[MAX_DIMS] = {0};
  int mask = 0;
  for (int d = 0; d < n; d++) {
    rest[d] = at[d];
    if (!subscript_chosen(p, at[d])) continue;
    if (!(number[d] = number_of(p, at[d]))) return prove_give_up(p, "a data-dependent index is split");
    rest[d] = (struct subscript){0}, mask |= 1 << d;
  }
  struct term *t = term_new(p, TERM_ELEMENT, NULL, NULL);
  if (!t) return NULL;
  t->array = array + (mask << CHOSEN_SHIFT), t->n = n;
  t->at = arena_copy(p->mem, rest, sizeof *rest * (size_t)n);
  for (int d = n - 1; d >= 0 && t; d--) {
    if (!number[d]) continue;
    t = term_new(p, TERM_OPAQUE, number[d], t);
    if (t) t->op = OP_GATHER;
  }
  return t;
}

// ---- gather ----

// The digit of this extent that represents the number t.
static int digit_of(struct prover *p, struct term *t, int64_t extent)
{
  for (int i = 0; i < p->ndigits; i++)
    if (p->digits[i].chosen == t && p->digits[i].extent == extent) return i;
  int d = digit_new(p, extent, false);
  p->digits[d].chosen = t;
  return d;
}

// Whether w reads rows `at` directly after a write to rows `at`, which are distinct. Such a read gives the written values.
static bool forwarded(const struct step *w, const struct node *update)
{
  return node_has(update, WRITES_SLICES) && update->in[1] == w->n->in[1] && update->a.dim == w->n->a.dim &&
         w->s->g->tensors[update->in[1]].range.least >= 0;
}

static struct term *gathered(const struct step *w)
{
  const struct node *n = w->n;
  const struct shape *x = shape(w, n->in[0]), *index = shape(w, n->in[1]);
  const struct node *from = &w->s->g->nodes[w->s->g->tensors[n->in[0]].node];
  struct subscript at[MAX_DIMS] = {0};
  const int dim = n->a.dim;
  if (forwarded(w, from)) return unfold(w->p, w->s, from->in[2], w->at);
  for (int d = 0; d < x->n; d++)
    if (d != dim) at[d] = w->at[d < dim ? d : d + index->n - 1];
  if (x->d[dim] > 1) {
    struct term *t = unfold(w->p, w->s, n->in[1], w->at + dim);
    if (!t) return NULL;
    at[dim] = subscript_of(w->p, digit_of(w->p, t, x->d[dim]));
  }
  return unfold(w->p, w->s, n->in[0], at);
}

// ---- separate arrays ----

static int inputs_before(const struct graph *g, const struct node *n)
{
  int k = 0;
  for (const struct node *m = g->nodes; m < n; m++) k += m->op == OP_INPUT;
  return k;
}

// Whether tensor t of g is computed with the same operators from the same inputs as tensor u of h.
static bool same_made(struct prover *p, const struct graph *g, int t, const struct graph *h, int u)
{
  const struct node *n = &g->nodes[g->tensors[t].node], *m = &h->nodes[h->tensors[u].node];
  if (!prove_step(p)) return false;
  if (g == h && t == u) return true;
  if (n->op != m->op || n->nin != m->nin || t - n->out != u - m->out || !shape_eq(&g->tensors[t].shape, &h->tensors[u].shape)) return false;
  if (n->op == OP_INPUT) return inputs_before(g, n) == inputs_before(h, m);
  if (n->sub || !attrs_same(&n->a, &m->a)) return false;
  for (int i = 0; i < n->nin; i++)
    if (!same_made(p, g, n->in[i], h, m->in[i])) return false;
  return true;
}

// A result as a separate array. Inside a block, names of inputs do not identify it: an element also depends on the block, the iteration and the data
// that iterators read.
static struct term *made(const struct step *w)
{
  struct prover *p = w->p;
  int i = 0;
  if (w->s->above) return prove_give_up(p, "an update or a topk inside a block");
  while (i < p->nmade && !same_made(p, w->s->g, w->t, p->made[i].g, p->made[i].tensor)) i++;
  if (p->why) return NULL;
  if (i == p->nmade) PUSH(p->mem, p->made, p->nmade, p->made_cap) = (struct made_array){w->s->g, w->t};
  return unfold_element(w, MADE_ARRAYS + i, w->at, shape(w, w->t)->n);
}

struct term *unfold_chosen(const struct step *w) { return node_has(w->n, READS_SLICES) ? gathered(w) : made(w); }

struct term *unfold_index(const struct step *w, struct subscript flat)
{
  if (!subscript_chosen(w->p, flat)) return NULL;
  struct term *t = number_of(w->p, flat);
  return t ? t : prove_give_up(w->p, "a data-dependent index is split");
}
