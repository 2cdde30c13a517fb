// The scheme of products by wgmma. One warp of the last warpgroup brings tiles by TMA, as many ahead as there are stages; each
// of the others makes 64 rows. A stage is handed over by two mbarriers: full when its bytes are there, empty when every
// warpgroup has done with it.
#include "lower/wgmma.h"

#include <math.h>
#include <string.h>

enum wg_knob { WG_GROUPS, WG_STAGES, WG_BLOCKS };
enum { WG_MOST = 4 };
// Registers of a thread that computes, and of one that brings tiles, by warpgroups that compute: together no more than the
// block has when it starts, (65536 / threads) rounded down to 8 for each.
static const int computing[WG_MOST + 1] = {0, 255, 232, 160, 112}, most_estimated[WG_MOST + 1] = {0, 255, 224, 144, 100}, bringing[WG_MOST + 1] = {0, 0, 40, 32, 24};

struct wg_plan {
  struct mma_plan p;
  struct box box[MMA_TILES];
  int groups;
  int64_t blocks, items; // launched, and of the block graph
  bool walks;            // blocks walk over items, since there are more of these
  bool any_fixed, any_varying;
  const struct mma_product *first, *second; // of a chain that runs across iterations, or NULL
};

// ---- the plan ----

// Of a tile that does not change with the loop; the copy of this item.
static int fixed_copies(const struct wg_plan *w) { return w->walks ? 2 : 1; }
static const char *fixed_copy(const struct wg_plan *w) { return w->walks ? "round % 2" : "0"; }

// Is the tile read by others than products?
static bool reads_tile(const struct mma_plan *p, const struct mma_tile *t)
{
  int products = 0;
  for (int i = 0; i < p->nproducts; i++) products += (p->product[i].a == t->tensor) + (p->product[i].b == t->tensor);
  return p->n->uses[t->tensor] > products;
}

static bool plan(struct wg_plan *w, const struct lower_job *j, char why[160])
{
  struct mma_plan *p = &w->p;
  if (!mma_plan(p, j, why)) return false;
  p->why = why, p->wg = true, w->any_fixed = w->any_varying = false;
  if (p->nsides) return mma_refuse(p, "the right operand of a product is computed");
  if (p->nbatch > 1) return mma_refuse(p, "right operands differ among the rows of a block");
  if (p->nrows % 64) return mma_refuse(p, "%lld rows, no multiple of 64", (long long)p->nrows);
  for (int i = 0; i < p->nproducts; i++)
    if (p->cols[p->product[i].out_cols].size > 256) return mma_refuse(p, "a product of more than 256 columns");
  for (int i = 0; i < p->ntiles; i++) {
    struct mma_tile *t = &p->tile[i];
    if (!box_make(p, t, &w->box[i])) return false;
    t->stride = t->cols;
    t->swizzle[0] = w->box[i].chunk == 64 ? 3 : w->box[i].chunk == 32 ? 2 : 1, t->swizzle[1] = t->swizzle[2] = 3;
    *(t->varying ? &w->any_varying : &w->any_fixed) = true;
  }
  return true;
}

// Does the loop nothing but add products to accumulators? Then one iteration's run while the next one's are begun.
static bool adds_only(const struct mma_plan *p)
{
  const struct graph *b = p->n->block;
  if (p->iterations == 1) return false;
  for (int i = 0; i < b->nnodes; i++) {
    bool product = p->product_of[i] >= 0 && p->product[p->product_of[i]].into >= 0;
    if (p->section[i] != MMA_LOOP || b->nodes[i].op == OP_ITER || op_rows[b->nodes[i].op].rule == RULE_VIEW) continue;
    if (product && p->tile_of[p->product[p->product_of[i]].a] < 0) return false;
    if (!product && b->nodes[i].op != OP_ACCUM) return false;
  }
  for (int i = 0; i < p->ntiles; i++)
    if (reads_tile(p, &p->tile[i])) return false;
  return true;
}

