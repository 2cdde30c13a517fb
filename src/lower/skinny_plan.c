// The plan: the values of a kernel and its tail, and the roles of their axes: rows, columns, k, or numbers of blocks. skinny_shape.c cuts them to
// size for given knobs.
#include "lower/skinny.h"

#include <string.h>

// A grid axis that only divides rows becomes rows of the block, as long as these stay few. A grid axis that divides columns becomes columns, of which
// a block takes any number. Other grid axes, and batches, number the blocks.
static void grid_axis(struct sk_plan *p, int g, struct lower_space *rows, struct lower_space *cols)
{
  bool of_weights = g >= p->nhead, of_x = false, of_inner = false;
  for (int i = 0; i < p->nproducts; i++) {
    bool cuts = p->kern.v[p->product[i].w].axes >> g & 1;
    of_weights |= cuts, of_inner |= cuts && !p->product[i].wide;
    of_x |= p->kern.v[p->product[i].x].axes >> g & 1;
  }
  for (int i = 0; i < p->nstats; i++) of_x |= p->kern.v[p->kern.v[p->stat[i]].in[0]].axes >> g & 1;
  bool row = !of_weights && of_x && rows->size * p->kern.extent[g] * p->rows.size <= SK_ROWS;
  space_push(row ? rows : of_x || of_inner ? &p->blocks : cols, p->kern.extent, g);
}

static void append(const struct sk_plan *p, struct lower_space *to, const struct lower_space *s)
{
  for (int i = 0; i < s->n; i++) space_push(to, p->kern.extent, s->axis[i]);
}

static void grids(struct sk_plan *p)
{
  struct lower_space rows = {.size = 1}, cols = {.size = 1};
  for (int g = 0; g < p->kern.naxes; g++)
    if (!((p->kern.letters | p->kern.loops | p->letters_k) >> g & 1) && p->kern.extent[g] > 1) grid_axis(p, g, &rows, &cols);
  append(p, &rows, &p->rows), append(p, &cols, &p->cols);
  p->rows = rows, p->cols = cols;
  EACH_AXIS(a, p->batch) space_push(&p->blocks, p->kern.extent, a);
  for (int i = 0; i < p->nproducts; i++)
    if (p->product[i].wide) p->product[i].cols = cols;
}

// The columns of wide products that nothing joins are counted by one index.
static bool same_columns(struct sk_plan *p)
{
  for (int i = 0; i < p->nproducts; i++) {
    struct lower_space *c = &p->product[i].cols;
    if (!p->product[i].wide || space_axes(c) == space_axes(&p->cols)) continue;
    if (c->n != p->cols.n || space_axes(c) & space_axes(&p->cols)) return false;
    for (int k = 0; k < c->n; k++)
      if (p->kern.extent[c->axis[k]] != p->kern.extent[p->cols.axis[k]]) return false;
    for (int k = 0; k < c->n; k++)
      if (!kern_rename(&p->kern, c->axis[k], p->cols.axis[k])) return false;
    *c = p->cols;
  }
  return true;
}

// The columns of the savers are all axes that are not rows. A product with these columns is wide. Second products need all columns of the others.
static int columns(struct sk_plan *p)
{
  for (int i = 0; i < p->nproducts; i++) {
    bool inner = false;
    for (int s = 0; s < p->nseconds; s++) inner |= space_axes(&p->second[s].cols) == space_axes(&p->product[i].cols);
    p->product[i].wide = !inner;
    if (!inner && !p->cols.size) p->cols = p->product[i].cols;
  }
  if (!p->cols.size && p->nseconds) {
    const struct kern_value *w = &p->kern.v[sk_weights(&p->kern.v[p->second[0].value])];
    p->cols = sk_walked(p, w->axes & p->kern.letters & ~p->kern.loops & ~p->kern.v[p->second[0].value].folded, &w->at);
  }
  return same_columns(p) ? OK : (sk_no(p, "products of different columns"), NO);
}

static bool within(const struct sk_plan *p, int v, const struct lower_space *a, const struct lower_space *b)
{
  return !(p->kern.v[v].axes & ~(space_axes(a) | space_axes(b) | space_axes(&p->blocks)));
}

