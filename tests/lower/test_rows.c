// The scheme rows: block graphs without products become tile kernels that the interpreter finds nothing against, and that
// compute what float64 computes, for the settings that the model likes best and for many others.
#include "../gpu_of.h"
#include "../tables.h"
#include "sim/tile_host.h"
#include "eval/eval.h"
#include "lower/rows.h"
#include "plan/plan.h"
#include "random_block.h"
#include "sim/number.h"
#include "thin.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

extern const struct scheme scheme_rows;

enum { BEST = 3, SAMPLES = 14, TRIES = 400, RANDOM = 60 };

struct fixture {
  struct arena mem;
  struct graph *g;
  int node;
  struct norm n;
  void **in, **out;
  struct lower_job j;
};

static void open_made(struct fixture *f, const char *name, struct graph *g)
{
  struct err e = {0};
  char why[160], note[256];
  bool changed;
  if (plan_stable(&f->mem, g, &f->g, &changed, note, &e)) fail_msg("%s: %s", name, e.text);
  while (f->g->nodes[f->node].op != OP_BLOCK) f->node++;
  f->in = NEWS(&f->mem, void *, graph_inputs(f->g, NULL) + 1), f->out = NEWS(&f->mem, void *, 8);
  eval_random(&f->mem, f->g, DOM_F64, NULL, 7, f->in);
  if (eval_run(&f->mem, f->g, DOM_F64, NULL, f->in, f->out, NULL, &e)) fail_msg("%s: %s", name, e.text);
  if (norm_make_in(&f->mem, f->g, NULL, f->node, &f->n, why)) fail_msg("%s: %s", name, why);
  f->j = (struct lower_job){.mem = &f->mem, .n = &f->n, .gpu = gpu_of("sm_90a"), .name = "rows"};
}

static void open_graph(struct fixture *f, const struct table_graph *x)
{
  *f = (struct fixture){0};
  open_made(f, x->title, graph_of(&f->mem, x->text));
}

static void open_named(struct fixture *f, const char *name)
{
  *f = (struct fixture){0};
  open_made(f, name, table_graph(&f->mem, "rows_others", name));
}

// Contents of the kernel argument before the run: an input, or nothing.
static struct tile_fill fill_of(struct fixture *f, const char *buffer, int tensor)
{
  int *inputs = NEWS(&f->mem, int, f->g->ntensors + 1), n = graph_inputs(f->g, inputs);
  for (int i = 0; i < n; i++)
    if (inputs[i] == tensor) return (struct tile_fill){buffer, 1, f->in[i], shape_size(&f->g->tensors[tensor].shape)};
  return (struct tile_fill){0};
}

static void compare(struct fixture *f, const char *what, const char *text, const struct tile_host *h, const int *arg)
{
  int *outputs = NEWS(&f->mem, int, f->g->ntensors + 1), n = graph_outputs(f->g, outputs), compared = 0;
  for (int b = 0, a = 0; b < h->k->nbuffers; b++) {
    if (h->k->buffers[b].mem != MEM_GL) continue;
    int tensor = arg[a++], o = 0;
    while (o < n && outputs[o] != tensor) o++;
    if (o == n) continue;
    enum tile_type t = h->k->buffers[b].type;
    int64_t elements = shape_size(&f->g->tensors[tensor].shape);
    double sum = 0, wrong = 0, tolerance = t == TT_F32 ? 2e-5 : t == TT_F16 ? 1e-3 : 6e-3;
    for (int64_t i = 0; i < elements; i++) {
      double x = num_one(t, (char *)h->data[b] + i * tile_types[t].bytes), want = ((double *)f->out[o])[i];
      if (!(fabs(x - want) <= 8 * tolerance * (1 + fabs(want))))
        fail_msg("%s: element %lld is %g and should be %g\n%s", what, (long long)i, x, want, text);
      sum += want * want, wrong += (x - want) * (x - want);
    }
    if (sqrt(wrong) > tolerance * sqrt(sum)) fail_msg("%s: off by %g\n%s", what, sqrt(wrong / sum), text);
    compared++;
  }
  assert_int_equal(compared, n);
}

