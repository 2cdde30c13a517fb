// One memory access of a warp's lanes: addresses, alignment, bounds, then the shadow (shadow.c) and the counts.
#include "sim/machine.h"

#define EACH for (int l = 0; l < LANES; l++)

void access_init(struct access *x, struct warp *w, const struct sim_atom *a, int o, int bytes)
{
  x->w = w, x->a = a, x->op = &a->op[o];
  x->write = x->atomic = x->async = x->whole = x->near = false;
  x->bytes = bytes;
  x->mask = w->active, x->one = -1, x->there = NULL;
  x->agent = w->agent, x->clock = w->clock;
}

static uint64_t swizzled(struct swizzle s, uint64_t x)
{
  uint64_t mask = ((UINT64_C(1) << s.bits) - 1) << (s.base + MAX(0, s.shift));
  return s.shift >= 0 ? x ^ (x & mask) >> s.shift : x ^ (x & mask) << -s.shift;
}

void access_elements(struct access *x, const struct sim_place *p)
{
  struct swizzle s = x->op->buffer->swizzle;
  int64_t bytes = x->op->bytes, apart = 0;
  x->mask = p->mask;
  EACH x->at[l] = p->at[l] * bytes;
  if (s.bits) EACH if (p->at[l] > 0) x->at[l] = (int64_t)swizzled(s, (uint64_t)p->at[l]) * bytes;
  EACH apart |= x->at[l] ^ (x->at[0] + l * (int64_t)x->bytes);
  x->row = !apart && x->mask == FULL;
}

// Notes that threads move data between blocks. Arrivals by mbar.leave do not order their reads there; shadow.c checks their writes.
static void exchange(struct access *x)
{
  struct sim *s = x->w->s;
  if (x->there || x->op->buffer->type == TT_MBAR) return;
  if (x->write && !x->atomic) {
    s->sent[x->agent] = EPOCH(x->clock, WHOLE);
    return;
  }
  s->fetches = true;
  if (s->leaves)
    report(x->w, x->a, SIM_RACE, __builtin_ctz(x->mask | 1u << (LANES - 1)),
           "moves data between blocks whose arrivals by mbar.leave order no writes");
}

// Whether the warp has waited, or follows one that has, at a barrier of the cluster. Then all its blocks have begun.
static bool all_begun(const struct warp *w)
{
  const struct sim *s = w->s;
  return w->known.all[s->begun] > s->start || (w->some_lanes && w->some.all[s->begun] > s->start);
}

static void homes(struct access *x)
{
  struct sim *s = x->w->s;
  x->near = x->op->peer < 0 && !x->there;
  if (x->near) return;
  exchange(x);
  const struct vec *peer = x->there ? NULL : code_eval(x->w, x->op->peer);
  EACH
  {
    x->home[l] = x->w->cta;
    if (!(x->mask >> l & 1)) continue;
    int64_t rank = x->there ? x->there->rank : peer->v[l];
    bool there = rank >= 0 && rank < s->cluster;
    if (there) x->home[l] = &s->ctas[rank];
    if (there && x->home[l] != x->w->cta && !all_begun(x->w))
      report(x->w, x->a, SIM_BEGIN, access_lane(x, l),
             "uses shared memory of block %lld of the cluster, which may not have begun: no barrier of the cluster has been waited for",
             (long long)rank);
    if (there && x->home[l]->left) continue;
    report(x->w, x->a, SIM_BOUNDS, access_lane(x, l),
           there ? "uses shared memory of block %lld of the cluster, which has ended" : "uses shared memory of block %lld of a cluster of %d",
           (long long)rank, s->cluster);
    x->mask &= ~(1u << l);
  }
}

static const char *verb(const struct access *x) { return x->write ? "writes" : "reads"; }

static void bounds(struct access *x, int64_t size)
{
  uint32_t bad = 0;
  if (x->row && x->at[0] >= 0 && x->at[LANES - 1] + x->bytes <= size) return;
  EACH bad |= (uint32_t)(x->at[l] < 0 || x->at[l] + x->bytes > size) << l;
  for (bad &= x->mask; bad; bad &= bad - 1) {
    int l = __builtin_ctz(bad);
    report(x->w, x->a, SIM_BOUNDS, access_lane(x, l), "%s element %lld of %%%s, which has %lld%s", verb(x), (long long)(x->at[l] / x->op->bytes),
           x->op->buffer->name, (long long)(size / x->op->bytes), size == x->op->bytes ? " element" : " elements");
    x->mask &= ~(1u << l);
  }
}

static void aligned(struct access *x, int64_t base)
{
  int64_t by = MIN(x->bytes, 16) - 1, low = 0;
  if (by & (by + 1)) by = x->op->bytes - 1;
  EACH low |= x->at[l];
  if (!((low | base) & by)) return;
  EACH
  {
    if (!(x->mask >> l & 1) || !((base + x->at[l]) & by)) continue;
    report(x->w, x->a, SIM_ALIGN, access_lane(x, l), "%s %d bytes at byte %lld of %%%s, which is not a multiple of %lld", verb(x), x->bytes,
           (long long)x->at[l], x->op->buffer->name, (long long)by + 1);
    x->mask &= ~(1u << l);
  }
}

bool access_reach(struct access *x)
{
  const struct sim *s = x->w->s;
  bool global = x->op->mem == MEM_GL;
  if (!x->mask) return false;
  if (!global) homes(x);
  aligned(x, global ? (int64_t)((uintptr_t)s->gl[x->op->buf].data & 255) : s->sh[x->op->buf].offset);
  bounds(x, global ? s->gl[x->op->buf].bytes : s->sh[x->op->buf].bytes);
  return x->mask;
}

void access_check(struct access *x)
{
  if (!access_reach(x)) return;
  if (x->op->mem == MEM_GL)
    shadow_global(x);
  else
    shadow_shared(x);
  count_access(x);
}
