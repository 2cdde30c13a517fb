// Finds products, statistics and second products among the values. Rules have pushed sums inward (kern/rule_sums.c). So the loop computes only
// products of elements by weights, and sums of elements. A product after the loop multiplies one of these by weights that are loaded whole.
#include "lower/skinny.h"

int sk_no(struct sk_plan *p, const char *what)
{
  if (!*p->why) snprintf(p->why, 160, "%s", what);
  return -1;
}

static axis_set letters(const struct sk_plan *p) { return p->kern.letters & ~p->kern.loops; }

// ---- spaces ----

// Axes in the order in which an access walks them, slowest first.
struct lower_space sk_walked(const struct sk_plan *p, axis_set s, const struct kern_access *a)
{
  struct lower_space out = {.size = 1};
  while (s) {
    int best = -1;
    EACH_AXIS(i, s)
      if (best < 0 || a->stride[i] > a->stride[best]) best = i;
    space_push(&out, p->kern.extent, best), s &= ~AXIS(best);
  }
  return out;
}

// The first load of x that has the axes; without axes, any load.
static const struct kern_access *load_of(const struct sk_plan *p, int v, axis_set s)
{
  static const struct kern_access none;
  const struct kern_value *x = &p->kern.v[v];
  if (x->kind == KERN_LOAD) return s & ~x->axes ? &none : &x->at;
  for (int i = 0; i < x->nin; i++) {
    const struct kern_access *a = load_of(p, x->in[i], s);
    if (a != &none) return a;
  }
  return &none;
}

// Summed axes, slowest first: parts, iterations, letters.
static bool over_k(struct sk_plan *p, axis_set folded, const struct kern_access *a)
{
  if (p->k.size) return folded == p->letters_k;
  struct lower_space l = sk_walked(p, folded & letters(p), a);
  p->k.size = 1, p->letters_k = folded;
  for (int loops = 0; loops < 2; loops++)
    EACH_AXIS(i, folded & ~letters(p) & (loops ? p->kern.loops : ~p->kern.loops)) space_push(&p->k, p->kern.extent, i);
  for (int i = 0; i < l.n; i++) space_push(&p->k, p->kern.extent, l.axis[i]);
  return true;
}

static bool of_rows(struct sk_plan *p, axis_set rows, int x)
{
  if (p->rows.size) return rows == space_axes(&p->rows);
  struct lower_space s = sk_walked(p, rows, load_of(p, x, rows));
  return s.size <= SK_ROWS && (p->rows = s, true);
}

// ---- products ----

static int add_product(struct sk_plan *p, int v, int x, int w)
{
  const struct kern_value *y = &p->kern.v[v];
  const struct kern_access *a = &p->kern.v[w].at;
  axis_set batch = y->batch & letters(p) & ~y->folded, cols = p->kern.v[w].axes & letters(p) & ~y->folded & ~batch;
  if (p->kern.v[w].kind != KERN_LOAD) return sk_no(p, "weights that are computed");
  if (p->nproducts && p->batch != batch) return sk_no(p, "products of different batches");
  if (!of_rows(p, p->kern.v[x].axes & letters(p) & ~y->folded & ~batch, x)) return sk_no(p, "more than 32 rows, or products of different rows");
  if (!over_k(p, y->folded, a)) return sk_no(p, "products that sum over different dimensions");
  if (p->nproducts == SK_PRODUCTS) return sk_no(p, "too many products");
  p->batch = batch;
  p->product[p->nproducts] = (struct sk_product){.value = v, .x = x, .w = w, .cols = sk_walked(p, cols, a)};
  return p->role[v].number = p->nproducts++, 0;
}