// False where the settings do not go with the kernel.
static bool run(struct fixture *f, const char *name, const struct knobs *k, struct sim_counts *counts)
{
  struct lower_out out;
  struct err e = {0};
  struct tile_program *p;
  struct tile_host h;
  struct tile_fill fills[16] = {{0}};
  struct sim_report report;
  struct str said = {0};
  if (scheme_emit(&scheme_rows, &f->j, k, &out, &e)) return false;
  const char *text = str_text(&out.text);
  char what[200];
  snprintf(what, sizeof what, "%s: vec=%d across=%d down=%d join=%d regs=%d deep=%d stream=%d late=%d ahead=%d hold=%d cluster=%d stack=%d", name,
           k->v[0], k->v[1], k->v[2], k->v[3], k->v[4], k->v[5], k->v[6], k->v[7], k->v[8], k->v[9], k->v[KNOB_CLUSTER], k->v[KNOB_STACK]);
  if (tile_parse(&f->mem, "rows.tile", text, &p, &e) || tile_lower(p, p->kernels[0], 90, &e) ||
      tile_host_open(&h, &f->mem, p, p->kernels[0], 0, NULL, &e))
    fail_msg("%s: line %d: %s\n%s", what, e.at.line, e.text, text);
  int nfills = 0;
  for (int b = 0, a = 0; b < h.k->nbuffers; b++)
    if (h.k->buffers[b].mem == MEM_GL) {
      fills[nfills] = fill_of(f, h.k->buffers[b].name, out.arg[a++]);
      nfills += fills[nfills].buffer != NULL;
    }
  if (tile_host_fill(&h, 1, nfills, fills, &e) || tile_host_run(&h, &report, NULL, &e)) fail_msg("%s: %s\n%s", what, e.text, text);
  sim_print_errors(&report, &said);
  if (report.found) fail_msg("%s: %s\n%s", what, str_text(&said), text);
  compare(f, what, text, &h, out.arg);
  if (counts) *counts = report.counts;
  str_free(&out.text);
  return true;
}

// Would the interpreter take long?
static bool heavy(struct fixture *f, const struct knobs *k)
{
  struct rows r;
  struct row_plan p;
  char why[160];
  return rows_make(&f->j, &r, why) || !rows_plan(&f->mem, &r, k, &p) || p.blocks * p.threads > 1 << 14;
}

static int one_of(struct rng *r, int n, const int *of) { return of[rng_below(r, (uint64_t)n)]; }

// Settings at random: most do not go with the kernel, and a good number must. `clusters`: whose blocks share an axis.
static int sample(struct fixture *f, const char *name, bool clusters, int most)
{
  static const int powers[] = {1, 1, 2, 4, 8, 16, 32, 64, 128}, vecs[] = {1, 2, 4, 8}, few[] = {0, 0, 1, 2, 3, 4, 8}, blocks[] = {2, 4, 8, 16};
  struct rng r = {42};
  int done = 0;
  for (int i = 0; i < TRIES && done < most; i++) {
    struct arena_mark m = arena_mark(&f->mem);
    struct knobs k = {{one_of(&r, 4, vecs), one_of(&r, 9, powers), one_of(&r, 7, powers), one_of(&r, 6, powers), one_of(&r, 7, few),
                       one_of(&r, 7, few), i % 2, i % 5 < 2, i % 4 % 3, i / 3 % 2}};
    if (clusters) k.v[i % 2 ? KNOB_CLUSTER : KNOB_STACK] = one_of(&r, 4, blocks);
    f->j.dependent = i % 3 == 0;
    done += !heavy(f, &k) && run(f, name, &k, NULL);
    arena_reset(&f->mem, m);
  }
  return done;
}

static void correct(void **state)
{
  (void)state;
  struct table t;
  table_open(&t, "rows");
  for (int i = 0; i < t.n; i++) {
    const char *name = t.row[i].title;
    struct fixture f;
    char why[160] = "";
    struct knobs best[BEST];
    open_graph(&f, &t.row[i]);
    int n = scheme_rows.choices(&f.j, BEST, best, why);
    if (!n) fail_msg("%s: %s", name, why);
    for (int k = 0; k < n; k++) assert_true(isfinite(scheme_cost(&scheme_rows, &f.j, &best[k])));
    for (int k = 0; k < n; k++)
      if (!run(&f, name, &best[k], NULL)) fail_msg("%s: choice %d is refused", name, k);
    int done = sample(&f, name, false, SAMPLES / thinned(2));
    if (done < 2 && strcmp(t.row[i].name, "one_element")) fail_msg("%s: only %d settings went with it", name, done);
    arena_close(&f.mem);
  }
  table_close(&t);
}

