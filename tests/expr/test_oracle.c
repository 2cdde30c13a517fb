// The oracle against a table of judgements, the axioms as properties, and three hundred thousand
// random rewritings of random targets: no subterm of a term equal to the target may be pruned.
#include "terms.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

// ---- the table ---------------------------------------------------------------------------------

enum { PLAIN = 1, EXP_LAWS = 2, EXPANDED = 4, ANY = 7 };

static const struct {
  const char *target, *keep, *prune; // expressions separated by ;
  int under;                         // the settings in which the row holds
} table[] = {
    {"XZ + YZ", "X+Y; X; XZ; Z; (X+Y)Z", "XY; X+Z; X+X", ANY},
    {"S64 XY", "S16 XY; S64 X; S8 X * S8 Y; XY; S2 X * Y", "S48 XY; S128 X; X+Y; S3 X", ANY},
    {"S4 A + S8 B", "A + S2 B; S2 A + S4 B; S4 A; S8 B; A; S8 B + S4 A", "A+B; S8 A; A + S4 B", ANY},
    {"S4096 (exp(S64 QK) V) / S4096 exp(S64 QK)",
     "S64 exp(S64 QK); exp(S64 QK) / S4096 exp(S64 QK); V / S4096 exp(S64 QK); QK; S64 QK; S16 Q * S4 K; "
     "S8 exp(S64 QK)V",
     "exp(S16 QK); QV; exp(S64 QK) exp(S64 QK); V / S64 exp(S64 QK); exp(QK); S128 QK; QQ", ANY},
    {"X / (AC+BC)", "X/(A+B); X/C; A+B; AC; X/(A+B)/C; X", "X/A; X/(AC); AX; X+C", ANY},
    {"X / AB", "X/A; AB; X/B; A; X", "A+B; AX; X/(A+B); X/A/A", ANY},
    {"X/(Y/Z)", "Y/Z; Z; X; Y", "XZ; X/Y; X/Z; XZ/Y", ANY},
    {"X / S2 Y", "Y; S2 Y; X / S2 Y", "X/Y; S2 X", ANY},
    {"A", "A", "A+A; AA; S2 A; A/A; exp(A); B", ANY},
    {"S2 A", "A; S2 A", "A+A; S4 A", ANY},
    {"A+A", "A; A+A", "S2 A; A+A+A", ANY},
    {"(A+B)^2", "A^2+AB; AB+AB; A+B; A^2 + B^2", "A^2+2B^2; AB+AB+AB; AC", ANY},
    {"AC + BC + AD", "A+B; C+D; A; AC+AD", "A+B+C; B+D; CD", ANY},
    {"exp(A+B)", "A+B; A; exp(A+B)", "exp(A+A); AB; exp(AB)", ANY},
    {"exp(A+B)", "exp(A); exp(A)exp(B); exp(B)", "exp(A)exp(A); exp(A)+exp(B)", EXP_LAWS},
    {"exp(A+B)", "", "exp(A); exp(A)exp(B)", PLAIN},
    {"exp(A)exp(B)", "exp(A)", "A+B", PLAIN},
    {"exp(A)exp(B)", "exp(A); A+B", "AB", EXP_LAWS},
    {"sqrt(AB + AC)", "sqrt(A); sqrt(B+C); AB; B+C; sqrt(B+C)sqrt(A)", "sqrt(B); sqrt(AB); A+B; sqrt(A)sqrt(A)", EXP_LAWS},
    {"sqrt(AB + AC)", "AB; B+C", "sqrt(A); sqrt(B+C)", PLAIN},
    {"S64 WX + S1024 BAX", "W + S16 BA; BA; S16 BA; AX; S64 WX; S4 BA; X", "W+A; WB; W + BA; S128 W", ANY},
    // norms: X / sqrt(sum of squares), then a product
    {"S64 (XGW / sqrt(S64 sq(X)))", "S64 sq(X); sq(X); sqrt(S64 XX); S64 XGW; XW; GW / sqrt(S64 X^2)", "S64 XX * W; sqrt(W); X / S64 XX; GG", ANY},
    // squares of sums
    {"sq(A+B)", "A+B; A; sq(A+B); sq(B+A)", "AB; A+A; sq(A); sq(B); sq(A+C); A(A+B)", PLAIN | EXP_LAWS},
    {"sq(A+B)", "A+B; AB; sq(A); A^2+AB", "AC; AB+AB+AB", EXPANDED},
    {"sq(A+B) * CC", "A+B; AC; C(A+B); AC+BC; sq(A+B)C; sq(AC+BC); CC", "ACC; A+C; sq(A+C); AB; sq(A+B)CCC", PLAIN | EXP_LAWS},
    {"sq(A+B) * CCC", "AC; sq(AC+BC)C; sq(A+B)CC", "ACC; sq(A+B)CCCC", PLAIN | EXP_LAWS},
    {"sq(S8 AC + S8 BC)", "S8 AC; S2 A + S2 B; S8 sq(A+B); S64 sq(A+B)", "S16 A; S64 A; CCC", PLAIN | EXP_LAWS},
    {"sq((A+B)/sqrt(C))", "A/sqrt(C); A+B; sq(A+B)", "AB; A/C", EXP_LAWS},
    {"sq((A+B)/C)", "A/C; sq(A+B)/C; sq(A+B)/CC; 1A/CC; CC", "A/CCC; AB", PLAIN | EXP_LAWS},
    {"sq((A+B)(C+D))", "AC+BC; A+B; sq(A+B); C+D; sq(C+D)", "AB; CD; sq(A+C)", PLAIN | EXP_LAWS},
    // operators without laws
    {"X f(S4 X + Y)", "X; f(S4 X + Y); S4 X + Y; S2 X; Y", "f(X); g(S4 X + Y); f(S4 X); X+Y; XX", ANY},
    {"max64(XY)", "max16(XY); XY; max2(max4(XY)); X", "max128(XY); max48(XY); max16(X); max16(XY)Z; max16(XY)+X", ANY},
    {"A max64(X)", "max16(X); A; A max64(X)", "A max16(X)", ANY},
    {"exp(ewmax(A, B, C))", "ewmax(A, B); ewmax(C, A); ewmax(ewmax(A, B), C); C; ewmax(B, B)", "ewmin(A, B); ewmax(A, D); A+B; exp(ewmax(A, B)); AB",
     ANY},
    {"ewmin(A, ewmin(B, BC))", "ewmin(A, BC); C", "ewmax(A, B); ewmin(A, C)", ANY},
};

