// Prefetches matrices that only the end of an item reads, such as a residual, to the L2 cache when the item begins. Otherwise the loads at the end,
// one piece at a time, would each wait for device memory.
#include "lower/wgmma.h"

enum { FETCHED = 16, LINE = 128 }; // operand bytes of a prefetch; bytes that it fetches

static bool divides(const struct mma_plan *p, const struct plan_access *a, int64_t unit)
{
  bool all = a->offset % unit == 0;
  for (int i = 0; i < p->n->nletters; i++) all &= a->stride[i] == 1 || a->stride[i] % unit == 0;
  for (int i = 0; i < GRID_AXES; i++) all &= a->grid[i] % unit == 0;
  return all;
}

// Elements of a line if the load is a matrix whose rows are whole lines or equal parts of one; 0: it is not prefetched.
static int64_t line_of(const struct mma_plan *p, int v, int *cols)
{
  if (mma_varies(p, v) || !wgmma_loads_matrix(p, v, cols) || !mma_read_in(p, v, 1u << MMA_POST | 1u << MMA_SENT)) return 0;
  const struct plan_access *a = mma_access(p, v);
  const struct lower_space *l = &p->cols[*cols].list;
  int last = l->axis[l->n - 1], bytes = dtype_bytes(p->job->store[a->tensor]);
  int64_t line = LINE / bytes;
  if (a->stride[last] != 1 || !divides(p, a, FETCHED / bytes)) return 0;
  while (p->n->extent[last] % line) line /= 2;
  return line * bytes >= FETCHED ? line : 0;
}

// Prefetches the lines of the item's rows, divided among the threads that compute.
static void fetch(struct mma_kernel *k, const struct wg_plan *w, int v, int cols, int64_t line)
{
  const struct mma_plan *p = k->p;
  const struct plan_access *a = mma_access(p, v);
  int unit = FETCHED / dtype_bytes(p->job->store[a->tensor]);
  long long each = p->cols[cols].size / line, lines = mma_block_rows(p) * each, own = 128ll * (w->alternate ? 1 : w->groups),
            threads = own * MAX(1, w->split);
  struct str at = {0};
  TEXT_ABOUT(k->t, p->n->block->tensors[a->tile].node + 1);
  const char *before = w->split ? arena_printf(k->mem, "@rank * %lld + ", own) : "";
  text_open(k->t, "for (f = 0; f < %lld; f += 1) {\n@fetched = f * %lld + %s%s\nif (@fetched < %lld) {", (lines + threads - 1) / threads, threads,
            before, w->alternate ? "@i" : "@tid", lines);
  if (mma_clipped(p, cols)) text_open(k->t, "if (@fetched %% %lld * %lld < %s) {", each, (long long)line, mma_clip_count(p, 1));
  mma_row_names(k, arena_printf(k->mem, "@fetched / %lld", each));
  mma_walk_base(p, a, unit, "0", &at);
  mma_row_walk(p, a->stride, unit, &at);
  mma_walk_list(p, &p->cols[cols].list, a->stride, unit, (int)line, arena_printf(k->mem, "@fetched %% %lld", each), &at);
  text_line(k->t, "Sync<prefetch.L2>(%%%s.tile([%d])[%s])", k->global[a->tensor], unit, str_keep(k->mem, &at));
}

void wgmma_fetch_late(struct mma_kernel *k, const struct wg_plan *w)
{
  int cols;
  for (int v = 0; v < k->p->k.nvalues && k->p->iterations > 1; v++) {
    int64_t line = line_of(k->p, v, &cols);
    if (line) fetch(k, w, v, cols, line);
  }
}
