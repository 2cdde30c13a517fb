// The scheme skinny: settings of its knobs, and the frame of the kernel.
#include "lower/count.h"
#include "lower/skinny.h"

#include <math.h>
#include <stdlib.h>

enum { SETTINGS = 512 };
struct skinny_setting {
  struct knobs k;
  double cost;
  int again, order; // similar settings listed before this one; position in the list, for settings of equal cost
};

static int cheaper(const void *a, const void *b)
{
  const struct skinny_setting *x = a, *y = b;
  if (x->cost != y->cost) return x->cost < y->cost ? -1 : 1;
  return x->again != y->again ? x->again - y->again : x->order - y->order;
}

// The model cannot rank settings whose costs differ less than its error. The most different of these come first, with k split differently,
// because only the first few settings of each kernel are tried together.
static void order(struct skinny_setting *all, int n)
{
  for (int i = 0; i < n; i++)
    for (int k = 0; k < i; k++)
      if (all[k].cost == all[i].cost && all[k].k.v[KNOB_SPLIT] == all[i].k.v[KNOB_SPLIT]) all[i].again++;
  qsort(all, (size_t)n, sizeof *all, cheaper);
}

// Costs are rounded down to a power of this number, because the model's error is larger.
static const double FINE = 1.05;

static double cost(const struct sk_plan *p, const struct sk_shape *s)
{
  struct kernel_counts c;
  sk_count(p, s, &c);
  return pow(FINE, floor(log(kernel_time(&c, p->j->gpu, NULL)) / log(FINE)));
}

// Stages that registers hold. Rings in shared memory, which has room for more, were never the fastest for the workloads of bench/.
static const int depths[] = {1, 2, 3, 4};

// On an H200 it was best to prefetch a third of the L2 cache.
static int ahead(const struct sk_plan *p, const struct sk_shape *s)
{
  int64_t all = MAX(p->blocks.size, 1) * s->subs * s->split, blocks = MIN(all, p->j->gpu->cores * (int64_t)sk_room(p, s));
  return (int)MIN(MIN(4, s->rounds / 2), p->j->gpu->l2 / 3 / MAX(1, blocks * sk_round_bytes(p, s)));
}

static int choices(const struct lower_job *j, int most, struct knobs *out, char why[160])
{
  static const int cols[] = {64, 128, 32, 256, 16}, warps[] = {8, 4, 16, 2, 1}, split[] = {2, 1, 4, 8};
  struct sk_plan *p = NEW(j->mem, struct sk_plan);
  struct skinny_setting *all = NEWS(j->mem, struct skinny_setting, SETTINGS);
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
    all[n] = (struct skinny_setting){.k = k, .cost = cost(p, &s), .order = n}, n++;
  }
  order(all, n);
  for (int i = 0; i < MIN(n, most); i++) {
    out[i] = all[i].k;
    if (j->counts && sk_shape_make(p, &out[i], &s)) sk_count(p, &s, &j->counts[i]);
  }
  if (!n) snprintf(why, 160, "rows, columns or strides that do not divide into fragments");
  return MIN(n, most);
}

struct skinny_made {
  struct sk_plan p;
  struct sk_shape s;
};

static const void *plan(const struct lower_job *j, const struct knobs *k, char why[160])
{
  struct skinny_made *m = NEW(j->mem, struct skinny_made);
  return sk_plan_make(j, &m->p, why) == OK && sk_shape_make(&m->p, k, &m->s) ? m : NULL;
}

static bool count(const void *plan, struct kernel_counts *out)
{
  const struct skinny_made *m = plan;
  return sk_count(&m->p, &m->s, out), true;
}

// ---- text ----

static int64_t tiles(const struct sk_plan *p, const struct sk_shape *s) { return MAX(p->blocks.size, 1) * s->subs * s->split; }