static struct expr *open_under(int setting)
{
  struct expr *ex = expr_open();
  expr_option_exp_laws(ex, setting != PLAIN);
  expr_option_expand_squares(ex, setting == EXPANDED);
  return ex;
}

static int judge(struct expr *ex, const char *target, const char *list, bool expected)
{
  int wrong = 0;
  char *copy = strdup(list), *rest = NULL;
  for (char *e = strtok_r(copy, ";", &rest); e; e = strtok_r(NULL, ";", &rest)) {
    if (expr_sub(ex, build_text(ex, e)) == expected) continue;
    print_error("in %s: should %s %s\n", target, expected ? "keep" : "prune", e);
    wrong++;
  }
  free(copy);
  return wrong;
}

static void test_table(void **state)
{
  (void)state;
  int wrong = 0;
  for (int setting = PLAIN; setting <= EXPANDED; setting *= 2) {
    struct expr *ex = open_under(setting);
    for (size_t i = 0; i < COUNT(table); i++) {
      if (!(table[i].under & setting)) continue;
      expr_target(ex, 0, NULL);
      nf target = build_text(ex, table[i].target);
      expr_target(ex, 1, &target);
      wrong += judge(ex, table[i].target, table[i].keep, true);
      wrong += judge(ex, table[i].target, table[i].prune, false);
    }
    expr_close(ex);
  }
  assert_int_equal(wrong, 0);
}

// ---- equations -----------------------------------------------------------------------------------

static const struct {
  const char *lhs, *rhs;
  bool equal;
  int under;
} equations[] = {
    {"sq(A)", "AA", true, ANY},
    {"sq((A+B)C)", "sq(A+B) CC", true, ANY},
    {"sq((A+B)/C)", "sq(A+B) / CC", true, ANY},
    {"sq(S4 A + S8 B)", "S16 sq(A + S2 B)", true, ANY},
    {"sq(A+B)", "A^2 + 2AB + B^2", false, PLAIN | EXP_LAWS},
    {"sq(A+B)", "A^2 + 2AB + B^2", true, EXPANDED},
    {"max4(max16(X))", "max64(X)", true, ANY},
    {"max4(X)", "X", false, ANY},
    {"ewmax(A, ewmax(B, A))", "ewmax(B, A)", true, ANY},
    {"ewmax(A, ewmin(B, A))", "A", false, ANY},
    {"exp(A)exp(B)", "exp(A+B)", true, EXP_LAWS | EXPANDED},
    {"exp(A)exp(B)", "exp(A+B)", false, PLAIN},
    {"A+A", "S2 A", false, ANY},
    {"AB/B", "A", false, ANY},
    {"A/(B/C)", "AC/B", false, ANY},
    {"f(A)f(B)", "f(AB)", false, ANY},
};

