// extract() against a depth-first search of the paper's Algorithm 1 over the same table of values: prefixes grow by one
// derivation at a time in increasing rank, from every set of leaves, and count when all that they hold is used by the
// output. Both must give the same graphs, each once.
#include "examples.h"
#include "naive.h"

#include "search/space.h"

struct graphs { // as sums over what is in them
  struct arena *mem;
  int n, cap;
  uint64_t *key;
};

static uint64_t leaf_key(int v) { return hash_mix(1, (uint64_t)v); }
static uint64_t deriv_key(int d) { return hash_mix(2, (uint64_t)d); }

// ---- depth first ---------------------------------------------------------------------------------------------------

struct prefix {
  const struct table *t;
  const int *owner;        // value of each derivation
  int *first[2], *next[2]; // derivations by operand a, by operand b
  int root, max_ops, first_extra;
  int n, value[MAX_PICK], users[MAX_PICK], idle, ops;
  int *at; // value -> place in the prefix, or -1
  uint64_t key, steps;
  struct graphs *out;
};

static void grow(struct prefix *p, uint64_t rank);

static void push(struct prefix *p, int v, uint64_t key) { p->at[v] = p->n, p->users[p->n] = 0, p->value[p->n++] = v, p->idle++, p->key += key; }

static void pop(struct prefix *p, uint64_t key) { p->at[p->value[--p->n]] = -1, p->idle--, p->key -= key; }

static void use(struct prefix *p, int v, int by)
{
  int *users = &p->users[p->at[v]];
  p->idle += by > 0 ? -!*users : *users == 1;
  *users += by;
}

// By the largest operand, the other, the operator.
static void add(struct prefix *p, int d, uint64_t rank)
{
  const struct deriv *x = &p->t->d[d];
  int v = p->owner[d], a = p->at[x->a], b = x->b < 0 ? -1 : p->at[x->b];
  uint64_t mine = (((uint64_t)MAX(a, b) * 128 + (uint64_t)(MIN(a, b) + 1)) * 128 + (uint64_t)x->op) << 32 | (uint64_t)d;
  bool given = p->t->v[v].leaf >= 0 && p->t->v[v].leaf < p->first_extra;
  if (p->at[v] >= 0 || given || mine <= rank) return;
  push(p, v, deriv_key(d)), use(p, x->a, 1);
  if (b >= 0) use(p, x->b, 1);
  if (p->idle - 1 <= p->max_ops - ++p->ops) grow(p, mine);
  p->ops--;
  if (b >= 0) use(p, x->b, -1);
  use(p, x->a, -1), pop(p, deriv_key(d));
}

static void grow(struct prefix *p, uint64_t rank)
{
  p->steps++;
  if (p->at[p->root] >= 0) {
    if (p->idle == 1) PUSH(p->out->mem, p->out->key, p->out->n, p->out->cap) = p->key;
    return;
  }
  if (p->ops == p->max_ops) return;
  for (int i = 0; i < p->n; i++) {
    int v = p->value[i];
    for (int d = p->first[0][v]; d >= 0; d = p->next[0][d])
      if (p->t->d[d].b < 0 || (p->at[p->t->d[d].b] >= 0 && p->at[p->t->d[d].b] <= i)) add(p, d, rank);
    for (int d = p->first[1][v]; d >= 0; d = p->next[1][d])
      if (p->at[p->t->d[d].a] >= 0 && p->at[p->t->d[d].a] < i) add(p, d, rank);
  }
}

// Every set of leaves from value v on, of which at most `extra` are made by earlier kernels.
static void leaves(struct prefix *p, int v, int extra)
{
  while (v < p->t->n && (p->t->v[v].leaf < 0 || v == p->root)) v++;
  if (v == p->t->n) {
    if (p->n && p->idle - 1 <= p->max_ops) grow(p, 0);
    return;
  }
  leaves(p, v + 1, extra);
  int takes = p->t->v[v].leaf >= p->first_extra;
  if (takes > extra) return;
  push(p, v, leaf_key(v));
  leaves(p, v + 1, extra - takes);
  pop(p, leaf_key(v));
}

