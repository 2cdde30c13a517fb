// Parts of sums and maxima that the warps along WN have, by way of shared memory: each writes its registers as they
// are, and after a barrier each reads those of all. Of columns that are split from then on, each reads its share.
#include "lower/mma.h"

void mma_meet(struct mma_kernel *k) { text_line(k->t, "Sync<barrier><<<#grid, #%s>>>()", k->p->wg ? "work" : "t"); }

int64_t mma_combine_bytes(const struct mma_plan *p, struct mma_shape s)
{
  int64_t rows = (int64_t)p->wm * p->mt * 16;
  return 4 * p->wn * rows * (s.cols >= 0 ? p->cols[s.cols].padded : 1);
}

// One value a row, of one lane a quad.
static const char *rows(struct mma_kernel *k, const char *reg, const char *op)
{
  const struct mma_plan *p = k->p;
  const char *x = arena_printf(k->mem, "x%d", k->t->fresh++), *one = arena_printf(k->mem, "v%d", k->t->fresh++);
  const char *row = arena_printf(k->mem, "%s * 16 + h * 8 + @lane / 4", mma_row_tile(p));
  text_line(k->t, "%%%s:[%d, %d].fp32.SH", x, p->wn, p->wm * p->mt * 16);
  text_open(k->t, "if (@lane %% 4 == 0)");
  mma_nest(k, "mh", p->mt, 2);
  text_line(k->t, "%%%s[@wn, %s] <- Move<<<#grid, #me>>>(%%%s[m, 0][h, 0][0, 0])", x, row, reg);
  mma_unnest(k, 3);
  mma_meet(k);
  text_line(k->t, "%%%s:[].fp32.RF", one);
  mma_nest(k, "mh", p->mt, 2);
  text_line(k->t, "%%%s[m, 0][h, 0][0, 0] <- Move<<<#grid, #me>>>(%%%s[0, %s])", reg, x, row);
  text_open(k->t, "for (w = 1; w < %d; w += 1) unroll", p->wn);
  text_line(k->t, "%%%s <- Move<<<#grid, #me>>>(%%%s[w, %s])", one, x, row);
  text_line(k->t, "%%%s[m, 0][h, 0][0, 0] <- BinaryPointwise<%s><<<#grid, #me>>>(%%%s[m, 0][h, 0][0, 0], %%%s)", reg, op, reg, one);
  mma_unnest(k, 3);
  return reg;
}

static const char *fragments(struct mma_kernel *k, const char *reg, struct mma_shape s, bool share)
{
  const struct mma_plan *p = k->p;
  int nt = p->cols[s.cols].nt, mine = share ? nt / p->wn : nt;
  const char *x = arena_printf(k->mem, "x%d", k->t->fresh++), *to = arena_printf(k->mem, "v%d", k->t->fresh++);
  text_line(k->t, "%%%s:[%d, 32].[2].fp32.SH", x, p->wn * p->wm * p->mt * nt * 2);
  mma_nest(k, "mnh", p->mt, nt, 2);
  text_line(k->t, "%%%s[(((@wn * %d + @wm) * %d + m) * %d + n) * 2 + h, @lane] <- Move<<<#grid, #me>>>(%%%s[m, n][h, 0])", x, p->wm, p->mt, nt, reg);
  mma_unnest(k, 3);
  mma_meet(k);
  text_line(k->t, "%%%s:[%d, %d].[2, 1].[1, 2].fp32.RF", to, p->mt, mine);
  text_line(k->t, "%%%s <- Init<0.0><<<#grid, #me>>>()", to);
  mma_nest(k, "wmnh", p->wn, p->mt, mine, 2);
  text_line(k->t, "%%two:[1, 2].fp32.RF");
  text_line(k->t, "%%two <- Move<<<#grid, #me>>>(%%%s[(((w * %d + @wm) * %d + m) * %d + %sn) * 2 + h, @lane])", x, p->wm, p->mt, nt,
            share ? arena_printf(k->mem, "@wn * %d + ", mine) : "");
  text_line(k->t, "%%%s[m, n][h, 0] <- BinaryPointwise<+><<<#grid, #me>>>(%%%s[m, n][h, 0], %%two)", to, to);
  mma_unnest(k, 4);
  return to;
}

const char *mma_combine(struct mma_kernel *k, const char *reg, struct mma_shape s, const char *op, bool share)
{
  const char *all = s.cols < 0 ? rows(k, reg, op) : fragments(k, reg, s, share);
  if (k->p->wg) mma_meet(k); // there is no other barrier before they write there again
  return all;
}
