// Programs built call by call are those that the language has, and mistakes are told like the language's. Every example is built again
// through the interface, so every operator and attribute that they use goes that way.
#include "api/api.h"
#include "../graphs.h"

#include <dirent.h>
#include <stdlib.h>

// ---- a graph, built once more ----

static void list(struct str *s, const struct shape *x)
{
  str_add(s, "[");
  for (int i = 0; i < x->n; i++) str_add(s, "%s%lld", i ? ", " : "", (long long)x->d[i]);
  str_add(s, "]");
}

static void map(struct str *s, const int8_t *x, int n, const char *letters)
{
  const char *sep = "";
  str_add(s, "{");
  for (int i = 0; i < n; i++)
    if (x[i] != REPLICA) str_add(s, "%s%c:%d", sep, letters[i], x[i]), sep = ", ";
  str_add(s, "}");
}

static void attribute(struct str *s, const struct graph *g, const struct node *n, int attr)
{
  char extents[512];
  const struct attr_row *row = &attr_rows[attr];
  const char *field = (const char *)&n->a + row->offset;
  char number[32];
  str_add(s, "%s%s=", s->n ? ", " : "", row->name);
  switch (row->kind) {
  case ATTR_DIM_KIND: str_add(s, "%d", *(const int *)field); break;
  case ATTR_INT_KIND: str_add(s, "%lld", (long long)*(const int64_t *)field); break;
  case ATTR_REAL_KIND: str_double(number, *(const double *)field), str_add(s, "%s", number); break;
  case ATTR_LIST_KIND:
    if (attr == ATTR_SHAPE && extent_tells(&g->tensors[n->out]))
      extent_text(extents, g, &g->tensors[n->out]), str_add(s, "%s", extents); // names of run-time extents
    else
      list(s, (const struct shape *)field);
    break;
  case ATTR_GRID_KIND: map(s, (const int8_t *)field, MAX_GRID, "xyz"); break;
  case ATTR_LOOP_KIND: map(s, (const int8_t *)field, MAX_LOOPS, "ijkl"); break;
  }
}

static int built(const struct graph *g, struct mica_graph *to);

static int maps(const int8_t *x, int *out, int n)
{
  for (int i = 0; i < n; i++) out[i] = x[i];
  return MICA_OK;
}

static int nested(const struct node *n, struct mica_graph *to, int *t, int *count)
{
  struct mica_graph *b;
  int grid[MAX_GRID], loop[MAX_LOOPS], bt, k = 0;
  int s = (n->op == OP_BLOCK ? mica_graph_block : mica_graph_thread)(to, n->sub->ngrid, n->sub->grid, n->sub->nloop, n->sub->loop, &b);
  for (int i = 0; i < n->sub->nnodes && !s; i++) {
    const struct node *x = &n->sub->nodes[i];
    if (x->op != OP_ITER) continue;
    maps(x->a.imap, grid, MAX_GRID), maps(x->a.fmap, loop, MAX_LOOPS);
    assert_int_equal(x->out, k); // iterators are first in the examples
    if (!(s = mica_block_input(b, n->in[k], grid, loop, &bt))) assert_int_equal(bt, k++);
    if (!s && n->sub->tensors[x->out].name) s = mica_graph_name(b, bt, n->sub->tensors[x->out].name);
  }
  if (!s) s = built(n->sub, b);
  return s ? s : mica_block_end(b, t, count);
}

