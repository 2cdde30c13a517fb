// Registers of kernels whose warpgroups ask for other numbers of them (setmaxnreg).
#include "tile/tile.h"

enum { WARPGROUP = 128 };

// All warpgroups but one ask for the most.
int tile_blocks_by_registers(const struct tile_kernel *k)
{
  const int64_t groups = ex_value(k->groups[k->threads].size) / WARPGROUP;
  int64_t most = 0, least = INT64_MAX;
  for (int i = 0; i < k->nspecs; i++) {
    const struct tile_spec *s = &k->specs[i];
    if (!s->atom || s->atom->row->sem != SEM_SETMAXNREG || !ex_is_const(s->arg[0])) continue;
    most = MAX(most, ex_value(s->arg[0])), least = MIN(least, ex_value(s->arg[0]));
  }
  return most ? (int)MAX(1, TILE_REGISTERS / (WARPGROUP * (most * MAX(0, groups - 1) + least))) : 0;
}
