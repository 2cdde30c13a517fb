// The function that executes each semantics of instr.def.
#include "sim/machine.h"

sem_fn sem_find(enum sem sem)
{
  static const sem_fn table[] = {
#define SEMANTIC(id, name) [SEM_##id] = name,
#include "sim/semantics.def"
#undef SEMANTIC
  };
  return (size_t)sem < COUNT(table) ? table[sem] : NULL;
}

enum go sem_nothing(struct warp *w, const struct sim_atom *a)
{
  (void)w, (void)a;
  return GO_ON;
}
