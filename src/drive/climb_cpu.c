// The hill climb on a CPU. The cost model ranks structures well and sizes roughly. So the climb starts from the fastest structures, compiles and
// times in one run all sizes around them (drive_sizes.c), and continues from the fastest until none is faster. The winner is proved as always.
#include "drive/drive.h"
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

enum { STARTS = 2, PER_MEASURED = 3, MOST_AROUND = 12, CALLS = 6 };
static const double NEAR = 1.5;        // other structures are climbed from if they took at most this many times the best
static const double SECONDS = 0.06;    // seconds of timing for each candidate
static const double OF_LEFT = 0.25;    // largest share of the remaining time of the part
static const double MOST_SECONDS = 15; // seconds of a climb after which no further step begins

struct climb {
  struct job *j;
  struct contest *c;
  int part, line, left; // left: number of candidates that may still be compiled
  struct buffers *b;
};

struct around { // sizes around a candidate
  struct climb *k;
  int from, end;
};

// Adds a candidate with these axes, unless it is invalid, too large or known.
static bool add(void *arg, int node, const struct axes *to)
{
  const struct around *a = arg;
  struct contest *c = a->k->c;
  struct graph *g;
  struct err e = {0};
  if (plan_resize(a->k->j->mem, c->cand[a->from].found, node, to, &g, &e) != OK) return false;
  if (graph_tile_bytes(g->nodes[node].sub, 4) > 2 * a->k->j->target.scratch || candidate_known(c, g)) return true;
  return candidate_sized(c, a->from, g), true;
}

static bool more(void *arg)
{
  const struct around *a = arg;
  return a->k->c->ncand < a->end;
}

// Number of candidates of that graph's size in one round: all workspaces together may take a quarter of the memory, and all calls (CALLS of each) no
// longer than a climb.
static int most_around(const struct climb *k, int from)
{
  const struct candidate *x = &k->c->cand[from];
  int64_t fit = x->info.workspace ? k->j->target.memory / 4 / x->info.workspace : MOST_AROUND;
  double in_time = MOST_SECONDS / (CALLS * x->timing.median);
  return (int)MIN(MIN(fit, MIN(k->left, MOST_AROUND)), (int64_t)MIN(in_time, MOST_AROUND));
}

static void discard(struct candidate *x)
{
  if (x->cpu.module) module_close(x->cpu.module);
  x->cpu.module = NULL;
}

// Times the existing candidates and those after n. Returns the fastest if it is a step, else `from`.
static int time_round(struct climb *k, int from, int n)
{
  struct contest *c = k->c;
  int who[MOST_AROUND + 1] = {from}, count = 1, fastest = from;
  struct err e = {0};
  for (int i = n; i < c->ncand; i++)
    if (c->cand[i].cpu.module && !c->cand[i].dropped && !race_hopeless(k->j, &c->cand[i], &c->cand[from], k->b)) who[count++] = i;
  if (race_run(k->j, c, who, count, k->b, race_seconds(k->j, SECONDS * count, OF_LEFT), &e) != OK) return from;
  for (int i = 1; i < count; i++)
    if (c->cand[who[i]].cpu.score < c->cand[fastest].cpu.score) fastest = who[i];
  return c->cand[fastest].cpu.score < GAIN * c->cand[from].cpu.score ? fastest : from;
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
  return str_keep(mem, &text);
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
    struct around a = {k, at, first + most_around(k, at)};
    sizes_near(c->cand[at].found, add, more, &a);
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
    bool open = x->cpu.module && x->measured && !x->dropped;
    for (int k = 0; k < n; k++) open &= x->structure != c->cand[taken[k]].structure && x->kernels != c->cand[taken[k]].kernels;
    if (open && (!best || x->cpu.score < c->cand[best].cpu.score)) best = i;
  }
  return best;
}

void climb_cpu(struct job *j, struct contest *c, int part, struct buffers *b)
{
  int start[STARTS], n = 0, room = PER_MEASURED * j->opts->measure;
  candidates_room(j, c, room);
  for (int s; n < STARTS && (s = fastest_start(c, start, n)); n++) {
    if (n && c->cand[s].cpu.score > NEAR * c->cand[start[0]].cpu.score) break;
    start[n] = s;
  }
  for (int i = 0; i < n && !job_stopping(j); i++) climb(&(struct climb){j, c, part, i + 1, room / n, b}, start[i]);
}

void climb_cpu_ends(struct job *j, struct contest *c)
{
  const struct candidate *x = &c->cand[c->best];
  if (!c->course.n || !c->best) return;
  course_add(j->mem, &c->course,
             (struct course_step){
                 .line = x->line, .change = x->line ? "" : schedule(j->mem, x), .seconds = x->timing.p25, .measured = measured(c), .exact = true});
}
