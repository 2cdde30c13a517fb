// The start of a search and of a probe: limits, workers, schedules, and the program's tensors as device tensors.
#include "search/space.h"

enum { VALUES = 1500, BLOCK_OPS = 11, TWO_NORMS = 16, KERNEL_OPS = 5, MOST = 64, THREADS = 64 };

static int norms(const struct graph *p)
{
  int n = 0;
  for (int i = 0; i < p->nnodes; i++) n += op_rows[p->nodes[i].op].abstract == AE_SQRT || op_rows[p->nodes[i].op].abstract == AE_RSQRT;
  return n;
}

// Operators on indices, and comparisons, are cheap, so they raise the limit on operators a little.
static int index_ops(const struct graph *p)
{
  enum { MOST_INDEX_OPS = 4 };
  int n = 0;
  for (int i = 0; i < p->nnodes; i++) {
    const struct node *x = &p->nodes[i];
    n += x->nin && x->nout && (p->tensors[x->out].weak || op_rows[x->op].flags & BRACKET);
  }
  return MIN(n, MOST_INDEX_OPS);
}

void search_defaults(struct search_opts *o, const struct graph *p, int *later_ops)
{
  *later_ops = o->max_block_ops ? o->max_block_ops : BLOCK_OPS;
  o->threads = MAX(1, MIN(o->threads, (int)THREADS));
  if (!o->max_block_ops) o->max_block_ops = (norms(p) >= 2 ? TWO_NORMS : BLOCK_OPS) + index_ops(p);
  if (!o->max_kernel_ops) o->max_kernel_ops = KERNEL_OPS;
  if (!o->max_values) o->max_values = VALUES;
  if (!o->most) o->most = MOST;
}

int workers_open(struct worker *w, int n, struct arena *mem, const struct fctx *f, const struct search_opts *o)
{
  int status = OK;
  for (int i = 0; i < n; i++) {
    w[i].id = i, w[i].ex = expr_open();
    expr_option_exp_laws(w[i].ex, false); // the axioms of the paper's Table 2; docs/theory.md
    expr_option_expand_squares(w[i].ex, o->off >> PRUNE_SQUARE & 1);
    if (reference_build(&w[i].ref, mem, f, w[i].ex)) status = NO;
  }
  return status;
}

void workers_close(struct worker *w, int n)
{
  for (int i = 0; i < n; i++) {
    expr_close(w[i].ex);
    arena_close(&w[i].scratch), arena_close(&w[i].pairs.mem);
  }
}

static void add_schedule(struct arena *mem, const struct space *s, struct table **all, int *n, int *cap, unsigned grid, int loop)
{
  struct table t = {.sch = {.loop = loop}};
  for (int c = 0; c < s->nclass; c++)
    if (grid >> c & 1) t.sch.grid[t.sch.ngrid++] = c;
  PUSH(mem, *all, *n, *cap) = t;
}

int schedules_build(struct arena *mem, const struct space *s, struct table **all)
{
  int n = 0, cap = 0;
  for (unsigned grid = 0; grid < 1u << s->nclass; grid++) {
    if (__builtin_popcount(grid) > MAX_GRID) continue;
    add_schedule(mem, s, all, &n, &cap, grid, -1);
    for (int c = 0; c < s->nclass; c++)
      if (s->classes[c].kind & (CONTRACTED | REDUCED)) add_schedule(mem, s, all, &n, &cap, grid, c);
  }
  return n;
}

bool visit_given(const struct space *s, int v)
{
  enum op op = s->p->nodes[s->p->tensors[s->visit[v].tensor].node].op;
  return op == OP_INPUT || op == OP_CONST || op == OP_IOTA;
}

const struct node *device_constant(const struct space *s, const struct device *d)
{
  const struct node *n = d->visit >= 0 ? &s->p->nodes[s->p->tensors[s->visit[d->visit].tensor].node] : NULL;
  return n && n->op == OP_CONST ? n : NULL;
}

struct device visit_device(const struct space *s, const struct worker *w, int nworker, int v)
{
  const struct reference *r = &w[0].ref;
  int tensor = s->visit[v].tensor;
  struct device d = {.has = s->visit[v].full, .f = r->f[v], .hash = r->hash[v], .ehash = expr_hash(w[0].ex, r->e[v]), .visit = v, .input = -1};
  if (s->p->nodes[s->p->tensors[tensor].node].op == OP_INPUT) d.input = tensor;
  for (int i = 0; i < nworker; i++) d.e[i] = w[i].ref.e[v];
  return d;
}
