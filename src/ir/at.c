// Operators with data-dependent indices. An index is a whole number whose declared range must be within the dimension, so it is checked before
// anything runs.
#include "ir/ir.h"

#include <string.h>

static const struct tensor *arg(const struct graph *g, const struct node *n, int i) { return &g->tensors[n->in[i]]; }

static int no_dim(const struct node *n, const struct shape *s, struct err *e)
{
  return err_set(e, ERR_ATTRIBUTE, n->at, "%s: dim=%d, but there are %d dimensions", op_rows[n->op].name, n->a.dim, s->n);
}

static const char *called(char out[160], const struct tensor *t)
{
  snprintf(out, 160, "%s%.100s%s", t->name ? "`" : "the index", t->name ? t->name : "", t->name ? "`" : "");
  return out;
}

// Checks the indices `at` of n along its dimension of x: whole numbers in [least, extent).
static int check_index(const struct node *n, const struct tensor *x, const struct tensor *at, int64_t least, struct err *e)
{
  char shape[128], name[160];
  const int64_t extent = x->shape.d[n->a.dim];
  shape_text(shape, &x->shape), called(name, at);
  int s = OK;
  if (!at->whole) {
    s = err_set(e, ERR_DTYPE, n->at, "%s along %d of %s: %s is %s, and indices are whole numbers", op_rows[n->op].name, n->a.dim, shape, name,
                dtype_name(at->dtype));
    return err_hint(e, "declare it as i32 or i64, or convert it: whole(x, 0, %lld)", (long long)extent - 1), s;
  }
  if (at->range.least >= least && at->range.most < extent) return OK;
  bool above = at->range.most >= extent;
  s = err_set(e, ERR_INDEX_RANGE, n->at, "%s along %d of %s %s: the range of %s %s at %lld", op_rows[n->op].name, n->a.dim,
              x->name ? x->name : "a tensor", shape, name, above ? "ends" : "begins", (long long)(above ? at->range.most : at->range.least));
  return err_hint(e, "declare it < %lld, or limit it: clamp(x, 0, %lld)", (long long)extent, (long long)extent - 1), s;
}

// *out: the shape of x with dimension dim replaced by the dimensions of `at`.
static int replaced(const struct node *n, const struct shape *x, const struct shape *at, struct shape *out, struct err *e)
{
  if (x->n - 1 + at->n > MAX_DIMS)
    return err_set(e, ERR_LIMIT, n->at, "%s: the result would have %d dimensions, at most %d", op_rows[n->op].name, x->n - 1 + at->n, MAX_DIMS);
  out->n = 0;
  for (int i = 0; i < n->a.dim; i++) out->d[out->n++] = x->d[i];
  for (int i = 0; i < at->n; i++) out->d[out->n++] = at->d[i];
  for (int i = n->a.dim + 1; i < x->n; i++) out->d[out->n++] = x->d[i];
  return OK;
}

static int gather(const struct graph *g, const struct node *n, struct tensor *out, struct err *e)
{
  const struct tensor *x = arg(g, n, 0), *at = arg(g, n, 1);
  TRY(check_index(n, x, at, 0, e));
  *out = (struct tensor){.dtype = x->dtype};
  return replaced(n, &x->shape, &at->shape, &out->shape, e);
}

static int not_distinct(const struct node *n, const struct tensor *x, const struct tensor *at, struct err *e)
{
  char name[160];
  called(name, at);
  int s = err_set(e, ERR_REPEATED_INDEX, n->at, "update of %s: %s is not known to be distinct", x->name ? x->name : "a tensor", name);
  return err_hint(e, "declare it so: at: i32[8] < 64, distinct"), s;
}

static int update(const struct graph *g, const struct node *n, struct tensor *out, struct err *e)
{
  const struct tensor *x = arg(g, n, 0), *at = arg(g, n, 1), *y = arg(g, n, 2);
  struct shape want;
  TRY(check_index(n, x, at, -1, e));
  TRY(replaced(n, &x->shape, &at->shape, &want, e));
  if (!shape_eq(&want, &y->shape)) {
    char has[128], needs[128];
    shape_text(has, &y->shape), shape_text(needs, &want);
    return err_set(e, ERR_STATE_SHAPE, n->at, "update of %s takes %s there, not %s", x->name ? x->name : "a tensor", needs, has);
  }
  if (!at->range.distinct && shape_size(&at->shape) > 1) return not_distinct(n, x, at, e);
  if (num_whole(x->dtype) && (!y->whole || y->range.least < range_default(x->dtype).least))
    return err_set(e, ERR_DTYPE, n->at, "update of %s, which is %s, with %s", x->name ? x->name : "a tensor", dtype_name(x->dtype),
                   y->whole ? "numbers below 0" : dtype_name(y->dtype));
  *out = (struct tensor){.dtype = x->dtype, .shape = x->shape};
  return OK;
}

static int topk(const struct graph *g, const struct node *n, struct tensor *out, int *nout, struct err *e)
{
  const struct tensor *x = arg(g, n, 0);
  const int64_t extent = x->shape.d[n->a.dim], most = WHOLE_MOST;
  if (n->a.k < 1 || n->a.k > extent || extent > most)
    return err_set(e, ERR_ATTRIBUTE, n->at, "topk: %lld of %lld elements along dimension %d", (long long)n->a.k, (long long)extent, n->a.dim);
  out[0] = (struct tensor){.dtype = x->dtype, .shape = x->shape};
  out[0].shape.d[n->a.dim] = n->a.k;
  out[1] = (struct tensor){.dtype = I32, .shape = out[0].shape};
  return *nout = 2, OK;
}

int infer_at(const struct graph *g, const struct node *n, struct tensor *out, int *nout, struct err *e)
{
  const struct shape *x = &arg(g, n, 0)->shape;
  if (n->a.dim < 0 || n->a.dim >= x->n) return no_dim(n, x, e);
  *nout = 1;
  if (node_has(n, SELECTS)) return topk(g, n, out, nout, e);
  return node_has(n, READS_SLICES) ? gather(g, n, out, e) : update(g, n, out, e);
}

bool graph_chooses(const struct graph *g)
{
  bool yes = false;
  for (int i = 0; i < g->nnodes && !yes; i++) yes = op_rows[g->nodes[i].op].rule == RULE_AT || (g->nodes[i].sub && graph_chooses(g->nodes[i].sub));
  return yes;
}
