// Products by wgmma, operands by descriptors where they lie, and their pipelines over iterations.
#include "lower/wgmma.h"

// ---- the ring ----

void wgmma_stage(struct mma_kernel *k, const struct wg_plan *w)
{
  if (w->walks) text_line(k->t, "@n = round * %lld + it", (long long)k->p->iterations);
  else text_line(k->t, "@n = it");
  text_line(k->t, "@stage = @n %% %d", k->p->stages);
}

// Of the last iteration of an item.
const char *wgmma_last_stage(struct mma_kernel *k)
{
  const struct mma_plan *p = k->p;
  long long n = p->iterations;
  if (*p->wg_copy == '0') return arena_printf(k->mem, "%lld", (n - 1) % p->stages);
  return arena_printf(k->mem, "(round * %lld + %lld) %% %d", n, n - 1, p->stages);
}

void wgmma_release(struct mma_kernel *k, const char *who, const char *which)
{
  text_open(k->t, "if (%s)", who);
  text_line(k->t, "Sync<mbar.arrive><<<#grid, #me>>>(%%empty[%s])", which);
  text_close(k->t);
}

// ---- products ----

static const char *right_view(struct mma_kernel *k, const struct mma_product *x, const char *of_ring)
{
  const struct mma_tile *t = &k->p->tile[k->p->tile_of[x->b]];
  const char *stage = t->varying ? of_ring : t->slot >= 0 ? mma_stage(k->p, t) : k->p->wg_copy;
  long long n = k->p->cols[x->out_cols].size;
  if (mma_list_has(&t->in) == x->cols) return arena_printf(k->mem, "%%s%d[%s].tile([16, _])[s, 0]", t->buffer, stage);
  return arena_printf(k->mem, "%%s%d[%s].tile([_, 16])[0, s].reshape(0, [16, %lld : %lld, 1])", t->buffer, stage, n, n);
}

static const char *left_view(struct mma_kernel *k, const struct mma_product *x)
{
  int tile = k->p->tile_of[x->a];
  if (tile < 0 || k->left[x->a] || mma_keeps_left(k->p, x)) return arena_printf(k->mem, "%%%s[m, s]", mma_left(k, x->a, x->sum_cols));
  const struct mma_tile *t = &k->p->tile[tile];
  const char *stage = t->varying ? "@stage" : k->p->wg_copy;
  const char *rows = k->p->mt > 1 ? arena_printf(k->mem, "@g * %d + m", k->p->mt) : "@g";
  if (!t->turned) return arena_printf(k->mem, "%%s%d[%s].tile([64, 16])[%s, s]", t->tensor, stage, rows);
  return arena_printf(k->mem, "%%s%d[%s].tile([16, 64])[s, %s].reshape(0, [64, 16 : 16, 1])", t->tensor, stage, rows);
}

void wgmma_commit(struct mma_kernel *k) { text_line(k->t, "Sync<wgmma.commit><<<#grid, #group>>>()"); }

void wgmma_wait(struct mma_kernel *k, int left) { text_line(k->t, "Sync<wgmma.wait, %d><<<#grid, #group>>>()", left); }

static void multiply(struct mma_kernel *k, const struct mma_product *x, const char *left, const char *right, const char *into)
{
  text_open(k->t, "for (s = 0; s < %lld; s += 1) unroll", (long long)k->p->cols[x->sum_cols].size / 16);
  text_open(k->t, "for (m = 0; m < %d; m += 1) unroll", k->p->mt);
  text_line(k->t, "%%%s%s <- MatMul<wgmma%s><<<#grid, #group>>>(%s, %s)", into, k->p->mt > 1 ? "[m, _]" : "", x->into >= 0 ? "" : ", s", left, right);
  text_close(k->t), text_close(k->t);
}

void wgmma_product(struct mma_kernel *k, const struct mma_product *x, const char *into)
{
  const char *left = left_view(k, x), *right = right_view(k, x, "@stage");
  const struct mma_tile *t = &k->p->tile[k->p->tile_of[x->b]];
  wgmma_queue_arrive(k, t);
  text_line(k->t, "Sync<wgmma.fence><<<#grid, #group>>>()");
  multiply(k, x, left, right, into);
  if (k->p->wg_async) return;
  wgmma_commit(k);
  wgmma_wait(k, 0);
  wgmma_queue_leave(k, t);
}

