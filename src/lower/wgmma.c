// The scheme of products by wgmma. One warp of the last warpgroup copies tiles by TMA, as many ahead as there are stages. Each other warpgroup
// computes 64 rows. A stage has two mbarriers: `full` when its bytes have arrived, `empty` when every warpgroup has read it.
#include "lower/count.h"
#include "lower/wgmma.h"

#include <string.h>

// ---- arguments: a buffer that TMA reads gets a tensor declaration besides the flat one of other accesses ----

struct wgmma_arguments {
  struct lower_out *out;
  struct str reads, writes;
};

static void add_argument(struct mma_kernel *k, struct wgmma_arguments *a, int tensor, const char *name, const char *type, bool write)
{
  struct str *list = write ? &a->writes : &a->reads;
  text_line(k->t, "%%%s:%s.%s.GL", name, type, tile_dtype(k->p->job->store[tensor]));
  str_add(list, "%s%%%s", list->n ? ", " : "", name);
  a->out->arg[a->out->nargs++] = tensor;
}

static int load_of(const struct mma_plan *p, int iter)
{
  for (int v = 0; v < p->k.nvalues; v++)
    if (p->k.v[v].live && mma_loads(p, v) && mma_iter(p, v) == iter) return v;
  return -1;
}

static bool is_operand(const struct mma_plan *p, int iter)
{
  int value = load_of(p, iter);
  if (value < 0) return true; // never read
  const struct mma_tile *t = mma_tile_at(p, value);
  if (!t || t->lanes) return t;
  for (int i = 0; i < p->nproducts; i++) // an elementwise reader loads it from device memory, unless it is a left operand
    if (p->product[i].a == value) return true;
  return !wgmma_reads_tile(p, t);
}

static void arguments(struct mma_kernel *k, const struct wg_plan *w, struct wgmma_arguments *a)
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
    if (save && wgmma_sends(w, i - p->n->niter)) {
      add_argument(k, a, tensor, arena_printf(k->mem, "to%d", p->n->save[i - p->n->niter].tile), wgmma_store_type(w, i - p->n->niter), true);
      continue;
    }
    bool kept = save && p->tail && tail_keeps(p->tail, tensor), wanted = save || !is_operand(p, i) || (p->tail && tail_reads(p->tail, tensor));
    if (flat[tensor] || kept || !wanted || norm_is_index(p->n, tensor)) continue;
    flat[tensor] = true;
    add_argument(k, a, tensor, k->global[tensor], arena_printf(k->mem, "[%lld]", (long long)norm_elements(p->n, tensor)), save);
  }
  if (p->tail) tail_arguments(p->tail, k->t, k->global, a->out, &a->reads, &a->writes);
}

// ---- tiles ----

void wgmma_init(struct mma_kernel *k, int slots, const char *full, const char *empty, int readers)
{
  text_line(k->t, "each s:%d\nSync<mbar.init, 1>(%%%s[s])\nSync<mbar.init, %d>(%%%s[s])", slots, full, readers, empty);
}

static void declare(struct mma_kernel *k, const struct wg_plan *w)
{
  const struct mma_plan *p = k->p;
  for (int i = 0; i < p->ntiles; i++) {
    const struct mma_tile *t = &p->tile[i];
    const struct box *b = &w->box[i];
    int copies = t->varying || t->slot == 0 ? p->stages : wgmma_is_end(t) ? w->end_copies : wgmma_copies(w);
    if (t->slot > 0) continue;
    long long rows = t->rows, chunk = b->chunk, chunks = b->chunks;
    const char *shape = chunks == 1 ? arena_printf(k->mem, "[%lld, %lld]", rows, chunk)
                                    : arena_printf(k->mem, "[%lld, (%lld, %lld) : %lld, (1, %lld)]", rows, chunk, chunks, chunk, rows * chunk);
    const char *stages = chunks == 1 ? arena_printf(k->mem, "[%d]", copies) : arena_printf(k->mem, "[%d : %lld]", copies, rows * chunk * chunks);
    text_line(k->t, "%%s%d:%s.%s.%s.SH.swizzle(%d, 3, 3)", t->tensor, stages, shape, tile_dtype(p->type), t->swizzle[0]);
  }
  wgmma_store_declare(k, w), wgmma_vector_declare(k, w), wgmma_queue_declare(k), wgmma_split_declare(k, w);
  if (p->tail) tail_rooms(p->tail, k->t, k->global);
  if (w->any_fixed) text_line(k->t, "%%ready:[%d].mbar.SH", wgmma_copies(w));
  if (w->any_fixed && w->walks) text_line(k->t, "%%done:[2].mbar.SH");
  int slots = p->stages * w->rings;
  if (w->any_varying) text_line(k->t, "%%full:[%d].mbar.SH", slots), text_line(k->t, "%%empty:[%d].mbar.SH", slots);
  wgmma_declare_turns(k, w), wgmma_end_declare(k, w);
  text_open(k->t, "if (@tid == 0) {");
  for (int c = 0; w->any_fixed && c < wgmma_copies(w); c++) {
    text_line(k->t, "Sync<mbar.init, 1>(%%ready[%d])", c);
    if (w->walks) text_line(k->t, "Sync<mbar.init, %d>(%%done[%d])", wgmma_readers(w), c);
  }
  wgmma_queue_init(k, w);
  if (w->any_varying) wgmma_init(k, slots, "full", "empty", wgmma_pair_size(w) * wgmma_readers(w));
  wgmma_begin_turns(k, w), wgmma_end_init(k, w);
  text_line(k->t, "Sync<fence.mbar>()");
  text_close(k->t);
  if (w->pair_axis >= 0)
    wgmma_pair_meet(k);
  else
    text_line(k->t, "Sync<barrier>#t()");
  wgmma_split_begin(k, w);
}

