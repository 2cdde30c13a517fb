// Tiles that an instruction reads as a whole: by a matrix descriptor (wgmma) or through a tensor map (TMA).
//
// A descriptor names one of eight arrangements of a tile of 16-bit elements, made of cores of 8 rows of 16 bytes. With
// S the elements of a swizzle's span (8 without one, 16, 32, 64), the offset of (mn, k) is
//
//     k contiguous    none      8 (mn % 8) + step (mn / 8) + k % 8 + lead (k / 8)
//                     swizzled  S (mn % 8) + step (mn / 8) + k                          k < 16
//     mn contiguous   none      mn % 8 + step (mn / 8) + 8 (k % 8) + lead (k / 8)
//                     swizzled  mn % S + lead (mn / S) + S (k % 8) + step (k / 8)
//
// before the swizzle (the canonical layouts of the PTX manual, "Strides"). The swizzle is one of address bits, so a
// tile begins in the first row of its pattern.
#include "tile/match.h"

enum { CORE = 8, K = 16 };

struct arrangement {
  bool trans; // mn is contiguous
  int64_t span, lead, step;
  bool swizzled;
};

static int64_t offset_in(const struct arrangement *r, int64_t mn, int64_t k)
{
  if (!r->trans && !r->swizzled) return CORE * (mn % CORE) + r->step * (mn / CORE) + k % CORE + r->lead * (k / CORE);
  if (!r->trans) return r->span * (mn % CORE) + r->step * (mn / CORE) + k;
  if (!r->swizzled) return mn % CORE + r->step * (mn / CORE) + CORE * (k % CORE) + r->lead * (k / CORE);
  return mn % r->span + r->lead * (mn / r->span) + r->span * (k % CORE) + r->step * (k / CORE);
}

struct match_bulk_tile { // in memory: offset = at(mn, k)
  const struct lay *mn, *k;
  int64_t rows;
};
static int64_t at(const struct match_bulk_tile *t, int64_t mn, int64_t k) { return lay_call(t->mn, mn) + lay_call(t->k, k); }

static bool arranged(const struct match_bulk_tile *t, bool trans, int64_t span, bool swizzled, struct arrangement *r)
{
  *r = (struct arrangement){.trans = trans, .span = span, .swizzled = swizzled, .lead = CORE, .step = CORE};
  int64_t next_core = t->rows > CORE ? at(t, CORE, 0) : CORE, next_k = at(t, 0, CORE);
  if (!swizzled)
    r->step = next_core, r->lead = next_k;
  else if (!trans)
    r->step = next_core;
  else
    r->step = next_k, r->lead = t->rows > span ? at(t, span, 0) : CORE;
  for (int64_t mn = 0; mn < t->rows; mn++)
    for (int64_t k = 0; k < K; k++)
      if (at(t, mn, k) != offset_in(r, mn, k)) return false;
  return true;
}

// The offset including all loops around the instruction, modulo the pattern of the swizzle.
static bool begins_pattern(struct match *m, int i, const struct tile_axes *a, int64_t span, bool swizzled)
{
  ex at0 = m->side[i].v->offset;
  for (int j = 0; a && j < a->n; j++) {
    ex round = ex_var(m->ex, "round", 0, a->axis[j].extent - 1, 1);
    at0 = ex_add(m->ex, at0, ex_mul(m->ex, a->axis[j].stride[i], round));
  }
  if (!ex_divides(m->ex, EX_C(CORE), at0)) return refuse(m, "%s is not known to be aligned to 16 bytes", match_text(m, i));
  if (!swizzled || ex_range(m->ex, ex_mod(m->ex, at0, EX_C(CORE * span))).hi < span) return true;
  return refuse(m, "%s is not known to begin in the first row of its swizzle's pattern of %d bytes", match_text(m, i), (int)(2 * CORE * span));
}

static bool swizzle_bits(struct match *m, int i, int *bits)
{
  const struct tile_buffer *b = m->side[i].b;
  int size = tile_types[b->type].bytes, base = 4;
  for (; size > 1; size /= 2) base--; // units of 16 bytes
  *bits = b->swizzle.bits;
  if (!*bits || (*bits <= 3 && b->swizzle.base == base && b->swizzle.shift == 3)) return true;
  return refuse(m, "%s is swizzled by (%d, %d, %d); this instruction reads (1, %d, 3), (2, %d, 3), (3, %d, 3) or none", match_text(m, i), *bits,
                b->swizzle.base, b->swizzle.shift, base, base, base);
}

