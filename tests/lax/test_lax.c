// Subprograms: every program is divided into convex parts that the search can take. Each part is a program, and all parts together are equal to the
// whole program.
#include "eval/eval.h"
#include "front/front.h"
#include "lax/lax.h"
#include "verify/verify.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SOFTMAX(y, x, dim) " " y " = softmax(" x ", dim=" dim ")\n"

static struct graph *plain(struct arena *mem, const char *text)
{
  struct err e = {0};
  struct graph *g, *p = NULL;
  if (front_parse(mem, text, strlen(text), "test", 0, NULL, &g, &e) || graph_expand(mem, g, false, &p, &e)) fail_msg("%s\n%s", e.text, text);
  return p;
}

static struct lax_split partition(struct arena *mem, const struct graph *p, int max_ops, const struct lax_probe *probe)
{
  struct err e = {0};
  struct lax_split s;
  if (lax_partition(mem, p, max_ops, probe, &s, &e)) fail_msg("%s: %s", p->name, e.text);
  return s;
}

// Results of parts have their names in the joined program, also where parts share a graph. A result may be the view of another.
static int named_as(const struct graph *p, const struct lax_split *s, const struct graph *g)
{
  int all = 0;
  for (int i = 0; i < s->n; i++)
    for (int k = 0; k < s->parts[i].nout; k++) {
      const char *name = p->tensors[s->parts[i].out[k]].name;
      int found = 0;
      for (int t = 0; t < g->ntensors; t++) found += name && g->tensors[t].name && !strcmp(g->tensors[t].name, name);
      assert_true(found <= 1); // 0: it is an input of the program, or two results are one tensor
      all += found;
    }
  return all;
}

static struct graph *joined(struct arena *mem, const struct graph *p, const struct lax_split *s)
{
  struct err e = {0};
  struct graph **own = NEWS(mem, struct graph *, s->n + 1), *g;
  for (int i = 0; i < s->n; i++) own[i] = s->parts[i].g;
  if (lax_join(mem, p, s, own, &g, &e)) fail_msg("%s: %s", p->name, e.text);
  named_as(p, s, g);
  return g;
}

// ---- what holds for every split ----

static int exponentials(struct arena *mem, const struct graph *g)
{
  int *depth = NEWS(mem, int, g->ntensors + 1), most = 0;
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    int d = 0;
    for (int k = 0; k < n->nin; k++) d = MAX(d, depth[n->in[k]]);
    d += n->op == OP_EXP;
    most = MAX(most, d);
    for (int k = 0; k < n->nout; k++) depth[n->out + k] = d;
  }
  return most;
}

// Parts of an input are read where they are.
static bool is_library(const struct graph *g, const struct node *n)
{
  enum rule r = op_rows[n->op].rule;
  return r == RULE_CONCAT || r == RULE_AT || (r == RULE_SPLIT && g->nodes[g->tensors[n->in[0]].node].op != OP_INPUT);
}

static void check_signature(const struct graph *p, const struct part *part)
{
  int in[512], out[512];
  const struct graph *g = part->g;
  assert_int_equal(graph_inputs(g, in), part->nin);
  assert_int_equal(graph_outputs(g, out), part->nout);
  for (int k = 0; k < part->nin + part->nout; k++) {
    const struct tensor *x = &g->tensors[k < part->nin ? in[k] : out[k - part->nin]];
    const struct tensor *y = &p->tensors[k < part->nin ? part->in[k] : part->out[k - part->nin]];
    assert_int_equal(x->dtype, y->dtype);
    assert_true(shape_eq(&x->shape, &y->shape));
    if (k >= part->nin) continue;
    assert_non_null(x->name);
    if (y->name) assert_string_equal(x->name, y->name);
  }
}

// Marks the results of operators of all ranks whose operands are there.
static void meet(const struct graph *p, const struct lax_split *s, bool *there)
{
  for (int i = 0; i < s->nmeetings; i++) {
    const struct node *n = &p->nodes[s->meetings[i]];
    bool all = true;
    for (int k = 0; k < n->nin; k++) all &= there[n->in[k]];
    for (int k = 0; k < n->nout; k++) there[n->out + k] |= all;
  }
}

// Parts are programs of the right kind and size, and read only what is there.
static void check_parts(struct arena *mem, const struct graph *p, const struct lax_split *s, int max_ops)
{
  bool *there = NEWS(mem, bool, p->ntensors + 1);
  for (int t = 0; t < p->ntensors; t++) there[t] = p->nodes[p->tensors[t].node].op == OP_INPUT;
  for (int i = 0; i < s->n; i++) {
    const struct part *part = &s->parts[i];
    struct err e = {0};
    int library = 0, ops = graph_ops(part->g);
    assert_int_equal(part->g->world, 1);
    assert_false(graph_collects(part->g));
    meet(p, s, there);
    if (graph_check(part->g, &e)) fail_msg("%s, part %d: %s", p->name, i, e.text);
    check_signature(p, part);
    for (int k = 0; k < part->g->nnodes; k++) library += is_library(part->g, &part->g->nodes[k]);
    if (part->searchable) {
      if (library) assert_true(part->row_chain);
      assert_true(exponentials(mem, part->g) <= 1);
      assert_true(ops <= max_ops || part->row_chain);
      assert_true(ops > 0);
    } else if (ops > library) {
      fail_msg("%s, part %d holds more than library operators", p->name, i);
    }
    if (i && !*part->why) fail_msg("%s, part %d: no reason", p->name, i);
    assert_true(strlen(part->why) < 159);
    for (int k = 0; k < part->nin; k++) assert_true(there[part->in[k]]);
    for (int k = 0; k < part->nout; k++) there[part->out[k]] = true;
  }
}

static void check_whole(const struct graph *p, const struct lax_split *s)
{
  int in[512], out[512];
  const struct part *part = s->parts;
  assert_int_equal(graph_inputs(p, in), part->nin);
  assert_int_equal(graph_outputs(p, out), part->nout);
  assert_memory_equal(in, part->in, sizeof(int) * (size_t)part->nin);
  assert_memory_equal(out, part->out, sizeof(int) * (size_t)part->nout);
}

static void check_same(const struct lax_split *a, const struct lax_split *b)
{
  assert_int_equal(a->n, b->n);
  for (int i = 0; i < a->n; i++) {
    assert_true(graph_same(a->parts[i].g, b->parts[i].g));
    assert_string_equal(a->parts[i].why, b->parts[i].why);
  }
}

