// Variables of the tile language in C. Definitions are pure, so each is printed where it is first needed, and again in
// other scopes that need it. A coordinate of the lane is printed inside the loop over lanes, one of the warp around it.
// `full` of a variable is its value in terms of parameters, loop counters, warp number and lane number. It shows how the
// variable varies, because (32 * warp + lane) / 32 is simplified to the warp.
#include "cprint/cp_print.h"

struct cvar *cp_var(struct cprint *c, ex var)
{
  int number = (int)ex_node(cp_pool(c), var)->c;
  if (number >= c->nvars) {
    int room = number + 256;
    c->var = arena_grow(c->w.mem, c->var, sizeof *c->var * (size_t)c->nvars, sizeof *c->var * (size_t)room);
    for (; c->nvars < room; c->nvars++) c->var[c->nvars] = (struct cvar){.varies = V_LANE};
  }
  struct cvar *v = &c->var[number];
  if (!v->full) v->var = v->full = var;
  return v;
}

void cp_define(struct cprint *c, ex var, const char *text, enum varies varies)
{
  struct cvar *v = cp_var(c, var);
  v->text = text, v->varies = varies, v->frame = c->frame;
}

// ---- walking an expression ----

typedef void (*visit)(struct cprint *c, ex var, void *arg);

static void each(struct cprint *c, ex x, visit f, void *arg)
{
  if (ex_is_const(x)) return;
  const struct ex_node *n = ex_node(cp_pool(c), x);
  if (n->kind == EX_VAR) {
    f(c, x, arg);
    return;
  }
  for (int i = 0; i < n->n; i++) each(c, n->arg[i], f, arg);
}

static void put_full(struct cprint *c, ex var, void *arg)
{
  ex *x = arg, full = cp_var(c, var)->full;
  if (full != var) *x = ex_subst(cp_pool(c), *x, var, full);
}

ex cp_full(struct cprint *c, ex x)
{
  ex r = x;
  each(c, x, put_full, &r);
  return r;
}

static void vary(struct cprint *c, ex var, void *arg)
{
  enum varies *most = arg;
  *most = MAX(*most, cp_var(c, var)->varies);
}

enum varies cp_varies(struct cprint *c, ex x)
{
  enum varies v = V_BLOCK;
  each(c, cp_full(c, x), vary, &v);
  return v;
}

static void let(struct cprint *c, const struct tile_stmt *st)
{
  for (int i = 0; i < st->nvars; i++) {
    ex var = st->vars[i];
    if (ex_is_const(var) || ex_node(cp_pool(c), var)->kind != EX_VAR) continue;
    if (st->view >= 0) continue;
    ex full = cp_full(c, st->values[i]);
    struct cvar *v = cp_var(c, var);
    v->let = true, v->def = st->values[i], v->full = full;
  }
}

static void lets(struct cprint *c, int stmt)
{
  for (int i = stmt; i >= 0; i = c->w.k->stmts[i].next) {
    const struct tile_stmt *st = &c->w.k->stmts[i];
    if (st->kind == STMT_LET) let(c, st);
    if (st->body >= 0) lets(c, st->body);
    if (st->other >= 0) lets(c, st->other);
  }
}

void cp_lets(struct cprint *c)
{
  const struct tile_kernel *k = c->w.k;
  if (!ex_is_const(k->tid)) {
    struct cvar *v = cp_var(c, k->tid);
    v->full = v->def = ex_add(cp_pool(c), ex_mul(cp_pool(c), EX_C(c->lanes), c->warp), c->lane);
    v->let = true;
  }
  lets(c, k->body);
}

// ---- declaring ----

static bool standing(const struct cprint *c, const struct cvar *v) { return v->text && (c->by == BY_LANE || !v->array); }

static enum varies here(const struct cprint *c) { return c->by == BY_LANE ? V_LANE : c->by == BY_WARP ? V_WARP : V_BLOCK; }

static void unknown(struct cprint *c, ex var, void *arg)
{
  bool *bad = arg;
  const struct cvar *v = cp_var(c, var);
  if (standing(c, v)) return;
  if (!v->let || cp_varies(c, var) > here(c)) *bad = true;
}

static bool nameable(struct cprint *c, ex x)
{
  bool bad = false;
  each(c, x, unknown, &bad);
  return !bad;
}

static void declare(struct cprint *c, ex var, void *arg)
{
  (void)arg;
  struct cvar *v = cp_var(c, var);
  if (standing(c, v) || !v->let) return;
  const char *value = cp_value(c, v->def, L_ANY), *own = ex_node(cp_pool(c), var)->name;
  const char *name = c_name(&c->w, var == c->w.k->tid ? "tx" : own, "v");
  c_line(&c->w, "const int64_t %s = %s;", name, value);
  v = cp_var(c, var);
  v->text = name, v->frame = c->frame;
}

ex cp_known(struct cprint *c, ex x)
{
  if (!nameable(c, x)) x = cp_full(c, x);
  each(c, x, declare, NULL);
  return x;
}

static void early(struct cprint *c, ex x)
{
  if (nameable(c, x) || nameable(c, cp_full(c, x))) cp_known(c, x);
}

void cp_prepare(struct cprint *c, const struct tile_atom *a)
{
  early(c, a->arg);
  for (int i = 0; i < a->nout + a->nin; i++) {
    const struct tile_operand *o = &a->operand[i];
    early(c, o->offset);
    for (int m = 0; m < a->nmodes; m++) early(c, o->stride[m]);
    for (int g = 0; g < o->nguards; g++) early(c, o->guard[g].value), early(c, o->guard[g].limit);
  }
}

// ---- scopes ----

void cp_open_from(struct cprint *c, int mark)
{
  c->frame++, c->w.depth++;
  CHECK(c->frame < (int)COUNT(c->mark));
  c->mark[c->frame] = mark;
}

void cp_open(struct cprint *c) { cp_open_from(c, c->w.ntaken); }

void cp_close(struct cprint *c)
{
  for (int i = 0; i < c->nvars; i++)
    if (c->var[i].text && c->var[i].frame == c->frame) c->var[i].text = NULL;
  c->w.ntaken = c->mark[c->frame];
  c->frame--, c->w.depth--;
}

void cp_shut(struct cprint *c)
{
  cp_close(c);
  c_line(&c->w, "}");
}

ex cp_guards(struct cprint *c)
{
  ex all = EX_C(1);
  for (int i = 0; i < c->nguards; i++) all = ex_both(cp_pool(c), all, c->guard[i]);
  return all;
}
