// Sizes by measuring. The cost model ranks structures well and sizes roughly, so from the fastest structures the race
// climbs: each axis of their heavy kernels twice and half as far, one axis against another, all that fits compiled and
// timed in one run, on to the fastest until none is faster. Who wins in the end is proven as ever.
#include "drive/drive.h"
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

enum { STARTS = 2, PER_MEASURED = 3, MOST_AROUND = 12, CALLS = 6, PRIMES = 4 };
static const double NEAR = 1.5;        // another structure is climbed from if it took at most this much longer
static const double GAIN = 0.985;      // a step is one where it takes at most this share of the time
static const double HEAVY = 0.25;      // kernels with less than this share of the heaviest's traffic keep their sizes
static const double SECONDS = 0.06;    // of timing, a candidate
static const double MOST_SECONDS = 15; // of a climb, after which no further step is begun

struct climb {
  struct job *j;
  struct contest *c;
  int part, line, left; // left: candidates that may still be compiled
  struct buffers *b;
};

double tune_traffic(const struct graph *sub)
{
  double blocks = (double)graph_blocks(sub), iterations = (double)graph_iterations(sub), sum = 0;
  for (int i = 0; i < sub->nnodes; i++) {
    const struct node *n = &sub->nodes[i];
    if (n->op == OP_ITER) sum += (double)shape_size(&sub->tensors[n->out].shape) * blocks * (sub->tensors[n->out].phase == VARYING ? iterations : 1);
    if (n->op == OP_SAVE) sum += (double)shape_size(&sub->tensors[n->in[0]].shape) * blocks;
  }
  return sum;
}

static double heaviest(const struct graph *g)
{
  double most = 0;
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i].op == OP_BLOCK) most = MAX(most, tune_traffic(g->nodes[i].sub));
  return most;
}

static int64_t *axis_of(struct axes *a, const struct graph *sub, int i) { return i < sub->ngrid ? &a->grid[i] : &a->loop[i - sub->ngrid]; }

int tune_candidate(struct contest *c, int from, const struct graph *g)
{
  struct candidate x = c->cand[from];
  c->cand[c->ncand] = (struct candidate){
      .found = g, .kernels = x.kernels, .block_ops = x.block_ops, .structure = x.structure, .schedule = x.schedule, .note = "", .tuned = true};
  return c->ncand++;
}

void tune_room(struct job *j, struct contest *c, int room)
{
  struct candidate *more = NEWS(j->mem, struct candidate, c->ncand + room);
  memcpy(more, c->cand, sizeof *more * (size_t)c->ncand);
  c->cand = more;
}

// A candidate with these axes, unless that is no graph, too large or known.
static bool add(struct climb *k, int from, int node, const struct axes *to)
{
  struct contest *c = k->c;
  struct graph *g;
  struct err e = {0};
  if (plan_resize(k->j->mem, c->cand[from].found, node, to, &g, &e) != OK) return false;
  if (graph_tile_bytes(g->nodes[node].sub, 4) > 2 * k->j->target.scratch || candidate_known(c, g)) return true;
  return tune_candidate(c, from, g), true;
}

bool tune_axes(const struct graph *sub, int i, int o, int by, struct axes *a)
{
  memcpy(a->grid, sub->grid, sizeof a->grid), memcpy(a->loop, sub->loop, sizeof a->loop);
  int64_t *down = o < 0 ? NULL : axis_of(a, sub, o);
  if (down && *down % by) return false;
  if (down) *down /= by;
  if (i >= 0) *axis_of(a, sub, i) *= by;
  return true;
}

// By the smallest prime for which it goes.
static void step(struct climb *k, int from, int node, int i, int o)
{
  static const int prime[PRIMES] = {2, 3, 5, 7};
  const struct graph *sub = k->c->cand[from].found->nodes[node].sub;
  struct axes a;
  for (int p = 0; p < PRIMES; p++)
    if (tune_axes(sub, i, o, prime[p], &a) && add(k, from, node, &a)) return;
}

// How many graphs like that one a round may have: all workspaces together take at most a quarter of the memory, and all
// calls (CALLS of each) no longer than a climb should.
static int most_around(const struct climb *k, int from)
{
  const struct candidate *x = &k->c->cand[from];
  int64_t fit = x->info.workspace ? k->j->target.memory / 4 / x->info.workspace : MOST_AROUND;
  double in_time = MOST_SECONDS / (CALLS * x->timing.median);
  return (int)MIN(MIN(fit, MIN(k->left, MOST_AROUND)), (int64_t)MIN(in_time, MOST_AROUND));
}

