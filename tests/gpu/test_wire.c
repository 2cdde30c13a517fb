// Messages between worker and parent process: they are read as written; truncated and foreign messages are errors.
#include "pretend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *const names[] = {"right_1000_10", "reset_1000_20", "right_1000_10"};

static void same_arg(const struct code_arg *a, const struct code_arg *b)
{
  assert_int_equal(a->at.kind, b->at.kind);
  assert_int_equal(a->at.index, b->at.index);
  assert_int_equal(a->at.offset, b->at.offset);
  assert_int_equal(a->is_map, b->is_map);
  if (a->is_map) assert_memory_equal(&a->map, &b->map, sizeof a->map);
}

static void same_code(const struct code *a, const struct code *b)
{
  assert_int_equal(a->nkernel, b->nkernel);
  assert_int_equal(a->nlaunch, b->nlaunch);
  assert_int_equal(a->workspace, b->workspace);
  assert_int_equal(a->zeroed, b->zeroed);
  assert_int_equal(a->nstate, b->nstate);
  for (int i = 0; i < a->nstate; i++) assert_memory_equal(&a->state[i], &b->state[i], sizeof a->state[i]);
  for (int i = 0; i < a->nkernel; i++) {
    assert_string_equal(a->kernel[i].name, b->kernel[i].name);
    assert_int_equal(a->kernel[i].bytes, b->kernel[i].bytes);
    assert_memory_equal(a->kernel[i].cubin, b->kernel[i].cubin, (size_t)a->kernel[i].bytes);
    assert_int_equal(a->kernel[i].shared, b->kernel[i].shared);
    assert_int_equal(a->kernel[i].cluster, b->kernel[i].cluster);
  }
  for (int i = 0; i < a->nlaunch; i++) {
    const struct code_launch *x = &a->launch[i], *y = &b->launch[i];
    assert_string_equal(x->name, y->name);
    assert_int_equal(x->kernel, y->kernel);
    assert_int_equal(x->blocks, y->blocks);
    assert_int_equal(x->threads, y->threads);
    assert_int_equal(x->dependent, y->dependent);
    assert_int_equal(x->algorithm, y->algorithm);
    assert_int_equal(x->narg, y->narg);
    assert_memory_equal(&x->mul, &y->mul, sizeof x->mul);
    for (int k = 0; k < x->narg; k++) same_arg(&x->arg[k], &y->arg[k]);
  }
}

static struct code *sample(struct arena *mem)
{
  struct code *c = pretend_code(mem, names, 3, 1000);
  c->nstate = 1, c->state = NEWS(mem, struct code_state, 1), c->state[0] = (struct code_state){1, 2, 4000};
  c->launch[1].arg[0].is_map = true;
  c->launch[1].arg[0].map = (struct gpu_map_shape){.type = TT_F32, .rank = 2, .size = {8, 9}, .box = {4, 5}, .swizzle_bytes = 64};
  c->launch[2] = (struct code_launch){.name = "product", .how = "cublaslt", .kernel = -1, .narg = 5, .algorithm = 2};
  c->launch[2].arg = NEWS(mem, struct code_arg, 5);
  c->launch[2].mul = (struct blas_product){.batch = 2,
                                           .m = 3,
                                           .n = 4,
                                           .k = 5,
                                           .stride = {{15, 5, 1}, {20, 4, 1}, {12, 4, 1}, {12, 4, 1}, {0, 0, 1}},
                                           .epilogue = EPILOGUE_RELU_BIAS,
                                           .alpha = 0.5f,
                                           .beta = 2};
  return c;
}

static void code_comes_through(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct wire w = {0};
  struct code *c = sample(&mem), got;
  assert_int_equal(c->nkernel, 2); // two of the three are the same
  assert_int_equal(c->launch[1].kernel, 1);
  wire_put_code(&w, c);
  assert_int_equal(wire_get_code(&mem, &w, &got, &e), OK);
  assert_int_equal(w.at, w.s.n);
  same_code(c, &got);
  wire_free(&w);
  arena_close(&mem);
}

static void a_product_has_its_operands(void **state)
{
  (void)state;
  for (int bad = 0; bad < 3; bad++) {
    struct arena mem = {0};
    struct err e = {0};
    struct wire w = {0};
    struct code *c = sample(&mem), got;
    if (bad == 0) c->launch[2].narg = 4;
    if (bad == 1) c->launch[2].mul.beta = 0;
    if (bad == 2) c->launch[2].mul.epilogue = EPILOGUES;
    wire_put_code(&w, c);
    assert_int_equal(wire_get_code(&mem, &w, &got, &e), ENV);
    wire_free(&w);
    arena_close(&mem);
  }
}

static void torn_code_is_an_error(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct wire w = {0};
  wire_put_code(&w, sample(&mem));
  size_t whole = w.s.n;
  for (size_t n = 0; n < whole; n += 3) {
    struct err e = {0};
    struct code got;
    struct wire torn = {0};
    str_raw(&torn.s, w.s.p, n);
    assert_int_equal(wire_get_code(&mem, &torn, &got, &e), ENV);
    wire_free(&torn);
  }
  wire_free(&w);
  arena_close(&mem);
}

