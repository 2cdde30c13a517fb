// Work of a kernel of rows before the previous kernel has ended, and the point where the next kernel may begin.
//
// Nothing may be read before the wait, because the previous kernel may still write it. But lines of inputs may be prefetched to the L2 cache, so that
// memory is busy while the previous kernel ends. Results of other kernels are usually in that cache already.
//
// If each kernel lets the next one begin at once, as many later kernels begin as the GPU has room for. Their waiting blocks occupy multiprocessors.
// Blocks then start wherever others have ended: several of one kernel on one multiprocessor, none on others. For kernels of few blocks this costs
// more than the early start gains. With `hold` the next kernel begins when the wait is over, so at most two kernels are resident, each spread over
// all multiprocessors.
#include "lower/count.h"
#include "lower/rows.h"

// Whether the load may be prefetched before the wait: only inputs of the program.
static bool is_fetched(const struct row_plan *p, int value)
{
  const struct kern_value *v = &p->r->k.v[value];
  const struct graph *g = p->r->j->n->kernels;
  return v->live && v->kind == KERN_LOAD && !v->at.left && g->nodes[g->tensors[v->at.tensor].node].op == OP_INPUT;
}

double rows_soon(const struct row_plan *p)
{
  double bytes = 0;
  for (int i = 0; i < p->r->k.nvalues && p->r->j->dependent && p->ahead; i++) {
    if (!is_fetched(p, i)) continue;
    const struct kern_value *v = &p->r->k.v[i];
    double n = dtype_bytes(v->at.type);
    EACH_AXIS(a, v->axes) n *= (double)p->regs[a] * row_own(p, a) * row_vec(p, a) * (p->rounds >> a & 1 ? (double)MIN(p->ahead, p->chunks[a]) : 1);
    bytes += n;
  }
  return bytes;
}

// Chooses `ahead` and `hold`. Both need all blocks to run at once. `hold` in a kernel that is shorter than a launch would delay the next one, and it
// gains nothing for few blocks. On an H200, norms of 64 rows of 4096 took 2.70 us without both, 2.2 us with prefetches and 1.6 us with both. Norms of
// 8 rows took 1.69, 1.35 and 1.37 us. A chain of 11 small kernels lost up to a tenth by `hold`.
void rows_before_best(struct row_plan *p, const struct kernel_counts *c)
{
  const struct lower_job *j = p->r->j;
  enum { SHARE = 4, LAUNCHES = 3 }; // least share of multiprocessors with a block, as 1 / SHARE; least duration in empty launches
  bool once = j->dependent && c->blocks <= j->gpu->cores * c->room;
  bool hold = once && SHARE * c->blocks >= j->gpu->cores && kernel_time(c, j->gpu, NULL) >= LAUNCHES * j->gpu->launch;
  rows_before(p, once, hold);
  double soon = rows_soon(p);
  if (soon <= 0 || soon * c->blocks > (double)j->gpu->l2 / 3) p->ahead = 0;
}

void row_wait(struct row_text *x)
{
  const struct row_plan *p = x->p;
  const struct hole *holes = HOLES(NULL, INT(hold, p->hold));
  text_fill(&x->t, "?!hold Sync<grid.trigger>()", holes);
  for (int i = 0; i < p->r->k.nvalues && p->ahead; i++) {
    TEXT_SCOPE(&x->t);
    if (!is_fetched(p, i)) continue;
    row_rounds_open(x, p->r->k.v[i].axes & p->rounds, p->ahead, " unroll");
    row_fetch(x, i);
  }
  text_fill(&x->t, "Sync<grid.wait>()\n?hold Sync<grid.trigger>()", holes);
}
