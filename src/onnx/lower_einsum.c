// Einsum as products of two tensors at a time, from the left. Labels that are not needed after a pair are summed, so each pair is a matrix product.
// The result's last labels that only the right operand has are its columns. The labels before them that only the left operand has are its rows. All
// earlier labels are batch dimensions; an operand without the label has extent 1. So weights of experts, td,edf->etf, need no transpose. A label may
// occur once in a term (no diagonals), and its extents must agree.
#include "onnx/einsum.h"
#include "onnx/onnx_lower.h"

#include <string.h>

struct lower_einsum_term {
  int t, n, label[MAX_DIMS];
};
struct einsum {
  struct onnx_lower *l;
  struct lower_einsum_term in[EINSUM_TERMS], out;
  int nin;
  int64_t extent[EINSUM_LABELS];
};

static int place(const struct lower_einsum_term *x, int label)
{
  for (int i = 0; i < x->n; i++)
    if (x->label[i] == label) return i;
  return -1;
}

static bool has(const struct lower_einsum_term *x, int label) { return place(x, label) >= 0; }

static struct lower_einsum_term term_of(const struct einsum_term *x, int t)
{
  struct lower_einsum_term y = {.t = t, .n = x->n};
  memcpy(y.label, x->label, sizeof y.label);
  return y;
}

static bool read_equation(struct einsum *s)
{
  struct einsum_equation q = {.terms = s->l->n->nin};
  int t[EINSUM_TERMS];
  for (int i = 0; i < MIN(q.terms, EINSUM_TERMS) && !s->l->failed; i++) t[i] = lo_in(s->l, i), q.shape[i] = lo_shape(s->l, t[i]);
  if (s->l->failed) return false;
  if (!einsum_read(&q, onnx_attr_text(s->l->n, "equation", ""))) return lo_fail(s->l, "%s", q.why), false;
  for (int i = 0; i < q.nin; i++) s->in[i] = term_of(&q.in[i], t[i]);
  s->out = term_of(&q.out, -1), s->nin = q.nin;
  memcpy(s->extent, q.extent, sizeof s->extent);
  for (int i = 0; i < q.nin; i++)
    if (q.twice[i]) lo_fail(s->l, "a label stands twice in a term, which is not taken");
  return !s->l->failed;
}

// ---- tensors ----

// Whether the label is needed after the first k inputs.
static bool needed(const struct einsum *s, int label, int k)
{
  bool is = has(&s->out, label);
  for (int i = k; i < s->nin; i++) is |= has(&s->in[i], label);
  return is;
}

static void drop(struct einsum *s, struct lower_einsum_term *x, int at)
{
  struct shape shape = *lo_shape(s->l, x->t);
  x->t = lo_dim(s->l, OP_SUM, x->t, at);
  memmove(shape.d + at, shape.d + at + 1, sizeof *shape.d * (size_t)(shape.n - at - 1));
  memmove(x->label + at, x->label + at + 1, sizeof *x->label * (size_t)(x->n - at - 1));
  shape.n--, x->n--;
  x->t = lo_reshape(s->l, x->t, &shape);
}

// Sums over the labels of x that neither `beside` nor a later input has.
static void sum_lone(struct einsum *s, struct lower_einsum_term *x, const struct lower_einsum_term *beside, int later)
{
  for (int i = x->n; i-- > 0;)
    if (!has(beside, x->label[i]) && !needed(s, x->label[i], later)) drop(s, x, i);
}

// The dimensions of x in the order of these labels, as far as it has them.
static void order(struct einsum *s, struct lower_einsum_term *x, const struct lower_einsum_term *to)
{
  struct shape perm = {0};
  struct lower_einsum_term y = {.t = x->t};
  for (int i = 0; i < to->n; i++) {
    int at = place(x, to->label[i]);
    if (at >= 0) perm.d[perm.n++] = at, y.label[y.n++] = to->label[i];
  }
  if (x->t >= 0) y.t = lo_transpose(s->l, x->t, &perm);
  *x = y;
}

static int64_t extent_of(const struct einsum *s, const struct lower_einsum_term *x)
{
  int64_t n = 1;
  for (int i = 0; i < x->n; i++) n *= s->extent[x->label[i]];
  return n;
}

static void append(struct lower_einsum_term *to, const struct lower_einsum_term *x)
{
  for (int i = 0; i < x->n; i++) to->label[to->n++] = x->label[i];
}

// Division of a pair's labels: batch, rows of x, columns of y; sum: labels of both that are not needed later.
struct lower_einsum_product {
  struct lower_einsum_term batch, rows, cols, sum;
};

