// The scheme: settings of its knobs, and the frame of the kernel.
#include "lower/count.h"
#include "lower/skinny.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SETTINGS = 512 };
struct setting {
  struct knobs k;
  double cost;
  int again, order; // how many like it were listed before; settings of equal cost stay as they are listed
};

static int cheaper(const void *a, const void *b)
{
  const struct setting *x = a, *y = b;
  if (x->cost != y->cost) return x->cost < y->cost ? -1 : 1;
  return x->again != y->again ? x->again - y->again : x->order - y->order;
}

// The model does not tell apart what differs by less than it errs. Of these come first those that are least alike, since only
// the first few of each kernel are tried at once: k split differently.
static void order(struct setting *all, int n)
{
  for (int i = 0; i < n; i++)
    for (int k = 0; k < i; k++)
      if (all[k].cost == all[i].cost && all[k].k.v[KNOB_SPLIT] == all[i].k.v[KNOB_SPLIT]) all[i].again++;
  qsort(all, (size_t)n, sizeof *all, cheaper);
}

// Down to a power of this: the model errs by more.
static const double FINE = 1.05;

static double cost(const struct sk_plan *p, const struct sk_shape *s)
{
  struct kernel_counts c;
  sk_count(p, s, &c);
  return pow(FINE, floor(log(kernel_time(&c, p->j->gpu, NULL)) / log(FINE)));
}

// In registers: on an H200 these were faster than rings for the products of 8 and 16 rows that were measured. Rings are there
// to be tried by those who measure.
static const int depths[] = {1, 2, 3, 4};

// On an H200 it was best to have a third of the L2 cache filled ahead.
static int ahead(const struct sk_plan *p, const struct sk_shape *s)
{
  int64_t all = MAX(p->blocks.size, 1) * s->subs * s->split, blocks = MIN(all, p->j->gpu->processors * (int64_t)sk_room(p, s));
  return (int)MIN(MIN(4, s->rounds / 2), p->j->gpu->l2 / 3 / MAX(1, blocks * sk_round_bytes(p, s)));
}

static int choices(const struct lower_job *j, int most, struct knobs *out, char why[160])
{
  static const int cols[] = {64, 128, 32, 256, 16}, warps[] = {8, 4, 16, 2, 1}, split[] = {2, 1, 4, 8};
  struct sk_plan *p = NEW(j->mem, struct sk_plan);
  struct setting *all = NEWS(j->mem, struct setting, SETTINGS);
  struct sk_shape s;
  int n = 0;
  if (sk_plan_make(j, p, why) != OK) return 0;
  for (size_t i = 0; i < COUNT(cols) * COUNT(warps) * COUNT(split) * COUNT(depths) && n < SETTINGS; i++) {
    size_t d = i % COUNT(depths), sp = i / COUNT(depths) % COUNT(split), w = i / COUNT(depths) / COUNT(split) % COUNT(warps);
    struct knobs k = {.v = {[KNOB_COLS] = cols[i / COUNT(depths) / COUNT(split) / COUNT(warps)],
                            [KNOB_WARPS] = warps[w],
                            [KNOB_SPLIT] = split[sp],
                            [KNOB_DEPTH] = depths[d]}};
    if (!sk_shape_make(p, &k, &s)) continue;
    if (j->dependent) k.v[KNOB_AHEAD] = s.ahead = ahead(p, &s);
    all[n] = (struct setting){.k = k, .cost = cost(p, &s), .order = n}, n++;
  }
  order(all, n);
  for (int i = 0; i < MIN(n, most); i++) {
    out[i] = all[i].k;
    if (j->counts && sk_shape_make(p, &out[i], &s)) sk_count(p, &s, &j->counts[i]);
  }
  if (!n) snprintf(why, 160, "rows, columns or strides that do not divide into fragments");
  return MIN(n, most);
}

static bool count(const struct lower_job *j, const struct knobs *k, struct kernel_counts *out)
{
  struct arena_mark mark = arena_mark(j->mem);
  struct sk_plan *p = NEW(j->mem, struct sk_plan);
  struct sk_shape s;
  char why[160];
  bool fits = sk_plan_make(j, p, why) == OK && sk_shape_make(p, k, &s);
  if (fits) sk_count(p, &s, out);
  arena_reset(j->mem, mark);
  return fits;
}

// ---- text ----

static void add_arg(struct lower_out *out, int tensor)
{
  for (int i = 0; i < out->nargs; i++)
    if (out->arg[i] == tensor) return;
  out->arg[out->nargs++] = tensor;
}

static void buffers(struct sk_emit *e, struct lower_out *out)
{
  const struct sk_plan *p = e->p;
  out->arg = NEWS(p->j->mem, int, p->kern.nvalues + p->kern.nsaves);
  for (int i = 0; i < p->kern.nvalues; i++)
    if (p->kern.v[i].live && p->kern.v[i].kind == KERN_LOAD) add_arg(out, p->kern.v[i].at.tensor);
  for (int i = 0; i < p->kern.nsaves; i++) add_arg(out, p->kern.save[i].at.tensor);
  for (int i = 0; i < out->nargs; i++)
    text_line(&e->t, "%%g_%s:[%lld].%s.GL", e->name[out->arg[i]], (long long)norm_elements(p->j->n, out->arg[i]),
              tile_dtype(p->j->store[out->arg[i]]));
}

