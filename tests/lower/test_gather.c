// Data-dependent indices, on GPUs: gathers and updates become kernels of the scheme rows, which the interpreter finds nothing against, for the
// cheapest plan and for all choices of each kernel; an index outside its dimension reads 0 and writes nothing.
#include "run_table.h"
#include "sim/device_host.h"
#include "sim/number.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void cheapest(void **state)
{
  (void)state;
  struct target gpu = h200();
  run_cheapest("gather", &gpu);
}

// A gather that stands in a block graph with axes and a loop.
static void in_block_graphs(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct device_program d;
  struct target gpu = h200();
  must(lower_program(&mem, table_graph(&mem, "gather_others", "gather_in_a_loop"), &gpu, &(struct lower_opts){0}, &d, &e), "in a loop", &e);
  assert_int_equal(d.nlaunch, 1);
  run_launches(&mem, "in a loop", &d, -1);
  must(lower_program(&mem, table_graph(&mem, "gather_others", "index_joined_by_a_loop"), &gpu, &(struct lower_opts){0}, &d, &e), "joined", &e);
  run_launches(&mem, "joined", &d, -1);
  arena_close(&mem);
}

static void all_choices(void **state)
{
  (void)state;
  struct target gpu = h200();
  assert_true(run_choices("gather", &gpu, 5, NULL, NULL) > 50);
}

// ---- what is outside ----

static void put(struct device_host *h, int input, int64_t i, double x)
{
  num_set(h->in_type[input], x, (char *)h->in[input] + i * tile_types[h->in_type[input]].bytes);
}

static double got(const struct device_host *h, int64_t i, enum tile_type type)
{
  return num_one(type, (const char *)h->out[0] + i * tile_types[type].bytes);
}

// The kernels of a program of the table, with the indices of input 0 as they are here.
static void outside(struct arena *mem, const char *name, struct device_host *h, int n, const double *index)
{
  struct target gpu = h200();
  struct err e = {0};
  struct device_program *d = NEW(mem, struct device_program);
  must(lower_program(mem, table_graph(mem, "gather", name), &gpu, &(struct lower_opts){0}, d, &e), name, &e);
  must(device_host_open(h, mem, d, &(struct device_host_opts){.seed = 5}, &e), name, &e);
  for (int i = 0; i < n; i++) put(h, 0, i, index[i]);
  for (int i = 0; i < d->nlaunch; i++) {
    struct sim_report r;
    must(device_host_launch(h, i, &r, NULL, &e), name, &e);
    if (r.found) fail_msg("%s: %s", name, r.errors[0].text);
  }
}

static void gathers_zeros(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct device_host h;
  static const double index[8] = {3, -1, 100, 99, -2147483648.0, 2147483647.0, 0, 101};
  outside(&mem, "embedding", &h, 8, index);
  for (int i = 0; i < 8; i++)
    for (int k = 0; k < 64; k++) {
      bool there = index[i] >= 0 && index[i] < 100;
      double want = there ? num_one(TT_F16, (const char *)h.in[1] + 2 * ((int)index[i] * 64 + k)) : 0;
      if (got(&h, i * 64 + k, TT_F16) != want) fail_msg("slice %d (index %g), element %d", i, index[i], k);
    }
  device_host_close(&h), arena_close(&mem);
}

static void updates_nothing(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct device_host h;
  static const double index[5] = {30, -1, 7, -9, 1e12};
  outside(&mem, "state_in_place", &h, 5, index);
  for (int i = 0; i < 30; i++)
    for (int k = 0; k < 24; k++) {
      double was = num_one(TT_BF16, (const char *)h.in[1] + 2 * (i * 24 + k)), is = num_one(TT_BF16, (const char *)h.in[2] + 2 * (2 * 24 + k));
      if (got(&h, i * 24 + k, TT_BF16) != (i == 7 ? is : was)) fail_msg("slice %d, element %d", i, k);
    }
  device_host_close(&h), arena_close(&mem);
}

// An index that is rounded from a float lies within its limits, also where the float is none: NaN counts as 0, which is below them here.
static void rounds_anything(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct device_host h;
  static const double x[8] = {NAN, INFINITY, -INFINITY, 1e30, -1e30, 0.5, NAN, 1};
  static const int want[8] = {3, 19, 3, 19, 3, 14, 3, 19};
  outside(&mem, "a_rounded_index", &h, 8, x);
  for (int i = 0; i < 8; i++)
    for (int k = 0; k < 16; k++)
      if (got(&h, i * 16 + k, TT_F16) != num_one(TT_F16, (const char *)h.in[1] + 2 * (want[i] * 16 + k))) fail_msg("slice %d, element %d", i, k);
  device_host_close(&h), arena_close(&mem);
}

// ---- what stays apart ----

// A gather moves into its reader only where that reads what the gather would have read.
static void readers_of_later_versions_do_not_gather(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct graph *w, *within;
  must(wrap_library(&mem, table_graph(&mem, "gather", "versions_of_a_state"), &w, &e), "versions", &e);
  assert_int_equal(legal_gathers(&mem, w, &within, &e), OK); // z * 2, before the update
  int updates = 0;
  for (int i = 0; i < within->nnodes; i++) {
    const struct node *n = &within->nodes[i];
    updates += node_updated(n) >= 0;
    if (n->op == OP_BLOCK && updates == 2 && node_updated(n) < 0) assert_false(graph_chooses(n->sub)); // z + 1
  }
  assert_int_equal(updates, 2);
  must(state_check(within, &e), "order", &e);
  arena_close(&mem);
}

static void updates_in_block_graphs_are_refused(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct graph *w;
  struct graph *g = table_graph(&mem, "gather_others", "update_in_a_block");
  assert_int_equal(wrap_library(&mem, g, &w, &e), USER);
  assert_int_equal(e.id, ERR_TARGET);
  assert_non_null(strstr(e.text, "update in a block graph"));
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(cheapest),
                                     cmocka_unit_test(in_block_graphs),
                                     cmocka_unit_test(all_choices),
                                     cmocka_unit_test(gathers_zeros),
                                     cmocka_unit_test(updates_nothing),
                                     cmocka_unit_test(rounds_anything),
                                     cmocka_unit_test(readers_of_later_versions_do_not_gather),
                                     cmocka_unit_test(updates_in_block_graphs_are_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