static void values_within(struct arena *mem, const struct graph *p, const struct graph *g, double off)
{
  struct err e = {0};
  void *in[64], *want[64], *got[64];
  int t[64];
  struct graph *all[2];
  assert_int_equal(graph_unfold(mem, p, &all[0], &e) + graph_unfold(mem, g, &all[1], &e), OK);
  p = all[0], g = all[1];
  int n = graph_outputs(p, t);
  eval_random(mem, p, DOM_F64, NULL, 1, in);
  assert_int_equal(eval_run(mem, p, DOM_F64, NULL, in, want, NULL, &e), OK);
  assert_int_equal(eval_run(mem, g, DOM_F64, NULL, in, got, NULL, &e), OK);
  for (int k = 0; k < n; k++)
    for (int64_t i = 0; i < shape_size(&p->tensors[t[k]].shape); i++) assert_true(fabs(((double *)want[k])[i] - ((double *)got[k])[i]) <= off);
}

static void check_values(struct arena *mem, const struct graph *p, const struct graph *g) { values_within(mem, p, g, 0); }
static void near_values(struct arena *mem, const struct graph *p, const struct graph *g) { values_within(mem, p, g, 1e-12); }

static struct lax_split probed_split(struct arena *mem, const struct graph *p, int max_ops, const struct lax_probe *probe)
{
  struct lax_split s = partition(mem, p, max_ops, probe), again = partition(mem, p, max_ops, probe);
  check_parts(mem, p, &s, max_ops ? max_ops : LAX_MAX_OPS);
  check_same(&s, &again);
  struct graph *g = joined(mem, p, &s);
  assert_int_equal(graph_inputs(g, NULL), graph_inputs(p, NULL));
  assert_int_equal(graph_outputs(g, NULL), graph_outputs(p, NULL));
  return s;
}

static struct lax_split split_of(struct arena *mem, const struct graph *p, int max_ops) { return probed_split(mem, p, max_ops, NULL); }

// ---- cases: a program and the parts it falls into ----

#define TEN(a, b) " " b " = relu(tanh(relu(tanh(relu(tanh(relu(tanh(relu(tanh(" a "))))))))))\n"
#define MIX(a, b) " r" b " = relu(tanh(" a "))\n " b " = r" b " / sum(r" b ", dim=0)\n"
#define ATTENTION(o, q, k, v) SOFTMAX("p" o, "matmul(" q ", transpose(" k ")) * 0.5", "1") " " o " = matmul(p" o ", " v ")\n"
#define LAYER                                                                                              \
  " n = rms_norm(X, g1)\n q = reshape(matmul(n, Wq), [6, 2, 4])\n k = reshape(matmul(n, Wk), [6, 2, 4])\n" \
  " v = reshape(matmul(n, Wv), [6, 2, 4])\n"                                                               \
  " s = matmul(transpose(q, perm=[1, 0, 2]), transpose(k, perm=[1, 2, 0])) * 0.5\n"                        \
  " p = softmax(s, dim=2)\n o = matmul(p, transpose(v, perm=[1, 0, 2]))\n"                                 \
  " h = X + matmul(reshape(transpose(o, perm=[1, 0, 2]), [6, 8]), Wo)\n"                                   \
  " m = rms_norm(h, g2)\n y = h + matmul(silu(matmul(m, W1)) * matmul(m, W2), W3)\n"

