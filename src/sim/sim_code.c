// Integer expressions over the lanes of a warp. Each node of the pool becomes one slot. A slot is computed on demand, and
// stays valid until its latest variable is set again: the one whose definition is last in the text. Other variables that
// it depends on belong to enclosing scopes, so they cannot change without that one.
#include "sim/machine.h"

// ---- compiling ----

static int later(const struct sim *s, int a, int b)
{
  if (a < 0 || b < 0) return MAX(a, b);
  return s->var_pos[a] >= s->var_pos[b] ? a : b;
}

static int add_slot(struct sim *s, struct slot x)
{
  PUSH(s->mem, s->slots, s->nslots, s->slot_cap) = x;
  return s->nslots - 1;
}

static void map_room(struct sim *s, int node)
{
  if (node < s->nmap) return;
  int n = MAX(2 * s->nmap, node + 64);
  s->map = arena_grow(s->mem, s->map, sizeof *s->map * (size_t)s->nmap, sizeof *s->map * (size_t)n);
  for (int i = s->nmap; i < n; i++) s->map[i] = -1;
  s->nmap = n;
}

static int constant(struct sim *s, int64_t c)
{
  for (int i = 0; i < s->nslots; i++)
    if (s->slots[i].kind == SLOT_CONST && s->slots[i].c == c) return i;
  return add_slot(s, (struct slot){.kind = SLOT_CONST, .c = c, .latest = -1});
}

int code_slot(struct sim *s, ex x)
{
  if (ex_is_const(x)) return constant(s, ex_value(x));
  int node = (int)(x >> 1);
  map_room(s, node);
  if (s->map[node] >= 0) return s->map[node];
  const struct ex_node *e = ex_node(s->p->ex, x);
  struct slot t = {.kind = (int)e->kind, .n = e->n, .c = e->c, .coef = e->coef, .latest = -1};
  int *arg = NEWS(s->mem, int, e->n + 1);
  for (int i = 0; i < e->n; i++) {
    arg[i] = code_slot(s, e->arg[i]);
    t.latest = later(s, t.latest, s->slots[arg[i]].latest);
  }
  t.arg = arg, t.got = NEWS(s->mem, const struct vec *, e->n + 1);
  if (e->kind == EX_VAR) t.var = t.latest = (int)e->c;
  s->map[node] = add_slot(s, t);
  return s->map[node];
}

// ---- evaluating ----

#define EACH for (int l = 0; l < LANES; l++)

