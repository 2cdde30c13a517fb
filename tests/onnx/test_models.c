// Small models (tests/onnx/models, made by write_expected.py) have the results of onnxruntime. They are read and divided. The interpreter runs each
// program, and simple functions run the other nodes.
#include "eval/eval.h"
#include "onnx/onnx.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FOLDER MICA_SOURCE_DIR "/tests/onnx/models/"

// ---- files of inputs and answers ----

struct line { // "in NAME TYPE EXTENTS... : ELEMENTS..."
  char word[8], name[64], type[16];
  struct onnx_cells *x;
};

static int number_of_type(const char *name)
{
#define TYPE(id, number, text, ...) \
  if (!strcmp(name, text)) return number;
#include "onnx/type.def"
#undef TYPE
  return 0;
}

static bool read_line(struct arena *mem, FILE *f, struct line *l)
{
  struct shape s = {0};
  char token[32];
  if (fscanf(f, "%7s %63s %15s", l->word, l->name, l->type) != 3) return false;
  while (fscanf(f, "%31s", token) == 1 && strcmp(token, ":")) s.d[s.n++] = atoll(token);
  l->x = onnx_cells_new(mem, number_of_type(l->type), &s);
  for (int64_t i = 0; i < onnx_elements(&s); i++) {
    double v;
    assert_int_equal(fscanf(f, "%lf", &v), 1);
    if (onnx_type_kind(l->x->type) == REAL)
      l->x->f[i] = v;
    else
      l->x->i[i] = (int64_t)v;
  }
  return true;
}

// ---- running ----

struct run {
  struct arena *mem;
  struct onnx_model *m;
  const struct onnx_cells **at;
};

static const struct onnx_cells *cells_of(struct run *r, int v)
{
  const struct onnx_value *value = &r->m->values[v];
  if (r->at[v] || value->known) return r->at[v] ? r->at[v] : value->known;
  if (!value->init) return NULL;
  struct onnx_cells *x = onnx_cells_new(r->mem, value->type, &value->shape);
  onnx_cells_read(x, value->init->raw);
  return r->at[v] = x;
}

static void run_program(struct run *r, const struct onnx_program *p)
{
  struct err e = {0};
  struct graph *g;
  void **in = NEWS(r->mem, void *, p->nin + 1), **out = NEWS(r->mem, void *, p->nout + 1);
  assert_int_equal(graph_expand(r->mem, p->g, true, &g, &e), OK);
  for (int i = 0; i < p->nin; i++) in[i] = onnx_cells_doubles(r->mem, cells_of(r, p->in[i]));
  if (eval_run(r->mem, g, DOM_F64, NULL, in, out, NULL, &e)) fail_msg("%s", e.text);
  for (int i = 0; i < p->nout; i++) {
    struct onnx_cells *x = NEW(r->mem, struct onnx_cells);
    *x = (struct onnx_cells){.type = r->m->values[p->out[i]].type, .shape = r->m->values[p->out[i]].shape, .p = out[i]};
    onnx_cells_from_doubles(x); // as a run stores it
    r->at[p->out[i]] = x;
  }
}

static void run_node(struct run *r, int node)
{
  const struct onnx_node *n = &r->m->nodes[node];
  struct onnx_host h = {.mem = r->mem, .n = n, .row = n->row, .nin = n->nin, .most = 1 << 20};
  h.in = NEWS(r->mem, const struct onnx_cells *, n->nin + 1), h.out = NEWS(r->mem, struct onnx_cells *, n->nout + 1);
  for (int k = 0; k < n->nin; k++)
    if (n->in[k] >= 0) h.in[k] = cells_of(r, n->in[k]);
  h.captured = NEWS(r->mem, const struct onnx_cells *, n->ncaptured + 1), h.runs = true;
  for (int k = 0; k < n->ncaptured; k++)
    if (onnx_find(r->m, n->captured[k]) >= 0) h.captured[k] = cells_of(r, onnx_find(r->m, n->captured[k]));
  if (!onnx_host_run(&h)) fail_msg("%s: %s", n->name, h.why);
  for (int k = 0; k < n->nout; k++)
    if (n->out[k] >= 0) {
      const struct onnx_value *v = &r->m->values[n->out[k]];
      assert_true(!v->shaped || shape_eq(&h.out[k]->shape, &v->shape)); // as it was planned
      r->at[n->out[k]] = h.out[k];
    }
}

// If there is a float16 on the way, onnxruntime rounds at every node and Mica at stores.
static double tolerance(const struct onnx_model *m)
{
  for (int v = 0; v < m->nvalues; v++)
    if (m->values[v].type == ONNX_FLOAT16) return 1e-3;
  return 2e-6;
}

