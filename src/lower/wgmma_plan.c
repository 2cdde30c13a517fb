// The scheme's requirements, and the plan for given knobs: the number of warpgroups, whether blocks are persistent, whether two products overlap
// across iterations, and whether registers and shared memory suffice.
#include "lower/count.h"
#include "lower/wgmma.h"

// Registers of a thread that computes and of one that copies tiles, by the number of computing warpgroups. Together they are no more than the block
// has when it starts: (65536 / threads) for each thread, rounded down to a multiple of 8.
static const int computing[WG_MOST + 1] = {0, 255, 240, 160, 112}, bringing[WG_MOST + 1] = {0, 0, 24, 32, 24};
enum { TWO_COMPUTING = 208, TWO_BRINGING = 40, TWO_ESTIMATED = 192 }; // of one computing warpgroup, so that a multiprocessor has room for two blocks
enum { BESIDE_ACCUMULATORS = 26 };                                    // registers of a wgmma instruction, at most (ptxas 13.0)
static const int most_estimated[WG_MOST + 1] = {0, 255, 224, 144, 100};

int wgmma_readers(const struct wg_plan *w) { return w->alternate ? 1 : w->groups; }

int wgmma_copies(const struct wg_plan *w) { return w->walks ? 2 : 1; }

// Whether something other than products reads the tile.
bool wgmma_reads_tile(const struct mma_plan *p, const struct mma_tile *t)
{
  int products = 0;
  for (int i = 0; i < p->nproducts; i++) products += p->product[i].a == t->value || p->product[i].b == t->value;
  return mma_at(p, t->value)->uses > products;
}

// Steps of sums, and columns of boxes, must be multiples of 16.
static void pad(struct mma_plan *p)
{
  for (int c = 0; c < p->ncols; c++) {
    bool inner = false;
    for (int i = 0; i < p->ntiles; i++) inner |= mma_list_has(&p->tile[i].in) == p->cols[c].has;
    if (inner || p->cols[c].summed) p->cols[c].padded = (p->cols[c].padded + 15) / 16 * 16;
  }
  for (int i = 0; i < p->ntiles; i++) mma_pad_tile(p, &p->tile[i], p->tile[i].reads);
}

// ---- matrices that lanes read in the loop, such as a bias of scores ----

bool wgmma_loads_matrix(const struct mma_plan *p, int v, int *cols)
{
  uint32_t letters = mma_has(p, v) & ~p->row_letters;
  *cols = letters ? mma_cols_with(p, letters) : -1;
  return mma_loads(p, v) && p->k.v[v].live && !p->k.v[v].at.index && p->tile_of[v] < 0 && mma_has(p, v) & p->row_letters && *cols >= 0;
}

static bool reads_matrix(const struct mma_plan *p, int v, int *cols)
{
  return mma_varies(p, v) && !mma_read_hidden(p, v) && wgmma_loads_matrix(p, v, cols);
}

bool wgmma_may_bring(const struct wg_plan *w)
{
  int cols;
  for (int v = 0; v < w->p.k.nvalues && w->p.iterations > 1; v++)
    if (reads_matrix(&w->p, v, &cols) || wgmma_end_reads(&w->p, v, &cols)) return true;
  return false;
}

// Makes tiles of matrices that are boxes.
static bool bring_matrices(struct wg_plan *w)
{
  struct mma_plan *p = &w->p;
  char ignored[160], *why = p->why;
  int before = p->ntiles;
  p->why = ignored;
  for (int v = 0; v < p->k.nvalues && p->iterations > 1; v++) {
    int cols;
    if ((!reads_matrix(p, v, &cols) && !wgmma_end_reads(p, v, &cols)) || !mma_lane_tile(p, v, cols)) continue;
    if (!box_make(p, &p->tile[p->ntiles - 1], &w->box[p->ntiles - 1])) p->ntiles--, p->tile_of[v] = -1;
  }
  p->why = why;
  return p->ntiles > before || mma_refuse(p, "lanes read no matrix that TMA can bring");
}

bool wgmma_lanes_read(const struct mma_plan *p)
{
  for (int i = 0; i < p->ntiles; i++)
    if (p->tile[i].varying && wgmma_reads_tile(p, &p->tile[i])) return true;
  return false;
}

