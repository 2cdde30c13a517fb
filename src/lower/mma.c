// The scheme of products by mma.sync: the frame of the kernel, and its choices. A block copies loop-invariant tiles into shared memory, then runs a
// pipeline: while one stage is read, the next ones are copied.
#include "lower/count.h"
#include "lower/mma.h"

void mma_head(const struct mma_plan *p, struct text *t, int64_t blocks, struct str *reads, struct str *writes)
{
  const char *grid = arena_printf(p->job->mem, "%lld", (long long)blocks), *threads = arena_printf(p->job->mem, "%d", p->threads);
  if (p->tail && p->tail->way == TAIL_CLUSTER) text_line(t, "cluster %lld", (long long)p->tail->parts);
  emit_head(t, grid, threads, reads, writes);
}

struct mma_kernel mma_kernel_new(const struct mma_plan *p, struct text *t)
{
  struct arena *mem = p->job->mem;
  size_t n = (size_t)p->k.nvalues + 1;
  struct mma_kernel k = {.p = p, .mem = mem, .t = t, .global = text_names(mem, p->n->kernels, TEXT_LOWER)};
  if (t->marks) t->marks->block = p->n->block;
  k.reg = NEWS(mem, const char *, n), k.left = NEWS(mem, const char *, n), k.have = NEWS(mem, struct mma_shape, n);
  return k;
}

// ---- sections ----

void mma_section(struct mma_kernel *k, enum mma_section s)
{
  const struct mma_plan *p = k->p;
  if (s != MMA_CONST) k->section = s;
  for (int v = 0; v < p->k.nvalues && s == MMA_CONST; v++)
    if (p->k.v[v].live && p->k.v[v].kind == KERN_CONST) mma_compute(k, v);
  for (int i = 0; i < p->norder && s != MMA_CONST; i++)
    if (p->section[p->order[i]] == s) mma_compute(k, p->order[i]);
}

void mma_hoist(struct mma_kernel *k)
{
  const struct mma_plan *p = k->p;
  for (int i = 0; i < p->norder; i++) {
    int v = p->order[i];
    const struct kern_value *n = mma_at(p, v);
    if (p->section[v] != MMA_LOOP) continue;
    for (int j = 0; j < n->nin && n->kind != KERN_PRODUCT && !(mma_reduces(n) && mma_sums_parts(p, v)); j++)
      if (mma_loads(p, n->in[j]) && !mma_varies(p, n->in[j])) mma_value(k, n->in[j], mma_wanted(p, v, j));
    const struct mma_product *x = mma_product_at(p, v);
    if (x && !mma_varies(p, x->a) && p->section[x->a] != MMA_LOOP && mma_keeps_left(p, x)) mma_left(k, x->a, x->sum_cols);
  }
}

// Starts loads that only this iteration needs, so that they are in flight while products run. Only varying values of few registers that no product
// reads.
static void fetch(struct mma_kernel *k)
{
  const struct mma_plan *p = k->p;
  for (int i = 0; i < p->norder; i++) {
    int v = p->order[i];
    const struct kern_value *n = mma_at(p, v);
    if (p->section[v] != MMA_LOOP || n->kind != KERN_MAP) continue;
    for (int j = 0; j < n->nin; j++) {
      int x = n->in[j];
      if (!mma_loads(p, x) || p->tile_of[x] >= 0 || !mma_varies(p, x) || mma_read_hidden(p, x)) continue;
      bool full = mma_has(p, x) & p->row_letters && mma_has(p, x) & ~p->row_letters;
      if (!full || mma_fragment_registers(p, mma_wanted(p, v, j)) <= 32) mma_value(k, x, mma_wanted(p, v, j));
    }
  }
}

static void commit(struct mma_kernel *k) { text_line(k->t, "Sync<cp.commit>()"); }

