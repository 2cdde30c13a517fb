// Any elementwise expression of a product's result, with vectors, columns and tensors of its shape, is part of the product's kernel: sigmoid,
// mish, residuals, gelu of a bias and others follow mma and wgmma, and results that leave by TMA. So does each elementwise operator of
// op.def, with a matrix that is kept in fp32 and with a second product of the same tiles.
#include "held.h"
#include "kern/kern.h"
#include "thin.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void on_sm_90a(void **state)
{
  (void)state;
  hold("follows_mma");
  hold("follows_wgmma");
}

static void on_sm_80(void **state)
{
  (void)state;
  hold_sm80("follows_mma");
}

// ---- every operator ----

static const struct attrs some = {.scalar = 1.25, .lo = -0.5, .hi = 0.75, .slope = 0.25};

// "clamp(x, lo=-0.5, hi=0.75)"
static const char *call(struct arena *mem, const struct op_row *r, const char *x, const char *y)
{
  const char *s = arena_printf(mem, "%s(%s%s%s", r->name, x, r->most > 1 ? ", " : "", r->most > 1 ? y : "");
  for (int i = 0; i < ATTRS; i++)
    if (r->attrs >> i & 1) s = arena_printf(mem, "%s, %s=%g", s, attr_rows[i].name, attr_real(&some, i));
  return arena_printf(mem, "%s)", s);
}

// Operands are the product, a residual matrix, and another product of the same tiles; they are positive if the operator needs that.
static const char *graph(struct arena *mem, int op, const char *residual)
{
  bool anywhere = isfinite(kern_apply(op, &some, -1, 0.5)) && isfinite(kern_apply(op, &some, 0, 0));
  const char *x = anywhere ? "p * 0.125" : "abs(p) * 0.125 + 0.5", *y = anywhere ? "r" : "abs(r) + 0.5",
             *z = anywhere ? "q * 0.125" : "abs(q) * 0.125 + 0.5";
  return arena_printf(mem,
                      "graph %s {\n  A: f16[64, 64]\n  B: f16[64, 64]\n  C: f16[64, 64]\n  R: %s[64, 64]\n  O = block(x=2; i=2) {\n"
                      "    a = iter(A, fmap={i:1})\n    b = iter(B, imap={x:1}, fmap={i:0})\n    c = iter(C, imap={x:1}, fmap={i:0})\n"
                      "    r = iter(R, imap={x:1})\n    p = accum(matmul(a, b))\n    q = accum(matmul(a, c))\n"
                      "    save(%s + %s * r, omap={x:1})\n  }\n  return O\n}\n",
                      op_rows[op].name, residual, call(mem, &op_rows[op], x, y), call(mem, &op_rows[op], z, x));
}

static void every_operator(void **state)
{
  (void)state;
  static const struct {
    const char *how, *residual; // TMA stores results of 16 bits
  } way[] = {{"mma wm=2 wn=2 by=0 stages=2", "f32"},
             {"mma wm=2 wn=2 by=1 stages=2", "f32"},
             {"wgmma groups=1 stages=2", "f32"},
             {"wgmma groups=1 stages=2 store=1", "f16"}};
  int failed = 0, held = 0;
  for (int op = 0; op < OPS; op++) {
    struct arena mem = {0};
    if (op_rows[op].rule != RULE_MAP || op == OP_WHOLE) continue; // whole numbers do not follow a product in its kernel
    if (op_rows[op].flags & NARROW) continue;                     // a part of a number says nothing of its error
    for (size_t k = 0; k < COUNT(way); k += (size_t)thinned(3)) {
      if (op_rows[op].flags & CASTS && strstr(way[k].how, "store=1")) continue; // results of 32 bits
      held++, failed += !hold_graph(op_rows[op].name, graph(&mem, op, way[k].residual), way[k].how);
    }
    arena_close(&mem);
  }
  if (failed) fail_msg("%d of %d kernels", failed, held);
  assert_true(held > 20);
}

// A rule that is switched off changes no result.
static void without_rules(void **state)
{
  (void)state;
  hold_off("mma_chains", 5);
  hold_off("wgmma_chains", 3);
  hold_off("follows_wgmma", 2);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(on_sm_90a), cmocka_unit_test(on_sm_80), cmocka_unit_test(every_operator),
                                     cmocka_unit_test(without_rules)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
