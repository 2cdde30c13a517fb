// Structures that the search must find: block graphs by what they hold, not by names or sizes. Every result is
// verified once more in full; counters and results do not depend on threads or runs; limits and stops are honoured.
// test: timeout 300
#include "naive.h"
#include "examples.h"
#include "graphs.h"
#include "thin.h"

static struct search_result find(struct arena *mem, const struct graph *p, int kernels, int block_ops, int threads)
{
  struct search_opts o = {.max_kernel_ops = kernels, .max_block_ops = block_ops, .threads = threads, .seed = 7};
  struct search_result r;
  struct err e = {0};
  assert_int_equal(search_run(mem, p, &machine, &o, &r, &e), OK);
  return r;
}

static int count(const struct graph *g, enum op op)
{
  int n = 0;
  for (int i = 0; i < g->nnodes; i++) n += g->nodes[i].op == op;
  return n;
}

// The k-th BLOCK node's graph, or NULL.
static const struct graph *block(const struct graph *g, int k)
{
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i].op == OP_BLOCK && k-- == 0) return g->nodes[i].sub;
  return NULL;
}

static int library_ops(const struct graph *g) { return graph_ops(g) - count(g, OP_BLOCK); }

// ---- one kernel ---------------------------------------------------------------------------------------------------

static const struct fused {
  const char *name;
  int products, exps, iters; // of the one block graph; iters: each input is loaded once
} one_kernel[] = {
    {"m_gqa", 2, 1, 3},   {"m_mha", 2, 1, 3},   {"m_mqa", 2, 1, 3},       {"lora", 3, 0, 4},      {"m_lora", 3, 0, 4},
    {"m_rms", 1, 0, 2},   {"m_gated", 2, 0, 3}, {"m_ntrans", 0, 0, 3},    {"g_norm", 0, 0, 3},    {"softmax", 0, 1, 1},
    {"mha_dec", 2, 1, 3}, {"gqa_dec", 2, 1, 3}, {"gqa_spec", 2, 1, 3},    {"mqa_dec", 2, 1, 3},   {"chameleon", 2, 1, 3},
    {"g_lstm", 2, 0, 5},  {"g_gemm", 1, 0, 3},  {"g_fmha_mask", 2, 1, 4}, {"qknorm_qk", 2, 1, 3}, {"m_qknorm", 2, 1, 3},
};

static bool holds(const struct search_result *r, const struct fused *f)
{
  for (int k = 0; k < r->n; k++) {
    const struct graph *b = block(r->found[k].g, 0);
    if (r->found[k].kernels == 1 && b && library_ops(r->found[k].g) == 0 && count(b, OP_MATMUL) == f->products && count(b, OP_EXP) == f->exps &&
        count(b, OP_ITER) == f->iters)
      return true;
  }
  print_message("%s: %d graphs; %s\n", f->name, r->n, r->why);
  return false;
}

static void test_one_kernel(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(one_kernel); i += (size_t)thinned(2)) {
    struct arena mem = {0};
    struct graph *p = load(&mem, one_kernel[i].name, 0, NULL);
    struct search_result r = find(&mem, p, 1, 16, 2);
    for (int k = 0; k < r.n; k++) assert_int_equal(r.found[k].kernels, 1);
    assert_true(holds(&r, &one_kernel[i]));
    arena_close(&mem);
  }
}

// Plans of several kernels do not push out the fused ones, and what is asked is all that it takes: operators tried.
static void test_default_limits(void **state)
{
  (void)state;
  static const struct {
    struct fused f;
    uint64_t most;
  } rows[] = {
      {{"m_gated", 2, 0, 3}, 1000000}, {{"m_rms", 1, 0, 2}, 60000},  {{"lora", 3, 0, 4}, 200000},
      {{"gqa_dec", 2, 1, 3}, 400000},  {{"m_gqa", 2, 1, 3}, 120000},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct arena mem = {0};
    struct search_result r = find(&mem, load(&mem, rows[i].f.name, 0, NULL), 0, 0, 2);
    assert_true(holds(&r, &rows[i].f));
    assert_in_range(r.stats.states, 1, rows[i].most);
    bool looped = false;
    for (int k = 0; k < r.n; k++) looped |= r.found[k].kernels == 1 && block(r.found[k].g, 0)->nloop > 0;
    assert_true(looped);
    arena_close(&mem);
  }
}