// clang-format off
static const struct {
  const char *name, *inputs, *body;
  int max_ops;
  const char *kinds; // s: searchable, l: library
  struct {
    int part;
    const char *what; // in its `why`
    const char *in;   // names of its inputs, blank-separated; NULL: any
  } says[4];
} cases[] = {
    {"one softmax", "X: f32[4, 8]", " return softmax(X, dim=1)\n", 0, "s", {{0, "", "X"}}},
    {"opaque functions stay inside", "X: f32[4, 8]\n W: f32[8, 8]",
     " return exp(silu(gelu(tanh(sigmoid(matmul(X, W))))))\n", 0, "s", {{0, "", "X W"}}},
    {"two exponentials side by side", "X: f32[4, 8]\n Y: f32[4, 8]", " return exp(X) * exp(Y)\n", 0, "s",
     {{0, "", "X Y"}}},
    {"unused input", "X: f32[4]\n Y: f32[4]", " return exp(X)\n", 0, "s", {{0, "", "X Y"}}},
    {"stacked softmaxes", "X: f32[4, 8]", SOFTMAX("A", "X", "1") SOFTMAX("B", "A", "1") " return B\n", 0, "ss",
     {{1, "second exponential on a path: exp", "A"}}},
    {"exponential of an exponential", "X: f32[4]", " E = exp(X)\n return exp(E)\n", 0, "ss",
     {{1, "second exponential on a path: exp at line 4", "E"}}},
    {"attention feeds attention", "Q: f32[4, 8]\n K: f32[64, 8]\n V: f32[64, 8]\n K2: f32[64, 8]\n V2: f32[64, 8]",
     ATTENTION("A", "Q", "K", "V") ATTENTION("B", "A", "K2", "V2") " return B\n", 0, "ss",
     {{1, "second exponential on a path", "K2 A V2"}}},
    {"softmax, attention, attention", "Q: f32[4, 8]\n K: f32[64, 8]\n V: f32[64, 8]\n K2: f32[64, 8]",
     SOFTMAX("S", "Q", "1") ATTENTION("A", "S", "K", "V") ATTENTION("B", "A", "K2", "V") " return B\n", 0, "sss",
     {{1, "second exponential", "K S V"}, {2, "second exponential", "K2 A V"}}},
    {"projections go where they cost nothing", "Q: f32[4, 8]\n K: f32[64, 8]\n V: f32[64, 8]\n W: f32[8, 8]",
     " K2 = matmul(K, W)\n" ATTENTION("A", "Q", "K", "V") ATTENTION("B", "A", "K2", "V") " return B\n", 0, "ss",
     {{0, "", "K Q V"}, {1, "second exponential", "K W A V"}}},
    {"mask used by both", "Q: f32[4, 8]\n K: f32[8, 8]\n M: f32[1, 8]",
     SOFTMAX("A", "matmul(Q, K) + M", "1") SOFTMAX("B", "matmul(A, K) + M", "1") " return B\n", 0, "ss",
     {{0, "", "Q K M"}, {1, "second", "A K M"}}},
    {"views of inputs are copied", "Q: f32[8, 8]\n K: f32[8, 4]",
     " keys = repeat(transpose(K), dim=0, times=2)\n" SOFTMAX("A", "matmul(Q, keys * 2)", "1")
     SOFTMAX("B", "matmul(transpose(keys), transpose(A)) + transpose(keys)", "0") " return B\n", 0, "ss",
     {{0, "", "K Q"}, {1, "second", "K A"}}},
    {"views of results are made by their reader", "X: f32[4, 8]",
     SOFTMAX("A", "X", "1") " R = repeat(A, dim=0, times=3)\n" SOFTMAX("B", "R", "1") " return B\n", 0, "ss",
     {{1, "second", "A"}}},
    {"concat in the middle", "A: f32[4, 8]\n B: f32[4, 8]\n W: f32[16, 4]",
     " a = relu(A * B)\n b = tanh(A + B)\n C = concat(a, b, dim=1)\n return relu(matmul(C, W))\n", 0, "ss",
     {{0, "5 operators around split and concat: one kernel by rule", "A B"},
      {1, "after concat `C` at line 7, which is fused by rule", "C W"}}},
    {"products on both sides of a concat", "A: f32[4, 8]\n W: f32[8, 4]\n V: f32[8, 4]",
     " C = concat(matmul(A, W), relu(matmul(A, V)), dim=1)\n return matmul(C, W)\n", 0, "sss",
     {{0, "", "A W V"}, {1, "concat `C` at line 5 is fused by rule", NULL}, {2, "after concat `C`", "C W"}}},
    {"parts of a product with a bias", "X: f32[4, 8]\n W: f32[8, 12]\n b: f32[12]",
     " y = matmul(X, W) + b\n q = chunk(y, dim=1, parts=3, index=0)\n k = chunk(y, dim=1, parts=3, index=1)\n return matmul(q, transpose(k))\n", 0, "ss",
     {{0, "", "X W b"}, {1, "parts of add `y` at line 5 are read", "y"}}},
    {"a table that rows share", "X: f32[4, 16, 8]\n F: f32[16, 4]",
     " T = sin(concat(F, F, dim=1))\n a, b = split(X, dim=2, parts=2)\n return concat(-b, a, dim=2) * T + X\n", 0, "ss",
     {{0, "2 operators around", "F"}, {1, "after concat at line 4, which is fused by rule; 4 operators around", NULL}}},
    {"library operators in a row", "A: f32[4, 8]\n B: f32[4, 8]",
     " C = concat(A, B, dim=1)\n D, E = split(transpose(C), dim=0, parts=2)\n return relu(D) + E\n", 0, "s",
     {{0, "4 operators around", "A B"}}},
    {"only library operators", "A: f32[4, 8]\n B: f32[4, 8]", " return concat(A, B, dim=0), A\n", 0, "l",
     {{0, "", "A B"}}},
    {"all_reduce of one", "A: f32[4, 8]", " r = all_reduce(exp(A))\n return relu(r)\n", 0, "s",
     {{0, "", "A"}}},
    {"all_reduce", "world 2\n A: f32[8, 8] shard(0)", " r = all_reduce(exp(A))\n return relu(r)\n", 0, "ss",
     {{0, "", "A"}, {1, "after all_reduce `r` at line 4, a collective operation", "r"}}},
    {"ranks meet between views", "world 2\n A: f32[8, 8] shard(0)\n B: f32[8]",
     " r = all_gather(transpose(exp(A)), dim=1)\n return relu(transpose(r)), all_reduce(B), transpose(all_gather(A, dim=0))\n", 0, "ss",
     {{0, "", "A"}, {1, "after all_gather `r`", "r"}}},
    {"ranks meet twice", "world 4\n X: f32[4, 8] shard(0)\n W: f32[8, 16] shard(1)\n V: f32[16, 8] shard(0)",
     " a = all_gather(relu(X), dim=0)\n b = reduce_scatter(matmul(relu(matmul(a, W)), V), dim=0)\n return all_gather(X + b, dim=0)\n", 0, "sss",
     {{0, "", "X"}, {1, "after all_gather `a`", "a W V"}, {2, "after reduce_scatter `b`", "X b"}}},
    {"library operators on both sides", "world 2\n A: f32[4, 8] shard(0)",
     " C = concat(A, A, dim=1)\n D = all_gather(C, dim=1)\n return concat(D, D, dim=1)\n", 0, "ll",
     {{0, "", "A"}, {1, "a collective operation", "D"}}},
    {"branches apart once it is cut", "A: f32[4, 8]\n B: f32[4, 8]",
     " return concat(relu(exp(A)), relu(exp(B)), dim=0)\n", 0, "s",
     {{0, "5 operators around", "A B"}}},
    {"branches apart", "A: f32[4, 8]\n B: f32[4, 8]",
     " return exp(exp(A)), exp(exp(B))\n", 0, "ssss",
     {{0, "", "A"}, {1, "second exponential", NULL}}},
    {"branches apart between ranks", "world 2\n A: f32[4, 8] shard(0)\n B: f32[4, 8]",
     " return all_reduce(relu(exp(A))), all_reduce(relu(exp(B)))\n", 0, "ss",
     {{0, "", "A"}, {1, "shares no tensor", "B"}}},
    {"branches together where nothing is cut", "A: f32[4, 8]\n B: f32[4, 8]", " return relu(A), exp(B)\n", 0, "s",
     {{0, "", "A B"}}},
    {"too many operators", "X: f32[4, 8]\n W: f32[8, 1]\n V: f32[1, 8]\n A: f32[4, 4]",
     TEN("X", "a") " b = matmul(A, matmul(a, W))\n" TEN("matmul(b, V)", "c") TEN("c", "d") " return d\n", 0, "ss",
     {{0, "", "X W A"}, {1, "more than 24 operators: cut after matmul `b` at line 7", "b V"}}},
    {"a limit of its own", "X: f32[4, 8]", MIX("X", "a") MIX("a", "b") MIX("b", "c") " return c\n", 4, "sss",
     {{1, "more than 4 operators: cut after div `a`", "a"}, {2, "cut after div `b`", "b"}}},
    {"local to its rows", "X: f32[4, 8]\n W: f32[8, 8]\n b: f32[8]",
     TEN("matmul(X, W) + b", "a") TEN("a / sum(a, dim=1)", "c") TEN("c", "d") " return d\n", 0, "s",
     {{0, "34 operators, but local to their rows: chained into one kernel by rule", "X W b"}}},
    {"rows mixed by a product", "X: f32[4, 4]",
     TEN("matmul(X, X)", "a") TEN("a", "c") TEN("c", "d") " return d\n", 0, "ss", {{1, "more than 24", NULL}}},
    {"rows seen through a view", "X: f32[4, 4]",
     TEN("transpose(X)", "a") TEN("a", "c") TEN("transpose(c)", "d") " return d\n", 0, "ss",
     {{1, "more than 24", NULL}}},
    {"rows mixed by a reduction", "X: f32[4, 4]",
     TEN("X / sum(X, dim=0)", "a") TEN("a", "c") TEN("c", "d") " return d\n", 0, "ss", {{1, "more than 24", NULL}}},
    {"a transformer layer",
     "X: f32[6, 8]\n g1: f32[8]\n g2: f32[8]\n Wq: f32[8, 8]\n Wk: f32[8, 8]\n Wv: f32[8, 8]\n Wo: f32[8, 8]\n"
     " W1: f32[8, 16]\n W2: f32[8, 16]\n W3: f32[16, 8]",
     LAYER " return y\n", 0, "ss",
     {{0, "", "X"}, {1, "more than 24 operators: cut after sqrt at line 12", NULL}}},
    {"output is an input", "X: f32[4]", " return X\n", 0, "l", {{0, "", "X"}}},
    {"outputs are views of inputs", "X: f32[4, 8]", " return exp(exp(X)), transpose(X), X\n", 0, "ss", {{0, "", "X"}}},
    {"an output is computed from indices", "X: f32[4, 8]", " a, b = topk(X, k=2, dim=1)\n return iota([4]) * 0 + 2, exp(a), b\n", 0, "ls",
     {{0, "", "X"}}},
    {"outputs used inside", "X: f32[4, 8]",
     " a = exp(X)\n b = relu(a)\n c = exp(b)\n return c, a, transpose(b), a\n", 0, "ss", {{1, "second", "b"}}},
    {"dead operators", "X: f32[4, 8]", " a = concat(X, X, dim=0)\n b = exp(exp(X))\n return relu(X)\n", 0, "s",
     {{0, "", "X"}}},
};
// clang-format on

