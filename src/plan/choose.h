// choose: finds the cheapest assignment of variables, where costs are tables over a few variables each. It solves a 0-1 program with one 0-1 variable
// for each value. Exact, by elimination: the tables of a variable are joined into one over their other variables, with the minimum over its values.
// The time is that of the largest table. Source: R. Dechter, "Bucket elimination: a unifying framework for reasoning", 1999.
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
int choose_var(struct choose *c, int values);
// A table over n variables with cost 0; the caller fills it.
double *choose_cost(struct choose *c, int n, const int *vars);
// The least sum and an assignment that has it (the first in the order of values). NO if no assignment is allowed, or a table would have more than
// CHOOSE_TABLE entries.
int choose_least(const struct choose *c, int *value, double *cost);

#endif
