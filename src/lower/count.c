// Counts shared by all schemes: bytes of tensors.
#include "lower/count.h"
#include "plan/letters.h"

bool count_is_output(const struct graph *g, int tensor)
{
  for (int i = 0; i < g->nnodes; i++) {
    struct kview v;
    if (g->nodes[i].op == OP_OUTPUT && kview_of(g, g->nodes[i].in[0], &v) && v.root == tensor) return true;
  }
  return false;
}

void count_bytes(const struct lower_job *j, int tensor, double bytes, struct kernel_counts *c)
{
  const struct graph *g = j->n->kernels;
  const struct tensor *t = &g->tensors[tensor];
  double whole = (double)shape_size(&t->shape) * dtype_bytes(j->store ? j->store[tensor] : t->dtype);
  bool far = g->nodes[t->node].op == OP_INPUT || count_is_output(g, tensor) || whole > 0.5 * (double)j->gpu->l2;
  *(far ? &c->memory : &c->near) += bytes;
}

// Elements of the access's buffer that all blocks touch.
static double touched_by(const struct norm *n, const struct plan_access *a)
{
  double size = (double)shape_size(&n->kernels->tensors[a->tensor].shape), all = 1;
  for (int i = 0; i < n->nletters; i++) all *= a->stride[i] ? (double)n->extent[i] : 1;
  for (int i = 0; i < n->block->ngrid; i++) all *= a->grid[i] ? (double)n->block->grid[i] : 1;
  for (int i = 0; i < n->block->nloop; i++) all *= a->loop[i] ? (double)n->block->loop[i] : 1;
  return MIN(size, all);
}

double count_run(const struct norm *n, const struct plan_access *a)
{
  int64_t run = 1;
  for (bool more = true; more;) {
    more = false;
    for (int i = 0; i < n->nletters; i++)
      if (a->stride[i] == run && n->extent[i] > 1) run *= n->extent[i], more = true;
  }
  return (double)run;
}

static bool listed(const struct plan_access *a, int n, int tensor)
{
  for (int i = 0; i < n; i++)
    if (a[i].tensor == tensor) return true;
  return false;
}

static void one_side(const struct lower_job *j, const struct norm *n, bool saves, struct kernel_counts *c)
{
  const struct plan_access *all = saves ? n->save : n->iter;
  for (int i = 0; i < (saves ? n->nsave : n->niter); i++) {
    const struct plan_access *a = &all[i];
    bool inner = j->tail && (saves ? n == j->n : n == j->tail && listed(j->n->save, j->n->nsave, a->tensor));
    bool again = listed(all, i, a->tensor) || (n == j->tail && !saves && listed(j->n->iter, j->n->niter, a->tensor));
    if (!inner && !again && !norm_is_index(n, a->tensor)) count_bytes(j, a->tensor, touched_by(n, a) * dtype_bytes(j->store[a->tensor]), c);
  }
}

void count_tensors(const struct lower_job *j, struct kernel_counts *c)
{
  one_side(j, j->n, false, c), one_side(j, j->n, true, c);
  if (j->tail) one_side(j, j->tail, false, c), one_side(j, j->tail, true, c);
}

// The library is slow if the contiguous side of an operand or the result is not a whole number of 16-byte chunks, even if rows are aligned to 16
// bytes. It is slower still if that side has an odd number of elements.
static double library_rate(const struct blas_product *m)
{
  const int64_t a = m->stride[BLAS_A][2] == 1 ? m->k : m->m, b = m->stride[BLAS_B][2] == 1 ? m->n : m->k, any = a | b | m->n;
  return any % 2 ? kernel_rates.odd[COUNT_LIBRARY] : any % 8 ? kernel_rates.unaligned[COUNT_LIBRARY] : 1;
}

void count_product(const struct graph *g, const enum dtype *store, const struct library_product *x, const struct target *gpu, struct kernel_counts *c)
{
  const struct norm n = {.kernels = g};
  const struct lower_job j = {.n = &n, .store = store, .gpu = gpu};
  const struct blas_product *m = &x->p;
  double rows = (double)((m->m + 63) / 64 * 64), cols = (double)((m->n + 63) / 64 * 64);
  double tiles = (double)m->batch * MAX(1, rows / 128) * MAX(1, cols / 128);
  *c = (struct kernel_counts){
      .kind = COUNT_LIBRARY, .blocks = MAX(tiles, MIN(64, tiles * (double)m->k / 256)), .threads = 256, .room = 1, .cluster = 1};
  for (int i = 0; i < BLAS_OPERANDS; i++)
    if (blas_has(m, i)) count_bytes(&j, x->tensor[i], (double)shape_size(&g->tensors[x->tensor[i]].shape) * dtype_bytes(store[x->tensor[i]]), c);
  c->items = c->blocks, c->cache = c->memory + c->near;
  c->wgmma = 2.0 * (double)m->batch * rows * cols * (double)m->k / c->items;
  if (m->type[BLAS_A] != TT_F32) c->wgmma /= library_rate(m);
  // Products of f32 run on the lanes. The library's choice of kernel is unknown; this assumes tiles of 128 by 128 if there are enough.
  if (m->type[BLAS_A] == TT_F32) c->wgmma *= gpu->flops / (2 * gpu->lane_rate * gpu->cores * kernel_rates.f32[COUNT_LIBRARY]);
}

struct choice product_choice(const struct lower_plan *p, const struct library_product *x, bool tail)
{
  struct kernel_counts c;
  count_product(p->g, p->store, x, p->gpu, &c);
  return (struct choice){.scheme = SCHEME_LIBRARY, .k = {{tail ? (int)x->p.epilogue + 1 : 0}}, .tail = tail, .cost = kernel_time(&c, p->gpu, NULL)};
}
