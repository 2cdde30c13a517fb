// Block graphs in normal form. Each iterator's dimensions start as separate letters. Letters that an operator traverses together are unified, and a
// reshape splits letters. The result has no views: a view is its root under another order of the same letters. It has the letters of each tensor, and
// the positions of its elements in device memory, as all schemes need them. Requires a checked kernel graph without composites.
#include "plan/letters.h"
#include "plan/passes.h"

#include <string.h>

struct making {
  struct norm *n;
  struct raw_letters raw;
  struct raw_list (*dim)[MAX_DIMS]; // for each tensor and dimension
  int *ndims;
  struct raw_stride { // for each iterator: letters of its tile with their strides
    int n, id[RAW_LIST];
    int64_t stride[RAW_LIST];
  } * from;
  int8_t compact[RAW_LETTERS]; // the letter's number in the norm; -1: none yet
  int joined[MAX_LOOPS];       // the letter of a loop axis in a tensor that joins its parts; -1: none
  bool singles;                // single elements of a long loop are letters
  char *why;
};

// If a loop takes single elements of a long dimension, the element is a letter too, so that a scheme can give it another extent. The same holds for
// blocks of single columns of a product. During construction its extent is a prime that no dimension has, so it is unified only with others like it.
static const int64_t UNIT = 1099511627791;
enum { LONG_LOOP = 16 };

static int cannot(struct making *m, const struct node *n, const char *what) { return snprintf(m->why, 160, "%s: %s", op_rows[n->op].name, what), NO; }

static const struct graph *block_of(const struct making *m) { return m->n->block; }

// ---- iterators ----

static bool add_factor(struct making *m, const struct node *n, struct raw_stride *from, int d, int64_t extent, int64_t stride)
{
  int id = raw_fresh(&m->raw, extent);
  raw_push(&m->raw, &m->dim[n->out][d], id);
  if (from->n == RAW_LIST) return false;
  from->id[from->n] = id, from->stride[from->n++] = stride;
  return true;
}

// Whether the grid axis divides the tensor that the tile is loaded from; -1: the tile is computed.
static int cuts(const struct graph *b, int tile, int axis)
{
  const struct node *n = &b->nodes[b->tensors[graph_root(b, tile)].node];
  return n->op == OP_ITER ? n->a.imap[axis] != REPLICA : -1;
}

// Whether blocks along the grid axis have different columns of a product and the same rows.
static bool along_columns(const struct graph *b, int axis)
{
  for (int i = 0; i < b->nnodes && b->grid[axis] >= LONG_LOOP; i++)
    if (b->nodes[i].op == OP_MATMUL && !cuts(b, b->nodes[i].in[0], axis) && cuts(b, b->nodes[i].in[1], axis) == 1) return true;
  return false;
}

// The step of the long loop that takes single elements of dimension d, or of the blocks that do; 0: none.
static int64_t single_step(const struct graph *b, const struct node *n, const struct plan_access *a, int d)
{
  for (int i = 0; i < b->nloop; i++)
    if (n->a.fmap[i] == d && b->loop[i] >= LONG_LOOP) return a->loop[i];
  for (int i = 0; i < b->ngrid; i++)
    if (n->a.imap[i] == d && along_columns(b, i)) return a->grid[i];
  return 0;
}

static int iterator(struct making *m, const struct node *n, int input)
{
  const struct graph *b = block_of(m);
  struct kview v;
  struct plan_access *a = &m->n->iter[m->n->niter];
  struct raw_stride *from = &m->from[m->n->niter];
  if (!kview_in(m->n->kernels, m->n->order, input, &v)) return cannot(m, n, "its operand is a view that strides cannot express");
  *a = (struct plan_access){.tile = n->out, .tensor = v.root, .offset = v.offset};
  for (int i = 0; i < b->ngrid; i++)
    if (n->a.imap[i] != REPLICA && !kview_take(&v.dim[n->a.imap[i]], b->grid[i], &a->grid[i]))
      return cannot(m, n, "a grid axis divides a view where it has no stride");
  for (int i = 0; i < b->nloop; i++)
    if (n->a.fmap[i] != REPLICA && !kview_take(&v.dim[n->a.fmap[i]], b->loop[i], &a->loop[i]))
      return cannot(m, n, "a loop axis divides a view where it has no stride");
  for (int d = 0; d < v.ndims; d++) {
    int64_t single = v.dim[d].n || !m->singles ? 0 : single_step(b, n, a, d);
    bool fits = !single || add_factor(m, n, from, d, UNIT, single);
    for (int k = 0; k < v.dim[d].n && fits; k++) fits = add_factor(m, n, from, d, v.dim[d].extent[k], v.dim[d].stride[k]);
    if (!fits) return cannot(m, n, "too many factors");
  }
  m->ndims[n->out] = v.ndims;
  m->n->iter_of[n->out] = m->n->niter++;
  return OK;
}

