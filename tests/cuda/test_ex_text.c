// Integer expressions as C++. The system's C++ compiler compiles random ones with checks for overflow. Their values must be those of ex_eval. An
// index that needs 64 bits must be computed in 64.
// test: quick sanitized
#include "cuda/cu_print.h"
#include "folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { VARS = 6, EXPRESSIONS = 400, POINTS = 24, DEPTH = 4 };
static const struct {
  const char *name;
  int64_t lo, hi, multiple;
} vars[VARS] = {{"tid", 0, 255, 1}, {"bid", 0, INT32_MAX - 1, 1}, {"M", 1, INT32_MAX, 1},
                {"k", 0, 65528, 8}, {"s", -50, 100, 1},           {"wide", -5000000000, 5000000000, 1}};
static const char head[] = "#include <cstdio>\n#include <algorithm>\nusing std::min; using std::max;\n"
                           "typedef unsigned u32; typedef unsigned long long u64; typedef long long i64;\n"
                           "template <class T> T mica_div(T a, T b) { T q = a / b; return q - (a % b < 0); }\n"
                           "template <class T> T mica_mod(T a, T b) { T r = a % b; return r < 0 ? r + b : r; }\n"
                           "static int bad;\nstatic void same(i64 a, i64 b, int n) { if (a != b) bad = 1, printf(\"%d: "
                           "%lld, not %lld\\n\", n, a, b); }\n";

static bool sane(struct ex_pool *p, ex x)
{
  struct ex_range r = ex_range(p, x);
  return r.lo > -((int64_t)1 << 60) && r.hi < (int64_t)1 << 60;
}

static ex grow(struct ex_pool *p, struct rng *r, const ex *var, int depth)
{
  if (!depth || rng_below(r, 6) == 0) return rng_below(r, 4) ? var[rng_below(r, VARS)] : EX_C((int64_t)rng_below(r, 300) - 100);
  ex a = grow(p, r, var, depth - 1), b = grow(p, r, var, depth - 1), c = a;
  int64_t k = 1 + (int64_t)rng_below(r, 40);
  switch (rng_below(r, 14)) {
  case 0:
  case 1: c = ex_add(p, a, b); break;
  case 2: c = ex_sub(p, a, b); break;
  case 3: c = ex_mul(p, a, EX_C(k)); break;
  case 4: c = sane(p, ex_mul(p, a, b)) ? ex_mul(p, a, b) : a; break;
  case 5: c = ex_div(p, a, EX_C(k)); break;
  case 6: c = ex_mod(p, a, EX_C(k)); break;
  case 7: c = ex_mod(p, a, EX_C((int64_t)1 << rng_below(r, 9))); break;
  case 8: c = ex_range(p, b).lo > 0 ? ex_div(p, a, b) : ex_div(p, a, EX_C((int64_t)1 << rng_below(r, 9))); break;
  case 9: c = ex_min(p, a, b); break;
  case 10: c = ex_max(p, a, b); break;
  case 11: c = ex_range(p, a).lo >= 0 && ex_range(p, b).lo >= 0 ? ex_xor(p, a, b) : a; break;
  case 12: c = ex_select(p, ex_lt(p, a, b), a, ex_sub(p, b, EX_C(k))); break;
  default: c = ex_both(p, ex_le(p, a, b), ex_not(p, ex_eq(p, a, EX_C(k)))); break;
  }
  return sane(p, c) ? c : a;
}

static int64_t point(struct rng *r, int v)
{
  int64_t span = (vars[v].hi - vars[v].lo) / vars[v].multiple;
  uint64_t how = rng_below(r, 4);
  int64_t x = how == 0 ? 0 : how == 1 ? span : (int64_t)rng_below(r, (uint64_t)span + 1);
  return vars[v].lo + x * vars[v].multiple;
}

static void one(struct printer *w, struct rng *r, const ex *var, int n, struct str *body, struct str *calls)
{
  ex x = grow(w->s.p->ex, r, var, DEPTH);
  struct words t = cu_ex(w, x);
  str_add(body, "static %s f%d(int tid, int bid, int M, int k, int s, i64 wide) { return %s; }\n", t.wide ? "i64" : "int", n, t.text);
  for (int i = 0; i < POINTS; i++) {
    int64_t at[VARS];
    for (int v = 0; v < VARS; v++) at[v] = point(r, v);
    str_add(calls, "  same(f%d(", n);
    for (int v = 0; v < VARS; v++) str_add(calls, "%s%lldLL", v ? ", " : "", (long long)at[v]);
    str_add(calls, "), %lldLL, %d);\n", (long long)ex_eval(w->s.p->ex, x, at), n);
  }
}

static void values_are_those_of_the_interpreter(void **state)
{
  (void)state;
  if (system("c++ --version >/dev/null 2>&1")) skip();
  struct arena mem = {0};
  struct rng r = {7};
  struct tile_program *p = tile_program_new(&mem, "random", true);
  struct printer w = {.s = {.mem = &mem, .p = p}};
  struct str body = {0}, calls = {0};
  ex var[VARS];
  for (int v = 0; v < VARS; v++) {
    var[v] = ex_var(p->ex, vars[v].name, vars[v].lo, vars[v].hi, vars[v].multiple);
    cu_var(&w, var[v], vars[v].name);
  }
  str_add(&body, "%s", head);
  for (int i = 0; i < EXPRESSIONS; i++) one(&w, &r, var, i, &body, &calls);
  str_add(&body, "int main() {\n%s  return bad;\n}\n", str_text(&calls));
  const char *source = arena_printf(&mem, "%s/ex.cc", folder);
  struct err e = {0};
  assert_int_equal(file_write(source, body.p, body.n, &e), OK);
  const char *run =
      arena_printf(&mem, "c++ -std=c++17 -w -O0 -fsanitize=undefined -fno-sanitize-recover %s -o %s/ex && %s/ex", source, folder, folder);
  assert_int_equal(system(run), 0);
  str_free(&body), str_free(&calls);
  arena_close(&mem);
}

static const char *text_of(struct printer *w, ex x) { return cu_value(w, x, L_ANY); }

static void notation(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct tile_program *p = tile_program_new(&mem, "notation", true);
  struct printer w = {.s = {.mem = &mem, .p = p}};
  ex tid = ex_var(p->ex, "tid", 0, 255, 1), M = ex_var(p->ex, "M", 1, INT32_MAX, 1), s = ex_var(p->ex, "s", -8, 8, 1);
  cu_var(&w, tid, "tid"), cu_var(&w, M, "M"), cu_var(&w, s, "s");
  assert_string_equal(text_of(&w, ex_mod(p->ex, tid, EX_C(16))), "tid & 15");
  assert_string_equal(text_of(&w, ex_div(p->ex, tid, EX_C(16))), "tid >> 4");
  assert_string_equal(text_of(&w, ex_div(p->ex, tid, EX_C(12))), "int(u32(tid) / u32(12))");
  assert_string_equal(text_of(&w, ex_div(p->ex, s, EX_C(3))), "mica_div(s, 3)");
  assert_string_equal(text_of(&w, ex_add(p->ex, ex_mul(p->ex, tid, M), EX_C(1))), "i64(tid) * M + 1");
  assert_string_equal(text_of(&w, ex_le(p->ex, tid, s)), "tid <= s");
  assert_string_equal(text_of(&w, ex_not(p->ex, ex_eq(p->ex, tid, s))), "tid != s");
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(notation), cmocka_unit_test(values_are_those_of_the_interpreter)};
  return cmocka_run_group_tests(tests, folder_enter, folder_leave);
}
