// How the result of an operator is divided among blocks: grid axes, by the extents of its shape and the strides of views that its kernel reads.
#include "legal/wrap.h"

// The least number of equal parts of at most `most` elements.
int64_t wrap_equal_parts(int64_t extent, int64_t most)
{
  int64_t part = MIN(extent, most);
  while (part > 1 && extent % part) part--;
  return extent / MAX(part, 1);
}

// Axes of one dimension are nested, the slow one first. Among dimensions, the fastest is first, so that adjacent blocks are adjacent in memory.
void wrap_add_axis(struct wrap_cut *c, int dim, int64_t parts)
{
  int i = c->n++;
  for (; i > 0 && c->dim[i - 1] == dim; i--) c->dim[i] = c->dim[i - 1], c->parts[i] = c->parts[i - 1];
  c->dim[i] = dim, c->parts[i] = parts;
}

// Grid axes that divide the shape into tiles. A tile already has `inside` elements. An axis of a view divides one factor of a dimension, since
// dimensions may have several strides. Slower factors of a divided dimension are divided into single elements, each by its own axis.
struct wrap_cut wrap_cut_of(const struct shape *s, const struct kview *v, int64_t inside, int64_t tile)
{
  struct wrap_cut c = {0};
  for (int d = s->n - 1; d >= 0; d--) {
    bool cut = false;
    for (int k = v ? v->dim[d].n : 1; k-- > 0;) {
      const int64_t extent = v ? v->dim[d].extent[k] : s->d[d];
      const int64_t parts = c.n + k >= MAX_GRID ? 1 : cut ? extent : wrap_equal_parts(extent, MAX(1, tile / inside));
      inside *= extent / parts;
      if (parts > 1) wrap_add_axis(&c, d, parts), cut = true;
    }
  }
  return c;
}

// Divides the factors of a dimension until they are those of b too. False: their extents do not divide each other.
static bool refine(struct kview_dim *a, struct kview_dim b)
{
  struct kview_dim x = *a, out = {0};
  while (x.n && b.n) {
    int64_t *p = &x.extent[x.n - 1], *q = &b.extent[b.n - 1];
    const int64_t part = MIN(*p, *q);
    if (*p % part || *q % part || out.n == MAX_FACTORS) return false;
    for (int k = out.n++; k > 0; k--) out.extent[k] = out.extent[k - 1];
    out.extent[0] = part;
    *p /= part, *q /= part;
    x.n -= *p == 1, b.n -= *q == 1;
  }
  return *a = out, true;
}

// Whether each axis has a stride in tensor t, broadcast to the divided shape of this rank.
bool wrap_cut_fits(const struct wrapping *w, const struct wrap_cut *c, int rank, int t)
{
  struct kview v;
  int64_t stride;
  bool fits = kview_of(w->to, t, &v);
  for (int i = 0; i < c->n && fits; i++) {
    const int d = c->dim[i] - (rank - v.ndims);
    fits = d < 0 || w->to->tensors[t].shape.d[d] == 1 || kview_take(&v.dim[d], c->parts[i], &stride);
  }
  return fits;
}

// If views among the tensors have several strides within a dimension, its axes divide their factors.
struct wrap_cut wrap_cut_with(const struct wrapping *w, const struct shape *s, int n, const int *in, int64_t inside, int64_t tile)
{
  const struct wrap_cut plain = wrap_cut_of(s, NULL, inside, tile);
  struct kview all = {.ndims = s->n}, v;
  bool fits = true;
  for (int d = 0; d < s->n; d++) all.dim[d] = (struct kview_dim){1, {s->d[d]}, {0}};
  for (int k = 0; k < n; k++) {
    if (wrap_constant(w->to, in[k]) || wrap_cut_fits(w, &plain, s->n, in[k]) || !kview_of(w->to, in[k], &v)) continue;
    fits = false;
    for (int d = 0, to = s->n - v.ndims; d < v.ndims; d++, to++)
      if (to >= 0 && s->d[to] > 1 && w->to->tensors[in[k]].shape.d[d] == s->d[to]) refine(&all.dim[to], v.dim[d]);
  }
  return fits ? plain : wrap_cut_of(s, &all, inside, tile);
}

// Divides x like the kernel that computes it, if that kernel does not divide dimension dim. The two can then become one kernel (merge.c). Otherwise
// each block has some rows, as in a reduction.
struct wrap_cut wrap_cut_of_rows(const struct wrapping *w, int dim, int x)
{
  const struct shape *s = &w->to->tensors[x].shape;
  const struct node *maker = &w->to->nodes[w->to->tensors[x].node], *save = NULL;
  struct wrap_cut c = {0};
  struct shape rest = *s;
  for (int i = 0, k = x - maker->out; maker->op == OP_BLOCK && i < maker->sub->nnodes && !save; i++)
    if (maker->sub->nodes[i].op == OP_SAVE && !k--) save = &maker->sub->nodes[i];
  for (int i = 0; save && i < maker->sub->ngrid; i++) {
    if (maker->sub->grid[i] > 1 && save->a.omap[i] == dim) save = NULL;
    if (save) c.dim[i] = save->a.omap[i], c.parts[i] = maker->sub->grid[i], c.n++;
  }
  rest.d[dim] = 1;
  return save ? c : wrap_cut_of(&rest, NULL, s->d[dim], WRAP_TILE);
}
