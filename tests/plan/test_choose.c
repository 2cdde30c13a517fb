// Exact choices against all choices, and against Z3's optimizer.
#include "plan/choose.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <z3.h>

#include <cmocka.h>

static uint64_t random_from(uint64_t *s) { return *s = *s * 6364136223846793005u + 1442695040888963407u, *s >> 33; }

// A random problem: variables of 1 to 4 values, tables over 1 to 3 of them; now and then an entry is not allowed.
static struct choose problem(struct arena *mem, uint64_t seed)
{
  struct choose c = {.mem = mem};
  uint64_t s = seed;
  int n = 2 + (int)(random_from(&s) % 6);
  for (int i = 0; i < n; i++) choose_var(&c, 1 + (int)(random_from(&s) % 4));
  for (int t = 0; t < 2 * n; t++) {
    int vars[3], k = 0, want = 1 + (int)(random_from(&s) % 3);
    for (int i = 0; i < n && k < want; i++)
      if (random_from(&s) % 2) vars[k++] = i;
    int64_t size = 1;
    for (int i = 0; i < k; i++) size *= c.values[vars[i]];
    double *cost = choose_cost(&c, k, vars);
    for (int64_t i = 0; i < size; i++) cost[i] = random_from(&s) % 12 ? (double)(random_from(&s) % 100) : INFINITY;
  }
  return c;
}

static double sum(const struct choose *c, const int *value)
{
  double all = 0;
  for (int i = 0; i < c->ntables; i++) {
    int64_t at = 0;
    for (int k = 0; k < c->tables[i].n; k++) at = at * c->values[c->tables[i].var[k]] + value[c->tables[i].var[k]];
    all += c->tables[i].cost[at];
  }
  return all;
}

static double least_of_all(const struct choose *c)
{
  int value[16] = {0}, i = 0;
  double least = INFINITY;
  while (i < c->nvars) {
    least = fmin(least, sum(c, value));
    for (i = 0; i < c->nvars && ++value[i] == c->values[i]; i++) value[i] = 0;
  }
  return least;
}

static void brute_force(void **state)
{
  (void)state;
  int none = 0;
  for (uint64_t seed = 1; seed <= 2000; seed++) {
    struct arena mem = {0};
    struct choose c = problem(&mem, seed);
    int value[16];
    double cost, want = least_of_all(&c);
    int status = choose_least(&c, value, &cost);
    assert_int_equal(status, isinf(want) ? NO : OK);
    none += isinf(want);
    if (status == OK) assert_true(cost == want && sum(&c, value) == want);
    arena_close(&mem);
  }
  assert_in_range(none, 1, 1000);
}

// One 0-1 variable a value, exactly one true; a soft constraint a table entry.
static double z3_least(const struct choose *c)
{
  Z3_config config = Z3_mk_config();
  Z3_context z = Z3_mk_context(config);
  Z3_optimize opt = Z3_mk_optimize(z);
  Z3_optimize_inc_ref(z, opt);
  Z3_ast is[16][8];
  for (int v = 0; v < c->nvars; v++) {
    Z3_ast all[8];
    int one[8];
    for (int k = 0; k < c->values[v]; k++) is[v][k] = all[k] = Z3_mk_const(z, Z3_mk_int_symbol(z, v * 8 + k), Z3_mk_bool_sort(z)), one[k] = 1;
    Z3_optimize_assert(z, opt, Z3_mk_pbeq(z, (unsigned)c->values[v], all, one, 1));
  }
  for (int t = 0; t < c->ntables; t++) {
    const struct choose_table *x = &c->tables[t];
    int64_t size = 1;
    for (int i = 0; i < x->n; i++) size *= c->values[x->var[i]];
    for (int64_t at = 0; at < size; at++) {
      Z3_ast both[CHOOSE_ARITY];
      int64_t rest = at;
      for (int i = x->n - 1; i >= 0; rest /= c->values[x->var[i--]]) both[i] = is[x->var[i]][rest % c->values[x->var[i]]];
      Z3_ast never = Z3_mk_not(z, x->n ? Z3_mk_and(z, (unsigned)x->n, both) : Z3_mk_true(z));
      char weight[32];
      snprintf(weight, sizeof weight, "%.0f", x->cost[at]);
      if (isinf(x->cost[at]))
        Z3_optimize_assert(z, opt, never);
      else
        Z3_optimize_assert_soft(z, opt, never, weight, NULL);
    }
  }
  double cost = INFINITY;
  if (Z3_optimize_check(z, opt, 0, NULL) == Z3_L_TRUE) {
    Z3_model m = Z3_optimize_get_model(z, opt);
    int value[16] = {0};
    for (int v = 0; v < c->nvars; v++)
      for (int k = 0; k < c->values[v]; k++) {
        Z3_ast truth;
        if (Z3_model_eval(z, m, is[v][k], true, &truth) && Z3_get_bool_value(z, truth) == Z3_L_TRUE) value[v] = k;
      }
    cost = sum(c, value);
  }
  Z3_optimize_dec_ref(z, opt);
  Z3_del_context(z);
  Z3_del_config(config);
  return cost;
}

static void solver(void **state)
{
  (void)state;
  for (uint64_t seed = 5001; seed <= 5020; seed++) {
    struct arena mem = {0};
    struct choose c = problem(&mem, seed);
    int value[16];
    double cost = INFINITY, want = z3_least(&c);
    if (choose_least(&c, value, &cost) != OK) cost = INFINITY;
    assert_true(cost == want || (isinf(cost) && isinf(want)));
    arena_close(&mem);
  }
}

// A chain of 200 variables is no wider than two of them.
static void long_chain(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct choose c = {.mem = &mem};
  int value[200], n = 200;
  double cost;
  for (int i = 0; i < n; i++) choose_var(&c, 5);
  for (int i = 0; i + 1 < n; i++) {
    double *t = choose_cost(&c, 2, (int[]){i, i + 1});
    for (int k = 0; k < 25; k++) t[k] = k / 5 == k % 5 ? 1 : (k / 5 + 1) % 5 == k % 5 ? 0 : 2; // the next value is free
  }
  assert_int_equal(choose_least(&c, value, &cost), OK);
  assert_true(cost == 0);
  for (int i = 0; i + 1 < n; i++) assert_int_equal(value[i + 1], (value[i] + 1) % 5);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(brute_force), cmocka_unit_test(solver), cmocka_unit_test(long_chain)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
