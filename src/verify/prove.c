// verify_prove: the difference of corresponding output elements as a normal form. Zero is a proof. If the form is not zero, it is multiplied by the
// remaining denominators, which are not zero where both graphs are defined. If that fails, the forms are built once more with the sign facts that
// roots and logarithms of either side imply.
#include "verify/proof.h"
#include "verify/prove.h"

static const int64_t MOST_STEPS = 100000; // a hundred times the number that the examples need
static const size_t MOST_BYTES = (size_t)1 << 26;

void *prove_give_up(struct prover *p, const char *why)
{
  if (!p->why) p->why = why;
  return NULL;
}

bool prove_step(struct prover *p)
{
  if (++p->steps > MOST_STEPS || p->mem->used > MOST_BYTES) prove_give_up(p, "the forms are too large");
  return !p->why;
}

struct prove_side {
  const struct scope *s;
  int t; // the output's tensor
};

static bool is_zero(struct prover *p, struct term *x, struct term *y)
{
  const struct form *f = form_of(p, x), *g = form_of(p, y);
  const struct form *d = form_add(p, f, g ? form_scale(p, g, (struct ratio){-1, 1}) : NULL);
  if (d && d->n) d = form_clear(p, d);
  return d && !p->why && !d->n;
}

// Repeats while the forms of either side imply new facts, by which more forms may be equal.
static bool is_zero_by_facts(struct prover *p, struct term *x, struct term *y)
{
  enum { MOST_ROUNDS = 3 };
  for (int i = 0; i <= MOST_ROUNDS && !p->why; i++) {
    if (is_zero(p, x, y)) return true;
    if (p->nfacts == p->known) break;
    p->known = p->nfacts, p->round++;
  }
  return false;
}

static bool is_zero_somehow(struct prover *p, struct term *x, struct term *y)
{
  if (p->nfacts) p->round++; // forms of the previous element used its facts
  p->nfacts = p->known = 0;
  bool zero = is_zero_by_facts(p, x, y);
  if (zero || p->why || !p->numbered) return zero || prove_give_up(p, "the normal forms differ");
  p->gathers = true, p->round++;
  zero = is_zero_by_facts(p, x, y);
  p->gathers = false, p->round++;
  return zero || prove_give_up(p, "the normal forms differ");
}

// Whether element `at` is the same on both sides. If a digit needs a value, each of its values is a case.
static bool same(struct prover *p, const struct prove_side *a, const struct prove_side *b, const struct subscript *at)
{
  struct term *x = unfold(p, a->s, a->t, at), *y = x ? unfold(p, b->s, b->t, at) : NULL;
  if (x && y) return is_zero_somehow(p, x, y);
  int d = p->need;
  bool all = d >= 0 && !p->why;
  if (all && !p->digits[d].output) return prove_give_up(p, "a concatenation inside a running maximum");
  p->need = -1;
  for (int64_t v = 0; all && v < p->digits[d].extent; v++) {
    p->digits[d].value = v;
    all = same(p, a, b, at);
    p->digits[d].value = -1;
  }
  return all;
}

static bool outputs(struct prover *p, const struct graph *a, const struct graph *b)
{
  int n = graph_outputs(a, NULL), *ta = NEWS(p->mem, int, n + 1), *tb = NEWS(p->mem, int, n + 1);
  struct prove_side x = {.s = unfold_scope(p, a, NULL, NULL)}, y = {.s = unfold_scope(p, b, NULL, NULL)};
  graph_outputs(a, ta), graph_outputs(b, tb);
  for (int i = 0; i < n && !p->why; i++) {
    const struct shape *s = &a->tensors[ta[i]].shape;
    struct subscript at[MAX_DIMS] = {0};
    for (int d = 0; d < s->n; d++) at[d] = subscript_of(p, digit_new(p, s->d[d], true));
    x.t = ta[i], y.t = tb[i];
    if (!same(p, &x, &y, at)) return false;
  }
  return !p->why;
}

bool verify_prove(const struct graph *a, const struct graph *b, char why[160])
{
  struct arena mem = {0};
  struct prover p = {.mem = &mem, .need = -1};
  struct graph *x, *y;
  struct err e = {0};
  bool ready = !signature_match(a, b, &e) && !graph_expand(&mem, a, false, &x, &e) && !graph_expand(&mem, b, false, &y, &e);
  bool proved = ready && outputs(&p, x, y);
  snprintf(why, 160, "%s", proved ? "" : p.why ? p.why : ready ? "the normal forms differ" : e.text);
  arena_close(&mem);
  return proved;
}