static void check_says(const struct part *part, const char *name, const char *what, const char *in)
{
  char names[512] = "";
  for (int k = 0, n = 0, t[64]; k < part->nin; k++) {
    graph_inputs(part->g, t);
    n += snprintf(names + n, sizeof names - (size_t)n, "%s%s", k ? " " : "", part->g->tensors[t[k]].name);
  }
  if (*what ? !strstr(part->why, what) : *part->why) fail_msg("%s: says \"%s\"", name, part->why);
  if (in && strcmp(in, names)) fail_msg("%s: reads %s, not %s", name, names, in);
}

static void falls_into(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct arena mem = {0};
    const struct graph *p = plain(&mem, arena_printf(&mem, "program p {\n %s\n%s}", cases[i].inputs, cases[i].body));
    struct lax_split s = split_of(&mem, p, cases[i].max_ops);
    char kinds[64] = "";
    for (int k = 0; k < s.n; k++) kinds[k] = s.parts[k].searchable ? 's' : 'l';
    if (strcmp(kinds, cases[i].kinds)) {
      for (int k = 0; k < s.n; k++) print_message("%d: %s\n", k, s.parts[k].why);
      fail_msg("%s: falls into %s, not %s", cases[i].name, kinds, cases[i].kinds);
    }
    for (size_t k = 0; k < COUNT(cases[i].says) && cases[i].says[k].what; k++)
      check_says(&s.parts[cases[i].says[k].part], cases[i].name, cases[i].says[k].what, cases[i].says[k].in);
    if (s.n == 1) check_whole(p, &s);
    check_values(&mem, p, joined(&mem, p, &s));
    arena_close(&mem);
  }
}

// ---- deep stacks, and the examples ----

static void many_layers(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct str text = {0};
  str_add(&text, "program deep {\n x0: f32[8, 4]\n W: f32[4, 4]\n");
  for (int i = 0; i < 60; i++)
    str_add(&text, " s%d = softmax(matmul(x%d, transpose(x%d)), dim=1)\n x%d = tanh(x%d + matmul(matmul(s%d, x%d), W))\n", i, i, i, i + 1, i, i, i);
  str_add(&text, " return x60\n}");
  const struct graph *p = plain(&mem, str_text(&text));
  struct lax_split s = split_of(&mem, p, 0);
  assert_int_equal(s.n, 60);
  // One tensor goes from layer to layer, and all but the outermost have equal graphs.
  for (int i = 1; i < 60; i++) {
    assert_int_equal(s.parts[i].nout, 1);
    assert_int_equal(s.parts[i].nin, i == 1 ? 3 : 2);
    assert_true(i < 3 || i == 59 || graph_same(s.parts[i].g, s.parts[2].g));
  }
  check_values(&mem, p, joined(&mem, p, &s));
  str_free(&text);
  arena_close(&mem);
}

static int products(const struct graph *g)
{
  int n = 0;
  for (int i = 0; i < g->nnodes; i++) n += g->nodes[i].op == OP_MATMUL;
  return n;
}

struct court {
  int asked, most_ops, most_products;
  int decided, all; // as told last, of the piece at hand
  int pieces, grown;
};
static void hard(void *arg, int n, const struct graph *const *part, bool *answer)
{
  struct court *c = arg;
  assert_true(n > 0 && n <= LAX_AHEAD);
  for (int i = 0; i < n; i++) {
    c->asked++;
    assert_true(graph_ops(part[i]) >= LAX_EASY);
    answer[i] = graph_ops(part[i]) > c->most_ops || products(part[i]) > c->most_products;
  }
  bool all = true;
  for (int i = 0; i < n; i++) {
    if (!all) answer[i] = !answer[i]; // which must make no difference
    all &= answer[i];
  }
}
// Answers no more than is needed.
static void hard_alone(void *arg, int n, const struct graph *const *part, bool *answer)
{
  for (int i = 0; i < n && (!i || answer[i - 1]); i++) hard(arg, 1, &part[i], &answer[i]);
}
static void told(void *arg, int decided, int all)
{
  struct court *c = arg;
  assert_true(decided >= 0 && decided <= all);
  if (decided < c->decided || all != c->all)
    c->pieces++;
  else
    c->grown += decided > c->decided;
  c->decided = decided, c->all = all;
}

