// Data-dependent indices. A gather selects elements of a value by an index, which is another value. If the first value is computed element by
// element, each of its loads becomes a load at that index (KERN_CHOSEN). An update stores a value at an index (KERN_PLACED). The results of topk
// (KERN_TOP, KERN_TOP_AT) have no axis for the position among the selected elements; their stores have a stride for it.
#include "kern/kern_parts.h"

struct kern_choosing {
  struct kern_making *m;
  axis_set axes; // axes of the indexed dimension
  int naxes, axis[MAX_FACTORS], index;
  int *made; // for each value: its replacement, + 1
  bool failed;
};

// Replaces the dimension's axes, slowest first, by an index in the access. Even an index into one element is checked against its limit. False if the
// dimension does not have one stride in memory.
static bool add_index(const struct kern *k, struct kern_access *a, int n, const int *axis)
{
  int64_t stride = 0, below = 1;
  int free = 0;
  while (free < KERN_CHOSEN_BY && a->by[free].limit) free++;
  if (free == KERN_CHOSEN_BY) return false;
  for (int i = n; i-- > 0; below *= k->extent[axis[i]]) {
    if (k->extent[axis[i]] <= 1) continue;
    if (below == 1) stride = a->stride[axis[i]];
    if (a->stride[axis[i]] != stride * below || stride < 0) return false;
  }
  a->by[free].stride = stride, a->by[free].limit = below;
  for (int i = 0; i < n; i++) a->stride[axis[i]] = 0;
  return true;
}

static int chosen(struct kern_choosing *c, int v)
{
  struct kern *k = c->m->k;
  if (v < 0) {
    struct kern_part p = c->m->parts[-v - 1];
    c->failed |= c->axes >> p.axis & 1;
    for (int i = 0; i < p.n && !c->failed; i++) p.part[i] = chosen(c, p.part[i]);
    return c->failed ? v : kern_joined(c->m, p.axis, p.n, p.part);
  }
  if (!(k->v[v].axes & c->axes) && kern_extent(k, c->axes) > 1) return v;
  if (c->made[v]) return c->made[v] - 1;
  struct kern_value x = k->v[v];
  if (x.kind == KERN_CONST) return v;
  for (int i = 0; i < x.nin; i++) x.in[i] = chosen(c, x.in[i]);
  bool strided = kern_loads(&x) && (kern_strided(k, &x.at) & c->axes || !(k->v[v].axes & c->axes));
  c->failed |= (!kern_loads(&x) && x.kind != KERN_MAP) || (strided && (x.at.index || !add_index(k, &x.at, c->naxes, c->axis)));
  if (strided && !c->failed) x.kind = KERN_CHOSEN, x.in[x.nin++] = c->index;
  if (c->failed) return v;
  const int out = kern_add(k, x);
  return c->made[v] = out + 1, out;
}

static struct kern_choosing choosing(struct kern_making *m, const struct norm_dim *d, int index)
{
  struct kern_choosing c = {.m = m, .naxes = d->n, .index = index, .made = NEWS(m->mem, int, 2 * m->k->nvalues + 64)};
  for (int i = 0; i < d->n; i++) c.axis[i] = m->first + d->letter[i], c.axes |= AXIS(c.axis[i]);
  return c;
}

bool kern_part_chosen(struct kern_making *m, int v, const struct norm_dim *d, int index, int *out)
{
  struct kern_choosing c = choosing(m, d, index);
  if (index < 0) return false;
  *out = chosen(&c, v);
  return !c.failed;
}

bool kern_part_placed(struct kern_making *m, int v, const struct norm_dim *d, int index, struct kern_access at)
{
  const struct kern_choosing c = choosing(m, d, index);
  if (v < 0 || index < 0 || !add_index(m->k, &at, c.naxes, c.axis)) return false;
  axis_set axes = kern_strided(m->k, &at) | m->k->v[v].axes | m->k->v[index].axes;
  struct kern_value placed = {.kind = KERN_PLACED, .nin = 2, .in = {kern_spread(m->k, v, axes, m->about), index}, .about = m->about};
  placed.at.by[0].stride = at.by[0].stride, placed.at.by[0].limit = at.by[0].limit;
  return kern_part_store(m, kern_add(m->k, placed), at);
}

bool kern_part_topk(struct kern_making *m, enum kern_kind kind, int v, const struct norm_dim *d, int64_t k, int *out)
{
  const struct kern_choosing c = choosing(m, d, v);
  struct kern_value x = {.kind = kind, .nin = 1, .in = {v}, .about = m->about};
  int64_t below = 1;
  if (v < 0) return false;
  for (int i = c.naxes; i-- > 0; below *= m->k->extent[c.axis[i]])
    if (m->k->extent[c.axis[i]] > 1) x.at.stride[c.axis[i]] = below, x.folded |= AXIS(c.axis[i]);
  x.in[0] = kern_spread(m->k, v, x.folded, m->about);
  x.at.type = I32, x.at.index = true, x.at.elements = below, x.at.by[0].limit = k;
  *out = x.folded ? kern_add(m->k, x) : kind == KERN_TOP ? v : kern_const(m->k, 0, m->about);
  return true;
}

bool kern_part_top(struct kern_making *m, int v, const struct norm_dim *d, struct kern_access at)
{
  const struct kern_choosing c = choosing(m, d, v);
  if (v < 0 || !kern_tops(&m->k->v[v])) return kern_part_store(m, v, at); // topk of a single element
  if (!add_index(m->k, &at, c.naxes, c.axis) || kern_strided(m->k, &at) & ~m->k->v[v].axes) return false;
  return kern_part_store(m, v, at);
}
