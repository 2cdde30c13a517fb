// Vectors and loops. A vector of `width` elements needs one loop in which all operands are contiguous and whose length is a multiple of `width`.
// Every piece must be aligned to its bytes, no swizzle may separate it, and predicates must be equal for all its elements. ex_multiple gives the
// known divisor of each offset and step.
#include "tile/match.h"

static bool multiple_of(struct match *m, ex x, int64_t d) { return ex_divides(m->ex, EX_C(d), x); }

static const char *ex_shown(struct match *m, ex x)
{
  struct str s = {0};
  ex_text(m->ex, x, &s);
  return str_keep(m->lay->mem, &s);
}

// The sizes of the kernel that would have to be multiples, for the hint.
static void suggest(struct match *m, ex x, int64_t multiple)
{
  const struct tile_kernel *k = m->l->k;
  for (int i = 0; i < k->nparams; i++)
    if (ex_mentions(m->ex, x, k->params[i]) && !multiple_of(m, k->params[i], multiple))
      snprintf(m->hint, sizeof m->hint, "if it always is one, say so: `param %s multiple %d`", ex_node(m->ex, k->params[i])->name, (int)multiple);
}

bool match_aligned(struct match *m, int i, const struct tile_axes *a, int64_t elements)
{
  const struct side *s = &m->side[i];
  long long bytes = (long long)(elements * match_bytes(s));
  if (!multiple_of(m, s->v->offset, elements))
    return suggest(m, s->v->offset, elements),
           refuse(m, "%s is not known to be aligned to %lld bytes: its offset is %s elements", match_text(m, i), bytes, ex_shown(m, s->v->offset));
  for (int j = 0; a && j < a->n; j++)
    if (a->axis[j].extent > 1 && !multiple_of(m, a->axis[j].stride[i], elements))
      return suggest(m, a->axis[j].stride[i], elements), refuse(m, "%s is not aligned to %lld bytes at every step: a stride is %s elements",
                                                                match_text(m, i), bytes, ex_shown(m, a->axis[j].stride[i]));
  return true;
}

bool match_together(struct match *m, int i, int64_t elements)
{
  const struct tile_buffer *b = m->side[i].b;
  if (!b->swizzle.bits || elements <= (int64_t)1 << b->swizzle.base) return true;
  return refuse(m, "the swizzle of %s keeps only %d elements together", match_text(m, i), 1 << b->swizzle.base);
}

// Only the last iteration of the loops could be out of bounds, and it is not.
static bool always_inside(struct match *m, const struct tile_guard *g, const struct tile_axes *a, ex lanes)
{
  ex last = ex_add(m->ex, g->value, lanes);
  for (int j = 0; j < a->n; j++) {
    if (ex_range(m->ex, g->stride[j]).lo < 0) return false;
    last = ex_add(m->ex, last, ex_mul(m->ex, g->stride[j], EX_C(a->axis[j].extent - 1)));
  }
  return ex_true(m->ex, ex_lt(m->ex, last, g->limit));
}

// The coordinate increases by one from element to element, from a multiple of the width to a limit that is one.
static bool uniform(struct match *m, int i, int c, const struct tile_guard *g, const struct tile_axes *a, ex step, int64_t width)
{
  bool ok = step == EX_C(1) && multiple_of(m, g->limit, width) && multiple_of(m, g->value, width);
  for (int j = 0; j < a->n; j++) ok = ok && multiple_of(m, g->stride[j], width);
  if (!ok) suggest(m, g->limit, width);
  return ok || refuse(m,
                      "a predicate must hold for all %d elements of the vector or for none, but dimension %d of %s "
                      "ends at %s",
                      (int)width, c, match_text(m, i), ex_shown(m, g->limit));
}

