// Normal form -> values. Letters, grid axes and loop axes all become axes. A reduction is a sum over letters, an accumulator a sum over loop axes. A
// running accumulator has two values: one of each iteration, for readers in the loop, and the final one, for readers after the loop.
#include "base/order.h"
#include "kern/kern_parts.h"

#include <string.h>

enum { INSIDE, LAST }; // values in the loop; values after it

static int cannot(struct kern_making *m, const struct node *n, const char *what)
{
  return snprintf(m->why, 160, "%s: %s", op_rows[n->op].name, what), NO;
}

static int grid_axis(const struct kern_making *m, int i) { return m->first + m->n->nletters + i; }
static int loop_axis(const struct kern_making *m, int i) { return grid_axis(m, m->n->block->ngrid) + i; }
static axis_set letters_of(const struct kern_making *m, uint32_t has) { return (axis_set)has << m->first; }

// The axes that stand for loop axis i: letters, if an accumulator joins the parts of its iterations, else the loop axis itself.
static axis_set axes_of_loop(const struct kern_making *m, int i)
{
  axis_set s = 0;
  for (int l = 0; l < m->n->nletters; l++)
    if (m->n->step[i][l]) s |= AXIS(m->first + l);
  return s ? s : m->n->block->loop[i] > 1 ? AXIS(loop_axis(m, i)) : 0;
}

// The loop axes that an accumulator reduces over: all whose parts it does not join.
static axis_set loop_axes(const struct kern_making *m, const struct node *n)
{
  axis_set s = 0;
  for (int i = 0; i < m->n->block->nloop; i++)
    if (n->op != OP_ACCUM || n->a.fmap[i] == REPLICA) s |= axes_of_loop(m, i);
  return s;
}

static int value(const struct kern_making *m, int tensor) { return m->of[m->when][m->n->t[tensor].root]; }

static struct kern_access access_of(const struct kern_making *m, const struct plan_access *a)
{
  const struct tensor *t = &m->n->kernels->tensors[a->tensor];
  struct kern_access x = {
      .tensor = a->tensor, .type = m->store ? m->store[a->tensor] : t->dtype, .elements = norm_elements(m->n, a->tensor), .offset = a->offset};
  x.index = norm_is_index(m->n, a->tensor), x.truth = t->dtype == BOOL && !x.index;
  for (int i = 0; i < m->n->nletters; i++) x.stride[m->first + i] = a->stride[i];
  for (int i = 0; i < m->n->block->ngrid; i++) x.stride[grid_axis(m, i)] = a->grid[i];
  for (int i = 0; i < m->n->block->nloop; i++) {
    bool joined = !(axes_of_loop(m, i) & AXIS(loop_axis(m, i)));
    if (!joined) x.stride[loop_axis(m, i)] = a->loop[i];
    for (int l = 0; l < m->n->nletters && joined; l++) x.stride[m->first + l] += a->loop[i] * m->n->step[i][l];
  }
  for (int i = 0; i < m->k->naxes; i++)
    if (m->k->extent[i] <= 1) x.stride[i] = 0;
  return x;
}

// ---- reductions, accumulators ----

// The letters that n reduces, of extents above 1.
static axis_set letters_folded(const struct kern_making *m, const struct node *n)
{
  return kern_present(m->k, letters_of(m, m->n->t[n->in[0]].has & ~m->n->t[n->out].has));
}

static int scaled(struct kern_making *m, int x, double by)
{
  return by == 1 ? x : kern_part_map(m, OP_MUL_SCALAR, x, -1, &(struct attrs){.scalar = by});
}

static int folding(struct kern_making *m, const struct node *n, axis_set over)
{
  unsigned flags = op_rows[n->op].flags;
  int x = value(m, n->in[0]);
  if (n->op == OP_MAX || n->op == OP_ACCUM_MAX) return kern_part_fold(m, KERN_MAX, x, -1, over);
  if (op_rows[n->op].abstract == AE_PROD) return kern_part_fold(m, KERN_PROD, x, -1, over);
  if (flags & RMS) x = kern_part_map(m, OP_SQUARE, x, -1, NULL);
  x = kern_part_fold(m, KERN_SUM, x, -1, over);
  if (flags & MEAN) x = scaled(m, x, 1 / (double)kern_extent(m->k, over));
  return flags & RMS ? kern_part_map(m, OP_SQRT, x, -1, NULL) : x;
}

