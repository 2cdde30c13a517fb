// One piece of device memory for everything that launches leave to later ones. A tensor lives from the launch that writes it to
// the last that reads it; tensors whose lives do not meet share bytes. Launches run one after another, also where the next may
// start early, because it waits before it touches memory. Parts of accumulators live during one launch. Counters come first: they are zero before the first run, and
// kernels leave them so.
#include "lower/lower.h"
#include "plan/plan.h"

enum { ALIGN = 256 };

struct owners { // by tensor of the kernel graph, then by launch, for its parts: its piece, or -1
  int n, *piece;
  struct plan_piece *p;
};

const char *lower_arg_name(const struct graph *kernels, const struct launch_arg *a)
{
  return a->tensor == ARG_COUNTERS ? "counters" : a->tensor == ARG_PARTS ? "parts" : kernels->tensors[a->tensor].name;
}

static int64_t bytes_of(const struct launch_arg *a) { return (a->elements * tile_types[a->type].bytes + ALIGN - 1) / ALIGN * ALIGN; }

// In whose room a tensor is: what an update leaves is where its operand was.
static int owner_of(const struct graph *g, int t)
{
  for (int x; (x = node_updated(&g->nodes[g->tensors[t].node])) >= 0;) t = graph_root(g, x);
  return t;
}

static int owner_at(const struct device_program *d, int launch, const struct launch_arg *a)
{
  return a->tensor == ARG_PARTS ? d->g->ntensors + launch : owner_of(d->g, a->tensor);
}

static void find_lives(const struct device_program *d, struct owners *o)
{
  for (int l = 0; l < d->nlaunch; l++)
    for (int k = 0; k < d->launch[l].nargs; k++) {
      const struct launch_arg *a = &d->launch[l].arg[k];
      if (a->at.kind != PLACE_WORK || a->tensor == ARG_COUNTERS) continue;
      int *piece = &o->piece[owner_at(d, l, a)];
      if (*piece < 0) *piece = o->n, o->p[o->n++] = (struct plan_piece){.bytes = bytes_of(a), .from = l, .to = l};
      o->p[*piece].to = l;
    }
}

int workspace_plan(struct arena *mem, struct device_program *d, struct err *e)
{
  const int most = d->g->ntensors + d->nlaunch;
  struct owners o = {0, NEWS(mem, int, most + 1), NEWS(mem, struct plan_piece, most + 1)};
  for (int t = 0; t < most; t++) o.piece[t] = -1;
  find_lives(d, &o);
  int64_t rest = plan_pack(mem, o.n, o.p);
  d->zeroed = 0;
  for (int i = 0; i < 2; i++) // counters, then what lies behind them
    for (int l = 0; l < d->nlaunch; l++)
      for (int k = 0; k < d->launch[l].nargs; k++) {
        struct launch_arg *a = &d->launch[l].arg[k];
        if (a->at.kind != PLACE_WORK || (a->tensor != ARG_COUNTERS) != i) continue;
        a->at.offset = d->zeroed + (i ? o.p[o.piece[owner_at(d, l, a)]].offset : 0);
        if (!i) d->zeroed += bytes_of(a);
      }
  if (__builtin_add_overflow(d->zeroed, rest, &d->workspace)) return err_set(e, ERR_MEMORY, NOWHERE, "a workspace of more than 2^63 bytes");
  return OK;
}
