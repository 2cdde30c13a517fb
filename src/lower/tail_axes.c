// The tail over axes: those that number groups are taken out, those that number parts become ranks of blocks, the rest are
// elements of what a block leaves. A buffer that the head saves is counted by digits, which are the letters of the tile and grid
// axes of the head; the tail's axes along it are cut where a digit ends, so that each is a part of one digit.
#include "lower/tail.h"

#include <string.h>

struct digit {
  int64_t stride, extent;
  int grid, letter; // one of them, the other is -1
  int64_t room;     // stride in the room
};
struct digits {
  int n;
  struct digit d[MAX_LETTERS + GRID_AXES];
};
struct tailing {
  struct tail *x;
  struct digits *of; // by saver of the head
  char *why;
};

static bool refuse(struct tailing *t, const char *what) { return snprintf(t->why, 160, "a tail that %s", what), false; }

// ---- digits of what the head saves ----

static void add(struct digits *l, struct digit d)
{
  int i = l->n++;
  for (; i > 0 && l->d[i - 1].stride > d.stride; i--) l->d[i] = l->d[i - 1];
  l->d[i] = d;
}

// Fastest first. In the room what is fastest of a tile lies together, and rows of that begin in different banks.
static bool digits_of(struct tailing *t, int save)
{
  const struct norm *h = t->x->j->n;
  const struct access *a = &h->save[save];
  struct tail_room *room = &t->x->room[save];
  struct digits *l = &t->of[save];
  int64_t size = 1, end = 0;
  bool padded = false;
  for (int i = 0; i < h->block->ngrid; i++) {
    if (h->block->grid[i] == 1) continue;
    if (!a->grid[i]) return refuse(t, "reads what several blocks save");
    add(l, (struct digit){a->grid[i], h->block->grid[i], i, -1, 0});
  }
  for (int i = 0; i < h->nletters; i++)
    if (a->stride[i] && h->extent[i] > 1) add(l, (struct digit){a->stride[i], h->extent[i], -1, i, 0});
  for (int i = 0; i < l->n; i++) {
    if (l->d[i].stride < end) return refuse(t, "reads what overlaps");
    end = l->d[i].stride * l->d[i].extent;
    if (l->d[i].letter < 0) continue;
    if (size >= 16 && !padded) size += (40 - size % 32) % 32, padded = true;
    room->stride[l->d[i].letter] = l->d[i].room = size, size *= l->d[i].extent;
  }
  room->elements = size;
  return true;
}

static int saver_of(const struct tailing *t, const struct kern_value *v)
{
  const struct norm *h = t->x->j->n;
  if (!v->live || v->kind != KERN_LOAD) return -1;
  for (int i = 0; i < h->nsave; i++)
    if (h->save[i].tensor == v->at.tensor) return i;
  return -1;
}

// The digit that an axis of this stride begins in.
static const struct digit *digit_at(const struct digits *l, int64_t stride)
{
  for (int i = 0; i < l->n; i++)
    if (stride >= l->d[i].stride && stride < l->d[i].stride * l->d[i].extent) return &l->d[i];
  return NULL;
}

// ---- cutting axes ----

// `inner` of the axis are left of it; the rest is another axis.
static bool cut(struct tailing *t, int axis, int64_t inner)
{
  struct rows *r = &t->x->r;
  int outer = 0;
  while (outer < KERN_AXES && r->k.extent[outer] > 1) outer++;
  if (outer == KERN_AXES || inner < 2 || r->k.extent[axis] % inner) return refuse(t, "cuts what the head saves in another way");
  r->k.extent[outer] = r->k.extent[axis] / inner, r->k.extent[axis] = inner;
  for (int i = 0; i < r->k.nvalues; i++) {
    struct kern_value *v = &r->k.v[i];
    v->at.stride[outer] = v->at.stride[axis] * inner;
    if (v->axes >> axis & 1) v->axes |= AXIS(outer);
    if (v->folded >> axis & 1) v->folded |= AXIS(outer);
  }
  for (int i = 0; i < r->k.nsaves; i++) {
    r->k.save[i].at.stride[outer] = r->k.save[i].at.stride[axis] * inner;
    if (r->k.save[i].axes >> axis & 1) r->k.save[i].axes |= AXIS(outer);
  }
  return true;
}

