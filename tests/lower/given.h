// Shared by the tests of whole programs: the H200 without one, graphs without their frame, statuses that must be OK.
#ifndef TESTS_LOWER_GIVEN_H
#define TESTS_LOWER_GIVEN_H

#include "../gpu_of.h"
#include "../tables.h"
#include "lower/lower.h"
#include "sim/device_host.h"

#include <stdio.h>
#include <string.h>

static inline struct target h200(void) { return *gpu_of("sm_90a"); }

static inline struct graph *read(struct arena *mem, const char *text)
{
  const char *kind = strstr(text, "block(") ? "graph g" : "program g()";
  return graph_of(mem, arena_printf(mem, "%s {\n %s\n}\n", kind, text));
}

static inline void must(int status, const char *name, const struct err *e)
{
  if (status == OK) return;
  err_print(stderr, e);
  fail_msg("%s: %s", name, e->text);
}

// Runs the launches in the interpreter: no errors, results as in float64, all outputs made. products: launches of the library, -1: any number.
static inline void run_launches(struct arena *mem, const char *name, const struct device_program *d, int products)
{
  struct err e = {0};
  struct device_host h;
  const int outputs = graph_outputs(d->g, NULL);
  bool *made = NEWS(mem, bool, outputs + 1);
  int multiplied = 0;
  must(device_host_open(&h, mem, d, &(struct device_host_opts){.seed = 3}, &e), name, &e);
  for (int i = 0; i < d->nlaunch; i++) {
    struct sim_report r;
    struct device_answer a[8];
    must(device_host_launch(&h, i, &r, NULL, &e), name, &e);
    if (r.found) fail_msg("%s, %s: %s", name, d->launch[i].name, r.errors[0].text);
    multiplied += d->launch[i].product;
    int n = device_host_compare(&h, i, 8, a);
    for (int k = 0; k < n; k++) {
      if (!a[k].fine)
        fail_msg("%s, %s (%s): %g off, element %lld is %g, not %g", name, d->launch[i].name, d->launch[i].how, a[k].relative, (long long)a[k].worst,
                 a[k].got, a[k].want);
      if (a[k].output >= 0) made[a[k].output] = true; // a state by each launch that writes it
    }
    assert_true(n > 0);
    assert_true(device_host_counters_zero(&h));
  }
  for (int i = 0; i < outputs; i++) assert_true(made[i]);
  if (products >= 0) assert_int_equal(multiplied, products);
  device_host_close(&h);
}

#endif
