// Loops over keys that a condition on indices masks, for mma.sync and wgmma. A block executes only the iterations with unmasked elements, and
// compares indices only in those with masked elements. kern_hidden.c gives the bounds. If bounds load numbers, each warp loads those of all rows of
// the block. A block with a row without unmasked elements executes all iterations, because the maximum of masked scores matters for that row.
#include "lower/mma.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_BLOCKS = 1 << 16 }; // blocks that are examined to compute the share

// ---- bounds: rest(block) + step * iteration >= 0 ----

static int64_t step_of(const struct mma_plan *p, const struct kern_sum *b)
{
  return b->stride[p->n->nletters + p->n->block->ngrid + norm_only_loop(p->n->block)];
}

struct mma_row_step {
  int64_t step, each; // of a bound, from `each` rows to the next
};

// For blocks that have pieces of all rows. False: rows are not one walk.
static bool row_step(const struct mma_plan *p, const struct kern_sum *b, struct mma_row_step *out)
{
  struct lower_walk w;
  space_walk(&p->rows, p->n->extent, b->stride, 1, 1, &w);
  const bool pairs = w.n == 2 && !w.stride[1];
  *out = (struct mma_row_step){w.n ? w.stride[0] : 0, pairs ? w.extent[1] : 1};
  return p->cut && (w.n <= 1 || pairs);
}

// The most or the least that letters add to a bound, without the letters of rows in pieces.
static int64_t tile_part(const struct mma_plan *p, const struct kern_sum *b, bool most)
{
  int64_t r = b->constant;
  struct mma_row_step row;
  bool pieces = row_step(p, b, &row);
  for (int l = 0; l < p->n->nletters; l++) {
    int64_t far = b->stride[l] * (p->n->extent[l] - 1);
    if (!(pieces && p->row_letters >> l & 1)) r += most ? MAX(0, far) : MIN(0, far);
  }
  return r;
}

// Prints a number, the terms of the grid and of these letters of rows, and the text `more`. Positive terms come first, then negative ones.
static const char *sum_text(struct mma_kernel *k, const struct kern_sum *b, int64_t number, uint32_t letters, const char *more, bool less)
{
  const struct mma_plan *p = k->p;
  const int64_t *grid = &b->stride[p->n->nletters];
  struct str text[2] = {{0}};
  struct plan_access side[2] = {{0}};
  side[number < 0].offset = llabs(number);
  for (int i = 0; i < p->n->block->ngrid; i++) side[grid[i] < 0].grid[i] = llabs(grid[i]);
  for (int l = 0; l < p->n->nletters; l++)
    if (letters >> l & 1) side[b->stride[l] < 0].stride[l] = llabs(b->stride[l]);
  for (int i = 0; i < 2; i++) mma_walk_base(p, &side[i], 1, "0", &text[i]), mma_row_walk(p, side[i].stride, 1, &text[i]);
  if (*more) str_add(&text[less], " + %s", more);
  const char *plus = str_keep(k->mem, &text[0]), *minus = str_keep(k->mem, &text[1]);
  return arena_printf(k->mem, "(%s - (%s))", plus, minus);
}

static const char *rest(struct mma_kernel *k, const struct kern_sum *b, bool most)
{
  const struct mma_plan *p = k->p;
  const char *rows = "";
  struct mma_row_step row;
  if (row_step(p, b, &row) && row.step) {
    const char *at = mma_cut_row(p, most == (row.step > 0) ? arena_printf(k->mem, "%lld", (long long)p->cut - 1) : "0", true);
    const char *each = row.each > 1 ? arena_printf(k->mem, " / %lld", (long long)row.each) : "";
    rows = arena_printf(k->mem, "(%s)%s * %lld", at, each, (long long)llabs(row.step));
  }
  return sum_text(k, b, tile_part(p, b, most), 0, rows, row.step < 0);
}

// ---- bounds that load numbers: each row's first and last unmasked element ----

static const char *loaded(struct mma_kernel *k, int value, const char *name)
{
  const struct plan_access *a = mma_access(k->p, value);
  const char *type = tile_dtype(k->p->job->store[a->tensor]);
  struct str at = {0};
  mma_walk_base(k->p, a, 1, "0", &at);
  mma_row_walk(k->p, a->stride, 1, &at);
  text_fill(k->t,
            "%$name:[1].$type.RF\n"
            "%$name[0] <- Move(%$global[$at])\n"
            "%$name_i:[1].i32.RF\n"
            "%$name_i <- UnaryPointwise<cast>(%$name)\n"
            "@$name = value(%$name_i[0])",
            HOLES(NULL, STR(name, name), STR(type, type), STR(global, k->global[a->tensor]), STR(at, str_keep(k->mem, &at))));
  return arena_printf(k->mem, "@%s", name);
}