bool wgmma_plan(struct wg_plan *w, const struct lower_job *j, int brought, char why[160])
{
  struct mma_plan *p = &w->p;
  if (!j || !mma_plan(p, j, why)) return false;
  p->why = why, p->wg = true, w->any_varying = false;
  mma_join_sums(p);
  if (p->nsides) return mma_refuse(p, "the right operand of a product is computed");
  if (p->nbatch > 1) return mma_refuse(p, "right operands differ among the rows of a block");
  if ((p->cut ? p->cut : p->nrows) % 64) return mma_refuse(p, "%lld rows, no multiple of 64", (long long)p->nrows);
  pad(p);
  if (brought < 0 || brought > 1) return mma_refuse(p, "knobs out of range");
  if (brought && !bring_matrices(w)) return false;
  for (int i = 0; i < p->nproducts; i++)
    if (p->cols[p->product[i].out_cols].padded > WG_MOST * WG_COLUMNS)
      return mma_refuse(p, "a product of more than %d columns", WG_MOST * WG_COLUMNS);
  for (int i = 0; i < p->ntiles; i++) {
    struct mma_tile *t = &p->tile[i];
    if (!box_make(p, t, &w->box[i])) return false;
    t->stride = t->cols;
    t->swizzle[0] = w->box[i].chunk == 64 ? 3 : w->box[i].chunk == 32 ? 2 : 1, t->swizzle[1] = t->swizzle[2] = 3;
    w->any_varying |= t->varying;
  }
  wgmma_store_plan(w);
  return true;
}

// Whether the loop only adds products to accumulators. Then the products of one iteration run while the next ones begin.
static bool adds_only(const struct mma_plan *p)
{
  if (p->iterations == 1) return false;
  for (int i = 0; i < p->norder; i++) {
    int v = p->order[i];
    bool product = p->product_of[v] >= 0 && p->product[p->product_of[v]].into >= 0;
    if (p->section[v] != MMA_LOOP || p->folded[v]) continue;
    if (product && p->tile_of[p->product[p->product_of[v]].a] < 0) return false;
    if (!product && (mma_at(p, v)->kind != KERN_SUM || !mma_adds_products(p, v))) return false;
  }
  for (int i = 0; i < p->ntiles; i++)
    if (wgmma_reads_tile(p, &p->tile[i])) return false;
  return true;
}

// Finds two products in the loop, the second of values computed from the first (attention). Then the second product of an iteration runs while the
// next iteration computes from its first.
static void find_chain(struct wg_plan *w)
{
  const struct mma_plan *p = &w->p;
  const struct mma_product *first = NULL, *second = NULL;
  w->first = w->second = NULL;
  for (int i = 0; i < p->nproducts; i++) {
    const struct mma_product *x = &p->product[i];
    if (p->section[x->out] != MMA_LOOP) continue;
    bool ready = p->tile_of[x->a] >= 0 || !mma_varies(p, x->a), adds = x->into >= 0;
    if (ready && !adds && (!first || x->leads == first->leads))
      first = &p->product[x->leads];
    else if (!ready && adds && !second)
      second = x;
    else
      return;
  }
  if (!first || !second || p->iterations < 2 || p->mt > 1) return;
  if (!p->tile[p->tile_of[second->b]].varying) return;
  for (int i = 0; i < p->nproducts; i++)
    if (p->product[i].leads == first->leads && !p->tile[p->tile_of[p->product[i].b]].varying) return;
  for (int i = 0; i < p->ntiles; i++)
    if (p->tile[i].varying && !p->tile[i].lanes && wgmma_reads_tile(p, &p->tile[i])) return;
  if (mma_varies(p, second->a)) w->first = first, w->second = second;
}

// Whether exponentials limit the loop: the two products have few multiplications for each exponential.
static bool poly(struct wg_plan *w, int every)
{
  struct mma_plan *p = &w->p;
  p->poly = every;
  if (!every) return true;
  if (!w->first || p->cols[w->first->sum_cols].padded + p->cols[w->second->out_cols].padded > 256)
    return mma_refuse(p, "exponentials are not many beside products");
  return p->cols[w->second->sum_cols].nt % every == 0 || mma_refuse(p, "columns that %d does not divide", every);
}

