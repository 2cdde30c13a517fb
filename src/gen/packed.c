// Frozen second operands of products, packed: what a kernel reads, and the text that packs it.
#include "gen/emit.h"

// Up to this number of rows, an operand with contiguous rows is read where it is, and so are contiguous columns of numbers of 16 bits.
enum { ROWS_IN_PLACE = 4 };

enum pack_order pack_order(const struct packing *p, const struct view *second, int64_t rows)
{
  const int n = second->shape.n;
  const bool small = is_half(second->dtype), along = second->stride[n - 1] == 1, across = second->stride[n - 2] == 1;
  if (rows <= ROWS_IN_PLACE && (along || (small && across))) return PACK_NONE;
  if (p->pairs && second->dtype == BF16 && (along || across)) return PACK_WORDS;
  return second->dtype == F32 || small ? PACK_F32 : PACK_NONE;
}

static bool same_operand(const struct packed_operand *x, const struct packed_operand *y)
{
  bool eq = x->input == y->input && x->order == y->order && x->rows == y->rows && x->cols == y->cols && x->row == y->row && x->col == y->col &&
            x->naxes == y->naxes;
  for (int i = 0; i < x->naxes && eq; i++)
    eq = x->axes[i].letter == y->axes[i].letter && x->axes[i].index == y->axes[i].index && x->axes[i].parts == y->axes[i].parts &&
         x->axes[i].step == y->axes[i].step;
  return eq;
}

int pack_add(struct arena *mem, struct packing *p, const struct packed_operand *x)
{
  for (int i = 0; i < p->n; i++)
    if (same_operand(&p->operands[i], x)) return i;
  PUSH(mem, p->operands, p->n, p->cap) = *x;
  return p->n - 1;
}

int64_t pack_words(const struct packed_operand *x) { return (x->order == PACK_WORDS ? (x->rows + 1) / 2 : x->rows) * ((x->cols + 15) / 16 * 16); }

int64_t pack_bytes(const struct packed_operand *x)
{
  int64_t bytes = 4 * pack_words(x);
  for (int i = 0; i < x->naxes; i++) bytes *= x->axes[i].parts;
  return bytes;
}

static const char *index_of(struct arena *mem, const struct cut_axis *a) { return arena_printf(mem, "%c%d", a->letter, a->index); }

// " + index * words" for all axes, or for those of the grid and the loop alone.
static const char *offset(struct arena *mem, const struct packed_operand *x, bool leading)
{
  const char *at = "";
  int64_t words = pack_words(x);
  for (int i = x->naxes - 1; i >= 0; words *= x->axes[i--].parts)
    if (leading || x->axes[i].letter != 'm') at = arena_printf(mem, " + %s * %lld%s", index_of(mem, &x->axes[i]), (long long)words, at);
  return at;
}

const char *pack_tile(struct arena *mem, const struct packed_operand *x, const char *base)
{
  return arena_printf(mem, "%s%s", base, offset(mem, x, false));
}

const char *pack_text(struct arena *mem, const struct packed_operand *x, const struct view *from)
{
  const char *loops = "", *src = from->ptr;
  for (int i = 0; i < x->naxes; i++) {
    const struct cut_axis *a = &x->axes[i];
    const char *name = index_of(mem, a);
    loops = arena_printf(mem, "%sfor (ptrdiff_t %s = 0; %s < %lld; %s++) ", loops, name, name, (long long)a->parts, name);
    src = arena_printf(mem, "%s + %s * %lld", src, name, (long long)a->step);
  }
  const char *by = x->order == PACK_WORDS ? "m_pack_words"
                   : from->dtype == F32   ? "m_pack_blocks"
                                          : arena_printf(mem, "m_pack_blocks_%s", dtype_name(from->dtype));
  return arena_printf(mem, "%s%s(%lld, %lld, %s, %lld, %lld, to%s, i, MICA_THREADS);", loops, by, (long long)x->rows, (long long)x->cols, src,
                      (long long)x->row, (long long)x->col, offset(mem, x, true));
}