static void assert_answer(const char *file, const struct line *l, const struct onnx_cells *x, double allowed)
{
  double far = 0, all = 0;
  if (!x || !shape_eq(&x->shape, &l->x->shape)) fail_msg("%s: %s has another shape", file, l->name);
  for (int64_t i = 0; i < onnx_elements(&x->shape); i++) {
    double a = onnx_type_kind(x->type) == REAL ? x->f[i] : (double)x->i[i], b = onnx_type_kind(l->x->type) == REAL ? l->x->f[i] : (double)l->x->i[i];
    if (isinf(a) && a == b) continue;
    far += (a - b) * (a - b), all += b * b;
  }
  if (!(sqrt(far) <= allowed * sqrt(all) + 1e-12)) fail_msg("%s: %s is off by %g of its norm", file, l->name, sqrt(far / all));
}

static const struct {
  const char *name;
  int programs, left; // what became of it
  int64_t batch;      // of --set
} models[] = {
    {"norm", 1, 0, 0},
    {"norm_parts", 1, 0, 0},
    {"gated_mlp", 1, 0, 8},
    {"attention", 1, 0, 0},
    {"bert", 1, 2, 0},
    {"conv_net", 2, 2, 0},
    {"windows", 0, 10, 0},
    {"patches", 1, 0, 0},
    {"grouped", 1, 0, 0},
    {"activations", 1, 0, 0},
    {"reductions", 1, 0, 0},
    {"movement", 2, 5, 0},
    {"old_softmax", 1, 0, 0},
    {"two_programs", 2, 1, 0},
    {"constants", 1, 0, 0},
    {"functions", 1, 0, 0},
    {"einsums", 20, 0, 0},
    {"norms", 2, 0, 0},
    {"old_groups", 1, 0, 0},
    {"fused", 1, 0, 0},
    {"attentions", 2, 1, 0},
    {"hidden", 1, 4, 0},
    {"rotary", 1, 0, 0},
    {"transformer", 1, 4, 0},
    {"grouped_queries", 1, 0, 0},
    {"conversions", 1, 0, 0},
    {"mixed", 2, 5, 0},
    {"choices", 3, 5, 0},
    {"mlp_script", 1, 0, 0},
    {"gated_dynamo", 1, 0, 4},
    {"bert_dynamo23", 1, 2, 0},
    {"llama_script", 1, 3, 0},
    {"llama_dynamo", 1, 2, 0},
    {"lora_dynamo", 1, 0, 0},
    {"experts_dynamo", 1, 0, 0},
    {"llama_half_dynamo23", 2, 4, 0},
    {"simple_elements", 1, 46, 0},
    {"simple_places", 1, 26, 0},
    {"simple_images", 0, 22, 0},
    {"simple_learning", 1, 15, 0},
    {"simple_loops", 0, 9, 0},
};

static void open_model(struct arena *mem, const char *name, int64_t batch, struct onnx_model **m)
{
  struct err e = {0};
  static struct setting set[] = {{"batch", 0}};
  set[0].value = batch;
  if (onnx_open(mem, arena_printf(mem, FOLDER "%s.onnx", name), batch > 0, set, m, &e)) fail_msg("%s: %s", name, e.text);
}

static void test_answers(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(models); i++) {
    struct arena mem = {0};
    struct run r = {.mem = &mem};
    struct line l;
    open_model(&mem, models[i].name, models[i].batch, &r.m);
    r.at = NEWS(&mem, const struct onnx_cells *, r.m->nvalues + 1);
    FILE *f = fopen(arena_printf(&mem, FOLDER "%s.txt", models[i].name), "r");
    assert_non_null(f);
    int left = 0, answers = 0;
    while (read_line(&mem, f, &l)) {
      int v = onnx_find(r.m, l.name);
      assert_true(v >= 0);
      if (!strcmp(l.word, "in"))
        r.at[v] = l.x;
      else if (!answers++)
        for (int k = 0; k < r.m->nsteps; k++)
          r.m->steps[k].program >= 0 ? run_program(&r, &r.m->programs[r.m->steps[k].program]) : run_node(&r, r.m->steps[k].node);
      if (!strcmp(l.word, "out")) assert_answer(models[i].name, &l, cells_of(&r, v), tolerance(r.m));
    }
    for (int k = 0; k < r.m->nnodes; k++) left += r.m->nodes[k].fate == ONNX_LEFT && r.m->nodes[k].used;
    if (r.m->nprograms != models[i].programs || left != models[i].left || answers != r.m->noutputs)
      fail_msg("%s: %d programs, %d left, %d answers", models[i].name, r.m->nprograms, left, answers);
    fclose(f), onnx_close(r.m), arena_close(&mem);
  }
}

