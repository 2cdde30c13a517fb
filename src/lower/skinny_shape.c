// The plan for given knobs: widths of vectors, steps, items, shared memory, registers.
#include "lower/count.h"
#include "lower/skinny.h"

// Whether the access has an address along these spaces, in vectors of `unit` along the second one (NULL: no vectors).
static bool lies(const struct sk_plan *p, const struct kern_access *a, const struct lower_space *other, const struct lower_space *along, int unit)
{
  const struct sk_coord at[] = {{other, NULL, false}, {along, NULL, true}};
  return sk_address(p, a, along ? unit : 1, along ? 2 : 1, at, NULL);
}

static bool take_columns(const struct sk_plan *p, const struct sk_product *x, const struct sk_shape *s, struct sk_take *t)
{
  const struct kern_access *a = &p->kern.v[x->w].at;
  for (t->vector = 8; t->vector >= 2; t->vector /= 2)
    if (t->width % (8 * t->vector) == 0 && (x->wide || x->cols.size % t->vector == 0) && lies(p, a, &p->k, &x->cols, t->vector)) break;
  t->along = t->vector < 2 && lies(p, a, &x->cols, &p->k, s->kv);
  t->single = t->vector < 2 && !t->along;
  t->anywhere = t->single && t->width % (8 * SK_PIECE) == 0 && a->elements >= SK_PIECE && x->cols.size >= SK_PIECE && lies(p, a, &p->k, &x->cols, 1);
  t->single &= !t->anywhere;
  t->vector = t->single ? 2 : t->anywhere ? SK_PIECE : t->vector; // along k it is 1
  t->unit = t->along ? s->kv : t->single || t->anywhere ? 1 : t->vector;
  t->chunks = t->width / (t->along ? 16 : 8 * t->vector);
  if (t->along && s->ragged) return false;
  return t->vector > 2 || (t->width % 16 == 0 && (!t->single || lies(p, a, &p->k, &x->cols, 1)));
}

static bool take_products(const struct sk_plan *p, struct sk_shape *s)
{
  for (int i = 0; i < p->nproducts; i++) {
    const struct sk_product *x = &p->product[i];
    enum dtype t = p->kern.v[x->w].at.type;
    if (num_rows[t].bits != 16) return false;
    if (!x->wide && x->cols.size > 64) return false;
    s->take[i].width = x->wide ? s->cols : (int)(x->cols.size + 15) / 16 * 16;
    if (!take_columns(p, x, s, &s->take[i])) return false;
  }
  return true;
}

// Loads in the loop: vectors along k, or invariant in k.
static bool loads_of_loop(const struct sk_plan *p, const struct sk_shape *s)
{
  for (int i = 0; i < p->kern.nvalues; i++) {
    const struct kern_value *v = &p->kern.v[i];
    if (v->kind != KERN_LOAD || !(p->role[i].reached >> SK_LOOP & 1)) continue;
    if (!lies(p, &v->at, &p->rows, v->axes & space_axes(&p->k) ? &p->k : NULL, s->unit)) return false;
  }
  return true;
}

static bool items_lie(const struct sk_plan *p, int item)
{
  axis_set cols = space_axes(&p->cols);
  for (int i = 0; i < p->kern.nsaves; i++)
    if (!lies(p, &p->kern.save[i].at, &p->rows, p->kern.v[p->kern.save[i].value].axes & cols ? &p->cols : NULL, item)) return false;
  for (int i = 0; i < p->kern.nvalues; i++) {
    bool second = p->role[i].second;
    if (!(p->role[i].reached >> SK_WIDE & 1) || (p->kern.v[i].kind != KERN_LOAD && !second)) continue;
    const struct lower_space *other = second ? &p->second[p->role[i].number].cols : &p->rows;
    if (!lies(p, sk_access(p, i), other, second || p->kern.v[i].axes & cols ? &p->cols : NULL, item)) return false;
  }
  return true;
}

static bool items_of_seconds(const struct sk_plan *p)
{
  for (int i = 0; i < p->kern.nvalues; i++)
    for (int k = 0; k < p->nseconds; k++) {
      if (!(p->role[i].reached >> (SK_INNER + k) & 1)) continue;
      if (p->role[i].second) return false; // a third product
      if (p->kern.v[i].kind == KERN_LOAD && !lies(p, &p->kern.v[i].at, &p->rows, &p->second[k].cols, 1)) return false;
    }
  return true;
}

static bool items(const struct sk_plan *p, struct sk_shape *s)
{
  for (s->item = 4; s->item > 1; s->item /= 2)
    if (s->cols % s->item == 0 && p->cols.size % s->item == 0 && p->rows.size * s->cols / s->item >= s->threads / 2 && items_lie(p, s->item)) break;
  s->items = p->rows.size * s->cols / s->item;
  s->share = (s->items + s->split - 1) / s->split;
  s->early = s->share <= s->threads;
  s->by_columns = p->nseconds && s->split > 1 && s->cols / s->item % s->split == 0;
  return items_lie(p, s->item) && items_of_seconds(p);
}

