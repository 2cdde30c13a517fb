// The pieces of a worker's pipeline, in the order in which the producer copies them. Piece i takes stage i % stages.
#include "mega/mega_prove.h"

// least: without pieces of a cache that requests share.
static int64_t pieces_of_tile(struct mega_proving *v, int node, int tile, int step, bool least, struct mega_region *r)
{
  const struct mega_plan *p = v->p;
  const struct mega_op *op = mega_op_of(p, node);
  int64_t n = 0;
  for (int a = 0; a < op->spec.naccess; a++) {
    if (!op->spec.access[a].stream || (least && mega_paged(p->m, op, true))) continue;
    r->n = 0;
    mega_region(v->mem, p->m, op, a, p->node[node].layer, tile, step, r);
    for (int i = 0; i < r->n; i++) n += mega_pieces(p->m, op, a, &r->box[i]);
  }
  return n;
}

void mega_streams_make(struct mega_proving *v)
{
  const struct mega_plan *p = v->p;
  int n = MEGA_STEPS * p->nnodes;
  struct mega_region r = {0};
  if (v->stream) return;
  v->stream = NEWS(v->mem, struct mega_stream, p->m->workers), v->least = NEWS(v->mem, struct mega_stream, p->m->workers);
  for (int k = 0; k < 2 * p->m->workers; k++) {
    int w = k / 2;
    struct mega_stream *s = k % 2 ? &v->least[w] : &v->stream[w];
    s->start = NEWS(v->mem, int64_t, n + 1), s->instance = NEWS(v->mem, int, n);
    for (int i = 0; i < n; i++) {
      int step = i / p->nnodes, node = p->pipe[i % p->nnodes];
      struct mega_span x = mega_share(p, node, w);
      s->instance[i] = step * p->nnodes + node;
      s->start[i + 1] = s->start[i];
      for (int t = x.lo; t < x.hi; t++) s->start[i + 1] += pieces_of_tile(v, node, t, step, k % 2, &r);
    }
  }
}

int mega_stage_freed_by(const struct mega_proving *v, const struct mega_stream *s, int64_t piece)
{
  int lo = 0, hi = MEGA_STEPS * v->p->nnodes;
  int64_t freed = piece - v->p->m->stages;
  if (freed < 0) return -1;
  while (hi - lo > 1) {
    int mid = (lo + hi) / 2;
    if (s->start[mid] <= freed)
      lo = mid;
    else
      hi = mid;
  }
  return s->instance[lo];
}
