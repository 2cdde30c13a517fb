// The guarantee of docs/theory.md on programs so small that the paper's Algorithm 1 can be run as it stands.
//
// Whatever the search holds within the same limits, Algorithm 1 finds. What Algorithm 1 finds beside it has a
// representative that the search holds, or is removed by a rule that is named; and the search holds a graph that is no
// dearer: no fewer blocks, and no more operators, elements moved, or operations.
#include "naive.h"
#include "examples.h"
#include "graphs.h"

#include "search/search.h"

// Why a graph is not literally one of the search's.
enum reason {
  HELD,       // `mica search --covers` holds it as it stands: idle loops, sums of one element, equal values made twice
  JOINS,      // its loop only joins parts; without it, it is held
  AXES,       // two grid axes cut the same; as one axis it is held
  WHOLE,      // held with rule `whole` off
  SQUARE,     // held with rule `square` off
  SHAPE,      // held with rule `shape` off
  EXPR,       // removed by rule `expr`, and the axioms do not prove it equal to the program; held with all these off
  VOCABULARY, // an operator that the program has not, in place of one that it has; a mean of parts of a sum
  REASONS,
};
static const char *const names[REASONS] = {"held", "joins", "axes", "whole", "square", "shape", "expr", "vocabulary"};

// clang-format off
static const struct row {
  const char *name;
  bool deep;
  const char *text;
  struct naive_limits l;
  struct {
    int found, ours, inner; // different graphs: of Algorithm 1; of the search; of these, whose axes cut inside a dimension
  } n;
  int by[REASONS];          // why those of Algorithm 1 are not the search's
} rows[] = {
    {"product", false, "program p { X: f32[4, 4]\n W: f32[4, 8]\n return matmul(X, W) }",
     {"matmul mul sum accum accum_sum", 3, 2, 0, 0}, {82, 8, 0}, {4, 47, 23, 0, 0, 0, 0, 0}},
    {"product, loaded twice", true, "program p { X: f32[4, 4]\n W: f32[4, 4]\n return matmul(X, W) }",
     {"matmul mul sum accum accum_sum", 3, 2, 1, 0}, {110, 8, 0}, {4, 58, 40, 0, 0, 0, 0, 0}},
    {"share of a sum", false, "program p { X: f32[4, 4]\n return X / sum(X, dim=1) }",
     {"mul div sum accum accum_sum", 3, 2, 1, 0}, {120, 2, 0}, {10, 21, 12, 75, 0, 0, 0, 0}},
    {"softmax", false, "program p { X: f32[4, 4]\n return exp(X) / sum(exp(X), dim=1) }",
     {"exp mul div sum accum accum_sum", 3, 2, 0, 0}, {6, 2, 0}, {2, 0, 2, 0, 0, 0, 0, 0}},
    {"softmax, loaded twice", true, "program p { X: f32[4, 4]\n return exp(X) / sum(exp(X), dim=1) }",
     {"exp mul div sum accum accum_sum", 4, 1, 1, 0}, {25, 2, 0}, {10, 8, 0, 5, 0, 0, 0, 0}},
    {"sum of products", false, "program p { X: f32[4, 4]\n Y: f32[4, 4]\n return sum(X * Y, dim=1) }",
     {"mul sum matmul accum accum_sum", 3, 2, 0, 0}, {48, 8, 0}, {10, 11, 19, 0, 0, 0, 0, 0}},
    {"norm", false, "program p { X: f32[4, 4]\n return sqrt(mean(square(X), dim=1)) }",
     {"square sqrt mul mean sum mul_scalar=0.25 accum accum_sum accum_mean accum_rms", 3, 2, 0, 0}, {126, 6, 0}, {26, 0, 34, 0, 0, 0, 24, 36}},
    {"gated product", false, "program p { X: f32[2, 4]\n W: f32[4, 2]\n V: f32[4, 2]\n return matmul(X, W) * matmul(X, V) }",
     {"matmul mul sum accum accum_sum", 3, 1, 0, 0}, {14, 3, 0}, {3, 0, 0, 0, 0, 8, 0, 0}},
    {"lora", true, "program p { X: f32[2, 4]\n W: f32[4, 4]\n A: f32[4, 2]\n B: f32[2, 4]\n return matmul(X, W) + matmul(matmul(X, A), B) }",
     {"matmul add mul sum accum accum_sum", 3, 1, 0, 0}, {6, 3, 0}, {3, 0, 0, 0, 0, 0, 0, 0}},
    {"square of a sum", false, "program p { X: f32[4, 4]\n Y: f32[4, 4]\n return X * square(X + Y) }",
     {"square add mul", 4, 1, 0, 0}, {12, 2, 0}, {2, 0, 0, 0, 8, 0, 0, 0}},
    {"grouped heads", false, "program p { Q: f32[4, 2, 2]\n K: f32[2, 2, 2]\n return matmul(Q, repeat(K, dim=0, times=2)) }",
     {"matmul mul sum accum accum_sum repeat=2", 2, 2, 0, 1}, {107, 16, 2}, {44, 37, 0, 0, 0, 12, 0, 0}},
    {"grouped heads, broadcast", false, "program p { Q: f32[2, 2, 2, 2]\n K: f32[2, 1, 2, 2]\n return matmul(Q, K) }",
     {"matmul mul sum accum accum_sum", 2, 2, 0, 0}, {128, 16, 0}, {57, 40, 0, 0, 0, 15, 0, 0}},
    {"transposed product", false, "program p { X: f32[4, 4]\n Y: f32[8, 4]\n return matmul(X, transpose(Y)) }",
     {"matmul mul sum accum accum_sum transpose", 2, 2, 0, 1}, {49, 8, 0}, {4, 23, 11, 0, 0, 3, 0, 0}},
    {"maximum", false, "program p { X: f32[4, 4]\n Y: f32[4, 4]\n return max(X, dim=1) * Y }",
     {"max mul accum", 3, 2, 0, 0}, {69, 4, 0}, {12, 35, 18, 0, 0, 0, 0, 0}},
    {"activation", false, "program p { X: f32[4, 4]\n W: f32[4, 4]\n return relu(matmul(X, W)) }",
     {"matmul mul sum relu accum accum_sum", 3, 1, 0, 0}, {27, 6, 0}, {3, 18, 0, 0, 0, 0, 0, 0}},
    {"normalized product", true, "program p { X: f32[2, 4]\n W: f32[4, 2]\n return matmul(X / sum(X, dim=1), W) }",
     {"matmul mul div sum accum accum_sum", 4, 1, 0, 0}, {143, 9, 0}, {71, 32, 0, 0, 0, 21, 10, 0}},
    {"function of a share", true, "program p { X: f32[2, 4]\n V: f32[4, 2]\n return matmul(relu(X / sum(X, dim=1)), V) }",
     {"matmul div sum relu accum accum_sum", 5, 0, 1, 0}, {26, 1, 0}, {5, 14, 0, 6, 0, 0, 0, 0}},
    {"product of 4", true, "program p { X: f32[4, 4]\n W: f32[4, 8]\n return matmul(X, W) }",
     {"matmul mul sum accum accum_sum", 4, 1, 0, 0}, {32, 6, 0}, {3, 23, 0, 0, 0, 0, 0, 0}},
    {"share of 4", true, "program p { X: f32[4, 4]\n return X / sum(X, dim=1) }",
     {"mul div sum accum accum_sum", 4, 1, 0, 0}, {233, 2, 0}, {22, 25, 0, 0, 0, 0, 184, 0}},
    {"sum of products of 4", true, "program p { X: f32[4, 4]\n Y: f32[4, 4]\n return sum(X * Y, dim=1) }",
     {"mul sum matmul accum accum_sum", 4, 1, 0, 0}, {64, 8, 0}, {26, 30, 0, 0, 0, 0, 0, 0}},
    {"norm of 4", true, "program p { X: f32[4, 4]\n return sqrt(mean(square(X), dim=1)) }",
     {"square sqrt mul mean sum mul_scalar=0.25 accum accum_sum accum_mean accum_rms", 4, 1, 0, 0}, {322, 14, 0}, {86, 12, 0, 0, 0, 0, 64, 146}},
    {"maximum of 4", true, "program p { X: f32[4, 4]\n Y: f32[4, 4]\n return max(X, dim=1) * Y }",
     {"max mul accum", 4, 1, 0, 0}, {84, 3, 0}, {15, 66, 0, 0, 0, 0, 0, 0}},
    {"activation of 4", true, "program p { X: f32[4, 4]\n W: f32[4, 4]\n return relu(matmul(X, W)) }",
     {"matmul mul sum relu accum accum_sum", 4, 1, 0, 0}, {42, 6, 0}, {3, 33, 0, 0, 0, 0, 0, 0}},
    {"gated product, looped", true, "program p { X: f32[2, 4]\n W: f32[4, 2]\n V: f32[4, 2]\n return matmul(X, W) * matmul(X, V) }",
     {"matmul mul accum accum_sum", 5, 0, 0, 0}, {25, 2, 0}, {1, 18, 0, 0, 0, 4, 0, 0}},
};
// clang-format on

