// Passes over kernels: decisions on graphs with a known answer, and comparison with an enumeration of all answers if there are few.
#include "../graphs.h"
#include "plan/passes.h"

#include <string.h>

static uint64_t state64 = 1;
static int below(int n) { return (int)((state64 = state64 * 6364136223846793005u + 1442695040888963407u) >> 33) % n; }

// ---- on known graphs ----

struct known {
  const char *name, *text, *chains, *schedule, *meta; // parts of the dumps, separated by |
};

#define IN_BLOCK(axes, body) "O = block(" axes ") { " body " }\n return O"

static const struct known knowns[] = {
    {"a product and what follows it",
     "A: f16[64, 64]\n B: f16[64, 32]\n" IN_BLOCK("x=2; i=4", "a = iter(A, imap={x:0}, fmap={i:1})\n b = iter(B, fmap={i:0})\n"
                                                              "save(silu(exp(accum(matmul(a, b)))), omap={x:0})"),
     "chain 1: t2 = matmul t0 tile, t1 tile; t3 = accum t2 registers; t4 = exp t3 registers; t5 = silu t4 registers|adds to t3",
     "loop   depth 1  t2   matmul|after  depth 0  t4   exp|at most 0 barriers before the loop, 1 in it, 0 after",
     "from A: chunks of 16 bytes along|to shared memory, in a ring|accum     t3   registers that products add to"},
    {"a sum of products",
     "A: f16[64, 64]\n B: f16[64, 32]\n C: f16[64, 32]\n" IN_BLOCK(
         "x=2; i=4", "a = iter(A, imap={x:0}, fmap={i:1})\n b = iter(B, fmap={i:0})\n c = iter(C, fmap={i:0})\n"
                     "save(accum(matmul(a, b) + matmul(a, c)), omap={x:0})"),
     "(added in the accumulator)|t3 = t0 t1: rows|; adds to t6", "accum", "accum     t6   registers that products add to"},
    {"a right operand that is computed",
     "A: f16[64, 64]\n B: f16[64, 64]\n" IN_BLOCK("x=2", "a = iter(A, imap={x:0})\n b = iter(B)\n save(matmul(a, exp(b)), omap={x:0})"),
     "t2 = exp t1 tile (on the side)|t3 = matmul t0 tile, t2 shared memory", "depth 1  t2   exp|depth 2  t3   matmul",
     "from B: chunks of 16 bytes along|iter  t1   from B"},
    {"a left operand that is computed",
     "A: f16[64, 64]\n B: f16[64, 64]\n" IN_BLOCK("x=2", "a = iter(A, imap={x:0})\n b = iter(B)\n save(matmul(exp(a), b), omap={x:0})"),
     "t2 = exp t0 device memory|t3 = matmul t2 registers, t1 tile", "depth 0  t2   exp|depth 1  t3   matmul", "to registers"},
    {"a row is divided by its sum", "X: f16[64, 64]\n" IN_BLOCK("x=8", "x = iter(X, imap={x:0})\n e = exp(x)\n save(e / sum(e, dim=1), omap={x:0})"),
     "t1 = exp t0 device memory; t3 = div t1 registers, t2 registers|t2 = sum t1 folded", "depth 0  t1   exp|depth 1  t2   sum|0 after",
     "chunks of 16 bytes along"},
    {"rows are read by columns", "X: f16[64, 64]\n T = transpose(X)\n" IN_BLOCK("x=64", "x = iter(T, imap={x:0})\n save(exp(x), omap={x:0})"), "exp",
     "exp", "from X: one by one|to O: chunks of 16 bytes"},
};

static void contains(const char *name, const char *parts, const struct str *text)
{
  char copy[1024], *rest = copy;
  snprintf(copy, sizeof copy, "%s", parts);
  for (char *p = strtok_r(rest, "|", &rest); p; p = strtok_r(NULL, "|", &rest))
    if (!strstr(str_text(text), p)) fail_msg("%s: no '%s' in\n%s", name, p, str_text(text));
}

static void known(void **s)
{
  (void)s;
  for (size_t i = 0; i < COUNT(knowns); i++) {
    struct arena mem = {0};
    struct norm n;
    char why[160];
    struct str text = {0};
    struct graph *g = graph_of(&mem, arena_printf(&mem, "graph g {\n %s\n}\n", knowns[i].text));
    int node = 0;
    enum dtype *store = NEWS(&mem, enum dtype, g->ntensors);
    while (g->nodes[node].op != OP_BLOCK) node++;
    assert_int_equal(norm_make_in(&mem, g, NULL, node, &n, why), OK);
    chains_text(&n, n.passes, &text), contains(knowns[i].name, knowns[i].chains, &text);
    str_free(&text), schedule_text(&n, n.passes, &text), contains(knowns[i].name, knowns[i].schedule, &text);
    str_free(&text), meta_text(&n, n.passes, store, &text), contains(knowns[i].name, knowns[i].meta, &text);
    str_free(&text);
    arena_close(&mem);
  }
}

