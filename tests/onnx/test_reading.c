// Models that this test writes field by field: errors name the wrong field, and external data must be in the model's folder.
#include "onnx/onnx.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

// ---- protobuf, written ----

static void put_varint(struct str *s, uint64_t x)
{
  for (; x > 127; x >>= 7) str_raw(s, (char[]){(char)(x & 127) | (char)128}, 1);
  str_raw(s, (char[]){(char)x}, 1);
}

static void put_int(struct str *s, int field, int64_t x) { put_varint(s, (uint64_t)field << 3), put_varint(s, (uint64_t)x); }

static void put_bytes(struct str *s, int field, const char *p, size_t n)
{
  put_varint(s, (uint64_t)field << 3 | 2), put_varint(s, n), str_raw(s, p, n);
}

static void put_text(struct str *s, int field, const char *text) { put_bytes(s, field, text, strlen(text)); }

static void put_message(struct str *s, int field, struct str *m)
{
  put_bytes(s, field, str_text(m), m->n);
  str_free(m);
  *m = (struct str){0};
}

enum { ROWS = 2, COLS = 3, SYMBOL = -7 };

static void put_value(struct str *graph, int field, const char *name, int type, int64_t rows)
{
  struct str v = {0}, t = {0}, tensor = {0}, shape = {0}, d = {0};
  if (rows == SYMBOL)
    put_text(&d, 2, "n");
  else
    put_int(&d, 1, rows);
  put_message(&shape, 1, &d);
  put_int(&d, 1, COLS), put_message(&shape, 1, &d);
  put_int(&tensor, 1, type), put_message(&tensor, 2, &shape);
  put_message(&t, 1, &tensor);
  put_text(&v, 1, name), put_message(&v, 2, &t);
  put_message(graph, field, &v);
}

static void put_node(struct str *graph, const char *type, const char *a, const char *b, const char *out)
{
  struct str n = {0};
  put_text(&n, 1, a);
  if (b) put_text(&n, 1, b);
  put_text(&n, 2, out), put_text(&n, 3, "the node"), put_text(&n, 4, type);
  put_message(graph, 1, &n);
}

struct wanted { // what is unusual about a model x + w
  int opset;
  int64_t rows, dim;     // of x; of w: an extent
  const char *in, *type; // what the node reads, and does
  const char *file, *offset, *length;
  size_t bytes; // of raw data
  int twice;    // there are two nodes of one output
};

static void put_weight(struct str *graph, const struct wanted *w)
{
  struct str t = {0}, pair = {0};
  static const char raw[64];
  put_int(&t, 1, w->dim ? w->dim : COLS), put_int(&t, 2, ONNX_FLOAT), put_text(&t, 8, "w");
  const char *said[][2] = {{"location", w->file}, {"offset", w->offset}, {"length", w->length}};
  for (int i = 0; i < 3 && w->file; i++) {
    if (!said[i][1]) continue;
    put_text(&pair, 1, said[i][0]), put_text(&pair, 2, said[i][1]), put_message(&t, 13, &pair);
  }
  if (w->file)
    put_int(&t, 14, 1);
  else
    put_bytes(&t, 9, raw, w->bytes ? w->bytes : 4 * COLS);
  put_message(graph, 5, &t);
}

static void model(const struct wanted *w, struct str *out)
{
  struct str graph = {0}, opset = {0};
  put_weight(&graph, w);
  put_value(&graph, 11, "x", ONNX_FLOAT, w->rows ? w->rows : ROWS);
  put_value(&graph, 12, "y", ONNX_FLOAT, ROWS);
  for (int i = 0; i <= w->twice; i++) put_node(&graph, w->type ? w->type : "Add", w->in ? w->in : "x", "w", "y");
  put_int(out, 1, 8);
  put_int(&opset, 2, w->opset ? w->opset : 17), put_message(out, 8, &opset);
  put_message(out, 7, &graph);
}

// ---- error messages ----

