// Blocks that share the iterations of a loop, so that few rows and many keys keep all multiprocessors busy. The extent of the loop may be a prime
// number: the last block of a group has fewer iterations. Each block writes its accumulators to device memory as its registers have them. The last
// block of a group, by a counter, reads all of them in the order of the parts, and computes what comes after the loop. So results do not depend on
// which block is the last one.
//
// Maxima are combined by the maximum, sums by addition. A rescaled sum is multiplied by its factor: what the loop computes of the distance that the
// running maximum has moved. That factor is computed again for the distances to the common maximum.
#include "lower/mma.h"

static bool exchanged(const struct mma_plan *p, int v)
{
  return mma_accumulates(p, v) && mma_at(p, v)->kind != KERN_RUN_MOVE && mma_last_of(p, v) < 0;
}

// Marks the values by which the loop computes `v` from one running maximum's distance. False: it reads something else.
static bool mark_factor(const struct mma_plan *p, int v, bool *factor)
{
  const struct kern_value *x = mma_at(p, v);
  if (x->kind == KERN_CONST || x->kind == KERN_RUN_MOVE) return true;
  if (x->kind != KERN_MAP || mma_loads(p, v)) return false;
  factor[v] = true;
  for (int i = 0; i < x->nin; i++)
    if (!mark_factor(p, x->in[i], factor)) return false;
  return true;
}

// Whether blocks can share the loop.
static bool may_share(struct mma_plan *p)
{
  const unsigned kinds = 1u << KERN_SUM | 1u << KERN_MAX | 1u << KERN_RUN_MAX | 1u << KERN_RUN_MOVE | 1u << KERN_RESCALE;
  if (p->job->tail || p->hides || p->wg) return mma_refuse(p, "blocks do not share a loop with a tail or with hidden iterations");
  if (norm_only_loop(p->n->block) < 0) return mma_refuse(p, "blocks share one loop only");
  for (int i = 0; i < p->norder; i++) {
    const int v = p->order[i];
    const struct kern_value *x = mma_at(p, v);
    if (!mma_accumulates(p, v)) continue;
    if (!(kinds >> x->kind & 1) || (!kern_has(x, KERN_KEEPS) && x->axes & p->k.loops)) return mma_refuse(p, "blocks cannot share this accumulator");
    if (x->kind == KERN_RUN_MOVE && mma_running(p, v, KERN_RUN_MAX) < 0) return mma_refuse(p, "a distance without its maximum");
    if (x->kind == KERN_RESCALE && !mark_factor(p, x->in[1], p->factor)) return mma_refuse(p, "a factor that depends on more than the maximum");
  }
  for (int i = 0; i < p->k.nsaves; i++)
    if (mma_at(p, p->k.save[i].value)->axes & p->k.loops) return mma_refuse(p, "blocks that share a loop store nothing in it");
  return true;
}

int64_t mma_parts_each(const struct mma_plan *p) { return p->parts ? (p->iterations + p->parts - 1) / p->parts : p->iterations; }

int64_t mma_blocks(const struct mma_plan *p) { return graph_blocks(p->n->block) * MAX(1, p->parts); }

int mma_parts_near(const struct mma_plan *p, int parts)
{
  const int64_t wanted = MAX(1, MIN(parts, p->iterations)), least = 2; // iterations of a block
  const int64_t each = MAX(least, (p->iterations + wanted - 1) / wanted), fit = (p->iterations + each - 1) / each;
  return fit < 2 ? 0 : (int)MIN(fit, MMA_MOST_PARTS);
}

bool mma_parts_fit(struct mma_plan *p, int parts)
{
  p->parts = 0;
  if (!parts) return true;
  if (parts < 2 || parts > MMA_MOST_PARTS || parts > p->iterations) return mma_refuse(p, "knobs out of range");
  const int64_t each = (p->iterations + parts - 1) / parts;
  if (each * (parts - 1) >= p->iterations) return mma_refuse(p, "a block without iterations");
  p->factor = NEWS(p->job->mem, bool, p->k.nvalues + 1);
  if (!may_share(p)) return false;
  p->parts = parts, p->shared += 16;
  return gpu_blocks(p->job->gpu, mma_blocks(p)) == mma_blocks(p) || mma_refuse(p, "blocks that share a loop have one item each");
}

// ---- memory ----

