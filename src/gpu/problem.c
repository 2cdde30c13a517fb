// The reference of candidates: random inputs, and the program evaluated on them in float64.
#include "gpu/gpu.h"
#include "base/memory.h"
#include "base/trace.h"

static int open_on(struct problem *p, struct arena *mem, const struct graph *g, const struct problem_wish *w, bool special, struct err *e)
{
  struct graph *stable;
  *p = (struct problem){.seed = w->seed, .stop = w->stop};
  if (graph_expand(mem, g, true, &stable, e)) return e->status;
  p->g = stable;
  int *outs = NEWS(mem, int, graph_outputs(stable, NULL) + 1);
  graph_outputs(stable, outs);
  p->outs = outs;
  numeric_dtypes(stable, p->rounded = NEWS(mem, enum dtype, stable->ntensors));
  p->floors = NEW(mem, struct problem_floors), p->floors->of = NEWS(mem, double, stable->ntensors + 1);
  double start = now_seconds();
  struct buffers *b;
  struct reference64 r = {0};
  struct span s;
  span_begin(&s, "stage", "inputs");
  int status = buffers_open_until(stable, w->seed, w->stop, &b, e);
  span_end(&s);
  if (status != OK) return status;
  mem_keep(p->b = b); // the problem's owner closes both
  b->device = w->by;
  if (special) special_inputs(stable, b, w->seed, 0);
  status = special ? special_reference(stable, b, w->stop, &r, e) : numeric_reference_apart(stable, b, w->stop, &r, e);
  mem_keep(r.room), p->r = r;
  p->norm = NEWS(mem, double, b->nout + 1);
  if (status == OK) check_norms(p);
  p->seconds = now_seconds() - start;
  return status;
}

int problem_open(struct problem *p, struct arena *mem, const struct graph *g, const struct problem_wish *w, struct err *e)
{
  return open_on(p, mem, g, w, false, e);
}

int problem_open_special(struct problem *p, struct arena *mem, const struct graph *g, const struct problem_wish *w, struct err *e)
{
  return open_on(p, mem, g, w, true, e);
}

void problem_close(struct problem *p)
{
  if (p->r.g) reference64_close(&p->r);
  buffers_close(p->b);
  *p = (struct problem){0};
}