void wgmma_bring_tile(struct mma_kernel *k, const struct wg_plan *w, const struct mma_tile *t, const char *stage, const char *it, const char *barrier)
{
  const struct box *b = &w->box[t - k->p->tile];
  TEXT_ABOUT(k->t, k->p->n->block->tensors[k->p->n->iter[t->iter].tile].node + 1);
  if (wgmma_shares(w, (int)(t - k->p->tile)))
    wgmma_bring_half(k, w, t, stage, it, barrier);
  else if (b->chunks == 1)
    text_line(k->t, "%%s%d[%s]%s <- Move<tma><<<#grid, #me>>>(%%box%d%s, %%%s)", t->buffer, stage, box_shape(k->p, b), t->tensor,
              box_view(k->p, b, it, "0"), barrier);
  else
    text_line(k->t, "each c:%lld\n%%s%d[%s].tile([_, %lld])[0, c]%s <- Move<tma><<<#grid, #me>>>(%%box%d%s, %%%s)", (long long)b->chunks, t->buffer,
              stage, (long long)b->chunk, box_shape(k->p, b), t->tensor, box_view(k->p, b, it, "c"), barrier);
}

static int ring_of(const struct wg_plan *w, const struct mma_tile *t)
{
  if (!t->varying) return wgmma_is_end(t) ? WG_END : WG_FIXED;
  return w->rings == 2 && t->value == w->second->b;
}

void wgmma_bring(struct mma_kernel *k, const struct wg_plan *w, int ring, const char *stage, const char *it, const char *barrier)
{
  const struct mma_plan *p = k->p;
  long long bytes = 0;
  for (int i = 0; i < p->ntiles; i++)
    if (ring_of(w, &p->tile[i]) == ring && p->tile[i].slot < 0) bytes += p->tile[i].rows * p->tile[i].cols * dtype_bytes(p->type);
  text_line(k->t, "Sync<mbar.expect, %lld>(%%%s)", bytes, barrier);
  for (int i = 0; i < p->ntiles; i++)
    if (ring_of(w, &p->tile[i]) == ring && p->tile[i].slot < 0) wgmma_bring_tile(k, w, &p->tile[i], stage, it, barrier);
}

static void producer(struct mma_kernel *k, const struct wg_plan *w)
{
  const struct mma_plan *p = k->p;
  if (w->divides) text_line(k->t, "Sync<setmaxnreg.dec, %d>#group()", w->bringing);
  const bool warp = wgmma_counts(w) && p->hidden.loads; // a warp loads the bounds of an item
  text_open(k->t, warp ? "if (@i < 32) {" : "if (@i == 0) {");
  wgmma_items_open(k, w, false);
  if (warp) text_open(k->t, "if (@i == 0) {");
  if (w->any_fixed) {
    const char *copy = w->p.wg_copy;
    if (w->walks) text_line(k->t, "Sync<mbar.wait, 1 - round / 2 %% 2>(%%done[%s])", copy);
    wgmma_bring(k, w, WG_FIXED, copy, "0", arena_printf(k->mem, "ready[%s]", copy));
  }
  wgmma_queue_bring(k, w);
  if (w->any_varying) {
    text_open(k->t, "for (it = 0; it < %s; it += 1) rolled {", mma_iterations(k));
    wgmma_stage(k, w);
    for (int ring = 0; ring < w->rings; ring++) {
      const char *slot = ring ? wgmma_slot(k, w, w->second->b, "@stage") : "@stage";
      text_line(k->t, "Sync<mbar.wait, 1 - @n / %d %% 2>(%%empty[%s])", p->stages, slot);
      wgmma_bring(k, w, ring, "@stage", mma_iteration(k->p, "it"), arena_printf(k->mem, "full[%s]", slot));
    }
    wgmma_end_bring(k, w);
    text_close(k->t);
  }
  if (warp) text_close(k->t);
  wgmma_items_close(k, w);
  text_close(k->t);
}

