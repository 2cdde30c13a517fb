// Text after the loop. Each warp has sums over its part of k. They are added through shared memory, and each thread finishes some items. In a
// cluster, each block first adds the sums of its warps. It writes those of wide products to the block that finishes them, and all others to every
// block, since all need them.
//
//   %part0[w][row, column]  sums of product 0, by warp       %stat0[w][row]   of statistic 0
//   %in0[b][row, column]    by block of the cluster          %insum0[b][row]
//   %early5                 the load of value 5, issued before the loop, if a thread finishes only one item
//   %h0[row, column]        left operand of second 0         %second7[k, column]  weights of the second product that is value 7
#include "lower/skinny.h"

// Opens a loop over n items, in which each thread takes its own: @it.
static void loop_threads(struct sk_emit *e, int64_t n)
{
  text_begin(&e->t,
             "each z:$turns\n"
             "@it = z * $threads + @tid\n"
             "if (@it < $n) {",
             HOLES(e->all, INT(turns, (n + e->s->threads - 1) / e->s->threads), INT(n, n)));
}

void sk_emit_stage(struct sk_emit *e)
{
  for (int v = 0; v < e->p->kern.nvalues; v++) {
    const struct kern_value *x = &e->p->kern.v[v];
    int own = e->p->role[v].second ? sk_staged(e->p, e->s, v) / 8 : 0;
    if (!own) continue;
    const struct lower_space *inner = &e->p->second[e->p->role[v].number].cols;
    const struct hole *holes = HOLES(e->all, INT(v, v), INT(own, own), INT(cols, e->s->cols / 8), INT(k, inner->size), INT(width, own * 8),
                                     STR(type, tile_dtype(sk_access(e->p, v)->type)), STR(mysub, e->s->subs > 1 ? "@sub" : "0"),
                                     STR(rank, e->s->by_columns ? "@rank" : "0"));
    const char *col = text_of(e->p->j->mem, "($mysub * $cols + $rank * $own + @it % $own)", holes);
    const struct sk_coord at[] = {{inner, text_of(e->p->j->mem, "(@it / $own)", holes), false}, {&e->p->cols, col, true}};
    TEXT_ABOUT(&e->t, e->p->kern.v[sk_weights(x)].about);
    text_fill(&e->t, "%second$v:[$k, $width].$type.SH", holes);
    int indent = e->t.indent;
    loop_threads(e, inner->size * own);
    text_fill(&e->t, "%second$v.tile([1, 8])[@it / $own, @it % $own] <- Move<cp.async>($from)",
              HOLES(holes, STR(from, sk_element(e, sk_access(e->p, v), 8, 2, at))));
    text_until(&e->t, indent);
    text_fill(&e->t, "Sync<cp.commit>()", NULL);
  }
}

// ---- from the warps ----

static void leave_product(struct sk_emit *e, int i)
{
  int64_t pitch = e->s->take[i].width + 4;
  sk_fill(e, e->p->kern.v[e->p->product[i].value].about,
          "%part$i:[$warps : $size].[$rows, $width : $pitch, 1].fp32.SH\n"
          "each n:$tiles c:$chunks e:2\n"
          "?short if (n * 8 + @q * 2 + e < $rows) {\n"
          "?along each m:2\n"
          "?along %part$i[@warp][n * 8 + @q * 2 + e, c * 16 + m * 8 + @g] <- Move(%acc$i[n, c][0][m, 0][0, e])\n"
          "?!along %o:[$vector].fp32.RF\n"
          "?!along each j:$pairs\n"
          "?!along %o[j * 2] <- Move(%acc$i[n, c][j][0, 0][0, e])\n"
          "?!along %o[j * 2 + 1] <- Move(%acc$i[n, c][j][1, 0][0, e])\n"
          "?!along }\n"
          "?!along %part$i[@warp].tile([1, $vector])[n * 8 + @q * 2 + e, c * 8 + @g] <- Move(%o)",
          HOLES(sk_product_holes(e, i), INT(pitch, pitch), INT(size, e->p->rows.size * pitch)));
}