static int node(const struct graph *g, const struct node *n, struct mica_graph *to)
{
  struct str text = {0};
  int t = -1, count = 1, s, omap[MAX_GRID];
  if (n->op == OP_ITER) return MICA_OK;
  if (n->op == OP_INPUT) {
    const struct tensor *x = &g->tensors[n->out];
    s = mica_graph_input(to, x->name, (enum mica_dtype)x->dtype, x->shape.n, x->shape.d, &t);
    if (!s && x->extent) s = mica_graph_extent(to, t, x->range.least, x->range.most);
    for (int d = 0; d < x->shape.n && !s; d++)
      if (x->runs[d]) s = mica_graph_extend(to, t, d, extent_input(g, x->runs[d]));
  } else if (n->op == OP_OUTPUT)
    return mica_graph_output(to, n->in[0]);
  else if (n->op == OP_SAVE)
    return maps(n->a.omap, omap, MAX_GRID), mica_block_output(to, n->in[0], omap);
  else if (n->sub)
    s = nested(n, to, &t, &count);
  else {
    for (int i = 0; i < ATTRS; i++)
      if (op_rows[n->op].attrs >> i & 1) attribute(&text, g, n, i);
    s = mica_graph_op(to, op_rows[n->op].name, n->nin, n->in, str_text(&text), &t, &count);
  }
  str_free(&text);
  if (s) return s;
  assert_int_equal(t, n->out);
  assert_int_equal(count, n->nout);
  struct mica_tensor info;
  assert_int_equal(mica_graph_tensor(to, t, &info), MICA_OK);
  assert_int_equal(info.ndim, g->tensors[t].shape.n);
  assert_memory_equal(info.shape, g->tensors[t].shape.d, sizeof *info.shape * (size_t)info.ndim);
  for (int k = 0; k < n->nout && n->op != OP_INPUT && !s; k++)
    if (g->tensors[n->out + k].name) s = mica_graph_name(to, n->out + k, g->tensors[n->out + k].name);
  return s;
}

static int built(const struct graph *g, struct mica_graph *to)
{
  int s = MICA_OK;
  for (int i = 0; i < g->nnodes && !s; i++) s = node(g, &g->nodes[i], to);
  return s;
}

// How many thread graphs there are in it.
static int again(struct mica_context *m, const struct mica_program *p, const char *path)
{
  struct mica_program *q = NULL;
  struct mica_graph *g;
  const char *one, *two;
  int threads = 0;
  assert_int_equal(mica_graph_open(m, p->g->name, &g), MICA_OK);
  if (built(p->g, g) || mica_graph_program(g, &q)) fail_msg("%s: %s", path, mica_error(m));
  assert_true(graph_same(p->g, q->g));
  assert_int_equal(mica_program_text(m, p, &one), MICA_OK);
  assert_int_equal(mica_program_text(m, q, &two), MICA_OK);
  assert_string_equal(one, two);
  for (int i = 0; i < p->g->nnodes; i++)
    for (int k = 0; p->g->nodes[i].sub && k < p->g->nodes[i].sub->nnodes; k++) threads += p->g->nodes[i].sub->nodes[k].op == OP_THREAD;
  return threads;
}

static int file_again(const char *path)
{
  struct mica_context *m = mica_open();
  struct mica_program *p;
  if (mica_load(m, path, 0, NULL, &p)) fail_msg("%s: %s", path, mica_error(m));
  const int threads = again(m, p, path);
  return mica_close(m), threads;
}

static void the_examples(void **state)
{
  static const char *const folders[] = {"examples", "examples/graphs"};
  (void)state;
  int n = 0, threads = 0;
  for (size_t i = 0; i < COUNT(folders); i++) {
    DIR *d = opendir(folders[i]);
    assert_non_null(d);
    for (struct dirent *f; (f = readdir(d));) {
      char path[512];
      const size_t length = strlen(f->d_name);
      if (length < 5 || strcmp(f->d_name + length - 5, ".mica")) continue;
      snprintf(path, sizeof path, "%s/%s", folders[i], f->d_name);
      threads += file_again(path), n++;
    }
    closedir(d);
  }
  if (n < 38 || !threads) fail_msg("only %d examples were built, with %d thread graphs", n, threads);
}

