// Text of what stands after the loop. Each warp has sums over its part of k; they meet in shared memory, and each thread
// finishes some items. In a cluster each block first adds up its warps' sums and writes them to where they are finished: of
// wide products to one block, of the rest, which all need, to all.
//
//   %part0[w][row, column]  sums of product 0 by warp        %stat0[w][row]   of statistic 0
//   %in0[b][row, column]    by block of the cluster          %insum0[b][row]
//   %early5                 what value 5 loads, if a thread finishes one item only: it comes while the loop runs
//   %h0[row, column]        left operand of second 0         %second7[k, column]  weights of the second that is value 7
#include "lower/skinny.h"

static void loop_threads(struct sk_emit *e, int64_t n)
{
  struct text *t = &e->t;
  text_open(t, "for (z = 0; z < %lld; z += 1) unroll", (long long)((n + e->s->threads - 1) / e->s->threads));
  text_line(t, "@it = z * %d + @tid", e->s->threads);
  text_open(t, "if (@it < %lld)", (long long)n);
}

static void loop_end(struct sk_emit *e)
{
  text_close(&e->t);
  text_close(&e->t);
}

void sk_emit_stage(struct sk_emit *e)
{
  struct text *t = &e->t;
  for (int v = 0; v < e->p->kern.nvalues; v++) {
    const struct kern_value *x = &e->p->kern.v[v];
    int own = e->p->role[v].second ? sk_staged(e->p, e->s, v) / 8 : 0;
    if (!own) continue;
    const struct sk_space *inner = &e->p->second[e->p->role[v].number].cols;
    const char *type = tile_dtype(sk_access(e->p, v)->type), *rank = e->s->by_columns ? "@rank" : "0";
    const char *col = arena_printf(e->p->j->mem, "(%s * %d + %s * %d + @it %% %d)", e->s->subs > 1 ? "@sub" : "0", e->s->cols / 8, rank, own, own);
    const char *k = arena_printf(e->p->j->mem, "(@it / %d)", own);
    const struct sk_coord at[] = {{inner, k, false}, {&e->p->cols, col, true}};
    int was = sk_text_about(e, e->p->kern.v[sk_weights(x)].about);
    text_line(t, "%%second%d:[%lld, %d].%s.SH", v, (long long)inner->size, own * 8, type);
    loop_threads(e, inner->size * own);
    text_line(t, "%%second%d.tile([1, 8])[@it / %d, @it %% %d] <- Move<cp.async><<<#grid, #me>>>(%s)", v, own, own,
              sk_element(e, sk_access(e->p, v), 8, 2, at));
    loop_end(e);
    text_line(t, "Sync<cp.commit><<<#grid, #me>>>()");
    sk_text_about(e, was);
  }
}

// ---- from the warps ----

static void leave_product(struct sk_emit *e, int i)
{
  struct text *t = &e->t;
  const struct sk_take *k = &e->s->take[i];
  int64_t rows = e->p->rows.size;
  int was = sk_text_about(e, e->p->kern.v[e->p->product[i].value].about);
  text_line(t, "%%part%d:[%d : %lld].[%lld, %d : %d, 1].fp32.SH", i, e->s->warps, (long long)(rows * (k->width + 4)), (long long)rows, k->width,
            k->width + 4);
  text_open(t, "for (n = 0; n < %d; n += 1) unroll", e->s->tiles);
  text_open(t, "for (c = 0; c < %d; c += 1) unroll", k->chunks);
  text_open(t, "for (e = 0; e < 2; e += 1) unroll");
  if (rows % 8) text_open(t, "if (n * 8 + @q * 2 + e < %lld)", (long long)rows);
  if (k->along) {
    text_open(t, "for (m = 0; m < 2; m += 1) unroll");
    text_line(t, "%%part%d[@warp][n * 8 + @q * 2 + e, c * 16 + m * 8 + @g] <- Move<<<#grid, #me>>>(%%acc%d[n, c][0][m, 0][0, e])", i, i);
    text_close(t);
  } else {
    text_line(t, "%%o:[%d].fp32.RF", k->vector);
    text_open(t, "for (j = 0; j < %d; j += 1) unroll", k->vector / 2);
    text_line(t, "%%o[j * 2] <- Move<<<#grid, #me>>>(%%acc%d[n, c][j][0, 0][0, e])", i);
    text_line(t, "%%o[j * 2 + 1] <- Move<<<#grid, #me>>>(%%acc%d[n, c][j][1, 0][0, e])", i);
    text_close(t);
    text_line(t, "%%part%d[@warp].tile([1, %d])[n * 8 + @q * 2 + e, c * 8 + @g] <- Move<<<#grid, #me>>>(%%o)", i, k->vector);
  }
  if (rows % 8) text_close(t);
  for (int n = 0; n < 3; n++) text_close(t);
  sk_text_about(e, was);
}