// Two products in the loop, the second of what is computed from the first (attention): then the second one of an iteration runs
// while the next iteration computes from its first.
static void find_chain(struct wg_plan *w)
{
  const struct mma_plan *p = &w->p;
  const struct mma_product *first = NULL, *second = NULL;
  w->first = w->second = NULL;
  for (int i = 0; i < p->nproducts; i++) {
    const struct mma_product *x = &p->product[i];
    if (p->section[x->node] != MMA_LOOP) continue;
    bool ready = p->tile_of[x->a] >= 0 || p->n->block->tensors[x->a].phase == FIXED, adds = x->into >= 0;
    if (ready && !adds && !first) first = x;
    else if (!ready && adds && !second) second = x;
    else return;
  }
  if (!first || !second || p->iterations < 2 || w->blocks < w->items) return;
  if (!p->tile[p->tile_of[first->b]].varying || !p->tile[p->tile_of[second->b]].varying) return;
  for (int i = 0; i < p->ntiles; i++)
    if (p->tile[i].varying && reads_tile(p, &p->tile[i])) return;
  if (p->n->block->tensors[second->a].phase == VARYING) w->first = first, w->second = second;
}

static bool fit(struct wg_plan *w, const struct knobs *k)
{
  struct mma_plan *p = &w->p;
  w->groups = k->v[WG_GROUPS];
  if (w->groups < 1 || w->groups > WG_MOST || w->groups * 64 != p->nrows) return mma_refuse(p, "%d warpgroups for %lld rows", w->groups, (long long)p->nrows);
  struct knobs as = {{[MMA_WM] = 4 * w->groups, [MMA_WN] = 1, [MMA_STAGES] = k->v[WG_STAGES]}};
  struct gpu_limits roomy = *p->job->gpu;
  struct lower_job job = *p->job;
  const struct lower_job *own = p->job;
  roomy.registers = INT32_MAX, job.gpu = &roomy, p->job = &job; // registers are shared out by setmaxnreg
  bool fits = mma_fit(p, &as);
  p->job = own;
  if (!fits) return false;
  p->shared += 1024 + 16 * p->stages;
  w->items = w->blocks = graph_blocks(p->n->block);
  if (k->v[WG_BLOCKS] && k->v[WG_BLOCKS] < w->items) w->blocks = k->v[WG_BLOCKS];
  w->walks = w->blocks < w->items;
  if (w->walks && !w->any_varying) return mma_refuse(p, "blocks do not walk over tiles without a loop");
  for (int i = 0; i < p->ntiles; i++)
    if (w->walks && !p->tile[i].varying) {
      if (reads_tile(p, &p->tile[i])) return mma_refuse(p, "lanes read a tile that does not change with the loop");
      p->shared += p->tile[i].rows * p->tile[i].cols * dtype_bytes(p->type); // two, so that the next one comes early
    }
  p->wg_async = adds_only(p), p->wg_copy = fixed_copy(w);
  find_chain(w);
  if (w->first) p->registers += 2ll * p->cols[w->second->sum_cols].nt; // the left operand, while the next one is computed
  if (p->shared > own->gpu->shared) return mma_refuse(p, "%lld bytes of shared memory", (long long)p->shared);
  if (p->registers > most_estimated[w->groups]) return mma_refuse(p, "about %lld registers a thread", (long long)p->registers);
  p->threads = 128 * (w->groups + 1);
  return true;
}

// ---- arguments: a buffer that TMA reads is a tensor of its own, beside the flat one of other accesses ----

struct arguments {
  struct lower_out *out;
  struct str reads, writes;
};

static void add_argument(struct mma_kernel *k, struct arguments *a, int tensor, const char *name, const char *type, bool write)
{
  struct str *list = write ? &a->writes : &a->reads;
  text_line(k->t, "%%%s:%s.%s.GL", name, type, tile_dtype(k->p->job->store[tensor]));
  str_add(list, "%s%%%s", list->n ? ", " : "", name);
  a->out->arg[a->out->nargs++] = tensor;
}

