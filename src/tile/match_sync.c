// Matches specs that are no loop over operands: the threads of a spec against those of a row, named barriers, lanes of warp reductions and shuffles,
// and the number in <..., n>.
#include "tile/match.h"

#include <string.h>

enum { MODES = 64, WARP = 32, BARRIERS = 16 }; // named barriers 1 .. 15; 0 is the block's

struct members { // members of a group: thread = offset + sum of i * stride
  int n;
  int64_t extent[MODES], stride[MODES], size;
};

static bool members_of(struct match *m, const struct tile_group *g, struct members *out)
{
  out->n = 0, out->size = 1;
  for (int l = 0; l < g->nlevels; l++) {
    ex shape[MODES], stride[MODES];
    int n = lay_leaves(g->level[l], shape, stride, MODES);
    for (int i = 0; i < n; i++) {
      if (!ex_is_const(shape[i]) || !ex_is_const(stride[i])) return refuse(m, "the group of threads is not constant");
      if (ex_value(shape[i]) == 1) continue;
      if (out->n == MODES) return refuse(m, "the group of threads has too many dimensions");
      int at = out->n++;
      for (; at > 0 && out->stride[at - 1] > ex_value(stride[i]); at--) out->stride[at] = out->stride[at - 1], out->extent[at] = out->extent[at - 1];
      out->stride[at] = ex_value(stride[i]), out->extent[at] = ex_value(shape[i]);
      out->size *= ex_value(shape[i]);
    }
  }
  return true;
}

static bool consecutive(const struct members *g)
{
  int64_t next = 1;
  for (int i = 0; i < g->n; i++) {
    if (g->stride[i] != next) return false;
    next *= g->extent[i];
  }
  return true;
}

static const char *group_name(const struct tile_group *g) { return g->name ? g->name : ""; }

static bool quad_pair(struct match *m, const struct tile_group *g, const struct members *t)
{
  int64_t next = 1;
  bool low = true; // 4:1 in any form, then 2:16
  for (int i = 0; i + 1 < t->n; i++) low = low && t->stride[i] == next, next *= t->extent[i];
  bool fits = t->n >= 2 && low && next == 4 && t->extent[t->n - 1] == 2 && t->stride[t->n - 1] == 16 && ex_divides(m->ex, EX_C(4), g->offset);
  return fits || refuse(m, "#%s is no quad pair, [(4,2):(1,16)].thread", group_name(g));
}

bool match_threads(struct match *m)
{
  const struct tile_group *g = &m->l->k->groups[m->s->threads];
  struct members t;
  int want = m->row->threads;
  if (!members_of(m, g, &t)) return false;
  m->atom.lanes = (int)t.size;
  if (!want) return true;
  if (t.size != want)
    return refuse(m, "it is done by %d thread%s, and #%s has %lld%s", want, want == 1 ? "" : "s together", group_name(g), (long long)t.size,
                  want == 1 ? " (take .scalar())" : "");
  if (want == 1) return true;
  if (want == 8) return quad_pair(m, g, &t);
  if (!consecutive(&t)) return refuse(m, "the %d threads of #%s are not consecutive", want, group_name(g));
  return ex_divides(m->ex, EX_C(want), g->offset) || refuse(m, "#%s is not known to begin at a multiple of %d threads", group_name(g), want);
}

// Groups of equal size at multiples of it share a family of numbers, so the number may depend on the thread.
static bool part_number(struct match *m, const struct tile_group *g, int64_t size)
{
  struct lowering *l = m->l;
  int64_t block = ex_value(l->k->groups[l->k->threads].size);
  if (ex_range(m->ex, g->offset).hi > block - size) return refuse(m, "#%s may reach past the block of %lld threads", group_name(g), (long long)block);
  bool regular = ex_divides(m->ex, EX_C(size), g->offset);
  if (!regular && !ex_is_const(g->offset)) return refuse(m, "#%s begins at different threads that are no multiples of its size", group_name(g));
  ex offset = regular ? EX_C(-1) : g->offset;
  int i = 0, count = regular ? (int)(block / size) : 1;
  while (i < l->nparts && (l->parts[i].threads != size || l->parts[i].offset != offset)) i++;
  int first = i < l->nparts ? l->parts[i].first : i ? l->parts[i - 1].first + l->parts[i - 1].count : 1;
  if (first + count > BARRIERS) return refuse(m, "a block has 15 named barriers, and this kernel needs more");
  if (i == l->nparts) l->parts[l->nparts++] = (struct tile_part){size, offset, first, count};
  m->atom.barrier = regular ? ex_add(m->ex, EX_C(first), ex_div(m->ex, g->offset, EX_C(size))) : EX_C(first);
  m->atom.barrier_threads = (int)size;
  return true;
}

