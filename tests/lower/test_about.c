// What lines of tile programs are about: in all ways to make some kernels, lines with products are about a product, a square or the accumulator
// that takes it, lines that store are about a saver, and copies from device memory are about an iterator. Of skinny every node that is no view
// has its lines, those after the loop too.
#include "given.h"
#include "lower/emit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct {
  const char *name, *text;
  unsigned schemes; // that there must be, as bits: 1 rows, 2 mma, 4 wgmma, 8 skinny
} graphs[] = {
    {"attention",
     "Q: f16[2, 128, 64]\n K: f16[2, 64, 256]\n V: f16[2, 256, 64]\n"
     "O = block(x=2, y=2; i=4) { q = iter(Q, imap={x:0, y:1})\n k = iter(K, imap={x:0}, fmap={i:2})\n v = iter(V, imap={x:0}, fmap={i:1})\n"
     "s = matmul(q, k)\n m, d = accum_max(max(s, dim=2))\n e = exp(s - m)\n f = exp(d)\n"
     "save(accum_rescale(matmul(e, v), f) / accum_sum_rescale(e, f, dim=2), omap={x:0, y:1}) }\n return O",
     2 | 4},
    {"softmax",
     "X: f16[64, 512]\n O = block(x=64) { x = iter(X, imap={x:0})\n e = exp(x - max(x, dim=1))\n save(e / sum(e, dim=1), omap={x:0}) }\n return O",
     1},
    {"few rows",
     "X: f16[8, 512]\n W: f16[512, 256]\n O = block(x=4; i=8) { x = iter(X, fmap={i:1})\n w = iter(W, imap={x:1}, fmap={i:0})\n"
     "save(accum(matmul(x, w)), omap={x:1}) }\n return O",
     8},
    {"few rows, normalized",
     "X: f16[8, 512]\n G: f16[1, 512]\n W: f16[512, 256]\n B: f16[1, 256]\n O = block(x=4; i=8) { x = iter(X, fmap={i:1})\n g = iter(G, fmap={i:1})\n"
     "w = iter(W, imap={x:1}, fmap={i:0})\n b = iter(B, imap={x:1})\n s = accum(sum(square(x), dim=1))\n y = accum(matmul(x * g, w))\n"
     "save(silu(y / sqrt(s) + b) * y, omap={x:1}) }\n return O",
     8},
    {"low rank",
     "X: f16[8, 512]\n A: f16[512, 16]\n B: f16[16, 256]\n W: f16[512, 256]\n O = block(x=4; i=8) { x = iter(X, fmap={i:1})\n a = iter(A, "
     "fmap={i:0})\n"
     "b = iter(B, imap={x:1})\n w = iter(W, imap={x:1}, fmap={i:0})\n save(relu(accum(matmul(x, w)) + matmul(accum(matmul(x, a)), b)), omap={x:1}) "
     "}\n return O",
     8},
};

static enum op op_about(const struct launch *l, const struct graph *g, int line)
{
  const struct line_about *a = &l->about[line];
  if (a->node < 0) return OPS;
  assert_true((a->kernel == l->first || a->kernel == l->last) && a->node < g->nodes[a->kernel].sub->nnodes);
  return g->nodes[a->kernel].sub->nodes[a->node].op;
}

// To a buffer of device memory: those of results are called %g_O or %O.
static bool stores(const char *line) { return !strncmp(line, "%g_O", 4) || !strncmp(line, "%O", 2); }

// Lines that are about something.
static int check_lines(const struct launch *l, const struct graph *g)
{
  int n = 0, i = 0;
  for (const char *p = l->text, *end; *p; p = end + 1, i++) {
    end = strchr(p, '\n');
    char *line = strndup(p, (size_t)(end - p));
    const char *s = line + strspn(line, " ");
    assert_true(i < l->nabout);
    enum op op = op_about(l, g, i);
    n += op != OPS;
    if (strstr(s, "<- MatMul") && op != OP_MATMUL && op != OP_SQUARE && op_rows[op].rule != RULE_ACCUM)
      fail_msg("%s: a product not said to be one: %s", l->how, s);
    if (stores(s) && strstr(s, "<- Move") && op != OP_SAVE) fail_msg("%s: a store not said to be one: %s", l->how, s);
    if (strstr(s, "Move<cp.async>") && op != OP_ITER) fail_msg("%s: a copy not said to be one: %s", l->how, s);
    if (strstr(s, "(%box") && strstr(s, "Move<tma>") && op != OP_ITER) fail_msg("%s: a copy not said to be one: %s", l->how, s);
    free(line);
  }
  assert_int_equal(i, l->nabout);
  return n;
}

static void every_node(const struct launch *l, const struct graph *block)
{
  for (int i = 0; i < block->nnodes; i++) {
    int lines = 0;
    for (int k = 0; k < l->nabout; k++) lines += l->about[k].node == i;
    enum rule r = op_rows[block->nodes[i].op].rule;
    if (!lines && r != RULE_VIEW && r != RULE_CONST) fail_msg("%s: no line about node %d, %s", l->how, i, op_rows[block->nodes[i].op].name);
  }
}

static void check_graph(int which)
{
  static const char *const names[] = {"rows", "mma", "wgmma", "skinny"};
  struct arena mem = {0};
  struct err e = {0};
  const struct gpu_limits gpu = h200();
  struct lower_plan p;
  struct choice pick;
  unsigned seen = 0;
  must(lower_plan(&mem, read(&mem, graphs[which].text), &gpu, &(struct lower_opts){.dependent = true}, &p, &e), graphs[which].name, &e);
  assert_int_equal(p.nunits, 1);
  for (int i = 0; i < p.unit[0].nchoices; i++) {
    struct device_program d;
    pick = p.unit[0].choice[i];
    e = (struct err){0};
    if (lower_make(&mem, &p, &pick, &d, &e) != OK) continue; // settings that turn out not to fit
    assert_true(check_lines(&d.launch[0], d.g) > 10);
    if (!strcmp(scheme_at(pick.scheme)->name, "skinny")) every_node(&d.launch[0], d.g->nodes[d.launch[0].first].sub);
    for (size_t k = 0; k < COUNT(names); k++) seen |= !strcmp(scheme_at(pick.scheme)->name, names[k]) ? 1u << k : 0;
  }
  if ((seen & graphs[which].schemes) != graphs[which].schemes) fail_msg("%s: not by all schemes: %x", graphs[which].name, seen);
  arena_close(&mem);
}

static void attention(void **state) { (void)state, check_graph(0); }
static void softmax(void **state) { (void)state, check_graph(1); }
static void few_rows(void **state) { (void)state, check_graph(2); }
static void normalized(void **state) { (void)state, check_graph(3); }
static void low_rank(void **state) { (void)state, check_graph(4); }

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(attention), cmocka_unit_test(softmax), cmocka_unit_test(few_rows), cmocka_unit_test(normalized),
                                     cmocka_unit_test(low_rank)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
