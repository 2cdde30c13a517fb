// Chooses how the team of a block computes its part of the tail: the settings of rows with the least modelled time. On an H200, split attention in
// clusters of 4 to 16 took 0.8 to 6 us more than with a second launch that starts early. Two likely reasons were not measured: a barrier of a cluster
// waits for all memory operations, and clusters are crowded into a part of the multiprocessors. The way `last` took the modelled time.
#include "lower/tail.h"

#include <math.h>

static const double CLUSTER = 3e-6, LAST = 1.6e-6, // s: barriers and crowding of clusters; counter and fences
    ITEM_CLUSTER = 0.25e-6, ITEM_LAST = 0.6e-6,    // s: until the first load of an item has arrived
    BYTES_CLUSTER = 5e10, BYTES_LAST = 8e10,       // bytes per second into one multiprocessor
    ISSUE = 1.5e-9, WARPS = 0.06e-6;               // s: an instruction of a warp; a sum over warps

static int64_t own_items(const struct tail *x, const struct row_plan *p)
{
  return x->way == TAIL_CLUSTER ? (p->blocks + x->parts - 1) / x->parts : p->blocks;
}

static double busy(const struct tail *x, const struct row_plan *p)
{
  double instructions = 0, bytes = 0, warps = 0, items = (double)own_items(x, p), cluster = x->way == TAIL_CLUSTER;
  for (int i = 0; i < p->r->k.nvalues; i++) {
    const struct kern_value *v = &p->r->k.v[i];
    double n = p->held[kern_folds(v) ? v->in[0] : i];
    if (!v->live) continue;
    if (v->kind == KERN_LOAD) n /= row_width(p, &v->at), bytes += (double)p->held[i] * dtype_bytes(v->at.type) * p->threads;
    instructions += n * (v->kind == KERN_LOAD ? 3 : 1);
    EACH_AXIS(a, v->folded) warps += p->warps[a] > 1;
  }
  for (int i = 0; i < p->r->k.nsaves; i++) instructions += 3.0 * row_regs(p, p->r->k.save[i].axes) / row_width(p, &p->r->k.save[i].at);
  double one = (cluster ? ITEM_CLUSTER : ITEM_LAST) + instructions * ISSUE * (1 + p->threads / 32 / 4.0) + warps * WARPS;
  return items * fmax(one, bytes / (cluster ? BYTES_CLUSTER : BYTES_LAST));
}

static bool takes(const struct row_plan *p)
{
  int64_t registers = 0;
  int across = p->role.across;
  for (int i = 0; i < p->r->k.nvalues; i++)
    if (p->r->k.v[i].live) registers = MAX(registers, p->held[i]);
  for (int i = 0; i < p->r->k.nvalues && across >= 0; i++)
    if (p->vec > 1 && p->r->k.v[i].at.rank[across]) return false;
  return registers <= 64 && !p->rounds;
}

// Finds the best settings for a team of this many threads, or half of it.
static void fit(const struct tail *x, int threads, struct tail_fitted *out)
{
  double best = INFINITY;
  for (int team = threads; team >= MAX(32, threads / 2); team /= 2)
    for (int vec = x->r.role.across < 0 ? 1 : 8; vec >= 1; vec /= 2)
      for (int across = 1; across <= team; across *= 2)
        for (int down = 1; across * down <= team; down *= 2) {
          struct knobs k = {{[KNOB_VEC] = vec, [KNOB_ACROSS] = across, [KNOB_DOWN] = down, [KNOB_JOIN] = team / across / down}};
          struct row_plan p;
          if (!rows_plan(x->j->mem, &x->r, &k, &p) || !takes(&p)) continue;
          const double time = busy(x, &p);
          if (time < best) best = time, out->p = p, out->rounds = own_items(x, &p);
        }
}

static uint64_t key_of(const struct tail *x, int threads)
{
  const struct kern *k = &x->r.k;
  uint64_t h = hash_mix(hash_mix((uint64_t)threads, x->way), hash_mix((uint64_t)x->parts, (uint64_t)k->naxes));
  h = hash_mix(h, hash_bytes(k->extent, sizeof k->extent, k->letters));
  h = hash_mix(h, hash_bytes(k->v, sizeof *k->v * (size_t)k->nvalues, k->folded));
  return hash_mix(h, hash_bytes(k->save, sizeof *k->save * (size_t)k->nsaves, k->loops));
}

// The settings for a team of this many threads, which is a power of two.
static struct tail_fitted *fitted(struct tail *x, int threads)
{
  struct tail_memo *m = x->j->tails;
  struct tail_fitted *f = NEW(x->j->mem, struct tail_fitted);
  const uint64_t key = m ? key_of(x, threads) : 0;
  for (int i = 0; m && i < m->n; i++)
    if (m->known[i].key == key) {
      *f = *m->known[i].fitted;
      if (f->p.r) f->p.r = &x->r;
      return f;
    }
  fit(x, threads, f);
  if (m) PUSH(x->j->mem, m->known, m->n, m->cap) = (struct tail_known){key, f};
  return f;
}

bool tail_fit(struct tail *x, int threads)
{
  struct tail_fitted **known = &x->fitted[31 - __builtin_clz((unsigned)threads)];
  if (!*known) *known = fitted(x, 1 << (known - x->fitted));
  x->p = (*known)->p, x->rounds = (*known)->rounds;
  return x->p.r != NULL;
}

int64_t tail_shared(const struct tail *x)
{
  int64_t bytes = 16;
  for (int i = 0; i < x->j->n->nsave && x->way == TAIL_CLUSTER; i++)
    bytes += (x->room[i].elements * dtype_bytes(x->j->store[x->j->n->save[i].tensor]) + 15) / 16 * 16;
  for (int i = 0; i < x->r.k.nvalues; i++) {
    const struct kern_value *v = &x->r.k.v[i];
    if (v->live && v->folded) bytes += 4ll * x->p.threads * x->p.held[i];
  }
  return bytes;
}

double tail_last_cost(double bytes) { return LAST + ITEM_LAST + bytes / BYTES_LAST; }

double tail_cost(const struct tail *x) { return (x->way == TAIL_CLUSTER ? CLUSTER : LAST) + busy(x, &x->p); }