static void test_equations(void **state)
{
  (void)state;
  for (int setting = PLAIN; setting <= EXPANDED; setting *= 2) {
    struct expr *ex = open_under(setting);
    for (size_t i = 0; i < COUNT(equations); i++)
      if (equations[i].under & setting) assert_int_equal(build_text(ex, equations[i].lhs) == build_text(ex, equations[i].rhs), equations[i].equal);
    nf x = expr_atom(ex, 1), y = expr_neg(ex, x);
    assert_int_equal(expr_add(ex, x, y), expr_add(ex, y, y));
    expr_close(ex);
  }
}

// Every axiom of A_eq, for random terms in place of its variables.
static void test_axioms(void **state)
{
  (void)state;
  struct arena m = {0};
  struct rng r = {1};
  struct expr *ex = expr_open();
  for (int i = 0; i < 2000; i++) {
    nf v[3];
    for (int j = 0; j < 3; j++) v[j] = build(ex, random_term(&m, &r, (int)rng_below(&r, 5), 3, LAWS_ALL));
    nf x = v[0], y = v[1], z = v[2];
    uint64_t k = 1 + rng_below(&r, 9), l = 1 + rng_below(&r, 9);
    assert_int_equal(expr_add(ex, x, y), expr_add(ex, y, x));
    assert_int_equal(expr_mul(ex, x, y), expr_mul(ex, y, x));
    assert_int_equal(expr_add(ex, x, expr_add(ex, y, z)), expr_add(ex, expr_add(ex, x, y), z));
    assert_int_equal(expr_mul(ex, x, expr_mul(ex, y, z)), expr_mul(ex, expr_mul(ex, x, y), z));
    assert_int_equal(expr_add(ex, expr_mul(ex, x, z), expr_mul(ex, y, z)), expr_mul(ex, expr_add(ex, x, y), z));
    assert_int_equal(expr_add(ex, expr_div(ex, x, z), expr_div(ex, y, z)), expr_div(ex, expr_add(ex, x, y), z));
    assert_int_equal(expr_mul(ex, x, expr_div(ex, y, z)), expr_div(ex, expr_mul(ex, x, y), z));
    assert_int_equal(expr_div(ex, expr_div(ex, x, y), z), expr_div(ex, x, expr_mul(ex, y, z)));
    assert_int_equal(x, expr_sum(ex, 1, x));
    assert_int_equal(expr_sum(ex, k, expr_sum(ex, l, x)), expr_sum(ex, k * l, x));
    assert_int_equal(expr_sum(ex, k, expr_add(ex, x, y)), expr_add(ex, expr_sum(ex, k, x), expr_sum(ex, k, y)));
    assert_int_equal(expr_sum(ex, k, expr_mul(ex, x, y)), expr_mul(ex, expr_sum(ex, k, x), y));
    assert_int_equal(expr_sum(ex, k, expr_div(ex, x, y)), expr_div(ex, expr_sum(ex, k, x), y));
    assert_int_equal(expr_mul(ex, expr_exp(ex, x), expr_exp(ex, y)), expr_exp(ex, expr_add(ex, x, y)));
    assert_int_equal(expr_mul(ex, expr_sqrt(ex, x), expr_sqrt(ex, y)), expr_sqrt(ex, expr_mul(ex, x, y)));
    assert_int_equal(expr_max(ex, k, expr_max(ex, l, x)), expr_max(ex, k * l, x));
    assert_int_equal(expr_ewmax(ex, x, expr_ewmax(ex, y, z)), expr_ewmax(ex, expr_ewmax(ex, z, x), y));
    assert_int_equal(expr_ewmin(ex, x, x), x);
  }
  arena_close(&m);
  expr_close(ex);
}

// ---- rewriting -----------------------------------------------------------------------------------

struct tally {
  uint64_t rewritten, subterms, missed;
};

// Every subterm of a rewritten target is kept; the whole is the target again.
static nf check_subterms(struct expr *ex, const struct term *t, struct tally *n)
{
  if (t->a) check_subterms(ex, t->a, n);
  if (t->b) check_subterms(ex, t->b, n);
  nf e = build(ex, t);
  n->subterms++;
  n->missed += !expr_sub(ex, e);
  return e;
}