static const struct {
  struct wanted w;
  enum errid id;
  const char *says;
} wrong[] = {
    {{.opset = 6}, ERR_ONNX, "operator set 6; 7 to 28 are read"},
    {{.opset = 29}, ERR_ONNX, "operator set 29"},
    {{.rows = SYMBOL}, ERR_ONNX, "no value: `n`"},
    {{.rows = -5}, ERR_ONNX, "an extent is negative"},
    {{.rows = (int64_t)1 << 45}, ERR_ONNX, "input `x` is no tensor"},
    {{.dim = -1}, ERR_ONNX, "tensor `w` has a negative extent"},
    {{.dim = (int64_t)1 << 41}, ERR_ONNX, "2^40 elements"},
    {{.bytes = 5}, ERR_ONNX, "tensor `w` has 5 bytes, and needs 12"},
    {{.in = "z"}, ERR_ONNX, "node \"the node\" (Add) reads `z`, which nothing before it makes"},
    {{.in = "y"}, ERR_ONNX, "reads `y`"},
    {{.in = "\x01"}, ERR_ONNX, "a name holds the byte 0x01"},
    {{.in = "\xff"}, ERR_ONNX, "is not UTF-8"},
    {{.twice = 1}, ERR_ONNX, "makes `y`, which is there already"},
    {{.file = "../secret"}, ERR_ONNX, "outside of the model's folder"},
    {{.file = "a/../../secret"}, ERR_ONNX, "outside of the model's folder"},
    {{.file = "/etc/passwd"}, ERR_ONNX, "no path in the model's folder"},
    {{.file = ""}, ERR_ONNX, "no path in the model's folder"},
    {{.file = "link"}, ERR_ONNX, "leads out of the model's folder"},
    {{.file = "absent"}, ERR_FILE, "absent"},
    {{.file = "data", .offset = "60"}, ERR_ONNX, "12 bytes from 60 of data, which has 64"},
    {{.file = "data", .offset = "9223372036854775807"}, ERR_ONNX, "12 bytes from 9223372036854775807 of data"},
    {{.file = "data", .offset = "-4"}, ERR_ONNX, "is no number"},
    {{.file = "data", .length = "11"}, ERR_ONNX, "needs 12 bytes, and its external data has 11"},
};

static char folder[] = "/tmp/mica_onnx_XXXXXX";

static int make_folder(void **state)
{
  (void)state;
  struct err e = {0};
  struct str path = {0};
  char data[64];
  float w[COLS] = {1, 2, 4};
  assert_non_null(mkdtemp(folder));
  memset(data, 0, sizeof data);
  memcpy(data + 16, w, sizeof w);
  str_add(&path, "%s/data", folder);
  assert_int_equal(file_write(str_text(&path), data, sizeof data, &e), OK);
  str_free(&path);
  path = (struct str){0};
  str_add(&path, "%s/link", folder);
  assert_int_equal(symlink("/etc/passwd", str_text(&path)), 0);
  str_free(&path);
  return 0;
}

static int remove_folder(void **state)
{
  (void)state;
  for (int i = 0; i < 3; i++) {
    struct str path = {0};
    str_add(&path, "%s%s", folder, i == 2 ? "" : i ? "/link" : "/data");
    remove(str_text(&path));
    str_free(&path);
  }
  return 0;
}

static int open_text(struct arena *mem, const struct str *s, int nset, const struct setting *set, struct onnx_model **m, struct err *e)
{
  uint8_t *exact = arena_copy(mem, str_text(s), s->n);
  return onnx_open_bytes(mem, exact, s->n, "m.onnx", folder, nset, set, m, e);
}

static void test_wrong(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(wrong); i++) {
    struct arena mem = {0};
    struct str s = {0};
    struct err e = {0};
    struct onnx_model *m;
    model(&wrong[i].w, &s);
    if (open_text(&mem, &s, 0, NULL, &m, &e) == OK) fail_msg("%zu is read", i);
    if (e.id != wrong[i].id || !strstr(e.text, wrong[i].says)) fail_msg("%zu: %s: %s", i, err_name(e.id), e.text);
    onnx_close(m), str_free(&s), arena_close(&mem);
  }
}

static void test_external(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct str s = {0};
  struct err e = {0};
  struct onnx_model *m;
  model(&(struct wanted){.file = "data", .offset = "16", .length = "12"}, &s);
  if (open_text(&mem, &s, 0, NULL, &m, &e)) fail_msg("%s", e.text);
  const struct onnx_cells *w = onnx_known(m, onnx_find(m, "w"));
  assert_true(w->f[0] == 1 && w->f[1] == 2 && w->f[2] == 4);
  assert_int_equal(m->inits[0]->file, 1);
  assert_int_equal(m->inits[0]->offset, 16);
  assert_int_equal(m->nprograms, 1);
  onnx_close(m), str_free(&s), arena_close(&mem);
}

