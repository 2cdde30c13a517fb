// Several threads with a context each, which call all functions of the interface for a CPU: reading, building, optimizing, saving, loading, running,
// comparing, layouts. They share a database. `make tsan` runs this test with the thread sanitizer.
// test: timeout 300
#include "drive/drive.h"
#include "folder.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { THREADS = 3 };

struct lane {
  int i;
  char failed[600]; // "" where nothing has
};

static bool need(struct lane *l, struct mica_context *m, int status, const char *what)
{
  if (status != MICA_OK && !*l->failed) snprintf(l->failed, sizeof l->failed, "%s: %d, %.500s", what, status, mica_error(m));
  return status == MICA_OK;
}

static bool check(struct lane *l, bool good, const char *what)
{
  if (!good && !*l->failed) snprintf(l->failed, sizeof l->failed, "%s", what);
  return good;
}

static struct mica_program *squares(struct lane *l, struct mica_context *m, int rows)
{
  struct mica_graph *g;
  struct mica_program *p = NULL;
  const int64_t shape[] = {rows, 8};
  int x, y, z;
  bool built = need(l, m, mica_graph_open(m, "squares", &g), "open") && need(l, m, mica_graph_input(g, "X", MICA_F32, 2, shape, &x), "input") &&
               need(l, m, mica_graph_op(g, "square", 1, &x, NULL, &y, NULL), "square") &&
               need(l, m, mica_graph_op(g, "sum", 1, &y, "dim=1", &z, NULL), "sum") && need(l, m, mica_graph_output(g, z), "output") &&
               need(l, m, mica_graph_program(g, &p), "program");
  return built ? p : NULL;
}

static void runs(struct lane *l, struct mica_context *m, struct mica_module *x, int rows)
{
  float in[16 * 8], out[16];
  for (int i = 0; i < rows * 8; i++) in[i] = (float)(i % 13 + l->i);
  if (!need(l, m, mica_module_call(x, (const void *[]){in}, (void *[]){out}, NULL, NULL), "call")) return;
  for (int r = 0; r < rows; r++) {
    double sum = 0;
    for (int k = 0; k < 8; k++) sum += (double)in[8 * r + k] * (double)in[8 * r + k];
    check(l, fabs((double)out[r] - sum) <= 1e-5 * sum, "another value");
  }
}

static void optimizes(struct lane *l, struct mica_context *m)
{
  struct mica_options o = mica_options_default();
  struct mica_report *r;
  struct mica_module *x, *y;
  char db[300], saved[300];
  const int rows = 4 + l->i;
  struct mica_program *p = squares(l, m, rows);
  snprintf(db, sizeof db, "%s/mica.db", folder), snprintf(saved, sizeof saved, "%s/saved%d", folder, l->i);
  o.db = db, o.measure = 1, o.seconds = 0.01, o.threads = 1, o.search_threads = 2;
  if (!p || !need(l, m, mica_optimize(m, p, &o, &r), "optimize") || !need(l, m, mica_module_of(m, r, &x), "module")) return;
  runs(l, m, x, rows);
  if (!need(l, m, mica_report_save(m, r, saved), "save") || !need(l, m, mica_module_load(m, saved, &y), "load")) return;
  runs(l, m, y, rows);
  mica_module_close(x);
}

static void compares(struct lane *l, struct mica_context *m)
{
  struct mica_program *a = squares(l, m, 4), *b, *c;
  const char *json;
  static const char same[] = "program same() {\n  X: f32[4, 8]\n  return sum(X * X, dim=1)\n}\n",
                    other[] = "program other() {\n  X: f32[4, 8]\n  return sum(X * 2, dim=1)\n}\n";
  if (!a || !need(l, m, mica_load_text(m, same, "same", 0, NULL, &b), "text") || !need(l, m, mica_load_text(m, other, "other", 0, NULL, &c), "text"))
    return;
  check(l, mica_verify(m, a, b, 1, &json) == MICA_OK, "equal ones differ");
  check(l, mica_verify(m, a, c, 1, &json) == MICA_NO, "others are equal");
}

static void lays(struct lane *l, struct mica_context *m)
{
  struct mica_layout *a, *b, *c;
  if (need(l, m, mica_layout_parse(m, "(4,8):(8,1)", false, &a), "layout") && need(l, m, mica_layout_parse(m, "(2,2):(1,4)", false, &b), "layout") &&
      need(l, m, mica_layout_compose(m, a, b, &c), "compose"))
    check(l, mica_layout_at(c, 1) == 8, "another offset");
  check(l, mica_layout_parse(m, "(4", false, &a) == MICA_USER && strlen(mica_error(m)) > 10, "a wrong layout is taken");
}

static void *works(void *arg)
{
  struct lane *l = arg;
  struct mica_context *m = mica_open();
  for (int k = 0; k < 5; k++) compares(l, m), lays(l, m);
  optimizes(l, m);
  optimizes(l, m); // recalled
  mica_close(m);
  return NULL;
}

static void contexts_do_not_know_of_each_other(void **state)
{
  (void)state;
  struct lane lane[THREADS] = {{0}};
  pthread_t thread[THREADS];
  for (int i = 0; i < THREADS; i++) lane[i].i = i, assert_int_equal(pthread_create(&thread[i], NULL, works, &lane[i]), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  for (int i = 0; i < THREADS; i++)
    if (*lane[i].failed) fail_msg("thread %d: %s", i, lane[i].failed);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(contexts_do_not_know_of_each_other)};
  return cmocka_run_group_tests(tests, folder_enter, folder_leave);
}