static void spec(struct sk_emit *e, const struct lower_out *out)
{
  struct str line = {0};
  const struct sk_plan *p = e->p;
  for (int i = 0; i < p->kern.nsaves; i++) str_add(&line, "%s%%g_%s", i ? ", " : "", e->name[p->kern.save[i].at.tensor]);
  str_add(&line, " <- Spec<<<#grid, #t>>>(");
  int shown = 0;
  for (int i = 0; i < out->nargs; i++) {
    bool saved = false;
    for (int k = 0; k < p->kern.nsaves; k++) saved |= p->kern.save[k].at.tensor == out->arg[i];
    if (!saved) str_add(&line, "%s%%g_%s", shown++ ? ", " : "", e->name[out->arg[i]]);
  }
  text_open(&e->t, "%s)", str_text(&line));
  str_free(&line);
}

// Blocks: the rank in the cluster fastest, then the part of the columns, then grid axes.
static void frame(struct sk_emit *e)
{
  struct text *t = &e->t;
  int64_t inner = e->s->split;
  text_line(t, "@block = #grid.indices()");
  text_line(t, "@tid = #t.indices()");
  text_line(t, "#me = #t.scalar()");
  text_line(t, "#warps:[%d].[32].thread = #t.tile([32])", e->s->warps);
  text_line(t, "#lanes:[32].thread = #warps[@tid / 32]");
  text_line(t, "#quads:[%d].[4].thread = #t.tile([4])", e->s->threads / 4);
  text_line(t, "#quad:[4].thread = #quads[@tid / 4]");
  text_line(t, "@warp = @tid / 32");
  text_line(t, "@g = @tid %% 32 / 4");
  text_line(t, "@q = @tid %% 4");
  if (e->s->split > 1) text_line(t, "@rank = @block %% %d", e->s->split);
  if (e->s->subs > 1) text_line(t, "@sub = @block / %lld %% %lld", (long long)inner, (long long)e->s->subs);
  inner *= e->s->subs;
  for (int i = 0; i < e->p->blocks.n; inner *= e->p->kern.extent[e->p->blocks.axis[i++]])
    text_line(t, "@place%d = @block / %lld %% %lld", i, (long long)inner, (long long)e->p->kern.extent[e->p->blocks.axis[i]]);
  text_line(t, e->s->split > 1 ? "@first = @rank * %d + @warp" : "@first = @warp", e->s->warps);
  if (e->dependent) text_line(t, "Sync<grid.trigger><<<#grid, #t>>>()");
  if (e->s->split > 1) text_line(t, "Sync<cluster.arrive.relaxed><<<#grid, #t>>>()"); // waited for before the first write to another block
  if (e->dependent) sk_emit_ahead(e);
  if (e->dependent) text_line(t, "Sync<grid.wait><<<#grid, #t>>>()");
}

static int emit(const struct lower_job *j, const struct knobs *k, struct lower_out *out, struct err *err)
{
  struct sk_plan *p = NEW(j->mem, struct sk_plan);
  struct sk_shape s;
  char why[160] = "";
  memset(out, 0, sizeof *out);
  if (sk_plan_make(j, p, why) != OK || !sk_shape_make(p, k, &s))
    return err_set(err, ERR_TARGET, NOWHERE, "skinny does not take kernel %s so: %s", j->name, *why ? why : "settings that do not fit");
  struct sk_emit e = {.t = {.out = &out->text, .marks = j->marks},
                      .dependent = j->dependent && j->gpu->can & CAN_PDL,
                      .p = p,
                      .s = &s,
                      .name = text_names(j->mem, p->j->n->kernels)};
  int64_t blocks = MAX(p->blocks.size, 1) * s.subs * s.split;
  text_kernel(&e.t, j->name, "products of few rows, weights from global memory to fragments", j->gpu,
              (s.split > 1 ? CAN_CLUSTER : 0) | (e.dependent ? CAN_PDL : 0));
  if (s.split > 1) text_line(&e.t, "cluster %d", s.split);
  buffers(&e, out);
  text_line(&e.t, "#grid:[%lld].block", (long long)blocks);
  text_line(&e.t, "#t:[%d].thread", s.threads);
  spec(&e, out);
  frame(&e);
  sk_emit_stage(&e);
  sk_emit_early(&e);
  sk_emit_inbox(&e);
  sk_emit_loop(&e);
  sk_emit_reduce(&e);
  text_close(&e.t);
  text_close(&e.t);
  return OK;
}

const struct scheme scheme_skinny = {.name = "skinny",
                                     .doc = "products of at most 32 rows: weights from global memory straight into fragments",
                                     .apart = "no tiles: one walk over what is summed, which warps share; lanes and blocks add up at its end",
                                     .knob = {"warps", "cols", "depth", "split", "ring", "ahead"},
                                     .tails = true,
                                     .choices = choices,
                                     .count = count,
                                     .emit = emit};
