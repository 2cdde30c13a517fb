// choose: finds the cheapest assignment of variables, where costs are tables over a few variables each. The result is exact. Variables are eliminated
// one by one: the tables over a variable are joined into one over their other variables, with the minimum over its values. The largest table
// determines the time. Source: R. Dechter, "Bucket elimination: a unifying framework for reasoning", 1999.
#ifndef MICA_PLAN_CHOOSE_H
#define MICA_PLAN_CHOOSE_H

#include "base/base.h"

enum { CHOOSE_ARITY = 24, CHOOSE_TABLE = 1 << 20 };
struct choose_table {
  int n, var[CHOOSE_ARITY]; // distinct
  double *cost;             // INFINITY: not allowed; the last variable varies fastest
};
struct choose {
  struct arena *mem;
  int nvars, vars_cap;
  int *values; // number of values of each variable
  int ntables, tables_cap;
  struct choose_table *tables;
};
int choose_var(struct choose *c, int values); // adds a variable with values 0 .. values - 1, and returns its number
// Adds a table over n variables with cost 0. The caller fills it.
double *choose_cost(struct choose *c, int n, const int *vars);
// Sets *cost to the least sum, and `value` to the first assignment in the order of values that has it. NO if no assignment is allowed, or a table
// would have more than CHOOSE_TABLE entries.
int choose_least(const struct choose *c, int *value, double *cost);

#endif