static int spaces(struct sk_plan *p)
{
  static const struct lower_space none;
  for (int i = 0; i < p->nproducts; i++)
    if (p->product[i].wide && space_axes(&p->product[i].cols) != space_axes(&p->cols)) return sk_no(p, "products of different columns"), NO;
  for (int i = 0; i < p->kern.nsaves; i++)
    if (!within(p, p->kern.save[i].value, &p->rows, &p->cols)) return sk_no(p, "saves something else than rows and columns of products"), NO;
  for (int i = 0; i < p->kern.nsaves; i++)
    if (space_axes(&p->blocks) & ~kern_strided(&p->kern, &p->kern.save[i].at)) return sk_no(p, "blocks that save the same"), NO;
  for (int i = 0; i < p->nproducts; i++)
    if (!within(p, p->product[i].x, &p->rows, &p->k)) return sk_no(p, "a product of something else than rows"), NO;
  for (int i = 0; i < p->nstats; i++)
    if (!within(p, p->kern.v[p->stat[i]].in[0], &p->rows, &p->k)) return sk_no(p, "a sum that is not one of rows"), NO;
  for (int i = 0; i < p->nseconds; i++) {
    bool saved = p->role[p->second[i].value].reached >> SK_WIDE & 1;
    if (!within(p, p->second[i].x, &p->rows, &p->second[i].cols)) return sk_no(p, "a second product of something else than rows"), NO;
    if (!within(p, p->second[i].value, &p->rows, saved ? &p->cols : &none)) return sk_no(p, "a second product of other columns"), NO;
  }
  return OK;
}

static void reach(struct sk_plan *p, int v, int from)
{
  const struct kern_value *x = &p->kern.v[v];
  if (p->role[v].reached >> from & 1) return;
  p->role[v].reached |= 1u << from;
  for (int i = 0; i < x->nin && x->kind == KERN_MAP; i++) reach(p, x->in[i], from);
}

static void reach_all(struct sk_plan *p)
{
  for (int i = 0; i < p->kern.nsaves; i++) reach(p, p->kern.save[i].value, SK_WIDE);
  for (int i = 0; i < p->nseconds; i++) reach(p, p->second[i].x, SK_INNER + i);
  for (int i = 0; i < p->nproducts; i++) reach(p, p->product[i].x, SK_LOOP);
  for (int i = 0; i < p->nstats; i++) reach(p, p->kern.v[p->stat[i]].in[0], SK_LOOP);
}

static int values(struct sk_plan *p)
{
  const struct lower_job *j = p->j;
  struct kern tail;
  if (kern_make(j->mem, j->n, j->store, 0, false, &p->kern, p->why)) return NO;
  p->nhead = p->kern.naxes;
  if (j->tail && graph_iterations(j->tail->block) > 1) return sk_no(p, "a loop in the tail"), NO;
  if (j->tail && kern_make(j->mem, j->tail, j->store, p->nhead, true, &tail, p->why)) return NO;
  if (j->tail && !kern_join_tail(&p->kern, &tail, j->n)) return sk_no(p, "a tail whose axes are not those of what it reads"), NO;
  kern_rewrite(&p->kern, SK_RULES & ~j->off);
  if (p->kern.nsaves > SK_SAVES) return sk_no(p, "too many savers"), NO;
  return p->kern.nvalues <= SK_VALUES ? OK : (sk_no(p, "too many operators"), NO);
}

int sk_plan_make(const struct lower_job *j, struct sk_plan *p, char why[160])
{
  memset(p, 0, sizeof *p);
  *why = 0;
  p->j = j, p->why = why;
  if (j->n->joins) return snprintf(why, 160, "parts that are joined or split"), NO;
  if (lower_exact(j)) return snprintf(why, 160, "products of parts of f32, which are not added up in tensor cores alone"), NO;
  if (values(p) != OK || sk_terms(p) != OK || columns(p) != OK) return NO;
  grids(p);
  reach_all(p);
  return spaces(p);
}
