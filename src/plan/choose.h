// choose: the cheapest choice for each of some variables, where costs are tables over a few variables each (a 0-1 optimization:
// one 0-1 variable a value, one of each variable's true). Exact, by elimination: a variable's tables are joined into one over
// their other variables that has the least over its values, which takes time in the size of the largest table made. Source:
// R. Dechter, "Bucket elimination: a unifying framework for reasoning", 1999.
#ifndef MICA_PLAN_CHOOSE_H
#define MICA_PLAN_CHOOSE_H

#include "base/base.h"

enum { CHOOSE_ARITY = 24, CHOOSE_TABLE = 1 << 20 };
struct choose_table {
  int n, var[CHOOSE_ARITY]; // distinct
  double *cost;             // INFINITY: not allowed; the last variable's value counts fastest
};
struct choose {
  struct arena *mem;
  int nvars, vars_cap;
  int *values; // by variable: how many it has
  int ntables, tables_cap;
  struct choose_table *tables;
};
int choose_var(struct choose *c, int values);
// A table over n variables with cost 0; the caller fills it.
double *choose_cost(struct choose *c, int n, const int *vars);
// The least sum and the values that have it (of those that do, the first in the order of values); NO where nothing is allowed, or
// a table of more than CHOOSE_TABLE entries would be made.
int choose_least(const struct choose *c, int *value, double *cost);

#endif