static void test_symbol(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct str s = {0};
  struct err e = {0};
  struct onnx_model *m;
  model(&(struct wanted){.rows = SYMBOL}, &s);
  if (open_text(&mem, &s, 1, &(struct setting){"n", 5}, &m, &e)) fail_msg("%s", e.text);
  assert_int_equal(m->values[onnx_find(m, "y")].shape.d[0], 5);
  onnx_close(m);
  assert_int_not_equal(open_text(&mem, &s, 2, (struct setting[]){{"n", 5}, {"k", 2}}, &m, &e), OK);
  assert_non_null(strstr(e.text, "no extent `k`"));
  onnx_close(m), str_free(&s), arena_close(&mem);
}

// Every prefix, and every byte changed: an error or a plan, never a crash.
static void test_damaged(void **state)
{
  (void)state;
  struct str s = {0};
  struct rng r = {11};
  size_t read = 0;
  model(&(struct wanted){.rows = ROWS}, &s);
  for (size_t i = 0; i < 4 * s.n; i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct onnx_model *m;
    struct str cut = {0};
    str_raw(&cut, s.p, i < s.n ? i : s.n);
    if (i >= s.n) cut.p[i % s.n] = (char)rng_next(&r);
    int status = open_text(&mem, &cut, 0, NULL, &m, &e);
    assert_true(status == OK ? e.id == ERR_NONE : e.id != ERR_NONE && *e.text);
    read += i >= s.n && status == OK;
    onnx_close(m), str_free(&cut), arena_close(&mem);
  }
  assert_in_range(read, 1, 3 * s.n - 1); // bytes of the weight, of names that nobody reads
  str_free(&s);
}

// ---- attributes that make no sense ----

// y = einsum(x, w) of x[2, 3] and w[3]
static void put_einsum(struct str *out, const char *equation)
{
  struct str graph = {0}, opset = {0}, n = {0}, a = {0};
  put_weight(&graph, &(struct wanted){0});
  put_value(&graph, 11, "x", ONNX_FLOAT, ROWS), put_value(&graph, 12, "y", ONNX_FLOAT, ROWS);
  put_text(&n, 1, "x"), put_text(&n, 1, "w"), put_text(&n, 2, "y"), put_text(&n, 4, "Einsum");
  put_text(&a, 1, "equation"), put_text(&a, 4, equation), put_message(&n, 5, &a);
  put_message(&graph, 1, &n);
  put_int(&opset, 2, 13), put_message(out, 8, &opset);
  put_message(out, 7, &graph);
}

static void test_equations(void **state)
{
  (void)state;
  static const struct {
    const char *equation, *why; // NULL: it is taken
  } rows[] = {
      {"ab,b->a", NULL},
      {" a b , b -> b a ", NULL},
      {"ab,b->ba, ", "its equation goes on after the result"},
      {"ab,c->a", NULL},
      {"ab,a->b", "a label has the extents 2 and 3"},
      {"aa,b->a", "a label has the extents 2 and 3"},
      {"ab,b->aa", "a label stands twice in a term"},
      {"ab->a", "its equation has 1 terms for 2 inputs"},
      {"ab,b,b->a", "its equation has more terms than it has inputs"},
      {"abc,b->a", "term 0 of its equation has 3 labels for 2 dimensions"},
      {"a,b->a", "term 0 of its equation has 1 labels for 2 dimensions"},
      {"ab,b->ac", "a label of the result is in no term"},
      {"ab,b=a", "its equation has `=` where a label should be"},
      {"ab,b-a", "its equation has `-` where `->` should be"},
      {"", "term 0 of its equation has 0 labels for 2 dimensions"},
      {"a.b,b->a", "its equation has `.` where a label should be"},
      {"abcdefghi,b", "a term has more than 8 labels"},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct arena mem = {0};
    struct str s = {0};
    struct err e = {0};
    struct onnx_model *m;
    put_einsum(&s, rows[i].equation);
    if (open_text(&mem, &s, 0, NULL, &m, &e)) fail_msg("%s", e.text);
    const struct onnx_node *n = &m->nodes[0];
    bool taken = !rows[i].why;
    if (taken != (n->fate == ONNX_TAKEN) || (!taken && !strstr(n->why, rows[i].why))) fail_msg("%s: %s", rows[i].equation, n->why ? n->why : "taken");
    onnx_close(m), str_free(&s), arena_close(&mem);
  }
}