static bool is_operand(const struct mma_plan *p, int iter)
{
  const struct access *a = &p->n->iter[iter];
  if (p->tile_of[a->tile] < 0) return false;
  const struct mma_tile *t = &p->tile[p->tile_of[a->tile]];
  for (int i = 0; i < p->nproducts; i++) // an elementwise reader takes it from device memory, unless it is a left operand
    if (p->product[i].a == a->tile) return true;
  return !reads_tile(p, t);
}

static void arguments(struct mma_kernel *k, const struct wg_plan *w, struct arguments *a)
{
  const struct mma_plan *p = k->p;
  bool *flat = NEWS(k->mem, bool, p->n->kernels->ntensors);
  a->out->arg = NEWS(k->mem, int, p->ntiles + p->n->niter + p->n->nsave);
  for (int i = 0; i < p->ntiles; i++) {
    int tensor = p->n->iter[p->tile[i].iter].tensor;
    add_argument(k, a, tensor, arena_printf(k->mem, "box%d", p->tile[i].tensor), box_type(p, &w->box[i]), false);
  }
  for (int i = 0; i < p->n->niter + p->n->nsave; i++) {
    bool save = i >= p->n->niter;
    int tensor = save ? p->n->save[i - p->n->niter].tensor : p->n->iter[i].tensor;
    if (flat[tensor] || (!save && is_operand(p, i))) continue;
    flat[tensor] = true;
    add_argument(k, a, tensor, k->global[tensor], arena_printf(k->mem, "[%lld]", (long long)mma_elements(p, tensor)), save);
  }
}

// ---- tiles ----

static void declare(struct mma_kernel *k, const struct wg_plan *w)
{
  const struct mma_plan *p = k->p;
  for (int i = 0; i < p->ntiles; i++) {
    const struct mma_tile *t = &p->tile[i];
    const struct box *b = &w->box[i];
    int copies = t->varying ? p->stages : fixed_copies(w);
    long long rows = t->rows, chunk = b->chunk, chunks = b->chunks;
    const char *shape = chunks == 1 ? arena_printf(k->mem, "[%lld, %lld]", rows, chunk)
                                    : arena_printf(k->mem, "[%lld, (%lld, %lld) : %lld, (1, %lld)]", rows, chunk, chunks, chunk, rows * chunk);
    const char *stages = chunks == 1 ? arena_printf(k->mem, "[%d]", copies)
                                     : arena_printf(k->mem, "[%d : %lld]", copies, rows * chunk * chunks);
    text_line(k->t, "%%s%d:%s.%s.%s.SH.swizzle(%d, 3, 3)", t->tensor, stages, shape, tile_dtype(p->type), t->swizzle[0]);
  }
  if (w->any_fixed) text_line(k->t, "%%ready:[%d].mbar.SH", fixed_copies(w));
  if (w->any_fixed && w->walks) text_line(k->t, "%%done:[2].mbar.SH");
  if (w->any_varying) text_line(k->t, "%%full:[%d].mbar.SH", p->stages), text_line(k->t, "%%empty:[%d].mbar.SH", p->stages);
  text_open(k->t, "if (@tid == 0)");
  for (int c = 0; w->any_fixed && c < fixed_copies(w); c++) {
    text_line(k->t, "Sync<mbar.init, 1><<<#grid, #me>>>(%%ready[%d])", c);
    if (w->walks) text_line(k->t, "Sync<mbar.init, %d><<<#grid, #me>>>(%%done[%d])", w->groups, c);
  }
  if (w->any_varying) {
    text_open(k->t, "for (s = 0; s < %d; s += 1) unroll", p->stages);
    text_line(k->t, "Sync<mbar.init, 1><<<#grid, #me>>>(%%full[s])");
    text_line(k->t, "Sync<mbar.init, %d><<<#grid, #me>>>(%%empty[s])", w->groups);
    text_close(k->t);
  }
  text_line(k->t, "Sync<fence.mbar><<<#grid, #me>>>()");
  text_close(k->t);
  text_line(k->t, "Sync<barrier><<<#grid, #t>>>()");
}