static void rewrite_one_target(struct expr *ex, struct rng *r, enum laws laws, struct tally *n)
{
  struct arena m = {0};
  const struct term *t = random_term(&m, r, 1 + (int)rng_below(r, 12), 4, laws);
  expr_target(ex, 0, NULL);
  nf target = build(ex, t);
  expr_target(ex, 1, &target);
  for (int i = 0; i < 40 && term_size(t) < 80; i++) {
    for (int moves = 0; moves < 4; moves++) t = rewrite(&m, r, t, laws);
    uint64_t before = n->missed;
    bool same = check_subterms(ex, t, n) == target;
    n->missed += !same;
    n->rewritten++;
    if (before != n->missed && before == 0) print_error("%s in %s\n", same ? "missed a subterm" : "another normal form", text_of(&m, ex, target));
  }
  arena_close(&m);
}

static void test_rewritten(void **state)
{
  (void)state;
  struct tally n = {0};
  for (enum laws laws = LAWS_PAPER; laws <= LAWS_ALL; laws++) {
    struct rng r = {laws + 7};
    struct expr *ex = open_under(laws == LAWS_PAPER ? PLAIN : EXP_LAWS);
    for (uint64_t upto = (laws + 1) * 100000; n.rewritten < upto;) rewrite_one_target(ex, &r, laws, &n);
    expr_close(ex);
  }
  print_message("%llu rewritten terms, %llu subterms, %llu missed\n", (unsigned long long)n.rewritten, (unsigned long long)n.subterms,
                (unsigned long long)n.missed);
  assert_int_equal(n.missed, 0);
  assert_true(n.rewritten >= 300000);
}

// ---- what must be pruned ---------------------------------------------------------------------------

// Whatever strictly contains the target, or holds an atom that the target lacks, is pruned.
static void test_pruned(void **state)
{
  (void)state;
  struct rng r = {3};
  uint64_t pruned = 0;
  for (int i = 0; i < 3000; i++) {
    struct arena m = {0};
    struct expr *ex = expr_open();
    nf t = build(ex, random_term(&m, &r, (int)rng_below(&r, 8), 4, LAWS_ALL));
    nf e = build(ex, random_term(&m, &r, (int)rng_below(&r, 3), 4, LAWS_ALL)), z = expr_atom(ex, 'Z');
    expr_target(ex, 1, &t);
    const nf never[] = {
        expr_add(ex, t, e),
        expr_mul(ex, t, e),
        expr_div(ex, t, e),
        expr_div(ex, e, t),
        expr_exp(ex, t),
        expr_sqrt(ex, t),
        expr_sum(ex, 2, t),
        expr_opaque(ex, 'f', 1, &t),
        z,
        expr_add(ex, e, z),
        expr_mul(ex, e, z),
        expr_div(ex, e, z),
    };
    for (size_t j = 0; j < COUNT(never); j++) assert_false(expr_sub(ex, never[j]));
    assert_true(expr_sub(ex, t));
    pruned += expr_stats(ex).pruned;
    expr_close(ex);
    arena_close(&m);
  }
  assert_int_equal(pruned, 3000 * 12);
}

// Random small terms against random targets: subexpression is an order, so both ways only for equals.
static void test_antisymmetric(void **state)
{
  (void)state;
  struct arena m = {0};
  struct rng r = {4};
  struct expr *ex = expr_open();
  int kept = 0, equal = 0;
  for (int i = 0; i < 20000; i++) {
    expr_target(ex, 0, NULL);
    nf s = build(ex, random_term(&m, &r, (int)rng_below(&r, 4), 2, LAWS_ALL));
    nf t = build(ex, random_term(&m, &r, (int)rng_below(&r, 4), 2, LAWS_ALL));
    expr_target(ex, 1, &t);
    bool below = expr_sub(ex, s);
    expr_target(ex, 1, &s);
    bool above = expr_sub(ex, t);
    assert_int_equal(below && above, s == t);
    kept += below;
    equal += s == t;
  }
  print_message("of 20000 random pairs %d kept, %d equal\n", kept, equal);
  assert_true(kept > equal && kept < 12000);
  arena_close(&m);
  expr_close(ex);
}

// ---- contexts --------------------------------------------------------------------------------------