// With all that a thread graph can have: loops, accumulators with and without an fmap, several inputs and results.
static void thread_graphs(void **state)
{
  static const char *const texts[] = {
      "graph stable {\n  Q: f16[2, 256, 64]\n  K: f16[2, 64, 4096]\n  V: f16[2, 4096, 64]\n  O = block(x=2, y=16; i=8) {\n"
      "    q = iter(Q, imap={x:0, y:1})\n    k = iter(K, imap={x:0}, fmap={i:2})\n    v = iter(V, imap={x:0}, fmap={i:1})\n"
      "    s = matmul(q, k)\n    m, moved = accum_max(max(s, dim=2))\n    e = thread(x=1; i=16) {\n      s = iter(s, fmap={i:1})\n"
      "      m = iter(m, fmap={i:1})\n      save(accum(exp(s - m), fmap={i:1}))\n    }\n    f = exp(moved)\n    n = accum_rescale(matmul(e, v), f)\n"
      "    d = accum_sum_rescale(e, f, dim=2)\n    save(n / d, omap={x:0, y:1})\n  }\n  return O\n}\n",
      "graph two {\n  X: f32[8, 64]\n  A, B = block(x=8) {\n    x = iter(X, imap={x:0})\n    a, b = thread(x=32; i=2) {\n"
      "      t = iter(x, imap={x:1}, fmap={i:1})\n      save(accum(exp(t), fmap={i:1}), omap={x:1})\n      save(accum(sqrt(t), fmap={i:1}), "
      "omap={x:1})\n    }\n"
      "    save(a, omap={x:0})\n    save(b, omap={x:0})\n  }\n  return A, B\n}\n",
  };
  (void)state;
  struct mica_context *m = mica_open();
  struct mica_program *p;
  for (size_t i = 0; i < COUNT(texts); i++) {
    if (mica_load_text(m, texts[i], "text", 0, NULL, &p)) fail_msg("%s", mica_error(m));
    assert_int_equal(again(m, p, "text"), 1);
  }
  mica_close(m);
}

// ---- numbers and several results ----

static void calls(void **state)
{
  (void)state;
  struct mica_context *m = mica_open();
  struct mica_graph *g;
  struct mica_program *p;
  const int64_t shape[] = {4, 6};
  const char *text;
  int x, y, n = 0;
  assert_int_equal(mica_graph_open(m, "calls", &g), MICA_OK);
  assert_int_equal(mica_graph_input(g, "X", MICA_F32, 2, shape, &x), MICA_OK);
  assert_int_equal(mica_graph_op(g, "split", 1, &x, "dim=1, parts=3", &y, &n), MICA_OK);
  assert_int_equal(n, 3);
  const int some[] = {y, y + 1, y + 2};
  assert_int_equal(mica_graph_op(g, "concat", 3, some, "dim=-1", &y, NULL), MICA_OK);
  assert_int_equal(mica_graph_op(g, "mul", 1, &y, "1 / 2", &y, NULL), MICA_OK); // a number in place of a tensor
  assert_int_equal(mica_graph_op(g, "pow", 1, &y, "2", &y, NULL), MICA_OK);
  assert_int_equal(mica_graph_op(g, "const", 0, NULL, "3", &n, NULL), MICA_OK);
  const int both[] = {y, n};
  assert_int_equal(mica_graph_op(g, "add", 2, both, NULL, &y, NULL), MICA_OK);
  assert_int_equal(mica_graph_op(g, "reshape", 1, &y, "\n[2,\n 2, 6]\n", &y, NULL), MICA_OK);
  assert_int_equal(mica_graph_output(g, y), MICA_OK);
  assert_int_equal(mica_graph_program(g, &p), MICA_OK);
  assert_int_equal(mica_program_output(p, 0).ndim, 3);
  assert_int_equal(mica_program_text(m, p, &text), MICA_OK);
  assert_non_null(strstr(text, "0.5"));
  assert_non_null(strstr(text, "square("));
  assert_int_equal(mica_graph_output(g, x), MICA_OK); // the graph is built on, the program stays
  assert_int_equal(mica_program_outputs(p), 1);
  mica_close(m);
}

// ---- what is refused ----