static void random_graphs(void **state)
{
  (void)state;
  int taken = 0, shared = 0;
  for (int seed = 0; seed < RANDOM; seed += thinned(3)) {
    struct fixture f = {0};
    char name[32], why[160];
    struct norm n;
    struct knobs best[1];
    struct graph *g = random_block(&f.mem, (uint64_t)seed);
    snprintf(name, sizeof name, "random graph %d", seed);
    int node = 0;
    while (g->nodes[node].op != OP_BLOCK) node++;
    if (norm_make_in(&f.mem, g, NULL, node, &n, why)) {
      arena_close(&f.mem);
      continue;
    }
    open_made(&f, name, g);
    if (scheme_rows.choices(&f.j, 1, best, why)) {
      if (!heavy(&f, &best[0])) assert_true(run(&f, name, &best[0], NULL));
      taken += sample(&f, name, false, 4) > 0, shared += sample(&f, name, true, 4);
    }
    arena_close(&f.mem);
  }
  assert_in_range(taken, RANDOM / 2 / thinned(3), RANDOM);
  assert_in_range(shared, RANDOM / 2 / thinned(3), 4 * RANDOM);
}

// Graphs whose folds the blocks of a cluster do together: each of several ways with numbers right and nothing for the interpreter to say.
static void clusters(void **state)
{
  (void)state;
  struct table t;
  int shared = 0;
  table_open(&t, "rows");
  for (int i = 0; i < t.n; i++) {
    struct fixture f;
    open_graph(&f, &t.row[i]);
    shared += sample(&f, t.row[i].title, true, SAMPLES / 2 / thinned(2));
    arena_close(&f.mem);
  }
  assert_true(shared >= 2 * t.n / thinned(2));
  table_close(&t);
}

// The best settings move every byte once, 8 or 16 a lane (4, where a warp then has a row of one line), in whole sectors, and
// without bank conflicts. Fields: the bytes of all loads and of all stores; `narrow`, the logarithm of the bytes that a lane may have at least.
static void frugal(void **state)
{
  (void)state;
  struct table t;
  table_open(&t, "rows_frugal");
  for (int i = 0; i < t.n; i++) {
    const struct table_graph *x = &t.row[i];
    int narrow = table_field(x, "narrow") ? (int)table_number(x, "narrow") : 3;
    struct fixture f;
    char why[160] = "";
    struct knobs best[1];
    struct sim_counts c;
    open_graph(&f, x);
    assert_int_equal(scheme_rows.choices(&f.j, 1, best, why), 1);
    assert_true(run(&f, x->title, &best[0], &c));
    int64_t wide[2] = {0};
    for (int k = 0; k < 2; k++)
      for (int width = 0; width < SIM_WIDTHS; width++) {
        if (width < narrow && c.bytes[MEM_GL][k][width]) fail_msg("%s: accesses of %d bytes a lane", x->title, 1 << width);
        wide[k] += c.bytes[MEM_GL][k][width];
      }
    if ((double)wide[0] != table_number(x, "loads") || (double)wide[1] != table_number(x, "stores"))
      fail_msg("%s: %lld bytes loaded, %lld stored", x->title, (long long)wide[0], (long long)wide[1]);
    assert_int_equal(c.sectors, c.sectors_least);
    assert_int_equal(c.wavefronts, c.wavefronts_least);
    arena_close(&f.mem);
  }
  table_close(&t);
}

// A graph that is no work of rows is refused with a reason, and so is a maximum whose moves are used in another way than softmax does.
static void refused(void **state)
{
  (void)state;
  struct table t;
  table_open(&t, "rows_refused");
  for (int i = 0; i < t.n; i++) {
    struct fixture f;
    char why[160] = "";
    struct knobs best[1];
    open_graph(&f, &t.row[i]);
    assert_int_equal(scheme_rows.choices(&f.j, 1, best, why), 0);
    if (!strstr(why, table_field(&t.row[i], "refused"))) fail_msg("%s: %s", t.row[i].title, why);
    arena_close(&f.mem);
  }
  table_close(&t);
}

// Mean and variance come of one pass, and are right also where the mean is large or a row's first element is far from the others.
static void moments_of(const char *graph)
{
  static const double first[] = {64.5, 2000, -3}, others[] = {64, 64, 64}, step[] = {1. / 16, 1. / 16, 0};
  for (size_t c = 0; c < COUNT(first); c++) {
    struct fixture f;
    struct err e = {0};
    struct knobs k = {{8, 32, 1, 1}};
    struct rows r;
    struct row_plan p;
    char why[160] = "";
    open_named(&f, graph);
    assert_int_equal(rows_make(&f.j, &r, why), OK);
    assert_true(rows_plan(&f.mem, &r, &k, &p));
    assert_int_equal(r.nstages, 2);
    for (int i = 0; i < 960; i++) ((double *)f.in[0])[i] = i % 240 ? others[c] + step[c] * (i * 37 % 29) : first[c];
    if (eval_run(&f.mem, f.g, DOM_F64, NULL, f.in, f.out, NULL, &e)) fail_msg("%s", e.text);
    assert_true(run(&f, graph, &k, NULL));
    arena_close(&f.mem);
  }
}