// ---- operators ----

static void same_dims(struct making *m, int to, int from)
{
  memcpy(m->dim[to], m->dim[from], sizeof m->dim[to]);
  m->ndims[to] = m->ndims[from];
}

// Dimension d of tensor t, counted from the last; empty if it does not exist.
static const struct raw_list *from_last(const struct making *m, int t, int d)
{
  static const struct raw_list none;
  return d < m->ndims[t] ? &m->dim[t][m->ndims[t] - 1 - d] : &none;
}

// Unifies dimension d, counted from the last, of out with those of x and y, if they have one.
static bool join(struct making *m, int out, int d, int x, int y)
{
  struct raw_list a = raw_resolve(&m->raw, from_last(m, x, d)), b = raw_resolve(&m->raw, from_last(m, y, d));
  if (a.n && b.n && !raw_unify(&m->raw, &a, &b)) return false;
  m->dim[out][m->ndims[out] - 1 - d] = a.n ? a : b;
  return true;
}

static int map(struct making *m, const struct node *n)
{
  int x = n->in[0], y = n->in[n->nin - 1];
  m->ndims[n->out] = MAX(m->ndims[x], m->ndims[y]);
  for (int d = 0; d < m->ndims[n->out]; d++)
    if (!join(m, n->out, d, x, y)) return cannot(m, n, "extents of the operands do not divide each other");
  return OK;
}

static int contract(struct making *m, const struct node *n)
{
  int pairs = n->op == OP_CONCAT_MATMUL ? 2 : 1, a = n->in[0], b = n->in[pairs];
  m->ndims[n->out] = MAX(m->ndims[a], m->ndims[b]);
  for (int i = 0; i < pairs; i++)
    if (!raw_unify(&m->raw, from_last(m, n->in[i], 0), from_last(m, n->in[pairs + i], 1)))
      return cannot(m, n, "the summed dimension is partitioned differently in its operands");
  if (pairs == 2 && (!raw_unify(&m->raw, from_last(m, n->in[0], 1), from_last(m, n->in[1], 1)) ||
                     !raw_unify(&m->raw, from_last(m, n->in[2], 0), from_last(m, n->in[3], 0))))
    return cannot(m, n, "rows or columns are partitioned differently in its operands");
  for (int d = 2; d < m->ndims[n->out]; d++)
    if (!join(m, n->out, d, a, b)) return cannot(m, n, "batches are partitioned differently in its operands");
  m->dim[n->out][m->ndims[n->out] - 1] = *from_last(m, b, 0);
  m->dim[n->out][m->ndims[n->out] - 2] = *from_last(m, a, 1);
  return OK;
}

// The remaining part of the reduced dimension: nothing, groups, or the parts of sum_to.
static int reduce(struct making *m, const struct node *n)
{
  struct raw_list slow, fast, *dim = &m->dim[n->out][n->a.dim];
  bool parts = n->op == OP_SUM_TO || n->op == OP_ACCUM_SUM_TO, groups = n->op == OP_SUM && n->a.group;
  same_dims(m, n->out, n->in[0]);
  if (!parts && !groups) return *dim = (struct raw_list){0}, OK;
  if (!raw_cut(&m->raw, dim, parts ? n->a.extent : n->a.group, &slow, &fast)) return cannot(m, n, "its groups divide a dimension unevenly");
  *dim = parts ? fast : slow;
  return OK;
}

// Dimension d of a tensor that joins the parts of iterations: its loop axes, then the part's dimension.
static void join_parts(struct making *m, const struct node *n, int d)
{
  struct raw_list part = m->dim[n->in[0]][d], *out = &m->dim[n->out][d];
  *out = (struct raw_list){0};
  for (int i = 0; i < block_of(m)->nloop; i++) {
    if (n->a.fmap[i] != d) continue;
    if (m->joined[i] < 0) m->joined[i] = raw_fresh(&m->raw, block_of(m)->loop[i]);
    raw_push(&m->raw, out, m->joined[i]);
  }
  for (int k = 0; k < part.n; k++) raw_push(&m->raw, out, part.id[k]);
}

