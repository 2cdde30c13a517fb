// Rules for sums over axes and for products. They move factors without a summed axis out of sums, and join sums with the products and sums that they
// read. The rest is computed once, after the loop.
#include "kern/kern_rule.h"

static bool has(const struct kern *k, int v, axis_set s) { return k->v[v].axes & s; }

static int summed(struct kern *k, const struct kern_value *sum, int x)
{
  struct kern_value v = *sum;
  v.nin = 1, v.in[0] = x;
  return kern_add(k, v);
}

// A sum over a product is a product that sums over these axes too.
static bool of_product(struct kern *k, const struct kern_value *sum, int *out)
{
  struct kern_value p = k->v[sum->in[0]];
  p.about = sum->about, p.folded |= sum->folded, p.batch &= ~sum->folded;
  return *out = kern_add(k, p), true;
}

static bool of_sum(struct kern *k, const struct kern_value *sum, int *out)
{
  struct kern_value x = k->v[sum->in[0]];
  x.within = x.within ? x.within : x.about, x.folded |= sum->folded, x.about = sum->about;
  return *out = kern_add(k, x), true;
}

static bool is_scaled(const struct kern *k, int v) { return kern_is_map(&k->v[v], OP_MUL_SCALAR); }

// Moves the factor out of a product's operand only if that is a scaled load. Computed operands usually have fewer elements than the result.
bool rule_scaled(struct kern *k, const struct kern_value *v, int *out)
{
  struct kern_value x = *v;
  if (!kern_has(v, KERN_OVER) || kern_tops(v) || v->kind == KERN_PROD) return false;
  for (int i = 0; i < (v->kind == KERN_PRODUCT ? 2 : 1); i++) {
    const struct kern_value from = k->v[v->in[i]];
    bool max = kern_has(v, KERN_LARGEST | KERN_KEEPS);
    if (!is_scaled(k, v->in[i]) || (max && from.a.scalar <= 0)) continue;
    if (v->kind == KERN_PRODUCT && k->v[from.in[0]].kind != KERN_LOAD) continue;
    x.in[i] = from.in[0];
    return *out = kern_scaled(k, kern_add(k, x), from.a.scalar, v->about), true;
  }
  return false;
}

bool rule_sums(struct kern *k, const struct kern_value *v, int *out)
{
  if (v->kind != KERN_SUM) return false;
  struct kern_value x = k->v[v->in[0]];
  bool sum = x.kind == KERN_SUM || x.kind == KERN_RESCALE;
  if (!sum || !(x.folded & k->loops) || v->folded & k->loops || x.uses != 1 || k->v[x.in[0]].kind == KERN_LOAD) return false;
  if (x.kind == KERN_RESCALE && has(k, x.in[1], v->folded)) return false;
  x.folded |= v->folded;
  return *out = kern_add(k, x), true;
}

// If only one operand of a product has a summed axis, and it is not computed element by element, the sum moves into this operand.
static bool in_product(struct kern *k, const struct kern_value *v, int *out)
{
  for (int i = 0; i < 2; i++) {
    axis_set own = v->folded & ~k->v[v->in[!i]].axes;
    if (!own || kern_is_element(k, v->in[i])) continue;
    struct kern_value p = *v, inner = {.kind = KERN_SUM, .folded = own, .about = v->about};
    p.folded &= ~own, p.in[i] = summed(k, &inner, p.in[i]);
    return *out = kern_add(k, p), true;
  }
  return false;
}

bool rule_push(struct kern *k, const struct kern_value *v, int *out)
{
  if (v->kind == KERN_PRODUCT) return in_product(k, v, out);
  if (v->kind != KERN_SUM) return false;
  struct kern_value x = k->v[v->in[0]];
  if (x.kind == KERN_PRODUCT) return of_product(k, v, out);
  if (x.kind == KERN_SUM) return of_sum(k, v, out);
  if (x.kind != KERN_MAP) return false;
  bool linear = x.op == OP_ADD || x.op == OP_SUB;
  if ((!linear && !(kern_op(x.op).flags & SCALES)) || kern_is_element(k, v->in[0])) return false;
  for (int i = 0; i < x.nin; i++) x.in[i] = summed(k, v, x.in[i]);
  return *out = kern_add(k, x), true;
}

