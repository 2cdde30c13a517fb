// Expresses the tail's axes by the head. An element that the head saves has digits: letters of the head's tile and axes of its grid. An axis of the
// tail is cut wherever a digit ends, so that each piece lies within one digit. Pieces that number groups become bases, pieces that number parts
// become cluster ranks, and the others are elements of a room.
#include "lower/tail.h"

#include <string.h>

struct tail_axes_digit {
  int64_t stride, extent;
  int grid, letter; // exactly one of them; the other is -1
  int64_t room;     // stride in the room
};
struct tail_axes_digits {
  int n;
  struct tail_axes_digit d[MAX_LETTERS + GRID_AXES];
};
struct tailing {
  struct tail *x;
  struct tail_axes_digits *of; // for each saver of the head
  char *why;
  int nleft, *left, *save; // left: values that load what the head saves; save: for each value, the saver
};

static bool refuse(struct tailing *t, const char *what) { return snprintf(t->why, 160, "a tail that %s", what), false; }

// ---- digits of the head's results ----

static void add(struct tail_axes_digits *l, struct tail_axes_digit d)
{
  int i = l->n++;
  for (; i > 0 && l->d[i - 1].stride > d.stride; i--) l->d[i] = l->d[i - 1];
  l->d[i] = d;
}

// Sorts digits, fastest first. A room keeps this order. Its rows are padded, so that they begin in different banks.
static bool digits_of(struct tailing *t, int save)
{
  const struct norm *h = t->x->j->n;
  const struct plan_access *a = &h->save[save];
  struct tail_room *room = &t->x->room[save];
  struct tail_axes_digits *l = &t->of[save];
  int64_t size = 1, end = 0;
  bool padded = false;
  for (int i = 0; i < h->block->ngrid; i++) {
    if (h->block->grid[i] == 1) continue;
    if (!a->grid[i]) return refuse(t, "reads what several blocks save");
    add(l, (struct tail_axes_digit){a->grid[i], h->block->grid[i], i, -1, 0});
  }
  for (int i = 0; i < h->nletters; i++)
    if (a->stride[i] && h->extent[i] > 1) add(l, (struct tail_axes_digit){a->stride[i], h->extent[i], -1, i, 0});
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

static void find_left(struct tailing *t)
{
  const struct norm *h = t->x->j->n;
  const struct kern *k = &t->x->r.k;
  t->left = NEWS(t->x->j->mem, int, k->nvalues + 1), t->save = NEWS(t->x->j->mem, int, k->nvalues + 1);
  for (int i = 0; i < k->nvalues; i++)
    for (int s = 0; s < h->nsave && k->v[i].live && k->v[i].kind == KERN_LOAD; s++)
      if (h->save[s].tensor == k->v[i].at.tensor) {
        t->left[t->nleft++] = i, t->save[i] = s;
        break;
      }
}

// The digit that an axis with this stride begins in.
static const struct tail_axes_digit *digit_at(const struct tail_axes_digits *l, int64_t stride)
{
  for (int i = 0; i < l->n; i++)
    if (stride >= l->d[i].stride && stride < l->d[i].stride * l->d[i].extent) return &l->d[i];
  return NULL;
}

// ---- cutting axes ----

// Cuts an axis: `inner` elements stay, and the rest becomes a new axis.
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

// 1: an axis was cut; 0: all axes lie within digits; -1: refused.
static int cut_one(struct tailing *t)
{
  struct kern *k = &t->x->r.k;
  for (int i = 0; i < t->nleft; i++) {
    const struct kern_access *at = &k->v[t->left[i]].at;
    int save = t->save[t->left[i]];
    if (at->offset != t->x->j->n->save[save].offset) return refuse(t, "reads a part of what the head saves"), -1;
    for (int a = 0; a < KERN_AXES; a++) {
      const struct tail_axes_digit *d = digit_at(&t->of[save], at->stride[a]);
      int64_t step = at->stride[a], end = d ? d->stride * d->extent : 0;
      if (!step || k->extent[a] <= 1 || (d && step % d->stride == 0 && step * k->extent[a] <= end)) continue;
      return cut(t, a, !d || step % d->stride || end % step ? 0 : end / step) ? 1 : -1;
    }
  }
  return 0;
}

// ---- the kinds of axes ----

// The digit that an axis of this load of a head's result lies in.
static const struct tail_axes_digit *digit_of(const struct tailing *t, int value, int axis)
{
  int64_t stride = t->x->r.k.v[value].at.stride[axis];
  return !stride || t->x->r.k.extent[axis] <= 1 ? NULL : digit_at(&t->of[t->save[value]], stride);
}

static void find_splits(struct tailing *t)
{
  struct tail *x = t->x;
  const struct graph *b = x->j->n->block;
  for (int i = 0; i < t->nleft; i++)
    for (int a = 0; a < KERN_AXES; a++) {
      const struct tail_axes_digit *d = digit_of(t, t->left[i], a);
      if (d && d->grid >= 0 && x->r.k.folded >> a & 1) x->split |= 1u << d->grid;
    }
  x->parts = x->groups = 1;
  for (int i = 0; i < b->ngrid; i++) *(x->split >> i & 1 ? &x->parts : &x->groups) *= b->grid[i];
}

static int base_of(struct tail *x, const struct tail_axes_digit *d, int64_t stride, int64_t extent)
{
  struct tail_base want = {d->grid, stride / d->stride, extent};
  for (int i = 0; i < x->nbases; i++)
    if (x->base[i].grid == want.grid && x->base[i].below == want.below && x->base[i].extent == want.extent) return i;
  if (x->nbases == KERN_BASES) return -1;
  x->base[x->nbases] = want;
  return x->nbases++;
}

// The base that the axis is in all loads of the head's results. -1: none; -2: a base in some loads only.
static int base_of_axis(struct tailing *t, int axis)
{
  struct tail *x = t->x;
  int found = -1;
  bool within = false;
  for (int i = 0; i < t->nleft; i++) {
    const struct tail_axes_digit *d = digit_of(t, t->left[i], axis);
    bool group = d && d->grid >= 0 && !(x->split >> d->grid & 1);
    int b = group ? base_of(x, d, x->r.k.v[t->left[i]].at.stride[axis], x->r.k.extent[axis]) : -1;
    within |= d && !group;
    if (group && (b < 0 || (found >= 0 && found != b))) return -2;
    if (group) found = b;
  }
  return within && found >= 0 ? -2 : found;
}

// Whether load i depends on the complete number of the group.
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

// Changes an access to the buffer into one to the room of a block.
static void into_room(struct tailing *t, int i, const int *base)
{
  struct tail *x = t->x;
  struct kern_access *at = &x->r.k.v[i].at;
  for (int a = 0; a < KERN_AXES; a++) {
    const struct tail_axes_digit *d = digit_of(t, i, a);
    int64_t weight = 1;
    if (!d || base[a] >= 0) continue;
    for (int g = 0; g < d->grid; g++) weight *= x->split >> g & 1 ? x->j->n->block->grid[g] : 1;
    if (d->grid >= 0)
      at->rank[a] = at->stride[a] / d->stride * weight, at->stride[a] = 0;
    else
      at->stride[a] = at->stride[a] / d->stride * d->room;
  }
  at->offset = 0, at->elements = x->room[t->save[i]].elements, at->left = true;
  memset(at->base, 0, sizeof at->base);
}

static bool take_bases(struct tailing *t)
{
  struct rows *r = &t->x->r;
  int base[KERN_AXES];
  for (int a = 0; a < KERN_AXES; a++)
    if ((base[a] = r->k.extent[a] > 1 ? base_of_axis(t, a) : -1) < -1) return refuse(t, "joins groups of blocks");
  for (int i = 0; i < t->nleft; i++)
    if (!of_own_group(t, t->left[i], base)) return refuse(t, "does not tell groups of blocks apart");
  for (int i = 0; i < r->k.nvalues; i++) add_bases(&r->k.v[i].at, base);
  for (int i = 0; i < t->nleft && t->x->way == TAIL_CLUSTER; i++) into_room(t, t->left[i], base);
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
    struct plan_access *a = &x->head.save[i];
    a->offset = 0;
    memset(a->grid, 0, sizeof a->grid);
    memcpy(a->stride, x->room[i].stride, sizeof a->stride);
  }
}

