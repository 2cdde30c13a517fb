// Fragments: the registers of a thread that a tensor-core instruction takes, and the rows of eight elements that lanes address for ldmatrix and
// stmatrix. `inner` of the operand maps the number of the register element to its offset.
//
// The order of 2 x 2 matrices is seldom written in a program but follows from it. Lanes 8 to 15 address either the matrix below the first (row = lane
// % 16, usual for the left operand of mma) or the one beside it (Graphene's example). The addresses decide: an offset of eight elements along the
// contiguous dimension means beside. A fragment's contiguous dimension is that of its pairs, or the other one with .trans. If the addresses do not
// decide, the first dimension is fastest.
#include "tile/match.h"

static bool inner_of(struct match *m, int i, struct lay *inner)
{
  const struct side *s = &m->side[i];
  struct tile_axes a = {0};
  if (!axes_of_levels(m, i, s->outer, s->v->nlevels, &a)) return false;
  struct lay mode[AXES];
  for (int j = 0; j < a.n; j++) mode[j] = lay_int(m->lay, EX_C(a.axis[j].extent), a.axis[j].stride[i]);
  if (!a.n) mode[a.n++] = lay_int(m->lay, EX_C(1), EX_C(0));
  *inner = lay_tuple(m->lay, a.n, mode);
  return true;
}

// Elements of two bytes share a 32-bit register in pairs.
static bool packed(struct match *m, int i, const struct lay *inner, int count)
{
  if (match_bytes(&m->side[i]) != 2) return true;
  for (int j = 0; j + 1 < count; j += 2) {
    int64_t first = lay_call(inner, j), second = lay_call(inner, j + 1);
    if (second != first + 1 || first % 2)
      return refuse(m, "elements %d and %d of the fragment %s do not share a 32-bit register: their offsets are %lld and %lld", j, j + 1,
                    match_text(m, i), (long long)first, (long long)second);
  }
  return true;
}

static const char *pattern_text(struct match *m, const struct instr_operand *want)
{
  struct str s = {0};
  for (int l = 0; l < want->nlevels; l++) {
    str_add(&s, l ? ".[" : "[");
    for (int d = 0; d < want->rank; d++) str_add(&s, d ? ",%d" : "%d", (int)want->extent[l][d]);
    str_add(&s, "]");
  }
  return str_keep(m->lay->mem, &s);
}

static bool has_shape(struct match *m, const struct side *s, const struct instr_operand *want)
{
  if (s->v->nlevels < want->nlevels) return false;
  for (int l = 0; l < want->nlevels; l++) {
    struct lay level = s->v->level[s->v->nlevels - want->nlevels + l];
    if (lay_rank(level) != want->rank) return false;
    for (int d = 0; d < want->rank; d++)
      if (lay_size(m->lay, lay_mode(level, d)) != EX_C(want->extent[l][d])) return false;
  }
  return true;
}

bool match_fragment(struct match *m, int i, const struct instr_operand *want)
{
  struct side *s = &m->side[i];
  if (!has_shape(m, s, want)) return refuse(m, "%s does not end in a fragment %s", match_text(m, i), pattern_text(m, want));
  s->outer = s->v->nlevels - want->nlevels;
  struct lay plain, by_number, inner;
  if (!inner_of(m, i, &plain)) return false;
  if (!lay_right_inverse(m->lay, want->order, &by_number) || !lay_compose(m->lay, plain, by_number, &inner))
    return refuse(m, "%s is laid out in a way that its fragment cannot have: %s", match_text(m, i), m->lay->why);
  m->atom.operand[i].inner = inner;
  return packed(m, i, &inner, want->count);
}

bool match_mats(struct match *m, int i, const struct instr_operand *want)
{
  struct side *s = &m->side[i];
  int n = s->v->nlevels;
  int64_t mats = want->extent[0][0], have = 1;
  if (!n || lay_size(m->lay, s->v->level[n - 1]) != EX_C(2))
    return refuse(m, "the innermost level of %s is not the pair of elements that a lane has of a matrix", match_text(m, i));
  for (s->outer = n - 1; have < mats && s->outer > 0; s->outer--) {
    ex size = lay_size(m->lay, s->v->level[s->outer - 1]);
    if (!ex_is_const(size)) break;
    have *= ex_value(size);
  }
  if (have != mats) return refuse(m, "%s does not count %d matrices", match_text(m, i), (int)mats);
  struct lay *inner = &m->atom.operand[i].inner;
  return inner_of(m, i, inner) && packed(m, i, inner, want->count);
}

bool match_row(struct match *m, int i)
{
  struct side *s = &m->side[i];
  struct tile_axes a = {0};
  s->outer = s->v->nlevels ? s->v->nlevels - 1 : 0;
  if (!axes_of_levels(m, i, s->outer, s->v->nlevels, &a)) return false;
  axes_merge(m, &a);
  if (a.n != 1 || a.axis[0].extent != 8 || a.axis[0].stride[i] != EX_C(1))
    return refuse(m, "%s does not end in a row of 8 contiguous elements", match_text(m, i));
  return true;
}

// The dimensions of two matrices each, in the order in which `inner` counts them. False if there are not exactly two.
static bool two_by_two(struct match *m, int mats, int *first, int *second)
{
  const struct side *s = &m->side[mats];
  int found = 0, *out[2] = {first, second};
  for (int l = s->v->nlevels - 2; l >= s->outer; l--)
    for (int d = 0; d < lay_rank(s->v->level[l]); d++) {
      ex size = lay_size(m->lay, lay_mode(s->v->level[l], d));
      if (size == EX_C(1)) continue;
      if (size != EX_C(2) || found == 2) return false;
      *out[found++] = d;
    }
  return found == 2;
}

// Whether the addresses of lane `lane` are eight elements after those of lane 0, in every warp.
static bool beside(struct match *m, int row, int lane)
{
  struct ex_pool *p = m->ex;
  ex at = lower_expand(m->l, m->side[row].v->offset), tid = m->l->k->tid;
  ex warp = ex_mul(p, ex_var(p, "warp", 0, TILE_THREADS / 32 - 1, 1), EX_C(32));
  ex moved = ex_subst(p, at, tid, ex_add(p, warp, EX_C(lane)));
  return ex_sub(p, moved, ex_subst(p, at, tid, warp)) == EX_C(8);
}

void match_count_mats(struct match *m, int mats, int row)
{
  const struct side *s = &m->side[mats];
  struct lay pair = s->v->level[s->v->nlevels - 1], *inner = &m->atom.operand[mats].inner;
  int first, second;
  if (lay_rank(pair) != 2 || m->row->n != 4 || lay_rank(*inner) != 3 || !two_by_two(m, mats, &first, &second)) return;
  int paired = lay_size(m->lay, lay_mode(pair, 0)) == EX_C(2) ? 0 : 1, contiguous = m->row->trans ? 1 - paired : paired;
  bool one = beside(m, row, 8), other = beside(m, row, 16);
  if (one == other || first == second) return;
  if ((one ? first : second) == contiguous) return;
  struct lay swapped[] = {lay_mode(*inner, 0), lay_mode(*inner, 2), lay_mode(*inner, 1)};
  *inner = lay_tuple(m->lay, 3, swapped);
}
