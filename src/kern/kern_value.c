// Builds values. An existing equal value is reused, so each is computed once.
#include "kern/kern.h"

#include <string.h>

enum { // short names of flags, for kern_kind.def
#define X(id) id = KERN_##id,
  KERN_FLAGS(X)
#undef X
};
const struct kern_kind_row kern_kinds[KERN_KINDS] = {
#define KERN_KIND(id, name, nin, flags, doc) [KERN_##id] = {name, nin, flags},
#include "kern/kern_kind.def"
};

int64_t kern_extent(const struct kern *k, axis_set s)
{
  int64_t x = 1;
  for (; s; s &= s - 1) x *= k->extent[__builtin_ctzll(s)];
  return x;
}

axis_set kern_present(const struct kern *k, axis_set s)
{
  EACH_AXIS(a, s)
    if (k->extent[a] <= 1) s &= ~AXIS(a);
  return s;
}

axis_set kern_strided(const struct kern *k, const struct kern_access *a)
{
  axis_set s = 0;
  for (int i = 0; i < k->naxes; i++)
    if (a->stride[i] && k->extent[i] > 1) s |= AXIS(i);
  return s;
}

bool kern_same_access(const struct kern_access *a, const struct kern_access *b)
{
  return (a->index ? b->index : a->tensor == b->tensor) && a->offset == b->offset && !memcmp(a->stride, b->stride, sizeof a->stride) &&
         !memcmp(a->rank, b->rank, sizeof a->rank) && !memcmp(a->base, b->base, sizeof a->base) && !memcmp(a->by, b->by, sizeof a->by);
}

static bool same(const struct kern_value *a, const struct kern_value *b)
{
  if (a->kind != b->kind || a->nin != b->nin || a->axes != b->axes || a->folded != b->folded || a->batch != b->batch) return false;
  for (int i = 0; i < a->nin; i++)
    if (a->in[i] != b->in[i]) return false;
  if (kern_loads(a) || a->kind == KERN_PLACED || kern_tops(a)) return kern_same_access(&a->at, &b->at);
  if (a->kind == KERN_CONST) return !memcmp(&a->a.scalar, &b->a.scalar, sizeof a->a.scalar); // -0 and 0 differ
  return a->kind != KERN_MAP || (a->op == b->op && attrs_reals_same(&a->a, &b->a));
}

static axis_set operands(const struct kern *k, const struct kern_value *v)
{
  axis_set s = 0;
  for (int i = 0; i < v->nin; i++) s |= k->v[v->in[i]].axes;
  return s;
}

int kern_operands(const struct kern_value *v)
{
  if (v->kind == KERN_MAP) return kern_op(v->op).nin;
  return kern_kinds[v->kind].nin + (v->kind == KERN_CHOSEN && v->at.by[1].limit > 0);
}

axis_set kern_axes_of(const struct kern *k, const struct kern_value *v)
{
  axis_set own = v->kind == KERN_SPREAD ? v->axes : kern_loads(v) ? kern_strided(k, &v->at) : 0, all = own | operands(k, v);
  return kern_has(v, KERN_KEEPS) ? all | v->folded : all & ~v->folded;
}

static int put(struct kern *k, struct kern_value v)
{
  v.axes = kern_axes_of(k, &v);
  for (int i = 0; i < k->nvalues; i++)
    if (same(&k->v[i], &v)) return i;
  PUSH(k->mem, k->v, k->nvalues, k->cap) = v;
  return k->nvalues - 1;
}

// Reduces over axes. Over an axis that the operand lacks, a sum is a multiplication by the extent, a product a power, and a maximum its operand.
static int reduced(struct kern *k, struct kern_value v)
{
  axis_set real = v.folded & operands(k, &v), rest = v.folded & ~real;
  int x = v.in[0];
  v.folded = real;
  if (real || v.kind == KERN_PRODUCT) x = put(k, v);
  double times = (double)kern_extent(k, rest);
  if (v.kind == KERN_PROD && times > 1) return kern_map(k, OP_POW, NULL, x, kern_const(k, times, v.about), v.about);
  return v.kind == KERN_SUM || v.kind == KERN_PRODUCT ? kern_scaled(k, x, times, v.about) : x;
}

