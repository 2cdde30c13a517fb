// The search for GPUs, on the row of sm_90a: structures that are known to be good come first, in sizes that fill the device,
// and in several sizes each; the same on any number of threads. And the shape of the cost model.
// test: check-all
// test: timeout 600
#include "examples.h"
#include "search/space.h"

#include <math.h>

static struct target gpu(const char *name)
{
  struct target t;
  struct err e = {0};
  assert_int_equal(target_open(name, 1, true, &t, &e), OK);
  return t;
}

static struct graph *program(struct arena *mem, const char *name, int nset, const struct setting *set)
{
  struct err e = {0};
  struct graph *g = NULL, *plain = NULL;
  char *path = arena_printf(mem, "%s/examples/%s.mica", MICA_SOURCE_DIR, name);
  if (front_load(mem, path, nset, set, &g, &e) || graph_expand(mem, g, false, &plain, &e)) {
    err_print(stderr, &e);
    fail();
  }
  return plain;
}

static struct search_result search(struct arena *mem, const struct graph *p, const struct target *t, int threads)
{
  struct search_opts o = {.threads = threads, .seed = 7};
  struct search_result r;
  struct err e = {0};
  assert_int_equal(search_run(mem, p, t, &o, &r, &e), OK);
  assert_true(r.n > 0);
  return r;
}

// ---- structures -----------------------------------------------------------------------------------------------------

// The expensive work of the kernels: "mem" a product, an exponential, a product; "r" a norm's reduction; "|" the next kernel, "L"
// one of the library.
static void kinds_of(const struct graph *g, char *out, size_t room)
{
  size_t n = 0;
  for (int i = 0; i < g->nnodes && n + 2 < room; i++) {
    const struct graph *sub = g->nodes[i].sub;
    enum rule rule = op_rows[g->nodes[i].op].rule;
    if (rule == RULE_IO || rule == RULE_CONST || rule == RULE_VIEW) continue;
    if (n) out[n++] = '|';
    if (!sub) out[n++] = 'L';
    for (int k = 0; sub && k < sub->nnodes && n + 2 < room; k++) {
      enum op op = sub->nodes[k].op;
      if (op == OP_MATMUL)
        out[n++] = 'm';
      else if (op == OP_EXP)
        out[n++] = 'e';
      else if (op == OP_MEAN || op == OP_ACCUM_MEAN || op == OP_ACCUM_RMS)
        out[n++] = 'r';
    }
  }
  out[n] = 0;
}

static const struct {
  const char *what, *program, *kinds;
  struct setting set[1];
  double within; // of the cheapest
  int blocks;    // of the first kernel, at least
  int sizes;     // that are listed of it, at least
} rows[] = {
    {"split keys, then a kernel that combines", "gqa_dec", "mem|", {{0}}, 1, 64, 4},
    {"the same, one block for many heads", "mqa_dec", "mem|", {{0}}, 1, 32, 4},
    {"the same", "mha_dec", "mem|", {{0}}, 1, 128, 4},
    {"the same with many queries", "gqa_spec", "mem|", {{0}}, 1, 64, 4},
    {"the same", "m_gqa", "mem|", {{0}}, 1, 64, 4},
    {"the same", "m_mha", "mem|", {{0}}, 1, 64, 4},
    {"one kernel where heads and queries fill the device", "mqa_pre", "mem", {{0}}, 1, 128, 4},
    {"both norms in the first kernel", "m_qknorm", "rmerm|", {{0}}, 1, 64, 4},
    {"norm and product in one kernel", "m_rms", "mr", {{0}}, 1.02, 64, 4},
    {"the same, one row", "m_rms", "mr", {{"m", 1}}, 1.02, 64, 4},
    {"the same, eight rows", "m_rms", "mr", {{"m", 8}}, 1.02, 64, 4},
    {"lora in one kernel", "m_lora", "mm", {{0}}, 1.05, 64, 4},
    {"split along what is summed, A X kept inside", "lora", "mmm|", {{0}}, 1.05, 64, 4},
    {"two products in one kernel", "m_gated", "mm", {{0}}, 1.05, 64, 4},
    {"partial sums, then the rest", "mlp", "m|m", {{0}}, 1, 32, 4},
    {"two norms in one kernel, a block a row", "m_ntrans", "rr", {{0}}, 1, 64, 2},
    {"layer norm in one kernel", "g_norm", "rr", {{0}}, 1, 1024, 4},
    {"softmax in one kernel", "softmax", "e", {{0}}, 1, 1024, 4},
    {"both products in one kernel", "g_lstm", "mm", {{0}}, 1, 64, 4},
    {"bias and relu as epilogue", "g_gemm", "m", {{0}}, 1, 128, 4},
    {"exp as epilogue of the first product", "m_moe", "me|m", {{0}}, 1.05, 128, 4},
};