static const struct {
  const char *op;
  int n, args[3];
  const char *attributes, *says;
} wrong[] = {
    {"smu", 1, {0}, "dim=1", "did you mean `sum`"},
    {"sum", 1, {0}, NULL, "sum needs `dim`"},
    {"sum", 1, {0}, "dim=2", "dimension"},
    {"sum", 1, {0}, "dim=1, dim=1", "given twice"},
    {"sum", 1, {0}, "dm=1", "did you mean `dim`"},
    {"sum", 1, {0}, "dim=", "attributes:1:"},
    {"sum", 1, {0}, "dim=1)", "expected "},
    {"sum", 1, {0}, "dim=1 2", "expected "},
    {"sum", 1, {0}, "dim=1.5", "dim"},
    {"sum", 1, {0}, "dim=99999999999999999999", "dim"},
    {"sum", 1, {7}, "dim=1", "argument 1 of sum is tensor 7"},
    {"sum", 1, {-1}, "dim=1", "argument 1 of sum is tensor -1"},
    {"sum", 2, {0, 0}, "dim=1", "too many arguments"},
    {"sum", 1, {0}, "X, dim=1", "is not defined"},
    {"sum", 0, {0}, "dim=1", "takes 1 tensor"},
    {"exp", 0, {0}, "2", "makes no tensor"},
    {"exp", 1, {0}, "dim=1", "no attribute `dim`"},
    {"matmul", 2, {0, 0}, NULL, "matmul"},
    {"matmul", 1, {0}, NULL, "matmul takes"},
    {"matmul", 1, {0}, "const(1)", "matmul"},
    {"reshape", 1, {0}, "[1, 2, 3", "`]`"},
    {"reshape", 1, {0}, "[1, 2, 3]", "reshape"},
    {"reshape", 1, {0}, "[1,1,1,1,1,1,1,1,1]", "more than 8"},
    {"split", 1, {0}, "dim=1, parts=3", "no place for their number"},
    {"accum", 1, {0}, NULL, "block"},
    {"iter", 1, {0}, NULL, "mica_block_input"},
    {"block", 1, {0}, NULL, "block"},
    {"mul_scalar", 1, {0}, "inf", "no finite number"},
    {"mul_scalar", 1, {0}, "1e39", "too large for float"},
    {"input", 0, {0}, NULL, "no function"},
    {"output", 1, {0}, NULL, "no function"},
    {"", 1, {0}, NULL, "no function"},
    {"sum", 1, {0}, "\x01", "attributes:1:1"},
    {"sum", 1, {0}, "dim=((((((", "attributes:1:"},
};

static void is_refused(void **state)
{
  (void)state;
  struct mica_context *m = mica_open();
  struct mica_graph *g;
  struct mica_program *p;
  const int64_t shape[] = {4, 6};
  int x, t = -5;
  assert_int_equal(mica_graph_open(m, "g", &g), MICA_OK);
  assert_int_equal(mica_graph_input(g, NULL, MICA_F16, 2, shape, &x), MICA_OK);
  for (size_t i = 0; i < COUNT(wrong); i++) {
    const int nodes = g->g->nnodes, tensors = g->g->ntensors;
    if (mica_graph_op(g, wrong[i].op, wrong[i].n, wrong[i].args, wrong[i].attributes, &t, NULL) != MICA_USER)
      fail_msg("%s(%s) is taken", wrong[i].op, wrong[i].attributes);
    if (!strstr(mica_error(m), wrong[i].says)) fail_msg("%s(%s): no '%s' in\n%s", wrong[i].op, wrong[i].attributes, wrong[i].says, mica_error(m));
    assert_true(g->g->nnodes == nodes && g->g->ntensors == tensors && t == -5);
  }
  assert_int_equal(mica_graph_program(g, &p), MICA_USER);
  assert_non_null(strstr(mica_error(m), "no output"));
  mica_close(m);
}