static void begin_ring(struct mma_kernel *k)
{
  const struct mma_plan *p = k->p;
  int ahead = p->stages - 1;
  if (p->iterations == 1) {
    mma_load_once(k);
    return;
  }
  mma_load(k, false, "0", "0");
  commit(k);
  for (int s = 0; s < ahead; s++) {
    const char *stage = arena_printf(k->mem, "%d", s);
    const bool some = s && (p->hides || p->parts);
    if (some) text_open(k->t, "if (%d < @count) {", s);
    if (s < p->iterations) mma_load(k, true, stage, mma_iteration(k->p, stage));
    if (some) text_close(k->t);
    commit(k);
  }
  mma_wait(k, ahead);
}

static void ring(struct mma_kernel *k)
{
  const struct mma_plan *p = k->p;
  const char *n = mma_iterations(k);
  bool late = false;
  for (int i = 0; i < p->ntiles; i++) late |= mma_anywhere_late(p, &p->tile[i]);
  mma_anywhere_declare(k);
  text_open(k->t, "for (it = 0; it < %s; it += 1) {", n);
  k->section = MMA_LOOP;
  mma_wait(k, p->stages - 2);
  text_line(k->t, "@ahead = it + %d\n@next = @ahead %% %d\n@stage = it %% %d", p->stages - 1, p->stages, p->stages);
  text_open(k->t, "if (@ahead < %s) {", n);
  k->ring = true, mma_load(k, true, "@next", mma_iteration(k->p, "@ahead")), k->ring = false;
  text_close(k->t);
  commit(k);
  fetch(k);
  mma_sides(k, true);
  mma_section(k, MMA_LOOP);
  if (late) {
    TEXT_SCOPE(k->t);
    text_open(k->t, "if (@ahead < %s) {", n);
    mma_store_late(k, "@next", mma_iteration(k->p, "@ahead"));
  }
  text_close(k->t);
}

struct mma_known mma_remember(const struct mma_kernel *k)
{
  size_t n = (size_t)k->p->k.nvalues;
  return (struct mma_known){arena_copy(k->mem, k->reg, n * sizeof *k->reg), arena_copy(k->mem, k->left, n * sizeof *k->left),
                            arena_copy(k->mem, k->have, n * sizeof *k->have)};
}

void mma_forget(struct mma_kernel *k, const struct mma_known *known) { k->reg = known->reg, k->left = known->left, k->have = known->have; }

static void loop(struct mma_kernel *k)
{
  if (k->p->iterations == 1) {
    mma_section(k, MMA_LOOP);
    return;
  }
  struct mma_known known = mma_remember(k);
  ring(k);
  mma_forget(k, &known);
}

void mma_warps(struct text *t, int rows, int cols)
{
  text_fill(t,
            "#warps:[$rows, $cols].[32].thread = #t.tile([32]).reshape(0, [$rows, $cols])\n"
            "(@wm, @wn), @lane = #warps.indices()\n"
            "#warp:[32].thread = #warps[@wm, @wn]",
            HOLES(NULL, INT(rows, rows), INT(cols, cols)));
}

void mma_quads(struct text *t, int threads)
{
  text_line(t, "#quads:[%d].[4].thread = #t.tile([4])\n@q, _ = #quads.indices()\n#quad:[4].thread = #quads[@q]", threads / 4);
}

static void longest_first(struct mma_kernel *k)
{
  const struct graph *b = k->p->n->block;
  const char *place = arena_printf(k->mem, "%lld - @first", (long long)graph_blocks(b) - 1);
  int64_t stride[GRID_AXES] = {1};
  struct str terms = {0};
  for (int i = 1; i < b->ngrid; i++) stride[i] = stride[i - 1] * b->grid[i - 1];
  if (k->p->late >= 0)
    mma_late_text(k, b->grid, stride, place, &terms), text_line(k->t, "@bid = 0%s", str_text(&terms));
  else
    text_line(k->t, "@bid = %s", place);
  str_free(&terms);
}