static void bring(struct mma_kernel *k, const struct wg_plan *w, bool varying, const char *stage, const char *it, const char *barrier)
{
  const struct mma_plan *p = k->p;
  long long bytes = 0;
  for (int i = 0; i < p->ntiles; i++)
    if (p->tile[i].varying == varying) bytes += p->tile[i].rows * p->tile[i].cols * dtype_bytes(p->type);
  text_line(k->t, "Sync<mbar.expect, %lld><<<#grid, #me>>>(%%%s)", bytes, barrier);
  for (int i = 0; i < p->ntiles; i++) {
    const struct mma_tile *t = &p->tile[i];
    const struct box *b = &w->box[i];
    if (t->varying != varying) continue;
    if (b->chunks == 1) {
      text_line(k->t, "%%s%d[%s] <- Move<tma><<<#grid, #me>>>(%%box%d%s, %%%s)", t->tensor, stage, t->tensor, box_view(p, b, it, "0"), barrier);
      continue;
    }
    text_open(k->t, "for (c = 0; c < %lld; c += 1) unroll", (long long)b->chunks);
    text_line(k->t, "%%s%d[%s].tile([_, %lld])[0, c] <- Move<tma><<<#grid, #me>>>(%%box%d%s, %%%s)", t->tensor, stage, (long long)b->chunk, t->tensor,
              box_view(p, b, it, "c"), barrier);
    text_close(k->t);
  }
}

// Over the items of a block: the block graph's blocks, of which @bid is the number. Stages go on over their ends.
static void items_open(struct mma_kernel *k, const struct wg_plan *w)
{
  if (!w->walks) return;
  text_open(k->t, "for (round = 0; round < ceil(%lld - @first, %lld); round += 1)", (long long)w->items, (long long)w->blocks);
  text_line(k->t, "@bid = round * %lld + @first", (long long)w->blocks);
}

static void items_close(struct mma_kernel *k, const struct wg_plan *w)
{
  if (w->walks) text_close(k->t);
}

static void stage(struct mma_kernel *k, const struct wg_plan *w)
{
  if (w->walks) text_line(k->t, "@n = round * %lld + it", (long long)k->p->iterations);
  else text_line(k->t, "@n = it");
  text_line(k->t, "@stage = @n %% %d", k->p->stages);
}

static void producer(struct mma_kernel *k, const struct wg_plan *w)
{
  const struct mma_plan *p = k->p;
  if (w->groups > 1) text_line(k->t, "Sync<setmaxnreg.dec, %d><<<#grid, #group>>>()", bringing[w->groups]);
  text_open(k->t, "if (@i == 0)");
  items_open(k, w);
  if (w->any_fixed) {
    const char *copy = fixed_copy(w);
    if (w->walks) text_line(k->t, "Sync<mbar.wait, 1 - round / 2 %% 2><<<#grid, #me>>>(%%done[%s])", copy);
    bring(k, w, false, copy, "0", arena_printf(k->mem, "ready[%s]", copy));
  }
  if (w->any_varying) {
    text_open(k->t, "for (it = 0; it < %lld; it += 1)", (long long)p->iterations);
    stage(k, w);
    text_line(k->t, "Sync<mbar.wait, 1 - @n / %d %% 2><<<#grid, #me>>>(%%empty[@stage])", p->stages);
    bring(k, w, true, "@stage", "it", "full[@stage]");
    text_close(k->t);
  }
  items_close(k, w);
  text_close(k->t);
}

// ---- products ----

static const char *right_view(struct mma_kernel *k, const struct mma_product *x, const char *of_ring)
{
  const struct mma_tile *t = &k->p->tile[k->p->tile_of[x->b]];
  const char *stage = t->varying ? of_ring : k->p->wg_copy;
  long long n = k->p->cols[x->out_cols].size;
  if (mma_list_has(&t->in) == x->cols) return arena_printf(k->mem, "%%s%d[%s].tile([16, _])[s, 0]", t->tensor, stage);
  return arena_printf(k->mem, "%%s%d[%s].tile([_, 16])[0, s].reshape(0, [16, %lld : %lld, 1])", t->tensor, stage, n, n);
}

