// Graphs are listed in the order of prices by lowering. The first is at least as good as all graphs of the list by the search's own model. Its price is
// the same as by a fresh pricer, without remembered results. Every listed graph has a scheme for each kernel.
// test: release
// test: timeout 600
#include "../thin.h"
#include "drive/drive.h"
#include "front/front.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const double SAME = 1e-5; // prices that differ by less than this share are the same

static const struct {
  const char *file;
  struct setting set[5];
  bool refused; // the model's own list has graphs that cannot be made
} rows[] = {
    {"bench/programs/attention", {{"b", 8}, {"h", 12}, {"t", 197}, {"s", 197}, {"d", 64}}, true},
    {"bench/programs/cosine", {{"m", 64}, {"n", 64}, {"k", 256}}, true},
    {"bench/programs/max", {{"b", 8}, {"m", 512}, {"n", 1023}}, false},
};

static const struct graph *program(struct arena *mem, const char *file, const struct setting *set)
{
  struct err e = {0};
  struct graph *g = NULL;
  int n = 0;
  while (n < 5 && set[n].name) n++;
  if (front_load(mem, arena_printf(mem, "%s/%s.mica", MICA_SOURCE_DIR, file), n, set, &g, &e)) err_print(stderr, &e), fail();
  return g;
}

static void the_first_is_the_best(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(rows); i += (size_t)quick_step(3)) {
    struct arena mem = {0};
    struct job j;
    struct err e = {0};
    struct mica_options o = mica_options_default();
    struct search_result r, plain;
    o.target = "sm_90a", o.threads = o.search_threads = 2, o.remember = false;
    assert_int_equal(job_open(&j, &mem, program(&mem, rows[i].file, rows[i].set), &o, &e), OK);
    assert_int_equal(job_split(&j, &e), OK);
    struct contest *c = &j.contests[0];
    struct search_opts so = job_part_opts(&j, c);
    struct pricing by = price_open(&mem, &j.target, c->part->g);
    by.memo = NULL; // what the search remembers of kernels, it has to find again
    assert_int_equal(search_run(&mem, c->part->g, &j.target, &so, &plain, &e), OK);
    assert_int_equal(pipe_search_part(&j, c, &r, &e), OK);
    assert_true(r.n > 0);
    bool refused = false;
    for (int k = 0; k < r.n; k++) assert_true(isfinite(r.found[k].cost) && r.found[k].cost == price_graph(&by, r.found[k].g, 0));
    for (int k = 0; k < plain.n && k < 64; k++) {
      double price = price_graph(&by, plain.found[k].g, 0);
      refused |= !isfinite(price);
      if (price < (1 - SAME) * r.found[0].cost)
        fail_msg("%s: graph %d of the model's list takes %.2f us, the first of the offered ones %.2f", rows[i].file, k + 1, 1e6 * price,
                 1e6 * r.found[0].cost);
    }
    assert_int_equal(refused, rows[i].refused);
    job_close(&j);
    arena_close(&mem);
  }
}

// Plans that the search's model likes less have prices too: two products by the library and one kernel, behind many plans of two kernels.
static void the_best_of_many_is_offered(void **state)
{
  (void)state;
  static const struct setting sizes[5] = {{"m", 40}, {"n", 14336}};
  struct arena mem = {0};
  struct job j;
  struct err e = {0};
  struct mica_options o = mica_options_default();
  struct search_result r, wide;
  o.target = "sm_90a", o.threads = o.search_threads = 2, o.remember = false;
  assert_int_equal(job_open(&j, &mem, program(&mem, "examples/m_gated", sizes), &o, &e), OK);
  assert_int_equal(job_split(&j, &e), OK);
  struct contest *c = &j.contests[0];
  struct search_opts so = job_part_opts(&j, c);
  struct pricing by = price_open(&mem, &j.target, c->part->g);
  const struct pricer pricer = pricing_pricer(&by);
  so.pricer = &pricer, so.most = 512;
  assert_int_equal(search_run(&mem, c->part->g, &j.target, &so, &wide, &e), OK);
  assert_int_equal(pipe_search_part(&j, c, &r, &e), OK);
  assert_true(r.n > 0 && wide.n > r.n);
  assert_true(r.found[0].cost <= 1.005 * wide.found[0].cost);
  assert_int_equal(r.found[0].kernels, 3);
  job_close(&j);
  arena_close(&mem);
}