static void groups(struct mma_kernel *k)
{
  const struct mma_plan *p = k->p;
  struct text *t = k->t;
  bool backwards = p->hides && p->backwards && !p->tail;
  if (p->parts)
    mma_parts_bounds(k);
  else if (p->tail)
    tail_blocks(p->tail, t);
  else
    emit_tiles(t, p->job->gpu, graph_blocks(p->n->block), backwards ? "@first" : "@bid");
  if (backwards) longest_first(k);
  text_line(t, "@tid = #t.indices()\n#me = #t.scalar()");
  mma_warps(t, p->wm, p->wn);
  mma_quads(t, p->threads);
}

static void body(struct mma_kernel *k)
{
  const struct mma_plan *p = k->p;
  bool dependent = p->job->dependent && p->job->gpu->can & CAN_PDL;
  groups(k);
  mma_hidden_bounds(k, false);
  mma_load_declare(k);
  if (p->tail) tail_rooms(p->tail, k->t, k->global);
  mma_zero(k);
  if (dependent && !p->hold) text_line(k->t, "Sync<grid.trigger>#t()");
  if (dependent && !(p->hides && p->hidden.loads)) mma_ahead(k);
  if (dependent) text_line(k->t, "Sync<grid.wait>#t()");
  mma_hidden_bounds(k, true);
  if (dependent && p->hold) text_line(k->t, "Sync<grid.trigger>#t()");
  mma_section(k, MMA_CONST);
  begin_ring(k);
  mma_sides(k, false);
  mma_section(k, MMA_PRE);
  if (p->iterations > 1) mma_hoist(k);
  mma_declare_accumulators(k);
  loop(k);
  k->section = MMA_POST;
  mma_finish_accumulators(k);
  TEXT_SCOPE(k->t);
  if (p->parts) mma_parts_meet(k);
  mma_section(k, MMA_POST);
  for (int i = 0; i < p->n->nsave; i++) mma_save(k, i);
  if (p->tail)
    tail_emit(p->tail, k->t, k->global, p->threads);
  else if (!p->parts)
    emit_tiles_end(k->t, p->job->gpu, graph_blocks(p->n->block));
}

static const void *plan(const struct lower_job *j, const struct knobs *k, char why[160])
{
  struct mma_plan *p = NEW(j->mem, struct mma_plan);
  j = mma_retile(j, (struct norm_retile){k->v[MMA_ROWS], k->v[MMA_STEP], 0}, why);
  return mma_plan(p, j, why) && mma_fit(p, k) ? p : NULL;
}

static bool count(const void *plan, struct kernel_counts *out) { return mma_count(plan, NULL, out), true; }

static void emit(const void *plan, struct text t, struct lower_out *out)
{
  const struct mma_plan *p = plan;
  const struct lower_job *j = p->job;
  struct mma_kernel k = mma_kernel_new(p, &t);
  struct str reads = {0}, writes = {0};
  text_kernel(&t, j->name, NULL, j->gpu, CAN_PDL | CAN_CLUSTER);
  emit_arguments(&t, j->mem, &p->k, k.global, out, &reads, &writes);
  if (p->tail) tail_arguments(p->tail, &t, k.global, out, &reads, &writes);
  if (p->parts) mma_parts_arguments(p, &t, out, &writes);
  mma_head(p, &t, gpu_blocks(j->gpu, mma_blocks(p)), &reads, &writes);
  body(&k);
  text_until(&t, 0);
}

// ---- knobs ----

static int with_ahead(struct mma_plan *p, struct knobs *k, int n, struct knobs *out)
{
  k->v[MMA_AHEAD] = p->ahead = mma_ahead_best(p);
  if (p->job->counts) mma_count(p, NULL, &p->job->counts[n]);
  out[n++] = *k;
  return n;
}

