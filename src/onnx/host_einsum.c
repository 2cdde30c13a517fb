// Einsum on cells of any type: for each element of the result, a sum of products over all labels that the result lacks.
#include "onnx/einsum.h"
#include "onnx/onnx_host.h"

#include <string.h>

static const int64_t MOST_PRODUCTS = (int64_t)1 << 32;

struct host_einsum {
  int n, nout, terms; // number of labels, those of the result first
  int64_t extent[EINSUM_LABELS], stride[EINSUM_TERMS][EINSUM_LABELS], at[EINSUM_LABELS], place[EINSUM_TERMS];
};

// A label that occurs twice has the sum of both strides: a diagonal.
static void add_label(struct host_einsum *s, const struct einsum_equation *q, int label)
{
  int64_t stride[MAX_DIMS];
  for (int k = 0; k < q->nin; k++) {
    host_strides(q->shape[k], stride);
    for (int i = 0; i < q->in[k].n; i++)
      if (q->in[k].label[i] == label) s->stride[k][s->n] += stride[i];
  }
  s->extent[s->n++] = q->extent[label];
}

static bool in_result(const struct einsum_equation *q, int label)
{
  bool is = false;
  for (int i = 0; i < q->out.n; i++) is |= q->out.label[i] == label;
  return is;
}

// Advances to the next index of labels from .. to - 1.
static void advance(struct host_einsum *s, int from, int to)
{
  for (int l = to; l-- > from;) {
    const bool back = ++s->at[l] == s->extent[l];
    for (int k = 0; k < s->terms; k++) s->place[k] += back ? -(s->extent[l] - 1) * s->stride[k][l] : s->stride[k][l];
    if (!back) return;
    s->at[l] = 0;
  }
}

static int64_t product_of(const struct host_einsum *s, int from, int to)
{
  int64_t n = 1;
  for (int l = from; l < to; l++) n = s->extent[l] > MOST_PRODUCTS / n ? MOST_PRODUCTS + 1 : n * s->extent[l];
  return n;
}

static void run(struct onnx_host *h, struct onnx_cells *y, struct host_einsum *s)
{
  const int64_t n = product_of(s, 0, s->nout), inner = product_of(s, s->nout, s->n);
  const bool whole = onnx_type_kind(y->type) == WHOLE;
  for (int64_t e = 0; e < n; e++, advance(s, 0, s->nout)) {
    uint64_t exact = 0;
    double sum = 0;
    for (int64_t i = 0; i < inner; i++, advance(s, s->nout, s->n)) {
      uint64_t p = 1;
      double x = 1;
      for (int k = 0; k < s->terms; k++)
        if (whole)
          p *= (uint64_t)h->in[k]->i[s->place[k]];
        else
          x *= host_number(h->in[k], s->place[k]);
      exact += p, sum += x;
    }
    if (whole)
      y->i[e] = (int64_t)exact;
    else
      host_store(y, e, sum);
  }
}

void host_einsum(struct onnx_host *h)
{
  struct einsum_equation q = {.terms = h->nin};
  struct host_einsum s = {0};
  struct shape shape = {0};
  for (int k = 0; k < MIN(h->nin, EINSUM_TERMS) && !h->failed; k++) {
    const struct onnx_cells *x = host_in(h, k);
    if (!h->failed && x->type != h->in[0]->type) host_fail(h, "it takes %s and %s", onnx_type_name(h->in[0]->type), onnx_type_name(x->type));
    if (!h->failed) q.shape[k] = &x->shape;
  }
  if (h->failed) return;
  if (!einsum_read(&q, onnx_attr_text(h->n, "equation", ""))) return host_fail(h, "%s", q.why);
  for (int i = 0; i < q.out.n; i++) shape.d[shape.n++] = q.extent[q.out.label[i]], add_label(&s, &q, q.out.label[i]);
  s.nout = s.n, s.terms = q.nin;
  for (int label = 0; label < EINSUM_LABELS; label++)
    if (q.extent[label] && !in_result(&q, label)) add_label(&s, &q, label);
  if (product_of(&s, 0, s.n) > MOST_PRODUCTS) return host_fail(h, "its equation takes more than %lld products", (long long)MOST_PRODUCTS);
  struct onnx_cells *y = host_out(h, 0, h->in[0]->type, &shape);
  if (!h->failed && y->p) run(h, y, &s);
}