static const char *left_view(struct mma_kernel *k, const struct mma_product *x)
{
  int tile = k->p->tile_of[x->a];
  if (tile < 0 || k->left[x->a] || mma_keeps_left(k->p, x)) return arena_printf(k->mem, "%%%s[0, s]", mma_left(k, x->a, x->sum_cols));
  const struct mma_tile *t = &k->p->tile[tile];
  const char *stage = t->varying ? "@stage" : k->p->wg_copy;
  if (!t->turned) return arena_printf(k->mem, "%%s%d[%s].tile([64, 16])[@g, s]", t->tensor, stage);
  return arena_printf(k->mem, "%%s%d[%s].tile([16, 64])[s, @g].reshape(0, [64, 16 : 16, 1])", t->tensor, stage);
}

static void wait(struct mma_kernel *k, int left)
{
  text_line(k->t, "Sync<wgmma.commit><<<#grid, #group>>>()");
  text_line(k->t, "Sync<wgmma.wait, %d><<<#grid, #group>>>()", left);
}

static void multiply(struct mma_kernel *k, const struct mma_product *x, const char *left, const char *right, const char *into)
{
  text_open(k->t, "for (s = 0; s < %lld; s += 1) unroll", (long long)k->p->cols[x->sum_cols].size / 16);
  text_line(k->t, "%%%s <- MatMul<wgmma%s><<<#grid, #group>>>(%s, %s)", into, x->into >= 0 ? "" : ", s", left, right);
  text_close(k->t);
}

void wgmma_product(struct mma_kernel *k, const struct mma_product *x, const char *into)
{
  const char *left = left_view(k, x), *right = right_view(k, x, "@stage");
  text_line(k->t, "Sync<wgmma.fence><<<#grid, #group>>>()");
  multiply(k, x, left, right, into);
  if (!k->p->wg_async) wait(k, 0);
}

// ---- consumers ----

// Are some tiles of the ring read by lanes, not by products alone?
static bool lanes_read(const struct mma_plan *p)
{
  for (int i = 0; i < p->ntiles; i++)
    if (p->tile[i].varying && reads_tile(p, &p->tile[i])) return true;
  return false;
}

static void release(struct mma_kernel *k, const char *who, const char *which)
{
  text_open(k->t, "if (%s)", who);
  text_line(k->t, "Sync<mbar.arrive><<<#grid, #me>>>(%%empty[%s])", which);
  text_close(k->t);
}

// Of the last iteration of an item.
static const char *last_stage(struct mma_kernel *k)
{
  const struct mma_plan *p = k->p;
  long long n = p->iterations;
  if (*p->wg_copy == '0') return arena_printf(k->mem, "%lld", (n - 1) % p->stages);
  return arena_printf(k->mem, "(round * %lld + %lld) %% %d", n, n - 1, p->stages);
}

// ---- chains ----

static void commit(struct mma_kernel *k) { text_line(k->t, "Sync<wgmma.commit><<<#grid, #group>>>()"); }
static void wait_only(struct mma_kernel *k, int left) { text_line(k->t, "Sync<wgmma.wait, %d><<<#grid, #group>>>()", left); }

static const char *begin_first(struct mma_kernel *k, const struct wg_plan *w)
{
  const char *into = mma_declare(k, k->p->shape[w->first->out], "fp32");
  multiply(k, w->first, left_view(k, w->first), right_view(k, w->first, "@stage"), into);
  commit(k);
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
  multiply(k, w->second, arena_printf(k->mem, "%%%s[0, s]", left), right_view(k, w->second, stage_text), sum);
  commit(k);
}

static void fence(struct mma_kernel *k) { text_line(k->t, "Sync<wgmma.fence><<<#grid, #group>>>()"); }

