// Bulk copies of tensor boxes by TMA, each issued by one thread. Elements outside of the tensor are loaded as zeros, and not
// stored. The copy is a separate agent. A load completes with the mbarrier's phase, a store with its group.
#include "sim/machine.h"

enum { PIECE = 16, ALIGNED = 128 };

struct tma_box {
  struct warp *w;
  const struct sim_atom *a;
  const struct tile_map *map;
  struct cta *there;        // target block of a multicast load, or NULL
  int lane, global, shared; // issuing lane; numbers of the operands
  int64_t coord[TILE_DIMS], size[TILE_DIMS], stride[TILE_DIMS], at, n;
};

static int64_t coordinate(const struct walk *it, const struct sim_operand *op, int d, int lane)
{
  int64_t c = code_eval(it->w, op->coord[d])->v[lane];
  for (int m = 0; m < it->a->t->nmodes; m++) c += it->mode[m] * code_eval(it->w, op->coord_stride[d][m])->v[lane];
  return c;
}

static bool box_begin(const struct walk *it, int lane, bool load, struct tma_box *b)
{
  struct warp *w = it->w;
  const struct sim_atom *a = it->a;
  *b = (struct tma_box){.w = w, .a = a, .lane = lane, .global = load, .shared = !load, .n = 1};
  struct sim_place p;
  int map = a->op[b->global].t->map;
  b->map = &w->s->k->maps[map];
  for (int d = 0; d < b->map->rank; d++) {
    b->coord[d] = coordinate(it, &a->op[b->global], d, lane);
    b->size[d] = code_eval(w, w->s->maps[map].size[d])->v[lane];
    b->stride[d] = code_eval(w, w->s->maps[map].stride[d])->v[lane];
    b->n *= b->map->box[d];
    if (d && b->stride[d] * a->op[b->global].bytes % PIECE) {
      report(w, a, SIM_ALIGN, lane, "copies along a stride of %lld elements, which is not a multiple of 16 bytes as TMA needs it",
             (long long)b->stride[d]);
      return false;
    }
  }
  if ((uintptr_t)w->s->gl[a->op[b->global].buf].data % PIECE) {
    report(w, a, SIM_ALIGN, lane, "copies %%%s, which does not begin at a multiple of 16 bytes as TMA needs it", a->op[b->global].buffer->name);
    return false;
  }
  walk_place(it, b->shared, &p);
  b->at = p.at[lane];
  int64_t byte = w->s->sh[a->op[b->shared].buf].offset + b->at * a->op[b->shared].bytes;
  if (byte % ALIGNED) report(w, a, SIM_ALIGN, lane, "copies a box at byte %lld of shared memory, which is not a multiple of 128", (long long)byte);
  return byte % ALIGNED == 0;
}

// Index in the tensor of element i of the box; -1 if it is outside.
static int64_t global_element(const struct tma_box *b, int64_t i)
{
  int64_t at = 0;
  for (int d = 0; d < b->map->rank; d++) {
    int64_t c = b->coord[d] + i % b->map->box[d];
    i /= b->map->box[d];
    if (c < 0 || c >= b->size[d]) return -1;
    at += c * b->stride[d];
  }
  return at;
}

// The access to elements i .. i + n - 1 of the box, at most a warp's worth, in operand `o`.
static void pieces(const struct tma_box *b, int o, int64_t i, int n, int per, bool write, int agent, uint32_t clock, struct access *x)
{
  struct sim_place p = {.mask = 0};
  bool global = o == b->global;
  for (int j = 0; j < LANES; j++) {
    int64_t e = i + (int64_t)j * per;
    p.at[j] = j >= n ? 0 : global ? global_element(b, e) : b->at + e;
    if (j < n && p.at[j] >= 0) p.mask |= 1u << j;
  }
  access_init(x, b->w, b->a, o, per * b->a->op[o].bytes), access_elements(x, &p);
  if (!global) x->there = b->there;
  x->write = write, x->async = true, x->one = b->lane, x->agent = agent, x->clock = clock;
  x->atomic = write && b->a->t->row->sem == SEM_TMA_RED;
  if (!x->mask || !access_reach(x)) return;
  if (!global)
    shadow_shared(x);
  else
    shadow_global(x);
}

static void load_box(const struct tma_box *b, int agent, uint32_t clock)
{
  size_t bytes = (size_t)b->a->op[0].bytes;
  int per = (int)(PIECE / bytes);
  struct access to, from;
  for (int64_t i = 0; i < b->n; i += (int64_t)LANES * per) {
    int n = (int)MIN(LANES, (b->n - i) / per);
    pieces(b, b->shared, i, n, per, true, agent, clock, &to);
    for (int64_t j = i; j < i + n * per; j += LANES) {
      pieces(b, b->global, j, (int)MIN(LANES, i + n * per - j), 1, false, agent, clock, &from);
      for (int64_t e = j; e < MIN(j + LANES, i + n * per); e++) {
        int piece = (int)(e - i) / per, l = (int)(e - j);
        if (!(to.mask >> piece & 1)) continue;
        uint8_t *p = access_data(&to, piece) + (size_t)((e - i) % per) * bytes;
        if (from.mask >> l & 1)
          memcpy(p, access_data(&from, l), bytes);
        else
          memset(p, 0, bytes);
      }
    }
  }
}

