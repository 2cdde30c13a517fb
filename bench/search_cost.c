// Cost of the steps of a search: an operator that is tried (a state), a normal form, a query of the oracle, a fingerprint. Each program's values of
// all schedules over its inputs are computed first. Then each step is timed separately.
//
//   build/search_cost examples/m_gqa.mica...      nanoseconds a step, one thread
#include "front/front.h"
#include "search/space.h"

#include <stdlib.h>

enum { MOST_TABLES = 1024, MOST_NEW = 2000000 };

struct bench {
  struct arena mem;
  struct space s;
  struct fctx f;
  struct vocabulary voc;
  struct worker w;
  int ndev, ntable;
  struct device dev[MAX_VISITS];
  struct table table[MOST_TABLES];
};

static bool load_program(struct bench *b, const char *path)
{
  struct err e = {0};
  struct graph *g, *f32, *plain;
  char why[160] = "";
  if (front_load(&b->mem, path, 0, NULL, &g, &e) || graph_cast(&b->mem, g, F32, &f32, &e) || graph_expand(&b->mem, f32, false, &plain, &e))
    return err_print(stderr, &e), false;
  b->w.ex = expr_open();
  expr_option_exp_laws(b->w.ex, false);
  if (classes_build(&b->s, plain, why) != OK) return fprintf(stderr, "%s: %s\n", path, why), false;
  finger_open(&b->f, &b->s, 1);
  return reference_build(&b->w.ref, &b->mem, &b->f, b->w.ex) == OK;
}

static void add_inputs(struct bench *b)
{
  const struct reference *r = &b->w.ref;
  for (int v = 0; v < b->s.nvisit; v++) {
    enum op op = b->s.p->nodes[b->s.p->tensors[b->s.visit[v].tensor].node].op;
    if (op != OP_INPUT && op != OP_CONST) continue;
    b->dev[b->ndev++] = (struct device){
        .has = b->s.visit[v].full, .f = r->f[v], .hash = r->hash[v], .visit = v, .input = -1, .ehash = expr_hash(b->w.ex, r->e[v]), .e = {r->e[v]}};
  }
}

static void add_schedules(struct bench *b)
{
  for (unsigned grid = 0; grid < 1u << b->s.nclass; grid++)
    for (int loop = -1; loop < b->s.nclass && __builtin_popcount(grid) <= MAX_GRID && b->ntable < MOST_TABLES; loop++) {
      if (loop >= 0 && !(b->s.classes[loop].kind & (CONTRACTED | REDUCED))) continue;
      struct search_schedule *sch = &b->table[b->ntable++].sch;
      sch->loop = loop;
      for (int c = 0; c < b->s.nclass; c++)
        if (grid >> c & 1) sch->grid[sch->ngrid++] = c;
    }
}

static double saturate_all(struct bench *b)
{
  const struct search_opts o = {.max_values = 1500, .max_block_ops = 11};
  double start = now_seconds();
  for (int i = 0; i < b->ntable; i++) saturate(&b->table[i], &b->mem, &b->w, &b->f, &b->voc, b->dev, b->ndev, &o);
  return now_seconds() - start;
}

// Times the products of all pairs of values of each table, up to MOST_NEW: built, queried, and both again.
static void oracle(const struct bench *b, double *built, double *asked, double *again, int *n)
{
  struct arena mem = {0};
  struct expr *ex = expr_open();
  struct reference *ref = NEW(&mem, struct reference);
  nf *e = NEWS(&mem, nf, MOST_NEW), *x = NEWS(&mem, nf, MOST_NEW), *y = NEWS(&mem, nf, MOST_NEW);
  expr_option_exp_laws(ex, false);
  CHECK(reference_build(ref, &mem, &b->f, ex) == OK);
  *n = 0;
  for (int i = 0; i < b->ntable; i++) {
    nf *copy = NEWS(&mem, nf, b->table[i].n);
    for (int k = 0; k < b->table[i].n && *n < MOST_NEW; k++) {
      copy[k] = expr_copy(ex, b->w.ex, b->table[i].v[k].e);
      for (int l = 0; l <= k && *n < MOST_NEW; l++, ++*n) x[*n] = copy[k], y[*n] = copy[l];
    }
  }
  double start = now_seconds();
  for (int i = 0; i < *n; i++) e[i] = expr_mul(ex, x[i], y[i]);
  *built = now_seconds() - start, start = now_seconds();
  for (int i = 0; i < *n; i++) expr_sub(ex, e[i]);
  *asked = now_seconds() - start, start = now_seconds();
  for (int i = 0; i < *n; i++) expr_sub(ex, expr_mul(ex, x[i], y[i]));
  *again = now_seconds() - start;
  expr_close(ex);
  arena_close(&mem);
}

static void finger_again(const struct bench *b, struct arena *mem, const struct table *t, const struct deriv *d, struct finger *out)
{
  const struct finger *x = &t->v[d->a].f, *y = d->b < 0 ? NULL : &t->v[d->b].f;
  struct attrs a = attrs_default(d->op);
  mask loop = t->sch.loop < 0 ? 0 : bit(t->sch.loop, LOOP), over = d->cls < 0 ? 0 : t->v[d->a].stored & all_of(d->cls);
  if (d->attrs >= 0) a = t->voc->i[d->attrs].a;
  if (d->op == OP_MATMUL)
    finger_product(&b->f, mem, x, y, over, out);
  else if (op_rows[d->op].rule == RULE_MAP)
    finger_map(&b->f, mem, d->op, &a, x, y, out);
  else
    finger_fold(&b->f, mem, d->op, x, op_rows[d->op].rule == RULE_ACCUM ? over | loop : over, 1, out);
  out->n += finger_hash(out) == 0; // a use, so that the loop is not optimized away
}

static double fingers(const struct bench *b, int *n, double *elements)
{
  struct arena mem = {0};
  double start = now_seconds();
  for (int i = 0; i < b->ntable; i++)
    for (int k = 0; k < b->table[i].nd; k++, ++*n) {
      struct arena_mark top = arena_mark(&mem);
      struct finger out;
      finger_again(b, &mem, &b->table[i], &b->table[i].d[k], &out);
      *elements += (double)out.n;
      arena_reset(&mem, top);
    }
  double end = now_seconds();
  arena_close(&mem);
  return end - start;
}

static void report(struct bench *b, const char *path)
{
  double built, asked, again, elements = 0;
  int queries, n = 0;
  double states = saturate_all(b) / (double)MAX(b->w.stats.states, 1u);
  oracle(b, &built, &asked, &again, &queries);
  double f = fingers(b, &n, &elements) / MAX(n, 1);
  double q = 1e9 / MAX(queries, 1);
  printf("%-32s %10llu %7.0f %8.0f %8.0f %8.0f %9d %8.0f %9.0f\n", path, (unsigned long long)b->w.stats.states, 1e9 * states, q * built, q * asked,
         q * again, n, 1e9 * f, elements / MAX(n, 1));
}

int main(int argc, char **argv)
{
  printf("%-32s %10s %7s %8s %8s %8s %9s %8s %9s\n", "program", "states", "state", "normal", "oracle", "known", "values", "finger", "elements");
  for (int i = 1; i < argc; i++) {
    struct bench *b = calloc(1, sizeof *b);
    CHECK(b);
    if (!load_program(b, argv[i])) return USER;
    add_inputs(b), add_schedules(b);
    vocabulary_build(&b->voc, &b->mem, &b->s);
    report(b, argv[i]);
    expr_close(b->w.ex);
    arena_close(&b->w.pairs.mem), arena_close(&b->w.scratch), arena_close(&b->mem);
    free(b);
  }
  return OK;
}