// ---- consumers ----

// The value after which its stage of the loop is free; -1: after all values. A sum outside of tensor cores is read from registers.
static int last_reader(const struct wg_plan *w)
{
  const struct mma_plan *p = &w->p;
  int last = -1;
  for (int i = 0; i < p->norder && p->job->exact && w->any_varying && !wgmma_lanes_read(p); i++)
    if (p->section[p->order[i]] == MMA_LOOP && p->product_of[p->order[i]] >= 0) last = p->order[i];
  return last;
}

static void iteration(struct mma_kernel *k, const struct wg_plan *w, int last)
{
  const struct mma_plan *p = k->p;
  k->section = MMA_LOOP;
  for (int i = 0; i < p->norder; i++) {
    if (p->section[p->order[i]] == MMA_LOOP) mma_compute(k, p->order[i]);
    if (p->order[i] == last) wgmma_release(k, w, "", "@stage");
  }
}

static void loop(struct mma_kernel *k, const struct wg_plan *w)
{
  const struct mma_plan *p = k->p;
  const int last = last_reader(w);
  if (p->iterations == 1) {
    mma_section(k, MMA_LOOP);
    return;
  }
  if (w->first) {
    wgmma_chain(k, w);
    return;
  }
  struct mma_known known = mma_remember(k);
  text_open(k->t, "for (it = 0; it < %s; it += 1) rolled {", mma_iterations(k));
  wgmma_stage(k, w);
  if (w->any_varying) text_line(k->t, "Sync<mbar.wait, @n / %d %% 2>(%%full[@stage])", p->stages);
  iteration(k, w, last);
  if (p->wg_async) wgmma_commit(k), wgmma_wait(k, 1);
  if (wgmma_lanes_read(p)) text_line(k->t, "Sync<barrier>#group()");
  if (w->any_varying && last < 0)
    wgmma_release(k, w, p->wg_async ? " && it > 0" : "", p->wg_async ? arena_printf(k->mem, "(@n + %d) %% %d", p->stages - 1, p->stages) : "@stage");
  text_close(k->t);
  mma_forget(k, &known);
  wgmma_give_turn(k, w);
  if (!p->wg_async) return;
  text_line(k->t, "Sync<wgmma.wait, 0>#group()");
  if (w->walks) wgmma_release(k, w, "", wgmma_last_stage(k, w));
}

static void consumers(struct mma_kernel *k, const struct wg_plan *w)
{
  const struct mma_plan *p = k->p;
  if (w->divides) text_line(k->t, "Sync<setmaxnreg.inc, %d>#group()", w->computing);
  mma_section(k, MMA_CONST);
  wgmma_vector_load(k);
  wgmma_items_open(k, w, w->alternate);
  if (w->any_fixed) wgmma_take_turn(k, w); // it orders the wait for the tiles of this item after that for the previous ones
  if (w->any_fixed) text_line(k->t, "Sync<mbar.wait, %s>(%%ready[%s])", w->walks ? "round / 2 % 2" : "0", w->p.wg_copy);
  mma_section(k, MMA_PRE);
  if (p->iterations > 1) mma_hoist(k);
  wgmma_fetch_late(k, w);
  mma_declare_accumulators(k);
  if (!w->any_fixed) wgmma_take_turn(k, w);
  loop(k, w);
  k->section = MMA_POST;
  const int indent = k->t->indent;
  mma_finish_accumulators(k);
  wgmma_split_join(k, w);
  wgmma_end_wait(k, w);
  mma_section(k, MMA_POST);
  if (w->any_fixed && w->walks) text_line(k->t, "if (@i == 0) {\nSync<mbar.arrive>(%%done[%s])", w->p.wg_copy);
  for (int i = 0; i < p->n->nsave; i++) {
    if (wgmma_sends(w, i))
      wgmma_store(k, w, i);
    else
      mma_save(k, i);
  }
  wgmma_end_leave(k, w);
  wgmma_items_close(k, w);
  wgmma_store_finish(k, w);
  if (w->split) text_until(k->t, indent);
  if (p->tail) tail_emit(p->tail, k->t, k->global, 128 * w->groups);
}

