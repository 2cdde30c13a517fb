// Knobs -> the place of every element (rows.h). Adjacent lanes get the axis along which memory is contiguous, then a folded axis, then rows that
// share a block. Registers get the rest of folded axes, as far as they fit, and rounds get what is left. The number of threads of an axis is a power
// of two, so that the lanes of a fold are a power of two apart.
#include "lower/rows.h"

enum { MOST_REGS = 224, CLUSTER_BLOCKS = 16 };

bool row_overhangs(const struct row_plan *p, int a)
{
  return (p->anywhere && a == p->role.across) || p->chunks[a] * p->regs[a] * row_threads(p, a) * row_vec(p, a) > p->r->k.extent[a];
}

int row_width(const struct row_plan *p, const struct kern_access *a)
{
  if (a->index) return 1;
  int most = MIN(p->vec, 16 / dtype_bytes(a->type));
  if (p->anywhere && a->stride[p->role.across]) return row_way(p, a) == ROW_SINGLE ? 1 : most;
  int w = plan_chunk(p->r->k.naxes, p->r->k.extent, a->stride, p->role.across, a->offset, a->elements, most);
  for (int i = 0; i < KERN_BASES; i++)
    while (a->base[i] % w) w /= 2;
  for (int i = 0; i < KERN_CHOSEN_BY; i++)
    while (a->by[i].stride % w) w /= 2;
  return w;
}

int row_regs(const struct row_plan *p, axis_set axes)
{
  int n = 1;
  EACH_AXIS(i, axes) n = MIN(n * p->regs[i] * row_vec(p, i), 1 << 20);
  return n;
}

static int64_t pieces(int64_t n, int64_t by) { return (n + by - 1) / by; }

// Registers and chunks of one axis. A folded axis has as many registers as it needs, or at most `regs` if that is not 0.
static void cut(struct row_plan *p, int a, int regs)
{
  int64_t rest = pieces(p->r->k.extent[a] + (p->moved && a == p->role.across ? p->vec - 1 : 0), (int64_t)row_vec(p, a) * row_threads(p, a));
  int64_t n = regs ? MIN(regs, rest) : p->r->k.folded >> a & 1 ? MIN(rest, 1 << 16) : 1;
  p->regs[a] = (int)n, p->chunks[a] = pieces(rest, n);
}

// Distributes threads over the axes of the knobs in their order: lanes first, until there are 32, then warps.
static bool threads(struct row_plan *p, const struct knobs *k)
{
  const struct {
    int axis, n;
  } want[3] = {{p->role.across, k->v[KNOB_ACROSS]}, {p->role.down, k->v[KNOB_DOWN]}, {p->role.join, k->v[KNOB_JOIN]}};
  int lanes = 1;
  p->threads = 1;
  for (int i = 0; i < 3; i++) {
    int n = MAX(want[i].n, 1);
    if (n & (n - 1) || (want[i].axis < 0 && n > 1)) return false;
    if (want[i].axis < 0) continue;
    p->lanes[want[i].axis] = MIN(n, ROW_LANES / lanes);
    p->warps[want[i].axis] = n / p->lanes[want[i].axis];
    lanes *= p->lanes[want[i].axis], p->threads *= n;
  }
  return p->threads <= TILE_THREADS;
}

// The blocks of a cluster share a folded axis, and each has a part of it. A fold over that axis must not be in a loop.
static bool shares(struct row_plan *p, const struct knobs *k)
{
  const int n = MAX(MAX(k->v[KNOB_CLUSTER], k->v[KNOB_STACK]), 1);
  p->share = k->v[KNOB_CLUSTER] > 1 ? p->role.across : p->role.down, p->cluster = n;
  if (k->v[KNOB_CLUSTER] < 0 || k->v[KNOB_STACK] < 0 || (k->v[KNOB_CLUSTER] > 1 && k->v[KNOB_STACK] > 1)) return false;
  if (n == 1) return p->share = -1, true;
  if (n & (n - 1) || n > CLUSTER_BLOCKS || p->share < 0 || !(p->r->k.folded >> p->share & 1)) return false;
  p->blocks = n;
  return pieces(p->r->k.extent[p->share], (int64_t)row_vec(p, p->share) * row_own(p, p->share)) >= n;
}

static bool shares_outside(const struct row_plan *p)
{
  bool any = p->cluster == 1;
  for (int i = 0; i < p->r->k.nvalues; i++) {
    const struct kern_value *v = &p->r->k.v[i];
    if (!v->live || p->cluster == 1 || !(v->folded >> p->share & 1)) continue;
    if (v->axes & p->rounds) return false;
    any = true;
  }
  return any;
}

// Counts the passes over rounds. A fold of a varying value over rounds must not depend on other rounds.
static bool passes(struct row_plan *p)
{
  const struct rows *r = p->r;
  for (int i = 0; i < r->k.nvalues; i++) {
    const struct kern_value *v = &r->k.v[i];
    if (!v->live) continue;
    for (int k = 0; k < v->nin; k++) p->pass[i] = MAX(p->pass[i], p->pass[v->in[k]]);
    if (!(v->folded & p->rounds)) continue;
    if (kern_scans(v) ? p->rounds & (p->rounds - 1) : v->axes & p->rounds) return false; // a scan may only have the rounds of its own axis, in order
    p->pass[i] += !kern_tops(v) && !kern_scans(v);                                       // selections and scans need no pass of their own
  }
  for (int i = 0; i < r->k.nsaves; i++) p->passes = MAX(p->passes, p->pass[r->k.save[i].value] + 1);
  return true;
}