// ---- representatives -----------------------------------------------------------------------------------------------

static struct node *block_of(struct graph *g)
{
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i].sub) return &g->nodes[i];
  return NULL;
}

static bool joins(const struct graph *b)
{
  for (int i = 0; i < b->nnodes; i++)
    if (b->nodes[i].op == OP_ACCUM && b->nodes[i].a.fmap[0] != REPLICA) return true;
  return false;
}

// The last grid axis cuts what another one cuts, everywhere?
static bool repeats_axis(const struct graph *b, int *other)
{
  for (int x = 0; x < b->ngrid - 1; x++) {
    bool same = true;
    for (int i = 0; i < b->nnodes; i++) {
      const struct node *n = &b->nodes[i];
      if (n->op == OP_ITER) same &= n->a.imap[x] == n->a.imap[b->ngrid - 1];
      if (n->op == OP_SAVE) same &= n->a.omap[x] == n->a.omap[b->ngrid - 1];
    }
    if (same) return *other = x, true;
  }
  return false;
}

// What becomes of the loop and of the last grid axis.
struct change {
  bool unroll; // tiles are whole along the loop
  int spread;  // >= 0: the loop becomes a grid axis, whose parts are joined along this dimension
  int merge;   // >= 0: the last grid axis is part of this one
};

