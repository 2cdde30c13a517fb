// The cost model against kernels that were measured: it has to rank them. Asked is, of each program, the rank correlation
// (Spearman) of modelled and measured times, in the median over programs, and what measuring only the first five by the model costs, in
// the median and at worst. The rates are those that are shipped.
#include "lower/count.h"
#include "target/target.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 8192, LINE = 4096, PROGRAMS = 128, LEAST = 8, FIRST = 5 };
struct entrant {
  char program[128], graph[128];
  int number;
  double us, modelled;
};
static struct entrant all[MOST];
static int n;

// Rows are drawn from the tables of bench/calibrate.csv.xz, whose programs have more kernels each.
static const struct {
  const char *name;
  double rank, median, worst;
} tables[] = {
    {"lists", 0.8, 0.05, 0.25},  // the lists that the model orders, of all workloads, raced three times
    {"unseen", 0.8, 0.05, 0.15}, // a race of the same that came after the fit, in the order of the rates as they are shipped
    {"climbs", 0.77, 0.03, 0.4}, // the neighbours that climbs tried
};

// The field at *at, which moves behind it; quotes go.
static char *field(char **at)
{
  char *from = *at + (**at == '"'), *end = from + strcspn(from, **at == '"' ? "\"" : ",\n");
  *at = end + (*end == '"');
  *at += **at == ',';
  *end = 0;
  return from;
}

static void add(char *line, const struct target *gpu)
{
  char *at = line;
  const char *program = field(&at), *graph = field(&at);
  int number = atoi(field(&at));
  struct kernel_counts c;
  field(&at); // of the launch
  double us = atof(field(&at));
  field(&at); // scheme and knobs
#define COUNTED(id, doc) c.id = atof(field(&at));
#include "lower/count.def"
#undef COUNTED
  struct entrant *e = n ? &all[n - 1] : NULL;
  if (!e || strcmp(e->program, program) || strcmp(e->graph, graph) || e->number != number) {
    assert_true(n < MOST);
    e = &all[n++];
    snprintf(e->program, sizeof e->program, "%s", program), snprintf(e->graph, sizeof e->graph, "%s", graph);
    e->number = number, e->us = us;
  }
  e->modelled += 1e6 * kernel_time(&c, gpu, NULL);
}

// Columns of the file are those of count.def, in its order.
static void check_head(char *line)
{
  static const char *const first[] = {"program", "graph", "number", "launch", "us", "how"};
  char *at = line;
  for (size_t i = 0; i < COUNT(first); i++) assert_string_equal(field(&at), first[i]);
#define COUNTED(id, doc) assert_string_equal(field(&at), #id);
#include "lower/count.def"
#undef COUNTED
}

static void open_table(const char *name, const struct target *gpu)
{
  char line[LINE];
  FILE *f = fopen(MICA_SOURCE_DIR "/tests/lower/calibrate_sample.csv", "r");
  assert_non_null(f);
  n = 0, memset(all, 0, sizeof all);
  for (bool head = true, wanted = false; fgets(line, LINE, f);) {
    line[strcspn(line, "\n")] = 0;
    if (!strncmp(line, "## ", 3)) wanted = !strcmp(line + 3, name);
    if (*line == '#' || !wanted) continue;
    if (head)
      check_head(line);
    else
      add(line, gpu);
    head = false;
  }
  fclose(f);
}

static double rank(const struct entrant *e, int k, int i, bool modelled)
{
  double below = 0, same = 0;
  for (int j = 0; j < k; j++) {
    double a = modelled ? e[j].modelled : e[j].us, b = modelled ? e[i].modelled : e[i].us;
    below += a < b, same += a == b;
  }
  return below + (same + 1) / 2;
}