// The left side of the bound in row @r, without the term of the element's own index.
static const char *row_rest(struct mma_kernel *k, const struct kern_sum *b, const char *name)
{
  return sum_text(k, b, b->constant, k->p->row_letters, b->by ? loaded(k, b->load, name) : "", b->by < 0);
}

static void loaded_bounds(struct mma_kernel *k)
{
  const struct mma_plan *p = k->p;
  const long long rows = mma_block_rows(p), step = llabs(step_of(p, &p->hidden.bound[0])), all = step * p->iterations;
  const char *first = "0", *last = arena_printf(k->mem, "%lld", all - 1);
  text_begin(k->t,
             "%span:[5].fp32.RF\n"
             "%span <- Init<-16777216.0>()\n"
             "for (z = 0; z < $turns; z += 1)$unroll {",
             HOLES(NULL, INT(turns, (rows + 31) / 32), STR(unroll, rows <= 256 ? " unroll" : "")));
  mma_row_names(k, rows % 32 ? arena_printf(k->mem, "min(z * 32 + @lane, %lld)", rows - 1) : "z * 32 + @lane");
  for (int i = 0; i < p->hidden.nbounds; i++) {
    const struct kern_sum *b = &p->hidden.bound[i];
    const char *x = row_rest(k, b, arena_printf(k->mem, "bound%d", i));
    if (step_of(p, b) > 0) first = arena_printf(k->mem, "max(%s, 0 - %s)", first, x);
    if (step_of(p, b) < 0) last = arena_printf(k->mem, "min(%s, %s)", last, x);
  }
  text_line(k->t, "@first_shown = %s\n@last_shown = %s\n@none = (@first_shown > @last_shown)", first, last);
  const char *more = p->hidden.more < 0 ? "0" : arena_printf(k->mem, "(%s > 0)", loaded(k, p->hidden.more, "more"));
  text_fill(k->t,
            "%one:[5].fp32.RF\n"
            "%one[0] <- Init<(0 - @first_shown * (1 - @none))><<<#grid, #me>>>()\n"
            "%one[1] <- Init<(@last_shown * (1 - @none) + $end * @none)><<<#grid, #me>>>()\n"
            "%one[2] <- Init<(@first_shown + $all * (@none + $more))><<<#grid, #me>>>()\n"
            "%one[3] <- Init<(0 - @last_shown)><<<#grid, #me>>>()\n"
            "%one[4] <- Init<($more)><<<#grid, #me>>>()\n"
            "%span <- BinaryPointwise<max>(%span, %one)",
            HOLES(NULL, INT(all, all), INT(end, all - 1), STR(more, more)));
  text_close(k->t);
  text_fill(k->t,
            "%spans:[5].i32.RF\n"
            "%spans <- UnaryPointwise<cast>(%span)\n"
            "%spans <- Reduction<max>#warp(%spans)\n" // a reduction of integers is one instruction, and makes the value uniform
            "@least = value(%spans[0])\n"
            "@most = value(%spans[1])\n"
            "@whole = value(%spans[2])\n"
            "@until = value(%spans[3])\n"
            "@adds = value(%spans[4])\n"
            "@from = min((0 - @least) / $step, $ends)\n"
            "@count = max(@most / $step + 1 - @from, 1)",
            HOLES(NULL, INT(step, step), INT(ends, p->iterations - 1)));
}

static bool loads_rows(const struct mma_plan *p, int load)
{
  return p->n->kernels->tensors[p->k.v[load].at.tensor].dtype == I32 && !(mma_has(p, load) & ~p->row_letters);
}

// Whether the elements along the loop are numbered 0, 1, ... in all bounds, with the same factor 1 or -1.
static bool may_load(const struct mma_plan *p)
{
  for (int i = 0; i < p->hidden.nbounds; i++) {
    const struct kern_sum *b = &p->hidden.bound[i];
    int64_t step = step_of(p, b), inner = 0;
    for (int l = 0; l < p->n->nletters; l++)
      if (!(p->row_letters >> l & 1) && p->n->extent[l] > 1) inner += b->stride[l] * (p->n->extent[l] - 1);
    if (!step || llabs(inner + (step > 0 ? 1 : -1)) != llabs(step) || llabs(step) != llabs(step_of(p, &p->hidden.bound[0])) || llabs(b->by) > 1)
      return false;
    if (b->by && !loads_rows(p, b->load)) return false;
  }
  return p->nbatch == 1 && (p->hidden.more < 0 || loads_rows(p, p->hidden.more));
}