static void change_axes(const struct graph *b, const struct change *c, struct graph *to)
{
  int64_t grid[MAX_GRID];
  int ngrid = b->ngrid;
  memcpy(grid, b->grid, sizeof grid);
  if (c->merge >= 0) grid[c->merge] *= grid[--ngrid];
  if (c->spread >= 0) grid[ngrid++] = b->loop[0];
  graph_axes(to, ngrid, grid, c->unroll || c->spread >= 0 ? 0 : b->nloop, b->loop);
}

static void change_maps(const struct graph *b, const struct change *c, struct attrs *a)
{
  if (c->merge >= 0) a->imap[b->ngrid - 1] = a->omap[b->ngrid - 1] = REPLICA;
  if (c->spread >= 0) a->imap[b->ngrid] = a->fmap[0], a->omap[b->ngrid] = (int8_t)c->spread;
  if (c->spread >= 0 || c->unroll) a->fmap[0] = REPLICA;
}

// Node n of block graph b once more in `to`; *out: its result. A sum of one element is that element.
static int copy_node(struct graph *to, const struct graph *above, const struct graph *b, const struct node *n, int from,
                     const int *at, const struct change *c, int *out, struct err *e)
{
  struct attrs a = n->a;
  int in[2];
  bool looped = to->nloop, single = op_rows[n->op].rule == RULE_REDUCE && b->tensors[n->in[0]].shape.d[a.dim] == 1;
  for (int k = 0; k < n->nin; k++) in[k] = at[n->in[k]];
  if (single || (!looped && n->op == OP_ACCUM)) return *out = in[0], OK;
  change_maps(b, c, &a);
  if (n->op == OP_ITER) return graph_iter(to, above, from, &a, NOWHERE, out, e);
  enum op op = looped ? n->op : n->op == OP_ACCUM_SUM ? OP_SUM : n->op == OP_ACCUM_MEAN ? OP_MEAN : n->op;
  return graph_add(to, op, n->nin, in, &a, NOWHERE, out, e);
}

