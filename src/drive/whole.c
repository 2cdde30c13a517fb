// The whole program, joined from its parts.
#include "drive/drive.h"

const struct contest *whole_part(const struct job *j, int part)
{
  const struct contest *c = &j->contests[part];
  return c->twin < 0 ? c : &j->contests[c->twin];
}

int part_alike(const struct job *j, int part)
{
  int n = 1;
  for (int i = 0; i < j->split.n; i++) n += j->contests[i].twin == part;
  return n;
}

int whole_join(struct job *j, struct candidate **of, struct candidate *out, struct err *e)
{
  struct graph **parts = NEWS(j->mem, struct graph *, j->split.n), *whole;
  for (int i = 0; i < j->split.n; i++) parts[i] = (struct graph *)of[i]->g;
  TRY(lax_join(j->mem, j->moved.g, &j->split, parts, &whole, e));
  const struct graph *rank = whole->world > 1 ? whole : NULL;
  TRY(graph_unfold(j->mem, whole, &whole, e));
  *out = (struct candidate){.found = whole, .g = whole, .rank = rank, .note = "", .of = of};
  return OK;
}

// The whole is proved by the proofs of its parts.
void whole_proofs(struct job *j)
{
  struct device_proof *all = &j->best.gpu.lowered->proof;
  for (int i = 0; i < j->split.n; i++) {
    const struct contest *c = &j->contests[i];
    const struct lowered *d = c->twin < 0 ? c->cand[c->best].gpu.lowered : NULL;
    if (!d) continue;
    all->kernels += d->proof.kernels, all->run += d->proof.run, all->full += d->proof.full;
    all->blocks += d->proof.blocks, all->elements += d->proof.elements, all->seconds += d->proof.seconds;
    if (d->proof.relative > all->relative) all->relative = d->proof.relative;
    if (*d->proof.note) all->note = *all->note ? arena_printf(j->mem, "%s; %s", all->note, d->proof.note) : d->proof.note;
  }
}
