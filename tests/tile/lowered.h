// Shared by the tests of lowering: a kernel around a few statements. %g and %h are tensors in global memory; 256 threads,
// #me this one, #lanes4, #warp, #group (128 threads) and #pair (a quad pair) of them; M and N sizes, N a multiple of 8.
#ifndef LOWERED_H
#define LOWERED_H

#include "tile/tile.h"

#include <string.h>

#define ME "<<<#b, #me>>>"
#define WARP "<<<#b, #warp>>>"
#define GROUP "<<<#b, #group>>>"
#define ALL "<<<#b, #t>>>"

struct lowered {
  struct arena mem;
  struct tile_program *p;
  struct tile_kernel *k;
  struct err e;
};

static inline int lowered_text(struct lowered *l, const char *text, int arch)
{
  *l = (struct lowered){0};
  if (tile_parse(&l->mem, "t.tile", text, &l->p, &l->e)) return (int)l->e.status;
  l->k = l->p->kernels[0];
  return tile_lower(l->p, l->k, arch, &l->e);
}

static inline int lowered_open(struct lowered *l, const char *g, const char *h, const char *body, int arch)
{
  struct str s = {0};
  const struct target *t = target_gpu(arch);
  str_add(&s, "order row\nkernel t {\n  param M\n  param N multiple 8\n%s  %%g:%s\n  %%h:%s\n", t && t->cluster > 1 ? "  cluster 2\n" : "", g, h);
  str_add(&s, "  #b:[ceil(M, 128)].block\n  #t:[256].thread\n  %%g, %%h <- Spec<<<#b, #t>>>() {\n    #me = "
              "#t.scalar()\n    @bid = #b.indices()\n");
  str_add(&s, "    #lanes4s = #t.tile([4])\n    @four, @in4 = #lanes4s.indices()\n    #lanes4 = #lanes4s[@four]\n");
  str_add(&s, "    #warps = #t.tile([32])\n    @wi, @lane = #warps.indices()\n    #warp = #warps[@wi]\n");
  str_add(&s, "    #groups = #t.tile([128])\n    @gi, @i = #groups.indices()\n    #group = #groups[@gi]\n");
  str_add(&s, "    #pairs = #warp.tile((4,2):(1,16))\n    @pi, _ = #pairs.indices()\n    #pair = #pairs[@pi]\n%s\n  }\n}\n", body);
  int status = lowered_text(l, str_text(&s), arch);
  str_free(&s);
  return status;
}

static inline const struct tile_atom *lowered_atom(const struct lowered *l,
                                                   int i) // the i-th; counted from the end below 0
{
  int n = 0, found = 0;
  for (int s = 0; s < l->k->nspecs; s++) n += l->k->specs[s].atom != NULL;
  for (int s = 0; s < l->k->nspecs; s++)
    if (l->k->specs[s].atom && found++ == (i < 0 ? n + i : i)) return l->k->specs[s].atom;
  return NULL;
}

#endif