// The graph so changed; NULL where that is no graph equal to p.
static struct graph *changed(struct arena *mem, const struct graph *p, const struct graph *g, struct change c)
{
  struct graph *k = graph_copy(mem, g), *to = graph_new(mem, BLOCK, NULL);
  struct node *block = block_of(k);
  const struct graph *b = block->sub;
  struct err e = {0};
  int *at = NEWS(mem, int, b->ntensors), status = OK;
  if (c.spread >= 0 && b->ngrid == MAX_GRID) return NULL;
  change_axes(b, &c, to);
  for (int i = 0, iters = 0; i < b->nnodes && !status; i++) {
    const struct node *n = &b->nodes[i];
    int out = 0, from = n->op == OP_ITER ? block->in[iters++] : -1;
    status = copy_node(to, k, b, n, from, at, &c, &out, &e);
    if (n->nout) at[n->out] = out;
  }
  block->sub = to;
  return status || graph_check(k, &e) || !verify_filter(p, k, 1) ? NULL : k;
}

// Without a loop that only joins parts: tiles as large as all of them, or more blocks.
static struct graph *without_joins(struct arena *mem, const struct graph *p, const struct graph *g)
{
  struct graph *x = changed(mem, p, g, (struct change){true, -1, -1});
  for (int d = 0; d < MAX_DIMS && !x; d++) x = changed(mem, p, g, (struct change){false, d, -1});
  return x;
}

// Without loops that join and axes that cut the same; *why says which there were.
static struct graph *representative(struct arena *mem, const struct graph *p, struct graph *g, enum reason *why)
{
  int axis;
  struct graph *x = joins(block_of(g)->sub) ? without_joins(mem, p, g) : NULL;
  *why = x ? JOINS : HELD;
  if (x) g = x;
  while (repeats_axis(block_of(g)->sub, &axis) && (x = changed(mem, p, g, (struct change){false, -1, axis}))) {
    g = x;
    if (*why == HELD) *why = AXES;
  }
  return g;
}

// ---- what the search says ------------------------------------------------------------------------------------------

struct trial_case {
  struct arena *mem;
  const struct row *r;
  const struct graph *p;
  int n;
  struct graph **g; // representatives
  enum reason *reason;
  struct cover *c;
};

enum {
  OFF_WHOLE = 1 << PRUNE_WHOLE,
  OFF_SQUARE = 1 << PRUNE_SQUARE,
  OFF_SHAPE = 1 << PRUNE_SHAPE,
  OFF_ALL = OFF_WHOLE | OFF_SQUARE | OFF_SHAPE | 1 << PRUNE_EXPR
};

