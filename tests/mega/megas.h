// Shared by the tests of plans: a model of examples/mega, and its plan.
#ifndef MICA_TEST_MEGAS_H
#define MICA_TEST_MEGAS_H

#include "mega/mega_run.h"

struct megas {
  struct arena mem;
  struct err err;
  struct mega_model *m;
  struct mega_config *config;
  struct mega_plan *p;
};
struct mega_sizes mega_tiny(int rows, int workers, int64_t context, int steps); // a pipeline that the models of 2 layers fill more than once
void mega_open(struct megas *x, const char *file, const struct mega_sizes *s);  // its plan is made
void mega_close(struct megas *x);

#endif