// Weights are loaded. If both operands are loads, the right one is the weights, unless the left one has many rows.
static int product(struct sk_plan *p, int v)
{
  const struct kern_value *y = &p->kern.v[v];
  axis_set rows = p->kern.v[y->in[0]].axes & letters(p) & ~y->folded & ~y->batch;
  bool turned = p->kern.v[y->in[0]].kind == KERN_LOAD && (p->kern.v[y->in[1]].kind != KERN_LOAD || kern_extent(&p->kern, rows) > SK_ROWS);
  return add_product(p, v, y->in[turned], y->in[!turned]);
}

static int statistic(struct sk_plan *p, int v)
{
  const struct kern_value *y = &p->kern.v[v];
  if (!over_k(p, y->folded, load_of(p, y->in[0], y->folded))) return sk_no(p, "a sum over something else than the products");
  if (p->nstats == SK_STATS) return sk_no(p, "too many sums");
  p->stat[p->nstats] = v;
  return p->role[v].number = p->nstats++, 0;
}

// The columns of the first product that the value depends on.
static const struct lower_space *product_columns(const struct sk_plan *p, int v)
{
  const struct kern_value *x = &p->kern.v[v];
  const struct lower_space *s = NULL;
  if (x->kind == KERN_PRODUCT) return p->role[v].second ? NULL : &p->product[p->role[v].number].cols;
  for (int i = 0; i < x->nin && !s && x->kind == KERN_MAP; i++) s = product_columns(p, x->in[i]);
  return s;
}

static int second(struct sk_plan *p, int v)
{
  const struct kern_value *y = &p->kern.v[v], *w = &p->kern.v[y->in[1]];
  const struct lower_space *cols = product_columns(p, y->in[0]);
  if (w->kind != KERN_LOAD || w->axes & p->kern.loops) return sk_no(p, "a product of two operands that are computed");
  if (!cols) return sk_no(p, "a product after the loop of what is no product");
  if (space_axes(cols) != y->folded) return sk_no(p, "a product after the loop that sums something else");
  if (p->nseconds == SK_SECONDS) return sk_no(p, "too many products after the loop");
  p->second[p->nseconds].value = v, p->second[p->nseconds].x = y->in[0], p->second[p->nseconds].cols = *cols;
  return p->role[v].second = true, p->role[v].number = p->nseconds++, 0;
}

// ---- values ----

static int one(struct sk_plan *p, int i)
{
  static const char *const refused[KERN_KINDS] = {[KERN_SPREAD] = "saves more than is computed",
                                                  [KERN_RUN_MAX] = "a running maximum",
                                                  [KERN_RUN_MOVE] = "a running maximum",
                                                  [KERN_RESCALE] = "a running maximum"};
  const struct kern_value *v = &p->kern.v[i], *x = v->nin ? &p->kern.v[v->in[0]] : NULL;
  bool before = true; // whether it depends on elements only, not on products
  for (int k = 0; k < v->nin; k++) before &= kern_is_element(&p->kern, v->in[k]);
  if (refused[v->kind]) return sk_no(p, refused[v->kind]);
  if (v->at.index) return sk_no(p, "indices");
  if (v->kind == KERN_PRODUCT) return before ? product(p, i) : second(p, i);
  if (!kern_folds(v)) return 0;
  if (v->kind != KERN_SUM)
    return sk_no(p, arena_printf(p->j->mem, "%s %s", kern_kinds[v->kind].name, before ? "before a product" : "after the products"));
  if (before) return statistic(p, i);
  if (v->folded & ~(p->kern.letters | p->kern.loops)) return sk_no(p, "parts that do not add up");
  const char *name = x->kind == KERN_MAP ? kern_op(x->op).name : x->kind == KERN_MAX ? "max" : "product";
  return sk_no(p, arena_printf(p->j->mem, "%s between a product and its sum", name));
}

int sk_terms(struct sk_plan *p)
{
  for (int i = 0; i < p->kern.nvalues; i++) {
    p->role[i] = (struct sk_role){.number = -1};
    if (p->kern.v[i].live && one(p, i) < 0) return NO;
  }
  return p->nproducts ? OK : (sk_no(p, "no product"), NO);
}