// Gives those without a reason this one where the space holds them with these rules off. accum_rms is three operators
// where there is no loop, and idle loops are none; without the oracle the limit on operators is all that bounds a
// space.
static void ask(struct trial_case *t, unsigned off, enum reason reason)
{
  struct search_opts o = {.max_kernel_ops = 1,
                          .max_block_ops = t->r->l.max_ops + (strstr(t->r->l.ops, "accum_rms") ? 2 : 0),
                          .max_values = 60000,
                          .threads = 1,
                          .seed = 7,
                          .off = off};
  struct graph **open = NEWS(t->mem, struct graph *, t->n + 1);
  struct cover *c = NEWS(t->mem, struct cover, t->n + 1);
  struct err e = {0};
  int n = 0;
  for (int i = 0; i < t->n; i++)
    if (t->reason[i] == REASONS) open[n++] = t->g[i];
  if (!n) return;
  assert_int_equal(search_covers(t->mem, t->p, &machine, &o, n, open, c, &e), OK);
  for (int i = 0, k = 0; i < t->n; i++) {
    if (t->reason[i] != REASONS) continue;
    t->c[i] = c[k++];
    if (t->c[i].held) t->reason[i] = reason;
  }
}

static bool has_products(const struct graph *p)
{
  bool any = false;
  for (int i = 0; i < p->nnodes; i++) {
    enum abstract ae = op_rows[p->nodes[i].op].abstract;
    any |= ae == AE_MUL || ae == AE_DIV || ae == AE_MATMUL;
  }
  return any;
}

// Is a mean taken of each iteration's part of what the loop cuts?
static bool mean_of_parts(const struct graph *b, const struct node *n)
{
  bool cut = false;
  for (int i = 0; i < b->nnodes; i++) cut |= b->nodes[i].op == OP_ITER && b->nloop && b->nodes[i].a.fmap[0] == n->a.dim;
  return cut && n->op == OP_MEAN && b->tensors[n->in[0]].phase == VARYING;
}

// Has g an operator that the search does not try for p?
static bool foreign(const struct graph *p, struct graph *g)
{
  const struct graph *b = block_of(g)->sub;
  bool any = false;
  for (int i = 0; i < b->nnodes; i++)
    any |= mean_of_parts(b, &b->nodes[i]) || (b->nodes[i].op == OP_MUL && !has_products(p));
  return any;
}

// ---- one program ---------------------------------------------------------------------------------------------------

// Does a block read a tensor whose dimensions are not those of the program's?
static bool reads_views(const struct graph *g)
{
  bool views = false;
  for (int i = 0; i < g->nnodes; i++)
    for (int k = 0; k < g->nodes[i].nin && g->nodes[i].sub; k++)
      views |= op_rows[g->nodes[g->tensors[g->nodes[i].in[k]].node].op].rule == RULE_VIEW;
  return views;
}

static void refuse(const struct row *r, const struct graph *g, const char *what, const char *why)
{
  struct str s = {0};
  graph_print(g, &s);
  print_message("%s: %s: %s\n%s", r->name, what, why, str_text(&s));
  str_free(&s);
}

// Does every graph of x outside `in` take no less than some graph of `sized`? Says which does not.
static bool none_cheaper(const struct naive *x, const struct naive *in, const struct naive *sized, const struct row *r)
{
  bool good = true;
  for (int i = 0; i < x->n; i++) {
    struct bill much = bill_of(x->found[i].g);
    bool found = naive_has(in, x->found[i].key);
    for (int k = 0; k < sized->n && !found; k++) {
      struct bill less = bill_of(sized->found[k].g);
      found = bill_within(&less, &much);
    }
    if (found) continue;
    refuse(r, x->found[i].g, "dearer", "the search holds nothing that takes as little");
    good = false;
  }
  return good;
}

// What Algorithm 1 finds, and the search.
struct both {
  struct naive brute, ours, sized; // sized: ours with other extents too
};

static int search_alone(const struct row *r, const struct both *f, int *inner)
{
  int bad = 0;
  for (int i = 0; i < f->ours.n; i++) {
    if (naive_has(&f->brute, f->ours.found[i].key)) continue;
    ++*inner;
    if (!reads_views(f->ours.found[i].g))
      bad++, refuse(r, f->ours.found[i].g, "the search alone", "Algorithm 1 does not find it");
  }
  return bad;
}

