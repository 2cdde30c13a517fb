// The float64 reference of full-size programs, which computes rows on all cores. Without products it has the same bits as the interpreter.
#include "eval/eval.h"
#include "graphs.h"
#include "rt/rt.h"

#include <stdlib.h>

static const char *const programs[] = {
    "program rows(n = 700) {\n X: f32[1, 300, n]\n return exp(X)\n}\n",
    "program broadcast(n = 700) {\n X: f32[300, n]\n Y: f32[n]\n Z: f32[300, 1]\n return X * Y + Z\n}\n",
    "program scalars(n = 700) {\n X: f32[1, 300, n]\n Y: f32[1, 1, 1]\n return Y + X * 3\n}\n",
    "program grows(n = 700) {\n X: f32[1, n]\n Y: f32[300, 1]\n return X / Y\n}\n",
    "program sums(n = 700) {\n X: f32[300, n]\n return sum(X, dim=1)\n}\n",
    "program down(n = 700) {\n X: f32[300, n]\n return sum(X, dim=0)\n}\n",
    "program soft(n = 700) {\n X: f32[3, 100, n]\n return softmax(X, dim=2)\n}\n",
    "program norm(n = 70) {\n X: f32[1, 3001, n]\n return rms_norm(X)\n}\n",
    "program tiny() {\n X: f32[1, 1]\n return exp(X)\n}\n",
};

static const char *const products[] = {
    "program plain(n = 130) {\n X: f32[101, n]\n Y: f32[n, 75]\n return matmul(X, Y)\n}\n",
    "program right(n = 130) {\n X: f32[7, n]\n Y: f32[75, n]\n return matmul(X, transpose(Y))\n}\n",
    "program left(n = 130) {\n X: f32[n, 70]\n Y: f32[n, 3]\n return matmul(transpose(X), Y)\n}\n",
    "program heads(n = 33) {\n X: f32[2, n, 3, 8]\n Y: f32[2, 65, 3, 8]\n"
    " return matmul(transpose(X, perm=[0, 2, 1, 3]), transpose(Y, perm=[0, 2, 3, 1]))\n}\n",
    "program shared(n = 33) {\n X: f32[2, 3, n, 8]\n Y: f32[8, 5]\n Z: f32[1, 3, 5, 4]\n return matmul(matmul(X, Y), Z)\n}\n",
    "program groups(n = 33) {\n Q: f32[2, 6, 3, 8]\n K: f32[2, 2, n, 8]\n"
    " k = repeat(K, dim=1, times=3)\n return matmul(matmul(Q, transpose(k)), k)\n}\n",
    "program turned(n = 33) {\n Q: f32[6, 2, 3, 8]\n K: f32[2, 2, n, 8]\n"
    " k = transpose(repeat(K, dim=1, times=3), perm=[1, 0, 3, 2])\n return matmul(Q, k), matmul(Q, repeat(k, dim=1, times=1))\n}\n",
    "program twice(n = 33) {\n Q: f32[8, 3, 8]\n K: f32[2, 8, n]\n k = repeat(repeat(K, dim=0, times=2), dim=0, times=2)\n return matmul(Q, k)\n}\n",
    "program rows(n = 33) {\n Q: f32[6, 8]\n K: f32[4, n]\n return matmul(Q, repeat(K, dim=0, times=2))\n}\n", // of a matrix
    "program moved(n = 6) {\n Q: f32[n, 5, 8]\n K: f32[2, 8, n]\n return matmul(Q, transpose(repeat(K, dim=0, times=2), perm=[2, 1, 0]))\n}\n",
    "program mixed(n = 33) {\n Q: f32[6, 3, 8]\n K: f32[2, 8, n]\n k = repeat(K, dim=0, times=3)\n return matmul(Q, k), exp(k), reshape(k, [48, "
    "n])\n}\n",
    "program shapes(n = 33) {\n X: f32[n, 24]\n Y: f32[2, 4, 10]\n t = transpose(X)\n"
    " return matmul(reshape(X, [n, 3, 8]), reshape(Y, [8, 10])), matmul(t, X), t + 1, reshape(t, [6, 4, n])\n}\n",
};