bool match_barrier(struct match *m)
{
  const struct tile_kernel *k = m->l->k;
  const struct tile_group *g = &k->groups[m->s->threads];
  struct members t;
  if (!members_of(m, g, &t)) return false;
  int64_t block = ex_value(k->groups[k->threads].size);
  m->atom.barrier = EX_C(0), m->atom.barrier_threads = (int)block;
  if (!strstr(m->row->text, "$B")) return t.size == block || refuse(m, "#%s is not the whole block of %lld threads", group_name(g), (long long)block);
  m->score++; // the more general of the two rows
  if (t.size % WARP || !consecutive(&t) || !ex_divides(m->ex, EX_C(WARP), g->offset))
    return refuse(m, "#%s is neither the block nor a warp nor a number of whole, consecutive warps", group_name(g));
  return part_number(m, g, t.size);
}

// A butterfly over the lanes: each dimension of the group is a power of two, and its bits of the lane number are 0 in the offset.
static bool butterfly(struct match *m, const struct tile_group *g, const struct members *t)
{
  for (int i = 0; i < t->n; i++) {
    int64_t s = t->stride[i], n = t->extent[i];
    if ((s & (s - 1)) || (n & (n - 1)) || s * n > WARP || (i && t->stride[i - 1] * t->extent[i - 1] > s))
      return refuse(m, "#%s is not made of powers of two of lanes within a warp", group_name(g));
    if (ex_mod(m->ex, ex_div(m->ex, g->offset, EX_C(s)), EX_C(n)) != EX_C(0))
      return refuse(m, "#%s is not known to begin at a multiple of %lld threads", group_name(g), (long long)(s * n));
    for (int64_t step = s; step < s * n; step *= 2) m->atom.step[m->atom.nsteps++] = (int)step;
  }
  return true;
}

bool match_lanes(struct match *m)
{
  const struct tile_group *g = &m->l->k->groups[m->s->threads];
  struct members t;
  m->atom.nsteps = 0;
  if (!members_of(m, g, &t)) return false;
  if (t.size < 2 || t.size > WARP) return refuse(m, "it is done by 2 to 32 threads of a warp, and #%s has %lld", group_name(g), (long long)t.size);
  if (!butterfly(m, g, &t)) return false;
  return m->row->sem == SEM_REDUCE_WARP || consecutive(&t) || refuse(m, "the threads of #%s are not consecutive", group_name(g));
}

static bool in_range(struct match *m, int64_t lo, int64_t hi, int64_t step)
{
  ex n = m->atom.arg;
  if (!ex_is_const(n)) return refuse(m, "its number is a constant");
  int64_t v = ex_value(n);
  return (v >= lo && v <= hi && v % step == 0) ||
         refuse(m, "its number lies in %lld .. %lld%s", (long long)lo, (long long)hi, step > 1 ? ", in steps of 8" : "");
}

// One bit for each block of the cluster.
static bool mask_of_cluster(struct match *m)
{
  struct ex_range r = ex_range(m->ex, m->atom.arg);
  int64_t all = (INT64_C(1) << MIN(m->l->k->cluster, 16)) - 1;
  return (r.lo >= 0 && r.hi <= all) || refuse(m, "its mask has a bit for each block of the cluster: it lies in 0 .. %lld", (long long)all);
}

static bool within_vector(struct match *m)
{
  struct ex_range r = ex_range(m->ex, m->atom.arg);
  return (r.lo >= 0 && r.hi <= m->row->width) || refuse(m, "its number lies in 0 .. %d", m->row->width);
}

bool match_number(struct match *m)
{
  m->atom.arg = m->s->nargs ? m->s->arg[0] : EX_C(m->row->sem == SEM_WGMMA);
  if (!strstr(m->row->text, "$n")) {
    bool other = m->row->sem == SEM_REDUCE || m->row->spec == SPEC_INIT; // the arguments are axes, or the value of Init
    return other || !m->s->nargs || refuse(m, "it takes no number in <...>");
  }
  if (!m->s->nargs && m->row->sem != SEM_WGMMA) return refuse(m, "a number is missing: <%s, n>", m->s->op);
  if (m->row->sem == SEM_SETMAXNREG) return in_range(m, 24, 256, 8);
  if (m->row->sem == SEM_WGMMA_WAIT) return in_range(m, 0, 7, 1);
  if (m->row->sem == SEM_CP_WAIT || m->row->sem == SEM_BULK_WAIT) return in_range(m, 0, 63, 1);
  if (m->row->sem == SEM_SHIFT) return within_vector(m);
  if (m->row->sem == SEM_TMA_MULTICAST) return mask_of_cluster(m);
  if (m->row->sem == SEM_MBAR_INIT || m->row->sem == SEM_MBAR_EXPECT)
    return ex_range(m->ex, m->atom.arg).lo >= (m->row->sem == SEM_MBAR_INIT) || refuse(m, "its number is positive");
  return true;
}

ex lower_expand(struct lowering *l, ex x)
{
  for (int i = l->ndefs - 1; i >= 0; i--)
    if (ex_mentions(l->p->ex, x, l->defs[i].var)) x = ex_subst(l->p->ex, x, l->defs[i].var, l->defs[i].value);
  return x;
}
