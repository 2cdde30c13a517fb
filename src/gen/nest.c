// Builds a loop nest. Operands and sinks are added with one stride for each dimension of the space. nest_finish then splits dimensions that are
// reduced or repeated in groups, drops extents of 1, and merges adjacent dimensions that every operand traverses contiguously. This gives the longest
// innermost loop.
#include "gen/emit.h"

#include <string.h>

struct nest nest_new(struct arena *mem, const struct shape *space) { return (struct nest){.mem = mem, .space = *space}; }

static struct operand operand_of(const struct nest *f, const struct view *v)
{
  struct view b = view_broadcast(v, &f->space);
  struct operand o = {b.ptr, b.dtype, {0}, -1};
  memcpy(o.s, b.stride, sizeof b.stride);
  o.past = v->past, o.fetches = v->fetches;
  return o;
}

static int push_value(struct nest *f, struct gen_value v)
{
  PUSH(f->mem, f->values, f->nvalues, f->values_cap) = v;
  return f->nvalues - 1;
}

int nest_load(struct nest *f, const struct view *v)
{
  PUSH(f->mem, f->operands, f->noperands, f->operands_cap) = operand_of(f, v);
  return push_value(f, (struct gen_value){.x = -1, .y = -1, .operand = f->noperands - 1});
}

int nest_load_repeated(struct nest *f, const struct view *v, int dim, int64_t times)
{
  int r = nest_load(f, v);
  struct operand *o = &f->operands[f->noperands - 1];
  o->s[dim] = v->shape.d[dim] == 1 ? 0 : v->stride[dim];
  o->repeated = dim, f->group[dim] = times;
  return r;
}

int nest_value(struct nest *f, const char *code, const struct attrs *a, int x, int y) { return push_value(f, (struct gen_value){code, a, x, y, -1}); }

int nest_const(struct nest *f, double c) { return nest_value(f, arena_printf(f->mem, "K(%s)", number(f->mem, c)), NULL, -1, -1); }

enum fold fold_by(enum op reduction)
{
  enum abstract how = op_rows[reduction].abstract;
  return how == AE_MAX ? FOLD_MAX : how == AE_PROD ? FOLD_PROD : FOLD_SUM;
}

int nest_op(struct nest *f, enum op op, const struct attrs *a, int x, int y) { return nest_value(f, op_rows[op].code, a, x, y); }

void nest_store(struct nest *f, int value, const struct view *to, bool add)
{
  struct sink s = {operand_of(f, to), value, FOLD_NONE, -1, 0, {0}, add, 1};
  PUSH(f->mem, f->sinks, f->nsinks, f->sinks_cap) = s;
}

bool nest_can_fold(const struct nest *f, int dim, int64_t group) { return group == f->space.d[dim] || !f->group[dim] || f->group[dim] == group; }

bool nest_fold(struct nest *f, int value, const struct view *to, enum fold fold, int dim, int64_t group, bool add, double scale)
{
  int64_t extent = f->space.d[dim];
  if (!nest_can_fold(f, dim, group)) return false;
  if (group != extent) f->group[dim] = group;
  struct sink s = {operand_of(f, to), value, fold, dim, group, {0}, add, scale};
  int back = f->space.n - dim, at = to->shape.n - back;
  s.to.s[dim] = group == extent || at < 0 ? 0 : to->stride[at];
  PUSH(f->mem, f->sinks, f->nsinks, f->sinks_cap) = s;
  return true;
}

// Splits dimension i of the space into (extent / group, group) at k and k + 1.
static void split_operand(const struct nest *f, const int64_t *old, int repeated, int i, int k, int64_t *s)
{
  s[k] = repeated == i ? old[i] : old[i] * f->group[i];
  s[k + 1] = repeated == i ? 0 : old[i];
}

static void split_sink(const struct nest *f, const struct sink *old, int i, int k, struct sink *s)
{
  bool folds = old->fold != FOLD_NONE && old->dim == i, all = folds && old->group == f->space.d[i];
  if (!folds) {
    split_operand(f, old->to.s, -1, i, k, s->to.s);
    return;
  }
  s->to.s[k] = all ? 0 : old->to.s[i], s->to.s[k + 1] = 0;
  s->red[k] = all, s->red[k + 1] = true;
}