int64_t mma_parts_words(const struct mma_plan *p)
{
  int64_t words = 0;
  for (int i = 0; i < p->norder; i++)
    if (exchanged(p, p->order[i])) {
      struct mma_shape s = p->shape[p->order[i]];
      const struct mma_cols *c = s.cols >= 0 ? &p->cols[s.cols] : NULL;
      words += mma_fragment_registers(p, s) / (c && c->split_after && !c->split ? p->wn : 1); // split once the loop has ended
    }
  return words;
}

// Rows that a block computes; the tiles of its warps may have more.
static int64_t rows_of(const struct mma_plan *p) { return p->cut ? MIN(p->cut, p->nrows) : p->nbatch * p->nrows; }

static bool lacks_rows(const struct mma_plan *p) { return p->nbatch == 1 && rows_of(p) < p->wm * p->mt * 16; }

void mma_parts_arguments(const struct mma_plan *p, struct text *t, struct lower_out *out, struct str *writes)
{
  const int64_t groups = graph_blocks(p->n->block), floats = mma_blocks(p) * mma_parts_words(p) * p->threads;
  text_line(t, "%%counters:[%lld].i32.GL\n%%parts:[%lld].fp32.GL", (long long)groups, (long long)floats);
  out->arg[out->nargs++] = ARG_COUNTERS, out->counters = 4 * groups;
  out->arg[out->nargs++] = ARG_PARTS, out->parts = floats;
  str_add(writes, ", %%counters, %%parts");
}

void mma_parts_bounds(struct mma_kernel *k)
{
  const struct mma_plan *p = k->p;
  const long long blocks = graph_blocks(p->n->block), each = mma_parts_each(p);
  text_line(k->t, "@block = #grid.indices()\n@bid = @block %% %lld\n@part = @block / %lld", blocks, blocks);
  text_line(k->t, "@from = @part * %lld\n@count = min(%lld, %lld - @from)", each, each, (long long)p->iterations);
}

struct mma_part { // registers by value, and the number of the part that they are of, as text
  const char *const *reg;
  const char *number;
};

// Registers of a value to or from the memory of n parts. Rows that do not exist stay as they are.
static void move(struct mma_kernel *k, int v, const struct mma_part *part, int n, int64_t before, bool back)
{
  const struct mma_plan *p = k->p;
  const struct mma_shape s = p->shape[v];
  const bool pair = s.cols >= 0;
  const long long unit = pair ? 2 : 1, all = mma_parts_words(p) * p->threads / unit, nt = pair ? p->cols[s.cols].nt : 1;
  TEXT_SCOPE(k->t);
  if (s.rows) text_open(k->t, "each m:%d h:2", p->mt);
  if (s.rows && lacks_rows(p)) text_open(k->t, "if (%s * 16 + h * 8 + @lane / 4 < %lld) {", mma_row_tile(p), (long long)rows_of(p));
  mma_cols_open(k, s.cols);
  const char *number = arena_printf(k->mem, s.rows ? "((m * 2 + h) * %lld + %s)" : "(0 * %lld + %s)", nt, pair ? "n" : "0");
  for (int i = 0; i < n; i++) {
    const char *at = arena_printf(k->mem, "(@bid * %d + %s) * %lld + %lld + %s * %d + @tid", p->parts, part[i].number, all,
                                  (long long)before * p->threads / unit, number, p->threads);
    mma_move(k, F32, "one", pair, mma_element(k, part[i].reg[v], s, pair, 0), arena_printf(k->mem, pair ? "parts.tile([2])[%s]" : "parts[%s]", at),
             "", back);
  }
}

static void move_all(struct mma_kernel *k, const struct mma_part *part, int n, bool back)
{
  int64_t before = 0;
  for (int i = 0; i < k->p->norder; i++) {
    const int v = k->p->order[i];
    if (!exchanged(k->p, v)) continue;
    move(k, v, part, n, before, back);
    before += mma_fragment_registers(k->p, k->p->shape[v]);
  }
}

// ---- combination ----

// Does the loop compute v from this distance?
static bool follows(const struct mma_plan *p, int v, int distance)
{
  if (v == distance) return true;
  for (int i = 0; i < mma_at(p, v)->nin && mma_at(p, v)->kind == KERN_MAP; i++)
    if (follows(p, mma_at(p, v)->in[i], distance)) return true;
  return false;
}

// Multiplies rescaled sums by the factors of this running maximum's distance, which its registers have.
static void rescale(struct mma_kernel *k, int distance, const char *const *reg)
{
  const struct mma_plan *p = k->p;
  struct mma_known known = mma_remember(k);
  for (int i = 0; i < p->norder; i++)
    if (p->factor[p->order[i]] && follows(p, p->order[i], distance)) mma_compute(k, p->order[i]);
  for (int i = 0; i < p->norder; i++) {
    const int v = p->order[i];
    if (mma_at(p, v)->kind == KERN_RESCALE && follows(p, mma_at(p, v)->in[1], distance))
      emit_binary(k->t, "*", reg[v], reg[v], k->reg[mma_at(p, v)->in[1]]);
  }
  mma_forget(k, &known);
}