// Calls made of pieces at random: taken or refused, and a graph that is then well formed.
static void any_calls(void **state)
{
  static const char *const pieces[] = {"dim",      "=",   "1",      "-1", ",",   "[",      "]",      "{",           "}",
                                       "x:0",      "i:_", "group=", "2",  "3.5", "1e9",    "(",      ")",           "exp(2)",
                                       "const(1)", "_",   "X",      " ",  "\n",  "shape=", "[4, 6]", "perm=[1, 0]", "parts=2",
                                       "*",        "/ 0", "inf",    "%",  "#",   "\"",     "\xff",   "99999999999"};
  (void)state;
  struct mica_context *m = mica_open();
  struct mica_graph *g;
  struct mica_program *p;
  struct rng r = {11};
  const int64_t shape[] = {4, 6};
  int x, taken = 0, refused = 0;
  assert_int_equal(mica_graph_open(m, "g", &g), MICA_OK);
  assert_int_equal(mica_graph_input(g, "X", MICA_F32, 2, shape, &x), MICA_OK);
  for (int i = 0; i < 6000; i++) {
    struct str s = {0};
    int args[3], t = -5, count = -5, nodes = g->g->nnodes;
    for (uint64_t k = rng_below(&r, 5); k--;) str_add(&s, "%s", pieces[rng_below(&r, COUNT(pieces))]);
    for (size_t k = 0; k < COUNT(args); k++) args[k] = (int)rng_below(&r, (uint64_t)MIN(g->g->ntensors, 40));
    int status = mica_graph_op(g, op_rows[rng_below(&r, OPS)].name, (int)rng_below(&r, 3), args, str_text(&s), &t, &count);
    if (status == MICA_OK)
      taken++, assert_true(t >= 0 && count > 0 && t + count == g->g->ntensors);
    else
      refused++, assert_true(status == MICA_USER && t == -5 && g->g->nnodes == nodes && *mica_error(m));
    str_free(&s);
  }
  assert_true(taken > 100 && refused > 1000);
  assert_int_equal(mica_graph_output(g, x), MICA_OK);
  if (mica_graph_program(g, &p) && !strstr(mica_error(m), "2^40") && !strstr(mica_error(m), "[world]")) fail_msg("%s", mica_error(m));
  mica_close(m);
}

static void refuse(struct mica_context *m, int status, const char *says)
{
  assert_int_equal(status, MICA_USER);
  if (!strstr(mica_error(m), says)) fail_msg("no '%s' in\n%s", says, mica_error(m));
}

static void inputs_are_refused(void **state)
{
  (void)state;
  struct mica_context *m = mica_open();
  struct mica_graph *g;
  static char long_name[300];
  const int64_t shape[9] = {4, 6, 1, 1, 1, 1, 1, 1, 1}, none[] = {4, 0}, much[] = {(int64_t)1 << 39, 4}, least[] = {INT64_MIN, 4};
  int x;
  memset(long_name, 'a', sizeof long_name - 1);
  refuse(m, mica_graph_open(m, "a b", &g), "cannot be a name");
  refuse(m, mica_graph_open(m, "return", &g), "cannot be a name");
  refuse(m, mica_graph_open(m, long_name, &g), "cannot be a name");
  assert_int_equal(mica_graph_open(m, NULL, &g), MICA_OK);
  refuse(m, mica_graph_input(g, "", MICA_F32, 2, shape, &x), "cannot be a name");
  refuse(m, mica_graph_input(g, "x", (enum mica_dtype)99, 2, shape, &x), "no dtype 99");
  refuse(m, mica_graph_input(g, "x", (enum mica_dtype) - 1, 2, shape, &x), "no dtype");
  refuse(m, mica_graph_input(g, "x", MICA_F32, 9, shape, &x), "9 dimensions");
  refuse(m, mica_graph_input(g, "x", MICA_F32, -1, shape, &x), "-1 dimensions");
  refuse(m, mica_graph_input(g, "x", MICA_F32, 2, none, &x), "extents are at least 1");
  refuse(m, mica_graph_input(g, "x", MICA_F32, 2, much, &x), "2^40");
  refuse(m, mica_graph_input(g, "x", MICA_F32, 2, least, &x), "extents are at least 1");
  assert_int_equal(mica_graph_input(g, "x", MICA_F32, 2, shape, &x), MICA_OK);
  refuse(m, mica_graph_input(g, "x", MICA_F32, 2, shape, &x), "already the name of tensor 0");
  refuse(m, mica_graph_output(g, 1), "no tensor 1");
  refuse(m, mica_graph_output(g, -1), "no tensor -1");
  refuse(m, mica_graph_name(g, 1, "y"), "no tensor 1");
  refuse(m, mica_graph_name(g, 0, "1y"), "cannot be a name");
  struct mica_tensor info;
  refuse(m, mica_graph_tensor(g, 5, &info), "no tensor 5");
  mica_close(m);
}