static bool chain(struct wg_plan *w, int how)
{
  struct mma_plan *p = &w->p;
  w->first = w->second = NULL, w->turns = how == WG_TURNS, w->rings = 1;
  if (!how) return true;
  if (w->alternate) return mma_refuse(p, "warpgroups of a chain share the tiles of an item");
  find_chain(w);
  if (!w->first) return mma_refuse(p, "no two products that follow each other in the loop");
  w->rings = 2;
  for (int i = 0; i < p->nproducts; i++)
    if (p->product[i].leads == w->first->leads && p->product[i].b == w->second->b) w->rings = 1;
  return !w->turns || w->groups > 1 || mma_refuse(p, "one warpgroup alone takes no turns");
}

// ---- warpgroups along rows and along columns ----

const char *wgmma_rows(const struct mma_plan *p)
{
  int rows = p->wm / 4;
  return rows == 1 ? "0" : p->wn == 1 ? "@g" : arena_printf(p->job->mem, "@g %% %d", rows);
}

const char *wgmma_part(const struct mma_plan *p) { return p->wm == 4 ? "@g" : arena_printf(p->job->mem, "@g / %d", p->wm / 4); }

static bool share_groups(struct wg_plan *w, const struct knobs *k)
{
  struct mma_plan *p = &w->p;
  w->groups = k->v[WG_GROUPS], w->wide = MAX(k->v[WG_WIDE], 1), w->alternate = k->v[WG_ALTERNATE] == 1;
  if (k->v[WG_WIDE] < 0 || k->v[WG_WIDE] == 1 || w->groups < 1 || w->groups > WG_MOST || w->groups % w->wide)
    return mma_refuse(p, "knobs out of range");
  w->along = w->alternate ? 1 : w->groups / w->wide;
  return mma_block_rows(p) % (w->along * 64) == 0 || mma_refuse(p, "%d warpgroups for %lld rows", w->along, (long long)mma_block_rows(p));
}

// Whether a warpgroup's columns of each product fit one instruction, and are whole pieces of a tile.
static bool share_columns_so(struct wg_plan *w)
{
  struct mma_plan *p = &w->p;
  for (int i = 0; i < p->nproducts; i++) {
    const struct mma_product *x = &p->product[i];
    const struct mma_tile *t = mma_tile_at(p, x->b);
    int columns = 8 * p->cols[x->out_cols].nt;
    if (columns > WG_COLUMNS) return mma_refuse(p, "a product of more than %d columns a warpgroup", WG_COLUMNS);
    if (mma_list_has(&t->in) == x->cols && columns % w->box[p->tile_of[x->b]].chunk)
      return mma_refuse(p, "warpgroups share columns within a piece of a tile");
  }
  for (int i = 0; i < p->n->nsave && w->wide > 1; i++)
    if (wgmma_sends(w, i) && !p->cols[p->shape[p->k.save[i].value].cols].split)
      return mma_refuse(p, "a result that all warpgroups have would be sent");
  return true;
}

static double seconds(const void *plan)
{
  const struct wg_plan *w = plan;
  struct kernel_counts c;
  wgmma_count(w, &c);
  return kernel_time(&c, w->p.job->gpu, NULL);
}

// Registers of a thread that the widest instruction needs.
static int64_t instruction_registers(const struct mma_plan *p)
{
  int64_t most = 0;
  for (int i = 0; i < p->nproducts; i++) most = MAX(most, 4 * p->cols[p->product[i].out_cols].nt);
  return most + BESIDE_ACCUMULATORS;
}

// If two blocks fit by their shared memory, but not by registers, one warpgroup computes: it takes registers of the one that copies tiles. The compiler
// must be able to allocate each instruction within the registers that a block has at its start.
static void share_registers(struct wg_plan *w)
{
  const struct mma_plan *p = &w->p;
  const struct target *gpu = p->job->gpu;
  const bool one = w->groups == 1 && p->registers * p->threads > gpu->registers / 2 && p->registers <= TWO_ESTIMATED;
  w->two = one && (gpu->can & CAN_SETMAXNREG) && 2 * (p->shared + 1024) <= gpu->shared_processor &&
           2 * p->threads * instruction_registers(p) <= gpu->registers;
  if (w->two) w->computing = TWO_COMPUTING, w->bringing = TWO_BRINGING, w->divides = true;
}