static void read_input(const void *arg, int input, int64_t from, int64_t to, double *out)
{
  double *const *inputs = arg;
  memcpy(out, inputs[input] + from, (size_t)(to - from) * sizeof *out);
}

// Returns how many large values had memory at most.
static int one_program(const char *text)
{
  struct arena mem = {0};
  struct err e = {0};
  struct graph *g;
  struct reference64 r = {0};
  assert_int_equal(graph_expand(&mem, graph_of(&mem, text), true, &g, &e), OK);
  int nin = graph_inputs(g, NULL), nout = graph_outputs(g, NULL), *outs = NEWS(&mem, int, nout + 1);
  void **in = NEWS(&mem, void *, nin + 1), **out = NEWS(&mem, void *, nout + 1);
  graph_outputs(g, outs);
  eval_random(&mem, g, DOM_F64, NULL, 5, in);
  assert_int_equal(eval_run(&mem, g, DOM_F64, NULL, in, out, NULL, &e), OK);
  const struct reference64_from from = {read_input, in, false};
  if (reference64_run(&r, g, &from, &e)) fail_msg("%s: %s", text, e.text);
  for (int i = 0; i < nout; i++)
    if (memcmp(r.value[outs[i]], out[i], (size_t)shape_size(&g->tensors[outs[i]].shape) * sizeof(double))) fail_msg("%s", text);
  int room = r.nroom;
  reference64_close(&r);
  arena_close(&mem);
  return room;
}

static void rows_are_the_whole(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(programs); i++) one_program(programs[i]);
}

static void products_are_the_interpreters(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(products); i++) one_program(products[i]);
}

// Ten values of 3 MB follow each other in the memory of four.
static void memory_is_taken_again(void **state)
{
  (void)state;
  static const char chain[] = "program chain(n = 700) {\n X: f32[600, n]\n a = exp(X) * 2\n b = a + a\n c = square(b) * 3\n d = square(c) + c\n"
                              " return softmax(X, dim=1) * sum(d, dim=1)\n}\n";
  int room = one_program(chain);
  assert_int_equal(room, 4);
}

// A stop that comes while the reference is computed, here with the third input that is read, ends it before the products.
struct ending {
  volatile int stop;
  int reads;
};

static void read_and_stop(void *arg, int input, int64_t from, int64_t to, double *out)
{
  struct ending *w = arg;
  for (int64_t i = from; i < to; i++) out[i - from] = 1;
  if (input == 1) __atomic_store_n(&w->stop, 1, __ATOMIC_RELAXED);
  __atomic_add_fetch(&w->reads, 1, __ATOMIC_RELAXED);
}

static void read_of(const void *arg, int input, int64_t from, int64_t to, double *out) { read_and_stop((void *)arg, input, from, to, out); }

static void a_stop_ends_it(void **state)
{
  (void)state;
  static const char large[] = "program large() {\n X: f32[4000, 64]\n Y: f32[64, 40000]\n Z: f32[40000, 20000]\n"
                              " return matmul(matmul(exp(X), Y), Z)\n}\n"; // which would take minutes
  struct arena mem = {0};
  struct ending w = {0};
  struct reference64 r = {0};
  struct err e = {0};
  const struct reference64_from from = {.read = read_of, .arg = &w, .stop = &w.stop};
  assert_int_equal(reference64_run(&r, graph_of(&mem, large), &from, &e), ENV);
  assert_int_equal(e.id, ERR_STOPPED);
  assert_true(w.reads < 100); // X and a part of Y; Z has 12,000 pieces
  reference64_close(&r);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_the_whole), cmocka_unit_test(products_are_the_interpreters),
                                     cmocka_unit_test(memory_is_taken_again), cmocka_unit_test(a_stop_ends_it)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
