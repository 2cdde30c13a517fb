// Counts of kernels (count.def) against the needs of the graph, for every setting that a scheme proposes.
#include "given.h"
#include "lower/count.h"

// For a product [64, 1024] x [1024, columns] in 8 iterations a block loads [64, 128] of X, in two boxes of 64 rows, and 128 rows of W
// in as many boxes as the widest of 64, 32, 16 columns that divides its own takes. Fields of the graphs: blocks (0 where settings cut
// rows), boxed of a block, the rest of all. Blocks that share an item have a share of its boxes each.
static bool close_to(double x, double want) { return x >= want * 0.9999 && x <= want * 1.0001; }

static void is_counted(const struct table_graph *x, const struct kernel_counts *c, double sharing)
{
  const struct {
    const char *what;
    double is;
  } all[] = {{"blocks", c->blocks / sharing},
             {"memory", c->memory},
             {"boxed", c->boxed * sharing},
             {"mma", c->mma * c->items},
             {"wgmma", c->wgmma * c->items}};
  for (size_t k = 0; k < COUNT(all); k++) {
    double want = table_number(x, all[k].what);
    bool any = !strcmp(all[k].what, "blocks") && !want;
    if (!any && !close_to(all[k].is, want)) fail_msg("%s: %s is %g, not %g", x->title, all[k].what, all[k].is, want);
  }
}

static void counts_are_those_of_the_graph(void **state)
{
  (void)state;
  const struct target gpu = h200();
  struct table t;
  table_open(&t, "count");
  for (int i = 0; i < t.n; i++) {
    const char *scheme = table_field(&t.row[i], "scheme");
    struct arena mem = {0};
    struct err e = {0};
    struct lower_plan p;
    const struct lower_opts o = {.tails = true, .dependent = true};
    int seen = 0;
    must(lower_plan(&mem, graph_of(&mem, t.row[i].text), &gpu, &o, &p, &e), t.row[i].title, &e);
    assert_int_equal(p.nunits, 1);
    for (int k = 0; k < p.unit[0].nchoices; k++) {
      const struct choice *c = &p.unit[0].choice[k];
      const struct lower_job j = lower_unit_job(&mem, &p, &p.unit[0], false);
      struct kernel_counts counts;
      if (c->scheme == SCHEME_LIBRARY || strcmp(scheme_at(c->scheme)->name, scheme) != 0) continue;
      assert_true(scheme_counts(scheme_at(c->scheme), &j, &c->k, &counts));
      is_counted(&t.row[i], &counts, (double)MAX(1, scheme_knob(c, "split"))), seen++;
    }
    if (!seen) fail_msg("%s: no setting of %s", t.row[i].title, scheme);
    arena_close(&mem);
  }
  table_close(&t);
}

// More of anything that takes time takes no less.
static void more_takes_longer(void **state)
{
  (void)state;
  const struct target gpu = h200();
  const struct kernel_counts c = {.kind = COUNT_WGMMA,
                                  .blocks = 128,
                                  .items = 128,
                                  .threads = 256,
                                  .room = 1,
                                  .cluster = 1,
                                  .memory = 1e6,
                                  .cache = 2e6,
                                  .flight = 65536,
                                  .loaded = 262144,
                                  .wgmma = 1e6,
                                  .shared = 1e5,
                                  .lanes = 1e4,
                                  .steps = 8};
  const double before = kernel_time(&c, &gpu, NULL);
  struct kernel_counts more;
#define LONGER(id, by) more = c, more.id += by, assert_true(kernel_time(&more, &gpu, NULL) > before)
  LONGER(memory, 1e8), LONGER(cache, 1e9), LONGER(boxed, 1e6), LONGER(lines, 1e6), LONGER(wgmma, 1e9), LONGER(mma, 1e9), LONGER(shared, 1e7),
      LONGER(lanes, 1e8), LONGER(steps, 100), LONGER(waits, 10), LONGER(folds, 100), LONGER(barriers, 100), LONGER(loop_barriers, 100),
      LONGER(tail, 1e-6);
#undef LONGER
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(counts_are_those_of_the_graph), cmocka_unit_test(more_takes_longer)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