static int accumulator(struct kern_making *m, const struct node *n)
{
  axis_set over = loop_axes(m, n);
  unsigned flags = op_rows[n->op].flags;
  int x = m->of[INSIDE][m->n->t[n->in[0]].root];
  m->when = INSIDE;
  if (flags & REDUCES) over |= letters_folded(m, n);
  if (n->op == OP_ACCUM_MAX && x < 0) return cannot(m, n, "of parts");
  if (n->op == OP_ACCUM_MAX) {
    m->of[INSIDE][n->out] = kern_part_fold(m, KERN_RUN_MAX, x, -1, over), m->of[INSIDE][n->out + 1] = kern_part_fold(m, KERN_RUN_MOVE, x, -1, over);
    m->of[LAST][n->out] = kern_part_fold(m, KERN_MAX, x, -1, over), m->of[LAST][n->out + 1] = kern_const(m->k, 0, m->about);
    return OK;
  }
  int sum = flags & RESCALES ? kern_part_fold(m, KERN_RESCALE, x, value(m, n->in[1]), over) : folding(m, n, over);
  m->of[INSIDE][n->out] = m->of[LAST][n->out] = sum;
  return OK;
}

// ---- products ----

static const struct norm_dim *dim_from_end(const struct norm_tensor *t, int back) { return &t->dim[t->ndims - back]; }

static axis_set batches(const struct kern_making *m, int tensor)
{
  const struct norm_tensor *t = &m->n->t[tensor];
  axis_set s = 0;
  for (int d = 0; d < t->ndims - 2; d++) s |= letters_of(m, norm_dim_letters(&t->dim[d]));
  return s;
}

static bool product(struct kern_making *m, int a, int b, int *out)
{
  const struct norm_tensor *at = &m->n->t[a], *bt = &m->n->t[b];
  struct kern_value v = {.kind = KERN_PRODUCT, .nin = 2, .in = {value(m, a), value(m, b)}, .about = m->about, .within = m->about};
  if (at->ndims < 2 || bt->ndims < 2 || v.in[0] < 0 || v.in[1] < 0) return false;
  v.folded = kern_present(m->k, letters_of(m, norm_dim_letters(dim_from_end(at, 1))));
  v.batch = kern_present(m->k, batches(m, a) | batches(m, b));
  return *out = kern_add(m->k, v), true;
}

static int contraction(struct kern_making *m, const struct node *n)
{
  int x, y, joined = n->op == OP_CONCAT_MATMUL, *out = &m->of[m->when][n->out];
  if (!product(m, n->in[0], n->in[1 + joined], &x)) return cannot(m, n, "a product of vectors or of parts");
  *out = x;
  if (!joined) return OK;
  if (!product(m, n->in[1], n->in[3], &y)) return cannot(m, n, "a product of vectors or of parts");
  return *out = kern_map(m->k, OP_ADD, NULL, x, y, m->about), OK;
}

// ---- parts ----

// The letters of dimension dim that only `with` has, slowest first. Together they are the number of a part.
static int part_letters(const struct kern_making *m, int with, int without, int dim, int letter[MAX_FACTORS])
{
  const struct norm_dim *d = &m->n->t[with].dim[dim];
  int n = 0;
  for (int k = 0; k < d->n; k++)
    if (!(m->n->t[without].has >> d->letter[k] & 1)) letter[n++] = d->letter[k];
  return n;
}

static int split(struct kern_making *m, const struct node *n)
{
  int letter[MAX_FACTORS], letters = part_letters(m, n->in[0], n->out, n->a.dim, letter);
  for (int i = 0; i < n->nout; i++) {
    int64_t index = node_part(n, i);
    int v = value(m, n->in[0]);
    for (int k = letters; k-- > 0; index /= m->n->extent[letter[k]]) v = kern_part_at(m, v, m->first + letter[k], index % m->n->extent[letter[k]]);
    m->of[m->when][n->out + i] = v;
  }
  return OK;
}