// Run-time extents follow the rules of texts, and come before what reads the tensors.
static void extents_are_refused(void **state)
{
  (void)state;
  struct mica_context *m = mica_open();
  struct mica_graph *g;
  const int64_t shape[] = {8, 3};
  int n, k, x, s, t, u, used;
  assert_int_equal(mica_graph_open(m, NULL, &g), MICA_OK);
  assert_int_equal(mica_graph_input(g, "n", MICA_I32, 0, NULL, &n), MICA_OK);
  assert_int_equal(mica_graph_input(g, "k", MICA_I32, 0, NULL, &k), MICA_OK);
  assert_int_equal(mica_graph_input(g, "x", MICA_F32, 2, shape, &x), MICA_OK);
  assert_int_equal(mica_graph_input(g, "s", MICA_F32, 2, shape, &s), MICA_OK);
  assert_int_equal(mica_graph_input(g, "t", MICA_I32, 1, shape, &t), MICA_OK);
  refuse(m, mica_graph_extent(g, x, 1, 8), "an i32 scalar");
  refuse(m, mica_graph_extent(g, n, 0, 8), "at least 1");
  refuse(m, mica_graph_extent(g, n, -4, 8), "at least 1");
  assert_int_equal(mica_graph_extent(g, n, 1, 8), MICA_OK);
  refuse(m, mica_graph_extent(g, n, 1, 8), "already");
  refuse(m, mica_graph_declare(g, n, -5, 8, 0, 0), "declared already");
  refuse(m, mica_graph_extend(g, x, 1, n), "another bound");
  refuse(m, mica_graph_extend(g, x, 0, k), "holds no run-time extent");
  assert_int_equal(mica_graph_declare(g, s, 0, 0, 0, 1), MICA_OK);
  refuse(m, mica_graph_extend(g, s, 0, n), "a state");
  assert_int_equal(mica_graph_declare(g, t, 0, 9, 1, 0), MICA_OK);
  refuse(m, mica_graph_extend(g, t, 0, n), "need -1");
  assert_int_equal(mica_graph_extend(g, x, 0, n), MICA_OK);
  refuse(m, mica_graph_declare(g, x, 0, 0, 0, 1), "declared already");
  assert_int_equal(mica_graph_input(g, "u", MICA_F32, 2, shape, &u), MICA_OK);
  assert_int_equal(mica_graph_op(g, "mul", 2, (const int[]){u, k}, NULL, &used, NULL), MICA_OK);
  refuse(m, mica_graph_extend(g, u, 0, n), "is read already");
  refuse(m, mica_graph_extent(g, k, 1, 8), "is read already");
  assert_true(!g->g->tensors[u].runs[0] && !g->g->tensors[k].extent);
  int none, y;
  assert_int_equal(mica_graph_input(g, NULL, MICA_I32, 0, NULL, &none), MICA_OK);
  assert_int_equal(mica_graph_extent(g, none, 1, 8), MICA_OK);
  assert_int_equal(mica_graph_input(g, NULL, MICA_F32, 2, shape, &y), MICA_OK);
  assert_int_equal(mica_graph_extend(g, y, 0, none), MICA_OK);
  refuse(m, mica_graph_op(g, "repeat", 1, &y, "dim=0, times=2", &used, NULL), "without a name");
  refuse(m, mica_graph_op(g, "mul", 2, (const int[]){x, y}, NULL, &used, NULL), "run-time extents differ");
  mica_close(m);
}

