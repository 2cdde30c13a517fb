// The registers that a thread needs: the most that are live at any value. A value lives from its computation to its last reader. Values that cross an
// iteration, and values from before the loop that the loop reads, live throughout the loop. An elementwise operator reuses the registers of an
// operand that is not read again.
#include "lower/mma.h"

struct life {
  int first, last; // positions in the order; last < first: never read
  int64_t registers;
};

int64_t mma_fragment_registers(const struct mma_plan *p, struct mma_shape s)
{
  return (s.rows ? 2 * p->mt : 1) * (s.cols >= 0 ? 2 * p->cols[s.cols].nt : 1);
}

// Lists values in the order in which they are emitted, with saves numbered after the values. Returns their number. loop[0..1]: positions of the
// loop's values.
// loop's.
static int in_order(const struct mma_plan *p, int *order, int loop[2])
{
  int n = 0;
  for (enum mma_section s = MMA_PRE; s <= MMA_POST; s++) {
    if (s == MMA_LOOP) loop[0] = n;
    for (int i = 0; i < p->norder; i++)
      if (p->section[p->order[i]] == s) order[n++] = p->order[i];
    if (s == MMA_LOOP) loop[1] = n - 1;
  }
  for (int i = 0; i < p->k.nsaves; i++) order[n++] = p->k.nvalues + i;
  return n;
}

// A load has those of the wanted rows and columns that its tensor has.
static int64_t loaded_registers(const struct mma_plan *p, int x, int reader, int operand)
{
  struct mma_shape s = mma_wanted(p, reader, operand);
  s.rows = (mma_has(p, x) & p->row_letters) != 0;
  if (!(mma_has(p, x) & ~p->row_letters)) s.cols = -1;
  return mma_fragment_registers(p, s);
}

static void read(const struct mma_plan *p, int x, int reader, int operand, int at, const int loop[2], struct life *l)
{
  bool inside = at >= loop[0] && at <= loop[1], loaded = mma_loads(p, x);
  bool crosses = inside && p->iterations > 1 && (loaded ? !mma_varies(p, x) : l[x].first < loop[0]);
  if (loaded && l[x].first < 0) l[x].first = crosses ? loop[0] : at, l[x].registers = loaded_registers(p, x, reader, operand);
  l[x].last = crosses ? MAX(l[x].last, loop[1]) : MAX(l[x].last, at);
}

// The value that a product is added to: an accumulator, or the first product of a sum.
static bool adds_elsewhere(const struct mma_plan *p, const struct mma_product *x) { return x && (x->into >= 0 || x != &p->product[x->leads]); }

static void lives(const struct mma_plan *p, const int *order, int n, const int loop[2], struct life *l)
{
  for (int v = 0; v < p->k.nvalues; v++) l[v] = (struct life){-1, -2, 0};
  for (int at = 0; at < n; at++) {
    int v = order[at];
    if (v >= p->k.nvalues) {
      read(p, p->k.save[v - p->k.nvalues].value, v, 0, at, loop, l);
      continue;
    }
    const struct kern_value *x = mma_at(p, v);
    for (int k = 0; k < x->nin; k++)
      if (x->kind != KERN_PRODUCT || !mma_loads(p, x->in[k])) read(p, x->in[k], v, k, at, loop, l); // products read loads from shared memory
    bool crosses = mma_accumulates(p, v), added = p->folded[v] || adds_elsewhere(p, mma_product_at(p, v));
    l[v] = (struct life){crosses ? loop[0] : at, crosses ? loop[1] : at, added ? 0 : mma_fragment_registers(p, p->shape[v])};
  }
}

// Registers in addition to live values: fragments of left operands.
static int64_t product_extra(const struct mma_plan *p, const struct mma_product *x)
{
  if (!x) return 0;
  if (mma_keeps_left(p, x)) return 2ll * p->mt * p->cols[x->sum_cols].nt;
  return p->wg ? 0 : 4 * p->mt + 4;
}

// Whether an elementwise operator reuses the registers of an operand that is not read again.
static int64_t reused(const struct mma_plan *p, const struct life *l, int v, int at)
{
  const struct kern_value *x = mma_at(p, v);
  int64_t most = 0;
  for (int k = 0; k < x->nin && x->kind == KERN_MAP; k++)
    if (l[x->in[k]].last == at) most = MAX(most, MIN(l[x->in[k]].registers, l[v].registers));
  return most;
}

int64_t mma_live(const struct mma_plan *p)
{
  struct arena *mem = p->job->mem;
  int *order = NEWS(mem, int, p->k.nvalues + p->k.nsaves + 1), loop[2] = {0, -1}, n = in_order(p, order, loop);
  struct life *l = NEWS(mem, struct life, p->k.nvalues + 1);
  int64_t most = 0;
  lives(p, order, n, loop, l);
  for (int at = 0; at < n; at++) {
    int v = order[at];
    int64_t live = 0;
    for (int x = 0; x < p->k.nvalues; x++)
      if (l[x].first <= at && l[x].last >= at && l[x].first >= 0) live += l[x].registers;
    if (v < p->k.nvalues) live += product_extra(p, mma_product_at(p, v)) - reused(p, l, v, at);
    most = MAX(most, live);
  }
  return most;
}
