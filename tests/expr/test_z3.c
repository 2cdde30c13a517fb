// The oracle against a solver. The axioms of Table 2 (paper, section 4.3) are written down once, as text,
// and given to Z3 in two ways:
//
//   proofs   quantified over an uninterpreted sort with integer lengths, as in the paper; unsat for
//            "not subexpr(e, target)" is a proof that e must be kept
//   models   over four elements, with unknown tables for the operators and every axiom written out for
//            all elements; sat is a structure that obeys the axioms and in which e is no subexpression
//
// A kept query must never have such a model, a pruned one never such a proof. Effort is limited by Z3's
// count of steps and not by time, so that a run can be repeated; what it leaves open is counted.
//
// test: release
#include "terms.h"
#include "thin.h"

#include <setjmp.h>
#include <string.h>
#include <cmocka.h>
#include <z3.h>

// X, Y and Z are arbitrary expressions. Lengths 2, 3 and 6 represent arbitrary i, j and i * j.
static const struct {
  const char *lhs, *rhs;
} equations[] =
    {
        {"X+Y", "Y+X"},
        {"XY", "YX"},
        {"X+(Y+Z)", "(X+Y)+Z"},
        {"X(YZ)", "(XY)Z"},
        {"XZ+YZ", "(X+Y)Z"},
        {"X/Z + Y/Z", "(X+Y)/Z"},
        {"X*(Y/Z)", "(XY)/Z"},
        {"(X/Y)/Z", "X/(YZ)"},
        {"X", "S1 X"},
        {"S2 (S3 X)", "S6 X"},
        {"S2 (X+Y)", "S2 X + S2 Y"},
        {"S2 (XY)", "(S2 X)Y"},
        {"S2 (X/Y)", "(S2 X)/Y"},
        {"exp(X+Y)", "exp(X)exp(Y)"}, // of the later version only: stays last
},
  inclusions[] = {
      {"X", "X+Y"}, {"X", "XY"}, {"X", "X/Y"}, {"Y", "X/Y"}, {"X", "exp(X)"}, {"X", "S2 X"}, {"X", "X"},
};

enum { QUERIES = 500, PROOF_STEPS = 200000, MODEL_STEPS = 100000 };

struct logic {
  Z3_context z;
  Z3_solver solver;
  struct arena mem;
  size_t equations; // in force
  // Operators and lengths that the two ways read differently.
  Z3_ast (*binary)(const struct logic *, enum term_op, Z3_ast, Z3_ast);
  Z3_ast (*exponential)(const struct logic *, Z3_ast);
  Z3_ast (*sum)(const struct logic *, uint64_t k, Z3_ast);
  Z3_ast (*below)(const struct logic *, Z3_ast, Z3_ast);
  Z3_ast atom['Z' + 1];
  // proofs
  Z3_func_decl fn[T_EXP + 1], fn_below;
  Z3_ast i, j;
  bool schematic; // lengths 2, 3 and 6 are i, j and i * j
  // models
  Z3_ast table[T_EXP + 1][4][4], order[4][4];
};

static Z3_ast formula(const struct logic *l, const struct term *t)
{
  if (t->op == T_ATOM) return l->atom[t->k];
  Z3_ast a = formula(l, t->a);
  if (t->op == T_SUM) return l->sum(l, t->k, a);
  return t->b ? l->binary(l, t->op, a, formula(l, t->b)) : l->exponential(l, a);
}

static Z3_ast side(struct logic *l, const char *text) { return formula(l, parse(&l->mem, text)); }

static void require(const struct logic *l, Z3_ast fact) { Z3_solver_assert(l->z, l->solver, fact); }

static void open_solver(struct logic *l, const char *kind, unsigned steps)
{
  Z3_config config = Z3_mk_config();
  l->z = Z3_mk_context(config);
  Z3_del_config(config);
  l->solver = kind ? Z3_mk_solver_for_logic(l->z, Z3_mk_string_symbol(l->z, kind)) : Z3_mk_simple_solver(l->z);
  Z3_solver_inc_ref(l->z, l->solver);
  Z3_params p = Z3_mk_params(l->z);
  Z3_params_inc_ref(l->z, p);
  Z3_params_set_uint(l->z, p, Z3_mk_string_symbol(l->z, "rlimit"), steps);
  if (!kind) Z3_params_set_bool(l->z, p, Z3_mk_string_symbol(l->z, "mbqi"), false);
  Z3_solver_set_params(l->z, l->solver, p);
  Z3_params_dec_ref(l->z, p);
}

static void close_solver(struct logic *l)
{
  Z3_solver_dec_ref(l->z, l->solver);
  Z3_del_context(l->z);
  arena_close(&l->mem);
}