static void blocks_are_refused(void **state)
{
  (void)state;
  struct mica_context *m = mica_open();
  struct mica_graph *g, *b, *c, *d;
  struct mica_program *p;
  const int64_t shape[] = {4, 6}, two[] = {2, 2, 2, 2, 2}, none[] = {0}, much[] = {(int64_t)1 << 39, 4};
  const int first[] = {0, MICA_REPLICA}, third[] = {2, MICA_REPLICA}, far[] = {200, 0};
  int x, t, n;
  assert_int_equal(mica_graph_open(m, "g", &g), MICA_OK);
  assert_int_equal(mica_graph_input(g, "x", MICA_F32, 2, shape, &x), MICA_OK);
  refuse(m, mica_graph_block(g, 4, two, 0, NULL, &b), "4 grid axes");
  refuse(m, mica_graph_block(g, -1, two, 0, NULL, &b), "-1 grid axes");
  refuse(m, mica_graph_block(g, 1, two, 5, two, &b), "5 loop axes");
  refuse(m, mica_graph_block(g, 1, none, 0, NULL, &b), "grid axis 0 is 0");
  refuse(m, mica_graph_block(g, 2, much, 0, NULL, &b), "2^40 blocks");
  refuse(m, mica_block_input(g, x, NULL, NULL, &t), "mica_graph_block");
  refuse(m, mica_block_output(g, x, NULL), "mica_graph_output");
  refuse(m, mica_block_end(g, &t, &n), "mica_graph_block");
  assert_int_equal(mica_graph_block(g, 1, two, 1, two, &b), MICA_OK);
  refuse(m, mica_block_end(b, &t, &n), "saves nothing");
  refuse(m, mica_graph_block(b, 1, two, 0, NULL, &c), "of a block graph");
  refuse(m, mica_graph_input(b, "y", MICA_F32, 2, shape, &t), "mica_block_input");
  refuse(m, mica_graph_output(b, 0), "mica_block_output");
  refuse(m, mica_graph_program(b, &p), "mica_graph_open");
  refuse(m, mica_block_input(b, 3, first, NULL, &t), "no tensor 3");
  refuse(m, mica_block_input(b, x, third, NULL, &t), "dimension 2");
  refuse(m, mica_block_input(b, x, far, NULL, &t), "imap[0] is 200");
  refuse(m, mica_block_input(b, x, NULL, far, &t), "fmap[0] is 200");
  assert_int_equal(mica_block_input(b, x, first, (const int[]){1}, &t), MICA_OK);
  refuse(m, mica_block_output(b, t, first), "accumulator");
  refuse(m, mica_graph_thread(g, 1, two, 0, NULL, &c), "stand in blocks");
  refuse(m, mica_graph_thread(b, 4, two, 0, NULL, &c), "4 grid axes");
  assert_int_equal(mica_graph_thread(b, 1, two, 0, NULL, &c), MICA_OK);
  refuse(m, mica_graph_thread(c, 1, two, 0, NULL, &d), "of a thread graph");
  refuse(m, mica_block_input(c, 3, first, NULL, &n), "this block graph has 1");
  refuse(m, mica_block_end(c, &n, NULL), "this thread saves nothing");
  assert_int_equal(mica_block_input(c, t, first, NULL, &n), MICA_OK);
  refuse(m, mica_graph_op(c, "concat", 2, (const int[]){n, n}, "dim=0", &n, NULL), "thread");
  assert_int_equal(mica_block_output(c, n, first), MICA_OK);
  refuse(m, mica_graph_op(b, "save", 1, &t, "omap={x:0}", &n, NULL), "mica_block_output");
  assert_int_equal(mica_graph_op(b, "accum", 1, &t, NULL, &t, NULL), MICA_OK);
  refuse(m, mica_block_output(b, t, third), "dim");
  assert_int_equal(mica_block_output(b, t, NULL), MICA_OK);
  assert_int_equal(mica_block_end(b, &t, NULL), MICA_OK);
  refuse(m, mica_block_end(b, &t, NULL), "has ended");
  refuse(m, mica_block_end(c, &n, NULL), "the block has ended");
  refuse(m, mica_graph_thread(b, 1, two, 0, NULL, &d), "has ended");
  refuse(m, mica_block_input(b, x, first, NULL, &t), "has ended");
  refuse(m, mica_graph_op(b, "exp", 1, (const int[]){0}, NULL, &t, NULL), "has ended");
  assert_int_equal(mica_graph_output(g, t), MICA_OK);
  refuse(m, mica_graph_program(g, &p), "save"); // both blocks write the same place
  mica_close(m);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_examples),       cmocka_unit_test(thread_graphs),      cmocka_unit_test(calls),
                                     cmocka_unit_test(is_refused),         cmocka_unit_test(inputs_are_refused), cmocka_unit_test(any_calls),
                                     cmocka_unit_test(blocks_are_refused), cmocka_unit_test(extents_are_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