// Also where a row is loaded twice, once for the mean.
static void moments(void **state)
{
  (void)state;
  moments_of("moments"), moments_of("moments_apart");
}

static const char *emitted(struct fixture *f, const struct knobs *k)
{
  struct lower_out out;
  struct err e = {0};
  if (scheme_emit(&scheme_rows, &f->j, k, &out, &e)) fail_msg("%s", e.text);
  const char *text = arena_printf(&f->mem, "%s", str_text(&out.text));
  str_free(&out.text);
  return text;
}

static int times(const char *text, const char *what)
{
  int n = 0;
  for (const char *at = text; (at = strstr(at, what)); at++) n++;
  return n;
}

// Before the wait lines of inputs are fetched, not of what another kernel makes; `hold` lets the next kernel begin after the wait;
// without a kernel ahead there is nothing of the kind.
static void before_the_wait(void **state)
{
  (void)state;
  static const struct {
    struct knobs k;
    int fetches;
  } rows[] = {{{{4, 32, 1, 1, 0, 0, 0, 0, 0, 0}}, 0},
              {{{4, 32, 1, 1, 0, 0, 0, 0, 1, 0}}, 2},
              {{{4, 32, 1, 1, 0, 0, 0, 0, 1, 1}}, 2},
              {{{8, 16, 1, 2, 2, 0, 0, 0, 2, 1}}, 2}};
  struct fixture f;
  struct knobs k = {{4, 32, 1, 1, 0, 0, 0, 0, 2, 0}};
  char why[160];
  open_named(&f, "before_the_wait");
  for (f.node++; f.g->nodes[f.node].op != OP_BLOCK;) f.node++;
  assert_int_equal(norm_make_in(&f.mem, f.g, NULL, f.node, &f.n, why), OK);
  for (size_t i = 0; i < COUNT(rows); i++) {
    f.j.dependent = true;
    const char *text = emitted(&f, &rows[i].k), *wait = strstr(text, "grid.wait"), *trigger = strstr(text, "grid.trigger");
    assert_non_null(wait), assert_non_null(trigger);
    assert_int_equal(times(text, "prefetch.L2"), rows[i].fetches);
    assert_int_equal(times(text, "prefetch.L2") - times(wait, "prefetch.L2"), rows[i].fetches);
    assert_int_equal(trigger > wait, rows[i].k.v[9]);
    assert_int_equal(times(text, "<sqrt>"), 0);
    assert_int_equal(times(text, "<rsqrt>"), 1);
    f.j.dependent = false;
    assert_int_equal(times(emitted(&f, &rows[i].k), "Sync<"), times(text, "Sync<barrier>"));
  }
  struct lower_out out;
  struct err e = {0};
  f.j.dependent = true;
  assert_int_not_equal(scheme_emit(&scheme_rows, &f.j, &k, &out, &e), OK); // more rounds than there are
  arena_close(&f.mem);
}