static int64_t times(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
static int64_t plus(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static int64_t floor_div(int64_t a, int64_t b) { return b <= 0 ? 0 : a >= 0 ? a / b : -((b - 1 - a) / b); }

// Inactive lanes have arbitrary values, so every operation is defined for all values.
static int64_t two(int kind, int64_t a, int64_t b)
{
  switch (kind) {
  case EX_DIV: return floor_div(a, b);
  case EX_MOD: return b <= 0 ? 0 : a - times(floor_div(a, b), b);
  case EX_MIN: return MIN(a, b);
  case EX_MAX: return MAX(a, b);
  case EX_XOR: return a ^ b;
  case EX_AND: return a & b;
  case EX_SHR: return a >> (b & 63);
  case EX_LT: return a < b;
  case EX_EQ: return a == b;
  case EX_BOTH: return a && b;
  default: return a || b; // EX_EITHER
  }
}

static bool power_of_two(int64_t x) { return x > 0 && !(x & (x - 1)); }

static void binary(int kind, const struct vec *a, const struct vec *b, struct vec *out)
{
  if (b->uniform && power_of_two(b->v[0]) && (kind == EX_DIV || kind == EX_MOD)) {
    int shift = __builtin_ctzll((unsigned long long)b->v[0]);
    int64_t mask = b->v[0] - 1;
    if (kind == EX_DIV)
      EACH out->v[l] = a->v[l] >> shift;
    else
      EACH out->v[l] = a->v[l] & mask;
  } else if (kind == EX_LT) {
    EACH out->v[l] = a->v[l] < b->v[l];
  } else {
    EACH out->v[l] = two(kind, a->v[l], b->v[l]);
  }
}

static bool same(const struct vec *x)
{
  int64_t differ = 0;
  EACH differ |= x->v[l] ^ x->v[0];
  return !differ;
}

static void fill(struct vec *x, int64_t value)
{
  EACH x->v[l] = value;
  x->uniform = true;
}

static int64_t one_lane(const struct slot *t, const struct vec *const *arg)
{
  int64_t r = t->kind == EX_SUM ? t->c : t->kind == EX_PROD ? 1 : 0;
  if (t->kind == EX_SUM)
    for (int i = 0; i < t->n; i++) r = plus(r, times(t->coef[i], arg[i]->v[0]));
  else if (t->kind == EX_PROD)
    for (int i = 0; i < t->n; i++) r = times(r, arg[i]->v[0]);
  else if (t->kind == EX_SELECT)
    r = arg[0]->v[0] ? arg[1]->v[0] : arg[2]->v[0];
  else
    r = two(t->kind, arg[0]->v[0], arg[1]->v[0]);
  return r;
}

static void add_scaled(struct vec *out, const struct vec *x, int64_t c)
{
  if (c == 1)
    EACH out->v[l] = plus(out->v[l], x->v[l]);
  else
    EACH out->v[l] = plus(out->v[l], times(c, x->v[l]));
}

static void all_lanes(const struct slot *t, const struct vec *const *arg, struct vec *out)
{
  if (t->kind == EX_SUM) {
    int64_t c = t->c;
    for (int i = 0; i < t->n; i++)
      if (arg[i]->uniform) c = plus(c, times(t->coef[i], arg[i]->v[0]));
    EACH out->v[l] = c;
    for (int i = 0; i < t->n; i++)
      if (!arg[i]->uniform) add_scaled(out, arg[i], t->coef[i]);
  } else if (t->kind == EX_PROD) {
    EACH out->v[l] = 1;
    for (int i = 0; i < t->n; i++) EACH out->v[l] = times(out->v[l], arg[i]->v[l]);
  } else if (t->kind == EX_SELECT) {
    EACH out->v[l] = arg[0]->v[l] ? arg[1]->v[l] : arg[2]->v[l];
  } else {
    binary(t->kind, arg[0], arg[1], out);
  }
  out->uniform = t->kind != EX_SUM && t->kind != EX_PROD && same(out);
}

const struct vec *code_compute(struct warp *w, int slot)
{
  const struct slot *t = &w->s->slots[slot];
  struct vec *out = &w->values[slot];
  if (t->kind == SLOT_CONST) {
    fill(out, t->c);
  } else {
    const struct vec **arg = t->got;
    bool uniform = true;
    for (int i = 0; i < t->n; i++) {
      arg[i] = code_eval(w, t->arg[i]);
      uniform &= arg[i]->uniform;
    }
    if (uniform)
      fill(out, one_lane(t, arg));
    else
      all_lanes(t, arg, out);
  }
  w->stamp[slot] = t->latest < 0 ? 1 : w->var_stamp[t->latest];
  return out;
}

void code_set(struct warp *w, int var, const struct vec *value)
{
  w->vars[var] = *value;
  w->var_stamp[var] = ++w->s->stamps;
}

void code_add(struct warp *w, int var, const struct vec *value)
{
  struct vec *x = &w->vars[var];
  EACH x->v[l] += value->v[l];
  x->uniform &= value->uniform;
  w->var_stamp[var] = ++w->s->stamps;
}

void code_set_all(struct warp *w, int var, int64_t value)
{
  fill(&w->vars[var], value);
  w->var_stamp[var] = ++w->s->stamps;
}

void code_reset(struct warp *w)
{
  for (int i = 0; i < w->s->nvars; i++) code_set_all(w, i, 0);
}