bool rule_lift(struct kern *k, const struct kern_value *v, int *out)
{
  if (v->kind != KERN_SUM) return false;
  struct kern_value x = k->v[v->in[0]];
  bool mul = kern_is_map(&x, OP_MUL), div = kern_is_map(&x, OP_DIV);
  if (!mul && !div) return false;
  int factor = !has(k, x.in[1], v->folded) ? 1 : mul && !has(k, x.in[0], v->folded) ? 0 : -1;
  if (factor < 0) return false;
  x.in[!factor] = summed(k, v, x.in[!factor]);
  return *out = kern_add(k, x), true;
}

// A condition is 0 or 1, so it is exact to multiply by it later.
bool rule_weights(struct kern *k, const struct kern_value *v, int *out)
{
  if (v->kind != KERN_PRODUCT && v->kind != KERN_RESCALE) return false;
  struct kern_value x = k->v[v->in[0]], inner = *v;
  for (int i = 0; i < 2 && kern_is_map(&x, OP_MUL); i++) {
    const struct kern_value *f = &k->v[x.in[i]];
    if (f->kind != KERN_MAP || !(kern_op(f->op).flags & BRACKET) || f->axes & (v->folded | k->loops) || !k->loops) continue;
    inner.in[0] = x.in[!i], x.in[!i] = kern_add(k, inner), x.about = v->about;
    return *out = kern_add(k, x), true;
  }
  return false;
}

// w must be a load with the summed letters and others. x must have exactly the summed letters.
bool rule_dot(struct kern *k, const struct kern_value *v, int *out)
{
  axis_set sum = v->folded & k->letters & ~k->loops;
  if (v->kind != KERN_SUM || !sum || !kern_is_map(&k->v[v->in[0]], OP_MUL)) return false;
  const struct kern_value *mul = &k->v[v->in[0]];
  for (int i = 0; i < 2; i++) {
    const struct kern_value *x = &k->v[mul->in[!i]], *w = &k->v[mul->in[i]];
    axis_set has_x = x->axes & k->letters & ~k->loops, has_w = w->axes & k->letters & ~k->loops;
    if (w->kind != KERN_LOAD || has_x != sum || (has_w & sum) != sum || has_w == sum) continue;
    struct kern_value p = {.kind = KERN_PRODUCT,
                           .nin = 2,
                           .in = {mul->in[!i], mul->in[i]},
                           .folded = v->folded,
                           .about = v->about,
                           .within = v->within ? v->within : v->about};
    return *out = kern_add(k, p), true;
  }
  return false;
}

static int product(struct kern *k, const struct kern_value *like, int x, int y)
{
  struct kern_value p = *like;
  p.in[0] = x, p.in[1] = y;
  return kern_add(k, p);
}

// x (A B) becomes (x A) B, and x (A + B) becomes x A + x B.
bool rule_associate(struct kern *k, const struct kern_value *v, int *out)
{
  if (v->kind != KERN_PRODUCT) return false;
  struct kern_value w = k->v[v->in[1]];
  if (w.kind == KERN_PRODUCT) {
    bool meets = has(k, v->in[0], w.folded) || has(k, w.in[1], v->folded) || v->folded & ~k->v[w.in[0]].axes;
    if (meets) return false;
    w.in[0] = product(k, v, v->in[0], w.in[0]), w.batch |= v->batch;
    return *out = kern_add(k, w), true;
  }
  if (w.kind != KERN_MAP) return false;
  bool linear = w.op == OP_ADD || w.op == OP_SUB, loads = kern_is_element(k, v->in[1]);
  if (loads && k->v[v->in[0]].kind == KERN_LOAD) return false; // x is loaded and w is computed from loads: one product is enough
  if (!linear && !(kern_op(w.op).flags & SCALES)) return false;
  if (linear && (v->folded & ~k->v[w.in[0]].axes || v->folded & ~k->v[w.in[1]].axes)) return false;
  for (int i = 0; i < w.nin; i++) w.in[i] = product(k, v, v->in[0], w.in[i]);
  return *out = kern_add(k, w), true;
}