// Numbers of blocks: the rank in the cluster is fastest, then the part of the columns, then grid axes.
static void frame(struct sk_emit *e)
{
  int64_t inner = e->s->split * e->s->subs;
  emit_tiles(&e->t, e->p->j->gpu, tiles(e->p, e->s), "@block");
  text_fill(&e->t,
            "@tid = #t.indices()\n"
            "#me = #t.scalar()\n"
            "#warps:[$warps].[32].thread = #t.tile([32])\n"
            "#lanes:[32].thread = #warps[@tid / 32]\n"
            "#quads:[$quads].[4].thread = #t.tile([4])\n"
            "#quad:[4].thread = #quads[@tid / 4]\n"
            "@warp = @tid / 32\n"
            "@g = @tid % 32 / 4\n"
            "@q = @tid % 4\n"
            "?cluster @rank = @block % $split\n"
            "?subbed @sub = @block / $split % $subs",
            e->all);
  for (int i = 0; i < e->p->blocks.n; inner *= e->p->kern.extent[e->p->blocks.axis[i++]])
    text_line(&e->t, "@place%d = @block / %lld %% %lld", i, (long long)inner, (long long)e->p->kern.extent[e->p->blocks.axis[i]]);
  text_fill(&e->t,
            "?cluster @first = @rank * $warps + @warp\n"
            "?!cluster @first = @warp\n"
            "?dependent Sync<grid.trigger>#t()\n"
            "?cluster Sync<cluster.arrive.relaxed>#t()", // its wait comes before the first write to another block
            e->all);
  if (e->dependent) sk_emit_ahead(e);
  text_fill(&e->t, "?dependent Sync<grid.wait>#t()", e->all);
}

static void emit(const void *plan, struct text t, struct lower_out *out)
{
  const struct sk_plan *p = &((const struct skinny_made *)plan)->p;
  const struct sk_shape *s = &((const struct skinny_made *)plan)->s;
  const struct lower_job *j = p->j;
  struct sk_emit e = {
      .t = t, .dependent = j->dependent && j->gpu->can & CAN_PDL, .p = p, .s = s, .name = text_names(j->mem, j->n->kernels, TEXT_ALL)};
  e.all = HOLES(NULL, INT(kv, s->kv), INT(kvs, s->kv / 4), INT(step, 4 * s->kv), INT(tiles, s->tiles), INT(depth, s->depth), INT(warps, s->warps),
                INT(threads, s->threads), INT(quads, s->threads / 4), INT(split, s->split), INT(cluster, s->split > 1), INT(subs, s->subs),
                INT(subbed, s->subs > 1), INT(steps, s->steps), INT(turn, s->warps * s->split), INT(rows, p->rows.size), INT(short, p->rows.size % 8),
                INT(dependent, e.dependent), INT(item, s->item), INT(ragged, s->ragged), INT(sum, p->k.size), INT(unit, s->unit),
                INT(units, s->kv / s->unit));
  const char *blocks = arena_printf(j->mem, "%lld", (long long)gpu_blocks(j->gpu, tiles(p, s)));
  text_kernel(&e.t, j->name, "products of few rows, weights from global memory to fragments", j->gpu,
              (s->split > 1 ? CAN_CLUSTER : 0) | (e.dependent ? CAN_PDL : 0));
  emit_frame(&e.t, j->mem, &p->kern, e.name, s->split, blocks, arena_printf(j->mem, "%d", s->threads), out);
  frame(&e);
  sk_emit_stage(&e);
  sk_emit_early(&e);
  sk_emit_inbox(&e);
  sk_emit_loop(&e);
  sk_emit_reduce(&e);
  emit_tiles_end(&e.t, j->gpu, tiles(p, s));
  text_until(&e.t, 0);
}

const struct scheme scheme_skinny = {.name = "skinny",
                                     .doc = "products of at most 32 rows: weights from global memory directly into fragments",
                                     .apart = "no tiles: one walk over what is summed, which warps share; lanes and blocks add up at its end",
                                     .knob = {"warps", "cols", "depth", "split", "ahead", "alone"},
                                     .named = KNOB_ALONE,
                                     .tails = true,
                                     .rules = SK_RULES,
                                     .choices = choices,
                                     .plan = plan,
                                     .count = count,
                                     .emit = emit};
