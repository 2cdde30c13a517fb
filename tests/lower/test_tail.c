// Kernels with the kernel that finishes them in one launch: by clusters, and by the last block to come. Each pair is lowered in
// all ways, run in the interpreter, and held against float64; one launch does it, and counters are left at zero.
#include "../gpu_of.h"
#include "../tables.h"
#include "sim/device_host.h"
#include "cuda/cuda.h"
#include "lower/lower.h"
#include "plan/plan.h"
#include "thin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { CLUSTERS = 1, LAST = 2 };

static struct graph *stable_of(struct arena *mem, const char *text)
{
  struct err e = {0};
  struct graph *g = graph_of(mem, text), *out;
  char note[256];
  bool changed;
  if (plan_stable(mem, g, &out, &changed, note, &e)) fail_msg("%s", e.text);
  return out;
}

static void run(struct arena *mem, const char *name, const struct device_program *d)
{
  struct err e = {0};
  struct device_host h = {0};
  struct device_answer a[8];
  struct sim_report r;
  if (device_host_open(&h, mem, d, &(struct device_host_opts){.seed = 5}, &e)) fail_msg("%s: %s", name, e.text);
  for (int round = 0; round < 2; round++) { // the second finds the counters as the first left them
    if (device_host_launch(&h, 0, &r, NULL, &e)) fail_msg("%s: %s", name, e.text);
    if (r.found) fail_msg("%s %s: %s", name, d->launch[0].how, r.errors[0].text);
    int n = device_host_compare(&h, 0, (int)COUNT(a), a), outputs = 0;
    for (int i = 0; i < n; i++) {
      if (!a[i].fine) fail_msg("%s %s: relative difference %g", name, d->launch[0].how, a[i].relative);
      outputs += a[i].output >= 0;
    }
    assert_int_equal(outputs, graph_outputs(d->g, NULL));
    assert_true(device_host_counters_zero(&h));
  }
  device_host_close(&h);
}

// The knob of the scheme that selects the way.
static int way_of(const struct choice *c)
{
  const struct scheme *s = scheme_at(c->scheme);
  for (int k = 0; k < KNOBS && s->knob[k]; k++)
    if (!strcmp(s->knob[k], "last")) return c->k.v[k] ? LAST : CLUSTERS;
  return 0;
}

static void compiles(struct arena *mem, const struct device_program *d)
{
  struct err e = {0};
  struct str source = {0};
  struct nvrtc *r;
  struct cubin cubin;
  if (cuda_print(d->launch[0].p, d->launch[0].k, d->gpu->arch, &source, &e)) fail_msg("%s: %s", d->launch[0].how, e.text);
  struct err missing = {0};
  if (nvrtc_open(&r, &missing) == OK) {
    if (nvrtc_compile(r, mem, d->launch[0].name, str_text(&source), d->gpu->arch, &cubin, &e)) fail_msg("%s: %s", d->launch[0].how, e.text);
    nvrtc_close(r);
  }
  str_free(&source);
}

// The ways that there must be.
static int ways_wanted(const struct table_graph *x, const struct target *gpu)
{
  if (gpu != gpu_of("sm_90a")) return strcmp(table_field(x, "scheme"), "mma") ? 0 : LAST;
  return (table_has(x, "ways", "clusters") ? CLUSTERS : 0) | (table_has(x, "ways", "last") ? LAST : 0);
}

static void hold(const struct table_graph *x, const struct target *gpu)
{
  const char *scheme = table_field(x, "scheme");
  struct arena mem = {0};
  struct err e = {0};
  struct lower_plan p;
  int ways = 0, all = ways_wanted(x, gpu), seen[3] = {0};
  if (lower_plan(&mem, stable_of(&mem, x->text), gpu, &(struct lower_opts){.tails = true, .dependent = true}, &p, &e))
    fail_msg("%s: %s", x->title, e.text);
  assert_int_equal(p.nunits, 2);
  for (int c = 0; c < p.unit[0].nchoices; c++) {
    struct choice pick[2] = {p.unit[0].choice[c], p.unit[1].choice[0]};
    struct device_program d;
    if (!pick[0].tail || strcmp(scheme_at(pick[0].scheme)->name, scheme) != 0) continue;
    assert_true(lower_inside(&p, pick, 1) && !lower_inside(&p, pick, 0));
    if (lower_make(&mem, &p, pick, &d, &e)) fail_msg("%s: %s", x->title, e.text);
    assert_int_equal(d.nlaunch, 1);
    ways |= way_of(&pick[0]);
    if (seen[way_of(&pick[0])]++ % (3 * thinned(4))) continue; // one of three of a kind
    run(&mem, x->title, &d);
    if (seen[way_of(&pick[0])] == 1) compiles(&mem, &d);
  }
  if (ways != all) fail_msg("%s: ways %d, not %d: %s", x->title, ways, all, p.unit[0].why);
  arena_close(&mem);
}

static void tails(void **state)
{
  (void)state;
  struct table t;
  table_open(&t, "tail");
  for (int i = 0; i < t.n; i++) hold(&t.row[i], gpu_of("sm_90a")), hold(&t.row[i], gpu_of("sm_80"));
  table_close(&t);
}

// The tail's reads must cover all that its group of blocks left, its writes only its own part, and it loads no more than the head left.
static void apart(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct lower_plan p;
  struct table t;
  table_open(&t, "tail_refused");
  if (lower_plan(&mem, stable_of(&mem, t.row[0].text), gpu_of("sm_90a"), &(struct lower_opts){.tails = true}, &p, &e)) fail_msg("%s", e.text);
  for (int c = 0; c < p.unit[0].nchoices; c++) assert_true(!p.unit[0].choice[c].tail || !way_of(&p.unit[0].choice[c]));
  if (lower_plan(&mem, stable_of(&mem, t.row[2].text), gpu_of("sm_90a"), &(struct lower_opts){.tails = true}, &p, &e)) fail_msg("%s", e.text);
  for (int c = 0; c < p.unit[0].nchoices; c++) assert_false(p.unit[0].choice[c].tail);
  // Columns that are summed are parts too: a cluster of all four blocks.
  if (lower_plan(&mem, stable_of(&mem, t.row[1].text), gpu_of("sm_90a"), &(struct lower_opts){.tails = true}, &p, &e)) fail_msg("%s", e.text);
  for (int c = 0; c < p.unit[0].nchoices; c++) {
    struct choice pick[2] = {p.unit[0].choice[c]};
    struct device_program d;
    if (!pick[0].tail || way_of(&pick[0]) != CLUSTERS) continue;
    if (lower_make(&mem, &p, pick, &d, &e)) fail_msg("%s", e.text);
    assert_int_equal(d.launch[0].k->cluster, 4);
    run(&mem, "columns", &d);
    table_close(&t);
    arena_close(&mem);
    return;
  }
  fail_msg("no cluster for sums over columns: %s", p.unit[0].why);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(tails), cmocka_unit_test(apart)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