// Any eight bytes changed to any number: never more than an error, or code that names nothing outside of itself.
static void foreign_code_is_harmless(void **state)
{
  (void)state;
  static const int64_t numbers[] = {-1, 0, 7, INT32_MAX, INT64_MAX, INT64_MIN, 1 << 20};
  struct arena mem = {0};
  struct wire w = {0};
  wire_put_code(&w, sample(&mem));
  for (size_t at = 0; at + 8 <= w.s.n; at++)
    for (size_t k = 0; k < COUNT(numbers); k++) {
      struct arena_mark mark = arena_mark(&mem);
      struct err e = {0};
      struct code got;
      char was[8];
      w.at = 0, w.bad = false;
      memcpy(was, w.s.p + at, 8), memcpy(w.s.p + at, &numbers[k], 8);
      if (wire_get_code(&mem, &w, &got, &e) == OK)
        for (int i = 0; i < got.nlaunch; i++) assert_true(got.launch[i].kernel < got.nkernel);
      memcpy(w.s.p + at, was, 8);
      arena_reset(&mem, mark);
    }
  wire_free(&w);
  arena_close(&mem);
}

static void values_come_through(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct wire w = {0};
  struct err e = {0}, got;
  size_t n;
  err_set(&e, ERR_WRONG, NOWHERE, "%d is not %d", 1, 2);
  wire_put(&w, INT64_MIN), wire_put_real(&w, 0.1), wire_put_text(&w, "text"), wire_put_bytes(&w, "\0\1", 2), wire_put_error(&w, &e);
  assert_true(wire_get(&w) == INT64_MIN && wire_get_real(&w) == 0.1);
  assert_string_equal(wire_get_text(&mem, &w), "text");
  assert_memory_equal(wire_get_bytes(&w, &n), "\0\1", 2);
  assert_int_equal(n, 2);
  wire_get_error(&w, &got);
  assert_int_equal(got.id, ERR_WRONG);
  assert_string_equal(got.text, "1 is not 2");
  assert_false(w.bad);
  assert_int_equal(wire_get(&w), 0);
  assert_true(w.bad);
  wire_free(&w);
  arena_close(&mem);
}

// ---- sockets ----

static void *send_much(void *arg)
{
  struct wire w = {0};
  struct err e = {0};
  int fd = *(const int *)arg, carry[2];
  for (int i = 0; i < 1000000; i++) wire_put(&w, i);
  assert_int_equal(pipe(carry), 0);
  assert_int_equal(wire_send(fd, 42, &w, carry[1], &e), OK);
  assert_int_equal(write(carry[1], "x", 1), 1);
  close(carry[0]), close(carry[1]);
  wire_free(&w);
  return NULL;
}

static void messages_cross_a_socket(void **state)
{
  (void)state;
  int pair[2], carried;
  int64_t kind;
  pthread_t t;
  struct wire w = {0};
  struct err e = {0};
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  assert_int_equal(pthread_create(&t, NULL, send_much, &pair[0]), 0);
  assert_int_equal(wire_receive(pair[1], &kind, &w, &carried, 10, &e), OK);
  pthread_join(t, NULL);
  assert_int_equal(kind, 42);
  assert_true(carried >= 0);
  for (int i = 0; i < 1000000; i++)
    if (wire_get(&w) != i) fail_msg("number %d", i);
  assert_int_equal(wire_receive(pair[1], &kind, &w, &carried, 0.05, &e), NO); // nothing comes
  assert_int_equal(write(pair[0], "torn", 4), 4);
  assert_int_equal(wire_receive(pair[1], &kind, &w, &carried, 0.05, &e), NO); // half a head
  close(pair[0]);
  assert_int_equal(wire_receive(pair[1], &kind, &w, &carried, 10, &e), ENV);
  close(pair[1]);
  wire_free(&w);
}

static void foreign_requests_are_answered(void **state)
{
  (void)state;
  struct stage *s = pretend_stage();
  for (int64_t kind = -1; kind < 10; kind++)
    for (int n = 0; n < 40; n++) {
      struct wire in = {0}, out = {0};
      struct err e;
      for (int i = 0; i < n; i++) wire_put(&in, i % 3);
      stage_serve(s, kind, &in, -1, &out);
      assert_int_equal(wire_get(&out), 0); // the device is not lost
      wire_get_error(&out, &e);
      assert_true(e.status != OK || kind == ASK_DROP);
      wire_free(&in), wire_free(&out);
    }
  stage_free(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(code_comes_through),           cmocka_unit_test(a_product_has_its_operands),
                                     cmocka_unit_test(torn_code_is_an_error),        cmocka_unit_test(foreign_code_is_harmless),
                                     cmocka_unit_test(values_come_through),          cmocka_unit_test(messages_cross_a_socket),
                                     cmocka_unit_test(foreign_requests_are_answered)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