static int concat(struct kern_making *m, const struct node *n)
{
  int letter[MAX_FACTORS], part[KERN_PARTS], letters = part_letters(m, n->out, n->in[0], n->a.dim, letter), *out = &m->of[m->when][n->out];
  if (n->nin == 1) return *out = value(m, n->in[0]), OK;
  if (letters != 1 || n->nin > KERN_PARTS) return cannot(m, n, "too many parts, or parts that are cut in groups");
  for (int k = 0; k < n->nin; k++) part[k] = value(m, n->in[k]);
  return *out = kern_joined(m, m->first + letter[0], n->nin, part), OK;
}

// The axes that number the parts of splits, in a kernel without loops. Operators before the split then work on single parts too, so each element is
// read once.
static axis_set parted_axes(const struct kern_making *m)
{
  axis_set s = 0;
  int letter[MAX_FACTORS];
  for (int i = 0; i < m->n->block->nnodes && !m->n->block->nloop; i++) {
    const struct node *n = &m->n->block->nodes[i];
    int letters = op_rows[n->op].rule == RULE_SPLIT ? part_letters(m, n->in[0], n->out, n->a.dim, letter) : 0;
    for (int k = 0; k < letters; k++)
      if (m->n->extent[letter[k]] <= KERN_PARTS) s |= AXIS(m->first + letter[k]);
  }
  return s;
}

// ---- data-dependent indices ----

static const struct norm_dim *chosen_dim(const struct kern_making *m, const struct node *n) { return &m->n->t[n->in[0]].dim[n->a.dim]; }

static int topk(struct kern_making *m, const struct node *n)
{
  static const enum kern_kind kind[] = {KERN_TOP, KERN_TOP_AT};
  const int64_t extent = m->n->block->tensors[n->in[0]].shape.d[n->a.dim];
  if (extent > MICA_KEYS) return snprintf(m->why, 160, "topk: of %lld elements, and kernels compare at most %d", (long long)extent, MICA_KEYS), NO;
  for (int i = 0; i < n->nout; i++)
    if (!kern_part_topk(m, kind[i], value(m, n->in[0]), chosen_dim(m, n), n->a.k, &m->of[m->when][n->out + i])) return cannot(m, n, "of parts");
  return OK;
}

static int gather(struct kern_making *m, const struct node *n)
{
  bool fits = kern_part_chosen(m, value(m, n->in[0]), chosen_dim(m, n), value(m, n->in[1]), &m->of[m->when][n->out]);
  return fits ? OK : cannot(m, n, "chooses of what is no tensor in memory");
}

// An update is computed by its save. The results of topk are stored one after the other.
static int save(struct kern_making *m, const struct node *n)
{
  const struct node *maker = &m->n->block->nodes[m->n->block->tensors[m->n->t[n->in[0]].root].node];
  struct kern_access at = access_of(m, &m->n->save[m->saves++]);
  if (node_has(maker, SELECTS)) {
    const struct norm_dim *number = &m->n->t[m->n->t[n->in[0]].root].dim[maker->a.dim];
    return kern_part_top(m, value(m, n->in[0]), number, at) ? OK : cannot(m, maker, "of what is repeated, or its results lie along no stride");
  }
  if (!node_has(maker, WRITES_SLICES)) return kern_part_store(m, value(m, n->in[0]), at) || cannot(m, n, "too many parts") == OK ? OK : NO;
  bool fits = kern_part_placed(m, value(m, maker->in[2]), chosen_dim(m, maker), value(m, maker->in[1]), at);
  return fits ? OK : cannot(m, maker, "writes parts, or along no stride");
}

// keep(x, c) = mask(x, c) + (scalar - scalar c).
static int keep(struct kern_making *m, const struct node *n)
{
  int x = value(m, n->in[0]), c = value(m, n->in[1]);
  int hidden = kern_part_map(m, OP_ADD_SCALAR, scaled(m, c, -n->a.scalar), -1, &n->a);
  return kern_part_map(m, OP_ADD, kern_part_map(m, OP_MASK, x, c, NULL), hidden, NULL);
}

// ---- nodes ----