// 1: an axis was cut; 0: all lie within digits; -1: refused.
static int cut_one(struct tailing *t)
{
  struct rows *r = &t->x->r;
  for (int i = 0; i < r->k.nvalues; i++) {
    int save = saver_of(t, &r->k.v[i]);
    if (save < 0) continue;
    const struct kern_access *at = &r->k.v[i].at;
    if (at->offset != t->x->j->n->save[save].offset) return refuse(t, "reads a part of what the head saves"), -1;
    for (int a = 0; a < KERN_AXES; a++) {
      if (!at->stride[a] || r->k.extent[a] <= 1) continue;
      const struct digit *d = digit_at(&t->of[save], at->stride[a]);
      if (!d || at->stride[a] % d->stride) return refuse(t, "cuts what the head saves in another way"), -1;
      int64_t end = d->stride * d->extent;
      if (at->stride[a] * r->k.extent[a] <= end) continue;
      if (end % at->stride[a]) return refuse(t, "cuts what the head saves in another way"), -1;
      return cut(t, a, end / at->stride[a]) ? 1 : -1;
    }
  }
  return 0;
}

// ---- what axes are ----

static const struct digit *digit_of(const struct tailing *t, int value, int axis)
{
  const struct kern_value *v = &t->x->r.k.v[value];
  int save = saver_of(t, v);
  return save < 0 || !v->at.stride[axis] || t->x->r.k.extent[axis] <= 1 ? NULL : digit_at(&t->of[save], v->at.stride[axis]);
}

static void find_splits(struct tailing *t)
{
  struct tail *x = t->x;
  const struct graph *b = x->j->n->block;
  for (int i = 0; i < x->r.k.nvalues; i++)
    for (int a = 0; a < KERN_AXES; a++) {
      const struct digit *d = digit_of(t, i, a);
      if (d && d->grid >= 0 && x->r.k.folded >> a & 1) x->split |= 1u << d->grid;
    }
  x->parts = x->groups = 1;
  for (int i = 0; i < b->ngrid; i++) *(x->split >> i & 1 ? &x->parts : &x->groups) *= b->grid[i];
}

static int base_of(struct tail *x, const struct digit *d, int64_t stride, int64_t extent)
{
  struct tail_base want = {d->grid, stride / d->stride, extent};
  for (int i = 0; i < x->nbases; i++)
    if (x->base[i].grid == want.grid && x->base[i].below == want.below && x->base[i].extent == want.extent) return i;
  if (x->nbases == KERN_BASES) return -1;
  x->base[x->nbases] = want;
  return x->nbases++;
}

// The base that the axis is in all that reads the head's results, or -1: it is none; -2: sometimes.
static int base_of_axis(struct tailing *t, int axis)
{
  struct tail *x = t->x;
  int found = -1;
  bool within = false;
  for (int i = 0; i < x->r.k.nvalues; i++) {
    const struct digit *d = digit_of(t, i, axis);
    if (!d) continue;
    if (d->grid < 0 || x->split >> d->grid & 1) {
      within = true;
      continue;
    }
    int b = base_of(x, d, x->r.k.v[i].at.stride[axis], x->r.k.extent[axis]);
    if (b < 0 || (found >= 0 && found != b)) return -2;
    found = b;
  }
  return within && found >= 0 ? -2 : found;
}

// Does what value i loads of the head's results depend on all of the group's number?
static bool of_own_group(struct tailing *t, int i, const int *base)
{
  const struct graph *b = t->x->j->n->block;
  int64_t covered[GRID_AXES];
  for (int g = 0; g < GRID_AXES; g++) covered[g] = 1;
  for (int a = 0; a < KERN_AXES; a++)
    if (base[a] >= 0 && digit_of(t, i, a)) covered[t->x->base[base[a]].grid] *= t->x->r.k.extent[a];
  for (int g = 0; g < b->ngrid; g++)
    if (!(t->x->split >> g & 1) && covered[g] != b->grid[g]) return false;
  return true;
}

