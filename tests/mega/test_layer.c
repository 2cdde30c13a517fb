// The rows of layer.def: their accesses read, and each layer that is a tensor program computes what the program does, evaluated in float64.
#include "eval/eval.h"
#include "front/front.h"
#include "megas.h"
#include "mega/mega_bodies.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void all_rows_read(void **state)
{
  (void)state;
  for (int i = 0; i < mega_layer_count; i++) {
    struct mega_spec s;
    char why[160] = "";
    if (mega_spec_read(&mega_layers[i], &s, why) != OK) fail_msg("%s", why);
    int out = 0;
    for (int a = 0; a < s.naccess; a++) out += s.access[a].out;
    assert_true(out >= 1 && s.nargs >= 2 && s.naxes >= 1);
    assert_non_null(mega_layers[i].body);
  }
}

// Mistakes in a row are reported with their place.
static void rows_that_do_not_read(void **state)
{
  static const struct bad_row {
    const char *grid, *access, *says;
  } bad[] = {
      {"c", "in x[rows, k", "no ]"},
      {"c", "inn x[k]", "in, slots, stream or out"},
      {"c", "in x[k/d]", "an axis of the grid"},
      {"c", "in x[a+b{c}/c]", "no such section"},
      {"c", "in x[pages.soon]", "a place"},
      {"c c c c", "in x[k]", "an axis"},
      {"c", "in x[k] y", "the end"},
      {"c", "in x[k]; in w[n?, k]", "the argument that decides"},
      {"c", "in x[k]; in w[n?y, k]; in y[k]", "no such argument before"},
  };
  (void)state;
  for (size_t i = 0; i < COUNT(bad); i++) {
    struct mega_layer l = {"bad", bad[i].grid, "", "", bad[i].access, NULL, "", NULL};
    struct mega_spec s;
    char why[160] = "";
    assert_int_equal(mega_spec_read(&l, &s, why), NO);
    if (!strstr(why, bad[i].says)) fail_msg("%s: no `%s`", why, bad[i].says);
  }
}

// ---- layers that are programs ----

// The shape of argument `a`: that of the program's input of the same number, or of its output.
static const struct shape *shape_of(const struct graph *g, bool output, int number)
{
  for (int n = 0, seen = 0; n < g->nnodes; n++) {
    if (output && g->nodes[n].op == OP_OUTPUT) return &g->tensors[g->nodes[n].in[0]].shape;
    if (!output && g->nodes[n].op == OP_INPUT && seen++ == number) return &g->tensors[g->nodes[n].out].shape;
  }
  fail();
  return NULL;
}

static const struct mega_access *access_of(const struct mega_spec *s, int arg)
{
  int k = 0;
  while (s->access[k].arg != arg) k++;
  return &s->access[k];
}

// A model of one operator, with tensors of the program's shapes. Its inputs are weights, or state that nobody writes.
static void model_of(struct megas *x, const struct mega_layer *l, const struct graph *g)
{
  struct mega_spec s;
  char why[160];
  struct mega_op op = {.name = "one", .layer = l, .repeat = 1};
  x->m = NEW(&x->mem, struct mega_model);
  *x->m = (struct mega_model){.name = "one", .rows = 2, .workers = 3, .stages = 3, .stage_bytes = 256, .world = 1};
  assert_int_equal(mega_spec_read(l, &s, why), OK);
  op.attr[MEGA_ATTR_eps] = 1e-5;
  for (int a = 0, input = 0; a < s.nargs; a++) {
    struct mega_tensor t = {.name = arena_printf(&x->mem, "t%d", a), .type = mega_type_find("f32"), .kind = MEGA_OUTPUT};
    const struct mega_access *k = access_of(&s, a);
    const struct shape *of = shape_of(g, s.writes[a], input);
    input += !s.writes[a];
    if (k->rank > of->n) t.dim[t.rank++] = 1; // the layer
    for (int d = 0; d < of->n; d++) t.dim[t.rank++] = of->d[d];
    if (!s.writes[a]) t.kind = k->stream || k->dim[0].how == MEGA_THIS_LAYER ? MEGA_WEIGHTS : MEGA_STATE;
    op.arg[a] = a;
    assert_int_equal(mega_tensor_add(x->m, &t, NOWHERE, &x->err), OK);
  }
  op.tiles = s.axis[0].symbol < 0 ? 3 : 0;
  if (mega_op_add(x->m, &op, &x->err) != OK || mega_plan_make(&x->mem, x->m, &x->p, &x->err) != OK) fail_msg("%s: %s", l->name, x->err.text);
}

