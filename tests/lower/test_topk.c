// topk on GPUs: kernels of the scheme rows. The interpreter finds nothing against them, for the cheapest plan of two GPUs and for choices of each
// kernel. Ties, NaN and infinities are chosen in the order of the interpreter of graphs, to the bit.
#include "run_table.h"
#include "sim/number.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void cheapest(void **state)
{
  (void)state;
  run_cheapest("topk", gpu_of("sm_90a")), run_cheapest("topk", gpu_of("sm_80"));
}

static void in_the_kernel_before(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct device_program d;
  struct target gpu = h200();
  must(lower_program(&mem, table_graph(&mem, "topk_others", "softmax_before"), &gpu, &(struct lower_opts){0}, &d, &e), "softmax", &e);
  assert_int_equal(d.nlaunch, 1);
  run_launches(&mem, "softmax", &d, -1);
  arena_close(&mem);
}

static void results_are_transposed(void **state)
{
  (void)state;
  static const char *const names[] = {"transposed", "transposed_one"};
  for (size_t i = 0; i < COUNT(names); i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct device_program d;
    struct target gpu = h200();
    must(lower_program(&mem, table_graph(&mem, "topk_others", names[i]), &gpu, &(struct lower_opts){0}, &d, &e), names[i], &e);
    run_launches(&mem, names[i], &d, -1);
    arena_close(&mem);
  }
}

struct kinds {
  int clusters, rounds; // programs whose blocks share an axis; that load a row again
};
static void count_kinds(void *arg, const struct device_program *d)
{
  struct kinds *k = arg;
  k->clusters += strstr(d->launch[0].how, "cluster=") || strstr(d->launch[0].how, "stack=");
  k->rounds += strstr(d->launch[0].text, "for (s") != NULL;
}

static void all_choices(void **state)
{
  (void)state;
  struct target gpu = h200();
  struct kinds k = {0};
  assert_true(run_choices("topk", &gpu, 3, count_kinds, &k) > 50);
  assert_true(k.clusters > 3);
  assert_true(k.rounds > 3);
}

// ---- the order ----

enum { ROW = 64, CHOSEN = 4, ROWS = 5 };

// Is x before y in descending order? Ties are broken by the lower index.
static bool before(double x, double y) { return isnan(x) ? !isnan(y) : x > y; }

static int largest(const double *row, const bool *taken)
{
  int best = -1;
  for (int i = 0; i < ROW; i++)
    if (!taken[i] && (best < 0 || before(row[i], row[best]))) best = i;
  return best;
}

static void fill(double row[ROWS][ROW])
{
  static const double most = 0x1.fffffep127;
  for (int i = 0; i < ROWS * ROW; i++) row[i / ROW][i % ROW] = i % ROW % 2 ? -0x1p-149 : -1 - i % 7;
  row[0][3] = NAN, row[0][40] = -NAN, row[0][50] = INFINITY, row[0][9] = most;                              // NaN is larger than infinity
  for (int k = 0; k < ROW; k++) row[1][k] = k < 62 ? -INFINITY : k == 62 ? -most : NAN;                     // most are the least number
  row[2][60] = 0, row[2][61] = -0.0, row[2][62] = 0x1p-149, row[2][63] = -0.0;                              // 0 and -0 are equal
  for (int k = 0; k < ROW; k++) row[3][k] = 7;                                                              // all are equal
  row[4][0] = INFINITY, row[4][63] = INFINITY, row[4][32] = INFINITY, row[4][31] = most, row[4][1] = -most; // equal ones in other warps
}