bool wgmma_fit(struct wg_plan *w, const struct knobs *k)
{
  struct mma_plan *p = &w->p;
  if (!share_groups(w, k)) return false;
  w->places = k->v[WG_STORE];
  if (w->places < 0 || w->places > 4 || (w->places && p->job->tail)) return mma_refuse(p, "knobs out of range");
  if (w->places && !w->store_chunk) return mma_refuse(p, "no result is a box of 16-bit elements");
  wgmma_store_sections(w);
  struct knobs as = {{[MMA_WM] = 4 * w->along, [MMA_WN] = w->wide, [MMA_BY] = MMA_BY_COLUMNS, [MMA_STAGES] = k->v[WG_STAGES]}};
  struct target roomy = *p->job->gpu;
  struct lower_job job = *p->job;
  const struct lower_job *own = p->job;
  roomy.registers = INT32_MAX, job.gpu = &roomy, p->job = &job; // setmaxnreg divides the registers
  bool fits = mma_fit(p, &as);
  p->job = own;
  if (!fits || !share_columns_so(w)) return false;
  p->shared += 1024 + 32 * p->stages + 64 + wgmma_store_bytes(w) + wgmma_vector_bytes(w);
  w->any_fixed = false;
  for (int i = 0; i < p->ntiles; i++) w->any_fixed |= !p->tile[i].varying && p->tile[i].slot < 0 && !wgmma_is_end(&p->tile[i]);
  w->items = w->blocks = graph_blocks(p->n->block);
  if (k->v[WG_BLOCKS] < 0) return mma_refuse(p, "knobs out of range");
  if (k->v[WG_BLOCKS] && k->v[WG_BLOCKS] < w->items) w->blocks = k->v[WG_BLOCKS];
  w->walks = w->blocks < w->items;
  if (w->blocks > gpu_blocks(p->job->gpu, w->items)) return mma_refuse(p, "more blocks than workers");
  p->hides = p->may_hide;
  if (wgmma_counts(w)) p->share = mma_hidden_walk(p, w->items, w->blocks);
  if (w->walks && !w->any_varying) return mma_refuse(p, "blocks do not walk over tiles without a loop");
  for (int i = 0; i < p->ntiles; i++)
    if (w->walks && !p->tile[i].varying && !wgmma_is_end(&p->tile[i])) {
      if (wgmma_reads_tile(p, &p->tile[i])) return mma_refuse(p, "lanes read a tile that does not change with the loop");
      p->shared += p->tile[i].rows * p->tile[i].cols * dtype_bytes(p->type); // two, so that the next one is copied early
    }
  if (!wgmma_pair_fit(w, k->v[WG_PAIR]) || !wgmma_turns_fit(w, k->v[WG_ALTERNATE]) || !wgmma_end_fit(w)) return false;
  if (p->job->tail && w->walks) return mma_refuse(p, "blocks that walk have no tail");
  if (!mma_tail_fit(p, k->v[WG_LAST], 128 * w->groups)) return false;
  p->wg_async = adds_only(p), p->wg_copy = w->walks ? "round % 2" : "0";
  w->computing = computing[w->groups], w->bringing = bringing[w->groups], w->divides = w->groups > 1, w->two = false;
  if (!chain(w, k->v[WG_CHAIN]) || !poly(w, k->v[WG_POLY]) || !wgmma_split_fit(w, k->v[WG_SPLIT])) return false;
  if (p->shared > own->gpu->scratch) return mma_refuse(p, "%lld bytes of shared memory", (long long)p->shared);
  if (p->registers > (w->first || p->job->exact ? w->computing : most_estimated[w->groups]))
    return mma_refuse(p, "about %lld registers a thread", (long long)p->registers);
  p->threads = 128 * (w->groups + 1);
  if (!w->split && !w->alternate) mma_runs_choose(p, seconds, w); // the warps of two warpgroups would use the same stage
  share_registers(w);
  return true;
}