// A part that is too hard is cut, though no larger than the limit; layers fall into the same parts one after another.
static void probed(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct str text = {0};
  enum { LAYERS = 3 };
  str_add(&text, "program deep {\n x0: f32[6, 8]\n g: f32[8]\n Wq: f32[8, 8]\n Wk: f32[8, 8]\n Wv: f32[8, 8]\n Wo: f32[8, 8]\n"
                 " W1: f32[8, 16]\n W2: f32[8, 16]\n W3: f32[16, 8]\n");
  for (int i = 0; i < LAYERS; i++)
    str_add(&text,
            " n%d = rms_norm(x%d, g)\n p%d = softmax(matmul(matmul(n%d, Wq), transpose(matmul(n%d, Wk))), dim=1)\n"
            " h%d = x%d + matmul(matmul(p%d, matmul(n%d, Wv)), Wo)\n m%d = rms_norm(h%d, g)\n"
            " x%d = h%d + matmul(silu(matmul(m%d, W1)) * matmul(m%d, W2), W3)\n",
            i, i, i, i, i, i, i, i, i, i, i, i + 1, i, i, i);
  str_add(&text, " return x%d\n}", LAYERS);
  const struct graph *p = plain(&mem, str_text(&text));
  struct court c = {.most_ops = 10, .most_products = 3};
  struct lax_split s = probed_split(&mem, p, 0, &(struct lax_probe){hard, told, &c}), all = split_of(&mem, p, 0);
  int copies = 0;
  assert_true(c.asked > 0 && c.asked < 500);
  assert_true(c.pieces > 0 && c.grown > c.pieces);
  struct court other = {.most_ops = 10, .most_products = 3};
  struct lax_split same = probed_split(&mem, p, 0, &(struct lax_probe){hard_alone, NULL, &other});
  assert_int_equal(same.n, s.n);
  for (int i = 0; i < s.n; i++) assert_true(graph_same(s.parts[i].g, same.parts[i].g));
  assert_true(other.asked < c.asked);
  assert_true(s.n > all.n);
  for (int i = 0; i < s.n; i++) {
    const struct graph *g = s.parts[i].g;
    assert_true(graph_ops(g) < LAX_EASY || (graph_ops(g) <= c.most_ops && products(g) <= c.most_products));
    for (int k = 0; k < i; k++)
      if (graph_same(s.parts[k].g, g)) {
        copies++;
        break;
      }
  }
  assert_true(copies >= LAYERS);
  check_values(&mem, p, joined(&mem, p, &s));
  str_free(&text);
  arena_close(&mem);
}

// Operands that are computed early and read late are computed where they are read, if that stores less between parts.
static void another_order(void **state)
{
  (void)state;
  struct arena mem = {0};
  const struct graph *p =
      plain(&mem, "program linear {\n Q: f32[64, 8]\n K: f32[64, 8]\n V: f32[64, 8]\n q = exp(Q) + relu(Q)\n k = (exp(K) + relu(K)) / 64\n"
                  " return matmul(q, matmul(transpose(k), V)) / matmul(q, transpose(sum(k, dim=0)))\n}\n");
  struct court c = {.most_ops = 7, .most_products = 2};
  struct lax_split s = probed_split(&mem, p, 0, &(struct lax_probe){hard, NULL, &c});
  int small = 0;
  for (int i = 0; i < s.n; i++) {
    const struct part *x = &s.parts[i];
    int64_t most = 0;
    for (int k = 0; k < x->nout; k++) most = MAX(most, shape_size(&p->tensors[x->out[k]].shape));
    small += x->nin == 2 && x->nout == 2 && most == 64; // of K and V: [8, 8] and [1, 8], and no [64, 8]
  }
  assert_int_equal(small, 1);
  check_values(&mem, p, joined(&mem, p, &s));
  arena_close(&mem);
}

// Every cut of the chain costs the same: the longest run behind the product is taken.
static void behind_a_product(void **state)
{
  (void)state;
  struct arena mem = {0};
  const struct graph *p = plain(&mem, "program tail {\n X: f32[64, 8]\n W: f32[8, 8]\n"
                                      " return neg(abs(relu(neg(abs(relu(neg(abs(relu(matmul(X, W))))))))))\n}\n");
  struct court c = {.most_ops = graph_ops(p) - 1, .most_products = 1};
  struct lax_split s = probed_split(&mem, p, 0, &(struct lax_probe){hard, NULL, &c});
  assert_int_equal(s.n, 2);
  assert_int_equal(graph_ops(s.parts[0].g), c.most_ops);
  assert_int_equal(products(s.parts[0].g), 1);
  check_values(&mem, p, joined(&mem, p, &s));
  arena_close(&mem);
}

// If operations bind the products, a norm between them is a part of its own, and an activation stays with the product before it.
static void at_stored_values(void **state)
{
  (void)state;
  struct arena mem = {0};
  const struct graph *p = plain(&mem, "program mlp {\n X: f32[4, 320]\n A: f32[320, 512]\n B: f32[512, 288]\n C: f32[288, 320]\n a = matmul(X, A)\n"
                                      " return matmul(relu(matmul(a / sqrt(mean(square(a), dim=1)), B)), C)\n}\n");
  struct court c = {.most_ops = 7, .most_products = 3};
  struct lax_split bytes = probed_split(&mem, p, 0, &(struct lax_probe){hard, NULL, &c, 0});
  struct lax_split s = probed_split(&mem, p, 0, &(struct lax_probe){hard, NULL, &c, 0.01});
  static const int ops[] = {1, 4, 2, 1}, by[] = {1, 0, 1, 1};
  assert_int_equal(bytes.n, 2);
  assert_int_equal(s.n, COUNT(ops));
  for (int i = 0; i < s.n; i++) {
    assert_int_equal(graph_ops(s.parts[i].g), ops[i]);
    assert_int_equal(products(s.parts[i].g), by[i]);
  }
  check_values(&mem, p, joined(&mem, p, &s));
  arena_close(&mem);
}

// Scores of attention are sums over a head, and the values have few columns: they are in no memory, however much the products have to do. Longer heads,
// or more columns of the values, are as other products.
static void attention_is_not_stored(void **state)
{
  (void)state;
  static const struct {
    int head, columns, parts;
  } rows[] = {{64, 64, 1}, {256, 256, 1}, {320, 64, 2}, {64, 320, 2}};
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct arena mem = {0};
    const int d = rows[i].head, n = rows[i].columns;
    const char *text = arena_printf(&mem,
                                    "program attention {\n Q: f32[8, %d]\n K: f32[%d, 512]\n V: f32[512, %d]\n"
                                    " return matmul(softmax(matmul(Q, K), dim=1), V)\n}\n",
                                    d, d, n);
    const struct graph *p = plain(&mem, text);
    struct court c = {.most_ops = 9, .most_products = 2};
    struct lax_split s = probed_split(&mem, p, 0, &(struct lax_probe){hard, NULL, &c, 0.01});
    if ((s.n > 1) != (rows[i].parts > 1)) fail_msg("heads of %d, values of %d: %d parts", d, n, s.n);
    check_values(&mem, p, joined(&mem, p, &s));
    arena_close(&mem);
  }
}

// Products of one operand are one part, although the last is written behind what follows the others.
static void products_of_one_operand(void **state)
{
  (void)state;
  struct arena mem = {0};
  const struct graph *p =
      plain(&mem, "program attention {\n X: f32[32, 320]\n A: f32[320, 320]\n B: f32[320, 320]\n C: f32[320, 320]\n c: f32[320]\n D: f32[320, 320]\n"
                  " s = softmax(matmul(matmul(X, A), transpose(matmul(X, B))) / 1000, dim=1)\n"
                  " return matmul(matmul(s, matmul(X, C) + c), D)\n}\n");
  struct court court = {.most_ops = 7, .most_products = 3};
  struct lax_split s = probed_split(&mem, p, 0, &(struct lax_probe){hard, NULL, &court, 0.01});
  static const int by[] = {3, 2, 1};
  assert_int_equal(s.n, COUNT(by));
  for (int i = 0; i < s.n; i++) assert_int_equal(products(s.parts[i].g), by[i]);
  assert_int_equal(graph_ops(s.parts[0].g), 4);
  check_values(&mem, p, joined(&mem, p, &s));
  arena_close(&mem);
}