static Z3_lbool refute(const struct logic *l, const struct term *e, const struct term *target)
{
  Z3_solver_push(l->z, l->solver);
  require(l, Z3_mk_not(l->z, l->below(l, formula(l, e), formula(l, target))));
  Z3_lbool r = Z3_solver_check(l->z, l->solver);
  Z3_solver_pop(l->z, l->solver, 1);
  return r;
}

// ---- proofs --------------------------------------------------------------------------------------

static Z3_ast free_binary(const struct logic *l, enum term_op op, Z3_ast a, Z3_ast b) { return Z3_mk_app(l->z, l->fn[op], 2, (Z3_ast[]){a, b}); }

static Z3_ast free_exp(const struct logic *l, Z3_ast a) { return Z3_mk_app(l->z, l->fn[T_EXP], 1, &a); }

static Z3_ast free_sum(const struct logic *l, uint64_t k, Z3_ast a)
{
  Z3_ast length = Z3_mk_unsigned_int64(l->z, k, Z3_mk_int_sort(l->z));
  if (l->schematic && k > 1) length = k == 2 ? l->i : k == 3 ? l->j : Z3_mk_mul(l->z, 2, (Z3_ast[]){l->i, l->j});
  return Z3_mk_app(l->z, l->fn[T_SUM], 2, (Z3_ast[]){length, a});
}

static Z3_ast free_below(const struct logic *l, Z3_ast a, Z3_ast b) { return Z3_mk_app(l->z, l->fn_below, 2, (Z3_ast[]){a, b}); }

static Z3_ast constant(const struct logic *l, const char *name, Z3_sort sort) { return Z3_mk_const(l->z, Z3_mk_string_symbol(l->z, name), sort); }

// For all variables in `text` and lengths: fact, to be instantiated wherever one of the patterns occurs.
static void require_all(const struct logic *l, const char *text, Z3_ast fact, int n, const Z3_pattern *patterns)
{
  Z3_app bound[5];
  unsigned count = 0;
  for (char v = 'X'; v <= 'Z'; v++)
    if (strchr(text, v)) bound[count++] = Z3_to_app(l->z, l->atom[(int)v]);
  if (strchr(text, '2')) bound[count++] = Z3_to_app(l->z, l->i);
  if (strchr(text, '3')) bound[count++] = Z3_to_app(l->z, l->j);
  require(l, Z3_mk_forall_const(l->z, 0, count, bound, (unsigned)n, patterns, fact));
}

static bool is_pattern(const char *side) { return strlen(side) > 1 && !strchr(side, '6'); }

static void require_equations(struct logic *l)
{
  for (size_t i = 0; i < l->equations; i++) {
    const char *text[] = {equations[i].lhs, equations[i].rhs};
    Z3_ast ast[2];
    Z3_pattern pattern[2];
    int n = 0;
    for (int s = 0; s < 2; s++) {
      ast[s] = side(l, text[s]);
      if (is_pattern(text[s])) pattern[n++] = Z3_mk_pattern(l->z, 1, &ast[s]);
    }
    require_all(l, arena_printf(&l->mem, "%s%s", text[0], text[1]), Z3_mk_eq(l->z, ast[0], ast[1]), n, pattern);
  }
}

static void require_inclusions(struct logic *l)
{
  for (size_t i = 0; i < COUNT(inclusions); i++) {
    Z3_ast a = side(l, inclusions[i].lhs), b = side(l, inclusions[i].rhs);
    Z3_ast fact = free_below(l, a, b);
    Z3_pattern p = Z3_mk_pattern(l->z, 1, is_pattern(inclusions[i].rhs) ? &b : &fact);
    require_all(l, inclusions[i].rhs, fact, 1, &p);
  }
  Z3_ast x = l->atom['X'], y = l->atom['Y'], z = l->atom['Z'];
  Z3_ast chain[] = {free_below(l, x, y), free_below(l, y, z)};
  Z3_pattern p = Z3_mk_pattern(l->z, 2, chain);
  require_all(l, "XYZ", Z3_mk_implies(l->z, Z3_mk_and(l->z, 2, chain), free_below(l, x, z)), 1, &p);
}

