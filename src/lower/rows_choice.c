// Which plans are worth a try: all there are, by what the model says they cost.
#include "lower/count.h"
#include "lower/rows.h"

#include <math.h>
#include <string.h>

enum { WIDEST = 8 };

static int upper_power(int64_t n, int most)
{
  int x = 1;
  while (x < n && x < most) x *= 2;
  return x;
}

// Settings that differ only in what matters little, the vector or how many rows a block has, are one kind; the best of a kind
// stands for it, so that those who measure a few measure different ones.
struct kind {
  int across, down, regs, late;
  bool alone; // a block has one row, whose folds no other row waits for
};
struct trying {
  const struct lower_job *j;
  const struct rows *r;
  int n, most;
  struct knobs *out;
  struct kind kind[CHOICES];
  double cost[CHOICES];
  struct kernel_counts counts[CHOICES];
};

static struct kind kind_of(const struct row_plan *p, const struct knobs *k)
{
  struct kind x;
  memset(&x, 0, sizeof x); // kinds are compared by their bytes
  x.across = k->v[KNOB_ACROSS], x.down = k->v[KNOB_DOWN], x.late = k->v[KNOB_LATE], x.alone = k->v[KNOB_JOIN] == 1;
  for (int i = 0; i < p->r->k.nvalues; i++)
    if (p->r->k.v[i].live) x.regs = MAX(x.regs, p->held[i]);
  return x;
}

static void move(struct trying *t, int from, int to)
{
  t->out[to] = t->out[from], t->cost[to] = t->cost[from], t->kind[to] = t->kind[from], t->counts[to] = t->counts[from];
}

static void insert(struct trying *t, const struct knobs *k, struct kind kind, double cost, const struct kernel_counts *counts)
{
  int i = 0;
  while (i < t->n && memcmp(&t->kind[i], &kind, sizeof kind)) i++;
  if (i < t->n && t->cost[i] <= cost) return;
  if (i == t->n && t->n == t->most && t->cost[--i] <= cost) return;
  if (i == t->n) t->n++;
  for (; i > 0 && t->cost[i - 1] > cost; i--) move(t, i - 1, i);
  t->out[i] = *k, t->cost[i] = cost, t->kind[i] = kind, t->counts[i] = *counts;
}

static void attempt(struct trying *t, const struct knobs *k)
{
  struct row_plan p;
  struct arena_mark m = arena_mark(t->j->mem);
  struct kernel_counts c;
  struct knobs best = *k;
  bool fits = rows_plan(t->j->mem, t->r, k, &p) && rows_count(t->j, &p, &c);
  if (fits && t->j->dependent) {
    rows_before_best(t->j, &p, &c);
    best.v[KNOB_AHEAD] = p.ahead, best.v[KNOB_HOLD] = p.hold, c.soon = rows_soon(t->j, &p);
  }
  double cost = fits ? kernel_time(&c, t->j->gpu, NULL) : INFINITY;
  if (isfinite(cost)) insert(t, &best, kind_of(&p, k), cost, &c);
  arena_reset(t->j->mem, m);
}

// What registers hold of an axis: `few` at a time. Is that the same as fewer, or as all, which 0 says?
static bool repeats(const struct rows *r, int axis, int few, int places)
{
  if (axis < 0) return few > 0;
  bool folded = r->k.folded >> axis & 1;
  int64_t need = (r->k.extent[axis] + places - 1) / places;
  return folded ? few && few >= need : !few || (few > 1 && few > need);
}

static void with_registers(struct trying *t, struct knobs k, const struct row_roles *role)
{
  static const int few[] = {0, 1, 2, 4, 8};
  for (size_t i = 0; i < COUNT(few); i++)
    for (size_t d = 0; d < COUNT(few); d++) {
      k.v[KNOB_REGS] = few[i], k.v[KNOB_DEEP] = few[d];
      if (repeats(t->r, role->across, few[i], k.v[KNOB_VEC] * k.v[KNOB_ACROSS]) || repeats(t->r, role->down, few[d], k.v[KNOB_DOWN])) continue;
      for (k.v[KNOB_LATE] = 0; k.v[KNOB_LATE] < 2; k.v[KNOB_LATE]++) attempt(t, &k);
    }
}

// The widest access of any.
static int widest(const struct rows *r, const struct row_roles *role)
{
  struct row_plan p = {.r = r, .role = *role, .vec = WIDEST};
  int w = 1;
  for (int i = 0; i < r->k.nvalues; i++)
    if (r->k.v[i].live && r->k.v[i].kind == KERN_LOAD) w = MAX(w, row_width(&p, &r->k.v[i].at));
  for (int i = 0; i < r->k.nsaves; i++) w = MAX(w, row_width(&p, &r->k.save[i].at));
  return w;
}

static bool streams(const struct lower_job *j, const struct rows *r)
{
  double bytes = 0;
  for (int i = 0; i < r->k.nvalues; i++)
    if (r->k.v[i].live && r->k.v[i].kind == KERN_LOAD) bytes += (double)r->k.v[i].at.elements * dtype_bytes(r->k.v[i].at.type);
  for (int i = 0; i < r->k.nsaves; i++) bytes += (double)r->k.save[i].at.elements * dtype_bytes(r->k.save[i].at.type);
  return bytes > (double)j->gpu->l2;
}

int rows_choices(const struct lower_job *j, const struct rows *r, int most, struct knobs *out)
{
  struct row_roles role = r->role;
  struct trying t = {.j = j, .r = r, .most = MIN(most, CHOICES), .out = out};
  int64_t across = role.across < 0 ? 1 : r->k.extent[role.across], down = role.down < 0 ? 1 : r->k.extent[role.down];
  int64_t join = role.join < 0 ? 1 : r->k.extent[role.join];
  struct knobs k = {{0}};
  k.v[KNOB_STREAM] = streams(j, r);
  for (int v = widest(r, &role); v >= 1; v /= 2)
    for (int a = 1; a <= upper_power(MAX(across / v, ROW_LANES), TILE_THREADS); a *= 2)
      for (int d = 1; d <= upper_power(down, TILE_THREADS); d *= 2)
        for (int b = 1; b <= upper_power(join, 64); b *= 2) {
          if (a * d * b > TILE_THREADS || (a * d * b < ROW_LANES && role.across >= 0) || (across % v && v > 1)) continue;
          k.v[KNOB_VEC] = v, k.v[KNOB_ACROSS] = role.across < 0 ? 1 : a, k.v[KNOB_DOWN] = d, k.v[KNOB_JOIN] = b;
          with_registers(&t, k, &role);
        }
  for (int i = 0; i < t.n && j->counts; i++) j->counts[i] = t.counts[i];
  return t.n;
}
