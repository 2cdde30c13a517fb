// Operators with data-dependent indices, as loops: gather and update move slices, topk selects the largest elements of a row. An index outside its
// dimension reads 0 and writes nothing. The entry functions have checked the inputs, so only computed indices can be outside.
#include "gen/emit.h"

enum { DEEP = MAX_DIMS + 2 };
static const int64_t FEW = 1 << 14; // up to this number of elements, one thread moves all

static bool dense_behind(const struct view *v, int from)
{
  int64_t step = 1;
  for (int i = v->shape.n - 1; i >= from; i--) {
    if (v->shape.d[i] != 1 && v->stride[i] != step) return false;
    step *= v->shape.d[i];
  }
  return true;
}

// ptr + i0 * stride + ... over dimensions from .. to - 1, whose loops are first, first + 1, ...
static const char *address(struct kernel *k, const struct view *v, const char *ptr, int from, int to, int first)
{
  for (int d = from; d < to; d++)
    if (v->shape.d[d] > 1) ptr = arena_printf(k->mem, "%s + i%d * %lld", ptr, first + d - from, (long long)v->stride[d]);
  return ptr;
}

static void loops(struct str *s, int depth, const struct shape *shape, int from, int to, int first)
{
  for (int d = from; d < to; d++)
    line(s, depth + d - from, "for (ptrdiff_t i%d = 0; i%d < %lld; i%d++)%s", first + d - from, first + d - from, (long long)shape->d[d],
         first + d - from, d == to - 1 ? " {" : "");
}

static const char *read_number(struct kernel *k, enum dtype t, const char *at)
{
  return t == F32 ? arena_printf(k->mem, "*(%s)", at) : arena_printf(k->mem, "m_%s_to_f32(*(%s))", dtype_name(t), at);
}

static void store_number(struct kernel *k, struct str *s, int depth, const struct view *to, const char *at, const char *value)
{
  if (to->dtype == F32)
    line(s, depth, "*(%s) = %s;", at, value);
  else
    line(s, depth, "m_stn_%s(%s, 1, m_splat(%s));", dtype_name(to->dtype), at, value);
  (void)k;
}

// A move of slices of a view along dim, selected by `at`. The slices are contiguous in the other view.
struct slices {
  struct kernel *k;
  struct str *s;
  const struct view *at, *many, *one; // many: the view with the whole dimension
  int dim;
};

// Copies one slice. Both views have the same inner dimensions, which begin at mf and mt.
static void move_slice(const struct slices *w, int depth, const struct view *from, const char *source, int mf, const struct view *to,
                       const char *target, int mt)
{
  struct kernel *k = w->k;
  int inner = to->shape.n - mt, first = DEEP;
  int64_t size = 1;
  for (int i = mt; i < to->shape.n; i++) size *= to->shape.d[i];
  if (from->dtype == to->dtype && dense_behind(from, mf) && dense_behind(to, mt)) {
    line(w->s, depth, "memcpy(%s, %s, %lld);", target, source, (long long)(size * dtype_bytes(to->dtype)));
    return;
  }
  loops(w->s, depth, &to->shape, mt, to->shape.n, first);
  const char *x = address(k, from, source, mf, from->shape.n, first), *y = address(k, to, target, mt, to->shape.n, first);
  if (from->dtype == to->dtype)
    line(w->s, depth + inner, "*(%s) = *(%s);", y, x);
  else
    store_number(k, w->s, depth + inner, to, y, read_number(k, from->dtype, x));
  if (inner) line(w->s, depth, "}");
}

static void zero_slice(const struct slices *w, int depth, const char *target, int mt)
{
  const struct shape *s = &w->one->shape;
  int64_t size = 1;
  for (int i = mt; i < s->n; i++) size *= s->d[i];
  line(w->s, depth, "memset(%s, 0, %lld);", target, (long long)(size * dtype_bytes(w->one->dtype)));
}

static void parallel(struct kernel *k, struct str *s, int n, int64_t size)
{
  if (n && size > FEW && k->threads > 1) line(s, 0, "#pragma omp parallel for num_threads(MICA_THREADS) collapse(%d) schedule(static)", n);
}

