// Tensors between kernels in other orders than row by row: whichever is asked for, all launches leave what the graph says; what is
// chosen where one order is better.
// test: timeout 120
#include "given.h"
#include "thin.h"
#include "sim/device_proof.h"
#include "plan/layout.h"

#include <string.h>

// Every launch of the program with these choices; returns how many tensors between kernels it left in another order.
static void run(const char *name, const struct lower_plan *p, const struct choice *pick)
{
  struct arena mem = {0};
  struct err e = {0};
  struct device_program d;
  struct device_host h = {0};
  must(lower_make(&mem, p, pick, &d, &e), name, &e);
  must(device_host_open(&h, &mem, &d, &(struct device_host_opts){.seed = 3}, &e), name, &e);
  for (int i = 0; i < d.nlaunch; i++) {
    struct sim_report r;
    struct device_answer a[8];
    must(device_host_launch(&h, i, &r, NULL, &e), name, &e);
    int n = device_host_compare(&h, i, 8, a);
    if (r.found) fail_msg("%s, %s (%s): %s", name, d.launch[i].name, d.launch[i].how, r.errors[0].text);
    assert_true(n > 0);
    for (int k = 0; k < n; k++)
      if (!a[k].fine) fail_msg("%s, %s (%s): %s is off by %g", name, d.launch[i].name, d.launch[i].how, a[k].name, a[k].relative);
  }
  device_host_close(&h);
  arena_close(&mem);
}

// The first two ways of each scheme, with the tail and without.
static int some_choices(const struct lower_unit *u, const struct choice **out)
{
  int n = 0, seen[16] = {0};
  for (int i = 0; i < u->nchoices && !u->product; i++)
    if (seen[2 * u->choice[i].scheme + u->choice[i].tail]++ < 2 && n < 16) out[n++] = &u->choice[i];
  return n;
}

static int in_order(const char *name, struct arena *mem, const struct graph *w, const struct order *o, const struct target *gpu)
{
  struct lower_plan p;
  struct err e = {0};
  struct lower_opts opts = {.tails = true, .dependent = true, .order = o};
  int ran = 0;
  int status = lower_plan_of(mem, w, store_types(mem, w, NULL), gpu, &opts, &p, &e);
  if (status == USER && e.id == ERR_TARGET) return 0; // batches of the library's products without strides: row by row then
  must(status, name, &e);
  struct choice *pick = NEWS(mem, struct choice, p.nunits + 1);
  for (int i = 0; i < p.nunits; i++) {
    if (!p.unit[i].nchoices) fail_msg("%s: %s: %s", name, p.unit[i].name, p.unit[i].why);
    pick[i] = p.unit[i].choice[0];
  }
  run(name, &p, pick), ran++;
  for (int i = 0; i < p.nunits; i++) {
    const struct choice *some[16];
    struct choice kept = pick[i];
    int n = some_choices(&p.unit[i], some);
    for (int k = 0; k < n; k += thinned(2), ran++) pick[i] = *some[k], run(name, &p, pick);
    pick[i] = kept;
  }
  for (int i = 0; i < p.nunits; i++) { // each kernel by itself, smaller
    struct device_proof proof;
    const char *why = "";
    if (p.unit[i].product || lower_inside(&p, pick, i)) continue;
    if (device_prove(mem, &p, pick, i, 1, 2, NULL, &proof, &why, &e) != OK) fail_msg("%s: %s", name, why);
    assert_int_equal(proof.run, 1);
  }
  return ran;
}

static void all_orders(void **state)
{
  (void)state;
  struct target gpu = h200();
  int ran = 0, turned = 0, none = 0;
  struct table table;
  table_open(&table, "order");
  for (int i = 0; i < table.n; i++)
    for (int way = 0; way < 6; way++) {
      struct arena mem = {0};
      struct err e = {0};
      struct graph *w;
      must(wrap_library(&mem, graph_of(&mem, table.row[i].text), &w, &e), table.row[i].title, &e);
      struct order *o = NEWS(&mem, struct order, w->ntensors + 1);
      for (int t = 0; t < w->ntensors; t++) {
        const struct shape *s = &w->tensors[t].shape;
        bool product = w->nodes[w->tensors[t].node].op == OP_MATMUL, fixed = layout_fixed(w, t);
        int inner = s->n - 1 - (product ? 0 : way / 2);
        for (int k = 0; k < w->nnodes; k++) // the library wants one of the last two dimensions
          for (int j = 0; j < w->nodes[k].nin && w->nodes[k].op == OP_MATMUL; j++)
            if (way / 2 > 1 && w->nodes[k].in[j] == t) inner = s->n - 1;
        o[t] = (struct order){fixed || inner < 0 ? -1 : inner, !fixed && way % 2};
        turned += inner >= 0 && inner < s->n - 1 && !fixed && s->d[inner] > 1;
      }
      int now = in_order(table.row[i].title, &mem, w, o, &gpu);
      ran += now, none += !now;
      arena_close(&mem);
    }
  table_close(&table);
  assert_true(turned > 20 && ran > 200 / thinned(2) && none < 6);
}

// ---- what is chosen ----

static void transposed_consumer(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct lower_plan p;
  struct target gpu = h200();
  struct graph *g = read(&mem, "X: f16[512, 512]\n T = block(x=32) { x = iter(X, imap={x:1})\n save(exp(x), omap={x:1}) }\n"
                               "O = block(x=128) { t = iter(T, imap={x:1})\n save(transpose(t / sum(t, dim=0)), omap={x:0}) }\n return O");
  must(lower_plan(&mem, g, &gpu, &(struct lower_opts){.tails = true, .dependent = true}, &p, &e), "transposed", &e);
  assert_non_null(p.order);
  const struct plan_access *a = &p.unit[0].n.save[0];
  int64_t stride[MAX_DIMS];
  assert_int_equal(order_strides(&p.order[a->tensor], &p.g->tensors[a->tensor].shape, stride), 512 * 512);
  assert_int_equal(stride[0], 1);
  assert_int_equal(stride[1], 512);
  for (int t = 0; t < p.g->ntensors; t++) // inputs and outputs stay
    if (layout_fixed(p.g, t)) assert_true(p.order[t].inner < 0 && !p.order[t].padded);
  struct choice pick[2] = {p.unit[0].choice[0], p.unit[1].choice[0]};
  run("transposed", &p, pick);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_orders), cmocka_unit_test(transposed_consumer)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