static double spearman(const struct entrant *e, int k)
{
  double xy = 0, xx = 0, yy = 0, mean = (k + 1) / 2.0;
  for (int i = 0; i < k; i++) {
    double x = rank(e, k, i, true) - mean, y = rank(e, k, i, false) - mean;
    xy += x * y, xx += x * x, yy += y * y;
  }
  return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : 0;
}

static int by_model(const void *a, const void *b)
{
  const struct entrant *x = a, *y = b;
  if (x->modelled != y->modelled) return x->modelled < y->modelled ? -1 : 1;
  return strcmp(x->graph, y->graph) ? strcmp(x->graph, y->graph) : x->number - y->number;
}

static double loss(struct entrant *e, int k)
{
  double least = INFINITY, first = INFINITY;
  qsort(e, (size_t)k, sizeof *e, by_model);
  for (int i = 0; i < k; i++) {
    least = fmin(least, e[i].us);
    if (i < FIRST) first = fmin(first, e[i].us);
  }
  return first / least - 1;
}

static int ascending(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *x, int k)
{
  qsort(x, (size_t)k, sizeof *x, ascending);
  return (x[(k - 1) / 2] + x[k / 2]) / 2;
}

static void ranks_table(const char *name, double rank_least, double usual_most, double worst_most)
{
  double rho[PROGRAMS], lost[PROGRAMS];
  int programs = 0;
  for (int from = 0, to; from < n; from = to) {
    for (to = from; to < n && !strcmp(all[to].program, all[from].program);) to++;
    if (to - from < LEAST) continue;
    assert_true(programs < PROGRAMS);
    rho[programs] = spearman(all + from, to - from), lost[programs++] = loss(all + from, to - from);
  }
  double worst = 0, middle = median(rho, programs), usual = median(lost, programs);
  for (int i = 0; i < programs; i++) worst = fmax(worst, lost[i]);
  print_message("%s: %d kernel programs of %d programs: rank correlation %.3f; the first %d cost %.1f%%, at most %.1f%%\n", name, n, programs, middle,
                FIRST, 100 * usual, 100 * worst);
  assert_true(n >= 100);
  assert_true(middle >= rank_least);
  assert_true(usual <= usual_most);
  assert_true(worst <= worst_most);
}

static void ranks_kernels(void **state)
{
  (void)state;
  struct target t;
  struct err e = {0};
  assert_int_equal(target_open("sm_90a", 1, true, &t, &e), OK);
  for (size_t i = 0; i < COUNT(tables); i++) {
    open_table(tables[i].name, &t);
    ranks_table(tables[i].name, tables[i].rank, tables[i].median, tables[i].worst);
  }
}

// More of anything takes no less time: of what a kernel that is bound by it does.
static void more_takes_longer(void **state)
{
  (void)state;
  struct target t;
  struct err e = {0};
  assert_int_equal(target_open("sm_90a", 1, true, &t, &e), OK);
  for (int kind = 0; kind < COUNT_KINDS; kind++) {
    const struct kernel_counts base = {.kind = kind,
                                       .blocks = 132,
                                       .items = 132,
                                       .threads = 128,
                                       .room = 1,
                                       .cluster = 1,
                                       .memory = 1e7,
                                       .cache = 1e7,
                                       .lines = 1e5,
                                       .flight = 65536,
                                       .loaded = 75757,
                                       .mma = 1e7,
                                       .shared = 1e5,
                                       .lanes = 1e5,
                                       .registers = 100};
    double before = kernel_time(&base, &t, NULL);
    struct kernel_counts memory = base, mma = base, lanes = base, waits = base;
    memory.memory *= 10, mma.mma *= 100, lanes.lanes *= 100, waits.waits += 10;
    assert_true(before > t.launch && isfinite(before));
    assert_true(kernel_time(&memory, &t, NULL) > before && kernel_time(&mma, &t, NULL) > before);
    assert_true(kernel_time(&lanes, &t, NULL) > before && kernel_time(&waits, &t, NULL) > before);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(ranks_kernels), cmocka_unit_test(more_takes_longer)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
