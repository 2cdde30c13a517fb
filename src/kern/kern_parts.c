// Operations on values in parts (kern_parts.h).
#include "kern/kern_parts.h"

static const struct kern_part *parts_of(const struct kern_making *m, int v) { return v < 0 ? &m->parts[-v - 1] : NULL; }

int kern_joined(struct kern_making *m, int axis, int n, const int *part)
{
  struct kern_part p = {.axis = axis, .n = n};
  for (int k = 0; k < n; k++) p.part[k] = part[k];
  PUSH(m->mem, m->parts, m->nparts, m->cparts) = p;
  return -m->nparts;
}

static int at_index(struct kern_making *m, int v, int axis, int64_t index, int *made)
{
  if (v < 0) {
    struct kern_part p = *parts_of(m, v); // a copy, because kern_joined may reallocate the list
    if (p.axis == axis) return p.part[index];
    for (int k = 0; k < p.n; k++) p.part[k] = at_index(m, p.part[k], axis, index, made);
    return kern_joined(m, p.axis, p.n, p.part);
  }
  if (!(m->k->v[v].axes >> axis & 1)) return v;
  if (made[v]) return made[v] - 1;
  struct kern_value x = m->k->v[v];
  for (int k = 0; k < x.nin; k++) x.in[k] = at_index(m, x.in[k], axis, index, made);
  x.at.offset += x.at.stride[axis] * index, x.at.stride[axis] = 0, x.axes &= ~AXIS(axis);
  int out = kern_add(m->k, x);
  return made[v] = out + 1, out;
}

int kern_part_at(struct kern_making *m, int v, int axis, int64_t index) { return at_index(m, v, axis, index, NEWS(m->mem, int, m->k->nvalues + 1)); }

int kern_parted(struct kern_making *m, int v, axis_set axes)
{
  int part[KERN_PARTS];
  EACH_AXIS(a, axes & m->k->v[v].axes) {
    for (int i = 0; i < m->k->extent[a]; i++) part[i] = kern_parted(m, kern_part_at(m, v, a, i), axes & ~AXIS(a));
    return kern_joined(m, a, (int)m->k->extent[a], part);
  }
  return v;
}

int kern_part_map(struct kern_making *m, int op, int x, int y, const struct attrs *a)
{
  bool two = kern_op(op).nin > 1;
  if (x >= 0 && (!two || y >= 0)) return kern_map(m->k, op, a, x, y, m->about);
  struct kern_part p = *parts_of(m, x < 0 ? x : y);
  for (int k = 0; k < p.n; k++) p.part[k] = kern_part_map(m, op, kern_part_at(m, x, p.axis, k), two ? kern_part_at(m, y, p.axis, k) : -1, a);
  return kern_joined(m, p.axis, p.n, p.part);
}

// Combines the parts by the operation of this kind of reduction.
static int all_parts(struct kern_making *m, enum kern_kind kind, const struct kern_part *p)
{
  const enum op op = kern_kinds[kind].flags & KERN_LARGEST ? OP_MAXIMUM : kind == KERN_PROD ? OP_MUL : OP_ADD;
  int all = p->part[0];
  for (int k = 1; k < p->n; k++) all = kern_part_map(m, op, all, p->part[k], NULL);
  return all;
}

int kern_part_fold(struct kern_making *m, enum kern_kind kind, int x, int y, axis_set over)
{
  bool two = kind == KERN_RESCALE;
  struct kern_value v = {.kind = kind, .nin = two ? 2 : 1, .in = {x, y}, .folded = over, .about = m->about};
  if (x >= 0 && (!two || y >= 0)) return kern_add(m->k, v);
  struct kern_part p = *parts_of(m, x < 0 ? x : y);
  const bool whole = !(over >> p.axis & 1);
  if (!whole && !two) { // combines the parts first, so that threads reduce only once
    const int all = all_parts(m, kind, &p);
    return over == AXIS(p.axis) ? all : kern_part_fold(m, kind, all, -1, over & ~AXIS(p.axis));
  }
  for (int k = 0; k < p.n; k++)
    p.part[k] = kern_part_fold(m, kind, kern_part_at(m, x, p.axis, k), two ? kern_part_at(m, y, p.axis, k) : -1, over & ~AXIS(p.axis));
  return whole ? kern_joined(m, p.axis, p.n, p.part) : all_parts(m, kind, &p);
}

bool kern_part_store(struct kern_making *m, int v, struct kern_access at)
{
  struct kern *k = m->k;
  if (v < 0) {
    struct kern_part p = *parts_of(m, v);
    int64_t stride = at.stride[p.axis];
    bool fits = true;
    at.stride[p.axis] = 0;
    for (int i = 0; i < p.n && fits; i++, at.offset += stride) fits = kern_part_store(m, p.part[i], at);
    return fits;
  }
  axis_set axes = kern_strided(k, &at) | k->v[v].axes;
  if (k->nsaves == m->n->nsave + KERN_STORES) return false;
  v = kern_spread(k, v, axes, m->about);
  PUSH(m->mem, k->save, k->nsaves, m->csaves) = (struct kern_save){v, axes, at, m->about};
  return true;
}
