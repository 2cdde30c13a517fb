// Chooses the layouts of all tensors together: one variable for every tensor with a buffer and for every tile that is not a view, and a cost table
// for every operator.
#include "plan/layout.h"
#include "plan/choose.h"
#include "plan/layout_cost.h"
#include "plan/norm.h"

#include <math.h>
#include <string.h>

struct variable {
  int id, n; // number in the problem; number of values
  struct placed value[MAX_DIMS * MAX_DIMS];
};
struct resolving {
  struct choose c;
  const struct graph *g;
  struct variable *device; // for each tensor of g; NULL for views
  struct variable **tile;  // for each node, for each tensor
};

static int last_inner(const struct shape *s)
{
  int i = s->n - 1;
  while (i >= 0 && s->d[i] == 1) i--;
  return i;
}

static void add_value(struct variable *v, int inner, int swizzled) { v->value[v->n++] = (struct placed){inner, swizzled}; }

// Adds a variable. Its values are each dimension as the innermost one, row-major first; for tiles also with each other dimension swizzled.
static void make_variable(struct resolving *r, struct variable *v, const struct shape *s, bool fixed, bool tile)
{
  int last = last_inner(s);
  if (fixed || last < 0) add_value(v, last, -1);
  for (int i = last; i >= 0 && !fixed; i--) {
    if (s->d[i] == 1) continue;
    add_value(v, i, -1);
    for (int k = s->n - 1; k >= 0 && tile; k--)
      if (k != i && s->d[k] > 1) add_value(v, i, k);
  }
  v->id = choose_var(&r->c, v->n);
}

static bool is_view(const struct node *n) { return op_rows[n->op].rule == RULE_VIEW; }

// The innermost dimension of a view, from that of its root.
static int seen_inner(const struct graph *g, int t, int inner)
{
  const struct node *n = &g->nodes[g->tensors[t].node];
  return is_view(n) ? view_inner(g, n, seen_inner(g, n->in[0], inner)) : inner;
}

// A reshape preserves the order of elements only in row-major memory.
static bool reshaped(const struct graph *g, int root)
{
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i].op == OP_RESHAPE && graph_root(g, g->nodes[i].in[0]) == root) return true;
  return false;
}

// Whether the tensor is an input or output of the program, or an operand or result of a collective.
static bool at_border(const struct graph *g, int root)
{
  if (!g->nodes[g->tensors[root].node].nin || node_meets(&g->nodes[g->tensors[root].node])) return true;
  for (int i = 0; i < g->nnodes; i++)
    if ((g->nodes[i].op == OP_OUTPUT || node_meets(&g->nodes[i])) && graph_root(g, g->nodes[i].in[0]) == root) return true;
  return false;
}

// Whether slices are written into the tensor, or it is the result of such a write. Both share memory.
static bool updated(const struct graph *g, int root)
{
  for (int i = 0; i < g->nnodes; i++) {
    int x = node_updated(&g->nodes[i]);
    if (x >= 0 && (graph_root(g, x) == root || g->nodes[i].out == root)) return true;
  }
  return false;
}

bool layout_fixed(const struct graph *g, int t)
{
  const struct shape *s = &g->tensors[t].shape;
  bool column = g->nodes[g->tensors[t].node].op == OP_MATMUL && s->d[s->n - 1] == 1; // of a library's product
  return graph_root(g, t) != t || column || at_border(g, t) || reshaped(g, t) || updated(g, t);
}

bool layouts_free(const struct graph *g)
{
  for (int t = 0; t < g->ntensors; t++) {
    const struct shape *s = &g->tensors[t].shape;
    int wide = 0;
    for (int d = 0; d < s->n; d++) wide += s->d[d] > 1;
    if (wide > 1 && !layout_fixed(g, t)) return true;
  }
  return false;
}

// The layout of a tensor from that of its root.
static struct placed seen(const struct graph *g, int t, struct placed p)
{
  int root = graph_root(g, t);
  return root == t ? p : (struct placed){seen_inner(g, t, p.inner), p.swizzled < 0 ? -1 : seen_inner(g, t, p.swizzled)};
}

// ---- costs ----

// Adds a table over the variables of n's operands and result, each operand once. Operators with too many variables have no cost.
static void operator_table(struct resolving *r, const struct graph *g, struct variable *v, const struct node *n,
                           double (*cost)(const struct graph *, const struct node *, const struct placed *, struct placed))
{
  int vars[8], root[8], k = 0, at[8];
  if (n->nin > 6 || !n->nout) return;
  for (int i = 0; i <= n->nin; i++) {
    int t = i < n->nin ? graph_root(g, n->in[i]) : n->out, have = 0;
    while (have < k && root[have] != t) have++;
    if (have == k) root[k] = t, vars[k++] = v[t].id;
    at[i] = have;
  }
  int64_t size = 1;
  for (int i = 0; i < k; i++) size *= r->c.values[vars[i]];
  if (size > CHOOSE_TABLE) return;
  double *table = choose_cost(&r->c, k, vars);
  for (int64_t e = 0; e < size; e++) {
    struct placed value[8], in[8];
    int64_t rest = e;
    for (int i = k - 1; i >= 0; rest /= v[root[i--]].n) value[i] = v[root[i]].value[rest % v[root[i]].n];
    for (int i = 0; i < n->nin; i++) in[i] = seen(g, n->in[i], value[at[i]]);
    table[e] = cost(g, n, in, value[at[n->nin]]);
  }
}

