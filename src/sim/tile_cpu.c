// Tile kernels on this machine's processor: prints them as C, compiles and calls them.
#include "sim/tile_cpu.h"

#include "cprint/cprint.h"

int tile_cpu_build(const struct tile_program *p, const struct tile_kernel *k, struct module **m, struct err *e)
{
  struct arena mem = {0};
  struct str source = {0};
  int status = cprint_module(p, k, &source, e);
  if (status == OK) status = module_build_with(str_text(&source), cprint_flags(), arena_printf(&mem, "run_%s", cprint_name(&mem, k)), NULL, m, e);
  str_free(&source);
  arena_close(&mem);
  return status;
}

int tile_cpu_run(struct module *m, const struct tile_kernel *k, const int64_t *params, void *const *data, struct err *e)
{
  struct arena mem = {0};
  void **buffers = NEWS(&mem, void *, k->nbuffers + 1), **sizes = NEWS(&mem, void *, k->nparams + 1);
  int nbuffers = 0, nsizes = 0;
  for (int i = 0; i < k->nbuffers; i++)
    if (k->buffers[i].mem == MEM_GL) buffers[nbuffers++] = data[i];
  for (int i = 0; i < k->nparams; i++)
    if (!ex_is_const(k->params[i])) sizes[nsizes++] = arena_copy(&mem, &params[i], sizeof params[i]);
  int status = module_call(m, buffers, sizes);
  arena_close(&mem);
  if (status == 0) return OK;
  return err_set(e, status == 1 ? ERR_LIMIT : ERR_TILE, k->at, "%s on the CPU: %s", k->name,
                 status == 1 ? "no memory for a block" : "a size is not one that the kernel was made for");
}
