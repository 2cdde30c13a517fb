// A program of several parts on a GPU. Each part was raced alone, and the fastest alone need not be fastest beside others. Kernels of two parts
// become one if their blocks agree; a launch may overlap the previous one; and it may read data that is still in the cache. So the whole is raced
// too: the joined winners, the same with one or two parts replaced by nearly as fast ones, and neighbours of the fastest (climb.h). Sizes stay,
// because the proof is by parts.
#include "drive/climb.h"

#include <stdlib.h>

enum { MOST_JOINED = 24 };
static const double OF_JOINING = 0.25; // share of the remaining time for joining parts; the rest is for measuring

struct swap {  // replaces one or two parts by others; NULL: none
  double more; // seconds that the parts take alone, compared with the best
  int part[2];
  struct candidate *by[2];
};

static int by_more(const void *a, const void *b)
{
  const struct swap *x = a, *y = b;
  if (x->more != y->more) return x->more < y->more ? -1 : 1;
  for (int i = 0; i < 2; i++)
    if (x->part[i] != y->part[i]) return x->part[i] < y->part[i] ? -1 : 1;
  return 0;
}

static double more(const struct contest *c, const struct candidate *x) { return x->timing.median - c->cand[c->best].timing.median; }

// All replacements of one part and of two, the most promising first.
static struct swap *swaps(struct job *j, int *n)
{
  int all = 0;
  for (int p = 0; p < j->split.n; p++) all += j->contests[p].nnear;
  struct swap *s = NEWS(j->mem, struct swap, 1 + all + all * all / 2);
  *n = 1; // the winners
  for (int p = 0; p < j->split.n; p++)
    for (int k = 0; k < j->contests[p].nnear; k++) {
      struct contest *c = &j->contests[p];
      struct swap one = {more(c, &c->near[k]), {p, -1}, {&c->near[k], NULL}};
      s[(*n)++] = one;
      for (int q = 0; q < p; q++)
        for (int i = 0; i < j->contests[q].nnear; i++) {
          struct candidate *x = &j->contests[q].near[i];
          s[(*n)++] = (struct swap){one.more + more(&j->contests[q], x), {p, q}, {one.by[0], x}};
        }
    }
  qsort(s + 1, (size_t)*n - 1, sizeof *s, by_more);
  *n = MIN(*n, MOST_JOINED);
  return s;
}

static int put_together(struct job *j, const struct swap *s, struct candidate *out, struct err *e)
{
  struct candidate **of = NEWS(j->mem, struct candidate *, j->split.n);
  for (int i = 0; i < j->split.n; i++) {
    const struct contest *c = whole_part(j, i);
    of[i] = &c->cand[c->best];
    for (int k = 0; k < 2; k++)
      if (s->by[k] && c == &j->contests[s->part[k]]) of[i] = s->by[k];
  }
  TRY(whole_join(j, of, out, e));
  return device_joined(j, out, e);
}

// The report describes parts as they are in the whole.
static void adopt(struct job *j, const struct candidate *k)
{
  for (int i = 0; i < j->split.n; i++) {
    struct contest *c = &j->contests[i];
    if (c->twin >= 0 || k->of[i] == &c->cand[c->best]) continue;
    candidates_room(j, c, 1);
    c->cand[c->ncand] = *k->of[i];
    c->best = c->ncand++;
  }
  j->best = *k;
  j->best.info.kernels = k->kernels, j->best.info.workspace = k->gpu.lowered->program.workspace;
}

int race_joined(struct job *j, struct err *e)
{
  struct gpu_race_opts o = race_gpu_opts(j);
  struct part whole = {.g = (struct graph *)j->plain};
  struct contest c = {.part = &whole, .twin = -1, .why = "", .complete = true};
  int n, best = -1;
  if (job_stopping(j)) return NO;
  struct swap *s = swaps(j, &n);
  c.cand = NEWS(j->mem, struct candidate, 1 + n);
  c.cand[c.ncand++] = (struct candidate){.found = j->base.found, .g = j->base.g, .note = ""}; // timed later
  const double now = now_seconds(), until = now + OF_JOINING * (clock_end(j) - now);
  for (int i = 0; i < n && (!i || now_seconds() < until); i++) {
    struct err inner = {0};
    c.ncand += put_together(j, &s[i], &c.cand[c.ncand], &inner) == OK;
  }
  TRY(gpu_session_open(j->program, &o, &j->session));
  clock_part(j, 1, 0);
  struct entrants *f = race_gpu_open(j, &c, j->split.n - 1, j->session);
  int status = race_gpu_climb(f, race_gpu_share(j), e);
  if (status == OK) status = race_gpu_prove(f, &best, e);
  race_gpu_times(f);
  entrants_close(f);
  j->course = c.course;
  j->stopped = j->stopped || job_stopping(j);
  if (status == OK && best > 0) adopt(j, &c.cand[best]);
  return status == OK && best <= 0 ? NO : status;
}