// ---- chains ----

static const char *begin_first(struct mma_kernel *k, const struct wg_plan *w)
{
  const char *into = mma_declare(k, k->p->shape[w->first->out], "fp32");
  multiply(k, w->first, left_view(k, w->first), right_view(k, w->first, "@stage"), into);
  wgmma_commit(k);
  return k->reg[w->first->out] = into;
}

// What is computed from the first product; then its result rounded for the second.
static void between(struct mma_kernel *k, const struct wg_plan *w)
{
  const struct mma_plan *p = k->p;
  const struct graph *b = p->n->block;
  k->section = MMA_LOOP;
  for (int i = 0; i < b->nnodes; i++)
    if (p->section[i] == MMA_LOOP && op_rows[b->nodes[i].op].rule != RULE_CONST && i != w->first->node && i != w->second->node && i != w->second->into)
      mma_node(k, i);
}

static void round_left(struct mma_kernel *k, const struct wg_plan *w, const char *left)
{
  const struct mma_plan *p = k->p;
  text_open(k->t, "for (n = 0; n < %d; n += 1) unroll", p->cols[w->second->sum_cols].nt);
  text_open(k->t, "for (h = 0; h < 2; h += 1) unroll");
  text_line(k->t, "%%%s[0, n / 2][h, n %% 2] <- UnaryPointwise<cast><<<#grid, #me>>>(%%%s[0, n][h, 0])", left, k->reg[w->second->a]);
  text_close(k->t), text_close(k->t);
}

static void rescale(struct mma_kernel *k, const struct wg_plan *w)
{
  const struct node *n = &k->p->n->block->nodes[w->second->into];
  const char *sum = k->reg[n->out];
  if (n->nin < 2) return;
  text_line(k->t, "%%%s <- BinaryPointwise<*><<<#grid, #me>>>(%%%s, %%%s)", sum, sum, k->reg[k->p->n->t[n->in[1]].root]);
}

static void second_product(struct mma_kernel *k, const struct wg_plan *w, const char *left, const char *stage_text)
{
  const char *sum = k->reg[k->p->n->block->nodes[w->second->into].out];
  multiply(k, w->second, arena_printf(k->mem, "%%%s[m, s]", left), right_view(k, w->second, stage_text), sum);
  wgmma_commit(k);
}

static void fence(struct mma_kernel *k) { text_line(k->t, "Sync<wgmma.fence><<<#grid, #group>>>()"); }

void wgmma_chain(struct mma_kernel *k, const struct wg_plan *w)
{
  const struct mma_plan *p = k->p;
  long long n = p->iterations;
  const char *left = arena_printf(k->mem, "a%d", k->t->fresh++);
  text_line(k->t, "%%%s:[1, %d].[2, 2].[1, 2].%s.RF", left, p->cols[w->second->sum_cols].nt / 2, tile_dtype(p->type));
  struct mma_known known = mma_remember(k);
  text_open(k->t, "for (it = 0; it < 1; it += 1)");
  wgmma_stage(k, w);
  text_line(k->t, "Sync<mbar.wait, @n / %d %% 2><<<#grid, #me>>>(%%full[@stage])", p->stages);
  fence(k);
  begin_first(k, w);
  wgmma_wait(k, 0);
  between(k, w);
  round_left(k, w, left);
  text_close(k->t);
  mma_forget(k, &known), known = mma_remember(k);
  text_open(k->t, "for (it = 1; it < %lld; it += 1)", n);
  wgmma_stage(k, w);
  text_line(k->t, "@last = (@n + %d) %% %d", p->stages - 1, p->stages);
  text_line(k->t, "Sync<mbar.wait, @n / %d %% 2><<<#grid, #me>>>(%%full[@stage])", p->stages);
  fence(k);
  begin_first(k, w);
  second_product(k, w, left, "@last");
  wgmma_wait(k, 1);
  between(k, w);
  wgmma_wait(k, 0);
  wgmma_release(k, "@i == 0", "@last");
  rescale(k, w);
  round_left(k, w, left);
  text_close(k->t);
  mma_forget(k, &known);
  fence(k);
  second_product(k, w, left, wgmma_last_stage(k));
  wgmma_wait(k, 0);
  if (w->walks) wgmma_release(k, "@i == 0", wgmma_last_stage(k));
}