// Rows of any number of elements, which begin at any element. $n: the columns; $t: the type.
static const char *const odd_graphs[] = {
    // one run of elements
    "graph run {\n X: $t[3, $n]\n Y: $t[3, $n]\n O = block(x=3) {\n x = iter(X, imap={x:0})\n y = iter(Y, imap={x:0})\n"
    " save(silu(x) + exp(y), omap={x:0})\n }\n return O\n}",
    // folds of rows, whose operands are not 0 beyond the rows
    "graph softmax {\n X: $t[5, $n]\n O = block(x=5) {\n x = iter(X, imap={x:0})\n e = exp(x - max(x, dim=1))\n"
    " save(e / sum(e, dim=1), omap={x:0})\n }\n return O\n}",
    // a vector of weights begins elsewhere than the rows do
    "graph weights {\n X: $t[5, $n]\n W: f16[1, $n]\n B: f32[1, $n]\n O = block(x=5) {\n x = iter(X, imap={x:0})\n w = iter(W)\n b = iter(B)\n"
    " save(x / sqrt(mean(square(x), dim=1) + 1) * w + b, omap={x:0})\n }\n return O\n}",
    // rows that are folded begin elsewhere than the result does
    "graph columns {\n X: $t[2, 6, $n]\n O = block(x=2) {\n x = iter(X, imap={x:0})\n save(max(x, dim=1) - sum(x * x, dim=1), omap={x:0})\n }\n"
    " return O\n}",
    // another operand has its columns apart
    "graph turned {\n X: $t[4, $n]\n Y: f16[$n, 4]\n O = block(x=4) {\n x = iter(X, imap={x:0})\n y = iter(Y, imap={x:1})\n"
    " save(exp(x) + transpose(y), omap={x:0})\n }\n return O\n}",
    // no row of the operands begins where one of the result does
    "graph outer {\n X: $t[2, 1, $n]\n Y: $t[1, 3, $n]\n O = block(x=2) {\n x = iter(X, imap={x:0})\n y = iter(Y)\n"
    " save(exp(x) * y, omap={x:0})\n }\n return O\n}",
    // booleans
    "graph masked {\n X: $t[5, $n]\n M: bool[5, $n]\n O = block(x=5) {\n x = iter(X, imap={x:0})\n m = iter(M, imap={x:0})\n"
    " save(sum(exp(x) * m, dim=1), omap={x:0})\n }\n return O\n}"};

static const char *with_columns(struct arena *mem, const char *graph, int n, const char *type)
{
  struct str s = {0};
  for (const char *at = graph; *at; at++) {
    if (*at != '$')
      str_add(&s, "%c", *at);
    else if (*++at == 'n')
      str_add(&s, "%d", n);
    else
      str_add(&s, "%s", type);
  }
  return str_keep(mem, &s);
}

// Each tail of 1 to 7 elements, and rows of fewer elements than a vector: results are right, and nothing outside of a tensor is read. Long runs and
// rows are moved in vectors of 16 bytes.
static void anywhere(void **state)
{
  (void)state;
  static const int columns[] = {3, 7, 9, 10, 11, 12, 13, 14, 15, 33, 261, 511};
  static const char *const types[] = {"f16", "bf16", "f32"};
  static const struct knobs ways[] = {
      {{8, 32, 1, 1}}, {{4, 32, 1, 2, 1}}, {{8, 8, 2, 2}}, {{8, 4, 1, 8, 2, 0, 1, 1}}, {{8, 32, 1, 1, 0, 0, 0, 0, 1, 1}}};
  int ran = 0, most = 0, step = thinned(3);
  for (int i = 0; i < (int)(COUNT(odd_graphs) * COUNT(columns) * COUNT(types)); i += step) {
    const char *graph = odd_graphs[i % COUNT(odd_graphs)];
    const int n = columns[i / COUNT(odd_graphs) % COUNT(columns)];
    const char *type = types[i / COUNT(odd_graphs) / COUNT(columns)];
    struct fixture f = {0};
    open_made(&f, graph, graph_of(&f.mem, with_columns(&f.mem, graph, n, type)));
    for (size_t w = 0; w < COUNT(ways); w++) {
      struct sim_counts c;
      const char *name = arena_printf(&f.mem, "graph %d, %d columns of %s", (int)(i % COUNT(odd_graphs)), n, type);
      f.j.dependent = w % 2 == 0;
      most++;
      if (!run(&f, name, &ways[w], &c)) continue;
      ran++;
      if (n < 261 || ways[w].v[KNOB_VEC] < 8 || i % (int)COUNT(odd_graphs) > 1) continue;
      const int64_t all = (i % COUNT(odd_graphs) ? 5 : 6) * n * (*type == 'f' && type[1] == '3' ? 4 : 2), ends = all / n * 16;
      if (c.bytes[MEM_GL][0][4] < all - ends) fail_msg("%s: %lld bytes loaded by vectors", name, (long long)c.bytes[MEM_GL][0][4]);
      if (c.bytes[MEM_GL][1][4] < all / (i % COUNT(odd_graphs) ? 1 : 2) - ends)
        fail_msg("%s: %lld bytes stored by vectors", name, (long long)c.bytes[MEM_GL][1][4]);
    }
    arena_close(&f.mem);
  }
  if (ran < most / 2) fail_msg("only %d of %d ways", ran, most);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(correct), cmocka_unit_test(random_graphs), cmocka_unit_test(clusters),
                                     cmocka_unit_test(frugal),  cmocka_unit_test(moments),       cmocka_unit_test(before_the_wait),
                                     cmocka_unit_test(refused), cmocka_unit_test(anywhere)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