void mma_hidden_bounds(struct mma_kernel *k, bool waited)
{
  const struct mma_plan *p = k->p;
  const char *from = "0", *to = arena_printf(k->mem, "%lld", (long long)p->iterations);
  if (!p->hides || p->hidden.loads != waited) return;
  if (p->hidden.loads) {
    loaded_bounds(k);
    return;
  }
  for (int i = 0; i < p->hidden.nbounds; i++) {
    const struct kern_sum *b = &p->hidden.bound[i];
    long long step = step_of(p, b);
    if (step > 0) from = arena_printf(k->mem, "max(%s, 0 - %s / %lld)", from, rest(k, b, true), step);
    if (step < 0) to = arena_printf(k->mem, "min(%s, %s / %lld + 1)", to, rest(k, b, true), -step);
    if (!step && p->hidden.root < 0) to = arena_printf(k->mem, "min(%s, %lld * (%s >= 0))", to, (long long)p->iterations, rest(k, b, true));
  }
  text_line(k->t, "@from = min(%s, %lld)", from, (long long)p->iterations - 1);
  text_line(k->t, "@count = max(%s - @from, 1)", to);
}

// Whether blocks may skip the first iterations.
static bool begins_late(const struct mma_plan *p)
{
  bool late = p->parts || (p->hidden.loads && p->hides);
  for (int i = 0; i < p->hidden.nbounds && p->hides; i++) late |= step_of(p, &p->hidden.bound[i]) > 0;
  return late;
}

const char *mma_iteration(const struct mma_plan *p, const char *it)
{
  return begins_late(p) ? arena_printf(p->job->mem, "min(@from + %s, %lld)", it, (long long)p->iterations - 1) : it;
}

const char *mma_iterations(const struct mma_kernel *k)
{
  return k->p->hides || k->p->parts ? "@count" : arena_printf(k->mem, "%lld", (long long)k->p->iterations);
}

const char *mma_partly_hidden(struct mma_kernel *k)
{
  const char *text = "", *it = mma_it(k);
  long long step = k->p->hidden.loads ? llabs(step_of(k->p, &k->p->hidden.bound[0])) : 0;
  if (step) return arena_printf(k->mem, "%s * %lld < @whole || %s * %lld + %lld > 0 - @until", it, step, it, step, step - 1);
  for (int i = 0; i < k->p->hidden.nbounds; i++) {
    const struct kern_sum *b = &k->p->hidden.bound[i];
    step = step_of(k->p, b);
    const char *at = !step ? "" : arena_printf(k->mem, step < 0 ? " - %s * %lld" : " + %s * %lld", it, llabs(step));
    text = text_join(k->mem, text, " || ", "%s%s < 0", rest(k, b, false), at);
  }
  return text;
}

// ---- the plan ----

// Finds the values in the loop that only the masked score depends on.
static void mark_own(struct mma_plan *p)
{
  const struct kern_hidden *h = &p->hidden;
  for (int v = h->root - 1; v >= 0; v--) {
    const struct kern_value *x = mma_at(p, v);
    bool own = x->live && x->kind == KERN_MAP && v != h->shown && p->section[v] == MMA_LOOP && x->uses;
    for (int r = v + 1; r < p->k.nvalues && own; r++) own = !mma_reads(p, r, v) || r == h->root || p->own[r];
    for (int s = 0; s < p->k.nsaves && own; s++) own = p->k.save[s].value != v;
    p->own[v] = own;
  }
  for (int v = 0; v < h->root; v++) p->folded[v] |= p->own[v];
  for (int v = h->more < 0 ? -1 : h->added; v >= 0; v--) {
    bool added = p->own[v];
    for (int r = v + 1; r < p->k.nvalues && v != h->added && added; r++) added = !mma_reads(p, r, v) || p->added[r];
    p->added[v] = added;
  }
}

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

// The iterations of the block at these grid coordinates, and how many of them have masked elements.
static int64_t iterations_at(const struct mma_plan *p, const int64_t *grid, int64_t *mixed)
{
  int64_t from = 0, to = p->iterations, whole_from = 0, whole_to = p->iterations;
  for (int i = 0; i < p->hidden.nbounds; i++) {
    const struct kern_sum *b = &p->hidden.bound[i];
    int64_t most = tile_part(p, b, true), least = tile_part(p, b, false), step = step_of(p, b);
    struct mma_row_step row;
    for (int g = 0; g < p->n->block->ngrid; g++) most += b->stride[p->n->nletters + g] * grid[g], least += b->stride[p->n->nletters + g] * grid[g];
    if (row_step(p, b, &row)) {
      int64_t first = grid[0] * p->cut / row.each, last = (MIN((grid[0] + 1) * p->cut, p->nrows) - 1) / row.each;
      most += row.step * (row.step > 0 ? last : first), least += row.step * (row.step > 0 ? first : last);
    }
    if (step > 0) from = MAX(from, -floor_div(most, step)), whole_from = MAX(whole_from, -floor_div(least, step));
    if (step < 0) to = MIN(to, floor_div(most, -step) + 1), whole_to = MIN(whole_to, floor_div(least, -step) + 1);
    if (!step && least < 0) whole_to = 0;
    if (!step && most < 0) to = 0;
  }
  int64_t n = MAX(to - MIN(from, p->iterations - 1), 1);
  *mixed = n - MIN(n, MAX(whole_to - whole_from, 0));
  return n;
}