// Rotary embeddings of queries and of keys share a table of sines, which is small: each is a part of its own. A large one keeps them together.
static void small_tables(void **state)
{
  (void)state;
  struct arena mem = {0};
  for (int large = 0; large < 2; large++) {
    const char *text = arena_printf(&mem,
                                    "program rope {\n Q: f32[8, 16, 32]\n K: f32[4, 16, 32]\n S: f32[%s16, 32]\n"
                                    " q = Q + concat(chunk(Q, dim=2, parts=2, index=1), chunk(Q, dim=2, parts=2, index=0), dim=2) * S\n"
                                    " k = K + concat(chunk(K, dim=2, parts=2, index=1), chunk(K, dim=2, parts=2, index=0), dim=2) * %s\n"
                                    " return matmul(q, transpose(repeat(k, dim=0, times=2)))\n}\n",
                                    large ? "8, " : "", large ? "slice(S, dim=0, start=0, end=4)" : "S");
    const struct graph *p = plain(&mem, text);
    struct lax_split s = split_of(&mem, p, 0);
    assert_int_equal(s.n, large ? 2 : 3);
    check_values(&mem, p, joined(&mem, p, &s));
  }
  arena_close(&mem);
}

// The same if queries and keys are parts of one product: nobody reads it as a whole.
static void parts_of_one_product(void **state)
{
  (void)state;
  struct arena mem = {0};
  const char *text = "program rope {\n X: f32[16, 64]\n W: f32[64, 384]\n S: f32[16, 32]\n"
                     " p = transpose(reshape(matmul(X, W), [16, 12, 32]), perm=[1, 0, 2])\n"
                     " Q = slice(p, dim=0, start=0, end=8)\n K = slice(p, dim=0, start=8, end=12)\n"
                     " q = Q + concat(chunk(Q, dim=2, parts=2, index=1), chunk(Q, dim=2, parts=2, index=0), dim=2) * S\n"
                     " k = K + concat(chunk(K, dim=2, parts=2, index=1), chunk(K, dim=2, parts=2, index=0), dim=2) * S\n"
                     " return matmul(q, transpose(repeat(k, dim=0, times=2)))\n}\n";
  const struct graph *p = plain(&mem, text);
  struct lax_split s = split_of(&mem, p, 0);
  assert_int_equal(s.n, 4); // two products, two embeddings
  check_values(&mem, p, joined(&mem, p, &s));
  arena_close(&mem);
}

static void examples(void **state)
{
  (void)state;
  struct dirent **list;
  int n = scandir("examples", &list, NULL, alphasort), seen = 0;
  for (int i = 0; i < n; i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct graph *g, *p;
    char path[300];
    snprintf(path, sizeof path, "examples/%s", list[i]->d_name);
    if (strstr(path, ".mica")) {
      if (front_load(&mem, path, 0, NULL, &g, &e) || graph_expand(&mem, g, false, &p, &e)) fail_msg("%s: %s", path, e.text);
      struct lax_split s = split_of(&mem, p, 0), small = split_of(&mem, p, 3);
      assert_int_equal(graph_ops(joined(&mem, p, &s)), graph_ops(p));
      assert_int_equal(graph_ops(joined(&mem, p, &small)), graph_ops(p));
      bool cut = graph_ops(p) > LAX_MAX_OPS && !s.parts[0].row_chain;
      if ((s.n != 1) != cut) fail_msg("%s: %d parts, the last because %s", path, s.n, s.parts[s.n - 1].why);
      assert_int_equal(cut, !strcmp(list[i]->d_name, "layer.mica"));
      assert_int_equal(s.parts[0].row_chain, !strcmp(list[i]->d_name, "g_mlp20.mica"));
      if (!cut) check_whole(p, &s);
      seen++;
    }
    free(list[i]);
    arena_close(&mem);
  }
  if (n >= 0) free(list);
  assert_true(seen > 30);
}

static void another_signature(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  const struct graph *p = plain(&mem, "program p {\n X: f32[4, 8]\n return exp(X)\n}");
  struct graph *wrong[] = {plain(&mem, "program p {\n X: f32[8, 4]\n return exp(X)\n}")};
  struct graph *more[] = {plain(&mem, "program p {\n X: f32[4, 8]\n return exp(X), X\n}")}, *out;
  struct lax_split s = split_of(&mem, p, 0);
  assert_int_equal(lax_join(&mem, p, &s, wrong, &out, &e), USER);
  assert_non_null(strstr(e.text, "part 1: its input X is f32[4, 8] in the program, but f32[8, 4]"));
  e = (struct err){0};
  assert_int_equal(lax_join(&mem, p, &s, more, &out, &e), USER);
  arena_close(&mem);
}

// Block graphs of optimized parts go over with their names, once in the joined graph each.
static void joins_blocks(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  const struct graph *p = plain(&mem, "program p {\n X: f32[4, 8]\n a = exp(X)\n return exp(a)\n}");
  struct lax_split s = split_of(&mem, p, 0);
  struct graph *fused[2], *g;
  for (int i = 0; i < 2; i++)
    fused[i] = plain(&mem, "graph g {\n X: f32[4, 8]\n t = block(x=2) {\n  x = iter(X, imap={x:0})\n"
                           "  save(exp(x), omap={x:0})\n }\n return t }");
  assert_int_equal(s.n, 2);
  assert_int_equal(lax_join(&mem, p, &s, fused, &g, &e), OK);
  assert_int_equal(graph_ops(g), 2);
  check_values(&mem, p, g);
  arena_close(&mem);
}

// A product of two concatenations becomes a sum of products where both are joined in the same places along what is summed.
static bool is_equal(void *arg, const struct graph *was, const struct graph *is)
{
  const struct verify_opts o = {.seed = 1};
  struct certificate c;
  struct err e = {0};
  (void)arg;
  return verify_equal(was, is, &o, &c, &e) == OK && c.equal && c.scope <= EVIDENCE_FULL;
}
static const struct lax_proof verified = {is_equal, NULL};