static void labels_of(const struct einsum *s, const struct lower_einsum_term *x, const struct lower_einsum_term *y, int later,
                      struct lower_einsum_term *all, struct lower_einsum_term *sum)
{
  *all = *sum = (struct lower_einsum_term){0};
  for (int i = 0; i < x->n; i++) // batch: labels before the result's matrix
    if (needed(s, x->label[i], later) && !has(&s->out, x->label[i]))
      all->label[all->n++] = x->label[i];
    else if (!needed(s, x->label[i], later))
      sum->label[sum->n++] = x->label[i];
  for (int i = 0; i < y->n; i++)
    if (!has(x, y->label[i]) && !has(&s->out, y->label[i])) all->label[all->n++] = y->label[i];
  for (int i = 0; i < s->out.n; i++)
    if (has(x, s->out.label[i]) || has(y, s->out.label[i])) all->label[all->n++] = s->out.label[i];
}

static int labels_together(const struct lower_einsum_term *x, const struct lower_einsum_term *y)
{
  int n = x->n;
  for (int i = 0; i < y->n; i++) n += !has(x, y->label[i]);
  return n;
}

static bool shared(const struct lower_einsum_term *x, const struct lower_einsum_term *y, int label) { return has(x, label) && has(y, label); }

// If both operands have the last label, rows and columns are moved after it, so that they do not become batch dimensions.
static void shared_first(const struct lower_einsum_term *x, const struct lower_einsum_term *y, struct lower_einsum_term *all)
{
  struct lower_einsum_term to = {0};
  for (int pass = 0; pass < 3; pass++)
    for (int i = 0; i < all->n; i++) {
      int label = all->label[i], of = shared(x, y, label) ? 0 : has(x, label) ? 1 : 2;
      if (of == pass) to.label[to.n++] = label;
    }
  *all = to;
}

static void divide(const struct lower_einsum_term *x, const struct lower_einsum_term *y, const struct lower_einsum_term *all,
                   struct lower_einsum_product *p)
{
  int i = all->n, cols, rows;
  while (i > 0 && !has(x, all->label[i - 1])) i--;
  cols = i;
  while (i > 0 && !has(y, all->label[i - 1])) i--;
  rows = i;
  for (i = 0; i < all->n; i++) {
    struct lower_einsum_term *to = i < rows ? &p->batch : i < cols ? &p->rows : &p->cols;
    to->label[to->n++] = all->label[i];
  }
}

// x as [batch, a, b]; batch labels that it lacks have extent 1.
static int matrix(struct einsum *s, struct lower_einsum_term x, const struct lower_einsum_product *p, const struct lower_einsum_term *a,
                  const struct lower_einsum_term *b)
{
  struct lower_einsum_term to = p->batch;
  struct shape shape = {0};
  append(&to, a), append(&to, b);
  order(s, &x, &to);
  for (int i = 0; i < p->batch.n; i++) shape.d[shape.n++] = has(&x, p->batch.label[i]) ? s->extent[p->batch.label[i]] : 1;
  shape.d[shape.n++] = extent_of(s, a), shape.d[shape.n++] = extent_of(s, b);
  return lo_reshape(s->l, x.t, &shape);
}

static void multiply(struct einsum *s, struct lower_einsum_term *x, struct lower_einsum_term *y, int later)
{
  struct lower_einsum_product p = {0};
  struct lower_einsum_term all;
  sum_lone(s, x, y, later), sum_lone(s, y, x, later);
  if (labels_together(x, y) > MAX_DIMS) return lo_fail(s->l, "two of its terms have more than %d labels together", MAX_DIMS);
  labels_of(s, x, y, later, &all, &p.sum);
  int last = all.n ? all.label[all.n - 1] : -1;
  if (last >= 0 && shared(x, y, last) && p.sum.n) shared_first(x, y, &all);
  last = all.n ? all.label[all.n - 1] : -1;
  struct lower_einsum_term *left = x, *right = y;
  if (last >= 0 && !has(y, last)) left = y, right = x;
  divide(left, right, &all, &p);
  if (p.batch.n + 2 > MAX_DIMS) return lo_fail(s->l, "it is a product of more than %d dimensions", MAX_DIMS);
  struct shape shape = {.n = all.n};
  for (int i = 0; i < all.n; i++) shape.d[i] = s->extent[all.label[i]];
  int a = matrix(s, *left, &p, &p.rows, &p.sum), b = matrix(s, *right, &p, &p.sum, &p.cols);
  bool sums = p.sum.n > 0;
  x->t = lo_reshape(s->l, lo_op2(s->l, sums ? OP_MATMUL : OP_MUL, a, b), &shape);
  x->n = all.n, memcpy(x->label, all.label, sizeof all.label);
}

void onnx_as_einsum(struct onnx_lower *l)
{
  struct einsum s = {.l = l};
  if (!read_equation(&s)) return;
  struct lower_einsum_term x = s.in[0], nothing = {0};
  for (int k = 1; k < s.nin && !l->failed; k++) multiply(&s, &x, &s.in[k], k + 1);
  if (s.nin == 1) sum_lone(&s, &x, &nothing, 1);
  order(&s, &x, &s.out);
  lo_out(l, 0, x.t);
}
