// Where operands are: indices of elements as expressions, shared addresses, descriptors of wgmma. A swizzle changes only
// low bits of an index, so what is a multiple of all that it looks at stays outside of it, and pieces of an unrolled
// loop differ by constants in the address.
#include "cuda/cu_print.h"

#include <stdlib.h>

static struct ex_pool *pool(struct printer *w) { return w->p->ex; }

ex cu_index(struct printer *w, const struct tile_operand *o, const ex *modes, int nmodes)
{
  ex x = o->offset;
  for (int i = 0; i < nmodes; i++) x = ex_add(pool(w), x, ex_mul(pool(w), o->stride[i], modes[i]));
  return x;
}

ex cu_guard(struct printer *w, const struct tile_operand *o, const ex *modes, int nmodes)
{
  ex all = EX_C(1);
  for (int i = 0; i < o->nguards; i++) {
    const struct tile_guard *g = &o->guard[i];
    ex x = g->value;
    for (int j = 0; j < nmodes; j++) x = ex_add(pool(w), x, ex_mul(pool(w), g->stride[j], modes[j]));
    all = ex_both(pool(w), all, ex_lt(pool(w), x, g->limit));
  }
  return all;
}

// The terms of x that are multiples of `span`, as a sum.
static ex whole_spans(struct printer *w, ex x, int64_t span)
{
  if (ex_is_const(x)) return EX_C(ex_value(x) / span * span);
  const struct ex_node *n = ex_node(pool(w), x);
  if (n->kind != EX_SUM) return ex_divides(pool(w), EX_C(span), x) ? x : EX_C(0);
  ex r = EX_C(n->c / span * span);
  for (int i = 0; i < n->n; i++) {
    ex t = ex_mul(pool(w), EX_C(n->coef[i]), n->arg[i]);
    if (ex_divides(pool(w), EX_C(span), t)) r = ex_add(pool(w), r, t);
  }
  return r;
}

static ex swizzled(struct printer *w, int buf, ex index)
{
  struct swizzle s = w->k->buffers[buf].swizzle;
  if (!s.bits) return index;
  int from = s.base + MAX(0, s.shift), to = s.base + MAX(0, -s.shift); // bits looked at, bits changed
  ex outside = whole_spans(w, index, (int64_t)1 << (s.base + abs(s.shift) + s.bits)), x = ex_sub(pool(w), index, outside);
  ex key = ex_mod(pool(w), ex_div(pool(w), x, EX_C((int64_t)1 << from)), EX_C((int64_t)1 << s.bits));
  return ex_add(pool(w), outside, ex_xor(pool(w), x, ex_mul(pool(w), key, EX_C((int64_t)1 << to))));
}

const char *cu_element(struct printer *w, int buf, ex index)
{
  return arena_printf(w->mem, "%s[%s]", w->buffers[buf], cu_value(w, swizzled(w, buf, index), L_ANY));
}

// The address of an element, not a sum of addresses: so the compiler keeps the index apart and its bits together.
// Boxes of TMA and matrices of wgmma are swizzled by the hardware, by the address of each element.
const char *cu_shared(struct printer *w, const struct tile_operand *o, ex index, bool swizzle)
{
  const char *element = swizzle ? cu_element(w, o->buf, index)
                                : arena_printf(w->mem, "%s[%s]", w->buffers[o->buf], cu_value(w, index, L_ANY));
  const char *text = arena_printf(w->mem, "mica_shared(&%s)", element);
  ex peer = w->k->views[o->view].peer;
  return peer == EX_C(-1) ? text : arena_printf(w->mem, "mica_peer(%s, %s)", text, cu_value(w, peer, L_ANY));
}

// ---- wgmma ----

// A matrix in shared memory as wgmma sees it: rows (m or n) by k, and how far apart its pieces lie, in elements. A piece is
// 8 elements of 16 bytes in all by 8; where k is contiguous the 8 are along k, else along the rows.
struct matrix {
  const struct lay *in;
  int rows;
  bool a, rows_contiguous;
  int span; // contiguous elements that a swizzle covers: 8 (none), 16, 32, 64
  int64_t leading, stride;
};

static int64_t matrix_at(const struct matrix *m, int row, int k)
{
  return lay_call(m->in, m->a ? row + (int64_t)m->rows * k : k + (int64_t)16 * row);
}

// Where the instruction looks for an element.
static int64_t matrix_expected(const struct matrix *m, int row, int k)
{
  int span = m->span;
  if (!m->rows_contiguous && span == 8) return k % 8 + k / 8 * m->leading + row % 8 * 8 + row / 8 * m->stride;
  if (!m->rows_contiguous) return k + row % 8 * span + row / 8 * m->stride;
  if (span == 8) return row % 8 + row / 8 * m->stride + k % 8 * 8 + k / 8 * m->leading;
  return row % span + row / span * m->leading + k % 8 * span + k / 8 * m->stride;
}

static struct matrix matrix_of(const struct printer *w, const struct tile_atom *a, int operand)
{
  const struct tile_operand *o = &a->operand[operand];
  struct swizzle s = w->k->buffers[o->buf].swizzle;
  struct matrix m = {.in = &o->inner, .a = operand == a->nout, .span = 8 << s.bits};
  m.rows = m.a ? a->row->m : a->row->n;
  m.rows_contiguous = matrix_at(&m, 0, 1) != 1;
  bool far_rows = m.rows > (m.rows_contiguous ? m.span : 8);
  int64_t by_rows = far_rows ? matrix_at(&m, m.rows_contiguous ? m.span : 8, 0) : 0, by_k = matrix_at(&m, 0, 8);
  bool wide_rows = m.rows_contiguous && m.span > 8;
  m.leading = wide_rows ? by_rows : by_k, m.stride = wide_rows ? by_k : by_rows;
  if (!m.rows_contiguous && m.span > 8) m.leading = 8; // the instruction does not look at it
  return m;
}

bool cu_transposed(struct printer *w, const struct tile_atom *a, int operand)
{
  return matrix_of(w, a, operand).rows_contiguous;
}

const char *cu_descriptor(struct printer *w, const struct tile_atom *a, int operand, ex index)
{
  const struct tile_operand *o = &a->operand[operand];
  struct matrix m = matrix_of(w, a, operand);
  struct swizzle s = w->k->buffers[o->buf].swizzle;
  bool legal = !s.bits || (s.bits <= 3 && s.base == 3 && s.shift == 3);
  for (int row = 0; row < m.rows && legal; row++)
    for (int k = 0; k < 16 && legal; k++) legal = matrix_at(&m, row, k) == matrix_expected(&m, row, k);
  if (!legal) {
    err_set(w->e, ERR_TILE, w->k->buffers[o->buf].at, "%%%s: wgmma can not read a matrix that lies so in shared memory",
            w->k->buffers[o->buf].name);
    err_hint(w->e, "k or the rows contiguous over a whole swizzle span (16, 32 or 64 elements of 2 bytes with swizzle(1,3,3), "
                   "(2,3,3), (3,3,3)), 8 rows of a span one after another");
    return NULL;
  }
  static const uint64_t modes[4] = {0, 3, 2, 1}; // by bits of the swizzle: none, 32, 64, 128 bytes
  uint64_t rest = (uint64_t)(m.leading * 2 >> 4 & 0x3fff) << 16 | (uint64_t)(m.stride * 2 >> 4 & 0x3fff) << 32 | modes[s.bits] << 62;
  return arena_printf(w->mem, "mica_matrix(%s, 0x%llxull)", cu_shared(w, o, index, false), (unsigned long long)rest);
}