static int dtype_elem(const struct graph *g, int t) { return dtype_bytes(g->tensors[t].dtype); }

// Adds the cost of an iterator or saver. It transfers `tile` from or to tensor `above`, `times` times.
static void move_table(struct resolving *r, const struct graph *b, struct variable *v, int tile, int above, double times)
{
  int root = graph_root(r->g, above), inside = graph_root(b, tile);
  struct variable *d = &r->device[root], *t = &v[inside];
  double *table = choose_cost(&r->c, 2, (int[]){d->id, t->id});
  for (int i = 0; i < d->n; i++)
    for (int k = 0; k < t->n; k++) {
      int unit = seen_inner(r->g, above, d->value[i].inner);
      struct placed p = seen(b, tile, t->value[k]);
      if (unit >= 0 && b->tensors[tile].shape.d[unit] == 1) unit = -1;
      table[i * t->n + k] = times * cost_move(&b->tensors[tile].shape, dtype_elem(r->g, above), unit, p);
    }
}

static void block_tables(struct resolving *r, int node)
{
  const struct node *above = &r->g->nodes[node];
  const struct graph *b = above->sub;
  struct variable *v = r->tile[node];
  double blocks = (double)graph_blocks(b), rounds = blocks * (double)graph_iterations(b);
  for (int i = 0, iter = 0, save = 0; i < b->nnodes; i++) {
    const struct node *n = &b->nodes[i];
    if (n->op == OP_ITER) {
      bool varies = b->tensors[n->out].phase == VARYING;
      move_table(r, b, v, n->out, above->in[iter++], varies ? rounds : blocks);
    } else if (n->op == OP_SAVE)
      move_table(r, b, v, n->in[0], above->out + save++, blocks);
    else if (!is_view(n) && op_rows[n->op].rule != RULE_CONST && op_rows[n->op].rule != RULE_INDEX)
      operator_table(r, b, v, n, cost_operator);
  }
}

static void build(struct resolving *r)
{
  const struct graph *g = r->g;
  r->device = NEWS(r->c.mem, struct variable, g->ntensors), r->tile = NEWS(r->c.mem, struct variable *, g->nnodes);
  for (int t = 0; t < g->ntensors; t++)
    if (graph_root(g, t) == t) make_variable(r, &r->device[t], &g->tensors[t].shape, layout_fixed(g, t), false);
  for (int i = 0; i < g->nnodes; i++) {
    const struct graph *b = g->nodes[i].sub;
    if (!b) {
      if (norm_computes(&g->nodes[i])) operator_table(r, g, r->device, &g->nodes[i], cost_library_layout);
      continue;
    }
    r->tile[i] = NEWS(r->c.mem, struct variable, b->ntensors);
    for (int t = 0; t < b->ntensors; t++)
      if (graph_root(b, t) == t) make_variable(r, &r->tile[i][t], &b->tensors[t].shape, false, true);
    block_tables(r, i);
  }
}

// ---- the result ----

void layout_strides(const struct shape *s, int inner, int64_t elem, struct tensor_layout *out)
{
  int order[MAX_DIMS], n = 0;
  int64_t stride = 1;
  if (inner >= 0) order[n++] = inner;
  for (int i = s->n - 1; i >= 0; i--)
    if (i != inner) order[n++] = i;
  memset(out->stride, 0, sizeof out->stride);
  for (int i = 0; i < n; i++) {
    int64_t extent = s->d[order[i]];
    if (extent == 1) continue;
    out->stride[order[i]] = stride;
    bool rows = stride == 1 && i + 1 < n && shape_size(s) > extent;
    stride *= rows ? (extent * elem + 15) / 16 * 16 / elem : extent;
  }
  out->elements = stride;
}

struct swizzle_plan layout_swizzle(int64_t row_bytes)
{
  int64_t chunks = (row_bytes + 15) / 16;
  struct swizzle_plan p = {0};
  if (chunks & (chunks - 1))
    p.shift = chunks % 2 ? 0 : 16; // eight rows with an odd number of chunks each use different banks
  else
    while (p.bits < 3 && chunks >> (p.bits + 1)) p.bits++;
  for (p.from = p.bits ? 3 : 0; p.bits && chunks >> (p.from + 1);) p.from++; // rows of 128 bytes and more: the number of the row
  return p;
}

