// Block and thread graphs, as written: for every block of the grid, for every iteration of the loop in row-major
// order, the nodes of the loop; then the nodes after it; then the savers. Several axes that partition one
// dimension nest: x outermost, loop axes inside grid axes (paper, section 2; graph representation, "imap", "fmap").
#include "eval/run.h"

#include <string.h>

// The current block and iteration.
struct nest_place {
  int64_t block[MAX_GRID], iter[MAX_LOOPS];
  int64_t iteration, iterations; // its row-major number, and the number of iterations
};

static void odometer(int64_t number, int n, const int64_t *extent, int64_t *at)
{
  for (int i = n - 1; i >= 0; i--) at[i] = number % extent[i], number /= extent[i];
}

// Index of the part along each dimension, as chosen by the axes that `map` assigns to it.
static void part_of(int n, const int8_t *map, const int64_t *extent, const int64_t *at, int64_t part[MAX_DIMS])
{
  for (int i = 0; i < n; i++)
    if (map[i] != REPLICA) part[map[i]] = part[map[i]] * extent[i] + at[i];
}

static void load(struct run *r, const struct graph *g, const struct node *iter, const struct nest_place *w, struct eval_value whole,
                 struct eval_value tile)
{
  int64_t at[MAX_DIMS] = {0};
  part_of(g->ngrid, iter->a.imap, g->grid, w->block, at);
  part_of(g->nloop, iter->a.fmap, g->loop, w->iter, at);
  for (int i = 0; i < tile.s.n; i++) at[i] *= tile.s.d[i];
  move_cut(r->dom->bytes, whole, at, tile);
}

static void save(struct run *r, const struct graph *g, const struct node *n, const struct nest_place *w, struct eval_value whole,
                 struct eval_value tile)
{
  int64_t at[MAX_DIMS] = {0};
  part_of(g->ngrid, n->a.omap, g->grid, w->block, at);
  for (int i = 0; i < tile.s.n; i++) at[i] *= tile.s.d[i];
  move_paste(r->dom->bytes, whole, at, tile);
}

// The reduction of x into an accumulator: along dim, or element by element.
static struct fold accum_fold(const struct node *n, const struct shape *x, const struct shape *acc)
{
  if (op_rows[n->op].flags & REDUCES) return fold_of(n, x, acc);
  return (struct fold){1, 1, 1, shape_size(x)};
}

// An accumulator whose fmap concatenates: updates the part of this iteration, or starts it if no earlier iteration did.
static void accum_part(struct run *r, const struct graph *g, const struct node *n, const struct nest_place *w, struct eval_value acc,
                       struct eval_value x)
{
  int64_t at[MAX_DIMS] = {0};
  bool fresh = true;
  part_of(g->nloop, n->a.fmap, g->loop, w->iter, at);
  for (int i = 0; i < x.s.n; i++) at[i] *= x.s.d[i];
  for (int i = 0; i < g->nloop; i++) fresh &= n->a.fmap[i] != REPLICA || !w->iter[i];
  struct arena_mark mark = arena_mark(r->mem);
  struct eval_value part = {x.s, arena_alloc(r->mem, r->dom->bytes * (size_t)shape_size(&x.s))};
  if (!fresh) move_cut(r->dom->bytes, acc, at, part);
  struct fold f = accum_fold(n, &x.s, &x.s);
  r->dom->fold(r->F, n->op, fresh, &f, part.p, x.p);
  move_paste(r->dom->bytes, acc, at, part);
  arena_reset(r->mem, mark);
}

// Updates the running maximum m. d is the old m minus the new m; 0 in the first iteration.
static void accum_running(struct run *r, struct eval_frame *f, const struct node *n, bool fresh, struct eval_value x)
{
  struct eval_value m = f->v[n->out], d = f->v[n->out + 1];
  size_t bytes = r->dom->bytes * (size_t)shape_size(&m.s);
  struct fold w = accum_fold(n, &x.s, &m.s);
  if (!fresh) memcpy(d.p, m.p, bytes);
  r->dom->fold(r->F, n->op, fresh, &w, m.p, x.p);
  if (fresh)
    memset(d.p, 0, bytes);
  else
    r->dom->map(r->F, OP_SUB, &n->a, d, d, m);
}

static void run_accum(struct run *r, struct eval_frame *f, const struct node *n, const struct nest_place *w)
{
  struct eval_value acc = f->v[n->out], x = frame_arg(f, n, 0);
  unsigned flags = op_rows[n->op].flags;
  bool fresh = !w->iteration;
  if (flags & RUNNING) {
    accum_running(r, f, n, fresh, x);
    return;
  }
  if (!(flags & REDUCES) && !shape_eq(&acc.s, &x.s)) {
    accum_part(r, f->g, n, w, acc, x);
    return;
  }
  struct fold d = accum_fold(n, &x.s, &acc.s);
  if ((flags & RESCALES) && !fresh) r->dom->map(r->F, OP_MUL, &n->a, acc, acc, frame_arg(f, n, 1));
  r->dom->fold(r->F, n->op, fresh, &d, acc.p, x.p);
  if ((flags & MEAN) && w->iteration == w->iterations - 1) r->dom->finish(r->F, flags & RMS, d.len * w->iterations, shape_size(&acc.s), acc.p);
}

static int run_iteration(struct run *r, struct eval_frame *above, const struct node *nest, struct eval_frame *f, const struct nest_place *w)
{
  int iters = 0, s = OK;
  for (int i = 0; i < f->g->nnodes && !s; i++) {
    const struct node *n = &f->g->nodes[i];
    int from = n->op == OP_ITER ? nest->in[iters++] : -1;
    if (!n->nout) continue;
    enum phase p = f->g->tensors[n->out].phase;
    if (p == FIXED && w->iteration) continue;
    if (op_rows[n->op].rule == RULE_ACCUM)
      run_accum(r, f, n, w);
    else if (from >= 0)
      load(r, f->g, n, w, above->v[from], f->v[n->out]);
    else if (p != AFTER)
      s = run_node(r, f, i);
  }
  return s;
}

static int run_after(struct run *r, struct eval_frame *above, const struct node *nest, struct eval_frame *f, const struct nest_place *w)
{
  int saves = 0, s = OK;
  for (int i = 0; i < f->g->nnodes && !s; i++) {
    const struct node *n = &f->g->nodes[i];
    if (n->op == OP_SAVE)
      save(r, f->g, n, w, above->v[nest->out + saves++], frame_arg(f, n, 0));
    else if (n->nout && op_rows[n->op].rule != RULE_ACCUM && f->g->tensors[n->out].phase == AFTER)
      s = run_node(r, f, i);
  }
  return s;
}

int run_nest(struct run *r, struct eval_frame *above, const struct node *nest, struct eval_frame *f)
{
  const struct graph *g = f->g;
  int64_t blocks = graph_blocks(g);
  struct nest_place w = {.iterations = graph_iterations(g)};
  int s = OK;
  for (int64_t b = 0; b < blocks && !s; b++) {
    odometer(b, g->ngrid, g->grid, w.block);
    for (w.iteration = 0; w.iteration < w.iterations && !s; w.iteration++) {
      odometer(w.iteration, g->nloop, g->loop, w.iter);
      s = run_stopped(r) ? (int)r->e->status : run_iteration(r, above, nest, f, &w);
    }
    if (!s) s = run_after(r, above, nest, f, &w);
  }
  return s;
}
