// Registers of kernels whose warpgroups ask for other numbers of them (setmaxnreg).
#include "tile/tile.h"

#include <string.h>

enum { WARPGROUP = 128 };

// One warpgroup is counted with the fewest registers, and all others with the most. If more warpgroups give registers back, fewer blocks are counted
// than fit. Without setmaxnreg.inc all registers belong to one block, because other warpgroups keep what they have at the start.
int tile_blocks_by_registers(const struct tile_kernel *k)
{
  const int64_t groups = ex_value(k->groups[k->threads].size) / WARPGROUP;
  int64_t most = 0, least = INT64_MAX;
  bool asks = false;
  for (int i = 0; i < k->nspecs; i++) {
    const struct tile_spec *s = &k->specs[i];
    if (!s->atom || s->atom->row->sem != SEM_SETMAXNREG || !ex_is_const(s->arg[0])) continue;
    const int64_t registers = ex_value(s->arg[0]);
    asks = true, least = MIN(least, registers);
    if (strstr(s->atom->row->name, ".inc")) most = MAX(most, registers);
  }
  if (!most) return asks;
  return (int)MAX(1, TILE_REGISTERS / (WARPGROUP * (most * MAX(1, groups - 1) + (groups > 1 ? least : 0))));
}
