// Matrix products as the vendor's library takes them: one stride for rows, columns and batches of each operand. If adjacent batches share B and their
// rows of A are contiguous, the batches become rows of one product: query heads that share one key, or a batch of vectors times one matrix. Batches
// that share A too stay batches, because the library has no rows with a stride of 0.
#include "legal/legal.h"
#include "plan/letters.h"

struct product_side {
  int root, n; // factors of the batches, slowest first, in the factors of the other side
  int64_t extent[2 * MAX_FACTORS], stride[2 * MAX_FACTORS];
  int64_t rows, cols; // strides
};

static bool push(struct product_side *s, int64_t extent, int64_t stride)
{
  if (extent == 1) return true;
  if (s->n == 2 * MAX_FACTORS) return false;
  s->extent[s->n] = extent, s->stride[s->n++] = stride;
  return true;
}

// The single stride of a dimension; false if it has several. A dimension of extent 1 has no stride: -1.
static bool one_stride(const struct kview_dim *d, int64_t *stride)
{
  *stride = d->n ? d->stride[d->n - 1] : -1;
  for (int k = 0; k + 1 < d->n; k++)
    if (d->stride[k] != d->extent[k + 1] * d->stride[k + 1]) return false;
  return true;
}

static bool side_of(const struct graph *g, const struct order *order, int tensor, const struct shape *out, struct product_side *s)
{
  struct kview v;
  *s = (struct product_side){0};
  if (!kview_in(g, order, tensor, &v)) return false;
  if (v.offset) return false; // the library's operand must begin at its buffer
  s->root = v.root;
  if (op_rows[g->nodes[g->tensors[v.root].node].op].rule == RULE_INDEX) return false; // an index has no memory
  for (int d = 0; d < out->n - 2; d++) {
    int own = d - (out->n - v.ndims);
    bool has = own >= 0 && v.dim[own].n;
    for (int k = 0; has && k < v.dim[own].n; k++)
      if (!push(s, v.dim[own].extent[k], v.dim[own].stride[k])) return false;
    if (!has && !push(s, out->d[d], 0)) return false;
  }
  const struct shape *x = &g->tensors[tensor].shape;
  if (!one_stride(&v.dim[v.ndims - 2], &s->rows) || !one_stride(&v.dim[v.ndims - 1], &s->cols)) return false;
  if (s->cols < 0) s->cols = s->rows == 1 ? x->d[x->n - 2] : 1;
  if (s->rows < 0) s->rows = s->cols == 1 ? x->d[x->n - 1] : 1;
  return s->rows == 1 || s->cols == 1;
}

static bool split(struct product_side *s, int i, int64_t fast)
{
  if (s->extent[i] % fast || s->n == 2 * MAX_FACTORS) return false;
  for (int k = s->n++; k > i; k--) s->extent[k] = s->extent[k - 1], s->stride[k] = s->stride[k - 1];
  s->extent[i] /= fast, s->extent[i + 1] = fast, s->stride[i] *= fast;
  return true;
}

// Splits the batches of both sides into the same factors.
static bool align(struct product_side *a, struct product_side *b)
{
  for (int back = 1; back <= a->n && back <= b->n; back++) {
    int64_t x = a->extent[a->n - back], y = b->extent[b->n - back];
    if (x > y && !split(a, a->n - back, y)) return false;
    if (y > x && !split(b, b->n - back, x)) return false;
  }
  return a->n == b->n;
}

static void fold_rows(struct blas_product *p, struct product_side *a, struct product_side *b)
{
  while (a->n && !b->stride[b->n - 1] && a->stride[a->n - 1] && a->cols == 1 && (p->m == 1 || a->stride[a->n - 1] == p->m * a->rows)) {
    if (p->m == 1) a->rows = a->stride[a->n - 1];
    p->m *= a->extent[--a->n], b->n--;
  }
}

static bool batch_stride(const struct product_side *s, int64_t *stride)
{
  *stride = s->n ? s->stride[s->n - 1] : 0;
  for (int i = 0; i + 1 < s->n; i++)
    if (s->stride[i] != s->extent[i + 1] * s->stride[i + 1]) return false;
  return true;
}

// Elements between rows of the result, whose columns are contiguous.
static int64_t order_row(const struct order *o, const struct shape *s)
{
  int64_t stride[MAX_DIMS], all = order_strides(o, s, stride), rows = 1;
  for (int d = 0; d < s->n - 1; d++) rows *= s->d[d];
  return all / rows;
}

bool product_of(const struct graph *g, const struct order *order, int node, struct library_product *out)
{
  const struct node *n = &g->nodes[node];
  const struct shape *x = &g->tensors[n->in[0]].shape, *o = &g->tensors[n->out].shape;
  struct blas_product *p = &out->p;
  struct product_side a, b;
  if (x->n < 2 || g->tensors[n->in[1]].shape.n < 2 || !side_of(g, order, n->in[0], o, &a) || !side_of(g, order, n->in[1], o, &b) || !align(&a, &b))
    return false;
  *out = (struct library_product){.p = {.batch = 1, .m = o->d[o->n - 2], .n = o->d[o->n - 1], .k = x->d[x->n - 1], .alpha = 1},
                                  .tensor = {a.root, b.root, n->out, -1, -1}};
  fold_rows(p, &a, &b);
  for (int i = 0; i < a.n; i++) p->batch *= a.extent[i];
  p->stride[BLAS_A][1] = a.rows, p->stride[BLAS_A][2] = a.cols, p->stride[BLAS_B][1] = b.rows, p->stride[BLAS_B][2] = b.cols;
  int64_t row = order_row(order ? &order[n->out] : NULL, o);
  p->stride[BLAS_D][0] = p->batch > 1 ? p->m * row : 0, p->stride[BLAS_D][1] = row, p->stride[BLAS_D][2] = 1;
  return batch_stride(&a, &p->stride[BLAS_A][0]) && batch_stride(&b, &p->stride[BLAS_B][0]) && blas_places(p);
}
