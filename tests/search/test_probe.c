// The probe, and the fingerprints that it and the search go by.
#include "examples.h"

#include "search/space.h"

// Programs that are cut into subprograms although they are not large.
static void test_hard(void **state)
{
  (void)state;
  static const struct {
    const char *name;
    bool hard;
  } rows[] = {{"m_gqa", false},  {"m_gated", false}, {"llama_rms_lora", false}, {"m_qknorm", false}, {"qknorm_qk", false},
              {"g_norm", false}, {"moe", true},      {"ngpt_alpha", true},      {"layer", true}};
  for (size_t i = 0; i < COUNT(rows); i++)
    for (uint64_t seed = 7; seed <= 8; seed++) {
      struct arena mem = {0};
      const struct search_opts o = {.threads = 1, .seed = seed};
      assert_int_equal(search_is_hard(load(&mem, rows[i].name, 0, NULL), &o), rows[i].hard);
      arena_close(&mem);
    }
}

// A program that is too much with the limit of two norms, and not with the usual one; one with that limit from the start; one that is too much.
static void test_easy(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct search_opts o = {.threads = 1, .seed = 7};
  const struct graph *batch = load(&mem, "../bench/programs/attention_qk", 1, (const struct setting[]){{"b", 8}});
  assert_true(search_is_hard(batch, &o));
  assert_int_equal(search_easy_ops(batch, &o), 11);
  o.max_block_ops = 16; // the user's word
  assert_int_equal(search_easy_ops(batch, &o), -1);
  o.max_block_ops = 0;
  assert_int_equal(search_easy_ops(load(&mem, "m_qknorm", 0, NULL), &o), 0);
  assert_int_equal(search_easy_ops(load(&mem, "ngpt_alpha", 0, NULL), &o), -1);
  assert_int_equal(search_easy_ops(load(&mem, "moe", 0, NULL), &o), -1);
  arena_close(&mem);
}

struct setup { // a search of a program, opened
  struct space s;
  struct fctx f;
  struct worker w;
  struct vocabulary voc;
  struct search_opts o;
  int ndev;
  struct device dev[MAX_VISITS];
};

static struct setup *open_setup(struct arena *mem, const char *name, bool shrunk)
{
  struct setup *x = NEW(mem, struct setup);
  const struct graph *p = load(mem, name, 0, NULL);
  char why[160];
  int later;
  x->o.seed = 7;
  search_defaults(&x->o, p, &later);
  assert_int_equal(classes_build(&x->s, p, why), OK);
  if (shrunk) classes_shrink(&x->s);
  finger_open(&x->f, &x->s, x->o.seed);
  assert_int_equal(workers_open(&x->w, 1, mem, &x->f, &x->o), OK);
  vocabulary_build(&x->voc, mem, &x->s);
  for (int v = 0; v < x->s.nvisit; v++)
    if (visit_given(&x->s, v)) x->dev[x->ndev++] = visit_device(&x->s, &x->w, 1, v);
  return x;
}

// Fingerprints over tiles alone tell as many values apart; and it makes no difference where a table is gone on with.
static void test_shrunk(void **state)
{
  (void)state;
  static const char *const names[] = {"m_gqa", "mha_dec", "g_lstm"};
  for (size_t i = 0; i < COUNT(names); i++) {
    struct arena mem = {0};
    struct setup *x[] = {open_setup(&mem, names[i], false), open_setup(&mem, names[i], true)};
    struct table *t[2] = {NULL, NULL};
    int n = schedules_build(&mem, &x[0]->s, &t[0]), values = 0;
    assert_int_equal(schedules_build(&mem, &x[1]->s, &t[1]), n);
    for (int k = 0; k < n; k++) {
      saturate(&t[0][k], &mem, &x[0]->w, &x[0]->f, &x[0]->voc, x[0]->dev, x[0]->ndev, &x[0]->o);
      table_open(&t[1][k], &mem, &x[1]->w, &x[1]->f, &x[1]->voc, x[1]->dev, x[1]->ndev, &x[1]->o);
      for (int upto = 1; saturate_more(&t[1][k], &mem, &x[1]->w, &x[1]->f, &x[1]->o, upto);) upto += 3;
      assert_int_equal(t[0][k].n, t[1][k].n);
      assert_int_equal(t[0][k].nd, t[1][k].nd);
      values += t[0][k].n;
    }
    assert_true(values > 100);
    for (int k = 0; k < 2; k++) workers_close(&x[k]->w, 1);
    arena_close(&mem);
  }
}

static bool same(const struct finger *a, const struct finger *b)
{
  return a->has == b->has && a->q == b->q && a->n == b->n && !memcmp(a->v, b->v, sizeof *a->v * (size_t)a->n);
}

// A product is the sum of elementwise products, whatever it is summed over; x / y * y is x where y is not 0, and 0
// there.
static void test_fingers(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct setup *x = open_setup(&mem, "m_gqa", false);
  const struct attrs none = {0};
  int pairs = 0;
  for (int i = 0; i < x->ndev; i++)
    for (int k = 0; k < x->ndev; k++) {
      struct finger a = x->dev[i].f, b = x->dev[k].f, both, sum, product, quotient, back;
      b.v = arena_copy(&mem, b.v, sizeof *b.v * (size_t)b.n), b.v[0] = (struct fv){0};
      b.v[b.n - 1].q = 0;
      assert_true(finger_map(&x->f, &mem, OP_MUL, &none, &a, &b, &both));
      for (int c = 0; c < x->s.nclass; c++)
        for (int piece = 0; piece < 8; piece++) {
          mask over = (mask)piece << (3 * c) & a.has & b.has;
          finger_fold(&x->f, &mem, OP_SUM, &both, over, 1, &sum);
          finger_product(&x->f, &mem, &a, &b, over, &product);
          assert_true(same(&sum, &product));
          pairs += over != 0;
        }
      assert_true(finger_map(&x->f, &mem, OP_DIV, &none, &both, &b, &quotient));
      assert_true(finger_map(&x->f, &mem, OP_MUL, &none, &quotient, &b, &back));
      assert_true(same(&back, &both));
      assert_false(same(&quotient, &both));
    }
  assert_true(pairs > 10);
  workers_close(&x->w, 1);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_hard), cmocka_unit_test(test_easy), cmocka_unit_test(test_shrunk),
                                     cmocka_unit_test(test_fingers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