// `i` is 1 for [m,k] and 2 for [k,n].
bool match_matrix(struct match *m, int i, const struct instr_operand *want)
{
  struct side *s = &m->side[i];
  int bits;
  if (!swizzle_bits(m, i, &bits)) return false;
  s->outer = s->v->nlevels - 1;
  struct lay level = s->v->nlevels ? s->v->level[s->outer] : (struct lay){0};
  for (int d = 0; d < 2; d++)
    if (!s->v->nlevels || lay_rank(level) != 2 || lay_size(m->lay, lay_mode(level, d)) != EX_C(want->extent[0][d]))
      return refuse(m, "%s does not end in a tile [%d,%d]", match_text(m, i), (int)want->extent[0][0], (int)want->extent[0][1]);
  struct lay left = lay_mode(level, 0), right = lay_mode(level, 1);
  struct match_bulk_tile t = {i == 1 ? &left : &right, i == 1 ? &right : &left, want->extent[0][i == 1 ? 0 : 1]};
  int64_t span = CORE << bits;
  struct arrangement r;
  if (!arranged(&t, false, span, bits, &r) && !arranged(&t, true, span, bits, &r))
    return refuse(m, "%s is arranged in none of the ways that a descriptor with %s can say", match_text(m, i),
                  bits == 3   ? "a 128-byte swizzle"
                  : bits == 2 ? "a 64-byte swizzle"
                  : bits      ? "a 32-byte swizzle"
                              : "no swizzle");
  m->atom.operand[i].inner = level;
  m->atom.operand[i].desc = (struct tile_desc){2 * r.lead, 2 * r.step, bits ? (int)(2 * span) : 0, r.trans};
  return true;
}

bool match_descriptors(struct match *m, const struct tile_axes *a)
{
  for (int i = 1; i < m->nsides; i++)
    if (match_pattern(m->row, i)->kind == OPND_MATRIX) {
      int bits = m->side[i].b->swizzle.bits;
      if (!begins_pattern(m, i, a, CORE << bits, bits > 0)) return false;
    }
  return true;
}

// ---- TMA ----------------------------------------------------------------------------------------------------------

// Matches the box of a tile along dimension c of the tensor: coordinates 0 .. box - 1, each once.
static bool box_along(struct match *m, int g, const struct tile_axes *a, int c, int64_t *box)
{
  *box = 1;
  for (int round = 0; round < a->n; round++)
    for (int j = 0; j < a->n; j++)
      if (a->axis[j].coord[g][c] == EX_C(*box) && a->axis[j].extent > 1) *box *= a->axis[j].extent;
  for (int j = 0; j < a->n; j++) {
    ex step = a->axis[j].coord[g][c];
    if (step != EX_C(0) && (!ex_is_const(step) || ex_value(step) >= *box))
      return refuse(m, "%s is no box: its elements are not consecutive along dimension %d", match_text(m, g), c);
  }
  return *box <= 256 ||
         refuse(m, "%s: a box has at most 256 elements along a dimension; here %lld along dimension %d", match_text(m, g), (long long)*box, c);
}

// The step in shared memory for one element along dimension c.
static bool shared_step(struct match *m, int g, int s, const struct tile_axes *a, int c, int64_t *step)
{
  *step = 0;
  for (int j = 0; j < a->n; j++) {
    ex q = a->axis[j].coord[g][c], d = a->axis[j].stride[s];
    if (q == EX_C(0)) continue;
    if (!ex_is_const(d) || ex_value(d) % ex_value(q)) return refuse(m, "%s is not laid out as a box", match_text(m, s));
    int64_t one = ex_value(d) / ex_value(q);
    if (*step && *step != one) return refuse(m, "%s is not laid out as a box", match_text(m, s));
    *step = one;
  }
  return true;
}

struct dimension { // a dimension of the tensor, while the map's order of dimensions is determined
  int c;
  int64_t box, step; // step 0: the box has one element along it
  ex size, stride;
};

static bool dimensions(struct match *m, int g, int s, const struct tile_axes *a, struct dimension *d, int *n)
{
  const struct tile_view *v = m->side[g].v, *root = &m->l->k->views[m->side[g].b->view];
  *n = v->ncoord;
  for (int c = 0; c < *n; c++) {
    ex shape[2], stride[2];
    d[c].c = c;
    if (lay_leaves(lay_mode(root->level[0], c), shape, stride, 2) != 1)
      return refuse(m, "dimension %d of %%%s is nested: a tensor map cannot say that", c, m->side[g].b->name);
    d[c].size = shape[0], d[c].stride = stride[0];
    if (!box_along(m, g, a, c, &d[c].box) || !shared_step(m, g, s, a, c, &d[c].step)) return false;
  }
  return true;
}