// lane: the step between elements of a vector; NULL if there is one element.
bool match_guards(struct match *m, const struct tile_axes *a, const struct axis *lane, int64_t width)
{
  for (int i = 0; i < m->nsides; i++) {
    const struct tile_view *v = m->side[i].v;
    struct tile_operand *o = &m->atom.operand[i];
    for (int c = 0; c < v->ncoord; c++) {
      if (!v->coord[c].partial) continue;
      struct tile_guard g = {.value = v->coord[c].origin, .limit = v->coord[c].limit};
      for (int j = 0; j < a->n; j++) g.stride[j] = a->axis[j].coord[i][c];
      ex step = lane ? lane->coord[i][c] : EX_C(0);
      if (always_inside(m, &g, a, ex_mul(m->ex, step, EX_C(width - 1)))) continue;
      if (step != EX_C(0) && !uniform(m, i, c, &g, a, step, width)) return false;
      o->guard[o->nguards++] = g;
    }
  }
  return true;
}

static int contiguous(struct match *m, const struct tile_axes *a) // the loop in which all operands are contiguous, or -1
{
  for (int j = 0; j < a->n; j++) {
    bool all = true;
    for (int i = 0; i < m->nsides; i++) all = all && a->axis[j].stride[i] == EX_C(1);
    if (all) return j;
  }
  return -1;
}

static bool not_contiguous(struct match *m, const struct tile_axes *a, int64_t width)
{
  for (int i = 0; i < m->nsides; i++) {
    bool any = false;
    for (int j = 0; j < a->n; j++) any = any || a->axis[j].stride[i] == EX_C(1);
    if (!any) return refuse(m, "%s has no contiguous dimension (stride 1) of %d elements", match_text(m, i), (int)width);
  }
  return refuse(m, "no dimension is contiguous in all operands");
}

// Turns `width` elements of axis j into the vector: *lane is their step, and the remaining loop is over vectors.
static void split(struct match *m, struct tile_axes *a, int j, int64_t width, struct axis *lane)
{
  struct axis x = *lane = a->axis[j];
  x.extent /= width;
  for (int i = 0; i < m->nsides; i++) {
    x.stride[i] = ex_mul(m->ex, x.stride[i], EX_C(width));
    for (int c = 0; c < TILE_DIMS; c++) x.coord[i][c] = ex_mul(m->ex, x.coord[i][c], EX_C(width));
  }
  for (; j > 0; j--) a->axis[j] = a->axis[j - 1];
  a->axis[0] = x;
}

bool match_modes(struct match *m, struct tile_axes *a)
{
  int n = 0;
  for (int j = 0; j < a->n; j++)
    if (a->axis[j].extent > 1) a->axis[n++] = a->axis[j];
  a->n = n;
  struct tile_atom *t = &m->atom;
  if (n > TILE_MODES) return refuse(m, "more than %d loops around an instruction: decompose it", TILE_MODES);
  t->nmodes = n, t->nreduce = 0;
  for (int j = 0; j < n; j++) {
    t->extent[j] = a->axis[j].extent;
    t->nreduce += a->axis[j].reduced;
    for (int i = 0; i < m->nsides; i++) t->operand[i].stride[j] = a->axis[j].stride[i];
  }
  return true;
}

bool match_vector(struct match *m, struct tile_axes *a)
{
  int64_t width = m->row->width ? m->row->width : m->row->bytes / match_bytes(&m->side[0]);
  m->atom.width = (int)width;
  if (width == 1) return match_modes(m, a) && match_guards(m, a, NULL, 1);
  int j = contiguous(m, a);
  if (j < 0) return not_contiguous(m, a, width);
  if (a->axis[j].extent % width) return refuse(m, "%lld contiguous elements are no multiple of %d", (long long)a->axis[j].extent, (int)width);
  struct axis lane;
  split(m, a, j, width, &lane);
  if (!match_modes(m, a)) return false;
  for (int i = 0; i < m->nsides; i++)
    if (!match_aligned(m, i, a, width) || !match_together(m, i, width)) return false;
  return match_guards(m, a, &lane, width);
}