static void open_proofs(struct logic *l, enum laws laws)
{
  *l = (struct logic){.binary = free_binary, .exponential = free_exp, .sum = free_sum, .below = free_below};
  l->equations = COUNT(equations) - (laws == LAWS_PAPER);
  open_solver(l, NULL, PROOF_STEPS);
  Z3_sort e = Z3_mk_uninterpreted_sort(l->z, Z3_mk_string_symbol(l->z, "E")), integer = Z3_mk_int_sort(l->z);
  Z3_sort boolean = Z3_mk_bool_sort(l->z);
  static const char *const name[] = {
      [T_ADD] = "add", [T_MUL] = "mul", [T_DIV] = "div", [T_SUM] = "sum", [T_EXP] = "exp",
  };
  for (enum term_op op = T_ADD; op <= T_EXP; op++)
    l->fn[op] = Z3_mk_func_decl(l->z, Z3_mk_string_symbol(l->z, name[op]), op == T_EXP ? 1 : 2, (Z3_sort[]){op == T_SUM ? integer : e, e}, e);
  l->fn_below = Z3_mk_func_decl(l->z, Z3_mk_string_symbol(l->z, "subexpr"), 2, (Z3_sort[]){e, e}, boolean);
  for (char c = 'A'; c <= 'Z'; c++) l->atom[(int)c] = constant(l, (char[]){c, 0}, e);
  l->i = constant(l, "i", integer);
  l->j = constant(l, "j", integer);
  l->schematic = true;
  require_equations(l);
  require_inclusions(l);
  l->schematic = false;
}

// ---- models --------------------------------------------------------------------------------------

enum { ELEMENTS = 4 };

static Z3_ast element(const struct logic *l, int v) { return Z3_mk_int(l->z, v, Z3_mk_bv_sort(l->z, 2)); }

// row[a], by comparison with every element.
static Z3_ast pick(const struct logic *l, const Z3_ast *row, Z3_ast a)
{
  Z3_ast r = row[ELEMENTS - 1];
  for (int v = ELEMENTS - 2; v >= 0; v--) r = Z3_mk_ite(l->z, Z3_mk_eq(l->z, a, element(l, v)), row[v], r);
  return Z3_simplify(l->z, r);
}

static Z3_ast look_up(const struct logic *l, const Z3_ast table[ELEMENTS][ELEMENTS], Z3_ast a, Z3_ast b)
{
  Z3_ast row[ELEMENTS];
  for (int v = 0; v < ELEMENTS; v++) row[v] = pick(l, table[v], b);
  return pick(l, row, a);
}

static Z3_ast table_binary(const struct logic *l, enum term_op op, Z3_ast a, Z3_ast b) { return look_up(l, l->table[op], a, b); }

static Z3_ast table_exp(const struct logic *l, Z3_ast a) { return pick(l, l->table[T_EXP][0], a); }
static Z3_ast table_below(const struct logic *l, Z3_ast a, Z3_ast b) { return look_up(l, l->order, a, b); }

// The power of two in k, as often applied: an odd length sums to the same. Then the axioms hold for all
// lengths when they hold for 2.
static Z3_ast table_sum(const struct logic *l, uint64_t k, Z3_ast a)
{
  for (; k % 2 == 0; k /= 2) a = pick(l, l->table[T_SUM][0], a);
  return a;
}

static void require_everywhere(struct logic *l)
{
  for (int n = 0; n < ELEMENTS * ELEMENTS * ELEMENTS; n++) {
    Z3_ast x = l->atom['X'] = element(l, n % ELEMENTS);
    Z3_ast y = l->atom['Y'] = element(l, n / ELEMENTS % ELEMENTS);
    Z3_ast z = l->atom['Z'] = element(l, n / ELEMENTS / ELEMENTS);
    for (size_t i = 0; i < l->equations; i++) require(l, Z3_mk_eq(l->z, side(l, equations[i].lhs), side(l, equations[i].rhs)));
    for (size_t i = 0; i < COUNT(inclusions); i++) require(l, l->below(l, side(l, inclusions[i].lhs), side(l, inclusions[i].rhs)));
    Z3_ast chain[] = {l->below(l, x, y), l->below(l, y, z)};
    require(l, Z3_mk_implies(l->z, Z3_mk_and(l->z, 2, chain), l->below(l, x, z)));
  }
}

static void open_models(struct logic *l, enum laws laws)
{
  *l = (struct logic){.binary = table_binary, .exponential = table_exp, .sum = table_sum, .below = table_below};
  l->equations = COUNT(equations) - (laws == LAWS_PAPER);
  open_solver(l, "QF_BV", MODEL_STEPS);
  Z3_sort e = Z3_mk_bv_sort(l->z, 2);
  for (int a = 0; a < ELEMENTS; a++)
    for (int b = 0; b < ELEMENTS; b++) {
      for (enum term_op op = T_ADD; op <= T_EXP; op++) l->table[op][a][b] = Z3_mk_fresh_const(l->z, "t", e);
      l->order[a][b] = Z3_mk_fresh_const(l->z, "o", Z3_mk_bool_sort(l->z));
    }
  require_everywhere(l);
  for (char c = 'A'; c <= 'Z'; c++) l->atom[(int)c] = constant(l, (char[]){c, 0}, e);
}