static void around(struct climb *k, int from)
{
  const struct graph *g = k->c->cand[from].found;
  int end = k->c->ncand + most_around(k, from);
  double heavy = HEAVY * heaviest(g);
  for (int pairs = 0; pairs < 2; pairs++)
    for (int n = 0; n < g->nnodes; n++) {
      const struct graph *sub = g->nodes[n].sub;
      int naxes = sub ? sub->ngrid + sub->nloop : 0;
      if (!sub || tune_traffic(sub) < heavy) continue;
      for (int i = -1; i < naxes; i++)
        for (int o = -1; o < naxes; o++)
          if (i != o && pairs == (i >= 0 && o >= 0) && k->c->ncand < end) step(k, from, n, i, o);
    }
}

static void discard(struct candidate *x)
{
  if (x->module) module_close(x->module);
  x->module = NULL;
}

// Times what stands and those that were added after n; the fastest of them where that is a step, else `from`.
static int time_round(struct climb *k, int from, int n)
{
  struct contest *c = k->c;
  int who[MOST_AROUND + 1] = {from}, count = 1, fastest = from;
  struct err e = {0};
  for (int i = n; i < c->ncand; i++)
    if (c->cand[i].module && !c->cand[i].dropped && !race_hopeless(k->j, &c->cand[i], &c->cand[from], k->b)) who[count++] = i;
  if (race_run(k->j, c, who, count, k->b, SECONDS * count, &e) != OK) return from;
  for (int i = 1; i < count; i++)
    if (c->cand[who[i]].score < c->cand[fastest].score) fastest = who[i];
  return c->cand[fastest].score < GAIN * c->cand[from].score ? fastest : from;
}

static int measured(const struct contest *c)
{
  int n = 0;
  for (int i = 0; i < c->ncand; i++) n += c->cand[i].measured;
  return n;
}

static const char *schedule(struct arena *mem, const struct candidate *x)
{
  struct str text = {0};
  graph_schedule(x->found, x->schedule ? x->schedule : "", &text);
  const char *copy = arena_strdup(mem, str_text(&text));
  return str_free(&text), copy;
}

static void climb(struct climb *k, int at)
{
  struct contest *c = k->c;
  double start = now_seconds();
  c->cand[at].line = k->line;
  course_add(
      k->j->mem, &c->course,
      (struct course_step){.line = k->line, .change = schedule(k->j->mem, &c->cand[at]), .seconds = c->cand[at].timing.p25, .measured = measured(c)});
  while (k->left > 0 && now_seconds() - start < MOST_SECONDS && !job_stopping(k->j)) {
    if ((c->hurried |= clock_part_over(k->j))) break;
    int first = c->ncand;
    around(k, at);
    k->left -= c->ncand - first;
    candidates_build(k->j, c, k->part, first);
    int to = time_round(k, at, first);
    for (int i = first; i < c->ncand; i++)
      if (i != to) discard(&c->cand[i]);
    if (to == at) break;
    c->cand[to].line = k->line;
    course_add(k->j->mem, &c->course,
               (struct course_step){.line = k->line,
                                    .change = course_sizes(k->j->mem, c->cand[at].found, c->cand[to].found),
                                    .before = c->cand[at].timing.p25,
                                    .seconds = c->cand[to].timing.p25,
                                    .measured = measured(c)});
    if (c->cand[at].tuned) discard(&c->cand[at]);
    at = to;
  }
}

static int fastest_start(const struct contest *c, const int *taken, int n)
{
  int best = 0;
  for (int i = 1; i < c->ncand; i++) {
    const struct candidate *x = &c->cand[i];
    bool open = x->module && x->measured && !x->dropped;
    for (int k = 0; k < n; k++) open &= x->structure != c->cand[taken[k]].structure && x->kernels != c->cand[taken[k]].kernels;
    if (open && (!best || x->score < c->cand[best].score)) best = i;
  }
  return best;
}

void tune_part(struct job *j, struct contest *c, int part, struct buffers *b)
{
  int start[STARTS], n = 0, room = PER_MEASURED * j->opts->measure;
  tune_room(j, c, room);
  for (int s; n < STARTS && (s = fastest_start(c, start, n)); n++) {
    if (n && c->cand[s].score > NEAR * c->cand[start[0]].score) break;
    start[n] = s;
  }
  for (int i = 0; i < n && !job_stopping(j); i++) climb(&(struct climb){j, c, part, i + 1, room / n, b}, start[i]);
}

void tune_ends(struct job *j, struct contest *c)
{
  const struct candidate *x = &c->cand[c->best];
  if (!c->course.n || !c->best) return;
  course_add(j->mem, &c->course,
             (struct course_step){
                 .line = x->line, .change = x->line ? "" : schedule(j->mem, x), .seconds = x->timing.p25, .measured = measured(c), .exact = true});
}
