// Expressions over lanes against ex_eval, lane by lane, for random expressions and loops around them.
#include "tiles.h"

#include "sim/machine.h"

enum { VARS = 5, ROUNDS = 400 };

static ex any(struct ex_pool *p, struct rng *r, const ex *vars, int depth)
{
  if (!depth || rng_below(r, 6) == 0) return rng_below(r, 4) ? vars[rng_below(r, VARS)] : EX_C((int64_t)rng_below(r, 9) - 4);
  ex a = any(p, r, vars, depth - 1), b = any(p, r, vars, depth - 1), positive = EX_C((int64_t)rng_below(r, 12) + 1);
  switch (rng_below(r, 12)) {
  case 0: return ex_mul(p, a, b);
  case 1: return ex_div(p, a, positive);
  case 2: return ex_mod(p, a, positive);
  case 3: return ex_min(p, a, b);
  case 4: return ex_max(p, a, b);
  case 5: return ex_lt(p, a, b);
  case 6: return ex_eq(p, a, b);
  case 7: return ex_select(p, ex_lt(p, a, EX_C(3)), a, b);
  case 8: return ex_xor(p, ex_mod(p, a, EX_C(64)), ex_mod(p, b, EX_C(16)));
  case 9: return ex_both(p, ex_lt(p, a, b), ex_not(p, ex_eq(p, a, EX_C(1))));
  default: return ex_add(p, ex_mul(p, a, positive), b);
  }
}

static void lanes_agree(void **state)
{
  (void)state;
  struct rng r = {11};
  for (int round = 0; round < ROUNDS; round++) {
    struct arena mem = {0};
    struct tile_program p = {.mem = &mem, .ex = ex_open(&mem)};
    ex vars[VARS], x[6];
    for (int i = 0; i < VARS; i++) vars[i] = ex_var(p.ex, (const char *[]){"a", "b", "c", "d", "e"}[i], 0, 40, 1);
    struct sim s = {.mem = &mem, .p = &p, .stamps = 1, .nvars = VARS};
    s.var_pos = NEWS(&mem, int, VARS);
    int slot[6];
    for (int i = 0; i < VARS; i++) s.var_pos[i] = i;
    for (int i = 0; i < 6; i++) x[i] = any(p.ex, &r, vars, 4), slot[i] = code_slot(&s, x[i]);
    struct warp w = {.s = &s};
    w.values = arena_alloc(&mem, sizeof *w.values * (size_t)(s.nslots + 1));
    w.vars = arena_alloc(&mem, sizeof *w.vars * VARS);
    w.stamp = NEWS(&mem, uint64_t, s.nslots + 1), w.var_stamp = NEWS(&mem, uint64_t, VARS);
    code_reset(&w);
    for (int set = 0; set < 12; set++) {
      int first = (int)rng_below(&r, VARS); // a variable is set, and those that are defined after it
      for (int i = first; i < VARS; i++) {
        struct vec v = {.uniform = i % 2};
        int64_t base = (int64_t)rng_below(&r, 9);
        for (int l = 0; l < LANES; l++) v.v[l] = base + (i % 2 ? 0 : l);
        code_set(&w, i, &v);
      }
      for (int i = 0; i < 6; i++) {
        const struct vec *got = code_eval(&w, slot[i]);
        for (int l = 0; l < LANES; l++) {
          int64_t values[VARS];
          for (int j = 0; j < VARS; j++) values[j] = w.vars[j].v[l];
          assert_int_equal(got->v[l], ex_eval(p.ex, x[i], values));
          if (got->uniform) assert_int_equal(got->v[l], got->v[0]);
        }
      }
    }
    arena_close(&mem);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(lanes_agree)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
