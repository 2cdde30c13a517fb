// The search's own values, schedule by schedule, made as search.c makes them, and every graph that they hold: not the
// few that the cost model likes.
#include "naive.h"
#include "examples.h"

#include "search/space.h"
#include "verify/verify.h"

struct tables {
  struct space s;
  struct fctx f;
  struct worker w;
  struct vocabulary voc;
  struct search_opts o;
  struct device dev[MAX_VISITS];
  struct model m;
  struct planner pl;
};

static void add_device(struct tables *t, int visit)
{
  const struct graph *p = t->s.p;
  struct device *d = &t->dev[t->pl.ndev++];
  *d = (struct device){.has = t->s.visit[visit].full,
                       .e = {t->w.ref.e[visit]},
                       .ehash = expr_hash(t->w.ex, t->w.ref.e[visit]),
                       .f = t->w.ref.f[visit],
                       .hash = t->w.ref.hash[visit],
                       .visit = visit,
                       .input = -1};
  int tensor = t->s.visit[visit].tensor;
  if (p->nodes[p->tensors[tensor].node].op == OP_INPUT) d->input = tensor;
}

static void add_devices(struct tables *t, bool given)
{
  for (int v = 0; v < t->s.nvisit; v++) {
    const struct node *n = &t->s.p->nodes[t->s.p->tensors[t->s.visit[v].tensor].node];
    bool out = false;
    for (int o = 0; o < t->s.nout; o++) out |= t->s.out[o] == v;
    if ((n->op == OP_INPUT || n->op == OP_CONST) != given || (!given && (out || op_rows[n->op].rule == RULE_VIEW))) continue;
    add_device(t, v);
  }
}

static void add_table(struct arena *mem, struct tables *t, int *cap, unsigned grid, int loop)
{
  struct table x = {.sch = {.loop = loop}};
  for (int c = 0; c < t->s.nclass; c++)
    if (grid >> c & 1) x.sch.grid[x.sch.ngrid++] = c;
  saturate(&x, mem, &t->w, &t->f, &t->voc, t->dev, t->pl.ndev, &t->o);
  for (int v = 0; v < x.n; v++) x.v[v].f.v = NULL;
  arena_close(&t->w.scratch);
  t->pl.complete &= !x.cut;
  PUSH(mem, t->pl.tables, t->pl.ntables, *cap) = x;
}

struct tables *tables_open(struct arena *mem, const struct graph *p, unsigned off, int max_ops, bool cuts)
{
  struct tables *t = NEW(mem, struct tables);
  char why[160];
  int cap = 0;
  t->o = (struct search_opts){.max_block_ops = max_ops, .max_kernel_ops = 1, .max_values = 60000, .off = off};
  if (classes_build(&t->s, p, why)) fail_msg("%s", why);
  finger_open(&t->f, &t->s, 1);
  t->w.ex = expr_open();
  expr_option_exp_laws(t->w.ex, false);
  expr_option_expand_squares(t->w.ex, off >> PRUNE_SQUARE & 1);
  assert_int_equal(reference_build(&t->w.ref, mem, &t->f, t->w.ex), OK);
  vocabulary_build(&t->voc, mem, &t->s);
  t->m = (struct model){&t->s, &machine, t->dev};
  t->pl = (struct planner){.m = &t->m, .o = &t->o, .later_ops = max_ops, .stats = &t->w.stats, .mem = mem, .complete = true};
  add_devices(t, true);
  t->pl.nfixed = t->pl.ndev;
  if (cuts) add_devices(t, false);
  t->pl.ncut = t->pl.ndev - t->pl.nfixed;
  for (unsigned grid = 0; grid < 1u << t->s.nclass; grid++)
    for (int c = -1; c < t->s.nclass && __builtin_popcount(grid) <= MAX_GRID; c++)
      if (c < 0 || (t->s.classes[c].kind & (CONTRACTED | REDUCED))) add_table(mem, t, &cap, grid, c);
  for (int o = 0; o < t->s.nout; o++) add_device(t, t->s.out[o]);
  if (!t->pl.complete) fail_msg("too many values with %d operators, off %x", max_ops, off);
  for (int i = 0; i < t->pl.ntables; i++) extract_open(mem, &t->pl.tables[i], t->pl.nfixed), work_open(mem, &t->m, &t->pl.tables[i]);
  return t;
}