// ---- schedules against all orders ----

enum { STEPS = 7, ROOM = STEPS + 1 };
struct work { // steps, of which the first `loads` are loads
  int n, loads, in[STEPS][4];
  struct plan_step s[STEPS];
};

static void random_work(struct work *w)
{
  w->n = 3 + below(STEPS - 2), w->loads = below(3);
  for (int i = 0; i < w->n; i++) {
    w->s[i] = (struct plan_step){.load = i < w->loads, .pin = below(6) ? -1 : 0, .bytes = below(9), .reuses = below(2), .in = w->in[i]};
    for (int k = 0; k < i && w->s[i].nin < 3 && !w->s[i].load; k++)
      if (!below(2)) w->in[i][w->s[i].nin++] = k;
    w->s[i].waits = (uint32_t)below(8);
  }
}

// The most in use at once, of an order of all steps that are no loads: counted at each by who still needs what.
static int64_t most_in_use(const struct work *w, const int *order, int count)
{
  int64_t most = 0;
  int first[ROOM], last[ROOM];
  for (int v = 0; v < w->n; v++) {
    first[v] = count, last[v] = -1;
    for (int at = 0; at < count; at++)
      for (int k = 0; k < w->s[order[at]].nin; k++)
        if (w->s[order[at]].in[k] == v) last[v] = at, first[v] = MIN(first[v], at);
    for (int at = 0; at < count && !w->s[v].load; at++)
      if (order[at] == v) first[v] = at, last[v] = MAX(last[v], at);
    if (w->s[v].pin == 0) first[v] = 0, last[v] = count;
  }
  for (int at = 0; at < count; at++) {
    int64_t sum = 0, reused = 0;
    const struct plan_step *x = &w->s[order[at]];
    for (int v = 0; v < w->n; v++) sum += first[v] <= at && at <= last[v] ? w->s[v].bytes : 0;
    for (int k = 0; k < x->nin && x->reuses; k++)
      if (last[x->in[k]] == at) reused = MAX(reused, MIN(w->s[x->in[k]].bytes, x->bytes));
    most = MAX(most, sum - reused);
  }
  return most;
}

// Barriers that an order needs: one before a step that waits for what was computed since the last.
static int barriers(const struct work *w, const int *order, int count)
{
  int n = 0, since[ROOM] = {0}; // so many barriers were there when it was done; loads are on their way at first
  for (int at = 0; at < count; at++) {
    const struct plan_step *x = &w->s[order[at]];
    for (int k = 0; k < x->nin; k++)
      if (x->waits >> k & 1 && since[x->in[k]] == n) n++;
    since[order[at]] = n;
  }
  return n;
}

struct all_orders {
  const struct work *w;
  const int *depth;
  int order[ROOM], count, fewest;
  int64_t least;
  bool done[ROOM];
};

static void every_order(struct all_orders *a, int at)
{
  if (at >= MIN(a->count, STEPS)) {
    bool by_depth = true;
    for (int i = 1; i < at; i++) by_depth &= a->depth[a->order[i - 1]] <= a->depth[a->order[i]];
    a->fewest = MIN(a->fewest, barriers(a->w, a->order, at));
    if (by_depth) a->least = MIN(a->least, most_in_use(a->w, a->order, at));
    return;
  }
  for (int i = a->w->loads; i < a->w->n; i++) {
    bool ready = !a->done[i];
    for (int k = 0; k < a->w->s[i].nin; k++) ready &= a->w->s[i].in[k] < a->w->loads || a->done[a->w->s[i].in[k]];
    if (!ready) continue;
    a->done[i] = true, a->order[at] = i;
    every_order(a, at + 1);
    a->done[i] = false;
  }
}

static void schedules(void **s)
{
  (void)s;
  int greedy_worse = 0;
  for (int round = 0; round < 400; round++) {
    struct arena mem = {0};
    struct work w;
    int depth[ROOM], order[ROOM], plain[ROOM];
    int64_t at[ROOM], most = 0, most_plain = 0;
    random_work(&w);
    schedule_depths(w.n, w.s, depth);
    int count = schedule_order(&mem, w.n, w.s, depth, SCHEDULE_EXACT, order, at);
    struct all_orders a = {.w = &w, .depth = depth, .count = count, .fewest = 100, .least = INT64_MAX};
    assert_int_equal(count, w.n - w.loads);
    every_order(&a, 0);
    for (int i = 0; i < count; i++) most = MAX(most, at[i]);
    assert_int_equal(barriers(&w, order, count), a.fewest);
    assert_int_equal(depth[order[count - 1]], a.fewest);
    assert_int_equal(most, most_in_use(&w, order, count));
    assert_int_equal(most, a.least);
    schedule_order(&mem, w.n, w.s, depth, 0, plain, at);
    for (int i = 0; i < count; i++) most_plain = MAX(most_plain, at[i]);
    assert_int_equal(most_plain, most_in_use(&w, plain, count));
    greedy_worse += most_plain > most;
    arena_close(&mem);
  }
  assert_in_range(greedy_worse, 1, 200); // so the exact one is worth it, and the other not foolish
}