// The only grid axis on which bounds depend; -1: there are several, or none.
static int bounds_axis(const struct mma_plan *p)
{
  int axis = -1, n = 0;
  for (int g = 0; g < p->n->block->ngrid; g++) {
    bool depends = p->cut && !g;
    for (int i = 0; i < p->hidden.nbounds; i++) {
      const struct kern_sum *b = &p->hidden.bound[i];
      depends |= b->stride[p->n->nletters + g] || (b->by && mma_access(p, b->load)->grid[g]);
    }
    if (depends) axis = g, n++;
  }
  return n == 1 ? axis : -1;
}

static int64_t iterations_of(const struct mma_plan *p, int64_t block, int64_t *mixed)
{
  const struct graph *b = p->n->block;
  int64_t grid[GRID_AXES];
  for (int g = 0; g < b->ngrid; g++) grid[g] = block % b->grid[g], block /= b->grid[g];
  return iterations_at(p, grid, mixed);
}

// The share of iterations that are executed. If all blocks run at once, the longest block counts.
static void shares(struct mma_plan *p)
{
  int64_t blocks = graph_blocks(p->n->block), all = 0, some = 0, most = 0, first = 0, last = 0, looked = 0;
  for (int64_t i = 0; i < blocks; i += MAX(1, blocks / MOST_BLOCKS), looked++) {
    int64_t mixed, n = iterations_of(p, i, &mixed);
    all += n, some += mixed, most = MAX(most, n);
    if (!i) first = n;
    last = n;
  }
  double turns = (double)blocks / (double)p->job->gpu->cores;
  p->share = fmax((double)all / (double)looked, (double)most / fmax(1, turns)) / (double)p->iterations;
  p->partly = (double)some / (double)all, p->backwards = last > first;
}

double mma_hidden_walk(const struct mma_plan *p, int64_t items, int64_t blocks)
{
  const int64_t rounds = (items + blocks - 1) / blocks, each = MAX(1, blocks / (MOST_BLOCKS / rounds + 1));
  int64_t longest = 0, mixed;
  if (p->hidden.loads || p->late >= 0) return p->share; // in order of their iterations
  for (int64_t b = 0; b < blocks; b += each) {
    int64_t sum = 0;
    for (int64_t r = 0, at; r < rounds; r++)
      if ((at = r % 2 ? (r + 1) * blocks - 1 - b : r * blocks + b) < items) sum += iterations_of(p, p->backwards ? items - 1 - at : at, &mixed);
    longest = MAX(longest, sum);
  }
  return fmax(p->share, (double)longest / (double)(rounds * p->iterations));
}

// Loaded bounds are unknown before the kernel runs: half of the elements, as with a causal mask.
static void share_loaded(struct mma_plan *p)
{
  double turns = (double)graph_blocks(p->n->block) / (double)p->job->gpu->cores;
  p->share = fmax(0.5, 1 / fmax(1, turns)), p->partly = fmin(1, 2 / (p->share * (double)p->iterations)), p->backwards = true;
}

bool mma_read_hidden(const struct mma_plan *p, int load)
{
  bool only = p->may_hide && !mma_at(p, load)->at.index;
  for (int v = load + 1; v < p->k.nvalues && only; v++) only = !mma_reads(p, v, load) || p->own[v];
  return only;
}

void mma_hidden_plan(struct mma_plan *p)
{
  p->share = p->partly = 1, p->late = -1;
  p->own = NEWS(p->job->mem, bool, p->k.nvalues + 1), p->added = NEWS(p->job->mem, bool, p->k.nvalues + 1);
  p->may_hide = p->hides = p->iterations > 1 && norm_only_loop(p->n->block) >= 0 && kern_hides(&p->k, &p->hidden);
  if (p->hides && p->hidden.loads && !may_load(p)) p->may_hide = p->hides = false;
  if (!p->hides) return;
  mark_own(p);
  (p->hidden.loads ? share_loaded : shares)(p);
  p->late = p->backwards ? bounds_axis(p) : -1;
}
