// setmaxnreg: moves registers of a block between warpgroups. At the start of such a kernel, each thread has an equal share of a
// multiprocessor's registers, or of the part of one of several blocks, rounded down to a multiple of 8. A warpgroup that asks for more waits until others have released enough.
#include "sim/machine.h"

enum { MOST = 256, STEP = 8 };

int pool_at_start(const struct sim *s)
{
  const int blocks = MAX(1, tile_blocks_by_registers(s->k));
  return MIN(TILE_REGISTERS / (blocks * MAX(s->nthreads, 1)), MOST) / STEP * STEP;
}

bool pool_take(struct warp *w, int registers)
{
  int64_t more = (int64_t)(registers - w->allotted) * LANES;
  if (more > w->cta->spare) return false;
  w->cta->spare -= more, w->allotted = registers;
  return true;
}

enum go sem_setmaxnreg(struct warp *w, const struct sim_atom *a)
{
  int64_t want = code_eval(w, a->arg)->v[__builtin_ctz(w->active)];
  bool inc = strstr(a->t->row->name, ".inc") != NULL;
  walk_collective(w, a);
  if (inc ? want < w->allotted : want > w->allotted)
    report(w, a, SIM_REGISTERS, __builtin_ctz(w->active), "asks for %lld registers and has %d: %s", (long long)want, w->allotted,
           inc ? "setmaxnreg.inc never gives any back" : "setmaxnreg.dec never takes more");
  if (pool_take(w, (int)want)) return GO_ON;
  w->wait = (struct wait){.kind = WAIT_REGISTERS, .phase = (uint32_t)want, .atom = a->number};
  return GO_WAIT;
}