static void combine(struct mma_kernel *k, const char *const *other)
{
  const struct mma_plan *p = k->p;
  for (int i = 0; i < p->norder; i++) {
    const int v = p->order[i], distance = mma_running(p, v, KERN_RUN_MOVE);
    if (mma_at(p, v)->kind != KERN_RUN_MAX) continue;
    const char *now = mma_declare(k, p->shape[v], "fp32");
    emit_binary(k->t, "max", now, k->reg[v], other[v]);
    for (int side = 0; side < 2 && distance >= 0; side++) {
      const char *const *sums = side ? other : k->reg;
      emit_binary(k->t, "-", k->reg[distance], sums[v], now);
      rescale(k, distance, sums);
    }
    text_line(k->t, "%%%s <- Move(%%%s)", k->reg[v], now);
  }
  for (int i = 0; i < p->norder; i++) {
    const int v = p->order[i];
    if (!exchanged(p, v) || mma_at(p, v)->kind == KERN_RUN_MAX) continue;
    emit_binary(k->t, kern_has(mma_at(p, v), KERN_LARGEST) ? "max" : "+", k->reg[v], k->reg[v], other[v]);
  }
}

// Loads of several parts are in flight at a time. Rows that do not exist have no loads, and the compiler does not move the others out of that branch.
enum { MOST_AT_ONCE = 8, REGISTERS_AT_ONCE = 96 };

static int parts_at_once(const struct mma_plan *p)
{
  const int64_t tiles = p->wm * p->mt * 2, used = lacks_rows(p) ? (rows_of(p) + 7) / 8 : tiles; // of 8 rows
  const int64_t words = MAX(1, mma_parts_words(p) * used / tiles);
  return (int)MAX(1, MIN(MIN(p->parts - 1, MOST_AT_ONCE), REGISTERS_AT_ONCE / words));
}

// Seconds: until loads that are in flight together have arrived, and for adding a part. Fitted to 24 settings of decoding attention on an H200, with 15
// to 59 parts and 1 to 4 warps.
static const double WAIT = 0.6e-6, COMBINE = 0.03e-6;

double mma_parts_cost(const struct mma_plan *p)
{
  const double bytes = 4.0 * p->parts * p->threads * (double)mma_parts_words(p) * (double)rows_of(p) / (double)(p->wm * p->mt * 16);
  const int at_once = parts_at_once(p), waits = (p->parts - 1 + at_once - 1) / at_once;
  return tail_last_cost(bytes) + (waits - 1) * WAIT + (p->parts - 1) * COMBINE;
}

// Adds n parts, from number `first` on, to the registers.
static void add_parts(struct mma_kernel *k, const char *first, int n)
{
  const struct mma_plan *p = k->p;
  struct mma_part part[MOST_AT_ONCE];
  for (int d = 0; d < n; d++) {
    const char **other = NEWS(k->mem, const char *, p->k.nvalues + 1);
    for (int i = 0; i < p->norder; i++) {
      const int v = p->order[i];
      if (!exchanged(p, v)) continue;
      other[v] = mma_declare(k, p->shape[v], "fp32");
      if (lacks_rows(p)) text_line(k->t, "%%%s <- Init<0.0>()", other[v]);
    }
    part[d] = (struct mma_part){other, arena_printf(k->mem, "%s + %d", first, d)};
  }
  move_all(k, part, n, false);
  for (int d = 0; d < n; d++) combine(k, part[d].reg);
}

void mma_parts_meet(struct mma_kernel *k)
{
  const struct mma_plan *p = k->p;
  const int at_once = parts_at_once(p), left = (p->parts - 1) % at_once;
  move_all(k, &(struct mma_part){k->reg, "@part"}, 1, true);
  tail_open_last(k->t, "@bid", p->threads, p->parts);
  move_all(k, &(struct mma_part){k->reg, "0"}, 1, false);
  {
    TEXT_SCOPE(k->t);
    text_open(k->t, "for (q = 1; q < %d; q += %d) unroll {", p->parts - left, at_once);
    add_parts(k, "q", at_once);
  }
  if (left) add_parts(k, arena_printf(k->mem, "%d", p->parts - left), left);
}