static void in_float64(struct megas *x, const struct graph *g, float *const *first, void **out)
{
  void **in = NEWS(&x->mem, void *, x->m->ntensors);
  for (int t = 0, n = 0; t < x->m->ntensors; t++) {
    if (!first[t]) continue;
    double *v = NEWS(&x->mem, double, mega_elements(&x->m->tensor[t]));
    for (int64_t i = 0; i < mega_elements(&x->m->tensor[t]); i++) v[i] = first[t][i];
    in[n++] = v;
  }
  assert_int_equal(eval_run(&x->mem, g, DOM_F64, NULL, in, out, NULL, &x->err), OK);
}

static void one_layer(const struct mega_layer *l)
{
  struct megas x = {0};
  struct mega_answer a;
  struct graph *g;
  float **first;
  void *out[1];
  int last;
  if (front_parse(&x.mem, l->program, strlen(l->program), l->name, 0, NULL, &g, &x.err) != OK) fail_msg("%s: %s", l->name, x.err.text);
  assert_int_equal(graph_expand(&x.mem, g, false, &g, &x.err), OK);
  model_of(&x, l, g);
  assert_int_equal(mega_values_make(&x.mem, x.m, 3, &first, &x.err), OK);
  assert_int_equal(mega_run(&x.mem, x.p, first, 1, 60, &a, &x.err), OK);
  in_float64(&x, g, first, out);
  last = x.m->ntensors - 1;
  for (int64_t i = 0; i < mega_elements(&x.m->tensor[last]); i++) {
    double want = ((double *)out[0])[i], got = a.output[last][i];
    if (!(fabs(got - want) <= 1e-5 * (1 + fabs(want)))) fail_msg("%s: element %lld is %g, not %g", l->name, (long long)i, got, want);
  }
  mega_close(&x);
}

static void bodies_are_programs(void **state)
{
  int programs = 0;
  (void)state;
  for (int i = 0; i < mega_layer_count; i++)
    if (mega_layers[i].program) one_layer(&mega_layers[i]), programs++;
  assert_int_equal(programs, 7);
}

// ---- experts ----

// The largest scores in their order; of equal ones the first; a score that is no number is the smallest. Weights are the softmax of the chosen.
static void experts_are_chosen(void **state)
{
  static const struct chosen_row {
    float score[6];
    int choices, expert[4];
    double weight[4];
  } rows[] = {
      {{1, 3, 2, 3, 0, 3}, 2, {1, 3}, {0.5, 0.5}},
      {{0, 0, 0, 0, 0, 0}, 4, {0, 1, 2, 3}, {0.25, 0.25, 0.25, 0.25}},
      {{-1, 0, -1, -2, -3, -4}, 3, {1, 0, 2}, {0.5761168848, 0.2119415576, 0.2119415576}},
      {{NAN, -INFINITY, NAN, 5, NAN, 5}, 2, {3, 5}, {0.5, 0.5}},
      {{7, NAN, NAN, NAN, NAN, NAN}, 1, {0}, {1}},
      {{5, NAN, 4, NAN, NAN, NAN}, 3, {0, 2, 1}, {0.7310585786, 0.2689414214, 0}},
  };
  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct mega_op op = {.name = "choose"};
    float score[6], chosen[8] = {0};
    struct mega_task t = {.op = &op, .data = {score, chosen}, .box = {{{0, 0}, {1, 6}}, {{0, 0, 0}, {1, rows[i].choices, 2}}}};
    memcpy(score, rows[i].score, sizeof score);
    mega_layer_find("choose_experts")->body(&t);
    for (int c = 0; c < rows[i].choices; c++) {
      assert_int_equal((int)chosen[2 * c], rows[i].expert[c]);
      assert_true(fabs(chosen[2 * c + 1] - rows[i].weight[c]) < 1e-6);
    }
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_rows_read), cmocka_unit_test(rows_that_do_not_read), cmocka_unit_test(bodies_are_programs),
                                     cmocka_unit_test(experts_are_chosen)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