// Without a loop there is one iteration: the running maximum is its operand, and its change is 0.
static int running(struct kern *k, struct kern_value v)
{
  bool once = !(v.folded & k->loops);
  if (once && v.kind == KERN_RUN_MAX) return v.in[0];
  if (once && v.kind == KERN_RUN_MOVE) return kern_const(k, 0, v.about);
  if (once) return kern_fold(k, KERN_SUM, v.in[0], v.folded, v.about);
  return put(k, v);
}

int kern_add(struct kern *k, struct kern_value v)
{
  if (kern_has(&v, KERN_RUNS)) return running(k, v);
  return kern_has(&v, KERN_OVER) && !kern_tops(&v) ? reduced(k, v) : put(k, v);
}

int kern_spread(struct kern *k, int v, axis_set axes, int about)
{
  if (!(axes & ~k->v[v].axes)) return v;
  return kern_add(k, (struct kern_value){.kind = KERN_SPREAD, .nin = 1, .in = {v}, .axes = axes, .about = about});
}

int kern_load(struct kern *k, const struct kern_access *at, int about)
{
  return kern_add(k, (struct kern_value){.kind = KERN_LOAD, .at = *at, .about = about});
}

int kern_const(struct kern *k, double c, int about) { return kern_add(k, (struct kern_value){.kind = KERN_CONST, .a.scalar = c, .about = about}); }

int kern_map(struct kern *k, int op, const struct attrs *a, int x, int y, int about)
{
  struct kern_value v = {.kind = KERN_MAP, .op = op, .nin = kern_op(op).nin, .in = {x, y}, .about = about};
  if (a) v.a = attrs_reals(a);
  return kern_add(k, v);
}

int kern_scaled(struct kern *k, int x, double by, int about)
{
  return by == 1 ? x : kern_map(k, OP_MUL_SCALAR, &(struct attrs){.scalar = by}, x, -1, about);
}

int kern_fold(struct kern *k, enum kern_kind kind, int x, axis_set over, int about)
{
  return kern_add(k, (struct kern_value){.kind = kind, .nin = 1, .in = {x}, .folded = over, .about = about});
}

bool kern_is_element(const struct kern *k, int v)
{
  const struct kern_value *x = &k->v[v];
  if (x->kind != KERN_MAP && x->kind != KERN_SPREAD) return x->kind == KERN_LOAD || x->kind == KERN_CONST;
  for (int i = 0; i < x->nin; i++)
    if (!kern_is_element(k, x->in[i])) return false;
  return true;
}

void kern_live(struct kern *k)
{
  k->folded = 0;
  for (int i = 0; i < k->nvalues; i++) k->v[i].live = false, k->v[i].uses = 0;
  for (int i = 0; i < k->nsaves; i++) k->v[k->save[i].value].live = true, k->v[k->save[i].value].uses++;
  for (int i = k->nvalues - 1; i >= 0; i--) {
    if (!k->v[i].live) continue;
    for (int n = 0; n < k->v[i].nin; n++) {
      struct kern_value *x = &k->v[k->v[i].in[n]];
      x->live = true, x->uses += !n || k->v[i].in[0] != k->v[i].in[1];
    }
    if (!kern_has(&k->v[i], KERN_KEEPS) || kern_folds(&k->v[i])) k->folded |= k->v[i].folded;
  }
}

// ---- operators ----

struct kern_op_row kern_op(int op)
{
  static const struct kern_op_row own[] = {
#define KERN_OP(id, name, tile, nin, attrs, flags, cost, value) {name, tile, nin, attrs, flags, cost},
#include "kern/kern_op.def"
#undef KERN_OP
  };
  if (op >= OPS) return own[op - OPS];
  const struct op_row *r = &op_rows[op];
  return (struct kern_op_row){r->name, r->name, r->most, r->attrs, r->flags, r->cost};
}