static void leave_statistic(struct sk_emit *e, int i)
{
  struct text *t = &e->t;
  int64_t rows = e->p->rows.size;
  int was = sk_text_about(e, e->p->kern.v[e->p->stat[i]].about);
  text_line(t, "%%sum%d <- Reduction<+><<<#grid, #quad>>>(%%sum%d)", i, i);
  text_line(t, "%%stat%d:[%d].[%lld].fp32.SH", i, e->s->warps, (long long)rows);
  text_open(t, "for (n = 0; n < %d; n += 1) unroll", e->s->tiles);
  text_open(t, "if (@q == 0 && n * 8 + @g < %lld)", (long long)rows);
  text_line(t, "%%stat%d[@warp][n * 8 + @g] <- Move<<<#grid, #me>>>(%%sum%d[n])", i, i);
  text_close(t);
  text_close(t);
  sk_text_about(e, was);
}

// ---- over the cluster ----

static const char *owner(const struct sk_emit *e, int per_row)
{
  const struct sk_shape *s = e->s;
  if (s->by_columns) return arena_printf(e->p->j->mem, "@it %% %d / %d", per_row, per_row / s->split);
  return arena_printf(e->p->j->mem, "min(@it / %lld, %d)", (long long)s->share, s->split - 1);
}

static void send_product(struct sk_emit *e, int i)
{
  struct text *t = &e->t;
  struct arena *mem = e->p->j->mem;
  const struct sk_take *k = &e->s->take[i];
  bool wide = e->p->product[i].wide;
  int vector = wide ? e->s->item : k->width % 4 ? 1 : 4, per_row = k->width / vector;
  const char *at = arena_printf(mem, ".tile([1, %d])[@it / %d, @it %% %d]", vector, per_row, per_row);
  int was = sk_text_about(e, e->p->kern.v[e->p->product[i].value].about);
  loop_threads(e, e->p->rows.size * per_row);
  text_line(t, "%%o:[%d].fp32.RF", vector);
  sk_emit_parts(e, "o", "part", i, e->s->warps, vector, at);
  if (!wide) text_open(t, "for (b = 0; b < %d; b += 1) unroll", e->s->split);
  text_line(t, "%%in%d[@rank].peer(%s)%s <- Move<<<#grid, #me>>>(%%o)", i, wide ? owner(e, per_row) : "b", at);
  if (!wide) text_close(t);
  loop_end(e);
  sk_text_about(e, was);
}

static void send_statistic(struct sk_emit *e, int i)
{
  struct text *t = &e->t;
  int was = sk_text_about(e, e->p->kern.v[e->p->stat[i]].about);
  text_open(t, "if (@tid < %lld)", (long long)e->p->rows.size);
  text_line(t, "%%o:[1].fp32.RF");
  sk_emit_parts(e, "o", "stat", i, e->s->warps, 1, ".tile([1])[@tid]");
  text_open(t, "for (b = 0; b < %d; b += 1) unroll", e->s->split);
  text_line(t, "%%insum%d[@rank].peer(b).tile([1])[@tid] <- Move<<<#grid, #me>>>(%%o)", i);
  text_close(t);
  text_close(t);
  sk_text_about(e, was);
}

void sk_emit_inbox(struct sk_emit *e)
{
  long long rows = e->p->rows.size;
  for (int i = 0; i < e->p->nproducts && e->s->split > 1; i++)
    text_line(&e->t, "%%in%d:[%d].[%lld, %d].fp32.SH", i, e->s->split, rows, e->s->take[i].width);
  for (int i = 0; i < e->p->nstats && e->s->split > 1; i++) text_line(&e->t, "%%insum%d:[%d].[%lld].fp32.SH", i, e->s->split, rows);
}

static void over_cluster(struct sk_emit *e)
{
  struct text *t = &e->t;
  text_line(t, "Sync<cluster.wait><<<#grid, #t>>>()");
  for (int i = 0; i < e->p->nproducts; i++) send_product(e, i);
  for (int i = 0; i < e->p->nstats; i++) send_statistic(e, i);
  text_line(t, "Sync<cluster.arrive><<<#grid, #t>>>()");
  text_line(t, "Sync<cluster.wait><<<#grid, #t>>>()");
}

// ---- the results ----