// Loops over the outer dimensions and those of `at`, with one slice in each step.
static void each_slice(const struct slices *w, bool reads)
{
  struct kernel *k = w->k;
  const int rank = w->at->shape.n, outer = w->dim + rank;
  parallel(k, w->s, outer, shape_size(&w->one->shape));
  loops(w->s, 1, &w->one->shape, 0, outer, 0);
  const char *number = read_number(k, w->at->dtype, address(k, w->at, w->at->ptr, 0, rank, w->dim));
  const char *whole = address(k, w->many, w->many->ptr, 0, w->dim, 0);
  whole = arena_printf(k->mem, "%s + at * %lld", whole, (long long)w->many->stride[w->dim]);
  const char *slice = address(k, w->one, w->one->ptr, 0, outer, 0);
  int depth = 1 + outer;
  line(w->s, depth, "const ptrdiff_t at = (ptrdiff_t)(%s);", number);
  line(w->s, depth, "if (at >= 0 && at < %lld) {", (long long)w->many->shape.d[w->dim]);
  if (reads)
    move_slice(w, depth + 1, w->many, whole, w->dim + 1, w->one, slice, outer);
  else
    move_slice(w, depth + 1, w->one, slice, outer, w->many, whole, w->dim + 1);
  line(w->s, depth, "}%s", reads ? " else" : "");
  if (reads) zero_slice(w, depth + 1, slice, outer);
  if (outer) line(w->s, 1, "}");
}

static void print_gather(struct kernel *k, struct str *s) { each_slice(&(struct slices){k, s, &k->in[1].v, &k->in[0].v, k->out, k->n->a.dim}, true); }

// Prints an update. It is in place if the result shares the operand's memory.
static void print_update(struct kernel *k, struct str *s)
{
  const struct view *x = &k->in[0].v;
  if (view_is_dense(x)) {
    line(s, 1, "if ((const void *)%s != (const void *)(%s)) memcpy(%s, %s, %lld);", k->out->ptr, x->ptr, k->out->ptr, x->ptr,
         (long long)(shape_size(&x->shape) * dtype_bytes(x->dtype)));
  } else {
    library_copy(k, s, x, k->out);
  }
  each_slice(&(struct slices){k, s, &k->in[1].v, k->out, &k->in[2].v, k->n->a.dim}, false);
}

// Prints topk. NaN is the largest value. Ties are broken by the lower index.
static void print_topk(struct kernel *k, struct str *s)
{
  const struct view *x = &k->in[0].v, *values = k->out, *index = k->out + 1;
  const int dim = k->n->a.dim, rank = x->shape.n;
  const long long count = k->n->a.k, extent = x->shape.d[dim];
  struct shape outer = x->shape;
  outer.d[dim] = 1;
  parallel(k, s, rank, shape_size(&x->shape));
  loops(s, 1, &outer, 0, rank, 0);
  struct view flat = *x, to = *values, number = *index;
  flat.shape.d[dim] = to.shape.d[dim] = number.shape.d[dim] = 1;
  const char *from = address(k, &flat, x->ptr, 0, rank, 0);
  const int d = 1 + rank;
  line(s, d, "float best[%lld];\n  ptrdiff_t where[%lld], have = 0;", count, count);
  line(s, d, "for (ptrdiff_t j = 0; j < %lld; j++) {", extent);
  line(s, d + 1, "const float x = %s;", read_number(k, x->dtype, arena_printf(k->mem, "%s + j * %lld", from, (long long)x->stride[dim])));
  line(s, d + 1, "if (have == %lld && !m_before(x, best[have - 1])) continue;", count);
  line(s, d + 1, "have += have < %lld;", count);
  line(s, d + 1, "ptrdiff_t r = have - 1;");
  line(s, d + 1, "for (; r > 0 && m_before(x, best[r - 1]); r--) best[r] = best[r - 1], where[r] = where[r - 1];");
  line(s, d + 1, "best[r] = x, where[r] = j;");
  line(s, d, "}");
  line(s, d, "for (ptrdiff_t r = 0; r < %lld; r++) {", count);
  line(s, d + 1, "*(%s + r * %lld) = *(%s + where[r] * %lld);", address(k, &to, values->ptr, 0, rank, 0), (long long)values->stride[dim], from,
       (long long)x->stride[dim]);
  line(s, d + 1, "*(%s + r * %lld) = (%s)where[r];", address(k, &number, index->ptr, 0, rank, 0), (long long)index->stride[dim],
       c_type(index->dtype));
  line(s, d, "}");
  if (rank) line(s, 1, "}");
}

int at_print(struct kernel *k, struct str *s, struct err *e)
{
  enum { MOST = 4096 }; // elements kept on a thread's stack
  if (node_has(k->n, SELECTS) && k->n->a.k > MOST) return err_set(e, ERR_TARGET, k->n->at, "topk of more than %d elements", MOST);
  if (node_has(k->n, SELECTS))
    print_topk(k, s);
  else if (node_has(k->n, READS_SLICES))
    print_gather(k, s);
  else
    print_update(k, s);
  return OK;
}