// Four outputs of two kinds: a kernel makes those of a kind together, so that two are enough.
static void test_together(void **state)
{
  (void)state;
  static const char text[] = "program p {\n a: f32[64, 32]\n b: f32[64, 32]\n c: f32[16, 16]\n d: f32[16, 16]\n"
                             " return a + b, a * b, c + d, c * d\n}";
  struct arena mem = {0};
  struct err e = {0};
  struct graph *g, *plain;
  assert_int_equal(front_parse(&mem, text, sizeof text - 1, "p", 0, NULL, &g, &e), OK);
  assert_int_equal(graph_expand(&mem, g, false, &plain, &e), OK);
  struct search_result r = find(&mem, plain, 4, 4, 2);
  int pairs = 0;
  for (int i = 0; i < r.n; i++) {
    const struct graph *first = block(r.found[i].g, 0), *second = block(r.found[i].g, 1);
    pairs +=
        r.found[i].kernels == 2 && second && graph_outputs(first, NULL) == 2 && first->ngrid && graph_outputs(second, NULL) == 2 && second->ngrid;
  }
  assert_true(pairs > 0);
  arena_close(&mem);
}

// Twenty layers in one kernel, by the rule for programs that work row by row; a program that does not is left alone.
static void test_chain(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct graph *p = load(&mem, "g_mlp20", 0, NULL);
  struct search_result r = find(&mem, p, 5, 0, 2);
  assert_true(r.n > 0);
  for (int i = 0; i < r.n; i++) {
    const struct graph *b = block(r.found[i].g, 0);
    assert_int_equal(count(b, OP_MATMUL), 20);
    assert_int_equal(count(b, OP_ITER), 41);
    assert_int_equal(library_ops(r.found[i].g), 0);
  }
  arena_close(&mem);
}

// ---- two kernels ------------------------------------------------------------------------------------------------------

// Which dimension of input k does a grid axis of b cut, as a set of bits?
static unsigned cut_dims(const struct graph *b, int iter)
{
  unsigned dims = 0;
  int k = 0;
  for (int i = 0; i < b->nnodes; i++) {
    if (b->nodes[i].op != OP_ITER || k++ != iter) continue;
    for (int x = 0; x < b->ngrid; x++)
      if (b->nodes[i].a.imap[x] != REPLICA) dims |= 1u << b->nodes[i].a.imap[x];
  }
  return dims;
}

// Does the first kernel split the dimension that both its products (or its one product) sum over, and a second one
// finish? Then what it saves has one dimension more than the output, of the grid's extent.
static bool splits_sum(const struct graph *g)
{
  const struct graph *first = block(g, 0), *second = block(g, 1);
  if (!first || !second || library_ops(g)) return false;
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    if (n->op != OP_BLOCK || n->sub != second) continue;
    for (int k = 0; k < n->nin; k++) {
      const struct tensor *t = &g->tensors[n->in[k]];
      if (g->nodes[t->node].op == OP_BLOCK && count(second, OP_SUM) > 0) return cut_dims(first, 0) | cut_dims(first, 1);
    }
  }
  return false;
}

static void test_split(void **state)
{
  (void)state;
  static const struct {
    const char *name;
    int first_products;
  } rows[] = {{"m_gqa", 2}, {"mlp", 1}, {"mha_dec", 2}};
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct arena mem = {0};
    struct graph *p = load(&mem, rows[i].name, 0, NULL);
    struct search_result r = find(&mem, p, 2, 11, 2);
    bool found = false;
    for (int k = 0; k < r.n; k++) found |= splits_sum(r.found[k].g) && count(block(r.found[k].g, 0), OP_MATMUL) == rows[i].first_products;
    if (!found) print_message("%s: %d graphs; %s\n", rows[i].name, r.n, r.why);
    assert_true(found);
    arena_close(&mem);
  }
}

// Who made tensor t: a block graph, or NULL.
static const struct graph *maker_of(const struct graph *g, int t) { return g->nodes[g->tensors[t].node].sub; }

