// Text of what comes before the wait for the kernel ahead. Nothing may be read there, because that kernel may still write
// it; but lines of memory may be on their way to the L2 cache: those of the first rounds of each warp. So the memory has work
// while the kernel ahead ends and the launch is under way.
#include "lower/count.h"
#include "lower/skinny.h"

// n lines, by the lanes of a warp: `element` is text for line @line.
static void lines(struct sk_emit *e, int64_t n, const char *element)
{
  struct text *t = &e->t;
  text_open(t, "for (z = 0; z < %lld; z += 1) unroll", (long long)((n + 31) / 32));
  text_line(t, "@line = z * 32 + @tid %% 32");
  if (n % 32) text_open(t, "if (@line < %lld)", (long long)n);
  text_line(t, "Sync<prefetch.L2><<<#grid, #me>>>(%s)", element);
  if (n % 32) text_close(t);
  text_close(t);
}

// Along k a step has a piece of each column; else each k a piece of a row of columns.
static void weights(struct sk_emit *e, int i)
{
  const struct sk_product *x = &e->p->product[i];
  const struct sk_take *k = &e->s->take[i];
  struct arena *mem = e->p->j->mem;
  int unit = k->along ? e->s->kv : k->vector, step = 4 * e->s->kv, bytes = 2 * unit;
  int64_t per_row = k->along ? 1 : MAX(1, 2 * k->width / MEMORY_LINE);
  const char *sub = x->wide && e->s->subs > 1 ? arena_printf(mem, "@sub * %d + ", k->width / (k->along ? 1 : unit)) : "";
  const struct sk_coord along[] = {{&x->cols, arena_printf(mem, "(%s@line)", sub), false}, {&e->p->k, "(@soon * 4)", true}};
  const struct sk_coord across[] = {{&x->cols, arena_printf(mem, "(%s@line / %d * %d)", sub, step, MEMORY_LINE / bytes), true},
                                    {&e->p->k, arena_printf(mem, "(@soon * %d + @line %% %d)", step, step), false}};
  lines(e, k->along ? k->width : step * per_row, sk_element(e, &e->p->kern.v[x->w].at, unit, 2, k->along ? along : across));
}

static void elements(struct sk_emit *e, int v)
{
  const struct kern_value *x = &e->p->kern.v[v];
  bool rows = x->axes & sk_space_axes(&e->p->rows);
  const struct sk_coord at[] = {{&e->p->k, "(@soon * 4)", true}, {&e->p->rows, rows ? "@line" : "0", false}};
  lines(e, rows ? e->p->rows.size : 1, sk_element(e, &x->at, e->s->kv, 2, at));
}

void sk_emit_ahead(struct sk_emit *e)
{
  struct text *t = &e->t;
  int turn = e->s->warps * e->s->split;
  if (!e->s->ahead) return;
  text_open(t, "for (r = 0; r < %d; r += 1) unroll", e->s->ahead);
  text_line(t, "@soon = @first + r * %d", turn);
  bool always = (int64_t)e->s->ahead * turn <= e->s->steps;
  if (!always) text_open(t, "if (@soon < %lld)", (long long)e->s->steps);
  for (int i = 0; i < e->p->nproducts; i++) weights(e, i);
  for (int v = 0; v < e->p->kern.nvalues; v++)
    if (sk_streams(e->p, v)) elements(e, v);
  if (!always) text_close(t);
  text_close(t);
}
