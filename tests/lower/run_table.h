// The graphs of a table (../tables.h), lowered and run in the interpreter.
#ifndef TESTS_LOWER_RUN_TABLE_H
#define TESTS_LOWER_RUN_TABLE_H

#include "../thin.h"
#include "given.h"
#include "lowered.h"

// The cheapest plan of each graph of a table. Rows may say how many launches it has.
static inline void run_cheapest(const char *table, const struct target *gpu)
{
  struct table t;
  table_open(&t, table);
  for (const struct table_graph *row = t.row; row < t.row + t.n; row += thinned(2)) {
    struct arena mem = {0};
    struct err e = {0};
    struct device_program d;
    const struct lower_opts o = {.tails = true, .dependent = true};
    must(lower_program(&mem, graph_of(&mem, row->text), gpu, &o, &d, &e), row->title, &e);
    run_launches(&mem, row->title, &d, -1);
    if (table_field(row, "launches") && d.nlaunch != (int)table_number(row, "launches")) fail_msg("%s: %d launches", row->title, d.nlaunch);
    arena_close(&mem);
  }
  table_close(&t);
}

// Every step-th choice of each kernel of the table's graphs, while the other kernels are made in their cheapest way. Returns how many; see: NULL,
// or what looks at each program.
static inline int run_choices(const char *table, const struct target *gpu, int step, void (*see)(void *arg, const struct device_program *d),
                              void *arg)
{
  struct table t;
  int ways = 0;
  table_open(&t, table);
  for (const struct table_graph *row = t.row; row < t.row + t.n; row++) {
    struct arena mem = {0};
    struct err e = {0};
    struct lower_plan p;
    must(lower_plan(&mem, graph_of(&mem, row->text), gpu, &(struct lower_opts){.dependent = true}, &p, &e), row->title, &e);
    struct choice *pick = NEWS(&mem, struct choice, p.nunits + 1);
    for (int u = 0; u < p.nunits; u++) pick[u] = p.unit[u].choice[0];
    for (int u = 0; u < p.nunits; u++)
      for (int c = 1; c < p.unit[u].nchoices && !p.unit[u].product; c += step, ways++) {
        struct device_program d;
        pick[u] = p.unit[u].choice[c];
        must(lower_make(&mem, &p, pick, &d, &e), row->title, &e);
        run_launches(&mem, row->title, &d, -1);
        if (see) see(arg, &d);
        pick[u] = p.unit[u].choice[0];
      }
    arena_close(&mem);
  }
  table_close(&t);
  return ways;
}

#endif