// Does a block graph read what an earlier kernel left, multiply, and leave partial sums, which another one adds up?
static bool splits_later(const struct graph *g, int64_t whole)
{
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    if (n->op != OP_BLOCK || count(n->sub, OP_MATMUL) || !(count(n->sub, OP_SUM) + count(n->sub, OP_ACCUM_SUM))) continue;
    for (int k = 0; k < n->nin; k++) {
      const struct graph *b = maker_of(g, n->in[k]);
      if (!b || count(b, OP_MATMUL) != 1 || shape_size(&g->tensors[n->in[k]].shape) <= whole) continue;
      const struct node *product = &g->nodes[g->tensors[n->in[k]].node];
      for (int m = 0; m < product->nin; m++)
        if (maker_of(g, product->in[m])) return true;
    }
  }
  return false;
}

// The sum over V of shares that are not linear: each share needs the sum of all of X first, and no product may be turned
// around it. Split sums come from a kernel that reads what another one finished.
static void test_split_later(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct graph *p = graph_of(&mem, "program p { X: f32[256, 8192]\n V: f32[8192, 4096]\n return matmul(relu(X / sum(X, dim=1)), V) }");
  struct search_result r = find(&mem, p, 0, 0, 2);
  int found = 0;
  for (int k = 0; k < r.n; k++) found += splits_later(r.found[k].g, 256 * 4096);
  assert_true(found > 0);
  assert_true(r.complete);
  arena_close(&mem);
}

// More tensors than later kernels may be given: those are taken that the model likes, so more values make no plan dearer,
// nor does the order of a program's operands choose.
static void test_most_cuts(void **state)
{
  (void)state;
  static const char *const texts[] = {
      "program p { X: f32[16, 256]\n W: f32[256, 512]\n V: f32[256, 512]\n U: f32[512, 128]\n"
      " return matmul((matmul(X, W) + matmul(X, V)) * matmul(X, V), U) }",
      "program p { U: f32[512, 128]\n V: f32[256, 512]\n W: f32[256, 512]\n X: f32[16, 256]\n"
      " return matmul(matmul(X, V) * (matmul(X, V) + matmul(X, W)), U) }",
      "program p { X: f32[16, 4096]\n W: f32[4096, 512]\n V: f32[4096, 512]\n G: f32[4096]\n n = X / sqrt(mean(square(X), dim=1))\n"
      " return matmul(n * G, W) * matmul(n * G, V) }"};
  double last[COUNT(texts)] = {0};
  for (size_t i = 0; i < COUNT(texts); i++)
    for (int values = 300; values <= 1000; values += 350 * thinned(3)) {
      struct arena mem = {0};
      struct search_opts o = {.max_values = values, .threads = 2, .seed = 7};
      struct search_result r;
      struct err e = {0};
      assert_int_equal(search_run(&mem, graph_of(&mem, texts[i]), &machine, &o, &r, &e), OK);
      assert_true(r.n > 0 && !r.complete);
      assert_non_null(strstr(r.why, "more than 160 tensors"));
      if (last[i] > 0) assert_true(r.found[0].cost <= last[i]);
      last[i] = r.found[0].cost;
      arena_close(&mem);
    }
  assert_true(last[0] == last[1]);
}

// The message states that some sets of tensors were not tried.
static void test_most_sets(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct search_result r = find(&mem, load(&mem, "m_ntrans", 0, NULL), 0, 0, 2);
  assert_false(r.complete);
  assert_non_null(strstr(r.why, "kernels that make several tensors were tried for 8 sets"));
  arena_close(&mem);
}

// ---- behaviour ----------------------------------------------------------------------------------------------------------

static void test_verified(void **state)
{
  (void)state;
  static const char *const names[] = {"m_gqa", "m_rms", "m_lora", "mlp", "m_ntrans"};
  for (size_t i = 0; i < COUNT(names); i++) {
    struct arena mem = {0};
    struct graph *p = load(&mem, names[i], 0, NULL);
    struct search_result r = find(&mem, p, 3, 11, 2);
    assert_true(r.n > 0);
    for (int k = 0; k < r.n; k += 5) {
      struct verify_opts o = {.seed = 3, .full_size_ops = 1, .delta = 0.5};
      struct certificate c;
      struct err e = {0};
      assert_int_equal(verify_equal(p, r.found[k].g, &o, &c, &e), OK);
      assert_true(c.equal);
    }
    arena_close(&mem);
  }
}

