// Rows that do not fit the scratch memory of a CPU's block, few and many, with composite and prime lengths. Graphs of the search can be compiled and
// cost less than operator by operator. All cores have work if a row can be divided.
// test: quick release
#include "../graphs.h"
#include "../search/examples.h"
#include "../thin.h"
#include "drive/drive.h"
#include "drive/pass.h"
#include "plan/plan.h"
#include "search/space.h"

#include <math.h>

static const char softmax[] = "return softmax(X, dim=1)", log_softmax[] = "return X - logsumexp(X, dim=1)",
                  logsumexp[] = "return logsumexp(X, dim=1)", rms[] = "G: f32[%d]\n return rms_norm(X, G)",
                  layer[] = "G: f32[%d]\n B: f32[%d]\n return layer_norm(X, G, B)";
static const struct {
  const char *body;
  int rows, columns;
  int kernels;   // of the first that is offered, at most
  int64_t least; // blocks of each of its kernels that reads X, at least
  int reads;     // kernels and operators that read X, at most
} cases[] = {
    {softmax, 16, 128256, 2, 2, 2},   {softmax, 64, 50257, 1, 64, 1},     {softmax, 16, 128239, 1, 16, 1},    {softmax, 1, 1000000, 3, 2, 2},
    {softmax, 2, 131072, 2, 2, 2},    {log_softmax, 16, 128256, 3, 2, 2}, {log_softmax, 1, 1000000, 3, 2, 2}, {logsumexp, 1, 1000000, 2, 2, 1},
    {logsumexp, 16, 128256, 2, 2, 1}, {logsumexp, 16, 128239, 1, 16, 1},  {rms, 16, 128256, 2, 2, 2},         {rms, 1, 1000000, 3, 2, 2},
    {layer, 16, 128256, 4, 2, 3},
};

static double op_by_op(struct job *j) { return search_library_seconds(&j->target, j->stable); }

// The fewest blocks of a kernel that reads the program's first input, and how many kernels and operators read it.
static int64_t fewest_blocks(const struct graph *g, int *readers)
{
  int64_t fewest = INT64_MAX;
  *readers = 0;
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    bool reads = false;
    for (int k = 0; k < n->nin; k++) reads |= g->tensors[n->in[k]].node == 0;
    *readers += reads;
    if (n->sub && reads) fewest = MIN(fewest, graph_blocks(n->sub));
  }
  return fewest;
}

static void look(struct arena *mem, size_t i)
{
  struct job j;
  struct err e = {0};
  struct mica_options o = mica_options_default();
  struct search_result r;
  char note[256];
  struct graph *stable;
  const char *body = arena_printf(mem, cases[i].body, cases[i].columns, cases[i].columns);
  const char *text = arena_printf(mem, "program p { X: f32[%d, %d]\n %s }", cases[i].rows, cases[i].columns, body);
  o.target = "cpu", o.threads = o.search_threads = 2, o.remember = false;
  if (job_open(&j, mem, graph_of(mem, text), &o, &e) != OK) fail_msg("%s: %s", text, e.text);
  j.target = machine;
  assert_int_equal(job_split(&j, &e), OK);
  assert_int_equal(j.split.n, 1);
  struct contest *c = &j.contests[0];
  const struct pricing by = price_open(mem, &j.target, c->part->g);
  assert_int_equal(pipe_search_part(&j, c, &r, &e), OK);
  if (!r.n || r.found[0].cost >= op_by_op(&j)) fail_msg("%s: nothing costs less than op-by-op", text);
  for (int k = 0; k < r.n; k++)
    if (stable_form(mem, r.found[k].g, by.overflows, &stable, note, &e) != OK) fail_msg("%s: graph %d: %s", text, k + 1, e.text);
  if (r.found[0].kernels > cases[i].kernels) fail_msg("%s: %d kernels, %s", text, r.found[0].kernels, r.found[0].schedule);
  int readers;
  if (fewest_blocks(r.found[0].g, &readers) < cases[i].least) fail_msg("%s: %s", text, r.found[0].schedule);
  if (readers > cases[i].reads) fail_msg("%s: X is read %d times, %s", text, readers, r.found[0].schedule);
  job_close(&j);
}

static void is_offered(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(cases); i += (size_t)quick_step(3)) {
    struct arena mem = {0};
    look(&mem, i);
    arena_close(&mem);
  }
}

// A row less its mean is computed again for the result, so a core needs room for a few numbers only.
static void keeps_no_rows(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct job j;
  struct err e = {0};
  struct mica_options o = mica_options_default();
  const char text[] = "program p { X: f32[64, 131072]\n c = X - mean(X, dim=1)\n return c / sqrt(mean(square(c), dim=1) + 0.00001) }";
  o.target = "cpu", o.threads = o.search_threads = 2, o.remember = false;
  assert_int_equal(job_open(&j, &mem, graph_of(&mem, text), &o, &e), OK);
  j.target = machine;
  assert_int_equal(job_split(&j, &e), OK);
  struct candidate x = {.found = fuse_parts(&mem, j.contests[0].part->g, FUSE_TILE), .note = "", .schedule = ""};
  assert_non_null(x.found);
  if (pass_candidate(&j, &j.contests[0], &x, PASS_C, &e) != OK) fail_msg("%s", e.text);
  assert_int_equal(x.info.kernels, 1);
  assert_in_range(x.info.scratch, 0, 1024);
  str_free(&x.source), str_free(&x.header);
  job_close(&j);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(is_offered), cmocka_unit_test(keeps_no_rows)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
