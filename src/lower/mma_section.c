// The values before, in and after the loop, and their order: that of the block graph's schedule (plan/schedule.c), each value after its operands.
#include "lower/mma.h"

static bool computed(const struct mma_plan *p, int v)
{
  return p->k.v[v].live && !mma_loads(p, v) && p->k.v[v].kind != KERN_CONST && p->section[v] != MMA_SIDE;
}

// late: the value is known only after the loop. The section of varying values and of accumulated ones is fixed.
static void place_by_loop(struct mma_plan *p, bool *placed)
{
  bool *late = NEWS(p->job->mem, bool, p->k.nvalues + 1);
  for (int v = 0; v < p->k.nvalues; v++) {
    const struct kern_value *x = mma_at(p, v);
    bool accumulates = mma_accumulates(p, v), runs = kern_has(x, KERN_KEEPS), reads = false;
    for (int i = 0; i < x->nin; i++) reads |= late[x->in[i]];
    late[v] = reads || (accumulates && !runs);
    placed[v] = p->iterations == 1 || accumulates || reads || mma_varies(p, v);
    if (computed(p, v)) p->section[v] = reads && !accumulates && p->iterations > 1 ? MMA_POST : MMA_LOOP;
  }
}

// A loop-invariant value is computed before the loop if something there or in the loop reads it, else after the loop.
static void place_fixed(struct mma_plan *p, const bool *placed)
{
  bool *within = NEWS(p->job->mem, bool, p->k.nvalues + 1);
  for (int v = p->k.nvalues - 1; v >= 0; v--) {
    if (!computed(p, v)) continue;
    if (!placed[v]) p->section[v] = within[v] ? MMA_PRE : MMA_POST;
    for (int i = 0; i < p->k.v[v].nin && p->section[v] != MMA_POST; i++) within[p->k.v[v].in[i]] = true;
  }
}

static void push(struct mma_plan *p, int v, bool *done)
{
  if (done[v] || !computed(p, v)) return;
  done[v] = true;
  if (p->k.v[v].kind == KERN_RUN_MOVE) push(p, mma_running(p, v, KERN_RUN_MAX), done); // computing it also computes the change
  for (int i = 0; i < p->k.v[v].nin; i++)
    if (p->section[p->k.v[v].in[i]] == p->section[v]) push(p, p->k.v[v].in[i], done);
  p->order[p->norder++] = v;
}

static void order(struct mma_plan *p)
{
  const struct schedule *planned = &p->n->passes->schedule;
  bool *done = NEWS(p->job->mem, bool, p->k.nvalues + 1);
  p->norder = 0, p->order = NEWS(p->job->mem, int, p->k.nvalues + 1);
  for (enum mma_section s = MMA_PRE; s <= MMA_POST; s++) {
    for (int i = 0; i < planned->n; i++)
      for (int v = 0; v < p->k.nvalues; v++)
        if (p->section[v] == s && p->k.v[v].about == planned->order[i] + 1) push(p, v, done);
    for (int v = 0; v < p->k.nvalues; v++)
      if (p->section[v] == s) push(p, v, done);
  }
}

void mma_sections(struct mma_plan *p)
{
  bool *placed = NEWS(p->job->mem, bool, p->k.nvalues + 1);
  place_by_loop(p, placed);
  place_fixed(p, placed);
  order(p);
}
