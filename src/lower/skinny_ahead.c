// Text before the wait for the previous kernel. Nothing may be read there, because that kernel may still write it. But lines can be prefetched to the
// L2 cache: those of the first rounds of each warp. So memory is busy while the previous kernel ends and this one starts.
#include "lower/count.h"
#include "lower/skinny.h"

// Prefetches n lines by the lanes of a warp. element: text for line @line.
static void lines(struct sk_emit *e, int64_t n, const char *element)
{
  text_fill(&e->t,
            "each z:$turns\n"
            "@line = z * 32 + @tid % 32\n"
            "?part if (@line < $n) {\n"
            "Sync<prefetch.L2>($element)",
            HOLES(NULL, INT(turns, (n + 31) / 32), INT(part, n % 32), INT(n, n), STR(element, element)));
}

// If memory is contiguous along k, a step has a piece of each column. Otherwise each k has a piece of a row of columns.
static void weights(struct sk_emit *e, int i)
{
  struct arena *mem = e->p->j->mem;
  const struct sk_product *x = &e->p->product[i];
  const struct sk_take *k = &e->s->take[i];
  int unit = k->unit, step = 4 * e->s->kv;
  const struct hole *holes = HOLES(sk_product_holes(e, i), INT(pieces, MEMORY_LINE / (2 * unit)));
  const char *col = sk_weights_column(e, i, text_of(mem, k->along ? "(${sub}@line)" : "(${sub}@line / $step * $pieces)", holes));
  const char *at_k = sk_clamped(e, text_of(mem, k->along ? "(@soon * 4)" : "(@soon * $step + @line % $step)", holes), 1);
  const struct sk_coord at[] = {{&x->cols, col, !k->along}, {&e->p->k, at_k, k->along}};
  lines(e, k->along ? k->width : step * MAX(1, 2 * k->width / MEMORY_LINE), sk_element(e, &e->p->kern.v[x->w].at, unit, 2, at));
}

static void elements(struct sk_emit *e, int v)
{
  const struct kern_value *x = &e->p->kern.v[v];
  bool rows = x->axes & space_axes(&e->p->rows);
  const char *first = sk_clamped(e, text_of(e->p->j->mem, e->s->unit == e->s->kv ? "(@soon * 4)" : "(@soon * 4 * $units)", e->all), e->s->unit);
  const struct sk_coord at[] = {{&e->p->k, first, true}, {&e->p->rows, rows ? "@line" : "0", false}};
  lines(e, rows ? e->p->rows.size : 1, sk_element(e, &x->at, e->s->unit, 2, at));
}

void sk_emit_ahead(struct sk_emit *e)
{
  TEXT_SCOPE(&e->t);
  if (!e->s->ahead) return;
  text_begin(&e->t,
             "each r:$ahead\n"
             "@soon = @first + r * $turn\n"
             "?part if (@soon < $steps) {",
             HOLES(e->all, INT(ahead, e->s->ahead), INT(part, e->s->ahead * e->s->warps * e->s->split > e->s->steps)));
  for (int i = 0; i < e->p->nproducts; i++) weights(e, i);
  for (int v = 0; v < e->p->kern.nvalues; v++)
    if (sk_streams(e->p, v)) elements(e, v);
}