static int accumulate(struct making *m, const struct node *n)
{
  unsigned flags = op_rows[n->op].flags;
  if (flags & RESCALES)
    for (int d = 0; d < m->ndims[n->in[1]]; d++) {
      struct raw_list x = raw_resolve(&m->raw, from_last(m, n->in[0], d)), f = raw_resolve(&m->raw, from_last(m, n->in[1], d));
      if (x.n && f.n && !raw_unify(&m->raw, &x, &f)) return cannot(m, n, "the factor's extents do not divide those of what is added");
    }
  if (flags & REDUCES) return reduce(m, n);
  for (int i = 0; i < n->nout; i++) same_dims(m, n->out + i, n->in[0]);
  for (int d = 0; n->op == OP_ACCUM && d < m->ndims[n->out]; d++) join_parts(m, n, d);
  return OK;
}

// A dimension of extent 1 takes the last remaining letter, if that is a single element of a loop.
static bool take_single(const struct making *m, struct raw_list *rest, int64_t extent, struct raw_list *dim)
{
  if (extent != 1 || !rest->n || m->raw.extent[rest->id[rest->n - 1]] != UNIT) return false;
  *dim = (struct raw_list){.n = 1, .id = {rest->id[--rest->n]}};
  return true;
}

static int reshape(struct making *m, const struct node *n)
{
  const struct shape *s = &block_of(m)->tensors[n->out].shape;
  struct raw_list rest = {0}, slow;
  for (int d = 0; d < m->ndims[n->in[0]]; d++)
    for (int k = 0; k < m->dim[n->in[0]][d].n; k++) raw_push(&m->raw, &rest, m->dim[n->in[0]][d].id[k]);
  m->ndims[n->out] = s->n;
  for (int d = s->n - 1; d >= 0; d--, rest = slow) {
    slow = rest = raw_resolve(&m->raw, &rest);
    if (take_single(m, &slow, s->d[d], &m->dim[n->out][d])) continue;
    if (!raw_cut(&m->raw, &rest, s->d[d], &slow, &m->dim[n->out][d])) return cannot(m, n, "divides a dimension unevenly");
  }
  return rest.n ? cannot(m, n, "omits a dimension") : OK;
}

static int view(struct making *m, const struct node *n)
{
  int x = n->in[0], rank = m->ndims[x];
  if (n->op == OP_RESHAPE) return reshape(m, n);
  same_dims(m, n->out, x);
  if (n->op == OP_REPEAT) raw_push(&m->raw, &m->dim[n->out][n->a.dim], raw_fresh(&m->raw, n->a.times));
  if (n->op != OP_TRANSPOSE) return OK;
  for (int i = 0; i < rank; i++) m->dim[n->out][i] = m->dim[x][perm_of(&n->a, rank, i)];
  return OK;
}

// Equal parts of a dimension: the number of the part, then the part's index.
static int split(struct making *m, const struct node *n)
{
  struct raw_list slow, fast;
  m->n->joins = true;
  if (!raw_cut(&m->raw, &m->dim[n->in[0]][n->a.dim], block_of(m)->tensors[n->out].shape.d[n->a.dim], &slow, &fast))
    return cannot(m, n, "its parts divide a dimension unevenly");
  for (int i = 0; i < n->nout; i++) {
    same_dims(m, n->out + i, n->in[0]);
    m->dim[n->out + i][n->a.dim] = fast;
  }
  return OK;
}

static int concat(struct making *m, const struct node *n)
{
  struct raw_list whole = {0}, part;
  m->n->joins = true;
  same_dims(m, n->out, n->in[0]);
  for (int i = 1; i < n->nin; i++)
    for (int d = 0; d < m->ndims[n->out]; d++)
      if (!raw_unify(&m->raw, &m->dim[n->in[0]][d], &m->dim[n->in[i]][d])) return cannot(m, n, "its parts are of different extents");
  part = m->dim[n->in[0]][n->a.dim];
  raw_push(&m->raw, &whole, raw_fresh(&m->raw, n->nin));
  for (int k = 0; k < part.n; k++) raw_push(&m->raw, &whole, part.id[k]);
  m->dim[n->out][n->a.dim] = whole;
  return OK;
}

// Removes the indexed dimension and inserts the dimensions of the indices.
static void gather(struct making *m, const struct node *n)
{
  const int x = n->in[0], at = n->in[1], dim = n->a.dim, more = m->ndims[at];
  m->ndims[n->out] = m->ndims[x] - 1 + more;
  for (int d = 0; d < m->ndims[n->out]; d++)
    m->dim[n->out][d] = d < dim ? m->dim[x][d] : d < dim + more ? m->dim[at][d - dim] : m->dim[x][d - more + 1];
}