static void leave_statistic(struct sk_emit *e, int i)
{
  sk_fill(e, e->p->kern.v[e->p->stat[i]].about,
          "%sum$i <- Reduction<+>#quad(%sum$i)\n"
          "%stat$i:[$warps].[$rows].fp32.SH\n"
          "each n:$tiles\n"
          "if (@q == 0 && n * 8 + @g < $rows) {\n"
          "%stat$i[@warp][n * 8 + @g] <- Move(%sum$i[n])",
          HOLES(e->all, INT(i, i)));
}

// ---- over the cluster ----

static void send_product(struct sk_emit *e, int i)
{
  const struct sk_shape *s = e->s;
  bool wide = e->p->product[i].wide;
  int width = s->take[i].width, vector = wide ? s->item : width % 4 ? 1 : 4, row = width / vector;
  const struct hole *holes = HOLES(e->all, INT(i, i), INT(wide, wide), INT(columns, s->by_columns), INT(vector, vector), INT(row, row),
                                   INT(own, row / s->split), INT(share, s->share), INT(last, s->split - 1));
  const char *at = text_of(e->p->j->mem, ".tile([1, $vector])[@it / $row, @it % $row]", holes);
  const char *owner = s->by_columns ? "@it % $row / $own" : "min(@it / $share, $last)";
  TEXT_ABOUT(&e->t, e->p->kern.v[e->p->product[i].value].about);
  loop_threads(e, e->p->rows.size * row);
  text_fill(&e->t, "%o:[$vector].fp32.RF", holes);
  sk_emit_parts(e, "o", "part", i, s->warps, vector, at);
  text_fill(&e->t,
            "?!wide each b:$split\n"
            "%in$i[@rank].peer($to)$at <- Move(%o)",
            HOLES(holes, STR(at, at), STR(to, wide ? text_of(e->p->j->mem, owner, holes) : "b")));
}

static void send_statistic(struct sk_emit *e, int i)
{
  TEXT_ABOUT(&e->t, e->p->kern.v[e->p->stat[i]].about);
  text_begin(&e->t, "if (@tid < $rows) {\n%o:[1].fp32.RF", e->all);
  sk_emit_parts(e, "o", "stat", i, e->s->warps, 1, ".tile([1])[@tid]");
  text_fill(&e->t, "each b:$split\n%insum$i[@rank].peer(b).tile([1])[@tid] <- Move(%o)", HOLES(e->all, INT(i, i)));
}

void sk_emit_inbox(struct sk_emit *e)
{
  text_fill(&e->t, "?unused %unused:[$unused].fp16.SH", HOLES(NULL, INT(unused, e->s->unused / 2)));
  for (int i = 0; i < e->p->nproducts; i++) text_fill(&e->t, "?cluster %in$i:[$split].[$rows, $width].fp32.SH", sk_product_holes(e, i));
  for (int i = 0; i < e->p->nstats; i++) text_fill(&e->t, "?cluster %insum$i:[$split].[$rows].fp32.SH", HOLES(e->all, INT(i, i)));
}

static void over_cluster(struct sk_emit *e)
{
  text_fill(&e->t, "Sync<cluster.wait>#t()", NULL);
  for (int i = 0; i < e->p->nproducts; i++) send_product(e, i);
  for (int i = 0; i < e->p->nstats; i++) send_statistic(e, i);
  text_fill(&e->t, "Sync<cluster.arrive>#t()\nSync<cluster.wait>#t()", NULL);
}

// ---- the results ----

static void left_operands(struct sk_emit *e)
{
  for (int i = 0; i < e->p->nseconds; i++) {
    struct sk_place at = {.from = SK_INNER + i, .width = 1};
    int x = e->p->second[i].x;
    TEXT_SCOPE(&e->t);
    const struct hole *holes = HOLES(e->all, INT(i, i), INT(x, x), INT(width, e->p->second[i].cols.size));
    text_fill(&e->t, "%h$i:[$rows, $width].fp32.SH", holes);
    loop_threads(e, e->p->rows.size * e->p->second[i].cols.size);
    text_fill(&e->t, "@row = @it / $width\n@col = @it % $width", holes);
    sk_emit_value(e, &at, x);
    sk_fill(e, e->p->kern.v[x].about, "%h$i.tile([1, 1])[@row, @col] <- Move(%v$x)", holes);
  }
  if (e->p->nseconds) text_fill(&e->t, "Sync<barrier>#t()", NULL);
}