// The text with the first `from` replaced.
static const char *edited(struct arena *mem, const char *text, const char *from, const char *to)
{
  const char *at = strstr(text, from);
  assert_non_null(at);
  return arena_printf(mem, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}

struct router {
  struct arena mem;
  struct lower_plan p;
};

static void router_open(struct router *x, const struct target *gpu)
{
  struct err e = {0};
  *x = (struct router){0};
  must(lower_plan(&x->mem, table_graph(&x->mem, "topk", "router"), gpu, &(struct lower_opts){0}, &x->p, &e), "router", &e);
}

// Runs the router in this way on the rows, where `from` is given with its text changed; returns how many results differ from the order, and what
// the interpreter found.
static int differences(struct router *m, const struct choice *how, const char *from, const char *to, int64_t *found)
{
  struct err e = {0};
  struct device_program *d = NEW(&m->mem, struct device_program);
  struct device_host h;
  struct sim_report r;
  static double row[ROWS][ROW];
  int wrong = 0;
  fill(row);
  must(lower_make(&m->mem, &m->p, how, d, &e), "router", &e);
  struct launch *l = &d->launch[0];
  if (from) must(tile_parse(&m->mem, "edited.tile", edited(&m->mem, l->text, from, to), &l->p, &e), "edited", &e);
  if (from) must(tile_lower(l->p, l->k = l->p->kernels[0], m->p.gpu->arch, &e), "edited", &e);
  must(device_host_open(&h, &m->mem, d, &(struct device_host_opts){.seed = 5}, &e), "router", &e);
  for (int i = 0; i < ROWS * ROW; i++) num_set(TT_F32, row[i / ROW][i % ROW], (char *)h.in[0] + 4 * i);
  must(device_host_launch(&h, 0, &r, NULL, &e), "router", &e);
  for (int i = 0; i < ROWS; i++) {
    bool taken[ROW] = {false};
    for (int k = 0; k < CHOSEN; k++) {
      const int want = largest(row[i], taken), at = i * CHOSEN + k;
      const double x = num_one(TT_F32, (const char *)h.out[0] + 4 * at), y = row[i][want];
      taken[want] = true;
      wrong +=
          num_one(TT_I32, (const char *)h.out[1] + 4 * at) != want || isnan(x) != isnan(y) || (!isnan(y) && (x != y || signbit(x) != signbit(y)));
    }
  }
  device_host_close(&h);
  return *found = r.found, wrong;
}

static void special_numbers(void **state)
{
  (void)state;
  const struct target gpu = h200();
  struct router m;
  int64_t found;
  router_open(&m, &gpu);
  assert_true(m.p.unit[0].nchoices > 5);
  for (int c = 0; c < m.p.unit[0].nchoices; c++)
    if (differences(&m, &m.p.unit[0].choice[c], NULL, NULL, &found) || found) fail_msg("choice %d", c);
  arena_close(&m.mem);
}

static void planted_errors_are_found(void **state)
{
  (void)state;
  static const struct {
    const char *from, *to;
    bool race;
  } error[] = {
      {"Init<(2 * (", "Init<(126 - 2 * (", false}, // the last of equal elements first
      {"= value(%again1[0])", "= 0", false},       // nobody looks at all
      {"<below>", "<max>", false},                 // the same element again
      {"Sync<barrier>", "Sync<fence.block>", true},
      {"n1 % 2 * ", "0 * ", true}, // rounds do not take turns in shared memory
  };
  const struct target gpu = h200();
  struct router m;
  int64_t found;
  router_open(&m, &gpu);
  const struct choice *warps = NULL;
  for (int c = 0; c < m.p.unit[0].nchoices && !warps; c++) {
    struct device_program d;
    struct err e = {0};
    must(lower_make(&m.mem, &m.p, &m.p.unit[0].choice[c], &d, &e), "router", &e);
    if (strstr(d.launch[0].text, "n1 % 2 * ")) warps = &m.p.unit[0].choice[c];
  }
  assert_non_null(warps);
  for (size_t i = 0; i < COUNT(error); i++) {
    const int wrong = differences(&m, warps, error[i].from, error[i].to, &found);
    if (error[i].race ? !found : !wrong) fail_msg("%s: nothing was found", error[i].to);
  }
  arena_close(&m.mem);
}

// ---- what is refused ----

static void refusals(void **state)
{
  (void)state;
  static const char *const want[][2] = {{"read_in_the_block", "its results are read in the same kernel"}, {"too_many", "compare at most 1048576"}};
  for (size_t i = 0; i < COUNT(want); i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct target gpu = h200();
    struct device_program d;
    assert_int_equal(lower_program(&mem, table_graph(&mem, "topk_others", want[i][0]), &gpu, &(struct lower_opts){0}, &d, &e), USER);
    if (!strstr(e.text, want[i][1])) fail_msg("%s: %s", want[i][0], e.text);
    arena_close(&mem);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cheapest),    cmocka_unit_test(results_are_transposed), cmocka_unit_test(in_the_kernel_before),
      cmocka_unit_test(all_choices), cmocka_unit_test(special_numbers),        cmocka_unit_test(planted_errors_are_found),
      cmocka_unit_test(refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
