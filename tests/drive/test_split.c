// Cuts of the programs of examples/ that are too large for one search. They are the same with any number of threads, and small parts are searched
// first. For a GPU, time is divided by the possible gain. Changes of the probe or of the cuts change the sizes of parts that are expected here.
// test: quick release
// test: timeout 300
#include "drive/drive.h"
#include "front/front.h"

#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_PARTS = 8 };
static const struct {
  const char *name;
  int n, ops[MOST_PARTS]; // operators of the parts
} rows[] = {
    {"layer", 6, {11, 12, 9, 8, 4, 2}}, {"moe", 3, {4, 4, 3}}, {"ngpt_alpha", 2, {1, 9}}, {"m_gqa", 1, {5}}, {"g_norm", 1, {9}},
};

struct told {
  int times, last, all;
};
static void progress(void *arg, const struct mica_progress *p)
{
  struct told *t = arg;
  assert_true(p->part >= 0 && p->part <= p->parts && p->done >= 0 && p->done <= 1);
  t->times++, t->last = p->part, t->all = p->parts;
}

static void split_of(struct arena *mem, struct job *j, const struct mica_options *o, const char *name)
{
  struct err e = {0};
  struct graph *g;
  char *path = arena_printf(mem, "%s/examples/%s.mica", MICA_SOURCE_DIR, name);
  assert_int_equal(load_file(mem, path, 0, NULL, &g, &e), OK);
  assert_int_equal(job_open(j, mem, g, o, &e), OK);
  assert_int_equal(job_split(j, &e), OK);
}

static void same_with_any_threads(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++)
    for (int threads = 1; threads <= 2; threads++) {
      struct arena mem = {0};
      struct job j;
      struct told t = {0};
      struct mica_options o = mica_options_default();
      o.dtype = "f32", o.threads = 2, o.search_threads = threads, o.remember = false, o.progress = progress, o.progress_arg = &t;
      split_of(&mem, &j, &o, rows[i].name);
      if (j.split.n != rows[i].n) fail_msg("%s: %d parts, not %d", rows[i].name, j.split.n, rows[i].n);
      for (int k = 0; k < j.split.n; k++) {
        assert_int_equal(graph_ops(j.split.parts[k].g), rows[i].ops[k]);
        assert_true(!k || graph_ops(j.split.parts[j.order[k]].g) >= graph_ops(j.split.parts[j.order[k - 1]].g));
      }
      assert_true(t.times > 0 && t.all > 0);
      job_close(&j);
      arena_close(&mem);
    }
}

// A part without a gain has the smallest weight; none has less than half of an equal one.
static void openings_by_gain(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct job j;
  struct mica_options o = mica_options_default();
  o.dtype = "f32", o.target = "sm_90a", o.remember = false;
  split_of(&mem, &j, &o, "layer");
  assert_true(j.split.n > 1);
  double sum = 0;
  int n = 0;
  for (int i = 0; i < j.split.n; i++) n += j.contests[i].twin < 0;
  for (int k = 0, before = -1; k < j.split.n; k++) {
    const int i = j.order[k];
    assert_true(j.contests[i].gain >= 0);
    if (before >= 0) assert_true(j.contests[i].gain <= j.contests[before].gain);
    before = i;
    if (j.contests[i].twin >= 0) continue;
    assert_true(opening_weight(&j, i) >= 0.5 / n - 1e-9);
    sum += opening_weight(&j, i);
  }
  assert_true(sum > 1 - 1e-9 && sum < 1 + 1e-9);
  const int first = j.order[0], last = j.order[j.split.n - 1];
  assert_true(j.contests[first].gain > 0 && opening_weight(&j, first) > 1.0 / n);
  assert_true(opening_weight(&j, first) > opening_weight(&j, last));
  job_close(&j);
  arena_close(&mem);
}

// A norm beside large products gains little over the kernel that is made of it by rule. It is searched if it is the whole program.
static void small_gains_are_not_searched(void **state)
{
  (void)state;
  static const char norm[] = " y = layer_norm(X, g, b)\n";
  for (int large = 0; large < 2; large++) {
    struct arena mem = {0};
    struct job j;
    struct err e = {0};
    struct graph *g;
    struct mica_options o = mica_options_default();
    o.target = "sm_90a", o.remember = false, o.threads = o.search_threads = 1;
    const char *text = arena_printf(&mem,
                                    "program p {\n X: bf16[2048, 768]\n g: bf16[768]\n b: bf16[768]\n W: bf16[768, 3072]\n V: bf16[3072, 768]\n"
                                    "%s return %s\n}\n",
                                    norm, large ? "layer_norm(matmul(gelu(matmul(y, W)), V) + X, g, b)" : "y");
    assert_int_equal(front_parse(&mem, text, strlen(text), "p", 0, NULL, &g, &e), OK);
    assert_int_equal(job_open(&j, &mem, g, &o, &e), OK);
    assert_int_equal(job_split(&j, &e), OK);
    assert_true(large ? j.split.n > 1 : j.split.n == 1);
    int norms = 0;
    for (int i = 0; i < j.split.n; i++) {
      struct search_result r = {0};
      const struct contest *c = &j.contests[i];
      bool product = false;
      for (int k = 0; k < c->part->g->nnodes; k++) product |= c->part->g->nodes[k].op == OP_MATMUL;
      if (product || c->twin >= 0) continue;
      norms++;
      assert_int_equal(pipe_search_part(&j, &j.contests[i], &r, &e), OK);
      assert_true(r.n > 0 && (r.complete || !large));
      assert_true(large ? !r.stats.states : r.stats.states > 0);
      if (large) assert_true(r.found[0].kernels == 1 && r.found[0].cost < 4e-6);
    }
    assert_true(norms > 0);
    job_close(&j);
    arena_close(&mem);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(same_with_any_threads), cmocka_unit_test(openings_by_gain),
                                     cmocka_unit_test(small_gains_are_not_searched)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