static int64_t first_blocks(const struct graph *g)
{
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i].sub) return graph_blocks(g->nodes[i].sub);
  return 0;
}

// All axes of its kernels, in one number.
static uint64_t sizes_hash(const struct graph *g)
{
  uint64_t h = 0;
  for (int i = 0; i < g->nnodes; i++) {
    const struct graph *sub = g->nodes[i].sub;
    for (int k = 0; sub && k < sub->ngrid; k++) h = hash_mix(h, (uint64_t)sub->grid[k]);
    for (int k = 0; sub && k < sub->nloop; k++) h = hash_mix(h, (uint64_t)sub->loop[k] << 32);
  }
  return h;
}

// How many sizes of that structure there are.
static int sizes_of_structure(const struct search_result *r, int structure)
{
  int n = 0;
  for (int i = 0; i < r->n; i++) {
    bool is_new = r->found[i].structure == structure;
    for (int k = 0; k < i && is_new; k++) is_new = r->found[k].structure != structure || sizes_hash(r->found[k].g) != sizes_hash(r->found[i].g);
    n += is_new;
  }
  return n;
}

static void test_structures(void **state)
{
  (void)state;
  struct target t = gpu("sm_90a");
  int missing = 0;
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct arena mem = {0};
    struct search_result r = search(&mem, program(&mem, rows[i].program, rows[i].set[0].name ? 1 : 0, rows[i].set), &t, 2);
    int at = 0;
    char kinds[256] = "";
    for (; at < r.n && r.found[at].cost <= rows[i].within * r.found[0].cost; at++) {
      kinds_of(r.found[at].g, kinds, sizeof kinds);
      if (!strcmp(kinds, rows[i].kinds)) break;
    }
    if (at == r.n || strcmp(kinds, rows[i].kinds)) {
      kinds_of(r.found[0].g, kinds, sizeof kinds);
      print_message("%s: %s: found %s, %s\n", rows[i].program, rows[i].what, kinds, r.found[0].schedule), missing++;
    } else if (first_blocks(r.found[at].g) < rows[i].blocks) {
      print_message("%s: %s: few blocks, %s\n", rows[i].program, rows[i].what, r.found[at].schedule), missing++;
    } else if (sizes_of_structure(&r, r.found[at].structure) < rows[i].sizes) {
      print_message("%s: %s: %d sizes, %s\n", rows[i].program, rows[i].what, sizes_of_structure(&r, r.found[at].structure), r.found[at].schedule),
          missing++;
    }
    for (int k = 1; k < r.n; k++) assert_true(r.found[k - 1].cost <= r.found[k].cost);
    arena_close(&mem);
  }
  assert_int_equal(missing, 0);
}

// X goes to the block once, for the norm and the product.
static void test_one_load(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct target t = gpu("sm_90a");
  struct search_result r = search(&mem, program(&mem, "m_rms", 0, NULL), &t, 2);
  int loads = 0, loops = 0;
  for (int i = 0; i < r.found[0].g->nnodes; i++) {
    const struct graph *sub = r.found[0].g->nodes[i].sub;
    for (int k = 0; sub && k < sub->nnodes; k++) loads += sub->nodes[k].op == OP_ITER;
    loops += sub && graph_iterations(sub) > 1;
  }
  assert_int_equal(loads, 2); // X and W
  assert_int_equal(loops, 1);
  arena_close(&mem);
}

// ---- the same everywhere --------------------------------------------------------------------------------------------