// Blocks share the loop if there are too few of them for all multiprocessors.
static int with_parts(struct mma_plan *p, struct knobs k, int n, int most, struct knobs *out)
{
  const int64_t blocks = graph_blocks(p->n->block), cores = p->job->gpu->cores;
  for (int each = 1; each <= 4 && n < most && 2 * blocks <= each * cores; each *= 2) { // blocks of a multiprocessor
    const int parts = mma_parts_near(p, (int)(each * cores / blocks)), before = k.v[MMA_PARTS];
    k.v[MMA_PARTS] = parts;
    if (parts > before && mma_fit(p, &k)) n = with_ahead(p, &k, n, out);
  }
  return n;
}

// Tries one layout of warps with different numbers of stages. Returns the new number of settings.
static int with_stages(struct mma_plan *p, struct norm_retile to, const struct warp_layout *w, int n, int most, struct knobs *out)
{
  int ways = p->job->tail ? 2 : 1;
  for (int way = 0; way < 3 * ways && n < most; way++) {
    int stages = 4 - way / ways;
    struct knobs k = {{[MMA_WM] = w->rows,
                       [MMA_WN] = w->cols,
                       [MMA_BY] = w->sums ? MMA_BY_SUMS : MMA_BY_COLUMNS,
                       [MMA_STAGES] = stages,
                       [MMA_LAST] = way % ways,
                       [MMA_ROWS] = (int)to.rows,
                       [MMA_STEP] = (int)to.step}};
    if (stages > 2 && p->iterations > 1 && stages - 1 > p->iterations) continue;
    if ((p->iterations == 1 && stages == 3) || !mma_fit(p, &k)) continue;
    if (p->iterations == 1 && !p->queued && stages < 4) continue; // all numbers of stages give the same kernel
    n = with_ahead(p, &k, n, out);
    if (!way) n = with_parts(p, k, n, most, out);
  }
  return n;
}

enum { FEW_LAYOUTS = 8 }; // if the grid is re-tiled

// Tries layouts of warps in the order of threads.c, best first; then one or two tiles of rows for each warp, if that is no power of two.
static int layouts(const struct mma_plan *p, int most, struct warp_layout *w)
{
  const struct norm *n = mma_block_norm(p);
  int64_t tiles = mma_block_rows(p) / 16;
  int count = MIN(plan_threads(n, &n->passes->chains, w), most);
  for (int64_t rows = tiles; rows >= 3 && rows <= 16 && rows >= tiles - tiles / 2; rows -= tiles / 2)
    for (int cols = 1; rows * cols <= 16 && count < WARP_LAYOUTS && rows & (rows - 1); cols *= 2)
      w[count++] = (struct warp_layout){(int)rows, cols, cols > 1, 0, 0};
  return count;
}

static int choices(const struct lower_job *j, int most, struct knobs *out, char why[160])
{
  struct mma_plan p;
  struct warp_layout w[WARP_LAYOUTS];
  struct norm_retile to[MMA_CUTS];
  char other[160];
  int n = 0, cuts = mma_cuts(j, 16, to, why);
  for (int i = 0; i < cuts; i++) {
    if (!mma_plan(&p, mma_retile(j, to[i], other), other)) continue;
    int count = layouts(&p, i ? FEW_LAYOUTS : WARP_LAYOUTS, w);
    for (int k = 0; k < count && n < most; k++) {
      p.why = !i && w[k].rows * w[k].cols == 1 ? why : other; // the reason of one warp is the best one if no layout fits
      n = with_stages(&p, to[i], &w[k], n, most, out);
    }
  }
  return n;
}

// A kernel without a previous kernel has no next one to hold back.
static void settle(const struct lower_job *j, struct knobs *k)
{
  if (!j->dependent) k->v[MMA_HOLD] = 0;
}

const struct scheme scheme_mma = {
    .name = "mma",
    .doc = "products by mma.sync, chained in registers",
    .knob = {"wm", "wn", "by", "stages", "last", "rows", "step", "ahead", "hold", "parts"},
    .named = MMA_PARTS,
    .rules = MMA_RULES,
    .tails = true,
    .choices = choices,
    .plan = plan,
    .count = count,
    .emit = emit,
    .settle = settle,
};