// The written slices have the other dimensions of the target.
static int update(struct making *m, const struct node *n)
{
  const int x = n->in[0], at = n->in[1], y = n->in[2], dim = n->a.dim, more = m->ndims[at];
  bool alike = true;
  for (int d = 0; d < m->ndims[y] && alike; d++) {
    const struct raw_list *other = d < dim ? &m->dim[x][d] : d < dim + more ? &m->dim[at][d - dim] : &m->dim[x][d - more + 1];
    alike = raw_unify(&m->raw, other, &m->dim[y][d]);
  }
  same_dims(m, n->out, x);
  return alike ? OK : cannot(m, n, "slices are partitioned differently in its operands");
}

// Both results have the number of the selected element instead of the dimension.
static void topk(struct making *m, const struct node *n)
{
  struct raw_list number = {0};
  if (n->a.k > 1) raw_push(&m->raw, &number, raw_fresh(&m->raw, n->a.k));
  for (int i = 0; i < n->nout; i++) {
    same_dims(m, n->out + i, n->in[0]);
    m->dim[n->out + i][n->a.dim] = number;
  }
}

static int choose(struct making *m, const struct node *n)
{
  m->n->chooses = true;
  if (node_has(n, WRITES_SLICES)) return update(m, n);
  if (node_has(n, SELECTS))
    topk(m, n);
  else
    gather(m, n);
  return OK;
}

static int one_node(struct making *m, const struct node *n, int *iterators)
{
  const struct node *above = &m->n->kernels->nodes[m->n->node];
  switch (op_rows[n->op].rule) {
  case RULE_IO: return n->op == OP_ITER ? iterator(m, n, above->in[(*iterators)++]) : OK;
  case RULE_CONST: return m->ndims[n->out] = block_of(m)->tensors[n->out].shape.n, OK;
  case RULE_MAP: return map(m, n);
  case RULE_CONTRACT: return contract(m, n);
  case RULE_REDUCE: return reduce(m, n);
  case RULE_ACCUM: return accumulate(m, n);
  case RULE_VIEW: return view(m, n);
  case RULE_CONCAT: return concat(m, n);
  case RULE_SPLIT: return split(m, n);
  case RULE_AT: return choose(m, n);
  case RULE_INDEX:
  case RULE_WORLD:
  case RULE_COMPOSITE:
  case RULE_GRAPH: break;
  }
  return cannot(m, n, "has no normal form");
}

// ---- the result, in final letters ----

static int letter_of(struct making *m, int id)
{
  struct norm *n = m->n;
  if (m->compact[id] < 0) {
    if (n->nletters == MAX_LETTERS) return m->raw.full = true, 0;
    bool unit = m->raw.extent[id] == UNIT;
    n->extent[n->nletters] = unit ? 1 : m->raw.extent[id];
    n->units |= (uint32_t)unit << n->nletters;
    m->compact[id] = (int8_t)n->nletters++;
  }
  return m->compact[id];
}

static int settle_tensor(struct making *m, int t)
{
  struct norm_tensor *x = &m->n->t[t];
  x->ndims = m->ndims[t];
  for (int d = 0; d < x->ndims; d++) {
    struct raw_list l = raw_resolve(&m->raw, &m->dim[t][d]);
    if (l.n > MAX_FACTORS) return m->raw.full = true, NO;
    x->dim[d].n = l.n;
    for (int k = 0; k < l.n; k++) {
      int letter = letter_of(m, l.id[k]);
      if (x->has >> letter & 1) return snprintf(m->why, 160, "a tensor has the same index twice"), NO;
      x->dim[d].letter[k] = (int8_t)letter, x->has |= 1u << letter;
    }
  }
  return OK;
}

struct settling {
  struct making *m;
  struct plan_access *a;
  int64_t *step;
};

static void settle_stride(void *arg, int id, int64_t stride)
{
  struct settling *s = arg;
  s->a->stride[letter_of(s->m, id)] = stride;
}

static void settle_step(void *arg, int id, int64_t step)
{
  struct settling *s = arg;
  s->m->n->joins = true;
  s->step[letter_of(s->m, id)] = step;
}