int sk_staged(const struct sk_plan *p, const struct sk_shape *s, int value)
{
  const struct kern_access *a = sk_access(p, value);
  int own = s->by_columns ? s->cols / s->split : s->cols;
  if (dtype_bytes(a->type) != 2 || s->clipped || own % 8 || p->second[p->role[value].number].cols.size * own > 16384) return 0;
  return lies(p, a, &p->second[p->role[value].number].cols, &p->cols, 8) ? own : 0;
}

// Bytes that the threads of a block load in a round.
int64_t sk_round_bytes(const struct sk_plan *p, const struct sk_shape *s)
{
  int64_t bytes = 0;
  for (int i = 0; i < p->nproducts; i++) bytes += 2 * s->take[i].width * s->kv * 4 * s->warps;
  for (int i = 0; i < p->kern.nvalues; i++)
    if (sk_streams(p, i)) bytes += (p->kern.v[i].axes & space_axes(&p->rows) ? s->tiles : 1) * s->kv * dtype_bytes(p->kern.v[i].at.type) * s->threads;
  return bytes;
}

static void room(const struct sk_plan *p, struct sk_shape *s)
{
  int64_t rows = p->rows.size, in = 0;                 // bytes that other blocks of the cluster write
  int thirds = s->depth == 1 ? 4 : 3 * (s->depth + 1); // thirds of stages in registers: the next loads are issued before the fragments are made
  s->registers = 40;
  for (int i = 0; i < p->nproducts; i++) {
    const struct sk_take *t = &s->take[i];
    s->shared += 4 * rows * s->warps * (t->width + 4);
    if (s->split > 1) in += 4 * rows * s->split * (t->width + p->nstats * !i);
    s->registers += t->width / 4 * s->tiles + thirds * t->width * s->kv / 48 * (t->anywhere ? 2 : 1);
  }
  s->shared += 4 * rows * p->nstats * s->warps;
  for (int i = 0; i < p->kern.nvalues; i++)
    if (p->kern.v[i].kind == KERN_LOAD && p->role[i].reached >> SK_LOOP & 1)
      s->registers += thirds * (p->kern.v[i].axes & space_axes(&p->rows) ? s->tiles : 1) * s->kv *
                      MAX((int)dtype_bytes(p->kern.v[i].at.type), s->unit == 1 ? 4 : 0) / 12; // a register for each load
  s->shared += in;
  for (int i = 0; i < p->nseconds; i++) s->shared += 4 * rows * p->second[i].cols.size;
  for (int i = 0; i < p->kern.nvalues; i++)
    if (p->role[i].second) s->shared += 2 * p->second[p->role[i].number].cols.size * sk_staged(p, s, i);
  s->registers += p->nstats * s->tiles;
}

// Blocks of a cluster may share a multiprocessor while others have none. So a block asks for more than half of the shared memory, if there are enough
// multiprocessors for all blocks. The model has no term for it, but climbs try it. On an H200 a product of 16 x 3667 x 2443 took 13.0 us, and 18.0 without
// it. False: it would change nothing. The estimate of registers is too high to tell.
static bool stand_alone(const struct sk_plan *p, struct sk_shape *s)
{
  const struct target *gpu = p->j->gpu;
  const double blocks = (double)(MAX(p->blocks.size, 1) * s->subs * s->split);
  if (s->split == 1 || 2 * (s->shared + 1024) > gpu->shared_processor || blocks > kernel_reach(gpu, s->split)) return false;
  s->unused = (gpu->shared_processor / 2 - s->shared) / 16 * 16 + 16;
  s->shared += s->unused;
  return true;
}

bool sk_shape_make(const struct sk_plan *p, const struct knobs *k, struct sk_shape *s)
{
  const struct target *gpu = p->j->gpu;
  *s = (struct sk_shape){
      .warps = k->v[KNOB_WARPS], .cols = k->v[KNOB_COLS], .depth = k->v[KNOB_DEPTH], .split = k->v[KNOB_SPLIT], .ahead = k->v[KNOB_AHEAD]};
  if (s->warps < 1 || s->warps > 32 || s->cols < 1 || s->depth < 1 || s->split < 1 || s->split > 8) return false;
  if (s->split > gpu->cluster) return false;
  s->threads = 32 * s->warps, s->tiles = (int)(p->rows.size + 7) / 8;
  s->ragged = p->k.size % 16, s->kv = s->ragged || p->k.size % 32 == 0 ? 8 : 4;
  for (s->unit = s->kv; p->k.size % s->unit;) s->unit /= 2;
  s->steps = (p->k.size + 4 * s->kv - 1) / (4 * s->kv), s->subs = (p->cols.size + s->cols - 1) / s->cols, s->clipped = p->cols.size % s->cols;
  int64_t turn = (int64_t)s->warps * s->split;
  s->rounds = (s->steps + turn - 1) / turn;
  if (s->steps < turn || s->depth > 64 || s->ahead < 0 || s->ahead > MIN(16, s->rounds) || (s->depth > 1 && s->rounds < 2 * s->depth))
    return false; // the loop would have one round
  if (!take_products(p, s) || !loads_of_loop(p, s) || !items(p, s)) return false;
  room(p, s);
  if (k->v[KNOB_ALONE] && (k->v[KNOB_ALONE] != 1 || !stand_alone(p, s))) return false;
  return s->shared <= gpu->scratch && s->registers <= 265 && (int64_t)MIN(s->registers, 255) * s->threads <= gpu->registers;
}
