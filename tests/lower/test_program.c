// Whole kernel graphs as device programs: library operators become block graphs that compute the same, and the program, run in
// this machine's memory, leaves after every launch what the graph says in float64.
#include "given.h"
#include "lowered.h"
#include "gpu/gpu.h"
#include "sim/device_proof.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

// ---- wrapping ----

static void wrapped_computes_the_same(void **state)
{
  (void)state;
  struct table t;
  table_open(&t, "program");
  for (int i = 0; i < t.n; i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct graph *g = graph_of(&mem, t.row[i].text), *w;
    must(wrap_library(&mem, g, &w, &e), t.row[i].title, &e);
    for (int k = 0; k < w->nnodes; k++) {
      enum op op = w->nodes[k].op;
      if (op_rows[op].rule != RULE_IO && op_rows[op].rule != RULE_VIEW && op != OP_CONST && op != OP_MATMUL && op != OP_BLOCK)
        fail_msg("%s: %s is left", t.row[i].title, op_rows[op].name);
    }
    assert_same_function(t.row[i].title, g, w);
    arena_close(&mem);
  }
  table_close(&t);
}

static void refused(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err f = {0};
  struct target gpu = h200();
  struct lower_plan p;
  must(lower_plan(&mem, read(&mem, "X: f16[6, 40]\n W: f32[40, 8]\n return exp(X)"), &gpu, &(struct lower_opts){0}, &p, &f), "unused input", &f);
  assert_int_equal(lower_plan(&mem, read(&mem, "X: f8e4m3[6, 40]\n W: f8e4m3[40, 8]\n return matmul(X, W)"), &gpu, &(struct lower_opts){0}, &p, &f),
                   USER);
  assert_non_null(strstr(f.text, "f8e4m3"));
  arena_close(&mem);
}

// A part of what a kernel makes is no output in its place: the buffer would have all of it.
static void parts_are_copied(void **state)
{
  (void)state;
  static const char *const text[] = {"X: f16[16, 24]\n W: f16[24, 40]\n return slice(matmul(X, W), dim=0, start=8, end=16)",
                                     "X: f16[16, 24]\n W: f16[24, 40]\n return slice(matmul(X, W), dim=0, start=0, end=8)",
                                     "X: f16[16, 24]\n return chunk(X, dim=0, parts=2, index=0)"};
  for (size_t i = 0; i < COUNT(text); i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct graph *w;
    int out;
    must(wrap_library(&mem, read(&mem, text[i]), &w, &e), text[i], &e);
    graph_outputs(w, &out);
    assert_int_equal(w->nodes[w->tensors[out].node].op, OP_BLOCK);
    arena_close(&mem);
  }
}

// ---- running ----

static void programs_run(void **state)
{
  (void)state;
  struct target gpu = h200();
  struct table t;
  table_open(&t, "program");
  for (int i = 0; i < t.n; i++)
    for (int way = 0; way < 2; way++) {
      struct arena mem = {0};
      struct err e = {0};
      struct device_program d;
      struct lower_opts o = {.tails = way, .dependent = way};
      must(lower_program(&mem, graph_of(&mem, t.row[i].text), &gpu, &o, &d, &e), t.row[i].title, &e);
      run_launches(&mem, t.row[i].title, &d, (int)table_number(&t.row[i], "products"));
      arena_close(&mem);
    }
  table_close(&t);
}

// A comparison that cannot fail shows nothing.
static void a_wrong_element_is_seen(void **state)
{
  (void)state;
  struct target gpu = h200();
  struct arena mem = {0};
  struct err e = {0};
  struct device_program d;
  struct device_host h;
  struct sim_report r;
  struct device_answer a[4];
  must(lower_program(&mem, read(&mem, "X: f16[64, 40]\n return exp(X)"), &gpu, &(struct lower_opts){0}, &d, &e), "exp", &e);
  must(device_host_open(&h, &mem, &d, &(struct device_host_opts){.seed = 3}, &e), "exp", &e);
  must(device_host_launch(&h, 0, &r, NULL, &e), "exp", &e);
  assert_int_equal(device_host_compare(&h, 0, 4, a), 1);
  assert_true(a[0].fine);
  ((uint16_t *)h.out[0])[1234] ^= 1 << 9; // half as much again, of one element
  assert_int_equal(device_host_compare(&h, 0, 4, a), 1);
  assert_true(!a[0].fine && a[0].wrong == 1 && a[0].worst == 1234);
  device_host_close(&h);
  arena_close(&mem);
}

// ---- types, memory ----

