// Kernel-level operators: any but a product is one vectorized loop over threads. Op-by-op execution, the baseline, consists of these, so each is as fast
// as a loop of one operator can be.
#include "gen/emit.h"

static void run_nest(struct kernel *k, struct str *s, struct nest *f)
{
  nest_finish(f);
  nest_print(s, 1, f, k->threads);
}

static int operand_value(struct kernel *k, struct nest *f, int i)
{
  return k->in[i].kind == PLACE_CONST ? nest_const(f, k->in[i].c) : nest_load(f, &k->in[i].v);
}

static void print_map(struct kernel *k, struct str *s)
{
  struct nest f = nest_new(k->mem, &k->out->shape);
  int x = operand_value(k, &f, 0), y = k->n->nin > 1 ? operand_value(k, &f, 1) : -1;
  nest_store(&f, nest_op(&f, k->n->op, &k->n->a, x, y), k->out, false);
  run_nest(k, s, &f);
}

static void print_reduce(struct kernel *k, struct str *s)
{
  const struct attrs *a = &k->n->a;
  struct nest f = nest_new(k->mem, &k->in->v.shape);
  int64_t extent = f.space.d[a->dim], group = k->n->op == OP_SUM && a->group ? a->group : extent;
  double scale = op_rows[k->n->op].flags & MEAN ? 1.0 / (double)group : 1;
  int x = nest_load(&f, &k->in->v);
  CHECK(nest_fold(&f, x, k->out, fold_by(k->n->op), a->dim, group, false, scale));
  run_nest(k, s, &f);
}

void library_copy(struct kernel *k, struct str *s, const struct view *from, const struct view *to)
{
  struct nest f = nest_new(k->mem, &to->shape);
  nest_store(&f, nest_load(&f, from), to, false);
  run_nest(k, s, &f);
}

static void print_fill(struct kernel *k, struct str *s, double c, const struct view *to)
{
  struct nest f = nest_new(k->mem, &to->shape);
  nest_store(&f, nest_const(&f, c), to, false);
  run_nest(k, s, &f);
}

static int unit_dim(const struct view *v)
{
  for (int i = v->shape.n - 1; i >= 0; i--)
    if (v->shape.d[i] > 1 && v->stride[i] == 1) return i;
  return -1;
}

// Pieces of the tensor are transposed in registers. Threads share the leading dimensions and the pieces along one side.
static void print_transpose(struct kernel *k, struct str *s)
{
  const struct view from = view_permuted(&k->in->v, &k->n->a.perm), *to = k->out;
  int p = unit_dim(&from), q = unit_dim(to), depth = 1, loops = 1;
  if (p == q || p < 0 || q < 0 || from.dtype != F32) {
    library_copy(k, s, &from, to);
    return;
  }
  const char *src = from.ptr, *dst = to->ptr;
  for (int i = 0; i < from.shape.n; i++) loops += i != p && i != q && from.shape.d[i] > 1;
  line(s, 0, "#pragma omp parallel for num_threads(MICA_THREADS) collapse(%d) schedule(static)", loops);
  for (int i = 0; i < from.shape.n; i++) {
    if (i == p || i == q || from.shape.d[i] == 1) continue;
    line(s, depth++, "for (ptrdiff_t i%d = 0; i%d < %lld; i%d++)", i, i, (long long)from.shape.d[i], i);
    src = arena_printf(k->mem, "%s + i%d * %lld", src, i, (long long)from.stride[i]);
    dst = arena_printf(k->mem, "%s + i%d * %lld", dst, i, (long long)to->stride[i]);
  }
  long long rows = from.shape.d[q], piece = 64;
  line(s, depth, "for (ptrdiff_t r = 0; r < %lld; r += %lld)", rows, piece);
  line(s, depth + 1, "m_load_tile_t(%lld - r < %lld ? (int)(%lld - r) : %lld, %lld, %s + r * %lld, %lld, %s + r, %lld);", rows, piece, rows, piece,
       (long long)from.shape.d[p], src, (long long)from.stride[q], (long long)from.stride[q], dst, (long long)to->stride[p]);
}

static void print_view(struct kernel *k, struct str *s)
{
  if (k->n->op == OP_TRANSPOSE) {
    print_transpose(k, s);
    return;
  }
  if (k->n->op == OP_SLICE) {
    struct view from = view_cut(k->mem, &k->in->v, k->n->a.dim, k->n->a.start, k->out->shape.d[k->n->a.dim]);
    library_copy(k, s, &from, k->out);
    return;
  }
  struct nest f = nest_new(k->mem, &k->out->shape); // repeat
  nest_store(&f, nest_load_repeated(&f, &k->in->v, k->n->a.dim, k->n->a.times), k->out, false);
  run_nest(k, s, &f);
}

static void print_concat(struct kernel *k, struct str *s)
{
  int64_t at = 0;
  for (int i = 0; i < k->n->nin; i++) {
    int64_t extent = k->in[i].v.shape.d[k->n->a.dim];
    struct view to = view_cut(k->mem, k->out, k->n->a.dim, at, extent);
    library_copy(k, s, &k->in[i].v, &to);
    at += extent;
  }
}

static void print_split(struct kernel *k, struct str *s)
{
  int dim = k->n->a.dim;
  int64_t extent = k->out->shape.d[dim];
  for (int i = 0; i < k->n->nout; i++) {
    struct view from = view_cut(k->mem, &k->in->v, dim, extent * node_part(k->n, i), extent);
    library_copy(k, s, &from, &k->out[i]);
  }
}

static void print_index(struct kernel *k, struct str *s)
{
  line(s, 1, "for (ptrdiff_t i = 0; i < %lld; i++) r0[i] = (float)i;", (long long)shape_size(&k->out->shape));
}

static void print_contract(struct kernel *k, struct str *s)
{
  const struct scan scan = graph_scan(k->g, NULL, k->n);
  if (scan.triangle)
    scan_kernel(k, s, &scan);
  else
    product_kernel(k, s);
}

int library_print(struct kernel *k, struct str *s, struct err *e)
{
  switch (op_rows[k->n->op].rule) {
  case RULE_MAP: print_map(k, s); return OK;
  case RULE_CONTRACT: print_contract(k, s); return OK;
  case RULE_REDUCE: print_reduce(k, s); return OK;
  case RULE_VIEW: print_view(k, s); return OK;
  case RULE_AT: return at_print(k, s, e);
  case RULE_CONCAT: print_concat(k, s); return OK;
  case RULE_SPLIT: print_split(k, s); return OK;
  case RULE_INDEX: print_index(k, s); return OK;
  case RULE_CONST: print_fill(k, s, k->n->a.scalar, k->out); return OK;
  case RULE_IO: library_copy(k, s, &k->in->v, k->out); return OK; // the output is an input, or returns the same tensor a second time
  case RULE_WORLD:
  case RULE_COMPOSITE:
  case RULE_ACCUM:
  case RULE_GRAPH: break;
  }
  return err_set(e, ERR_TARGET, k->n->at, "%s is not generated as a kernel", op_rows[k->n->op].name);
}
