// Facts of a kernel of rows that do not depend on knobs: the axes that knobs refer to, the number of folds that precede each value, and the lifetime
// of each value in the order of these stages. They are computed once for all plans.
#include "lower/rows.h"

// Bytes of accesses that are contiguous along the axis.
static double contiguous(const struct rows *r, int axis)
{
  struct kern_use u;
  double sum = 0;
  for (int i = 0; i < kern_uses(&r->k); i++)
    if (kern_use(&r->k, i, &u) && u.at->stride[axis] == 1) sum += (double)kern_extent(&r->k, u.axes) * dtype_bytes(u.at->type);
  return sum;
}

static int largest(const struct rows *r, int except, bool folded)
{
  int best = -1;
  for (int i = 0; i < r->k.naxes; i++)
    if (i != except && r->k.extent[i] > 1 && (r->k.folded >> i & 1) == folded && (best < 0 || r->k.extent[i] > r->k.extent[best])) best = i;
  return best;
}

static struct row_roles roles(const struct rows *r)
{
  struct row_roles x = {-1, -1, -1};
  double most = 0;
  for (int i = 0; i < r->k.naxes; i++)
    if (r->k.extent[i] > 1 && contiguous(r, i) > most) most = contiguous(r, i), x.across = i;
  if (x.across < 0) x.across = largest(r, -1, false);
  if (x.across < 0) x.across = largest(r, -1, true);
  x.down = largest(r, x.across, true), x.join = largest(r, x.across, false);
  return x;
}

// Returns the number of stages of live values.
static int stages(struct arena *mem, struct rows *r)
{
  int most = 0, n = r->k.nvalues, *depth = NEWS(mem, int, n + 1);
  struct plan_step *s = NEWS(mem, struct plan_step, n + 1);
  for (int i = 0; i < n; i++) s[i] = (struct plan_step){.nin = r->k.v[i].nin, .in = r->k.v[i].in, .waits = kern_folds(&r->k.v[i]) ? 1 : 0};
  schedule_depths(n, s, depth);
  for (int i = 0; i < n; i++) r->life[i].stage = depth[i], most = MAX(most, r->k.v[i].live ? depth[i] : 0);
  return most + 1;
}

static bool passes_through(const struct rows *r, int i)
{
  int users = 0, folds = 0;
  for (int u = 0; u < r->k.nvalues; u++)
    for (int k = 0; k < r->k.v[u].nin; k++)
      if (r->k.v[u].live && r->k.v[u].in[k] == i) users++, folds += kern_folds(&r->k.v[u]);
  for (int k = 0; k < r->k.nsaves; k++) users += r->k.save[k].value == i;
  return r->k.v[i].kind == KERN_MAP && users == 1 && folds == 1;
}

static void in_order(struct arena *mem, struct rows *r)
{
  r->order = NEWS(mem, int, r->k.nvalues + 1), r->norder = 0;
  for (int s = 0; s < r->nstages; s++)
    for (int i = 0; i < 2 * r->k.nvalues; i++) {
      struct kern_value *v = &r->k.v[i % r->k.nvalues];
      if (v->live && r->life[i % r->k.nvalues].stage == s && kern_folds(v) == (i < r->k.nvalues))
        r->life[i % r->k.nvalues].made = r->norder, r->order[r->norder++] = i % r->k.nvalues;
    }
}

static void lives(struct rows *r)
{
  for (int i = 0; i < r->norder; i++)
    for (int k = 0; k < r->k.v[r->order[i]].nin; k++) {
      struct row_life *x = &r->life[r->k.v[r->order[i]].in[k]];
      x->first = x->first ? x->first : i, x->last = MAX(x->last, i);
    }
  for (int i = 0; i < r->k.nsaves; i++) {
    struct row_life *x = &r->life[r->k.save[i].value];
    x->last = MAX(x->last, x->made + 1);
  }
}

void rows_ready(const struct lower_job *j, struct rows *r)
{
  struct arena *mem = j->mem;
  r->j = j, r->life = NEWS(mem, struct row_life, r->k.nvalues + 1);
  r->role = roles(r), rows_weave(mem, r), r->nstages = stages(mem, r);
  for (int i = 0; i < r->k.nvalues; i++) r->life[i].through = passes_through(r, i);
  in_order(mem, r), lives(r);
  for (int i = 0; i < r->k.nvalues; i++)
    if (r->k.v[i].live && kern_scans(&r->k.v[i])) r->scanned |= r->k.v[i].folded;
}