static void split(struct nest *f)
{
  struct operand *operands = arena_copy(f->mem, f->operands, sizeof *operands * (size_t)f->noperands);
  struct sink *sinks = arena_copy(f->mem, f->sinks, sizeof *sinks * (size_t)f->nsinks);
  int k = 0;
  for (int i = 0; i < f->space.n; i++) {
    int64_t g = f->group[i];
    for (int o = 0; o < f->noperands; o++)
      if (g)
        split_operand(f, operands[o].s, operands[o].repeated, i, k, f->operands[o].s);
      else
        f->operands[o].s[k] = operands[o].s[i];
    for (int o = 0; o < f->nsinks; o++)
      if (g)
        split_sink(f, &sinks[o], i, k, &f->sinks[o]);
      else
        f->sinks[o].to.s[k] = sinks[o].to.s[i], f->sinks[o].red[k] = sinks[o].fold != FOLD_NONE && sinks[o].dim == i;
    if (g)
      f->d[k++] = f->space.d[i] / g, f->d[k++] = g;
    else
      f->d[k++] = f->space.d[i];
  }
  f->n = k;
}

void nest_move(struct nest *f, int from, int to)
{
  f->d[to] = f->d[from];
  for (int o = 0; o < f->noperands; o++) f->operands[o].s[to] = f->operands[o].s[from];
  for (int o = 0; o < f->nsinks; o++) f->sinks[o].to.s[to] = f->sinks[o].to.s[from], f->sinks[o].red[to] = f->sinks[o].red[from];
}

// Dimensions a and b = a + 1 merge if, for every operand, one step along a equals all steps along b.
static bool contiguous(const struct nest *f, int a, int b)
{
  for (int o = 0; o < f->noperands; o++)
    if (f->operands[o].s[a] != f->operands[o].s[b] * f->d[b]) return false;
  for (int o = 0; o < f->nsinks; o++)
    if (f->sinks[o].to.s[a] != f->sinks[o].to.s[b] * f->d[b] || f->sinks[o].red[a] != f->sinks[o].red[b]) return false;
  return true;
}

static void simplify(struct nest *f)
{
  int n = 0;
  for (int i = 0; i < f->n; i++)
    if (f->d[i] != 1) nest_move(f, i, n++);
  f->n = n, n = 0;
  for (int i = 0; i < f->n; i++) {
    if (n && contiguous(f, n - 1, i)) {
      int64_t d = f->d[n - 1] * f->d[i];
      nest_move(f, i, n - 1);
      f->d[n - 1] = d;
    } else if (i != n++) {
      nest_move(f, i, n - 1);
    }
  }
  f->n = n;
  if (n) return;
  f->n = 1, f->d[0] = 1; // a single point
  for (int o = 0; o < f->noperands; o++) f->operands[o].s[0] = 0;
  for (int o = 0; o < f->nsinks; o++) f->sinks[o].to.s[0] = 0, f->sinks[o].red[0] = f->sinks[o].fold != FOLD_NONE;
}

static void find_inner(struct nest *f)
{
  for (int i = 0; i < f->nvalues; i++) {
    struct gen_value *v = &f->values[i];
    v->inner = v->operand >= 0 && f->operands[v->operand].s[f->n - 1];
    v->inner |= (v->x >= 0 && f->values[v->x].inner) || (v->y >= 0 && f->values[v->y].inner);
  }
}

// A row divided by one number is multiplied by its reciprocal: division has a tenth of the throughput of a product. The reciprocal is a new value
// before the quotient, so later values move up by one.
static void divide_once(struct nest *f)
{
  for (int i = 0; i < f->nvalues; i++) {
    struct gen_value v = f->values[i];
    if (!v.code || strcmp(v.code, op_rows[OP_DIV].code) || !v.inner || f->values[v.y].inner) continue;
    PUSH(f->mem, f->values, f->nvalues, f->values_cap) = (struct gen_value){0};
    memmove(f->values + i + 1, f->values + i, sizeof v * (size_t)(f->nvalues - 1 - i));
    for (int k = i + 2; k < f->nvalues; k++) f->values[k].x += f->values[k].x >= i, f->values[k].y += f->values[k].y >= i;
    for (int k = 0; k < f->nsinks; k++) f->sinks[k].value += f->sinks[k].value >= i;
    f->values[i] = (struct gen_value){"K(1) / x", NULL, v.y, -1, -1, false};
    f->values[i + 1] = (struct gen_value){op_rows[OP_MUL].code, NULL, v.x, i, -1, true};
    i++;
  }
}

void nest_finish(struct nest *f)
{
  split(f);
  simplify(f);
  find_inner(f);
  divide_once(f);
}