// Fastest first, as the box is laid out in shared memory. Dimensions with one element come last, except that the contiguous one stays first.
static void sort_dimensions(struct dimension *d, int n)
{
  for (int i = 0; i < n; i++)
    for (int j = i + 1; j < n; j++) {
      int64_t x = d[i].step ? d[i].step : INT64_MAX, y = d[j].step ? d[j].step : INT64_MAX;
      if (d[i].stride == EX_C(1) && !d[i].step) x = 0;
      if (d[j].stride == EX_C(1) && !d[j].step) y = 0;
      if (y < x) {
        struct dimension one = d[i];
        d[i] = d[j], d[j] = one;
      }
    }
}

static bool map_of(struct match *m, int g, int s, const struct dimension *d, int n)
{
  struct tile_map *map = &m->map;
  *map = (struct tile_map){.buf = m->side[g].v->buf, .rank = n};
  int64_t dense = 1, bytes = match_bytes(&m->side[g]);
  if (d[0].stride != EX_C(1)) return refuse(m, "the fastest dimension of %s is not contiguous in %%%s", match_text(m, s), m->side[g].b->name);
  for (int i = 0; i < n; i++) {
    if (d[i].step && d[i].step != dense) return refuse(m, "%s is not laid out densely as a box", match_text(m, s));
    dense *= d[i].box;
    map->size[i] = d[i].size, map->stride[i] = d[i].stride, map->box[i] = d[i].box;
    if (i && !ex_divides(m->ex, EX_C(16 / bytes), d[i].stride))
      return refuse(m, "stride %d of %%%s is not known to be a multiple of 16 bytes (param ... multiple %d)", d[i].c, m->side[g].b->name,
                    (int)(16 / bytes));
  }
  int bits;
  if (!swizzle_bits(m, s, &bits)) return false;
  map->swizzle_bytes = bits ? 16 << bits : 0;
  if (d[0].box * bytes % 16) return refuse(m, "the innermost extent of the box, %lld bytes, is no multiple of 16", (long long)(d[0].box * bytes));
  if (bits && d[0].box * bytes > map->swizzle_bytes)
    return refuse(m, "the innermost extent of the box, %lld bytes, exceeds the swizzle's %d: move it in parts", (long long)(d[0].box * bytes),
                  map->swizzle_bytes);
  return true;
}

static bool box_coords(struct match *m, int g, const struct dimension *d, int n, const struct tile_axes *a)
{
  struct tile_operand *o = &m->atom.operand[g];
  for (int i = 0; i < n; i++) {
    o->coord[i] = m->side[g].v->coord[d[i].c].origin;
    for (int j = 0; j < a->n; j++) o->coord_stride[i][j] = a->axis[j].coord[g][d[i].c];
  }
  return true;
}

// The innermost level of both is the box; the levels around it are loops.
static bool one_box(struct match *m, int g, int s, struct dimension *d, int *n)
{
  struct tile_axes inner = {0};
  for (int i = 0; i < 2; i++) {
    struct side *side = &m->side[i];
    if (!side->v->nlevels) return refuse(m, "%s is a scalar, no box", match_text(m, i));
    side->from = side->v->nlevels - 1, side->outer = side->v->nlevels;
    m->atom.operand[i].inner = side->v->level[side->from];
  }
  if (!axes_elementwise(m, false, false, &inner) || !dimensions(m, g, s, &inner, d, n)) return false;
  if (*n != m->row->n) return refuse(m, "%%%s has %d dimensions", m->side[g].b->name, *n);
  m->score++;
  sort_dimensions(d, *n);
  for (int i = 0; i < 2; i++) m->side[i].outer = m->side[i].from, m->side[i].from = 0;
  return map_of(m, g, s, d, *n);
}

bool match_boxes(struct match *m, struct tile_axes *a)
{
  int g = m->side[0].b->mem == MEM_GL ? 0 : 1, s = 1 - g, sides = m->nsides, n;
  struct dimension d[TILE_DIMS];
  m->nsides = 2; // a load's mbarrier is no tile
  bool ok = one_box(m, g, s, d, &n) && axes_elementwise(m, false, false, a) && match_modes(m, a) && box_coords(m, g, d, n, a);
  int64_t align = m->map.swizzle_bytes ? 8 * m->map.swizzle_bytes : 128;
  ok = ok && match_aligned(m, s, a, align / match_bytes(&m->side[s]));
  m->nsides = sides;
  return ok;
}