static void products_of_concatenations(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    int products; // 0: the program stays as it is
  } rows[] = {
      {"A: f16[8, 6]\n B: f16[8, 10]\n C: f16[6, 5]\n D: f16[10, 5]\n return matmul(concat(A, B, dim=1), concat(C, D, dim=0))", 2},
      {"A: f16[2, 8, 6]\n B: f16[2, 8, 10]\n C: f16[2, 7, 6]\n D: f16[2, 7, 10]\n k = concat(C, D, dim=2)\n"
       " return matmul(concat(A, B, dim=2), transpose(k, perm=[0, 2, 1])), k",
       2},
      {"A: f16[8, 6]\n B: f16[8, 6]\n C: f16[6, 5]\n return matmul(concat(A, B, A, dim=1), concat(C, C, C, dim=0)) * 2", 3},
      {"A: f16[8, 6]\n B: f16[8, 10]\n C: f16[10, 5]\n D: f16[6, 5]\n return matmul(concat(A, B, dim=1), concat(C, D, dim=0))", 0},  // other places
      {"A: f16[8, 16]\n B: f16[8, 16]\n C: f16[6, 5]\n D: f16[10, 5]\n return matmul(concat(A, B, dim=0), concat(C, D, dim=0))", 0}, // of rows
      {"A: f16[8, 6]\n B: f16[8, 10]\n C: f16[16, 5]\n return matmul(concat(A, B, dim=1), C)", 0},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct arena mem = {0};
    struct err e = {0};
    const struct graph *p = plain(&mem, arena_printf(&mem, "program p {\n %s\n}\n", rows[i].text));
    struct graph *sums = NULL;
    int products = 0;
    assert_int_equal(lax_products(&mem, p, &verified, &sums, &e), rows[i].products ? OK : NO);
    for (int k = 0; sums && k < sums->nnodes; k++) products += sums->nodes[k].op == OP_MATMUL;
    assert_int_equal(products, rows[i].products);
    if (sums) near_values(&mem, p, sums);
    arena_close(&mem);
  }
}

// Neighbouring parts of one tensor, joined again in their order, are a slice of it, or the tensor itself.
static void concatenations_of_parts(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    int joined, slices; // operands of concatenations, and slices, that are left; joined -1: the program stays as it is
  } rows[] = {
      {"X: f16[4, 12]\n a, b, _ = split(X, dim=1, parts=3)\n return exp(concat(a, b, dim=1))", 0, 1},
      {"X: f16[4, 12]\n Y: f16[4, 5]\n a, b, c = split(X, dim=1, parts=3)\n return concat(Y, b, c, a, dim=1)", 3, 1},
      {"X: f16[4, 12]\n a, b, c = split(X, dim=1, parts=3)\n return exp(concat(a, b, c, dim=1))", 0, 0}, // the tensor
      {"X: f16[4, 12]\n return exp(concat(slice(X, dim=1, start=1, end=5), slice(X, dim=1, start=5, end=12), dim=1))", 0, 1},
      {"X: f16[4, 12]\n a, b, c = split(X, dim=1, parts=3)\n return concat(b, a, c, dim=1)", -1, 0}, // another order
      {"X: f16[4, 12]\n a, b, c = split(X, dim=1, parts=3)\n return concat(a, b, dim=0)", -1, 0},    // along another dimension
      {"X: f16[4, 12]\n Y: f16[4, 12]\n a, _ = split(X, dim=1, parts=2)\n _, b = split(Y, dim=1, parts=2)\n return concat(a, b, dim=1)", -1, 0},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct arena mem = {0};
    struct err e = {0};
    const struct graph *p = plain(&mem, arena_printf(&mem, "program p {\n %s\n}\n", rows[i].text));
    struct graph *parts = NULL;
    int joined = 0, slices = 0;
    assert_int_equal(lax_parts(&mem, p, &verified, &parts, &e), rows[i].joined < 0 ? NO : OK);
    for (int k = 0; parts && k < parts->nnodes; k++) {
      joined += parts->nodes[k].op == OP_CONCAT ? parts->nodes[k].nin : 0;
      slices += parts->nodes[k].op == OP_SLICE;
    }
    if (parts) assert_int_equal(joined, rows[i].joined), assert_int_equal(slices, rows[i].slices), check_values(&mem, p, parts);
    arena_close(&mem);
  }
}

// A law is compared with the part of the program that it changes, so its proof does not depend on the rest. A change without a proof is not made.
struct jury {
  int asked, most_nodes;
  bool answer;
};
static bool asks(void *arg, const struct graph *was, const struct graph *is)
{
  struct jury *j = arg;
  j->asked++, j->most_nodes = MAX(j->most_nodes, MAX(was->nnodes, is->nnodes));
  assert_int_equal(graph_inputs(was, NULL), graph_inputs(is, NULL));
  return j->answer && is_equal(NULL, was, is);
}
static void laws_of_a_deep_program(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct str text = {0};
  str_add(&text, "program deep {\n I: i32[8] < 16\n T: f32[16, 4]\n W: f32[4, 4]\n x0 = gather(T, I, dim=0)\n");
  for (int i = 0; i < 30; i++)
    str_add(&text, " h%d = softmax(matmul(x%d, W), dim=1)\n x%d = x%d + 0.5 * h%d * (1 + erf(h%d * 0.7071067811865476))\n", i, i, i + 1, i, i, i);
  str_add(&text, " return x30\n}");
  const struct graph *p = plain(&mem, str_text(&text));
  struct graph *to = NULL;
  struct jury yes = {.answer = true}, no = {.answer = false};
  assert_int_equal(lax_written(&mem, p, &(struct lax_proof){asks, &yes}, &to, &e), OK);
  int named = 0;
  for (int k = 0; k < to->nnodes; k++) named += to->nodes[k].op == OP_GELU;
  assert_int_equal(named, 30), assert_int_equal(yes.asked, 30), assert_in_range(yes.most_nodes, 1, 12);
  near_values(&mem, p, to);
  assert_int_equal(lax_written(&mem, p, &(struct lax_proof){asks, &no}, &to, &e), NO);
  assert_int_equal(no.asked, 30);
  str_free(&text);
  arena_close(&mem);
}

// Parts that share one optimized graph, with its names.
static void names_of_twins(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  const struct graph *p = plain(&mem, "program twins {\n x: f32[8, 8]\n W: f32[8, 8]\n a = softmax(matmul(x, W), dim=1)\n"
                                      " b = softmax(matmul(a, W), dim=1)\n c = softmax(matmul(b, W), dim=1)\n return matmul(c, W)\n}");
  struct lax_split s = split_of(&mem, p, 0);
  struct graph *own[8], *g;
  assert_int_equal(s.n, 3);
  for (int shared = 0; shared < 2; shared++) {
    own[0] = s.parts[shared].g, own[1] = s.parts[1].g, own[2] = s.parts[2].g;
    if (!graph_same(s.parts[0].g, s.parts[1].g)) fail_msg("the parts differ");
    own[1 - shared] = s.parts[shared].g;
    assert_int_equal(lax_join(&mem, p, &s, own, &g, &e), OK);
    assert_int_equal(named_as(p, &s, g), 2), check_values(&mem, p, g);
  }
  arena_close(&mem);
}