// A tensor of one element has no dimension that is cut, as a constant has none; it is read all the same, an input as well as what
// an earlier kernel made.
static void test_single_elements(void **state)
{
  (void)state;
  static const char *const texts[] = {"program p { X: f32[1, 64]\n H: f32[1, 64]\n A: f32[1, 64]\n return rms_norm(X + A * (rms_norm(H) + X)) }",
                                      "program p { X: f32[1, 64]\n S: f32[1, 1]\n return X * S / sqrt(sum(square(X), dim=1) + 2) }"};
  for (size_t i = 0; i < COUNT(texts); i++) {
    struct arena mem = {0};
    struct graph *p, *g = graph_of(&mem, texts[i]);
    struct err e = {0};
    int reads = 0; // kernels that read a single element
    assert_int_equal(graph_expand(&mem, g, false, &p, &e), OK);
    struct search_result r = find(&mem, p, 3, 11, 2);
    assert_true(r.n > 0);
    for (int k = 0; k < r.n; k++) {
      struct verify_opts o = {.seed = 3, .full_size_ops = 1, .delta = 0.5};
      struct certificate c;
      const struct graph *f = r.found[k].g;
      assert_int_equal(verify_equal(p, f, &o, &c, &e), OK);
      if (!c.equal) fail_msg("%s: %s", r.found[k].schedule, c.note);
      for (int n = 0; n < f->nnodes; n++)
        for (int x = 0; x < f->nodes[n].nin; x++) reads += f->nodes[n].op == OP_BLOCK && shape_size(&f->tensors[f->nodes[n].in[x]].shape) == 1;
    }
    assert_true(reads > 0);
    arena_close(&mem);
  }
}

static void test_deterministic(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct graph *p = load(&mem, "m_gqa", 0, NULL);
  struct search_result a = find(&mem, p, 2, 9, 1), b = find(&mem, p, 2, 9, 3);
  assert_int_equal(a.n, b.n);
  for (int i = 0; i < a.n; i++) assert_true(graph_same(a.found[i].g, b.found[i].g));
  assert_int_equal(a.stats.states, b.stats.states);
  assert_int_equal(a.stats.values, b.stats.values);
  assert_memory_equal(a.stats.pruned, b.stats.pruned, sizeof a.stats.pruned);
  arena_close(&mem);
}

static void test_limits(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct graph *p = load(&mem, "m_gqa", 0, NULL);
  struct search_result r = find(&mem, p, 1, 5, 2); // flash attention needs 6 operators with a fused accumulator
  for (int i = 0; i < r.n; i++) assert_true(r.found[i].block_ops <= 5);
  int stop = 1;
  struct search_opts o = {.threads = 2, .stop = &stop};
  struct err e = {0};
  assert_int_equal(search_run(&mem, p, &machine, &o, &r, &e), OK);
  assert_false(r.complete);
  assert_non_null(strstr(r.why, "stopped"));
  arena_close(&mem);
}

// ---- rules switched off -----------------------------------------------------------------------------------------------

// Programs whose graphs of up to `ops` block operators can be listed to the end with any rule switched off.
static const struct {
  const char *text;
  int ops;
} small[] = {
    {"program a() { X: f32[4, 6]\n Y: f32[6, 8]\n return matmul(X, Y) }", 4},
    {"program b() { X: f32[4, 6]\n return X / sum(X, dim=1) }", 4},
    {"program c() { X: f32[4, 6]\n Y: f32[4, 6]\n return sum(X * Y, dim=1) }", 4},
    {"program d() { X: f32[4, 6]\n return sqrt(sum(square(X), dim=1)) }", 4},
    {"program e() { X: f32[4, 6]\n Y: f32[4, 6]\n return exp(X + Y) }", 4},
    {"program f() { X: f32[4, 6]\n return sum(exp(X), dim=1) }", 4},
    {"program g() { X: f32[4, 6]\n W: f32[6, 8]\n return relu(matmul(X, W)) }", 4},
    {"program h() { X: f32[4, 6]\n Y: f32[4, 6]\n Z: f32[4, 1]\n return (X + Y) * Z }", 4},
    {"program i() { X: f32[4, 6]\n Y: f32[4, 6]\n Z: f32[4, 6]\n return X * Y + Z }", 4},
};

static struct search_opts small_opts(size_t i, int rule, bool off)
{
  return (struct search_opts){
      .max_kernel_ops = 1, .max_block_ops = small[i].ops, .max_values = 60000, .most = 400, .threads = 2, .seed = 1, .off = off ? 1u << rule : 0};
}

