// Products with a triangle of ones are running sums.
#include "legal/wrap.h"

enum { LONG_SCAN = 1 << 18, SCAN_PART = 16384, LEAST_PART = 1024 };

static int shaped(struct wrapping *w, int x, struct shape s, struct loc at, int *out)
{
  struct node n = {.op = OP_RESHAPE, .nout = 1, .a = attrs_default(OP_RESHAPE), .at = at};
  n.a.shape = s;
  return wrap_view(w, &n, x, out);
}

// Scans rows that are too long for the blocks of a cluster in parts. One kernel sums each part. Another one scans each part, and adds the sums of the
// preceding parts.
static int scan_in_parts(struct wrapping *w, const struct node *n, int whole, int64_t part, int *out)
{
  enum { X, SUMS, HERE, PART, ROW, COLUMN, LOADED };
  const struct shape s = w->to->tensors[whole].shape;
  const int64_t len = s.d[s.n - 1], rows = shape_size(&s) / len, parts = len / part;
  struct node sum = {.op = OP_SUM, .nin = 1, .nout = 1, .a = attrs_default(OP_SUM), .at = n->at};
  struct attrs along = attrs_default(OP_SUM);
  struct wrap_cut c = {0};
  int x, sums, made, from[LOADED], tile[LOADED];
  TRY(shaped(w, whole, (struct shape){3, {rows, parts, part}}, n->at, &from[X]));
  sum.a.dim = along.dim = 2;
  TRY(wrap_reduce(w, &sum, &from[X], &(struct shape){3, {rows, parts, 1}}, &sums));
  TRY(shaped(w, sums, (struct shape){3, {rows, 1, parts}}, n->at, &from[SUMS]));
  TRY(wrap_index_of(w, 2, parts, n->at, &from[HERE]));
  TRY(wrap_index_of(w, 1, parts, n->at, &from[PART]));
  TRY(wrap_index_of(w, 2, part, n->at, &from[ROW]));
  TRY(wrap_index_of(w, 1, part, n->at, &from[COLUMN]));
  wrap_add_axis(&c, 1, parts);
  if (rows > 1) wrap_add_axis(&c, 0, rows);
  struct wrap_block b = wrap_begin(w, 3, c, 1);
  for (int k = 0; k < LOADED; k++) tile[k] = k <= HERE ? wrap_load(&b, from[k], -1) : wrap_load_all(&b, from[k]);
  const int before = block_add(&b.b, OP_LESS, 2, (int[]){tile[PART], tile[HERE]}, NULL, n->at);
  const int masked = block_add(&b.b, OP_MASK, 2, (int[]){tile[SUMS], before}, NULL, n->at),
            first = block_add(&b.b, OP_SUM, 1, &masked, &along, n->at);
  const int triangle = block_add(&b.b, OP_LESS_EQUAL, 2, (int[]){tile[ROW], tile[COLUMN]}, NULL, n->at);
  x = block_add(&b.b, OP_MATMUL, 2, (int[]){tile[X], triangle}, NULL, n->at);
  TRY(wrap_end(&b, 1, block_add(&b.b, OP_ADD, 2, (int[]){x, first}, NULL, n->at), n->at, &made));
  return shaped(w, made, s, n->at, out);
}

// A product with a triangle of ones is a running sum (rule `scan` of kern/rule.def). A block has the whole dimension.
int wrap_scan(struct wrapping *w, const struct node *n, const int *in, const struct scan *s, const int *index, int *out)
{
  const int x = in[s->x], rank = w->to->tensors[x].shape.n;
  const int64_t len = w->to->tensors[x].shape.d[s->along], part = len / wrap_equal_parts(len, SCAN_PART);
  if (s->along == rank - 1 && len > LONG_SCAN && part >= LEAST_PART) return scan_in_parts(w, n, x, part, out);
  struct wrap_block b = wrap_begin(w, rank, wrap_cut_of_rows(w, s->along, x), 1);
  int tile[2], side[2];
  tile[s->x] = wrap_load(&b, x, -1);
  for (int k = 0; k < 2; k++) side[k] = wrap_load_all(&b, index[s->triangle->in[k]]);
  tile[!s->x] = block_add(&b.b, s->triangle->op, 2, side, &s->triangle->a, s->triangle->at);
  return wrap_end(&b, 1, block_add(&b.b, n->op, 2, tile, &n->a, n->at), n->at, out);
}