static void test_content(void **state)
{
  (void)state;
  struct arena m = {0};
  struct rng r = {5};
  struct expr *one = expr_open(), *two = expr_open(), *three = expr_open();
  for (int i = 0; i < 500; i++) build(two, random_term(&m, &r, 4, 4, LAWS_ALL)); // other ids than in the first
  for (int i = 0; i < 3000; i++) {
    const struct term *t = random_term(&m, &r, (int)rng_below(&r, 9), 4, LAWS_ALL);
    nf e = build(one, t), f = build(two, t), c = expr_copy(three, one, e);
    assert_int_equal(expr_hash(one, e), expr_hash(two, f));
    assert_int_equal(expr_hash(one, e), expr_hash(three, c));
    const char *text = text_of(&m, one, e);
    assert_string_equal(text, text_of(&m, two, f));
    assert_string_equal(text, text_of(&m, three, c));
    assert_int_equal(c, build(three, t));
    if (!strstr(text, "sq(")) // which may print the monomial 1, no term
      assert_int_equal(e, build(one, parse(&m, text)));
  }
  expr_close(one), expr_close(two), expr_close(three);
  arena_close(&m);
}

static void test_print(void **state)
{
  (void)state;
  static const char *const text[] = {
      "S64 exp(S64 KQ)V / S64 exp(S64 KQ)",
      "A^2 + 2 AB + B^2",
      "X / (AC + BC)",
      "X / AB",
      "X / (Y / Z)",
      "A f(B) max4(C)",
      "sq(A + B)C^2",
      "ewmax(A, B + C)",
  };
  struct arena m = {0};
  struct expr *ex = expr_open();
  for (size_t i = 0; i < COUNT(text); i++) assert_string_equal(text_of(&m, ex, build_text(ex, text[i])), text[i]);
  assert_int_not_equal(expr_hash(ex, build_text(ex, "A+A")), expr_hash(ex, build_text(ex, "S2 A")));
  arena_close(&m);
  expr_close(ex);
}

static void test_targets(void **state)
{
  (void)state;
  struct expr *ex = expr_open();
  assert_true(expr_sub(ex, build_text(ex, "Z")));
  const nf both[] = {build_text(ex, "AB"), build_text(ex, "C+D")};
  expr_target(ex, 2, both);
  assert_true(expr_sub(ex, both[0]) && expr_sub(ex, both[1]));
  assert_false(expr_sub(ex, build_text(ex, "A+B")));
  expr_target(ex, 1, both);
  assert_false(expr_sub(ex, both[1])); // the answer under the old target is forgotten
  assert_false(expr_sub(ex, both[1]));
  struct expr_stats s = expr_stats(ex);
  assert_int_equal(s.queries, 6);
  assert_int_equal(s.memo_hits, 1);
  assert_int_equal(s.kept + s.pruned, s.queries);
  assert_int_equal(s.too_big, 0);
  expr_close(ex);
}

static void test_caps(void **state)
{
  (void)state;
  struct expr *ex = expr_open();
  nf a = expr_atom(ex, 'A'), sum = expr_add(ex, a, expr_atom(ex, 'B')), big = sum, deep = a;
  assert_int_equal(expr_sum(ex, 1ull << 40, expr_sum(ex, 1ull << 40, a)), EXPR_UNKNOWN);
  for (int i = 0; i < 20; i++) big = expr_mul(ex, big, sum);
  for (int i = 0; i < 100; i++) deep = expr_exp(ex, deep);
  assert_int_equal(big, EXPR_UNKNOWN);
  assert_int_equal(deep, EXPR_UNKNOWN);
  assert_int_equal(expr_div(ex, a, big), EXPR_UNKNOWN);
  assert_true(expr_sub(ex, big));
  expr_target(ex, 1, &big); // nothing to prune by
  assert_true(expr_sub(ex, expr_atom(ex, 'Z')));
  expr_target(ex, 1, &sum); // more than two monomials are too many for it
  nf many = expr_mul(ex, sum, sum);
  assert_int_equal(many, EXPR_NEVER);
  assert_int_equal(expr_exp(ex, expr_add(ex, many, EXPR_UNKNOWN)), EXPR_NEVER);
  assert_false(expr_sub(ex, many));
  assert_true(expr_stats(ex).too_big > 3);
  expr_close(ex);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_table),         cmocka_unit_test(test_equations), cmocka_unit_test(test_axioms), cmocka_unit_test(test_print),
      cmocka_unit_test(test_content),       cmocka_unit_test(test_targets),   cmocka_unit_test(test_caps),   cmocka_unit_test(test_pruned),
      cmocka_unit_test(test_antisymmetric), cmocka_unit_test(test_rewritten),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
