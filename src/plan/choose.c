// Exact choice by elimination of variables (choose.h).
#include "plan/choose.h"

#include <math.h>
#include <string.h>

int choose_var(struct choose *c, int values)
{
  PUSH(c->mem, c->values, c->nvars, c->vars_cap) = values;
  return c->nvars - 1;
}

static int64_t entries(const int *values, int n, const int *vars)
{
  int64_t size = 1;
  for (int i = 0; i < n && size <= CHOOSE_TABLE; i++) size *= values[vars[i]];
  return size;
}

double *choose_cost(struct choose *c, int n, const int *vars)
{
  CHECK(n <= CHOOSE_ARITY);
  struct choose_table t = {.n = n, .cost = NEWS(c->mem, double, entries(c->values, n, vars))};
  memcpy(t.var, vars, sizeof *vars * (size_t)n);
  PUSH(c->mem, c->tables, c->ntables, c->tables_cap) = t;
  return t.cost;
}

static double cost_at(const struct choose_table *t, const int *values, const int *value)
{
  int64_t at = 0;
  for (int i = 0; i < t->n; i++) at = at * values[t->var[i]] + value[t->var[i]];
  return t->cost[at];
}

struct over { // a variable's tables, by number
  int n, cap, *table;
};

struct elimination {
  struct choose work;        // its tables, and joined ones after them
  bool *used;                // by table: joined
  struct over *over;         // by variable
  int64_t *size;             // by variable: entries of the table that its elimination makes; INT64_MAX: too many variables, or eliminated
  int *order, norder;        // variables in the order of elimination
  struct choose_table *made; // for each eliminated variable: the joined table before minimization, over it and the others
};

// The other variables in tables over var; -1 if there are too many.
static int others(const struct elimination *x, int var, int *out)
{
  int n = 0;
  for (int i = 0; i < x->over[var].n; i++) {
    const struct choose_table *t = &x->work.tables[x->over[var].table[i]];
    for (int k = 0; k < t->n && !x->used[x->over[var].table[i]]; k++) {
      int other = t->var[k], at = 0;
      while (at < n && out[at] != other) at++;
      if (other == var || at < n) continue;
      if (n == CHOOSE_ARITY - 1) return -1;
      out[n++] = other;
    }
  }
  return n;
}

static void update_size(struct elimination *x, int var)
{
  int list[CHOOSE_ARITY], n = others(x, var, list);
  x->size[var] = n < 0 ? INT64_MAX : entries(x->work.values, n, list);
}

static void list_table(struct elimination *x, int table)
{
  const struct choose_table *t = &x->work.tables[table];
  for (int i = 0; i < t->n; i++) {
    struct over *o = &x->over[t->var[i]];
    PUSH(x->work.mem, o->table, o->n, o->cap) = table;
  }
}

// The variable whose elimination makes the smallest table.
static int cheapest(const struct elimination *x)
{
  int best = -1;
  int64_t least = INT64_MAX;
  for (int v = 0; v < x->work.nvars; v++)
    if (x->size[v] < least) best = v, least = x->size[v];
  return best;
}

// value: room for one value of each variable
static int eliminate(struct elimination *x, int var, int *value)
{
  struct choose *c = &x->work;
  struct choose_table joined = {0}, left = {0};
  const struct over *o = &x->over[var];
  const int n = others(x, var, left.var);
  if (n < 0 || entries(c->values, n, left.var) * c->values[var] > CHOOSE_TABLE) return NO;
  left.n = n, joined.n = n + 1;
  memcpy(joined.var, left.var, sizeof left.var);
  joined.var[n] = var;
  int64_t size = entries(c->values, n, left.var);
  left.cost = NEWS(c->mem, double, size), joined.cost = NEWS(c->mem, double, size * c->values[var]);
  for (int64_t at = 0; at < size; at++) {
    int64_t rest = at;
    for (int i = n - 1; i >= 0; rest /= c->values[left.var[i--]]) value[left.var[i]] = (int)(rest % c->values[left.var[i]]);
    left.cost[at] = INFINITY;
    for (value[var] = 0; value[var] < c->values[var]; value[var]++) {
      double sum = 0;
      for (int i = 0; i < o->n; i++)
        if (!x->used[o->table[i]]) sum += cost_at(&c->tables[o->table[i]], c->values, value);
      joined.cost[at * c->values[var] + value[var]] = sum;
      left.cost[at] = fmin(left.cost[at], sum);
    }
  }
  for (int i = 0; i < o->n; i++) x->used[o->table[i]] = true;
  PUSH(c->mem, c->tables, c->ntables, c->tables_cap) = left;
  list_table(x, c->ntables - 1);
  x->made[x->norder] = joined, x->order[x->norder++] = var;
  x->size[var] = INT64_MAX;
  for (int i = 0; i < n; i++) update_size(x, left.var[i]);
  return OK;
}

int choose_least(const struct choose *c, int *value, double *cost)
{
  struct elimination x = {.work = *c};
  x.order = NEWS(c->mem, int, c->nvars), x.made = NEWS(c->mem, struct choose_table, c->nvars);
  x.over = NEWS(c->mem, struct over, c->nvars), x.size = NEWS(c->mem, int64_t, c->nvars);
  x.used = NEWS(c->mem, bool, c->ntables + c->nvars); // each elimination makes one table
  x.work.tables = arena_copy(c->mem, c->tables, sizeof *c->tables * (size_t)c->ntables), x.work.tables_cap = c->ntables;
  for (int i = 0; i < c->ntables; i++) list_table(&x, i);
  for (int v = 0; v < c->nvars; v++) update_size(&x, v);
  for (int i = 0; i < c->nvars; i++) {
    const int v = cheapest(&x);
    if (v < 0 || eliminate(&x, v, value) != OK) return NO;
  }
  *cost = 0;
  for (int i = 0; i < x.work.ntables; i++)
    if (!x.used[i]) *cost += x.work.tables[i].cost[0];
  if (isinf(*cost)) return NO;
  for (int i = x.norder - 1; i >= 0; i--) { // backwards: the values of the others are known
    int v = x.order[i];
    double least = INFINITY;
    for (int k = 0, best = 0; k <= c->values[v]; k++) {
      value[v] = k < c->values[v] ? k : best;
      if (k == c->values[v]) break;
      double at = cost_at(&x.made[i], c->values, value);
      if (at < least) least = at, best = k;
    }
  }
  return OK;
}