// Sets the positions in device memory of a saver's tile.
static void saver(struct making *m, const struct node *n, int out)
{
  const struct graph *b = block_of(m);
  const struct shape *whole = &m->n->kernels->tensors[out].shape, *tile = &b->tensors[n->in[0]].shape;
  const struct norm_tensor *x = &m->n->t[n->in[0]];
  struct plan_access *a = &m->n->save[m->n->nsave++];
  *a = (struct plan_access){.tile = n->in[0], .tensor = out};
  int64_t dim_stride[MAX_DIMS];
  order_strides(m->n->order ? &m->n->order[out] : NULL, whole, dim_stride);
  for (int d = whole->n - 1; d >= 0; d--) {
    int64_t stride = dim_stride[d];
    for (int k = x->dim[d].n - 1; k >= 0; stride *= m->n->extent[(int)x->dim[d].letter[k--]]) a->stride[(int)x->dim[d].letter[k]] = stride;
    stride = dim_stride[d] * tile->d[d];
    for (int i = b->ngrid - 1; i >= 0; i--)
      if (n->a.omap[i] == d) a->grid[i] = stride, stride *= b->grid[i];
  }
}

static int settle(struct making *m)
{
  struct norm *n = m->n;
  const struct graph *b = n->block;
  memset(m->compact, -1, sizeof m->compact);
  for (int t = 0; t < b->ntensors; t++)
    if (settle_tensor(m, t) != OK) return NO;
  for (int i = 0; i < n->niter; i++)
    for (int k = 0; k < m->from[i].n; k++)
      raw_strides(&m->raw, m->from[i].id[k], m->from[i].stride[k], &(struct settling){m, &n->iter[i], NULL}, settle_stride);
  for (int i = 0; i < b->nloop; i++)
    if (m->joined[i] >= 0) raw_strides(&m->raw, m->joined[i], 1, &(struct settling){m, NULL, n->step[i]}, settle_step);
  for (int i = 0, saves = 0; i < b->nnodes; i++)
    if (b->nodes[i].op == OP_SAVE) saver(m, &b->nodes[i], n->kernels->nodes[n->node].out + saves++);
  return m->raw.full ? NO : OK;
}

static void count_uses(struct norm *n)
{
  for (int i = 0; i < n->block->nnodes; i++) {
    const struct node *x = &n->block->nodes[i];
    bool is_view = op_rows[x->op].rule == RULE_VIEW;
    for (int k = 0; k < x->nin && x->op != OP_ITER; k++)
      if (!is_view) n->uses[n->t[x->in[k]].root]++;
    for (int k = 0; k < x->nout; k++) n->t[x->out + k].root = is_view ? n->t[x->in[0]].root : x->out + k;
  }
}

static bool has_singles(const struct graph *b)
{
  for (int i = 0; i < b->nloop; i++)
    if (b->loop[i] >= LONG_LOOP) return true;
  for (int i = 0; i < b->ngrid; i++)
    if (along_columns(b, i)) return true;
  return false;
}

static int make(struct arena *mem, const struct graph *kernels, const struct order *order, int node, bool singles, struct norm *out, char why[160])
{
  const struct graph *b = kernels->nodes[node].sub;
  int nt = b->ntensors, iterators = 0;
  *out = (struct norm){.kernels = kernels, .block = b, .order = order, .node = node};
  out->t = NEWS(mem, struct norm_tensor, nt), out->iter_of = NEWS(mem, int, nt), out->uses = NEWS(mem, int, nt);
  out->iter = NEWS(mem, struct plan_access, b->nnodes), out->save = NEWS(mem, struct plan_access, b->nnodes);
  struct making *m = NEW(mem, struct making);
  m->n = out, m->why = why, m->singles = singles;
  m->dim = arena_alloc(mem, sizeof *m->dim * (size_t)nt), m->ndims = NEWS(mem, int, nt), m->from = NEWS(mem, struct raw_stride, b->nnodes);
  snprintf(why, 160, "more than %d letters", MAX_LETTERS);
  for (int t = 0; t < nt; t++) out->iter_of[t] = -1;
  for (int i = 0; i < MAX_LOOPS; i++) m->joined[i] = -1;
  for (int i = 0; i < b->nnodes; i++)
    if (one_node(m, &b->nodes[i], &iterators) != OK || m->raw.full) return NO;
  count_uses(out);
  if (settle(m) != OK) return NO;
  *why = 0;
  out->passes = plan_passes(mem, out);
  return OK;
}

int norm_make_in(struct arena *mem, const struct graph *kernels, const struct order *order, int node, struct norm *out, char why[160])
{
  if (has_singles(kernels->nodes[node].sub) && make(mem, kernels, order, node, true, out, why) == OK) return OK;
  return make(mem, kernels, order, node, false, out, why);
}