static void chain(struct mma_kernel *k, const struct wg_plan *w)
{
  const struct mma_plan *p = k->p;
  long long n = p->iterations;
  const char *left = arena_printf(k->mem, "a%d", k->t->fresh++);
  text_line(k->t, "%%%s:[1, %d].[2, 2].[1, 2].%s.RF", left, p->cols[w->second->sum_cols].nt / 2, tile_dtype(p->type));
  struct mma_known known = mma_remember(k);
  text_open(k->t, "for (it = 0; it < 1; it += 1)");
  stage(k, w);
  text_line(k->t, "Sync<mbar.wait, @n / %d %% 2><<<#grid, #me>>>(%%full[@stage])", p->stages);
  fence(k);
  begin_first(k, w);
  wait_only(k, 0);
  between(k, w);
  round_left(k, w, left);
  text_close(k->t);
  mma_forget(k, &known), known = mma_remember(k);
  text_open(k->t, "for (it = 1; it < %lld; it += 1)", n);
  stage(k, w);
  text_line(k->t, "@last = (@n + %d) %% %d", p->stages - 1, p->stages);
  text_line(k->t, "Sync<mbar.wait, @n / %d %% 2><<<#grid, #me>>>(%%full[@stage])", p->stages);
  fence(k);
  begin_first(k, w);
  second_product(k, w, left, "@last");
  wait_only(k, 1);
  between(k, w);
  wait_only(k, 0);
  release(k, "@i == 0", "@last");
  rescale(k, w);
  round_left(k, w, left);
  text_close(k->t);
  mma_forget(k, &known);
  fence(k);
  second_product(k, w, left, last_stage(k));
  wait_only(k, 0);
  if (w->walks) release(k, "@i == 0", last_stage(k));
}

static void loop(struct mma_kernel *k, const struct wg_plan *w)
{
  const struct mma_plan *p = k->p;
  if (p->iterations == 1) {
    mma_section(k, MMA_LOOP);
    return;
  }
  if (w->first) {
    chain(k, w);
    return;
  }
  struct mma_known known = mma_remember(k);
  text_open(k->t, "for (it = 0; it < %lld; it += 1)", (long long)p->iterations);
  stage(k, w);
  if (w->any_varying) text_line(k->t, "Sync<mbar.wait, @n / %d %% 2><<<#grid, #me>>>(%%full[@stage])", p->stages);
  mma_section(k, MMA_LOOP);
  if (p->wg_async) wait(k, 1);
  if (lanes_read(p)) text_line(k->t, "Sync<barrier><<<#grid, #group>>>()");
  if (w->any_varying) release(k, p->wg_async ? "@i == 0 && it > 0" : "@i == 0", p->wg_async ? arena_printf(k->mem, "(@n + %d) %% %d", p->stages - 1, p->stages) : "@stage");
  text_close(k->t);
  mma_forget(k, &known);
  if (!p->wg_async) return;
  text_line(k->t, "Sync<wgmma.wait, 0><<<#grid, #group>>>()");
  if (w->walks) release(k, "@i == 0", last_stage(k));
}

static void consumers(struct mma_kernel *k, const struct wg_plan *w)
{
  const struct mma_plan *p = k->p;
  if (w->groups > 1) text_line(k->t, "Sync<setmaxnreg.inc, %d><<<#grid, #group>>>()", computing[w->groups]);
  mma_section(k, MMA_CONST);
  items_open(k, w);
  if (w->any_fixed) text_line(k->t, "Sync<mbar.wait, %s><<<#grid, #me>>>(%%ready[%s])", w->walks ? "round / 2 % 2" : "0", fixed_copy(w));
  mma_section(k, MMA_PRE);
  if (p->iterations > 1) mma_hoist(k);
  mma_declare_accumulators(k);
  loop(k, w);
  k->section = MMA_POST;
  mma_finish_accumulators(k);
  mma_section(k, MMA_POST);
  if (w->any_fixed && w->walks) {
    text_open(k->t, "if (@i == 0)");
    text_line(k->t, "Sync<mbar.arrive><<<#grid, #me>>>(%%done[%s])", fixed_copy(w));
    text_close(k->t);
  }
  for (int i = 0; i < p->n->nsave; i++) mma_save(k, i);
  items_close(k, w);
}

