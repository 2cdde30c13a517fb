// A model of examples/mega, and its plan.
#include "megas.h"

#include <stdlib.h>

struct mega_sizes mega_tiny(int rows, int workers, int64_t context, int steps)
{
  return (struct mega_sizes){.rows = rows, .workers = workers, .stages = 4, .stage_bytes = 1024, .steps = steps, .context = context};
}

void mega_open(struct megas *x, const char *file, const struct mega_sizes *s)
{
  char path[300];
  *x = (struct megas){0};
  snprintf(path, sizeof path, "%s/%s", MICA_SOURCE_DIR, file);
  int status = mega_load(&x->mem, path, s, &x->m, &x->config, &x->err);
  if (status == OK) status = mega_plan_make(&x->mem, x->m, &x->p, &x->err);
  if (status == OK) return;
  err_print(stderr, &x->err);
  abort();
}

void mega_close(struct megas *x) { arena_close(&x->mem); }