static uint64_t depth_first(struct arena *mem, const struct table *t, int root, int max_ops, int first_extra, int extra, struct graphs *out)
{
  int *owner = NEWS(mem, int, t->nd + 1);
  struct prefix p = {.t = t, .owner = owner, .root = root, .max_ops = max_ops, .first_extra = first_extra, .at = NEWS(mem, int, t->n), .out = out};
  memset(p.at, -1, sizeof(int) * (size_t)t->n);
  for (int k = 0; k < 2; k++) {
    p.first[k] = NEWS(mem, int, t->n), p.next[k] = NEWS(mem, int, t->nd + 1);
    memset(p.first[k], -1, sizeof(int) * (size_t)t->n);
    for (int d = 0; d < t->nd; d++) {
      int v = k ? t->d[d].b : t->d[d].a;
      if (v < 0) continue;
      p.next[k][d] = p.first[k][v], p.first[k][v] = d;
    }
  }
  for (int v = 0; v < t->n; v++)
    for (int d = t->v[v].der; d >= 0; d = t->d[d].next) owner[d] = v;
  leaves(&p, 0, extra);
  return p.steps;
}

// ---- both ----------------------------------------------------------------------------------------------------------

static bool take(void *arg, const struct pick *p)
{
  struct graphs *out = arg;
  uint64_t key = 0;
  for (int i = 0; i < p->n; i++) key += p->deriv[i] < 0 ? leaf_key(p->value[i]) : deriv_key(p->deriv[i]);
  PUSH(out->mem, out->key, out->n, out->cap) = key;
  return true;
}

static int by_key(const void *x, const void *y)
{
  uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
  return a < b ? -1 : a > b;
}

static void sort(struct graphs *g)
{
  if (g->n) qsort(g->key, (size_t)g->n, sizeof *g->key, by_key);
  for (int i = 1; i < g->n; i++) assert_true(g->key[i - 1] != g->key[i]); // each once
}

static const struct {
  const char *name;
  int ops, ops_later; // of block graphs over inputs (0: none so small); over inputs and what earlier kernels left
} rows[] = {
    {"m_rms", 8, 6}, {"m_gated", 8, 6}, {"m_lora", 8, 6}, {"lora", 8, 6},    {"m_gqa", 9, 6}, {"softmax", 9, 9},
    {"mlp", 8, 6},   {"g_gemm", 8, 6},  {"g_norm", 0, 4}, {"mha_dec", 9, 6}, {"m_moe", 6, 6}, {"g_lstm", 8, 6},
};

static void compare(const char *name, int ops, bool later)
{
  struct arena mem = {0};
  struct tables *ts = tables_open(&mem, load(&mem, name, 0, NULL), 0, ops, later);
  const struct planner *pl = tables_planner(ts);
  int graphs = 0;
  uint64_t steps = 0;
  double t0 = now_seconds();
  for (int i = 0; i < pl->ntables; i++)
    for (int v = 0; v < pl->tables[i].n; v++) {
      if (!tables_root(ts, i, v)) continue;
      struct arena one = {0};
      struct graphs x = {.mem = &one}, y = {.mem = &one};
      assert_true(extract(&pl->tables[i], &v, 1, ops, pl->nfixed, later ? 3 : 0, take, &x));
      steps += depth_first(&one, &pl->tables[i], v, ops, pl->nfixed, later ? 3 : 0, &y);
      sort(&x), sort(&y);
      if (x.n != y.n || (x.n && memcmp(x.key, y.key, sizeof *x.key * (size_t)x.n)))
        fail_msg("%s, table %d: extract gives %d graphs, a depth-first search %d", name, i, x.n, y.n);
      graphs += x.n;
      arena_close(&one);
    }
  print_message("%s, %d operators%s: %d graphs, %llu prefixes, %.2f s\n", name, ops, later ? " and earlier kernels" : "", graphs,
                (unsigned long long)steps, now_seconds() - t0);
  assert_true(graphs > 0);
  tables_close(ts);
  arena_close(&mem);
}

static void test_one_kernel(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++)
    if (rows[i].ops) compare(rows[i].name, rows[i].ops, false);
}

static void test_later_kernels(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) compare(rows[i].name, rows[i].ops_later, true);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_kernel), cmocka_unit_test(test_later_kernels)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
