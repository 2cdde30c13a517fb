// The plan: values of all savers, then what their axes are: rows, columns, k, or numbers of blocks. Requires a norm, and of the
// tail too where there is one; provides what skinny_shape.c cuts to size.
#include "lower/skinny.h"

#include <string.h>

// Grid axes that cut rows, not weights, are rows of the block, as long as these stay few. Those that cut columns are columns,
// of which a block takes as many as it likes. The others, and batches, number the blocks.
static void grid_axis(struct sk_plan *p, int g, struct sk_space *rows, struct sk_space *cols)
{
  bool of_weights = g >= p->tail.grid && p->j->tail, of_x = false, of_inner = false;
  for (int i = 0; i < p->nproducts; i++) {
    bool cuts = sk_axes_of(p, &p->iter[p->product[i].iter]) >> g & 1;
    of_weights |= cuts, of_inner |= cuts && !p->product[i].wide;
    of_x |= p->v[p->product[i].x].has >> g & 1;
  }
  for (int i = 0; i < p->nstats; i++) of_x |= p->v[p->stat[i]].has >> g & 1;
  bool row = !of_weights && of_x && rows->size * p->extent[g] * p->rows.size <= SK_ROWS;
  sk_space_push(p, row ? rows : of_x || of_inner ? &p->blocks : cols, g);
}

static void append(const struct sk_plan *p, struct sk_space *to, const struct sk_space *s)
{
  for (int i = 0; i < s->n; i++) sk_space_push(p, to, s->axis[i]);
}

static void grids(struct sk_plan *p)
{
  struct sk_space rows = {.size = 1}, cols = {.size = 1};
  for (int g = 0; g < p->naxes; g++) {
    bool head = g >= p->head.grid && g < p->head.grid + p->head.n->block->ngrid, tail = p->j->tail && g >= p->tail.grid;
    if ((head && !(p->parts >> g & 1)) || (tail && !p->at[g])) grid_axis(p, g, &rows, &cols);
  }
  append(p, &rows, &p->rows), append(p, &cols, &p->cols);
  p->rows = rows, p->cols = cols;
  for (int a = 0; a < p->naxes; a++)
    if (p->batch >> a & 1) sk_space_push(p, &p->blocks, a);
  for (int i = 0; i < p->nproducts; i++)
    if (p->product[i].wide) p->product[i].cols = cols;
  for (int i = 0; i < p->nvalues; i++)
    if (p->v[i].kind == SK_PRODUCT) p->v[i].has |= sk_space_axes(&rows);
}

// Columns of the savers: what is not rows. Products of these are wide, others are needed whole by a second product.
static int columns(struct sk_plan *p)
{
  for (int i = 0; i < p->nproducts; i++) {
    bool inner = false;
    for (int s = 0; s < p->nseconds; s++) inner |= sk_space_axes(&p->second[s].cols) == sk_space_axes(&p->product[i].cols);
    p->product[i].wide = !inner;
    if (!inner && !p->cols.size) p->cols = p->product[i].cols;
  }
  for (int i = 0; i < p->nvalues && !p->cols.size; i++)
    if (p->v[i].kind == SK_SECOND) {
      const struct norm_tensor *t = &p->head.n->t[p->head.n->iter[p->v[i].index].tile];
      p->cols = sk_space_of(p, &p->head, &t->dim[t->ndims - 1]);
    }
  return sk_same_columns(p) ? OK : (sk_no(p, "products of different columns"), NO);
}

static bool within(const struct sk_plan *p, int v, const struct sk_space *a, const struct sk_space *b)
{
  return !(p->v[v].has & ~(sk_space_axes(a) | sk_space_axes(b) | sk_space_axes(&p->blocks)));
}

static int spaces(struct sk_plan *p)
{
  static const struct sk_space none;
  for (int i = 0; i < p->nproducts; i++)
    if (p->product[i].wide && sk_space_axes(&p->product[i].cols) != sk_space_axes(&p->cols)) return sk_no(p, "products of different columns"), NO;
  for (int i = 0; i < p->nsave; i++)
    if (!within(p, p->saved[i], &p->rows, &p->cols)) return sk_no(p, "saves something else than rows and columns of products"), NO;
  for (int i = 0; i < p->nsave; i++)
    if (sk_space_axes(&p->blocks) & ~sk_axes_of(p, &p->save[i])) return sk_no(p, "blocks that save the same"), NO;
  for (int i = 0; i < p->nproducts; i++)
    if (!within(p, p->product[i].x, &p->rows, &p->k)) return sk_no(p, "a product of something else than rows"), NO;
  for (int i = 0; i < p->nstats; i++)
    if (!within(p, p->stat[i], &p->rows, &p->k)) return sk_no(p, "a sum that is not one of rows"), NO;
  for (int i = 0; i < p->nseconds; i++)
    if (!within(p, p->second[i].value, &p->rows, &p->second[i].cols)) return sk_no(p, "a second product of something else than rows"), NO;
  for (int i = 0; i < p->nvalues; i++)
    if (p->v[i].kind == SK_SECOND && !within(p, i, &p->rows, p->v[i].reached >> SK_WIDE & 1 ? &p->cols : &none))
      return sk_no(p, "a second product of other columns"), NO;
  return OK;
}

static void reach(struct sk_plan *p, int v, int from)
{
  struct sk_value *x = &p->v[v];
  if (x->reached >> from & 1) return;
  x->reached |= 1u << from;
  if (x->kind != SK_OP) return;
  reach(p, x->x, from);
  if (x->y >= 0) reach(p, x->y, from);
}

static void reach_all(struct sk_plan *p)
{
  for (int i = 0; i < p->nsave; i++) reach(p, p->saved[i], SK_WIDE);
  for (int i = 0; i < p->nseconds; i++) reach(p, p->second[i].value, SK_INNER + i);
  for (int i = 0; i < p->nproducts; i++) reach(p, p->product[i].x, SK_LOOP);
  for (int i = 0; i < p->nstats; i++) reach(p, p->stat[i], SK_LOOP);
}

int sk_plan_make(const struct lower_job *j, struct sk_plan *p, char why[160])
{
  memset(p, 0, sizeof *p);
  *why = 0;
  p->j = j, p->why = why, p->making.node = p->taking.node = -1;
  if (j->n->joins) return snprintf(why, 160, "parts that are joined or split"), NO;
  if (!sk_sides(p)) return sk_no(p, "a tail whose axes are not those of what it reads"), NO;
  if (p->nsave > SK_SAVES) return sk_no(p, "too many savers"), NO;
  const struct sk_side *s = j->tail ? &p->tail : &p->head;
  for (int i = 0; i < p->nsave; i++)
    if ((p->saved[i] = sk_after(p, s, s->n->save[i].tile)) < 0) return NO;
  if (!p->nproducts) return sk_no(p, "no product"), NO;
  if (p->parts && p->unsummed) return sk_no(p, "reads parts without summing them"), NO;
  if (columns(p) != OK) return NO;
  grids(p);
  reach_all(p);
  return spaces(p);
}
