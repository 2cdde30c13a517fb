// Values of other lanes: shuffles and reductions over a group of consecutive lanes.
#include "sim/machine.h"

enum { ROOM = 16 * LANES * 8 };
#define EACH for (int l = 0; l < LANES; l++)

static int source(const char *op, int lane, int first, int width, int64_t n)
{
  int64_t at = lane - first;
  if (!strcmp(op, "bfly"))
    at ^= n;
  else if (!strcmp(op, "up"))
    at -= n;
  else if (!strcmp(op, "down"))
    at += n;
  else
    at = n;
  return at < 0 || at >= width ? lane : first + (int)at;
}

enum go sem_shfl(struct warp *w, const struct sim_atom *a)
{
  const struct vec *n = code_eval(w, a->arg), *first = code_eval(w, a->group);
  size_t b = (size_t)a->op[0].bytes;
  int from[LANES], width = MAX(1, a->t->width);
  walk_collective(w, a);
  EACH
  {
    int start = (int)(first->v[l] - w->number * LANES);
    bool here = w->active >> l & 1 && start >= 0 && start < LANES;
    from[l] = here ? source(a->t->row->op, l, start, MIN(a->nmembers, LANES), n->v[l]) & (LANES - 1) : l;
  }
  for (struct walk it = walk_begin(w, a); !it.done; walk_next(&it)) {
    uint8_t in[ROOM], out[ROOM];
    const uint8_t *x = walk_load(&it, 1, width, in);
    for (int i = 0; i < width; i++) EACH memcpy(out + ((size_t)i * LANES + (size_t)l) * b, x + ((size_t)i * LANES + (size_t)from[l]) * b, b);
    walk_store(&it, 0, width, out);
    w->s->r->counts.elements += (int64_t)__builtin_popcount(w->active) * width;
  }
  return GO_ON;
}

// Combines each lane with the lane at a distance, one distance after the other, and rounds every result. All lanes of the group get the same bits.
enum go sem_reduce_warp(struct warp *w, const struct sim_atom *a)
{
  enum tile_type t = a->op[0].type;
  size_t b = (size_t)a->op[0].bytes;
  walk_collective(w, a);
  for (struct walk it = walk_begin(w, a); !it.done; walk_next(&it)) {
    uint8_t in[ROOM], acc[LANES * 8], other[LANES * 8];
    memcpy(acc, walk_load(&it, 1, 1, in), b * LANES);
    for (int i = 0; i < a->t->nsteps; i++) {
      EACH memcpy(other + (size_t)l * b, acc + (size_t)((l ^ a->t->step[i]) & (LANES - 1)) * b, b);
      point_binary(a->t->op, t, acc, other, acc);
    }
    walk_store(&it, 0, 1, acc);
    w->s->r->counts.elements += (int64_t)__builtin_popcount(w->active);
    w->s->r->counts.flops += (int64_t)__builtin_popcount(w->active) * a->t->nsteps;
  }
  return GO_ON;
}
