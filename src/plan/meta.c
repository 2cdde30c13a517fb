// Attributes of every copy and accumulator. A copy moves chunks along the letter of stride 1, whose elements are contiguous in device memory and in
// the tile. The chunk size divides the letter's extent and every other stride. So every chunk begins at a multiple of its size, for all blocks,
// iterations and letters.
#include "plan/passes.h"

enum { MOST_CHUNK = 8 }; // elements

int plan_chunk(int n, const int64_t *extent, const int64_t *stride, int along, int64_t offset, int64_t elements, int most)
{
  int w = 1;
  if (along < 0 || stride[along] != 1) return 1;
  while (2 * w <= most && offset % (2 * w) == 0 && elements % (2 * w) == 0 && extent[along] % (2 * w) == 0) w *= 2;
  for (int i = 0; i < n; i++)
    while (i != along && extent[i] > 1 && stride[i] % w) w /= 2;
  return w;
}

enum { AXES = MAX_LETTERS + GRID_AXES + MAX_LOOPS };

static struct copy_meta copy_of(const struct norm *n, const struct plan_access *a)
{
  int64_t extent[AXES], stride[AXES];
  int axes = 0;
  struct copy_meta m = {.along = -1};
  for (int i = 0; i < n->nletters; i++) {
    bool has = n->t[a->tile].has >> i & 1;
    if (has && a->stride[i] == 1 && n->extent[i] > 1) m.along = i;
    extent[axes] = n->extent[i], stride[axes++] = a->stride[i];
  }
  for (int i = 0; i < n->block->ngrid; i++) extent[axes] = n->block->grid[i], stride[axes++] = a->grid[i];
  for (int i = 0; i < n->block->nloop; i++) extent[axes] = n->block->loop[i], stride[axes++] = a->loop[i];
  m.chunk = plan_chunk(axes, extent, stride, m.along, a->offset, norm_elements(n, a->tensor), MOST_CHUNK);
  while (n->ragged.all && n->ragged.letter == m.along && n->ragged.all % m.chunk) m.chunk /= 2; // chunks end where the letter ends
  while (n->clipped.all && n->clipped.letter == m.along && n->clipped.all % m.chunk) m.chunk /= 2;
  return m;
}

void plan_meta(struct arena *mem, const struct norm *n, const struct chains *c, struct meta *out)
{
  const struct graph *b = n->block;
  *out = (struct meta){NEWS(mem, struct copy_meta, n->niter + 1), NEWS(mem, struct copy_meta, n->nsave + 1),
                       NEWS(mem, enum accumulator_place, b->nnodes + 1)};
  for (int i = 0; i < n->niter; i++) {
    struct copy_meta *m = &out->iter[i];
    *m = copy_of(n, &n->iter[i]);
    m->ring = graph_iterations(b) > 1 && b->tensors[n->iter[i].tile].phase == VARYING;
    m->shared = c->tile[n->iter[i].tile];
  }
  for (int i = 0; i < n->nsave; i++) out->save[i] = copy_of(n, &n->save[i]);
  for (int i = 0; i < b->nnodes; i++)
    if (op_rows[b->nodes[i].op].rule == RULE_ACCUM) out->accumulator[i] = ACCUMULATOR_REGISTERS;
  for (int k = 0; k < c->nproducts; k++)
    if (c->product[k].into >= 0) out->accumulator[c->product[k].into] = ACCUMULATOR_PRODUCT;
}
