// Nodes that lines of tile programs are about: in all ways to make some kernels, lines with products are about a product, a square or the accumulator
// that takes it, lines that store are about a saver, and copies from device memory are about an iterator. In skinny every node that is no view
// has its lines, those after the loop too.
#include "given.h"
#include "lower/lower_emit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

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

static void check_graph(const char *name)
{
  static const char *const names[] = {"rows", "mma", "wgmma", "skinny"};
  struct arena mem = {0};
  struct table t;
  struct err e = {0};
  const struct target gpu = h200();
  struct lower_plan p;
  struct choice pick;
  unsigned seen = 0;
  table_open(&t, "about");
  const struct table_graph *x = table_row(&t, name);
  must(lower_plan(&mem, graph_of(&mem, x->text), &gpu, &(struct lower_opts){.dependent = true}, &p, &e), name, &e);
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
  for (size_t k = 0; k < COUNT(names); k++)
    if (table_has(x, "schemes", names[k]) && !(seen >> k & 1)) fail_msg("%s: not by %s", name, names[k]);
  table_close(&t);
  arena_close(&mem);
}

static void attention(void **state) { (void)state, check_graph("attention"); }
static void softmax(void **state) { (void)state, check_graph("softmax"); }
static void few_rows(void **state) { (void)state, check_graph("few_rows"); }
static void normalized(void **state) { (void)state, check_graph("few_rows_normalized"); }
static void low_rank(void **state) { (void)state, check_graph("low_rank"); }

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(attention), cmocka_unit_test(softmax), cmocka_unit_test(few_rows), cmocka_unit_test(normalized),
                                     cmocka_unit_test(low_rank)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
