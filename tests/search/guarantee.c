// The guarantee of docs/theory.md on programs so small that the paper's Algorithm 1 can be run as it stands.
//
// Whatever the search holds within the same limits, Algorithm 1 finds. Other graphs of Algorithm 1 have a
// representative that the search holds, or are removed by a rule that is named; and the search holds a graph that costs
// no more: no fewer blocks, and no more operators, elements moved, or operations.
#include "naive.h"
#include "examples.h"
#include "graphs.h"

#include "search/space.h"

// Why a graph is not literally one of the search's.
enum reason {
  HELD,       // `mica search --covers` holds it: idle loops, sums of one element, equal values made twice
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
     {"matmul mul sum accum accum_sum repeat=2", 2, 2, 0, 1}, {107, 16, 2}, {47, 34, 0, 0, 0, 12, 0, 0}},
    {"grouped heads, broadcast", false, "program p { Q: f32[2, 2, 2, 2]\n K: f32[2, 1, 2, 2]\n return matmul(Q, K) }",
     {"matmul mul sum accum accum_sum", 2, 2, 0, 0}, {128, 16, 0}, {64, 33, 0, 0, 0, 15, 0, 0}},
    {"transposed product", false, "program p { X: f32[4, 4]\n Y: f32[8, 4]\n return matmul(X, transpose(Y)) }",
     {"matmul mul sum accum accum_sum transpose", 2, 2, 0, 1}, {49, 8, 0}, {4, 23, 11, 0, 0, 3, 0, 0}},
    {"maximum", false, "program p { X: f32[4, 4]\n Y: f32[4, 4]\n return max(X, dim=1) * Y }",
     {"max mul accum", 3, 2, 0, 0}, {69, 4, 0}, {18, 27, 20, 0, 0, 0, 0, 0}},
    {"activation", false, "program p { X: f32[4, 4]\n W: f32[4, 4]\n return relu(matmul(X, W)) }",
     {"matmul mul sum relu accum accum_sum", 3, 1, 0, 0}, {27, 6, 0}, {3, 18, 0, 0, 0, 0, 0, 0}},
    {"normalized product", true, "program p { X: f32[2, 4]\n W: f32[4, 2]\n return matmul(X / sum(X, dim=1), W) }",
     {"matmul mul div sum accum accum_sum", 4, 1, 0, 0}, {143, 9, 0}, {73, 30, 0, 0, 0, 21, 10, 0}},
    {"function of a share", true, "program p { X: f32[2, 4]\n V: f32[4, 2]\n return matmul(relu(X / sum(X, dim=1)), V) }",
     {"matmul div sum relu accum accum_sum", 5, 0, 1, 0}, {26, 1, 0}, {5, 14, 0, 6, 0, 0, 0, 0}},
    {"product of 4", true, "program p { X: f32[4, 4]\n W: f32[4, 8]\n return matmul(X, W) }",
     {"matmul mul sum accum accum_sum", 4, 1, 0, 0}, {32, 6, 0}, {3, 23, 0, 0, 0, 0, 0, 0}},
    {"share of 4", true, "program p { X: f32[4, 4]\n return X / sum(X, dim=1) }",
     {"mul div sum accum accum_sum", 4, 1, 0, 0}, {233, 2, 0}, {24, 23, 0, 0, 0, 0, 184, 0}},
    {"sum of products of 4", true, "program p { X: f32[4, 4]\n Y: f32[4, 4]\n return sum(X * Y, dim=1) }",
     {"mul sum matmul accum accum_sum", 4, 1, 0, 0}, {64, 8, 0}, {26, 30, 0, 0, 0, 0, 0, 0}},
    {"norm of 4", true, "program p { X: f32[4, 4]\n return sqrt(mean(square(X), dim=1)) }",
     {"square sqrt mul mean sum mul_scalar=0.25 accum accum_sum accum_mean accum_rms", 4, 1, 0, 0}, {326, 14, 0}, {90, 8, 0, 0, 0, 0, 64, 150}},
    {"maximum of 4", true, "program p { X: f32[4, 4]\n Y: f32[4, 4]\n return max(X, dim=1) * Y }",
     {"max mul accum", 4, 1, 0, 0}, {84, 3, 0}, {26, 55, 0, 0, 0, 0, 0, 0}},
    {"activation of 4", true, "program p { X: f32[4, 4]\n W: f32[4, 4]\n return relu(matmul(X, W)) }",
     {"matmul mul sum relu accum accum_sum", 4, 1, 0, 0}, {42, 6, 0}, {3, 33, 0, 0, 0, 0, 0, 0}},
    {"gated product, looped", true, "program p { X: f32[2, 4]\n W: f32[4, 2]\n V: f32[4, 2]\n return matmul(X, W) * matmul(X, V) }",
     {"matmul mul accum accum_sum", 5, 0, 0, 0}, {25, 2, 0}, {1, 18, 0, 0, 0, 4, 0, 0}},
};
// clang-format on

static const struct graph *block_of(const struct graph *g)
{
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i].sub) return g->nodes[i].sub;
  return NULL;
}

// ---- the messages of the search ------------------------------------------------------------------------------------------

static void refuse(const struct row *r, const struct graph *g, const char *what, const char *why)
{
  struct str s = {0};
  graph_print(g, &s);
  print_message("%s: %s: %s\n%s", r->name, what, why, str_text(&s));
  str_free(&s);
}

