// Random programs of a few operators against each other: whatever is proved agrees on real numbers wherever both are
// finite. Near misses are sought: programs of elementwise operators and reductions that agree on inputs of one kind
// (all positive, say) meet each other, whether or not they agree on the other kinds.
//   verify_test_prove_random [PROGRAMS [SEED]]    more of the second kind
// test: timeout 300
// test: quick release
#include "graphs.h"
#include "mutate.h"

#include <math.h>
#include <stdlib.h>

enum { INPUTS = 2, KINDS = 6, LEAST_ELEMENTS = 2, MOST_ELEMENTS = 96, BUCKET = 12, GENERATION = 700 };

struct program {
  const struct graph *g;
  struct shape shape;
  double *out[KINDS];
  bool lost[KINDS];      // something that is not defined may have become a number again: relu(-1 / 0) is 0; or is huge
  uint64_t print[KINDS]; // of the results on inputs of that kind; 0: none of them is finite
};
struct set {
  struct arena mem;
  struct program *p;
  int n, most, pairs, proved, agree;
};

// ---- programs ----

static int64_t some_divisor(struct rng *r, int64_t n)
{
  for (int64_t d;;)
    if (n % (d = 1 + (int64_t)rng_below(r, (uint64_t)n)) == 0) return d;
}

static struct attrs random_attrs(struct rng *r, enum op op, const struct shape *x)
{
  static const double scalars[] = {0.5, -1, 2, -2, 3, 1, 4, -0.5};
  struct attrs a = attrs_default(op);
  int64_t n = shape_size(x);
  a.dim = (int)rng_below(r, (uint64_t)MAX(1, x->n));
  a.times = a.parts = 2, a.index = (int64_t)rng_below(r, 2), a.scalar = scalars[rng_below(r, COUNT(scalars))];
  a.lo = (double)rng_below(r, 3) - 1, a.hi = (double)rng_below(r, 3) - 1;
  if (op == OP_SUM && rng_below(r, 3) == 0) a.group = some_divisor(r, x->d[a.dim]);
  for (a.shape.n = 0; op == OP_RESHAPE && a.shape.n < 2; n /= a.shape.d[a.shape.n++]) a.shape.d[a.shape.n] = some_divisor(r, n);
  a.shape.d[a.shape.n++] = n;
  for (int i = 0; i < x->n && op == OP_TRANSPOSE; i++) {
    int k = (int)rng_below(r, (uint64_t)++a.perm.n);
    a.perm.d[i] = a.perm.d[k], a.perm.d[k] = i;
  }
  return a;
}

struct recipe {
  struct shape input;
  const enum op *ops;
  size_t nops;
  int least, spread; // how many nodes
};

// A few operators on X and Y; what cannot be built is left out.
static struct graph *random_program(struct arena *mem, struct rng *r, const struct recipe *of)
{
  struct graph *g = graph_new(mem, KERNEL, "p");
  struct err e = {0};
  int out, last = 0, most = of->least + (int)rng_below(r, (uint64_t)of->spread);
  graph_input(g, "X", F32, &of->input, NOWHERE, &out, &e);
  graph_input(g, "Y", F32, &of->input, NOWHERE, &out, &e);
  for (int tries = 0; tries < 12 && g->nnodes < most; tries++) {
    enum op op = of->ops[rng_below(r, of->nops)];
    int in[] = {rng_below(r, 4) ? last : (int)rng_below(r, (uint64_t)g->ntensors), (int)rng_below(r, (uint64_t)g->ntensors)};
    const struct shape *x = &g->tensors[in[0]].shape;
    struct attrs a = random_attrs(r, op, x);
    int64_t n = shape_size(x);
    struct err ignored = {0};
    if (n < LEAST_ELEMENTS || n > MOST_ELEMENTS) break;
    if (op == OP_POW) { // to a constant
      struct attrs c = attrs_default(OP_CONST);
      static const double powers[] = {2, 0.5, -1, 3, -0.5, 1.5, 0.25};
      c.scalar = powers[rng_below(r, COUNT(powers))];
      if (graph_add(g, OP_CONST, 0, NULL, &c, NOWHERE, &in[1], &ignored)) continue;
    }
    if (!graph_add(g, op, op_rows[op].least > 1 || op == OP_CONCAT ? 2 : 1, in, &a, NOWHERE, &out, &ignored)) last = out;
  }
  assert_int_equal(graph_add(g, OP_OUTPUT, 1, &last, NULL, NOWHERE, &out, &e), OK);
  return g;
}

// ---- real numbers ----

static double as_kind(double x, int kind, int input)
{
  switch (kind) {
  case 1: return fabs(x);
  case 2: return -fabs(x);
  case 3: return input ? -fabs(x) : fabs(x);
  case 4: return 0.1 + 0.8 / (1 + x * x);
  case 5: return 2 * x;
  default: return x;
  }
}