// ---- functions ----

static void put_call(struct str *function, const char *type, const char *in, const char *out)
{
  struct str n = {0};
  put_text(&n, 1, in), put_text(&n, 2, out), put_text(&n, 4, type), put_text(&n, 7, "my");
  put_message(function, 7, &n);
}

// The function my.name(a) -> b, which calls `times` times what is named; without a name b = relu(a), with none at all it gives a.
static void put_function(struct str *out, const char *name, const char *calls, int times)
{
  struct str f = {0}, n = {0};
  char from[16] = "a", to[16] = "b";
  put_text(&f, 1, name), put_text(&f, 4, "a"), put_text(&f, 5, times ? "b" : "a"), put_text(&f, 10, "my");
  for (int i = 0; i < times && calls; i++) {
    snprintf(to, sizeof to, i == times - 1 ? "b" : "t%d", i);
    put_call(&f, calls, from, to);
    memcpy(from, to, sizeof from);
  }
  put_text(&n, 1, "a"), put_text(&n, 2, "b"), put_text(&n, 4, "Relu");
  if (!calls && times) put_message(&f, 7, &n);
  str_free(&n);
  put_message(out, 25, &f);
}

static void put_caller(struct str *out, const char *type, int inputs)
{
  struct str graph = {0}, opset = {0}, n = {0};
  put_value(&graph, 11, "x", ONNX_FLOAT, ROWS), put_value(&graph, 12, "y", ONNX_FLOAT, ROWS);
  for (int i = 0; i < inputs; i++) put_text(&n, 1, "x");
  put_text(&n, 2, "y"), put_text(&n, 3, "the call"), put_text(&n, 4, type), put_text(&n, 7, "my");
  put_message(&graph, 1, &n);
  put_int(&opset, 2, 17), put_message(out, 8, &opset);
  put_message(out, 7, &graph);
}

static void test_functions(void **state)
{
  (void)state;
  static const struct {
    int chain, times, inputs; // f0 calls f1 so often, which calls f2 so often, ...
    const char *last, *says;  // what the last one calls; NULL: it is a relu
  } rows[] = {
      {1, 1, 1, NULL, NULL},
      {5, 3, 1, NULL, NULL},
      {1, 0, 1, NULL, "1 node"},
      {1, 1, 1, "f0", "the function my.f0 calls itself: my.f0 -> my.f0"},
      {3, 1, 1, "f1", "the function my.f1 calls itself: my.f1 -> my.f2 -> my.f1"},
      {40, 1, 1, NULL, "functions call one another more than 32 deep"},
      {20, 2, 1, NULL, "with its functions written out the graph has more than 32768 nodes"},
      {1, 1, 2, NULL, "node \"the call\" calls my.f0 with 2 inputs and 1 outputs, and it has 1 and 1"},
      {1, 1, 1, "absent", "my.absent"},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct arena mem = {0};
    struct str s = {0}, report = {0};
    struct err e = {0};
    struct onnx_model *m;
    char name[8], next[8];
    put_caller(&s, "f0", rows[i].inputs);
    for (int k = 0; k < rows[i].chain; k++) {
      snprintf(name, sizeof name, "f%d", k), snprintf(next, sizeof next, "f%d", k + 1);
      bool last = k == rows[i].chain - 1;
      put_function(&s, name, last ? rows[i].last : next, rows[i].times);
    }
    int status = open_text(&mem, &s, 0, NULL, &m, &e);
    if (status == OK) onnx_report_text(m, &report);
    const char *said = status == OK ? str_text(&report) : e.text;
    if (rows[i].says && !strstr(said, rows[i].says)) fail_msg("%zu: %s", i, said);
    if (!rows[i].says && (status != OK || m->nprograms != 1)) fail_msg("%zu: %s", i, said);
    if (i == 2) assert_string_equal(m->nodes[0].type, "Identity");
    if (i == 1) assert_int_equal(m->nnodes, 3 * 3 * 3 * 3);
    onnx_close(m), str_free(&s), str_free(&report), arena_close(&mem);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_wrong),   cmocka_unit_test(test_external),  cmocka_unit_test(test_symbol),
                                     cmocka_unit_test(test_damaged), cmocka_unit_test(test_functions), cmocka_unit_test(test_equations)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