// The reason that the answer names.
static enum reason reason_of(const struct cover *c)
{
  static const enum reason as[] = {[ALIKE_SELF] = HELD, [ALIKE_AXES] = AXES, [ALIKE_JOINS] = JOINS};
  if (c->held) return as[c->as];
  if (c->rules >> PRUNE_EXPR & 1) return EXPR;
  return c->rules == 1u << PRUNE_WHOLE ? WHOLE : c->rules == 1u << PRUNE_SQUARE ? SQUARE : c->rules == 1u << PRUNE_SHAPE ? SHAPE : REASONS;
}

// Idle loops are no loops, and without one accum_rms is three operators.
static struct search_opts opts_of(const struct row *r, unsigned off)
{
  return (struct search_opts){.max_kernel_ops = 1,
                              .max_block_ops = r->l.max_ops + (strstr(r->l.ops, "accum_rms") ? 2 : 0),
                              .max_values = 60000,
                              .threads = 1,
                              .seed = 7,
                              .off = off};
}

// Does the space hold the graphs whose answer names these rules once they are off? Says which it does not.
static int not_held_without(struct arena *mem, const struct row *r, const struct graph *p, const struct naive *x, const struct cover *c,
                            unsigned rules)
{
  struct graph **g = NEWS(mem, struct graph *, x->n + 1);
  struct cover *again = NEWS(mem, struct cover, x->n + 1);
  struct search_opts o = opts_of(r, rules);
  struct err e = {0};
  int n = 0, bad = 0;
  for (int i = 0; i < x->n; i++)
    if (c[i].rules == rules) g[n++] = x->found[i].g;
  assert_int_equal(search_covers(mem, p, &machine, &o, n, g, again, &e), OK);
  for (int i = 0; i < n; i++)
    if (!again[i].held) bad++, refuse(r, g[i], "not held without these rules", again[i].why);
  return bad;
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
static bool foreign(const struct graph *p, const struct graph *g)
{
  const struct graph *b = block_of(g);
  bool any = false;
  for (int i = 0; i < b->nnodes; i++) any |= mean_of_parts(b, &b->nodes[i]) || (b->nodes[i].op == OP_MUL && !has_products(p));
  return any;
}

// ---- one program ---------------------------------------------------------------------------------------------------

// Does a block read a tensor whose dimensions are not those of the program's?
static bool reads_views(const struct graph *g)
{
  bool views = false;
  for (int i = 0; i < g->nnodes; i++)
    for (int k = 0; k < g->nodes[i].nin && g->nodes[i].sub; k++) views |= op_rows[g->nodes[g->tensors[g->nodes[i].in[k]].node].op].rule == RULE_VIEW;
  return views;
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

// Results of Algorithm 1, and of the search.
struct both {
  struct naive brute, ours, sized; // sized: ours with other extents too
};

static int search_alone(const struct row *r, const struct both *f, int *inner)
{
  int bad = 0;
  for (int i = 0; i < f->ours.n; i++) {
    if (naive_has(&f->brute, f->ours.found[i].key)) continue;
    ++*inner;
    if (!reads_views(f->ours.found[i].g)) bad++, refuse(r, f->ours.found[i].g, "the search alone", "Algorithm 1 does not find it");
  }
  return bad;
}

// Do the axioms prove g, or a graph that does the same, equal to p?
static bool proved_by_axioms(struct arena *mem, const struct graph *p, const struct graph *g)
{
  struct alike alike[MOST_ALIKE];
  bool same = same_expression(p, g);
  for (int i = 0, n = graphs_alike(mem, p, g, 1, alike); i < n; i++) same |= same_expression(p, alike[i].g);
  return same;
}

// Counts the reasons of the graphs of Algorithm 1 that are not literally the search's.
static int reasons(struct arena *mem, const struct row *r, const struct graph *p, const struct both *f, int *by, int *proved)
{
  const struct naive *x = &f->brute;
  struct graph **g = NEWS(mem, struct graph *, x->n + 1);
  struct cover *c = NEWS(mem, struct cover, x->n + 1);
  struct search_opts o = opts_of(r, 0);
  struct err e = {0};
  int bad = 0;
  for (int i = 0; i < x->n; i++) g[i] = x->found[i].g;
  assert_int_equal(search_covers(mem, p, &machine, &o, x->n, g, c, &e), OK);
  for (int i = 0; i < x->n; i++) {
    bool ours = naive_has(&f->ours, x->found[i].key), same = proved_by_axioms(mem, p, g[i]);
    enum reason why = reason_of(&c[i]);
    if (why == EXPR && same) why = REASONS; // the rule may not remove it
    if (!c[i].held && !c[i].rules && foreign(p, g[i])) why = VOCABULARY;
    if (why == REASONS || (ours && why != HELD))
      bad++, refuse(r, g[i], "not held", c[i].why);
    else if (!ours)
      by[why]++;
    *proved += same;
  }
  for (unsigned rules = 1; rules < 1u << PRUNES; rules++) {
    bool named = false;
    for (int i = 0; i < x->n; i++) named |= c[i].rules == rules;
    if (named) bad += not_held_without(mem, r, p, x, c, rules);
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
  int bad = !none_cheaper(&f.brute, &f.ours, &f.sized, r) + search_alone(r, &f, &inner) + reasons(&mem, r, p, &f, by, &proved);
  print_message("%s: %llu prefixes, %llu complete, %llu equal, %llu wrong; structures: %d, by the axioms %d, search "
                "%d, inner %d;",
                r->name, (unsigned long long)f.brute.prefixes, (unsigned long long)f.brute.complete, (unsigned long long)f.brute.equal,
                (unsigned long long)f.brute.wrong, f.brute.n, proved, f.ours.n, inner);
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