static bool any(const struct graph *g, int t, const double *x, bool (*is)(double x))
{
  bool found = false;
  for (int64_t i = 0; i < shape_size(&g->tensors[t].shape); i++) found |= is(x[i]);
  return found;
}

static bool undefined(double x) { return !isfinite(x); }
static bool huge(double x) { return isfinite(x) && fabs(x) > 1e6; }

// Does an operator that may make a number of what is none read any such thing, or is anything so large that it hides
// what is added to it? value[t]: of tensor t.
static bool loses(const struct graph *g, double *const *value)
{
  static const enum op passing[] = {OP_ADD,  OP_SUB, OP_MUL,     OP_NEG,    OP_SUM,    OP_MEAN,      OP_MUL_SCALAR, OP_ADD_SCALAR, OP_SQUARE,
                                    OP_SQRT, OP_ABS, OP_RESHAPE, OP_REPEAT, OP_CONCAT, OP_TRANSPOSE, OP_CHUNK,      OP_LOG,        OP_OUTPUT};
  for (const struct node *n = g->nodes; n < g->nodes + g->nnodes; n++) {
    bool passes = false;
    for (size_t i = 0; i < COUNT(passing); i++) passes |= n->op == passing[i];
    for (int i = 0; i < n->nin; i++)
      if (any(g, n->in[i], value[n->in[i]], huge) || (!passes && any(g, n->in[i], value[n->in[i]], undefined))) return true;
  }
  return false;
}

// All tensors of g.
static void run_all(struct arena *mem, const struct graph *g, void *const *in, double **value)
{
  struct graph *all = graph_copy(mem, g);
  void *out[64];
  struct err e = {0};
  int last, tensors = g->ntensors;
  all->nnodes--; // the output
  for (int t = 0; t < tensors; t++) assert_int_equal(graph_add(all, OP_OUTPUT, 1, &t, NULL, NOWHERE, &last, &e), OK);
  real_run(mem, all, in, out);
  for (int t = 0; t < tensors; t++) value[t] = out[t];
}

static void run(struct set *s, struct program *p, int kind)
{
  void *in[INPUTS];
  double *value[64];
  int k = 0;
  eval_random(&s->mem, p->g, DOM_F64, NULL, (uint64_t)kind, in);
  for (const struct node *n = p->g->nodes; n < p->g->nodes + p->g->nnodes; n++) {
    if (n->op != OP_INPUT) continue;
    double *x = in[k];
    for (int64_t i = 0; i < shape_size(&p->g->tensors[n->out].shape); i++) x[i] = as_kind(x[i], kind, k);
    k++;
  }
  int out;
  graph_outputs(p->g, &out);
  run_all(&s->mem, p->g, in, value);
  p->out[kind] = value[out], p->lost[kind] = loses(p->g, value);
  for (int64_t i = 0; i < shape_size(&p->shape); i++) {
    double x = p->out[kind][i];
    if (!isfinite(x)) continue;
    p->print[kind] = hash_mix(p->print[kind] + (uint64_t)i + 1, (uint64_t)(int64_t)round(x / (1 + fabs(x)) * 1e5));
  }
}

// Somewhere both are defined and not close.
static bool differ(const struct program *a, const struct program *b)
{
  for (int kind = 0; kind < KINDS; kind++)
    for (int64_t i = 0; i < shape_size(&a->shape) && !a->lost[kind] && !b->lost[kind]; i++) {
      double u = a->out[kind][i], v = b->out[kind][i];
      if (isfinite(u) && isfinite(v) && fabs(u - v) > 1e-7 * (1 + fabs(u))) return true;
    }
  return false;
}

static bool both_finite(const struct program *a, const struct program *b)
{
  for (int kind = 0; kind < KINDS; kind++)
    for (int64_t i = 0; i < shape_size(&a->shape); i++)
      if (isfinite(a->out[kind][i]) && isfinite(b->out[kind][i])) return true;
  return false;
}

static void grow(struct set *s, struct rng *r, const struct recipe *of, int n)
{
  s->p = NEWS(&s->mem, struct program, n), s->n = n;
  for (int i = 0; i < n; i++) {
    struct program *p = &s->p[i];
    int out;
    p->g = random_program(&s->mem, r, of);
    graph_outputs(p->g, &out), p->shape = p->g->tensors[out].shape;
    for (int kind = 0; kind < KINDS; kind++) run(s, p, kind);
  }
}

static void meet(struct set *s, const struct program *a, const struct program *b)
{
  char why[160];
  if (!shape_eq(&a->shape, &b->shape)) return;
  bool proved = verify_prove(a->g, b->g, why), wrong = differ(a, b);
  s->pairs++, s->proved += proved, s->agree += !wrong;
  if (!(proved && wrong) && !(getenv("MICA_UNDECIDED") && !proved && !wrong && both_finite(a, b))) return;
  struct str text = {0};
  graph_print(a->g, &text), graph_print(b->g, &text);
  if (proved) fail_msg("proved, but different:\n%s", str_text(&text));
  print_message("%s\n%s\n", why, str_text(&text));
  str_free(&text);
}