static void test_threads(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct target t = gpu("sm_80");
  const struct graph *p = program(&mem, "m_gqa", 0, NULL);
  struct search_result a = search(&mem, p, &t, 1), b = search(&mem, p, &t, 3);
  assert_int_equal(a.stats.states, b.stats.states);
  assert_int_equal(a.stats.graphs, b.stats.graphs);
  assert_int_equal(a.stats.verified, b.stats.verified);
  assert_memory_equal(a.stats.pruned, b.stats.pruned, sizeof a.stats.pruned);
  assert_int_equal(a.n, b.n);
  for (int i = 0; i < a.n; i++) {
    assert_true(graph_same(a.found[i].g, b.found[i].g));
    assert_memory_equal(&a.found[i].cost, &b.found[i].cost, sizeof a.found[i].cost);
  }
  arena_close(&mem);
}

// The work before sizes come in does not depend on the target.
static void test_counters(void **state)
{
  (void)state;
  struct arena mem = {0};
  const struct graph *p = program(&mem, "m_gated", 0, NULL);
  struct target t = gpu("sm_90a");
  struct search_result a = search(&mem, p, &t, 2), b = search(&mem, p, &machine, 2);
  assert_int_equal(a.stats.states, b.stats.states);
  assert_int_equal(a.stats.values, b.stats.values);
  assert_int_equal(a.stats.schedules, b.stats.schedules);
  assert_int_equal(a.stats.pruned[PRUNE_EXPR], b.stats.pruned[PRUNE_EXPR]);
  arena_close(&mem);
}

// ---- the model ------------------------------------------------------------------------------------------------------

static double seconds(const struct target *t, struct search_term x, int64_t blocks, int64_t iterations)
{
  struct sizes z = {.blocks = blocks, .iterations = iterations};
  return cost_seconds(&(struct model){.t = t}, &x, &z);
}

static void test_model(void **state)
{
  (void)state;
  struct target t = gpu("sm_90a"), small = gpu("sm_86");
  double mega = 1 << 20, kilo = 1 << 10;
  struct search_term stream = {.unique = 64 * mega, .again = 64 * mega, .ring = 16 * kilo};
  double copy = 64 * mega / t.bandwidth;
  // enough blocks come near the bandwidth, few do not, and no time is below it
  assert_in_range(1e9 * seconds(&t, stream, 264, 16), 1e9 * copy, 1.2e9 * copy);
  assert_true(seconds(&t, stream, 8, 512) > 4 * copy);
  // what is read by all goes through L2
  struct search_term shared = {.unique = mega, .again = 512 * mega, .ring = 16 * kilo};
  assert_true(seconds(&t, shared, 264, 128) > 512 * mega / t.cache_bandwidth);
  // a launch is never free
  assert_true(seconds(&t, (struct search_term){0}, 1, 1) > t.launch);
  // one block more than the device can run at once starts another wave
  struct search_term work = {.compute = 132e-5, .again = 1};
  assert_true(seconds(&t, work, 132, 1) < seconds(&t, (struct search_term){.compute = 133e-5, .again = 1}, 133, 1) / 1.5);
  // tiles must fit: two stages of a ring, and what the smaller device has
  assert_true(isfinite(seconds(&t, (struct search_term){.ring = 100 * kilo, .again = mega}, 132, 8)));
  assert_true(isinf(seconds(&t, (struct search_term){.ring = 120 * kilo, .again = mega}, 132, 8)));
  assert_true(isfinite(seconds(&t, (struct search_term){.ring = 120 * kilo, .again = mega}, 132, 1)));
  assert_true(isinf(seconds(&small, (struct search_term){.ring = 100 * kilo, .again = mega}, 132, 8)));
  // data that exceed the registers cost time, since schemes retile them or read them again; the cost is bounded
  struct search_term long_rows = {.unique = 64 * mega, .again = 64 * mega, .registers = 140 * kilo}, wider = long_rows, widest = long_rows;
  wider.registers = 300 * kilo, widest.registers = 5 * mega;
  assert_true(seconds(&t, wider, 132, 1) > 1.2 * seconds(&t, long_rows, 132, 1) && seconds(&t, wider, 132, 1) < 2 * seconds(&t, long_rows, 132, 1));
  assert_true(isinf(seconds(&t, widest, 132, 1)));
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_structures), cmocka_unit_test(test_one_load), cmocka_unit_test(test_threads),
                                     cmocka_unit_test(test_counters), cmocka_unit_test(test_model)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