// Warpgroups that share columns are numbered after those of the same columns.
static void sharing_warps(struct mma_kernel *k, const struct wg_plan *w, int warps)
{
  const int computing = 128 * w->groups;
  text_fill(k->t,
            "#warps:[$warps].[32].thread = #t.tile([32])\n"
            "@warp, @lane = #warps.indices()\n"
            "@wm = @warp % $rows\n"
            "@wn = @warp / $rows\n"
            "#warp:[32].thread = #warps[@warp]\n"
            "#halves:[$halves].[$work].thread = #t.tile([$work])\n"
            "#work:[$work].thread = #halves[0]",
            HOLES(NULL, INT(warps, warps), INT(rows, k->p->wm), INT(work, computing), INT(halves, (computing + 128 + computing - 1) / computing)));
}

static void groups(struct mma_kernel *k, const struct wg_plan *w)
{
  struct text *t = k->t;
  int warps = 4 * (w->groups + 1);
  if (k->p->tail)
    tail_blocks(k->p->tail, t);
  else
    text_line(t, "@first = #grid.indices()");
  const char *item = w->split ? wgmma_split_bounds(k, w) : NULL;
  wgmma_pair_names(k, w);
  if (item)
    wgmma_item(k, w, item);
  else if (!w->walks && !k->p->tail)
    wgmma_item_alone(k, w);
  text_line(t, "@tid = #t.indices()\n#me = #t.scalar()");
  text_line(t, "#groups:[%d].[128].thread = #t.tile([128])\n@g, @i = #groups.indices()\n#group:[128].thread = #groups[@g]", w->groups + 1);
  if (w->along == w->groups)
    mma_warps(t, warps, 1);
  else
    sharing_warps(k, w, warps);
  mma_quads(t, 32 * warps);
}

static void body(struct mma_kernel *k, const struct wg_plan *w)
{
  groups(k, w);
  if (!w->walks) mma_hidden_bounds(k, false);
  declare(k, w);
  if (k->p->job->dependent) text_line(k->t, "Sync<grid.trigger>#t()\nSync<grid.wait>#t()");
  if (!w->walks) mma_hidden_bounds(k, true);
  text_open(k->t, "if (@g == %d) {", w->groups);
  producer(k, w);
  if (k->p->tail) tail_accompany(k->p->tail, k->t);
  wgmma_split_accompany(k, w);
  text_close(k->t);
  text_open(k->t, "if (@g < %d) {", w->groups);
  consumers(k, w);
  text_close(k->t);
  if (w->pair_axis >= 0 && !w->split) wgmma_pair_meet(k);
}

static const void *plan(const struct lower_job *j, const struct knobs *k, char why[160])
{
  struct wg_plan *w = NEW(j->mem, struct wg_plan);
  j = mma_retile(j, (struct norm_retile){k->v[WG_ROWS], k->v[WG_STEP], k->v[WG_COLS]}, why);
  return wgmma_plan(w, j, k->v[WG_BROUGHT], why) && wgmma_fit(w, k) ? w : NULL;
}

static bool count(const void *plan, struct kernel_counts *out) { return wgmma_count(plan, out), true; }

static void emit(const void *plan, struct text t, struct lower_out *out)
{
  const struct wg_plan *w = plan;
  const struct lower_job *j = w->p.job;
  struct mma_kernel k = mma_kernel_new(&w->p, &t);
  struct wgmma_arguments a = {.out = out};
  text_kernel(&t, j->name, NULL, j->gpu, CAN_WGMMA);
  arguments(&k, w, &a);
  if (wgmma_cluster(w) > 1) text_line(&t, "cluster %d", wgmma_cluster(w));
  mma_head(&w->p, &t, w->blocks, &a.reads, &a.writes);
  body(&k, w);
  text_until(&t, 0);
}

const struct scheme scheme_wgmma = {
    .name = "wgmma",
    .doc = "products of many rows by wgmma, tiles by TMA",
    .apart = "warps lie along rows only, 64 to a warpgroup; tiles come as boxes by TMA; with chain=1 a product runs beside the next iteration",
    .knob = {"groups", "stages", "blocks", "chain", "store", "poly", "last", "rows", "step", "pair", "wide", "brought", "cols", "split", "alternate"},
    .named = WG_COLS,
    .rules = MMA_RULES,
    .tails = true,
    .choices = wgmma_choices,
    .plan = plan,
    .count = count,
    .emit = emit,
};
