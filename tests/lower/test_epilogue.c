// Products with what follows them as one launch of the library: which kernels it takes in, with which operands and strides, and
// that the result is what the graph says in float64. The products are done by this machine, as their strides and their row of
// epilogue.def say.
#include "given.h"
#include "sim/device_proof.h"
#include "lowered.h"
#include "gpu/gpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void planned(struct arena *mem, const struct table_graph *x, bool tails, struct target *gpu, struct lower_plan *p)
{
  struct err e = {0};
  *gpu = h200();
  must(lower_plan(mem, graph_of(mem, x->text), gpu, &(struct lower_opts){.tails = tails, .dependent = true}, p, &e), x->title, &e);
}

// The first product.
static const struct lower_unit *multiplies(const struct lower_plan *p)
{
  int i = 0;
  while (!p->unit[i].product) i++;
  return &p->unit[i];
}

// The choice with an epilogue; NULL: there is none.
static const struct choice *ended(const struct lower_plan *p)
{
  const struct lower_unit *u = multiplies(p);
  for (int i = 0; i < u->nchoices; i++)
    if (u->choice[i].tail) return &u->choice[i];
  return NULL;
}

static void what_the_library_takes_in(void **state)
{
  (void)state;
  struct table t;
  table_open(&t, "epilogue");
  for (int i = 0; i < t.n; i++) {
    const struct table_graph *x = &t.row[i];
    struct arena mem = {0};
    struct lower_plan p;
    struct target gpu;
    struct str text = {0};
    const char *epilogue = table_field(x, "epilogue");
    planned(&mem, x, true, &gpu, &p);
    const struct choice *c = ended(&p);
    const struct lower_unit *u = multiplies(&p);
    if (!c != !epilogue) fail_msg("%s: %s", x->title, c ? "has an epilogue" : u->why);
    if (c) product_text(&u->ends.p, &text);
    if (c && strcmp(str_text(&text), arena_printf(&mem, ", %s", epilogue)) != 0) fail_msg("%s: %s", x->title, str_text(&text));
    if (!c && !strstr(u->why, table_field(x, "refused"))) fail_msg("%s: %s", x->title, u->why);
    assert_int_equal(u->nchoices, c ? 2 : 1);
    str_free(&text);
    planned(&mem, x, false, &gpu, &p);
    assert_null(ended(&p));
    arena_close(&mem);
  }
  table_close(&t);
}

// ---- running ----

static void both_ways_compute_the_graph(void **state)
{
  (void)state;
  struct table t;
  table_open(&t, "epilogue");
  for (int i = 0; i < t.n; i++) {
    const struct table_graph *x = &t.row[i];
    struct arena mem = {0};
    struct err e = {0};
    struct lower_plan p;
    struct target gpu;
    struct device_program d;
    planned(&mem, x, true, &gpu, &p);
    if (!ended(&p)) {
      arena_close(&mem);
      continue;
    }
    assert_true(p.nunits == 2 && p.unit[0].product);
    for (int k = 0; k < p.unit[0].nchoices; k++) {
      struct choice pick[2] = {p.unit[0].choice[k], p.unit[1].choice[0]}, again;
      must(lower_make(&mem, &p, pick, &d, &e), x->title, &e);
      assert_int_equal(d.nlaunch, pick[0].tail ? 1 : 2);
      assert_true((d.launch[0].last > d.launch[0].first) == pick[0].tail);
      assert_true(scheme_parse(d.launch[0].how, &again));
      assert_true(again.scheme == SCHEME_LIBRARY && again.tail == pick[0].tail && again.k.v[0] == pick[0].k.v[0]);
      run_launches(&mem, x->title, &d, -1);
    }
    arena_close(&mem);
  }
  table_close(&t);
}

static void ways_are_different_programs(void **state)
{
  (void)state;
  enum { MOST = 16 };
  struct arena mem = {0};
  struct err e = {0};
  struct target gpu = h200();
  struct table t;
  uint64_t seen[MOST];
  table_open(&t, "epilogue_ways");
  assert_true(t.n <= MOST);
  for (int i = 0; i < t.n; i++) {
    struct device_program d;
    must(lower_program(&mem, graph_of(&mem, t.row[i].text), &gpu, &(struct lower_opts){.tails = true}, &d, &e), t.row[i].title, &e);
    assert_int_equal(d.nlaunch, 1);
    seen[i] = program_hash(&d, 1);
    for (int k = 0; k < i; k++) assert_true(seen[k] != seen[i]);
  }
  table_close(&t);
  arena_close(&mem);
}

static void not_where_others_read(void **state)
{
  (void)state;
  struct table t;
  table_open(&t, "epilogue_shared");
  for (int i = 0; i < t.n; i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct lower_plan p;
    struct target gpu = h200();
    must(lower_plan(&mem, graph_of(&mem, t.row[i].text), &gpu, &(struct lower_opts){.tails = true}, &p, &e), t.row[i].title, &e);
    assert_null(ended(&p));
    arena_close(&mem);
  }
  table_close(&t);
}

static void text_is_read_back(void **state)
{
  (void)state;
  struct choice c;
  for (int i = 0; i < EPILOGUES; i++) {
    char text[64];
    snprintf(text, sizeof text, "cublaslt epilogue=%s algorithm 3", blas_epilogue_name((enum epilogue)i));
    assert_true(scheme_parse(text, &c) && c.scheme == SCHEME_LIBRARY && c.tail && c.k.v[0] == i + 1);
  }
  assert_true(scheme_parse("cublaslt", &c) && c.scheme == SCHEME_LIBRARY && !c.tail);
  assert_true(scheme_parse("cublaslt algorithm 3", &c) && !c.tail);
  assert_false(scheme_parse("cublaslt epilogue=gelu", &c));
  assert_true(scheme_parse("mma wm=2 stages=65535", &c) && c.k.v[0] == 2);
  static const char *const bad[] = {"mma wm=-1", "mma wm=268435456", "mma wm=99999999999999999999", "mma wm=8x", "mma wm=", "mma wm=+1", "mma wm= 1"};
  for (size_t i = 0; i < COUNT(bad); i++) assert_false(scheme_parse(bad[i], &c));
  assert_false(scheme_parse("cublaslt epilogue=", &c));
  assert_false(scheme_parse("cublaslt tail", &c));
  assert_false(scheme_parse("cublas", &c));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_the_library_takes_in), cmocka_unit_test(both_ways_compute_the_graph), cmocka_unit_test(ways_are_different_programs),
      cmocka_unit_test(not_where_others_read),     cmocka_unit_test(text_is_read_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