// Gives every graph of Algorithm 1 that is not literally the search's its reason, and counts them.
static int reasons(struct arena *mem, const struct row *r, const struct graph *p, const struct both *f, int *by,
                   int *proved)
{
  int n = f->brute.n, bad = 0;
  struct trial_case t = {
      mem, r, p, n, NEWS(mem, struct graph *, n + 1), NEWS(mem, enum reason, n + 1), NEWS(mem, struct cover, n + 1)};
  enum reason *way = NEWS(mem, enum reason, n + 1); // to the representative; REASONS: it is literally the search's
  for (int i = 0; i < n; i++) {
    t.reason[i] = way[i] = REASONS, t.g[i] = f->brute.found[i].g;
    if (!naive_has(&f->ours, f->brute.found[i].key)) t.g[i] = representative(mem, p, t.g[i], &way[i]);
  }
  ask(&t, 0, HELD), ask(&t, OFF_WHOLE, WHOLE), ask(&t, OFF_SQUARE, SQUARE), ask(&t, OFF_SHAPE, SHAPE);
  ask(&t, OFF_ALL, EXPR);
  for (int i = 0; i < n; i++) {
    bool open = t.reason[i] == REASONS, same = same_expression(p, t.g[i]);
    if (t.reason[i] == EXPR && same) t.reason[i] = REASONS; // the rule may not remove it
    if (open && foreign(p, t.g[i])) t.reason[i] = VOCABULARY;
    if (t.reason[i] == REASONS || (way[i] == REASONS && t.reason[i] != HELD))
      bad++, refuse(r, t.g[i], "not held", t.c[i].why);
    else if (way[i] != REASONS)
      by[t.reason[i] == HELD ? way[i] : t.reason[i]]++;
    *proved += same;
  }
  return bad;
}

static int check(const struct row *r)
{
  struct arena mem = {0};
  struct graph *p = graph_of(&mem, r->text);
  struct trial_inputs x = trial_open(&mem, p);
  struct both f;
  double start = now_seconds();
  naive_run(&mem, p, &r->l, &x, &f.brute);
  struct tables *ts = tables_open(&mem, p, 0, r->l.max_ops, false);
  tables_graphs(&mem, ts, r->l.max_ops, r->l.max_axes, 1, &x, &f.ours);
  tables_graphs(&mem, ts, r->l.max_ops, r->l.max_axes, 2, &x, &f.sized);
  tables_close(ts);
  int inner = 0, proved = 0, by[REASONS] = {0};
  int bad = !none_cheaper(&f.brute, &f.ours, &f.sized, r) + search_alone(r, &f, &inner) +
            reasons(&mem, r, p, &f, by, &proved);
  print_message("%s: %llu prefixes, %llu complete, %llu equal, %llu wrong; structures: %d, by the axioms %d, search "
                "%d, inner %d;",
                r->name, (unsigned long long)f.brute.prefixes, (unsigned long long)f.brute.complete,
                (unsigned long long)f.brute.equal, (unsigned long long)f.brute.wrong, f.brute.n, proved, f.ours.n,
                inner);
  for (int k = 0; k < REASONS; k++) print_message(" %s %d", names[k], by[k]);
  print_message("; %.2f s\n", now_seconds() - start);
  if (!proved) bad++, print_message("%s: the axioms prove none of them\n", r->name);
  if (f.brute.wrong + f.ours.wrong) bad++, print_message("%s: the verifier refuses what is equal\n", r->name);
  if (f.brute.n != r->n.found || f.ours.n != r->n.ours || inner != r->n.inner || memcmp(by, r->by, sizeof by))
    bad++, print_message("%s: other numbers than before\n", r->name);
  arena_close(&mem);
  return bad;
}

void guarantee_check(bool deep)
{
  int bad = 0;
  for (size_t i = 0; i < COUNT(rows); i++)
    if (rows[i].deep == deep) bad += check(&rows[i]);
  assert_int_equal(bad, 0);
}