// The norm of the keys of an attention is searched alone, too. Kernels that read its result may then have as many operators as others.
static void operands_are_searched_alone(void **state)
{
  (void)state;
  static const char text[] = "program keys {\n Q: f16[8, 16, 64]\n K: f16[8, 128, 64]\n V: f16[8, 128, 64]\n w: f16[64]\n"
                             " return matmul(softmax(matmul(Q, transpose(rms_norm(K, w, eps=1e-6))), dim=2), V)\n}\n";
  struct arena mem = {0};
  struct job j;
  struct err e = {0};
  struct graph *g;
  struct mica_options o = mica_options_default();
  struct search_result whole, r;
  o.target = "sm_90a", o.threads = o.search_threads = 2, o.remember = false;
  assert_int_equal(front_parse(&mem, text, strlen(text), "keys", 0, NULL, &g, &e), OK);
  assert_int_equal(job_open(&j, &mem, g, &o, &e), OK);
  assert_int_equal(job_split(&j, &e), OK);
  assert_int_equal(j.split.n, 1);
  struct contest *c = &j.contests[0];
  struct search_opts so = job_part_opts(&j, c);
  struct pricing by = price_open(&mem, &j.target, c->part->g);
  const struct pricer pricer = pricing_pricer(&by);
  so.pricer = &pricer;
  assert_int_equal(search_run(&mem, c->part->g, &j.target, &so, &whole, &e), OK);
  assert_int_equal(pipe_search_part(&j, c, &r, &e), OK);
  assert_true(r.n > whole.n && r.found[0].cost < whole.found[0].cost);
  for (int k = 1; k < r.n; k++) assert_true(r.found[k - 1].cost <= r.found[k].cost);
  for (int k = 0; k < r.n; k++) {
    struct certificate proof;
    if (k > 4 && r.found[k].structure < whole.n) continue;
    assert_int_equal(graph_check(r.found[k].g, &e), OK);
    assert_int_equal(verify_equal(c->part->g, r.found[k].g, &(struct verify_opts){.seed = 1, .threads = 2}, &proof, &e), OK);
    assert_true(proof.equal);
  }
  job_close(&j);
  arena_close(&mem);
}

// A kernel of a part that cannot be made in the same way within the whole is made as the model likes it best there.
static void a_whole_takes_what_its_parts_take(void **state)
{
  (void)state;
  static const char text[] = "program gelu() {\n X: f16[128, 2560]\n W1: f16[2560, 10240]\n W3: f16[2560, 10240]\n R: f16[10240]\n"
                             " x = matmul(X, W1)\n"
                             " return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + R * x * x * x))) * matmul(X, W3)\n}\n";
  struct arena mem = {0};
  struct err e = {0};
  struct mica_options o = mica_options_default();
  struct graph *g;
  json_t *r, *part;
  bool recalled;
  size_t i;
  double sum = 0;
  o.target = "sm_90a", o.threads = o.search_threads = 2, o.remember = false, o.time = 300;
  assert_int_equal(front_parse(&mem, text, sizeof text - 1, NULL, 0, NULL, &g, &e), OK);
  if (pipe_optimize(&mem, g, &o, &r, &recalled, &e) != OK) fail_msg("%s", e.text);
  assert_true(json_array_size(json_object_get(r, "parts")) > 1);
  json_array_foreach(json_object_get(r, "parts"), i, part)
  {
    double best = INFINITY;
    json_t *x;
    size_t k;
    json_array_foreach(json_object_get(part, "candidates"), k, x) best =
        fmin(best, json_object_get(x, "dropped") ? INFINITY : json_number_value(json_object_get(x, "model_us")));
    sum += best;
  }
  const double whole = json_number_value(json_object_get(json_object_get(r, "best"), "model_us"));
  if (!(whole < 1.1 * sum)) fail_msg("the whole takes %g us by the model, its parts %g", whole, sum);
  json_decref(r);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_first_is_the_best), cmocka_unit_test(the_best_of_many_is_offered),
                                     cmocka_unit_test(operands_are_searched_alone), cmocka_unit_test(a_whole_takes_what_its_parts_take)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