static void add_bases(struct kern_access *at, const int *base)
{
  for (int a = 0; a < KERN_AXES; a++)
    if (base[a] >= 0) at->base[base[a]] += at->stride[a];
}

// From a place in the buffer to one in the room of a block.
static void into_room(struct tailing *t, int i, const int *base)
{
  struct tail *x = t->x;
  int save = saver_of(t, &x->r.k.v[i]);
  struct kern_access *at = &x->r.k.v[i].at;
  for (int a = 0; a < KERN_AXES; a++) {
    const struct digit *d = digit_of(t, i, a);
    int64_t weight = 1;
    if (!d || base[a] >= 0) continue;
    for (int g = 0; g < d->grid; g++) weight *= x->split >> g & 1 ? x->j->n->block->grid[g] : 1;
    if (d->grid >= 0)
      at->rank[a] = at->stride[a] / d->stride * weight, at->stride[a] = 0;
    else
      at->stride[a] = at->stride[a] / d->stride * d->room;
  }
  at->offset = 0, at->elements = x->room[save].elements, at->left = true;
  memset(at->base, 0, sizeof at->base);
}

static bool take_bases(struct tailing *t)
{
  struct rows *r = &t->x->r;
  int base[KERN_AXES];
  for (int a = 0; a < KERN_AXES; a++)
    if ((base[a] = r->k.extent[a] > 1 ? base_of_axis(t, a) : -1) < -1) return refuse(t, "joins groups of blocks");
  for (int i = 0; i < r->k.nvalues; i++)
    if (saver_of(t, &r->k.v[i]) >= 0 && !of_own_group(t, i, base)) return refuse(t, "does not tell groups of blocks apart");
  for (int i = 0; i < r->k.nvalues; i++) {
    bool left = saver_of(t, &r->k.v[i]) >= 0;
    add_bases(&r->k.v[i].at, base);
    if (left && t->x->way == TAIL_CLUSTER) into_room(t, i, base);
  }
  for (int i = 0; i < r->k.nsaves; i++) {
    add_bases(&r->k.save[i].at, base);
    for (int k = 0; k < t->x->nbases; k++)
      if (!r->k.save[i].at.base[k]) return refuse(t, "saves the same for several groups of blocks");
  }
  for (int a = 0; a < KERN_AXES; a++)
    if (base[a] >= 0) kern_forget(&r->k, a);
  return true;
}

static void write_head(struct tail *x)
{
  struct arena *mem = x->j->mem;
  x->head = *x->j->n;
  if (x->way != TAIL_CLUSTER) return;
  x->head.save = arena_copy(mem, x->head.save, sizeof *x->head.save * (size_t)(x->head.nsave + 1));
  for (int i = 0; i < x->head.nsave; i++) {
    struct access *a = &x->head.save[i];
    a->offset = 0;
    memset(a->grid, 0, sizeof a->grid);
    memcpy(a->stride, x->room[i].stride, sizeof a->stride);
  }
}

bool tail_make(const struct lower_job *j, enum tail_way way, struct tail *x, char why[160])
{
  struct lower_job tail = *j;
  *x = (struct tail){.j = j, .way = way, .room = NEWS(j->mem, struct tail_room, j->n->nsave + 1)};
  struct tailing t = {x, NEWS(j->mem, struct digits, j->n->nsave + 1), why};
  int more = 1;
  tail.n = j->tail;
  if (rows_values(&tail, &x->r.k, why)) return false;
  x->r.k.naxes = KERN_AXES;
  kern_live(&x->r.k);
  for (int i = 0; i < j->n->nsave; i++)
    if (!digits_of(&t, i)) return false;
  while (more > 0) more = cut_one(&t);
  if (more < 0) return false;
  kern_live(&x->r.k); // also which of the new axes are folded
  find_splits(&t);
  if (x->parts == 1) return refuse(&t, "joins no parts");
  if (way == TAIL_CLUSTER && x->parts > TAIL_LARGEST_CLUSTER) return refuse(&t, "joins more parts than a cluster has blocks");
  if (!take_bases(&t)) return false;
  kern_join_axes(&x->r.k);
  rows_ready(j->mem, &x->r);
  write_head(x);
  return true;
}