// Each node that is not taken is named with its type and the reason.
static void test_named(void **state)
{
  (void)state;
  static const struct {
    const char *model, *says[24];
  } rows[] = {{"unsupported",
               {
                   "\"cell\" (RecurrentCell): there is no operator of this name that Mica knows",
                   "\"thing\" (com.example.FusedThing): operators of the domain `com.example` are not known",
                   "\"/unsupported/state\" (Identity): the shape of `gru_3_1` is not known",
                   "3 nodes taken in 1 program, 0 folded, 0 left as they are, 4 unsupported",
               }},
              {"refused",
               {
                   "\"n0\" (Attention): it has keys from before, and lengths",
                   "\"n1\" (Attention): its input 0 has no 5 heads (q_num_heads)",
                   "\"n2\" (Attention): its mask does not fit [1, 2, 4, 4]",
                   "\"n3\" (Attention): its query, key and value do not fit one another",
                   "\"n4\" (Attention): only one of past_key and past_value is given",
                   "\"n5\" (RotaryEmbedding): its position_ids have no row a token",
                   "\"n6\" (RotaryEmbedding): its tables have 4 columns for 6 elements that turn, of 8",
                   "\"n7\" (com.microsoft.RotaryEmbedding): its attribute scale is 2, which is not taken",
                   "\"n8\" (com.microsoft.RotaryEmbedding): its attribute is_packed_batching is 1, which is not taken",
                   "\"n9\" (com.microsoft.GroupQueryAttention): its seqlens_k is computed when the model runs",
                   "\"n10\" (com.microsoft.GroupQueryAttention): its seqlens_k is 4; only 3, for keys that are all there, is taken",
                   "\"n11\" (com.microsoft.GroupQueryAttention): its input 11, head_sink, is not taken",
                   "\"n12\" (com.microsoft.GroupQueryAttention): its attribute smooth_softmax is set",
                   "\"n13\" (com.microsoft.GroupQueryAttention): its key and value do not fit its query",
                   "\"n14\" (com.microsoft.MultiHeadAttention): input 1 is missing",
                   "\"n15\" (com.microsoft.MultiHeadAttention): its mask is neither [1, 4] nor [1, 4, 4]",
                   "\"n16\" (com.microsoft.Attention): its input 4, past, is not taken",
                   "\"n17\" (com.microsoft.Attention): 32 and 32 elements have no 5 heads",
                   "\"n18\" (com.microsoft.FusedMatMul): transBatchA or transBatchB is set",
                   "\"n19\" (GroupNormalization): 4 groups of its channels",
               }}};
  for (size_t k = 0; k < COUNT(rows); k++) {
    struct arena mem = {0};
    struct onnx_model *m;
    struct str text = {0};
    open_model(&mem, rows[k].model, 0, &m);
    onnx_report_text(m, &text);
    for (size_t i = 0; i < COUNT(rows[k].says) && rows[k].says[i]; i++)
      if (!strstr(str_text(&text), rows[k].says[i])) fail_msg("no %s in\n%s", rows[k].says[i], str_text(&text));
    str_free(&text), onnx_close(m), arena_close(&mem);
  }
}

// A path leaves the first program and comes back to the second: as one they could not run.
static void test_convex(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct onnx_model *m;
  open_model(&mem, "two_programs", 0, &m);
  assert_int_equal(m->nsteps, 3);
  assert_int_equal(m->steps[0].program, 0);
  assert_string_equal(m->nodes[m->steps[1].node].type, "Floor");
  assert_int_equal(m->steps[2].program, 1);
  assert_int_equal(m->programs[1].nin, 3); // the whole numbers, what they were taken of, and a weight
  onnx_close(m), arena_close(&mem);
}

// gelu and silu are found in their parts, and Microsoft's FastGelu has an operator.
static void test_fused(void **state)
{
  (void)state;
  static const struct {
    const char *model, *holds;
    int64_t batch;
  } rows[] = {{"bert", "gelu(", 0}, {"gated_mlp", "silu(", 8}, {"constants", "gelu(", 0}, {"fused", "gelu_tanh(", 0}};
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct arena mem = {0};
    struct onnx_model *m;
    struct str text = {0};
    open_model(&mem, rows[i].model, rows[i].batch, &m);
    graph_print(m->programs[0].g, &text);
    if (!strstr(str_text(&text), rows[i].holds)) fail_msg("no %s in\n%s", rows[i].holds, str_text(&text));
    str_free(&text), onnx_close(m), arena_close(&mem);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_answers), cmocka_unit_test(test_named), cmocka_unit_test(test_convex),
                                     cmocka_unit_test(test_fused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