static void types_between_kernels(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct graph *w;
  const char *text = "A: f16[16, 32]\n B: f16[32, 24]\n C: f16[24, 8]\n s = exp(matmul(A, B))\n return matmul(s, C) / sum(s, dim=1)";
  must(wrap_library(&mem, read(&mem, text), &w, &e), "types", &e);
  const enum dtype *t = store_types(&mem, w, NULL);
  for (int i = 0; i < w->nnodes; i++) {
    const struct node *n = &w->nodes[i];
    if (n->op == OP_INPUT) assert_int_equal(t[n->out], F16);
    if (n->op == OP_OUTPUT) assert_int_equal(t[n->in[0]], F16);
    if (n->op == OP_MATMUL) assert_int_equal(t[n->in[0]], F16), assert_int_equal(t[n->out], F32); // s is an operand; products are only read by exp, /
    if (n->op == OP_BLOCK && w->tensors[n->out].shape.d[1] == 1) assert_int_equal(t[n->out], F32);
  }
  arena_close(&mem);
}

// Tensors that parts leave to each other are stored as the parts have them.
static void types_of_named(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct graph *w;
  const char *const stored[] = {"a", NULL};
  int named = 0;
  must(wrap_library(&mem, read(&mem, "X: bf16[16, 32]\n Y: bf16[16, 32]\n a = X + Y\n b = a * Y\n return exp(b) + exp(a)"), &w, &e), "types", &e);
  const enum dtype *plain = store_types(&mem, w, NULL), *kept = store_types(&mem, w, stored);
  for (int t = 0; t < w->ntensors; t++) {
    const bool a = w->tensors[t].name && !strcmp(w->tensors[t].name, "a"), b = w->tensors[t].name && !strcmp(w->tensors[t].name, "b");
    named += a + b;
    if (a || b) assert_int_equal(plain[t], F32), assert_int_equal(kept[t], a ? BF16 : F32);
  }
  assert_int_equal(named, 2);
  arena_close(&mem);
}

// In a chain only two tensors live at a time.
static void workspace_is_shared(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct target gpu = h200();
  struct device_program d;
  const char *text = "X: f32[64, 64]\n a = exp(X)\n b = sum(a, dim=0)\n c = a / b\n d = max(c, dim=1)\n f = c - d\n return f * f";
  must(lower_program(&mem, read(&mem, text), &gpu, &(struct lower_opts){0}, &d, &e), "chain", &e);
  assert_int_equal(d.nlaunch, 6);
  assert_true(d.workspace >= 2 * 64 * 64 * 4 && d.workspace < 3 * 64 * 64 * 4);
  for (int l = 0; l < d.nlaunch; l++)
    for (int k = 0; k < d.launch[l].nargs; k++) {
      const struct launch_arg *x = &d.launch[l].arg[k];
      if (x->at.kind == PLACE_WORK) assert_true(x->at.offset >= 0 && x->at.offset + x->elements * 4 <= d.workspace && x->at.offset % 256 == 0);
    }
  arena_close(&mem);
}

// ---- few blocks ----

static void fewer_blocks_keep_their_tiles(void **state)
{
  (void)state;
  struct arena mem = {0};
  const char *text = "X: f16[64, 4096]\n W: f16[4096, 256]\n O = block(x=8, y=4; i=32) {\n x = iter(X, imap={x:0}, fmap={i:1})\n"
                     " w = iter(W, imap={y:1}, fmap={i:0})\n save(accum(matmul(x, w)) / accum_rms(x, dim=1), omap={x:0, y:1})\n }\n return O";
  struct graph *g = read(&mem, text), *small;
  assert_true(verify_shrink_axes(&mem, g, (struct shrink_steps){0}, &small));
  const struct graph *a = g->nodes[2].sub, *b = small->nodes[2].sub;
  assert_int_equal(a->ntensors, b->ntensors);
  for (int t = 0; t < a->ntensors; t++) assert_true(shape_eq(&a->tensors[t].shape, &b->tensors[t].shape));
  assert_true(graph_blocks(b) < graph_blocks(a) && graph_blocks(b) > 1);
  assert_true(graph_iterations(b) < graph_iterations(a) && graph_iterations(b) > 1);
  arena_close(&mem);
}

static void kernels_are_proven(void **state)
{
  (void)state;
  struct target gpu = h200();
  struct arena mem = {0};
  struct err e = {0};
  struct lower_plan p;
  struct device_proof proof;
  const char *why = "";
  const char *text =
      "X: f16[512, 256]\n O = block(x=512) {\n x = iter(X, imap={x:0})\n e = exp(x)\n save(e / sum(e, dim=1), omap={x:0})\n }\n return O";
  must(lower_plan(&mem, read(&mem, text), &gpu, &(struct lower_opts){.tails = true, .dependent = true}, &p, &e), "softmax", &e);
  assert_int_equal(p.nunits, 1);
  assert_int_equal(device_prove(&mem, &p, &p.unit[0].choice[0], -1, 1, 2, NULL, &proof, &why, &e), OK);
  assert_int_equal(proof.kernels, 1);
  assert_int_equal(proof.run, 1);
  assert_int_equal(proof.full, 0);
  assert_true(proof.blocks > 0 && proof.blocks < 512 && proof.relative > 0 && proof.relative < 1);
  arena_close(&mem);
}