static int one_node(struct kern_making *m, const struct node *n)
{
  int *out = &m->of[m->when][n->out];
  struct kern_access at;
  switch (op_rows[n->op].rule) {
  case RULE_IO:
    if (n->op == OP_SAVE) return save(m, n);
    at = access_of(m, &m->n->iter[m->n->iter_of[n->out]]);
    return *out = kern_parted(m, kern_load(m->k, &at, m->about), m->parted), OK;
  case RULE_CONST: return *out = kern_const(m->k, n->a.scalar, m->about), OK;
  case RULE_MAP:
    if (n->op == OP_KEEP) return *out = keep(m, n), OK;
    return *out = kern_part_map(m, n->op, value(m, n->in[0]), n->nin > 1 ? value(m, n->in[1]) : -1, &n->a), OK;
  case RULE_REDUCE: return *out = folding(m, n, letters_folded(m, n)), OK;
  case RULE_ACCUM: return accumulator(m, n);
  case RULE_VIEW: return OK;
  case RULE_CONTRACT: return contraction(m, n);
  case RULE_CONCAT: return concat(m, n);
  case RULE_SPLIT: return split(m, n);
  case RULE_AT: return node_has(n, WRITES_SLICES) ? OK : node_has(n, SELECTS) ? topk(m, n) : gather(m, n);
  case RULE_INDEX:
  case RULE_WORLD:
  case RULE_COMPOSITE:
  case RULE_GRAPH: break;
  }
  return cannot(m, n, "no operator of kernels");
}

static int both_times(struct kern_making *m, const struct node *n)
{
  enum phase p = n->op == OP_SAVE ? AFTER : m->n->block->tensors[n->out].phase;
  int status = OK;
  if (op_rows[n->op].rule == RULE_ACCUM) return accumulator(m, n);
  for (m->when = INSIDE; m->when <= LAST && !status; m->when++)
    if (p == RUN || m->when == (p == VARYING ? INSIDE : LAST)) status = one_node(m, n);
  for (int o = 0; o < n->nout && p == FIXED; o++) m->of[INSIDE][n->out + o] = m->of[LAST][n->out + o];
  return status;
}

static void axes(struct kern_making *m)
{
  const struct norm *n = m->n;
  struct kern *k = m->k;
  for (int i = 0; i < KERN_AXES; i++) k->extent[i] = 1;
  for (int i = 0; i < n->nletters; i++) k->extent[m->first + i] = n->extent[i], k->letters |= AXIS(m->first + i);
  for (int i = 0; i < n->block->ngrid; i++) k->extent[grid_axis(m, i)] = n->block->grid[i];
  for (int i = 0; i < n->block->nloop; i++) k->extent[loop_axis(m, i)] = n->block->loop[i], k->loops |= axes_of_loop(m, i);
  k->naxes = loop_axis(m, n->block->nloop);
}

// Only saves may read results of topk, which have no axis for the position among the selected elements.
static int only_saved(struct kern_making *m)
{
  for (int i = 0; i < m->k->nvalues; i++)
    for (int n = 0; n < m->k->v[i].nin; n++)
      if (kern_tops(&m->k->v[m->k->v[i].in[n]])) return snprintf(m->why, 160, "topk: its results are read in the same kernel"), NO;
  return OK;
}

int kern_make(struct arena *mem, const struct norm *n, const enum dtype *store, int first, bool tail, struct kern *out, char why[160])
{
  const struct graph *b = n->block;
  *out = (struct kern){.mem = mem};
  struct kern_making m = {.n = n, .store = store, .k = out, .first = first, .why = why, .mem = mem};
  if (first + n->nletters + b->ngrid + b->nloop > KERN_AXES) return snprintf(why, 160, "too many axes"), NO;
  for (int i = 0; i < 2; i++) m.of[i] = NEWS(mem, int, b->ntensors + 1);
  axes(&m);
  m.parted = parted_axes(&m);
  out->cap = 8 + b->nnodes, out->v = NEWS(mem, struct kern_value, out->cap);
  for (int i = 0; i < b->nnodes; i++) {
    m.about = tail ? -(i + 1) : i + 1;
    if (both_times(&m, &b->nodes[i])) return NO;
  }
  return only_saved(&m);
}
