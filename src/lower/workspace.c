// Plans one piece of device memory for everything that a launch leaves to later launches. A tensor lives from the launch that writes it to the last
// one that reads it. Tensors whose lifetimes do not overlap share bytes. This is safe even if a launch starts early, because it waits before it
// touches memory. Parts of accumulators live during one launch. Counters come first. They are zero before the first run, and each kernel leaves them
// zero.
#include "lower/lower.h"
#include "plan/plan.h"

enum { ALIGN = 256 };

struct owners { // piece: for each tensor of the kernel graph, then for each launch, for its parts; -1: none
  int n, *piece;
  struct plan_piece *p;
};

const char *lower_arg_name(const struct graph *kernels, const struct launch_arg *a)
{
  return a->tensor == ARG_COUNTERS ? "counters" : a->tensor == ARG_PARTS ? "parts" : kernels->tensors[a->tensor].name;
}

static int64_t bytes_of(const struct launch_arg *a) { return (a->elements * tile_types[a->type].bytes + ALIGN - 1) / ALIGN * ALIGN; }

// The tensor whose memory t uses: an update writes over its operand.
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
  for (int i = 0; i < 2; i++) // counters first, then the other pieces
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