void tables_close(struct tables *t)
{
  expr_close(t->w.ex);
  arena_close(&t->w.scratch), arena_close(&t->w.pairs.mem);
}

const struct planner *tables_planner(const struct tables *t) { return &t->pl; }

bool tables_root(const struct tables *t, int table, int v)
{
  const struct table *x = &t->pl.tables[table];
  const struct device *out = &t->dev[t->pl.nfixed + t->pl.ncut];
  mask has;
  return x->v[v].der >= 0 && value_saveable(&t->s, x, &x->v[v], &has) && has == out->has && x->v[v].hash == out->hash;
}

// ---- graphs --------------------------------------------------------------------------------------------------------

struct taking {
  struct arena *mem;
  struct tables *t;
  struct trial_inputs *x;
  struct naive *out;
  struct option o;
};

// The sizes of that number: every axis has an extent of 2, 4, .. up to `most`; false where one does not divide its
// class.
static bool sizes_from(const struct tables *t, const struct search_schedule *sch, int code, int powers, struct sizes *z)
{
  *z = (struct sizes){.blocks = 1, .iterations = 1};
  for (int c = 0; c < t->s.nclass; c++) z->ext[c][GRID] = z->ext[c][LOOP] = 1;
  for (int i = 0; i < sch->ngrid; i++, code /= powers) z->blocks *= z->ext[sch->grid[i]][GRID] = 2 << code % powers;
  if (sch->loop >= 0) z->iterations = z->ext[sch->loop][LOOP] = 2 << code % powers, code /= powers;
  for (int c = 0; c < t->s.nclass; c++) {
    int64_t axes = z->ext[c][GRID] * z->ext[c][LOOP];
    if (t->s.classes[c].extent % axes) return false;
    z->ext[c][TILE] = t->s.classes[c].extent / axes;
  }
  return !code;
}

static double cost_of(const struct taking *k, const struct pick *p)
{
  const struct table *t = &k->t->pl.tables[k->o.table];
  struct works w;
  work_of(t, p, k->o.root, 1, &w);
  return cost_kernel(&k->t->m, t, &w, &k->o.z);
}

static bool take(void *arg, const struct pick *p)
{
  struct taking *k = arg;
  struct graph *g;
  struct err e = {0};
  k->o.p = *p;
  const struct plan plan = {.n = 1, .k = {&k->o}};
  k->out->complete++;
  if (assemble(k->mem, &k->t->pl, &plan, &g, &e) || graph_check(g, &e)) fail_msg("%s", e.text);
  uint64_t key = structure_key(g, &k->x->F, k->x->in);
  double cost = cost_of(k, p);
  for (int i = 0; i < k->out->n; i++)
    if (k->out->found[i].key == key) return true;
  if (!verify_filter(k->t->s.p, g, 1))
    k->out->wrong++;
  else
    PUSH(k->mem, k->out->found, k->out->n, k->out->cap) = (struct naive_graph){g, key, cost};
  return true;
}

void tables_graphs(struct arena *mem, struct tables *t, int max_ops, int max_axes, int powers, struct trial_inputs *x, struct naive *out)
{
  *out = (struct naive){0};
  for (int i = 0; i < t->pl.ntables; i++) {
    const struct table *y = &t->pl.tables[i];
    struct taking k = {mem, t, x, out, {.table = i, .node = -1, .nmake = 1, .split = -1, .kernels = 1}};
    k.o.make[0] = t->pl.nfixed + t->pl.ncut;
    for (int v = 0; v < y->n && y->sch.ngrid <= max_axes; v++) {
      if (!tables_root(t, i, v)) continue;
      k.o.root[0] = v;
      for (int code = 0; code < powers * powers * powers * powers; code++)
        if (sizes_from(t, &y->sch, code, powers, &k.o.z)) assert_true(extract(y, &v, 1, max_ops, t->pl.nfixed, 0, take, &k));
    }
  }
}

bool naive_has(const struct naive *x, uint64_t key)
{
  for (int i = 0; i < x->n; i++)
    if (x->found[i].key == key) return true;
  return false;
}