static void left_operands(struct sk_emit *e)
{
  struct text *t = &e->t;
  for (int i = 0; i < e->p->nseconds; i++) {
    struct sk_place at = {.from = SK_INNER + i, .width = 1};
    int64_t width = e->p->second[i].cols.size;
    text_line(t, "%%h%d:[%lld, %lld].fp32.SH", i, (long long)e->p->rows.size, (long long)width);
    loop_threads(e, e->p->rows.size * width);
    text_line(t, "@row = @it / %lld", (long long)width);
    text_line(t, "@col = @it %% %lld", (long long)width);
    sk_emit_value(e, &at, e->p->second[i].x);
    int was = sk_text_about(e, e->p->kern.v[e->p->second[i].x].about);
    text_line(t, "%%h%d.tile([1, 1])[@row, @col] <- Move<<<#grid, #me>>>(%%v%d)", i, e->p->second[i].x);
    sk_text_about(e, was);
    loop_end(e);
  }
  if (e->p->nseconds) text_line(t, "Sync<barrier><<<#grid, #t>>>()");
}

// The items that this block finishes, one after another: @row, @col and, of what the block has for itself, @own.
static void items_open(struct sk_emit *e)
{
  struct text *t = &e->t;
  const struct sk_shape *s = e->s;
  int per_row = s->cols / s->item, own = s->by_columns ? per_row / s->split : per_row;
  bool rest = !s->by_columns && s->split > 1;
  loop_threads(e, s->share);
  if (rest)
    text_line(t, "@item = @rank * %lld + @it", (long long)s->share);
  else
    text_line(t, "@item = @it");
  text_open(t, "if (@item < %lld)", (long long)s->items);
  text_line(t, "@row = @item / %d", own);
  text_line(t, "@own = @item %% %d", own);
  text_line(t, s->by_columns ? "@col = @rank * %d + @own" : "@col = @own", own);
}

static void items_end(struct sk_emit *e)
{
  text_close(&e->t);
  loop_end(e);
}

void sk_emit_early(struct sk_emit *e)
{
  struct sk_place at = {.from = SK_WIDE, .width = e->s->item};
  bool any = false;
  for (int v = 0; v < e->p->kern.nvalues && e->s->early; v++)
    if (e->p->kern.v[v].kind == KERN_LOAD && e->p->role[v].reached >> SK_WIDE & 1) sk_emit_load(e, &at, v, SK_DECLARE), any = true;
  if (!any) return;
  items_open(e);
  for (int v = 0; v < e->p->kern.nvalues; v++)
    if (e->p->kern.v[v].kind == KERN_LOAD && e->p->role[v].reached >> SK_WIDE & 1) sk_emit_load(e, &at, v, SK_MOVE);
  items_end(e);
}

static void save(struct sk_emit *e, struct sk_place *at, int i)
{
  struct text *t = &e->t;
  const struct kern_access *a = &e->p->kern.save[i].at;
  enum dtype type = e->p->j->store[a->tensor];
  int v = e->p->kern.save[i].value;
  bool has = e->p->kern.v[v].axes & sk_space_axes(&e->p->cols) || e->p->role[v].second;
  const char *col = e->s->subs == 1 ? "@col" : arena_printf(e->p->j->mem, "(@sub * %d + @col)", e->s->cols / at->width);
  const struct sk_coord to[] = {{&e->p->rows, "@row", false}, {&e->p->cols, col, true}};
  sk_emit_value(e, at, v);
  int was = sk_text_about(e, e->p->kern.save[i].about);
  if (type != F32) {
    text_line(t, "%%y%d:[%d].%s.RF", i, has ? at->width : 1, tile_dtype(type));
    text_line(t, "%%y%d <- UnaryPointwise<cast><<<#grid, #me>>>(%%v%d)", i, v);
  }
  if (!has) text_open(t, "if (@col == 0%s)", e->s->subs == 1 ? "" : " && @sub == 0");
  text_line(t, "%s <- Move<<<#grid, #me>>>(%%%c%d)", sk_element(e, a, has ? at->width : 1, has ? 2 : 1, to), type == F32 ? 'v' : 'y',
            type == F32 ? v : i);
  if (!has) text_close(t);
  sk_text_about(e, was);
}

static void results(struct sk_emit *e)
{
  struct sk_place at = {.from = SK_WIDE, .width = e->s->item};
  items_open(e);
  for (int i = 0; i < e->p->kern.nsaves; i++) save(e, &at, i);
  items_end(e);
}

void sk_emit_reduce(struct sk_emit *e)
{
  struct text *t = &e->t;
  for (int i = 0; i < e->p->nproducts; i++) leave_product(e, i);
  for (int i = 0; i < e->p->nstats; i++) leave_statistic(e, i);
  if (e->p->nseconds) text_line(t, "Sync<cp.wait, 0><<<#grid, #me>>>()");
  text_line(t, "Sync<barrier><<<#grid, #t>>>()");
  if (e->s->split > 1) over_cluster(e);
  left_operands(e);
  results(e);
}