// ---- tests ----

static void test_all(void **state)
{
  (void)state;
  static const enum op ops[] = {OP_RESHAPE, OP_RESHAPE, OP_TRANSPOSE, OP_TRANSPOSE, OP_SUM,     OP_MAX,     OP_REPEAT,
                                OP_MUL,     OP_ADD,     OP_EXP,       OP_CHUNK,     OP_CONCAT,  OP_MEAN,    OP_DIV,
                                OP_MATMUL,  OP_SQRT,    OP_SUB,       OP_RELU,      OP_MAXIMUM, OP_SOFTMAX, OP_SQUARE};
  struct recipe of = {{2, {4, 6}}, ops, COUNT(ops), 3, 4};
  struct set s = {0};
  struct rng r = {20};
  grow(&s, &r, &of, 800);
  for (int i = 0; i < s.n; i++)
    for (int k = 0; k < i; k++) meet(&s, &s.p[i], &s.p[k]);
  print_message("%d pairs of random programs, %d proved\n", s.pairs, s.proved);
  assert_true(s.pairs > 2000 && s.proved > 100);
  arena_close(&s.mem);
}

static int programs;
static uint64_t first_seed = 1;

static const struct set *sorted;
static int sorted_kind;

static int by_print(const void *x, const void *y)
{
  uint64_t a = sorted->p[*(const int *)x].print[sorted_kind], b = sorted->p[*(const int *)y].print[sorted_kind];
  return (a > b) - (a < b);
}

// Pairs that agree on inputs of one kind, and that did not do so on an earlier kind.
static void near_misses(struct set *s, int kind)
{
  int *order = NEWS(&s->mem, int, s->n);
  for (int i = 0; i < s->n; i++) order[i] = i;
  sorted = s, sorted_kind = kind;
  qsort(order, (size_t)s->n, sizeof *order, by_print);
  for (int i = 0; i < s->n; i++)
    for (int k = i + 1; k < s->n && k <= i + BUCKET; k++) {
      const struct program *a = &s->p[order[i]], *b = &s->p[order[k]];
      bool met = a->print[kind] != b->print[kind] || !a->print[kind];
      for (int x = 0; x < kind; x++) met |= a->print[x] == b->print[x];
      if (!met) meet(s, a, b);
    }
}

static void test_near(void **state)
{
  (void)state;
  static const enum op ops[] = {OP_ABS,     OP_ABS,  OP_LOG,  OP_EXP,     OP_SQRT,       OP_SQRT,       OP_RSQRT, OP_RELU,      OP_MAXIMUM, OP_MAX,
                                OP_NEG,     OP_MUL,  OP_MUL,  OP_MINIMUM, OP_MUL_SCALAR, OP_ADD_SCALAR, OP_CLAMP, OP_DIV,       OP_SUB,     OP_SQUARE,
                                OP_SIGMOID, OP_SILU, OP_TANH, OP_POW,     OP_ADD,        OP_MAX,        OP_SUM,   OP_MUL_SCALAR};
  static const enum op mixed[] = {OP_ABS,     OP_LOG,     OP_EXP,     OP_SQRT,       OP_RELU, OP_MAXIMUM, OP_MAX,
                                  OP_MUL,     OP_MINIMUM, OP_CHUNK,   OP_MUL_SCALAR, OP_SUM,  OP_REPEAT,  OP_CONCAT,
                                  OP_SOFTMAX, OP_MATMUL,  OP_RESHAPE, OP_TRANSPOSE,  OP_ADD,  OP_DIV,     OP_SUB,
                                  OP_MAX,     OP_SUM,     OP_CHUNK,   OP_TRANSPOSE,  OP_MEAN, OP_SQUARE,  OP_RMS_NORM};
  const struct recipe recipes[] = {{{2, {2, 3}}, ops, COUNT(ops), 3, 5}, {{2, {2, 2}}, mixed, COUNT(mixed), 3, 6}};
  struct rng r = {first_seed};
  int pairs = 0, proved = 0, agree = 0;
  for (int i = 0; i < 2 || i * GENERATION < programs; i++) {
    struct set s = {0};
    grow(&s, &r, &recipes[i % 2], GENERATION);
    for (int kind = 0; kind < KINDS; kind++) near_misses(&s, kind);
    pairs += s.pairs, proved += s.proved, agree += s.agree;
    arena_close(&s.mem);
  }
  print_message("%d pairs of programs that agree on inputs of some kind; %d agree on all kinds, %d proved\n", pairs, agree, proved);
  assert_true(proved > 100);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_all), cmocka_unit_test(test_near)};
  const struct CMUnitTest only[] = {cmocka_unit_test(test_near)};
  if (argc > 1) programs = atoi(argv[1]);
  if (argc > 2) first_seed = strtoull(argv[2], NULL, 10);
  return argc > 1 ? cmocka_run_group_tests_name("near", only, NULL, NULL) : cmocka_run_group_tests(tests, NULL, NULL);
}