static void load_one(const struct walk *it, int lane, struct cta *there)
{
  struct warp *w = it->w;
  const struct sim_atom *a = it->a;
  struct tma_box b;
  struct mbar *bar = mbar_find(w, a, 2, lane, there);
  if (!bar || !box_begin(it, lane, true, &b)) return;
  b.there = there;
  if (!bar->fenced)
    report(w, a, SIM_FENCE, lane, "uses %%%s, and no Sync<fence.mbar> shows its initialization to the async proxy", a->op[2].buffer->name);
  load_box(&b, bar->copies, bar->clock);
  int64_t bytes = b.n * a->op[0].bytes;
  w->s->r->counts.bulk_bytes[0] += bytes, w->s->r->counts.elements += b.n;
  mbar_copied(w, bar, bytes);
}

enum go sem_tma_load(struct warp *w, const struct sim_atom *a)
{
  for (struct walk it = walk_begin(w, a); !it.done; walk_next(&it))
    for (uint32_t m = w->active; m; m &= m - 1) load_one(&it, __builtin_ctz(m), NULL);
  return GO_ON;
}

// A multicast: loads the box for each target block. The hardware reads it once, so it is counted once.
static void load_many(const struct walk *it, int lane, int64_t mask)
{
  struct sim *s = it->w->s;
  int64_t *bytes = &s->r->counts.bulk_bytes[0], before = *bytes, once = before;
  for (int rank = 0; rank < s->cluster; rank++) {
    if (!(mask >> rank & 1)) continue;
    load_one(it, lane, &s->ctas[rank]);
    if (once == before) once = *bytes;
  }
  *bytes = once;
}

enum go sem_tma_multicast(struct warp *w, const struct sim_atom *a)
{
  const struct vec *mask = code_eval(w, a->arg);
  for (struct walk it = walk_begin(w, a); !it.done; walk_next(&it))
    for (uint32_t m = w->active; m; m &= m - 1) load_many(&it, __builtin_ctz(m), mask->v[__builtin_ctz(m)]);
  return GO_ON;
}

static void store_element(const struct tma_box *b, const struct access *to, int l, const uint8_t *from)
{
  const struct sim_operand *op = &b->a->op[0];
  uint8_t x[LANES * 8] = {0}, y[LANES * 8] = {0}, z[LANES * 8];
  uint8_t *p = access_data(to, l);
  if (!to->atomic) {
    memcpy(p, from, (size_t)op->bytes);
    return;
  }
  memcpy(x, p, (size_t)op->bytes), memcpy(y, from, (size_t)op->bytes);
  point_binary(BI_ADD, op->type, x, y, z);
  memcpy(p, z, (size_t)op->bytes);
}

static void store_box(const struct tma_box *b)
{
  struct warp *w = b->w;
  size_t bytes = (size_t)b->a->op[0].bytes;
  int per = (int)(PIECE / bytes);
  struct access to, from;
  for (int64_t i = 0; i < b->n; i += (int64_t)LANES * per) {
    int n = (int)MIN(LANES, (b->n - i) / per);
    pieces(b, b->shared, i, n, per, false, w->bulk.agent, w->bulk.clock, &from);
    for (int64_t j = i; j < i + n * per; j += LANES) {
      pieces(b, b->global, j, (int)MIN(LANES, i + n * per - j), 1, true, w->bulk.agent, w->bulk.clock, &to);
      for (int64_t e = j; e < MIN(j + LANES, i + n * per); e++) {
        int piece = (int)(e - i) / per, l = (int)(e - j);
        if (from.mask >> piece & 1 && to.mask >> l & 1) store_element(b, &to, l, access_data(&from, piece) + (size_t)((e - i) % per) * bytes);
      }
    }
  }
}

enum go sem_tma_store(struct warp *w, const struct sim_atom *a)
{
  sync_open(w, &w->bulk);
  for (struct walk it = walk_begin(w, a); !it.done; walk_next(&it))
    for (uint32_t m = w->active; m; m &= m - 1) {
      struct tma_box b;
      if (!box_begin(&it, __builtin_ctz(m), false, &b)) continue;
      store_box(&b);
      w->s->r->counts.bulk_bytes[1] += b.n * a->op[0].bytes, w->s->r->counts.elements += b.n;
    }
  return GO_ON;
}
