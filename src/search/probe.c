// Estimates whether a program is too large for one search. A sample of its schedules is saturated, and the structures that compute its outputs are
// counted. A search of more than HARD_VALUES values or HARD_STRUCTURES structures takes minutes.
//
// The probe uses one thread: schedules share most expressions, and two contexts would build them twice. It ends when a sum exceeds its limit. All
// schedules of the sample grow together, so the limit is reached as early as possible: the last values of a schedule cost most, because each is
// paired with all before it. In programs with many classes, fingerprints are large. They are then computed over tiles alone, which distinguishes all
// values that are counted.
#include "search/space.h"

enum { SAMPLE = 16, HARD_VALUES = 12000, HARD_STRUCTURES = 60000 };
enum { LARGE = 3 };   // number of classes above which whole fingerprints are too large
enum { STRIDE = 16 }; // values that a schedule processes before the next schedule continues, plus a quarter of all so far

struct probe {
  struct space s;
  struct fctx f;
  struct search_opts o;
  struct vocabulary voc;
  struct worker w;
  struct finger_memo memo;
  int ndev;
  struct device dev[MAX_VISITS];
  int n; // schedules of the sample
  struct table *table[SAMPLE];
  struct arena mem[SAMPLE];
  int64_t values, structures; // so far
  int64_t most_values, most_structures;
};

static bool advance(struct probe *p, int i, int upto)
{
  struct table *t = p->table[i];
  int n = t->n;
  bool more = saturate_more(t, &p->mem[i], &p->w, &p->f, &p->o, upto);
  p->values += t->n - n;
  return more;
}

static void saturate_sample(struct probe *p)
{
  bool more = true;
  for (int i = 0; i < p->n; i++) {
    table_open(p->table[i], &p->mem[i], &p->w, &p->f, &p->voc, p->dev, p->ndev, &p->o);
    p->values += p->table[i]->n;
  }
  for (int upto = STRIDE; more; upto += STRIDE + upto / 4) {
    more = false;
    for (int i = 0; i < p->n; i++) {
      more |= advance(p, i, upto);
      if (p->values > p->most_values) return;
    }
  }
}

static bool count_structure(void *arg, const struct pick *pick)
{
  (void)pick;
  struct probe *p = arg;
  return ++p->structures <= p->most_structures;
}

// Whether a kernel can save value v of t as output o of the program.
static bool makes(const struct probe *p, const struct table *t, const struct search_value *v, int o)
{
  mask has;
  return v->der >= 0 && v->hash == p->w.ref.hash[o] && value_saveable(&p->s, t, v, &has) && has == p->s.visit[o].full;
}

// Counts the structures of at most `ops` operators that compute the outputs of the program from its inputs under schedule i.
static void count_structures(struct probe *p, int i, int ops)
{
  struct table *t = p->table[i];
  for (int o = 0; o < p->s.nout; o++)
    for (int k = 0, homes = 0; k < t->n && homes < HOMES && p->structures <= p->most_structures; k++) {
      if (!makes(p, t, &t->v[k], p->s.out[o])) continue;
      homes++;
      if (!extract(t, &k, 1, ops, p->ndev, 0, count_structure, p)) p->structures += HARD_STRUCTURES;
    }
}

// Takes the sample's share of the limits. A table ends at two shares of one schedule.
static void open_sample(struct probe *p, struct arena *mem)
{
  struct table *all = NULL;
  int n = schedules_build(mem, &p->s, &all);
  p->n = MIN(SAMPLE, n);
  p->most_values = (int64_t)HARD_VALUES * p->n / n, p->most_structures = (int64_t)HARD_STRUCTURES * p->n / n;
  p->o.max_values = MIN(p->o.max_values, 2 * HARD_VALUES / n + 1);
  for (int i = 0; i < p->n; i++) p->table[i] = &all[(int64_t)i * n / p->n];
}

static bool few_structures(struct probe *p, int ops)
{
  p->structures = 0;
  for (int i = 0; i < p->n; i++) count_structures(p, i, ops);
  return p->structures <= p->most_structures;
}

// Limits on the operators of a block graph within which a search is not hard, as bits. The values of the sample do not depend on the limit.
enum { EASY = 1, EASY_LESS = 2 }; // EASY: the limit of the options. LESS: the lower one of a search after the first kernel

static unsigned easy_limits(struct probe *p, struct arena *mem, int less)
{
  unsigned easy = 0;
  vocabulary_build(&p->voc, mem, &p->s);
  p->memo.mem = mem;
  if (!(p->o.off >> PRUNE_EXPR & 1)) p->w.memo = &p->memo;
  for (int v = 0; v < p->s.nvisit; v++)
    if (visit_given(&p->s, v)) p->dev[p->ndev++] = visit_device(&p->s, &p->w, 1, v);
  open_sample(p, mem);
  saturate_sample(p);
  if (p->values <= p->most_values) {
    for (int i = 0; i < p->n; i++) extract_open(&p->mem[i], p->table[i], p->ndev);
    easy = few_structures(p, p->o.max_block_ops) ? EASY : 0;
    if (easy || (less && few_structures(p, less))) easy |= EASY_LESS;
  }
  for (int i = 0; i < p->n; i++) arena_close(&p->mem[i]);
  return easy;
}

// less: the lower limit, or 0 if only that of the options is asked about.
static unsigned easy_as_is(const struct graph *g, const struct search_opts *o, int less)
{
  struct arena mem = {0};
  struct probe *p = NEW(&mem, struct probe);
  char why[160];
  int later_ops;
  unsigned easy = 0;
  p->o = *o;
  search_defaults(&p->o, g, &later_ops);
  if (graph_ops(g) <= SEARCH_LONG && classes_build(&p->s, g, why) == OK) {
    if (p->s.nclass > LARGE) classes_shrink(&p->s);
    finger_open(&p->f, &p->s, o->seed);
    if (workers_open(&p->w, 1, &mem, &p->f, &p->o) == OK) easy = easy_limits(p, &mem, less);
    workers_close(&p->w, 1);
  }
  arena_close(&mem);
  return easy;
}

// Functions of one tensor become single operators if that makes the difference.
static unsigned easy_limits_of(const struct graph *g, const struct search_opts *o, int less)
{
  struct arena mem = {0};
  struct stem stem;
  struct calls calls;
  if (stem_of(&mem, g, &stem)) g = stem.core;
  unsigned easy = easy_as_is(g, o, less);
  if (!(easy & EASY) && calls_of(&mem, g, &calls)) easy |= easy_as_is(calls.core, o, less);
  arena_close(&mem);
  return easy;
}

bool search_is_hard_as_is(const struct graph *g, const struct search_opts *o) { return !(easy_as_is(g, o, 0) & EASY); }

bool search_is_hard(const struct graph *g, const struct search_opts *o) { return !(easy_limits_of(g, o, 0) & EASY); }

int search_easy_ops(const struct graph *p, const struct search_opts *o)
{
  struct search_opts own = *o;
  int later_ops;
  if (fuse_parts_can(p) || (o->fuse && fuse_rows_can(p, o->fuse))) return 0;
  search_defaults(&own, p, &later_ops);
  const int less = later_ops < own.max_block_ops ? later_ops : 0;
  const unsigned easy = easy_limits_of(p, o, less);
  return easy & EASY ? 0 : less && easy & EASY_LESS ? less : -1;
}
