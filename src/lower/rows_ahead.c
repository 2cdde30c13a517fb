// Work of a kernel of rows before the one ahead of it has ended, and the place where it lets the next one begin.
//
// Nothing may be read before the wait, because the kernel ahead may still write it; but lines of inputs may be on their way to the
// L2 cache, so that memory has work while the kernel ahead ends. Results of other kernels of the program are in that cache already.
//
// A kernel that lets the next one begin at once lets all that follow begin, as many as the GPU has room for: each is there, waits,
// and so holds what it needs of multiprocessors. Then blocks lie where others have left, several of one kernel on one
// multiprocessor while others have none; where blocks are few, this costs more than the early start gains. With `hold`
// the next begins when the wait is over, so that at most two kernels are there, each spread over all multiprocessors.
#include "lower/count.h"
#include "lower/rows.h"

// A load that may be asked for ahead.
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

// This applies if all blocks run at once. A kernel that takes less than it takes the next one to begin would make it late if it held
// it back; with few blocks there is nothing to gain by it. On an H200 (us), norms of 64 rows of 4096: 2.70 with neither, 2.2 with
// lines fetched ahead, 1.6 with both; of 8 rows 1.69, 1.35 and 1.37; a chain of 11 small kernels lost up to a tenth by `hold`.
void rows_before_best(struct row_plan *p, const struct kernel_counts *c)
{
  const struct lower_job *j = p->r->j;
  enum { SHARE = 4, LAUNCHES = 3 }; // parts of the multiprocessors; empty launches
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