// ---- chunks against all elements ----

// Do w elements along the axis lie together and begin at a multiple of w, wherever the others stand?
static bool together(int n, const int64_t *extent, const int64_t *stride, int along, int64_t offset, int64_t elements, int w)
{
  int64_t at[4] = {0};
  if (w > 1 && (along < 0 || stride[along] != 1 || extent[along] % w || elements % w)) return false;
  for (;;) {
    int64_t address = offset;
    for (int i = 0; i < n; i++) address += at[i] * stride[i];
    if (w > 1 && at[along] % w == 0 && address % w) return false;
    int i = 0;
    for (; i < n && ++at[i] == extent[i]; i++) at[i] = 0;
    if (i == n) return true;
  }
}

static void chunks(void **s)
{
  (void)s;
  int found[9] = {0};
  for (int round = 0; round < 3000; round++) {
    static const int64_t extents[] = {1, 2, 3, 4, 6, 8, 16, 24}, strides[] = {0, 1, 2, 4, 8, 12, 16, 24, 32};
    int64_t extent[4], stride[4];
    int n = 1 + below(4), along = -1, want = 1;
    int64_t offset = strides[below((int)COUNT(strides))], elements = 4096 + (below(2) ? 0 : 4);
    for (int i = 0; i < n; i++) extent[i] = extents[below((int)COUNT(extents))], stride[i] = strides[below((int)COUNT(strides))];
    for (int i = 0; i < n; i++) along = stride[i] == 1 && extent[i] > 1 ? i : along;
    while (want < 8 && together(n, extent, stride, along, offset, elements, 2 * want)) want *= 2;
    assert_int_equal(plan_chunk(n, extent, stride, along, offset, elements, 8), want);
    found[want]++;
  }
  assert_true(found[1] && found[2] && found[4] && found[8]);
}

// ---- warps against a count of who reads what ----

static void warps(void **s)
{
  (void)s;
  static const int sizes[][3] = {{16, 64, 64}, {64, 64, 128}, {128, 24, 48}, {80, 136, 32}, {256, 16, 256}, {16, 8, 16}};
  for (size_t i = 0; i < COUNT(sizes); i++) {
    struct arena mem = {0};
    struct norm n;
    struct warp_layout w[WARP_LAYOUTS];
    char why[160];
    int m = sizes[i][0], c = sizes[i][1], k = sizes[i][2], seen = 0;
    struct graph *g = graph_of(&mem, arena_printf(&mem,
                                                  "graph g {\n A: f16[%d, %d]\n B: f16[%d, %d]\n O = block(x=1) { a = iter(A)\n b = iter(B)\n"
                                                  "save(matmul(a, b)) }\n return O\n}\n",
                                                  m, k, k, c));
    int node = 0;
    while (g->nodes[node].op != OP_BLOCK) node++;
    assert_int_equal(norm_make_in(&mem, g, NULL, node, &n, why), OK);
    int count = plan_threads(&n, &n.passes->chains, w);
    for (int at = 0; at < count; at++) {
      int64_t calls = 0, busiest = 0, elements = 0, parts = 0;
      for (int r = 0; r < w[at].rows; r++) // what each warp does, as if it had its share of whole tiles
        for (int l = 0; l < w[at].cols; l++) {
          int64_t rows = (m / 16 + w[at].rows - 1) / w[at].rows, wide = c / 8, steps = k / 16;
          if (w[at].sums)
            steps = (steps + w[at].cols - 1) / w[at].cols, parts += 2 * 4 * rows * 16 * wide * 8;
          else
            wide = (wide + w[at].cols - 1) / w[at].cols;
          calls = rows * wide * steps, busiest = MAX(busiest, calls), elements += rows * 16 * steps * 16 + wide * 8 * steps * 16;
        }
      assert_int_equal(w[at].calls, busiest);
      assert_int_equal(w[at].volume, 2 * elements + (w[at].sums && w[at].cols > 1 ? parts : 0));
      bool first = !(seen & w[at].rows * w[at].cols);
      for (int other = 0; other < count && first; other++) // the first of each number is the best of it
        if (w[other].rows * w[other].cols == w[at].rows * w[at].cols)
          assert_true(w[at].calls < w[other].calls || (w[at].calls == w[other].calls && w[at].volume <= w[other].volume));
      seen |= w[at].rows * w[at].cols;
      for (int other = 0; other < at; other++) assert_true(w[other].rows != w[at].rows || w[other].cols != w[at].cols || w[other].sums != w[at].sums);
    }
    int pairs = 0;
    for (int rows = 1; rows <= 16 && rows <= m / 16; rows *= 2)
      for (int cols = 1; rows * cols <= 16 && cols <= 8; cols *= 2) pairs += cols > 1 ? 2 : 1;
    assert_int_equal(count, pairs);
    arena_close(&mem);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(known), cmocka_unit_test(schedules), cmocka_unit_test(chunks), cmocka_unit_test(warps)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
