// Combines the parts of sums and maxima of the warps along WN. Each warp writes its registers to shared memory, and after a barrier each reads those
// of all warps. If columns are split from here on, a warp reads only its share.
#include "lower/mma.h"

static const char *meeting(const struct mma_plan *p) { return p->wg ? "work" : "t"; }

void mma_meet(struct mma_kernel *k) { text_line(k->t, "Sync<barrier>#%s()", meeting(k->p)); }

int64_t mma_combine_bytes(const struct mma_plan *p, struct mma_shape s)
{
  int64_t rows = (int64_t)p->wm * p->mt * 16;
  return 4 * p->wn * rows * (s.cols >= 0 ? p->cols[s.cols].padded : 1);
}

// For one value a row, one lane of a quad writes.
static const char *rows(struct mma_kernel *k, const char *reg, const char *op)
{
  const struct mma_plan *p = k->p;
  const char *row = arena_printf(k->mem, "%s * 16 + h * 8 + @lane / 4", mma_row_tile(p));
  int x = k->t->fresh++, one = k->t->fresh++;
  text_fill(k->t,
            "%x$x:[$wn, $all].fp32.SH\n"
            "if (@lane % 4 == 0) {\n"
            "each m:$mt h:2\n"
            "%x$x[@wn, $row] <- Move(%$reg[m, 0][h, 0][0, 0])\n"
            "}\n"
            "}\n"
            "Sync<barrier>#$who()\n"
            "%v$one:[].fp32.RF\n"
            "each m:$mt h:2\n"
            "%$reg[m, 0][h, 0][0, 0] <- Move(%x$x[0, $row])\n"
            "for (w = 1; w < $wn; w += 1) unroll {\n"
            "%v$one <- Move(%x$x[w, $row])\n"
            "%$reg[m, 0][h, 0][0, 0] <- BinaryPointwise<$op>(%$reg[m, 0][h, 0][0, 0], %v$one)",
            HOLES(NULL, STR(who, meeting(p)), INT(x, x), INT(one, one), INT(wn, p->wn), INT(all, p->wm * p->mt * 16), INT(mt, p->mt), STR(row, row),
                  STR(reg, reg), STR(op, op)));
  return reg;
}

static const char *fragments(struct mma_kernel *k, const char *reg, struct mma_shape s, bool share)
{
  const struct mma_plan *p = k->p;
  int nt = p->cols[s.cols].nt, mine = share ? nt / p->wn : nt, x = k->t->fresh++, to = k->t->fresh++;
  text_fill(k->t,
            "%x$x:[$all, 32].[2].fp32.SH\n"
            "each m:$mt n:$nt h:2\n"
            "%x$x[(((@wn * $wm + @wm) * $mt + m) * $nt + n) * 2 + h, @lane] <- Move(%$reg[m, n][h, 0])\n"
            "}\n"
            "Sync<barrier>#$who()\n"
            "%v$to:[$mt, $mine].[2, 1].[1, 2].fp32.RF <- Init<0.0>()\n"
            "each w:$wn m:$mt n:$mine h:2\n"
            "%two:[1, 2].fp32.RF <- Move(%x$x[(((w * $wm + @wm) * $mt + m) * $nt + ${first}n) * 2 + h, @lane])\n"
            "%v$to[m, n][h, 0] <- BinaryPointwise<+>(%v$to[m, n][h, 0], %two)",
            HOLES(NULL, STR(who, meeting(p)), INT(x, x), INT(to, to), INT(wn, p->wn), INT(wm, p->wm), INT(mt, p->mt), INT(nt, nt), INT(mine, mine),
                  STR(reg, reg), INT(all, p->wn * p->wm * p->mt * nt * 2), STR(first, share ? arena_printf(k->mem, "@wn * %d + ", mine) : "")));
  return arena_printf(k->mem, "v%d", to);
}

const char *mma_combine(struct mma_kernel *k, const char *reg, struct mma_shape s, const char *op, bool share)
{
  const char *all = s.cols < 0 ? rows(k, reg, op) : fragments(k, reg, s, share);
  if (k->p->wg) mma_meet(k); // no other barrier precedes the next write
  return all;
}