// Whether the tail loads more elements of other tensors than the head leaves. It would then do another kernel's work with few blocks.
static bool loads_more(const struct tailing *t)
{
  const struct kern *k = &t->x->r.k;
  int64_t parts = 0, own = 0;
  for (int i = 0; i < k->nvalues; i++) {
    int of = 0;
    while (of < t->nleft && t->left[of] != i) of++;
    if (k->v[i].live && kern_loads(&k->v[i])) *(of < t->nleft ? &parts : &own) += kern_extent(k, kern_strided(k, &k->v[i].at));
  }
  return own > parts;
}

bool tail_make(const struct lower_job *j, enum tail_way way, struct tail *x, char why[160])
{
  struct lower_job tail = *j;
  *x = (struct tail){.j = j, .way = way, .room = NEWS(j->mem, struct tail_room, j->n->nsave + 1)};
  struct tailing t = {.x = x, .of = NEWS(j->mem, struct tail_axes_digits, j->n->nsave + 1), .why = why};
  int more = 1;
  tail.n = j->tail;
  if (rows_values(&tail, &x->r.k, why)) return false;
  for (int i = 0; i < x->r.k.nvalues; i++)
    if (x->r.k.v[i].live && kern_scans(&x->r.k.v[i])) return refuse(&t, "scans");
  x->r.k.naxes = KERN_AXES;
  kern_live(&x->r.k), find_left(&t);
  for (int i = 0; i < j->n->nsave; i++)
    if (!digits_of(&t, i)) return false;
  while (more > 0) more = cut_one(&t);
  if (more < 0) return false;
  kern_live(&x->r.k); // also updates which of the new axes are folded
  find_splits(&t);
  if (x->parts == 1) return refuse(&t, "joins no parts");
  if (loads_more(&t)) return refuse(&t, "loads more than the head leaves");
  if (way == TAIL_CLUSTER && x->parts > j->gpu->cluster) return refuse(&t, "joins more parts than a cluster has blocks");
  if (!take_bases(&t)) return false;
  kern_join_axes(&x->r.k);
  rows_ready(j, &x->r);
  write_head(x);
  return true;
}
