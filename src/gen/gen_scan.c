// Prefix sums. A product with a triangle of ones is a running sum along each row, in double. No zero is multiplied, so NaN and infinities reach only
// later elements.
#include "gen/emit.h"

void scan_print(struct arena *mem, struct str *s, int depth, const struct view *x, const struct view *out, int along)
{
  const int n = out->shape.n;
  const char *from = x->ptr, *to = out->ptr;
  for (int i = 0; i < n; i++) {
    from = arena_printf(mem, "%s + i%d * %lld", from, i, (long long)x->stride[i]);
    to = arena_printf(mem, "%s + i%d * %lld", to, i, (long long)out->stride[i]);
  }
  for (int i = 0; i < n; i++)
    if (i != along) line(s, depth++, "for (ptrdiff_t i%d = 0; i%d < %lld; i%d++)", i, i, (long long)out->shape.d[i], i);
  line(s, depth, "{");
  line(s, depth + 1, "double sum = 0;");
  line(s, depth + 1, "for (ptrdiff_t i%d = 0; i%d < %lld; i%d++) *(%s) = (float)(sum += *(%s));", along, along, (long long)out->shape.d[along], along,
       to, from);
  line(s, depth, "}");
}

int scan_node(struct block *b, int node, const struct scan *scan)
{
  const struct node *n = &b->g->nodes[node];
  const int operand = n->in[scan->x];
  const enum stage st = stage_of(b, n->out);
  const struct place *p = &b->place[operand];
  struct view x = p->v;
  if (p->kind == PLACE_CONST || x.dtype != F32) {
    x = tile_new(b, arena_printf(b->mem, "%s_s%d", block_name(b, "t", operand), node), &b->g->tensors[operand].shape, st, false);
    if (p->kind == PLACE_CONST)
      tile_fill(b, &x, p->c, st);
    else
      tile_copy(b, &p->v, &x, st);
  }
  const struct view out = tile_new(b, block_name(b, "t", n->out), &b->g->tensors[n->out].shape, st, false);
  scan_print(b->mem, &b->text[st], depth_of(b, st), &x, &out, scan->along);
  tile_use(b, &x, st);
  b->place[n->out] = (struct place){PLACE_VIEW, false, 0, out};
  return OK;
}