// Registers of a value. topk has a key of two registers for each element, and three keys for each result.
static int held(const struct row_plan *p, int value)
{
  enum { KEY = 2, RESULTS = 3 };
  const struct kern_value *v = &p->r->k.v[value];
  if (kern_tops(v) && v->live && row_top_first(&p->r->k, value) != value) return 0;
  return kern_tops(v) ? KEY * (row_regs(p, v->axes | v->folded) + RESULTS * row_regs(p, v->axes)) : row_regs(p, v->axes);
}

static bool fits(struct row_plan *p)
{
  int64_t grid = 1;
  for (int i = 0; i < p->r->k.nvalues; i++) p->held[i] = held(p, i);
  for (int i = 0; i < p->r->k.naxes; i++)
    if (!(p->r->k.folded >> i & 1) && (grid *= p->chunks[i]) > INT32_MAX) return false;
  for (int i = 0; i < p->r->k.nvalues; i++)
    if (p->r->k.v[i].live && p->held[i] > MOST_REGS) return false;
  return true;
}

// Bytes of shared memory of all folds over warps, each with its own memory.
static int64_t shared(const struct row_plan *p)
{
  int64_t sum = 0;
  for (int i = 0; i < p->r->k.nvalues; i++) {
    const struct kern_value *v = &p->r->k.v[i];
    int64_t n = p->threads * 4, warps = 1, kept = (kern_tops(v) ? 4 : 1) * row_regs(p, row_result(v)); // topk has 64-bit keys, in two buffers
    if (!v->live || !v->folded || (kern_tops(v) && row_top_first(&p->r->k, i) != i)) continue;
    EACH_AXIS(a, v->folded) n /= p->lanes[a], warps *= p->warps[a];
    if (warps > 1) sum += n * kept + 16;
    if (p->share >= 0 && v->folded >> p->share & 1) sum += n / warps * p->cluster * kept + 16;
  }
  return sum;
}

// Data that other blocks read too are probably in a cache. They may be loaded at their use, after a fold, so that they do not occupy registers
// before.
static bool may_be_late(const struct row_plan *p, int load)
{
  const struct rows *r = p->r;
  bool read = false;
  if (r->woven[load].n) return false; // the other loads of its run may not be late
  if (!r->k.v[load].live || r->k.v[load].kind != KERN_LOAD) return false;
  if (r->k.v[load].axes & row_apart(p)) return false;
  for (int i = 0; i < r->k.nvalues; i++)
    for (int k = 0; r->k.v[i].live && k < r->k.v[i].nin; k++) {
      if (r->k.v[i].in[k] != load) continue;
      if (r->life[i].stage - kern_folds(&r->k.v[i]) <= 0) return false;
      read = true;
    }
  return read;
}

static bool late(struct arena *mem, struct row_plan *p)
{
  bool any = false;
  p->late = NEWS(mem, bool, p->r->k.nvalues + 1);
  for (int i = 0; i < p->r->k.nvalues; i++) any |= p->late[i] = may_be_late(p, i);
  return any;
}

bool rows_before(struct row_plan *p, int ahead, int hold)
{
  int64_t most = 1;
  EACH_AXIS(a, p->rounds) most = MAX(most, p->chunks[a]);
  p->ahead = ahead, p->hold = hold;
  return ahead >= 0 && ahead <= most && hold >= 0 && hold <= 1;
}

bool rows_plan(struct arena *mem, const struct rows *r, const struct knobs *k, struct row_plan *p)
{
  *p = (struct row_plan){.r = r, .role = r->role, .vec = MAX(k->v[KNOB_VEC], 1), .stream = k->v[KNOB_STREAM], .blocks = 1, .share = -1, .cluster = 1};
  p->pass = NEWS(mem, int, r->k.nvalues + 1), p->held = NEWS(mem, int, r->k.nvalues + 1);
  for (int i = 0; i < r->k.naxes; i++) p->regs[i] = p->lanes[i] = p->warps[i] = 1, p->chunks[i] = 1;
  if (p->vec & (p->vec - 1) || p->vec > 16 || (p->role.across < 0 && p->vec > 1)) return false;
  if (p->role.across >= 0 && r->k.extent[p->role.across] % p->vec && !(r->alone && rows_anywhere(p))) return false;
  if (!threads(p, k) || !shares(p, k)) return false;
  for (int i = 0; i < r->k.naxes; i++) {
    cut(p, i, i == p->role.across ? k->v[KNOB_REGS] : i == p->role.down ? k->v[KNOB_DEEP] : 0);
    if (p->chunks[i] > 1) *(r->k.folded >> i & 1 ? &p->rounds : &p->grid) |= AXIS(i);
    if (p->grid >> i & 1) p->blocks *= p->chunks[i];
  }
  if (!rows_before(p, k->v[KNOB_AHEAD], k->v[KNOB_HOLD])) return false;
  return (p->threads >= ROW_LANES || p->role.across < 0) && fits(p) && shared(p) <= 48 << 10 && passes(p) && shares_outside(p) &&
         (!k->v[KNOB_LATE] || late(mem, p));
}