// Opens a loop over the items that this block finishes: @row, @col and, for what each block has for itself, @own.
static void items_open(struct sk_emit *e)
{
  const struct sk_shape *s = e->s;
  const struct sk_place at = {.from = SK_WIDE, .width = s->item};
  int own = s->cols / s->item / (s->by_columns ? s->split : 1);
  loop_threads(e, s->share);
  text_begin(&e->t,
             "?rest @item = @rank * $share + @it\n"
             "?!rest @item = @it\n"
             "if (@item < $items) {\n"
             "@row = @item / $own\n"
             "@own = @item % $own\n"
             "?columns @col = @rank * $own + @own\n"
             "?!columns @col = @own\n"
             "?clipped if ($column < $exist) {",
             HOLES(e->all, INT(rest, !s->by_columns && s->split > 1), INT(columns, s->by_columns), INT(own, own), INT(items, s->items),
                   INT(share, s->share), INT(clipped, s->clipped), STR(column, sk_column(e, &at)), INT(exist, e->p->cols.size / s->item)));
}

static bool comes_early(const struct sk_emit *e, int v)
{
  return e->s->early && e->p->kern.v[v].kind == KERN_LOAD && e->p->role[v].reached >> SK_WIDE & 1;
}

void sk_emit_early(struct sk_emit *e)
{
  struct sk_place at = {.from = SK_WIDE, .width = e->s->item};
  bool any = false;
  for (int v = 0; v < e->p->kern.nvalues; v++)
    if (comes_early(e, v)) sk_emit_load(e, &at, v, SK_DECLARE), any = true;
  if (!any) return;
  TEXT_SCOPE(&e->t);
  items_open(e);
  for (int v = 0; v < e->p->kern.nvalues; v++)
    if (comes_early(e, v)) sk_emit_load(e, &at, v, SK_MOVE);
}

static void save(struct sk_emit *e, struct sk_place *at, int i)
{
  const struct kern_access *a = &e->p->kern.save[i].at;
  enum dtype type = e->p->j->store[a->tensor];
  int v = e->p->kern.save[i].value;
  bool has = e->p->kern.v[v].axes & space_axes(&e->p->cols) || e->p->role[v].second;
  const struct sk_coord to[] = {{&e->p->rows, "@row", false}, {&e->p->cols, sk_column(e, at), true}};
  sk_emit_value(e, at, v);
  sk_fill(e, e->p->kern.save[i].about,
          "?narrow %y$i:[$width].$type.RF <- UnaryPointwise<cast>(%v$v)\n"
          "?!has if (@col == 0$first) {\n"
          "?narrow $to <- Move(%y$i)\n"
          "?!narrow $to <- Move(%v$v)",
          HOLES(e->all, INT(i, i), INT(v, v), INT(has, has), INT(narrow, type != F32), INT(width, has ? at->width : 1), STR(type, tile_dtype(type)),
                STR(first, e->s->subs == 1 ? "" : " && @sub == 0"), STR(to, sk_element(e, a, has ? at->width : 1, has ? 2 : 1, to))));
}

void sk_emit_reduce(struct sk_emit *e)
{
  struct sk_place at = {.from = SK_WIDE, .width = e->s->item};
  for (int i = 0; i < e->p->nproducts; i++) leave_product(e, i);
  for (int i = 0; i < e->p->nstats; i++) leave_statistic(e, i);
  text_fill(&e->t, "?seconds Sync<cp.wait, 0>()\nSync<barrier>#t()", HOLES(NULL, INT(seconds, e->p->nseconds)));
  if (e->s->split > 1) over_cluster(e);
  left_operands(e);
  TEXT_SCOPE(&e->t);
  items_open(e);
  for (int i = 0; i < e->p->kern.nsaves; i++) save(e, &at, i);
}