// ---- queries -------------------------------------------------------------------------------------

struct query {
  const struct term *e, *target;
  bool keep;
};

static const struct term *random_subterm(struct rng *r, const struct term *t)
{
  while (t->a && rng_below(r, 3)) t = t->b && rng_below(r, 2) ? t->b : t->a;
  return t;
}

// t with one operator, length or atom changed.
static const struct term *mutate(struct arena *m, struct rng *r, const struct term *t)
{
  if (t->a && rng_below(r, 3)) {
    bool left = !t->b || rng_below(r, 2);
    return mk(m, t->op, t->k, left ? mutate(m, r, t->a) : t->a, left ? t->b : mutate(m, r, t->b));
  }
  if (t->op == T_ATOM) return mk(m, T_ATOM, 'A' + rng_below(r, 3), NULL, NULL);
  if (t->b) return mk(m, T_ADD + (enum term_op)rng_below(r, 3), 0, t->a, t->b);
  return mk(m, t->op, t->op == T_SUM ? 2 * t->k : 0, t->a, NULL);
}

// A small target and part of a rewriting of it, for every second query with a mistake in it.
static struct query random_query(struct arena *m, struct rng *r, struct expr *ex, enum laws laws)
{
  struct query q = {.target = random_term(m, r, 2 + (int)rng_below(r, 4), 3, LAWS_PAPER)};
  const struct term *t = q.target;
  for (uint64_t moves = rng_below(r, 12); moves; moves--) t = rewrite(m, r, t, laws);
  q.e = random_subterm(r, t);
  if (rng_below(r, 2)) q.e = mutate(m, r, q.e);
  expr_target(ex, 0, NULL);
  nf target = build(ex, q.target);
  expr_target(ex, 1, &target);
  q.keep = expr_sub(ex, build(ex, q.e));
  return q;
}

// As many kept as pruned ones; trivial ones (the target itself, an atom) are passed over.
static void random_queries(struct arena *m, struct query *q, int n, enum laws laws)
{
  struct rng r = {11};
  struct expr *ex = expr_open();
  expr_option_exp_laws(ex, laws != LAWS_PAPER);
  for (int left[2] = {n / 2, n / 2}; left[0] + left[1];) {
    struct query one = random_query(m, &r, ex, laws);
    bool trivial = one.e->op == T_ATOM || term_same(one.e, one.target);
    if (!trivial && left[one.keep]) {
      *q++ = one;
      left[one.keep]--;
    }
  }
  expr_close(ex);
}

static void complain(const struct query *q, const char *what)
{
  struct arena m = {0};
  struct expr *ex = expr_open();
  const char *e = text_of(&m, ex, build(ex, q->e)), *target = text_of(&m, ex, build(ex, q->target));
  print_error("%s but %s: %s in %s\n", q->keep ? "kept" : "pruned", what, e, target);
  expr_close(ex);
  arena_close(&m);
}

static void no_contradiction(enum laws laws)
{
  struct arena m = {0};
  struct query q[QUERIES];
  const int n = QUERIES / quick_step(4) / 2 * 2; // as many are kept as pruned
  struct logic proofs, models;
  random_queries(&m, q, n, laws);
  open_proofs(&proofs, laws);
  open_models(&models, laws);
  int proved[2] = {0}, modelled[2] = {0};
  for (int i = 0; i < n; i++) {
    bool proof = refute(&proofs, q[i].e, q[i].target) == Z3_L_FALSE;
    bool model = refute(&models, q[i].e, q[i].target) == Z3_L_TRUE;
    if (q[i].keep ? model : proof) complain(&q[i], model ? "there is a model without it" : "there is a proof of it");
    proved[q[i].keep] += proof;
    modelled[q[i].keep] += model;
  }
  print_message("%d kept: %d proved, %d open; %d pruned: %d with a model, %d open\n", n / 2, proved[1], n / 2 - proved[1], n / 2, modelled[0],
                n / 2 - modelled[0]);
  assert_int_equal(proved[0], 0);
  assert_int_equal(modelled[1], 0);
  assert_true(proved[1] > n / 4);
  assert_true(modelled[0] > n / 4);
  close_solver(&proofs), close_solver(&models);
  arena_close(&m);
}

static void test_paper(void **state)
{
  (void)state;
  no_contradiction(LAWS_PAPER);
}

static void test_exp_law(void **state)
{
  (void)state;
  no_contradiction(LAWS_EXP);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_paper), cmocka_unit_test(test_exp_law)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
