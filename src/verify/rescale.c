// A mean may be written as a sum times 1/n. At reduced extents the sum has n' elements, so the constant must be 1/n'. For every tensor, the pass
// collects the numbers of summed elements at full size and at reduced extents. Consecutive reductions (a tile, then the loop, then the blocks)
// multiply. A constant is replaced if it equals 1/n or n of exactly one such number.
#include "verify/proof.h"

enum { FOLDS = 32 };

struct rescale_fold {
  int64_t full, small;
};
struct folds {
  int n;
  struct rescale_fold f[FOLDS];
};
struct rescale_pass {
  struct arena *mem;
  const struct graph *full;
  struct graph *small;
  struct folds *of; // for each tensor
  int changed;
};

static void note(struct folds *s, struct rescale_fold f)
{
  for (int i = 0; i < s->n; i++)
    if (s->f[i].full == f.full && s->f[i].small == f.small) return;
  if (s->n < FOLDS && f.full > 1) s->f[s->n++] = f;
}

static void merge(struct folds *s, const struct folds *from)
{
  for (int i = 0; i < from->n; i++) note(s, from->f[i]);
}

static void folded(struct folds *s, struct rescale_fold by)
{
  struct folds before = *s;
  note(s, by);
  for (int i = 0; i < before.n; i++) note(s, (struct rescale_fold){before.f[i].full * by.full, before.f[i].small * by.small});
}

static int64_t extent(const struct graph *g, int t, int dim) { return g->tensors[t].shape.d[dim]; }

// Number of argument elements for one result element, without loops.
static int64_t along(const struct graph *g, const struct node *n)
{
  if (op_rows[n->op].rule == RULE_CONTRACT) return extent(g, n->in[0], g->tensors[n->in[0]].shape.n - 1);
  bool reduces = op_rows[n->op].rule == RULE_REDUCE || op_rows[n->op].flags & REDUCES;
  return reduces ? extent(g, n->in[0], n->a.dim) / extent(g, n->out, n->a.dim) : 1;
}

static int64_t iterations(const struct graph *g, const struct node *n)
{
  int64_t r = 1;
  for (int l = 0; l < g->nloop && op_rows[n->op].rule == RULE_ACCUM; l++)
    if (!(op_rows[n->op].attrs & A_FMAP) || n->a.fmap[l] == REPLICA) r *= g->loop[l];
  return r;
}

static void rescale(struct rescale_pass *p, int i)
{
  struct node *n = &p->small->nodes[i];
  const struct folds *s = &p->of[n->in[0]];
  double found = 0;
  for (int k = 0; k < s->n; k++) {
    bool inverse = n->a.scalar == 1 / (double)s->f[k].full;
    if (!inverse && n->a.scalar != (double)s->f[k].full) continue;
    double to = inverse ? 1 / (double)s->f[k].small : (double)s->f[k].small;
    if (found && found != to) return;
    found = to;
  }
  if (found && found != n->a.scalar) n->a.scalar = found, p->changed++;
}

static void walk(struct rescale_pass *p, const struct rescale_pass *above, const int *from);

static void enter(struct rescale_pass *p, int i)
{
  const struct node *n = &p->full->nodes[i];
  struct rescale_pass sub = {p->mem, n->sub, p->small->nodes[i].sub, NEWS(p->mem, struct folds, n->sub->ntensors + 1), 0};
  walk(&sub, p, n->in);
  p->changed += sub.changed;
  for (int k = 0, save = 0; k < n->sub->nnodes; k++)
    if (n->sub->nodes[k].op == OP_SAVE) p->of[n->out + save++] = sub.of[n->sub->nodes[k].in[0]];
}

static void walk(struct rescale_pass *p, const struct rescale_pass *above, const int *from)
{
  int iter = 0;
  for (int i = 0; i < p->full->nnodes; i++) {
    const struct node *n = &p->full->nodes[i], *m = &p->small->nodes[i];
    if (n->sub) {
      enter(p, i);
      continue;
    }
    if (n->op == OP_ITER) p->of[n->out] = above->of[from[iter++]];
    if (n->op == OP_MUL_SCALAR) rescale(p, i);
    if (n->op == OP_ITER || !n->nout) continue;
    struct folds s = {0};
    for (int k = 0; k < n->nin; k++) merge(&s, &p->of[n->in[k]]);
    folded(&s, (struct rescale_fold){along(p->full, n), along(p->small, m)});
    folded(&s, (struct rescale_fold){iterations(p->full, n), iterations(p->small, m)});
    for (int k = 0; k < n->nout; k++) p->of[n->out + k] = s;
  }
}

int rescale_constants(struct graph *small, const struct graph *full)
{
  struct arena mem = {0};
  struct rescale_pass p = {&mem, full, small, NEWS(&mem, struct folds, full->ntensors + 1), 0};
  walk(&p, NULL, NULL);
  arena_close(&mem);
  return p.changed;
}
