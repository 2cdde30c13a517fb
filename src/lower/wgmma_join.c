// The text of blocks that share the sum of an item (wgmma_split.c). Accumulators go to other blocks as the fragments of a thread:
//
//   %in5[q][j, i]  accumulator 5 of the q-th other block: fragment j of thread i of a warpgroup
//
// This memory is no part of the ring, so a block writes as soon as its own loop has ended. It only has to know that the other blocks have begun. After
// one barrier of the cluster each block has all parts in its own memory, so blocks may end there. Threads come to it after their loop, so it also ends
// what blocks of a pair do in each other's memory: their tiles have arrived, and all stages are released.
#include "lower/wgmma.h"

const char *wgmma_split_bounds(struct mma_kernel *k, const struct wg_plan *w)
{
  const long long n = k->p->iterations;
  const int split = w->split;
  text_line(k->t, "@rank = @first%s %% %d", w->pair_axis >= 0 ? " / 2" : "", split);
  if (n % split)
    text_line(k->t, "@from = @rank * %lld / %d\n@count = (@rank + 1) * %lld / %d - @from", n, split, n, split);
  else
    text_line(k->t, "@from = @rank * %lld\n@count = %lld", n / split, n / split);
  return arena_printf(k->mem, "(@first / %d)", split);
}

// For slices of columns, nt counts those of one slice, and block `o` gets slice number `o` of them; else block @owner gets all.
static const struct hole *holes_of(struct mma_kernel *k, const struct wg_plan *w, int v)
{
  const struct mma_plan *p = &w->p;
  const struct mma_shape s = p->shape[v];
  const int mt = s.rows ? p->mt : 1, nt = s.cols >= 0 ? p->cols[s.cols].nt / w->slices : 1;
  const bool sliced = w->slices > 1;
  const char *to = sliced ? "o" : "@owner";
  return KEPT_HOLES(k->mem, NULL, INT(v, v), STR(reg, k->reg[v] ? k->reg[v] : ""), INT(mt, mt), INT(nt, nt), INT(h, s.rows ? 2 : 1),
                    INT(e, s.cols >= 0 ? 2 : 1), INT(others, w->split - 1), INT(all, wgmma_own_groups(w) * mt * nt), INT(split, w->split),
                    INT(sliced, sliced), STR(to, to), STR(peer, wgmma_pair_peer(k, w, to, "@half")),
                    STR(tile, sliced && s.cols >= 0 ? arena_printf(k->mem, "o * %d + n", nt) : "n"),
                    STR(at, arena_printf(k->mem, "(%s * %d + m) * %d + n", sliced ? "@g" : arena_printf(k->mem, "@g / %d", w->split), mt, nt)));
}

void wgmma_split_declare(struct mma_kernel *k, const struct wg_plan *w)
{
  const struct mma_plan *p = k->p;
  for (int i = 0; i < p->norder && w->split; i++)
    if (mma_accumulates(p, p->order[i])) text_fill(k->t, "%in$v:[$others].[$all, 128].[$h, 1].[1, $e].fp32.SH", holes_of(k, w, p->order[i]));
}

// The other blocks may write once all have begun. Pairs have met before.
void wgmma_split_begin(struct mma_kernel *k, const struct wg_plan *w)
{
  if (w->split && w->pair_axis < 0) text_line(k->t, "Sync<cluster.arrive.relaxed>#t()");
}

static void await_begin(struct mma_kernel *k, const struct wg_plan *w)
{
  if (w->pair_axis < 0) text_line(k->t, "Sync<cluster.wait>#group()");
}

static void meet(struct mma_kernel *k) { text_line(k->t, "Sync<cluster.arrive>#group()\nSync<cluster.wait>#group()"); }

static void send(struct mma_kernel *k, const struct wg_plan *w, int v)
{
  text_fill(k->t,
            "?sliced each o:$split\n"
            "if ($to != @rank) {\n"
            "each m:$mt n:$nt\n"
            "%in$v[@rank - (@rank > $to)].peer($peer)[$at, @i] <- Move(%$reg[m, $tile])",
            holes_of(k, w, v));
}

// This block's slice of the columns, in registers of its own.
static void keep_slice(struct mma_kernel *k, const struct wg_plan *w, int v)
{
  const char *own = mma_declare(k, k->p->shape[v], "fp32");
  text_fill(k->t,
            "each o:$split\n"
            "if (o == @rank) {\n"
            "each m:$mt n:$nt\n"
            "%$own[m, n] <- Move(%$reg[m, $tile])",
            HOLES(holes_of(k, w, v), STR(own, own)));
  k->reg[v] = own;
}

static void receive(struct mma_kernel *k, const struct wg_plan *w, int v)
{
  if (w->slices > 1 && k->p->shape[v].cols >= 0) keep_slice(k, w, v);
  text_fill(k->t,
            "each q:$others m:$mt n:$nt\n"
            "%other:[$h, 1].[1, $e].fp32.RF\n"
            "%other <- Move(%in$v[q][$at, @i])\n"
            "%$reg[m, n] <- BinaryPointwise<+>(%$reg[m, n], %other)",
            holes_of(k, w, v));
}

static void each_sum(struct mma_kernel *k, const struct wg_plan *w, void (*emit)(struct mma_kernel *, const struct wg_plan *, int))
{
  for (int i = 0; i < k->p->norder; i++) {
    const int v = k->p->order[i];
    if (!mma_accumulates(k->p, v)) continue;
    TEXT_ABOUT(k->t, mma_at(k->p, v)->about);
    emit(k, w, v);
  }
}

// From here on the plan has the columns of one slice. Loads of whole rows are repeated.
static void slice_plan(struct mma_kernel *k, const struct wg_plan *w)
{
  const struct mma_plan *whole = k->p;
  struct mma_plan *p = arena_copy(k->mem, whole, sizeof *p);
  for (int c = 0; c < p->ncols; c++) {
    if (!wgmma_is_sliced(whole, c)) continue;
    const int all = p->cols[c].nt, nt = p->cols[c].nt /= w->slices;
    p->cols[c].from = p->cols[c].split ? arena_printf(k->mem, "@wn * %d + @rank * %d", all, nt) : arena_printf(k->mem, "@rank * %d", nt);
  }
  for (int v = 0; v < p->k.nvalues; v++)
    if (mma_loads(p, v) && k->reg[v] && wgmma_is_sliced(whole, k->have[v].cols)) k->reg[v] = NULL;
  k->p = p;
}

void wgmma_split_join(struct mma_kernel *k, const struct wg_plan *w)
{
  if (!w->split) return;
  await_begin(k, w);
  if (w->slices == 1) text_line(k->t, "@owner = @g %% %d", w->split);
  each_sum(k, w, send);
  meet(k);
  if (w->slices > 1)
    slice_plan(k, w);
  else
    text_open(k->t, "if (@owner == @rank) {");
  each_sum(k, w, receive);
}

void wgmma_split_accompany(struct mma_kernel *k, const struct wg_plan *w)
{
  if (!w->split) return;
  await_begin(k, w);
  meet(k);
}