// Constants have no place of their own in a part, so equal layers are equal parts wherever the program has its constants.
static void layers_with_one_mask(void **state)
{
  (void)state;
  static const char *const text = "program masked {\n x: f32[8, 8]\n at = iota([8])\n"
                                  " a = matmul(x, x)\n row = iota([8, 1])\n y = softmax_where(a, at <= row, dim=1)\n"
                                  " b = matmul(y, y)\n z = softmax_where(b, at <= row, dim=1)\n return matmul(z, z)\n}";
  struct arena mem = {0};
  const struct graph *p = plain(&mem, text);
  struct lax_split s = split_of(&mem, p, 0);
  assert_int_equal(s.n, 2);
  for (int i = 0; i < 2; i++) assert_int_equal(s.parts[i].g->nodes[0].op, OP_INPUT), assert_int_equal(s.parts[i].g->nodes[1].op, OP_MATMUL);
  check_values(&mem, p, joined(&mem, p, &s));
  arena_close(&mem);
}

// A function of one tensor that an operator computes too becomes that operator, in any order of its terms.
static void operators_that_are_written_out(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    enum op op; // OPS: the program stays as it is
  } rows[] = {
      {"0.5 * X * (1 + tanh(0.7978845608028654 * (X + 0.044715 * X * X * X)))", OP_GELU_TANH},
      {"X * (tanh((X + pow(X, 3) * 0.044715) * 0.7978845608028654) * 0.5 + 0.5)", OP_GELU_TANH},
      {"0.5 * Y * (1 + tanh(0.7978845608028654 * (Y + 0.044715 * Y * Y * Y))) * matmul(X, V)", OP_GELU_TANH},
      {"0.5 * X * (1 + erf(X * 0.7071067811865476))", OP_GELU},
      {"Y / (1 + exp(-Y)) + X", OP_SILU},
      {"0.5 * X * (1 + tanh(0.7978845608028654 * (X + 0.05 * X * X * X)))", OPS},     // another function
      {"0.5 * Y * (1 + tanh(0.7978845608028654 * (X + 0.044715 * X * X * X)))", OPS}, // of two tensors
      {"X * X * X * X", OPS},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct arena mem = {0};
    struct err e = {0};
    const struct graph *p = plain(&mem, arena_printf(&mem,
                                                     "program p {\n X: f16[8, 8]\n W: f16[8, 8]\n V: f16[8, 8]\n Y = matmul(X, W)\n"
                                                     " return %s\n}\n",
                                                     rows[i].text));
    struct graph *to = NULL;
    int named = 0, maps = 0;
    assert_int_equal(lax_written(&mem, p, &verified, &to, &e), rows[i].op == OPS ? NO : OK);
    for (int k = 0; to && k < to->nnodes; k++) named += to->nodes[k].op == rows[i].op, maps += op_rows[to->nodes[k].op].rule == RULE_MAP;
    if (to) assert_true(named == 1 && maps <= 2), near_values(&mem, p, to);
    arena_close(&mem);
  }
}

static bool same_program(const struct graph *a, const struct graph *b)
{
  struct certificate c;
  struct err e = {0};
  return verify_equal(a, b, &(struct verify_opts){.seed = 1, .threads = 1}, &c, &e) == OK && c.equal && c.scope <= EVIDENCE_FULL;
}

// Several operators before the first products are parts without products, each with what shares a tensor. One operator stays with the product.
static void operands_apart(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    int n, ops[3]; // operators of the parts
  } rows[] = {
      {"program keys {\n Q: f16[8, 4, 64]\n K: f16[8, 96, 64]\n V: f16[8, 96, 64]\n w: f16[64]\n k = rms_norm(K, w, eps=1e-6)\n"
       "return matmul(softmax(matmul(Q, transpose(k)), dim=2), V)\n}",
       2,
       {6, 5}},
      {"program both {\n Q: f16[8, 4, 64]\n K: f16[8, 96, 64]\n V: f16[8, 96, 64]\n w: f16[64]\n v: f16[64]\n"
       "k = rms_norm(K, w, eps=1e-6)\n q = rms_norm(Q, v, eps=1e-6)\n return matmul(softmax(matmul(q, transpose(k)), dim=2), V)\n}",
       3,
       {6, 6, 5}},
      {"program after {\n X: f16[64, 64]\n W: f16[64, 64]\n w: f16[64]\n return rms_norm(matmul(X, W), w, eps=1e-6)\n}", 1, {7}},
      {"program scaled {\n X: f16[64, 64]\n W: f16[64, 64]\n return matmul(X * 2, W)\n}", 1, {2}},
      {"program norm {\n X: f16[64, 64]\n w: f16[64]\n return rms_norm(X, w, eps=1e-6)\n}", 1, {6}},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct lax_split s;
    const struct graph *p = plain(&mem, rows[i].text);
    if (lax_operands(&mem, p, &s, &e)) fail_msg("%s: %s", p->name, e.text);
    if (s.n != rows[i].n) fail_msg("%s: %d parts, not %d", p->name, s.n, rows[i].n);
    for (int k = 0; k < s.n; k++) assert_int_equal(graph_ops(s.parts[k].g), rows[i].ops[k]);
    assert_true(same_program(p, joined(&mem, p, &s)));
    arena_close(&mem);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(concatenations_of_parts),
                                     cmocka_unit_test(products_of_concatenations),
                                     cmocka_unit_test(falls_into),
                                     cmocka_unit_test(many_layers),
                                     cmocka_unit_test(probed),
                                     cmocka_unit_test(another_order),
                                     cmocka_unit_test(examples),
                                     cmocka_unit_test(another_signature),
                                     cmocka_unit_test(joins_blocks),
                                     cmocka_unit_test(behind_a_product),
                                     cmocka_unit_test(at_stored_values),
                                     cmocka_unit_test(attention_is_not_stored),
                                     cmocka_unit_test(small_tables),
                                     cmocka_unit_test(parts_of_one_product),
                                     cmocka_unit_test(products_of_one_operand),
                                     cmocka_unit_test(laws_of_a_deep_program),
                                     cmocka_unit_test(layers_with_one_mask),
                                     cmocka_unit_test(names_of_twins),
                                     cmocka_unit_test(operators_that_are_written_out),
                                     cmocka_unit_test(operands_apart)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