static struct search_result find_small(struct arena *mem, const struct graph *p, const struct search_opts *o)
{
  struct search_result r;
  struct err e = {0};
  assert_int_equal(search_run(mem, p, &machine, o, &r, &e), OK);
  if (!r.complete) fail_msg("%d operators, off %x: %s", o->max_block_ops, o->off, r.why);
  return r;
}

// Of what was found, how much is outside the space under other options? *proved: of that, what the axioms prove equal.
static int outside(struct arena *mem, const struct graph *p, const struct search_opts *o, const struct search_result *found, int *proved)
{
  struct graph **g = NEWS(mem, struct graph *, found->n + 1);
  struct cover *c = NEWS(mem, struct cover, found->n + 1);
  struct err e = {0};
  int n = 0;
  for (int k = 0; k < found->n; k++) g[k] = found->found[k].g;
  assert_int_equal(search_covers(mem, p, &machine, o, found->n, g, c, &e), OK);
  for (int k = 0; k < found->n; k++) {
    n += !c[k].held;
    *proved += !c[k].held && same_expression(p, g[k]);
  }
  return n;
}

// With a rule off, the search finds no graph outside of the space with the rule (up to the order of operands), and none cheaper; and the reverse.
// Only four rules may remove graphs without another form in the space (rules.c lists them), and never the cheapest one. The oracle may only remove
// graphs whose equality the axioms do not prove.
static void test_rules_lose_nothing(void **state)
{
  (void)state;
  const unsigned may_lose = 1u << PRUNE_EXPR | 1u << PRUNE_SHAPE | 1u << PRUNE_WHOLE | 1u << PRUNE_SQUARE;
  uint64_t values[PRUNES] = {0}, losses[PRUNES] = {0};
  for (size_t i = 0; i < COUNT(small); i++)
    for (int rule = 0; rule < PRUNES; rule++) {
      if (!prune_rows[rule].switchable) continue;
      struct arena mem = {0};
      struct graph *p = graph_of(&mem, small[i].text);
      struct search_opts on = small_opts(i, rule, false), off = small_opts(i, rule, true);
      struct search_result with = find_small(&mem, p, &on), without = find_small(&mem, p, &off);
      int proved = 0, lost = outside(&mem, p, &on, &without, &proved);
      assert_true(with.n > 0 && without.n > 0);
      assert_int_equal(outside(&mem, p, &off, &with, &(int){0}), 0);
      if (lost && !(may_lose >> rule & 1)) fail_msg("%s: rule %s loses %d graphs", small[i].text, prune_rows[rule].name, lost);
      assert_true(with.found[0].cost <= without.found[0].cost);
      if (rule == PRUNE_EXPR) assert_true(with.stats.pruned[rule] > 0 && !without.stats.pruned[rule] && !proved);
      values[rule] += without.stats.values - with.stats.values + without.stats.states - with.stats.states;
      losses[rule] += (uint64_t)lost;
      arena_close(&mem);
    }
  assert_true(values[PRUNE_EXPR] > 0 && values[PRUNE_CANON] > 0 && values[PRUNE_SHAPE] > 0 && losses[PRUNE_SHAPE] > 0 && losses[PRUNE_EXPR] > 0);
}

// An output that is an input needs no kernel.
static void test_input_as_output(void **state)
{
  (void)state;
  struct arena mem = {0};
  const struct graph *p = graph_of(&mem, "program both() {\n X: f32[64, 64]\n W: f32[64, 64]\n return exp(X) / sum(exp(X), dim=1), W\n}\n");
  const struct search_result r = find(&mem, p, 3, 4, 2);
  assert_true(r.n > 0);
  for (int k = 0; k < r.n; k++) {
    int outs[2];
    const struct graph *g = r.found[k].g;
    assert_int_equal(graph_outputs(g, outs), 2);
    assert_int_equal(g->nodes[g->tensors[outs[1]].node].op, OP_INPUT);
  }
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_one_kernel),      cmocka_unit_test(test_input_as_output),
      cmocka_unit_test(test_default_limits),  cmocka_unit_test(test_together),
      cmocka_unit_test(test_chain),           cmocka_unit_test(test_split),
      cmocka_unit_test(test_split_later),     cmocka_unit_test(test_most_cuts),
      cmocka_unit_test(test_most_sets),       cmocka_unit_test(test_verified),
      cmocka_unit_test(test_single_elements), cmocka_unit_test(test_deterministic),
      cmocka_unit_test(test_limits),          cmocka_unit_test(test_rules_lose_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