static void groups(struct mma_kernel *k, const struct wg_plan *w)
{
  struct text *t = k->t;
  int warps = 4 * (w->groups + 1);
  text_line(t, "@%s = #grid.indices()", w->walks ? "first" : "bid");
  text_line(t, "@tid = #t.indices()");
  text_line(t, "#me = #t.scalar()");
  text_line(t, "#groups:[%d].[128].thread = #t.tile([128])", w->groups + 1);
  text_line(t, "@g, @i = #groups.indices()");
  text_line(t, "#group:[128].thread = #groups[@g]");
  text_line(t, "#warps:[%d, 1].[32].thread = #t.tile([32]).reshape(0, [%d, 1])", warps, warps);
  text_line(t, "(@wm, @wn), @lane = #warps.indices()");
  text_line(t, "#warp:[32].thread = #warps[@wm, @wn]");
  text_line(t, "#quads:[%d].[4].thread = #t.tile([4])", 8 * warps);
  text_line(t, "@q, _ = #quads.indices()");
  text_line(t, "#quad:[4].thread = #quads[@q]");
}

static void body(struct mma_kernel *k, const struct wg_plan *w)
{
  groups(k, w);
  declare(k, w);
  if (k->p->job->dependent) {
    text_line(k->t, "Sync<grid.trigger><<<#grid, #t>>>()");
    text_line(k->t, "Sync<grid.wait><<<#grid, #t>>>()");
  }
  text_open(k->t, "if (@g == %d)", w->groups);
  producer(k, w);
  text_close(k->t);
  text_open(k->t, "if (@g < %d)", w->groups);
  consumers(k, w);
  text_close(k->t);
}

static int emit(const struct lower_job *j, const struct knobs *knobs, struct lower_out *out, struct err *e)
{
  char why[160];
  struct wg_plan *w = NEW(j->mem, struct wg_plan);
  *out = (struct lower_out){0};
  if (!plan(w, j, why) || !fit(w, knobs)) return err_set(e, ERR_TILE, NOWHERE, "%s by wgmma: %s", j->name, why);
  struct text t = {.out = &out->text};
  struct mma_kernel k = mma_kernel_new(&w->p, &t);
  struct arguments a = {.out = out};
  text_kernel(&t, j->name, NULL, 90);
  arguments(&k, w, &a);
  text_line(&t, "#grid:[%lld].block", (long long)w->blocks);
  text_line(&t, "#t:[%d].thread", w->p.threads);
  text_open(&t, "%s <- Spec<<<#grid, #t>>>(%s)", str_text(&a.writes), str_text(&a.reads));
  body(&k, w);
  text_close(&t), text_close(&t);
  str_free(&a.reads), str_free(&a.writes);
  return OK;
}

// ---- knobs ----

static int choices(const struct lower_job *j, int most, struct knobs *out, char why[160])
{
  struct wg_plan *w = NEW(j->mem, struct wg_plan);
  int n = 0;
  if (!plan(w, j, why)) return 0;
  for (int stages = w->p.iterations > 1 ? 8 : 2; stages >= 2 && n < most; stages--) {
    struct knobs k = {{[WG_GROUPS] = (int)(w->p.nrows / 64), [WG_STAGES] = stages}};
    if (stages > w->p.iterations && stages > 2) continue;
    if (!fit(w, &k)) continue;
    out[n++] = k;
    k.v[WG_BLOCKS] = j->gpu->processors;
    if (n < most && w->items > j->gpu->processors && fit(w, &k)) out[n++] = k;
  }
  return n;
}

static double cost(const struct lower_job *j, const struct knobs *k)
{
  char why[160];
  struct wg_plan *w = NEW(j->mem, struct wg_plan);
  return plan(w, j, why) && fit(w, k) ? mma_cost(&w->p) : INFINITY;
}

const struct scheme scheme_wgmma = {
    .name = "wgmma",
    .doc = "products of many rows by wgmma, tiles by TMA",
    .knob = {"groups", "stages", "blocks"},
    .arch = 90,
    .choices = choices,
    .cost = cost,
    .emit = emit,
};