// The cost in a scheme's list of choices equals the cost of the choice's settings alone.
static void choices_cost_what_they_do(void **state)
{
  (void)state;
  static const char *const files[] = {"examples/graphs/gqa_split.mica", "examples/graphs/gqa_stable.mica", "examples/graphs/rms_fused.mica"};
  struct target gpu = h200();
  int compared = 0;
  for (size_t i = 0; i <= COUNT(files); i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct graph *g;
    struct lower_plan p;
    if (i == COUNT(files))
      g = read(&mem, "X: f16[64, 256]\n return softmax(X, dim=1)");
    else
      must(front_load(&mem, files[i], 0, NULL, &g, &e), files[i], &e);
    must(lower_plan(&mem, g, &gpu, &(struct lower_opts){.tails = true, .dependent = true}, &p, &e), "a plan", &e);
    for (int u = 0; u < p.nunits; u++)
      for (int k = 0; k < p.unit[u].nchoices && !p.unit[u].product; k++, compared++) {
        const struct choice *c = &p.unit[u].choice[k];
        struct lower_job j = lower_unit_job(&mem, &p, &p.unit[u], c->tail);
        if (scheme_cost(scheme_at(c->scheme), &j, &c->k) == c->cost) continue;
        struct str how = {0};
        scheme_text(c, &how);
        fail_msg("%s: %s", p.unit[u].name, str_text(&how));
      }
    arena_close(&mem);
  }
  assert_true(compared > 100);
}

// ---- sources ----

static struct code code_of(struct arena *mem, const struct target *gpu, const char *text, bool named)
{
  struct err e = {0};
  struct lower_plan p;
  struct device_program d;
  struct code c;
  must(lower_plan(mem, read(mem, text), gpu, &(struct lower_opts){0}, &p, &e), "a program", &e);
  struct choice *pick = NEWS(mem, struct choice, p.nunits + 1);
  for (int u = 0; u < p.nunits; u++) {
    const struct choice *first = p.unit[u].choice;
    while (first->tail) first++;
    pick[u] = *first;
  }
  must(lower_make(mem, &p, pick, &d, &e), "a program", &e);
  must(named ? code_make_named(mem, &d, &c, &e) : code_make(mem, &d, &c, &e), "a program", &e);
  return c;
}

// Two kernels of a program are the kernel of another one, whose tensors have other names. For people the names stay.
static void equal_kernels_have_one_source(void **state)
{
  (void)state;
  static const char one[] = "X: f16[64, 256]\n S = block(x=64) {\n x = iter(X, imap={x:0})\n e = exp(x)\n save(e / sum(e, dim=1), omap={x:0})\n }\n"
                            " return S",
                    two[] = "Q: f16[64, 256]\n R: f16[64, 256]\n"
                            " A = block(x=64) {\n q = iter(Q, imap={x:0})\n e = exp(q)\n save(e / sum(e, dim=1), omap={x:0})\n }\n"
                            " B = block(x=64) {\n r = iter(R, imap={x:0})\n e = exp(r)\n save(e / sum(e, dim=1), omap={x:0})\n }\n return A, B";
  struct arena mem = {0};
  const struct target gpu = h200();
  for (int named = 0; named < 2; named++) {
    const struct code part = code_of(&mem, &gpu, one, named), all = code_of(&mem, &gpu, two, named);
    assert_int_equal(all.nlaunch, 2);
    assert_int_equal(all.nkernel, named ? 2 : 1);
    assert_int_equal(!strcmp(part.kernel[0].source, all.kernel[0].source), !named);
    assert_int_equal(strstr(all.kernel[0].source, "%A") != NULL, named);
    assert_non_null(strstr(all.kernel[0].source, all.kernel[0].name));
  }
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(wrapped_computes_the_same),     cmocka_unit_test(parts_are_copied),   cmocka_unit_test(refused),
      cmocka_unit_test(equal_kernels_have_one_source), cmocka_unit_test(programs_run),       cmocka_unit_test(a_wrong_element_is_seen),
      cmocka_unit_test(types_between_kernels),         cmocka_unit_test(types_of_named),     cmocka_unit_test(workspace_is_shared),
      cmocka_unit_test(fewer_blocks_keep_their_tiles), cmocka_unit_test(kernels_are_proven), cmocka_unit_test(choices_cost_what_they_do),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
