// Emitted text of a plan that is changed. Fields of tables are narrow, and what does not fit is an error. Proxy fences: a product has them where its feeder copies what threads wrote, and loses them with those of the plan.
#include "megacuda/megacuda.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static bool fenced(struct arena *mem, const struct mega_plan *p, const char *op)
{
  struct megacuda_given given = {.seed = 1, .warps = MEGACUDA_WARPS, .steps = 2};
  struct str text = {0};
  struct err e = {0};
  if (megacuda_emit(mem, p, &given, &text, &e)) fail_msg("%s", e.text);
  const char *at = strstr(text.p, arena_printf(mem, "struct o_%s {", op));
  assert_non_null(at);
  at = strstr(at, "bool FENCE = ");
  assert_non_null(at);
  bool is = !strncmp(at + strlen("bool FENCE = "), "true", 4);
  str_free(&text);
  return is;
}

static struct mega_plan *even_plan(struct arena *mem)
{
  struct mega_config c = {.name = "even",
                          .layers = 2,
                          .heads = 4,
                          .kv = 2,
                          .dim = 64,
                          .hidden = 256,
                          .inner = 256,
                          .vocab = 96,
                          .eps = 1e-5,
                          .theta = 1e4,
                          .type = mega_type_find("bf16"),
                          .tied = true};
  struct mega_sizes s = {.rows = 32, .workers = 3, .context = 3, .parts = 1};
  struct mega_model *m;
  struct mega_plan *p;
  struct err e = {0};
  assert_int_equal(mega_from_config(mem, &c, &s, &m, &e), OK);
  assert_int_equal(mega_plan_make(mem, m, &p, &e), OK);
  return p;
}

static void where_a_feeder_copies(void **state)
{
  struct arena mem = {0};
  struct mega_plan *p = even_plan(&mem);
  (void)state;
  const char *const products[] = {"qkv", "o", "gate_up", "down", "head"};
  for (size_t i = 0; i < COUNT(products); i++) assert_true(fenced(&mem, p, products[i]));
  assert_false(fenced(&mem, p, "embed"));
  assert_false(fenced(&mem, p, "largest"));
  for (int n = 0; n < p->nnodes; n++)
    if (!strcmp(mega_op_of(p, n)->name, "gate_up")) p->fence[n] = false;
  assert_false(fenced(&mem, p, "gate_up"));
  assert_true(fenced(&mem, p, "down"));
  arena_close(&mem);
}

static void narrow_fields(void **state)
{
  struct arena mem = {0};
  struct mega_plan *p = even_plan(&mem);
  struct megacuda_given given = {.seed = 1, .warps = MEGACUDA_WARPS, .steps = 2};
  struct str text = {0};
  struct err e = {0};
  (void)state;
  p->wait[0].back = 256;
  assert_int_equal(megacuda_emit(&mem, p, &given, &text, &e), NO);
  assert_string_equal(e.text, "256 steps from a wait back to its event; CUDA takes up to 255");
  p->wait[0].back = 0, e = (struct err){0};
  for (int i = 0; i < p->nevents; i++)
    if (p->event[i].kind != MEGA_TAGGED) p->event[i].count = 65535;
  assert_int_equal(megacuda_emit(&mem, p, &given, &text, &e), NO);
  assert_string_equal(e.text, "65535 work tiles of an event; CUDA takes up to 65534");
  str_free(&text);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(where_a_feeder_copies), cmocka_unit_test(narrow_fields)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
