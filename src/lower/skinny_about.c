// Which node of the block graph, or of its tail, text is about. A value remembers the node that it was made for. Sums over k are pushed
// inward (skinny_sums.c), so of a product or a statistic there are two: what is computed in the loop, and the accumulator that takes the sums.
#include "lower/skinny.h"

struct sk_about sk_about_node(const struct sk_side *s, const struct node *n) { return (struct sk_about){(int)(n - s->n->block->nodes), s->tail}; }

int sk_making(struct sk_plan *p, const struct sk_side *s, int tensor, int (*make)(struct sk_plan *p, const struct sk_side *s, int tensor))
{
  struct sk_about was = p->making;
  p->making = sk_about_node(s, sk_maker(s, tensor));
  int v = make(p, s, tensor);
  return p->making = was, v;
}

struct sk_about sk_about_iter(const struct sk_plan *p, int iter)
{
  const struct sk_side *s = p->j->tail && iter >= p->tail.iters ? &p->tail : &p->head;
  return sk_about_node(s, sk_maker(s, s->n->iter[iter - s->iters].tile));
}

struct sk_about sk_about_sum(const struct sk_plan *p, enum sk_kind kind, int index)
{
  for (int i = 0; i < p->nvalues; i++)
    if (p->v[i].kind == kind && p->v[i].index == index) return p->v[i].about;
  return (struct sk_about){-1, false};
}

struct sk_about sk_text_about(struct sk_emit *e, struct sk_about a)
{
  struct sk_about was = {e->t.about - 1, e->t.tail};
  e->t.tail = a.tail;
  text_about(&e->t, a.node);
  return was;
}