static void set_layout(struct tensor_layout *out, const struct graph *g, int t, const struct variable *v, int value, bool packed)
{
  struct placed p = seen(g, t, v->value[value]);
  int64_t elem = packed ? 1 : 2;
  out->inner = p.inner, out->swizzled = p.swizzled;
  layout_strides(&g->tensors[t].shape, p.inner, packed ? 16 : elem, out);
  if (p.swizzled >= 0 && p.inner >= 0) out->swizzle = layout_swizzle(elem * g->tensors[t].shape.d[p.inner]);
}

// Tries all assignments, for tests.
static int try_all(const struct choose *c, int *value, double *cost)
{
  int *at = NEWS(c->mem, int, c->nvars), i = 0;
  double all = 1;
  for (int k = 0; k < c->nvars; k++) all *= c->values[k];
  if (all > 4e6) return NO;
  *cost = INFINITY;
  while (i < c->nvars) {
    double sum = 0;
    for (int t = 0; t < c->ntables; t++) {
      int64_t e = 0;
      for (int k = 0; k < c->tables[t].n; k++) e = e * c->values[c->tables[t].var[k]] + at[c->tables[t].var[k]];
      sum += c->tables[t].cost[e];
    }
    if (sum < *cost) *cost = sum, memcpy(value, at, sizeof *value * (size_t)c->nvars);
    for (i = 0; i < c->nvars && ++at[i] == c->values[i]; i++) at[i] = 0;
  }
  return isinf(*cost) ? NO : OK;
}

int plan_layouts(struct arena *mem, const struct graph *g, bool exhaustive, struct layouts *out, struct err *e)
{
  struct resolving r = {.c = {.mem = mem}, .g = g};
  build(&r);
  int *value = NEWS(mem, int, r.c.nvars);
  *out = (struct layouts){.kernels = g, .device = NEWS(mem, struct tensor_layout, g->ntensors), .tile = NEWS(mem, struct tensor_layout *, g->nnodes)};
  int status = exhaustive ? try_all(&r.c, value, &out->cost) : choose_least(&r.c, value, &out->cost);
  if (status != OK) return err_set(e, ERR_LIMIT, NOWHERE, "no layouts of the tensors of %s suit every operator", g->name ? g->name : "the graph"), NO;
  for (int t = 0; t < g->ntensors; t++) {
    const struct variable *v = &r.device[graph_root(g, t)];
    set_layout(&out->device[t], g, t, v, value[v->id], layout_fixed(g, graph_root(g, t)));
  }
  for (int i = 0; i < g->nnodes; i++) {
    const struct graph *b = g->nodes[i].sub;
    if (!b) continue;
    out->tile[i] = NEWS(mem, struct tensor_layout, b->ntensors);
    for (int t = 0; t < b->ntensors; t++)
      set_layout(&out->tile[i][t], b, t, &r.tile[i][graph_root(b, t)], value[r.tile[i][graph_root(b, t)].id], false);
  }
  return OK;
}

static void layout_text(const struct graph *g, int t, const struct tensor_layout *l, struct str *out)
{
  char shape[128];
  shape_text(shape, &g->tensors[t].shape);
  if (g->tensors[t].name)
    str_add(out, "%-12s", g->tensors[t].name);
  else
    str_add(out, "tensor %-5d", t);
  str_add(out, " %-20s innermost %d, strides", shape, l->inner);
  for (int i = 0; i < g->tensors[t].shape.n; i++) str_add(out, " %lld", (long long)l->stride[i]);
  if (l->swizzled >= 0 && l->swizzle.bits)
    str_add(out, ", dimension %d swizzled by xor of %d bits from bit %d", l->swizzled, l->swizzle.bits, l->swizzle.from);
  else if (l->swizzled >= 0)
    str_add(out, ", dimension %d swizzled by a shift of %lld bytes", l->swizzled, (long long)l->swizzle.shift);
  str_add(out, "\n");
}

void plan_layouts_text(const struct layouts *l, const bool *const *shared, struct str *out)
{
  const struct graph *g = l->kernels;
  str_add(out, "device tensors\n");
  for (int t = 0; t < g->ntensors; t++) str_add(out, "  "), layout_text(g, t, &l->device[t], out);
  for (int i = 0, kernel = 0; i < g->nnodes; i++) {
    const struct graph *b = g->nodes[i].sub;
    if (!b) continue;
    str_add(out, "tiles of kernel %d\n", ++kernel);
    for (int t = 0; t < b->ntensors; t++)
      if (!shared || (shared[i] && shared[i][t])) str_add(out, "  "), layout_text(b, t, &l->tile[i][t], out);
  }
}
