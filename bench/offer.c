// offer: prices the graphs that the search offers for a GPU by the model of lowering, as a race without a GPU ranks them. No GPU is needed.
//
//   offer [--target sm_90a] [--threads N] [--top N] [--wide N] [--graphs] PROGRAM.mica[,NAME=VALUE]...
//
// A line a program, as CSV. Microseconds are sums over its subprograms; the other columns are of the worst of them:
//   first      of the first graph of the list that can be made
//   eight      of the best of the first eight
//   best       of the best of all
//   rank       place of the best in the list, from 1
//   offered    graphs in the list
//   refused    those of them that no scheme takes, or whose exponentials overflow
//   kernels    kernels of the best, by the search
//   space      of the best of the space: with --wide N, of a list of N plans and their other sizes, each of which is priced; else of all
//   search_s, price_s   seconds of the search, and of pricing
#include "drive/drive.h"
#include "front/front.h"
#include "plan/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EIGHT = 8 };

struct offer {
  const char *target;
  int threads, top, wide;
  bool graphs;
};
struct answer {
  double first, eight, best, space, search, price;
  int rank, offered, refused, kernels;
};

static double useconds(double s) { return isfinite(s) ? 1e6 * s : -1; }

static void worse(struct answer *sum, const struct answer *x)
{
  sum->first += x->first, sum->eight += x->eight, sum->best += x->best, sum->space += x->space, sum->search += x->search, sum->price += x->price;
  sum->rank = MAX(sum->rank, x->rank), sum->offered = MAX(sum->offered, x->offered), sum->refused = MAX(sum->refused, x->refused);
  sum->kernels += x->kernels;
}

static void judge(const struct offer *o, const struct pricing *by, const struct search_result *r, struct answer *x)
{
  for (int i = 0; i < r->n && (!o->top || i < o->top); i++) {
    const struct found *f = &r->found[i];
    double price = price_graph(by, f->g, 0);
    x->offered++, x->refused += !isfinite(price);
    if (o->graphs) printf("  %3d %9.2f %9.2f  %d kernels  %s\n", i + 1, useconds(f->cost), useconds(price), f->kernels, f->schedule);
    if (!isfinite(x->first)) x->first = price;
    if (i < EIGHT) x->eight = fmin(x->eight, price);
    if (price < x->best) x->best = price, x->rank = i + 1, x->kernels = f->kernels;
  }
}

// Prices a list of `wide` plans, which represents the whole space.
static int wider(const struct offer *o, struct job *j, struct contest *c, struct search_opts *s, const struct pricing *by, struct answer *x,
                 struct err *e)
{
  struct search_result r = {0};
  x->space = x->best;
  if (!o->wide || !c->part->searchable) return OK;
  s->most = o->wide;
  TRY(search_run(j->mem, c->part->g, &j->target, s, &r, e));
  if (r.n && isfinite(price_graph(by, r.found[0].g, 0))) x->space = fmin(x->space, r.found[0].cost); // else no graph can be made
  if (o->graphs && r.n) printf("  wide %9.2f  %d kernels  %s\n", useconds(r.found[0].cost), r.found[0].kernels, r.found[0].schedule);
  return OK;
}

// Prices a part. A part that is not searched runs operator by operator.
static int part(const struct offer *o, struct job *j, struct contest *c, struct answer *x, struct err *e)
{
  struct search_result r = {0};
  struct search_opts s = job_part_opts(j, c);
  double start = now_seconds();
  *x = (struct answer){.first = INFINITY, .eight = INFINITY, .best = INFINITY};
  struct pricing by = price_open(j->mem, &j->target, c->part->g);
  const struct pricer pricer = pricing_pricer(&by);
  s.pricer = &pricer;
  if (c->part->searchable) TRY(search_run(j->mem, c->part->g, &j->target, &s, &r, e));
  x->search = now_seconds() - start, start = now_seconds();
  judge(o, &by, &r, x);
  if (!isfinite(x->best)) x->first = x->eight = x->best = price_graph(&by, c->part->g, 0);
  x->price = now_seconds() - start;
  return wider(o, j, c, &s, &by, x, e);
}

static int all_parts(const struct offer *o, struct job *j, const char *word, struct err *e)
{
  struct answer sum = {0};
  TRY(job_split(j, e));
  struct answer *x = NEWS(j->mem, struct answer, j->split.n + 1);
  for (int i = 0; i < j->split.n; i++) {
    int twin = j->contests[i].twin;
    if (twin < 0) TRY(part(o, j, &j->contests[i], &x[i], e));
    if (twin >= 0) x[i] = x[twin], x[i].search = x[i].price = 0;
    worse(&sum, &x[i]);
  }
  printf("\"%s\",%d,%.2f,%.2f,%.2f,%d,%d,%d,%d,%.2f,%.2f,%.2f\n", word, j->split.n, useconds(sum.first), useconds(sum.eight), useconds(sum.best),
         sum.rank, sum.offered, sum.refused, sum.kernels, useconds(sum.space), sum.search, sum.price);
  return fflush(stdout), OK;
}

static int program(const struct offer *o, char *word, struct err *e)
{
  struct arena mem = {0};
  struct graph *g;
  struct job j = {.mem = &mem};
  const char *set[16];
  int nset = 0;
  struct mica_options opts = job_defaults();
  char *name = arena_strdup(&mem, word);
  opts.target = o->target, opts.search_threads = o->threads, opts.remember = false;
  for (char *at = strchr(word, ','); at && nset < 16; at = strchr(at, ',')) *at++ = 0, set[nset++] = at;
  int status = load_file(&mem, word, nset, set, &g, e);
  if (!status) status = job_open(&j, &mem, g, &opts, e);
  if (!status) status = all_parts(o, &j, name, e);
  job_close(&j);
  arena_close(&mem);
  return status;
}

static int option(struct offer *o, int n, char **word)
{
  if (!strcmp(*word, "--graphs")) return o->graphs = true, 1;
  if (n < 2) return 0;
  if (!strcmp(*word, "--target")) return o->target = word[1], 2;
  if (!strcmp(*word, "--threads")) return o->threads = atoi(word[1]), 2;
  if (!strcmp(*word, "--top")) return o->top = atoi(word[1]), 2;
  if (!strcmp(*word, "--wide")) return o->wide = atoi(word[1]), 2;
  return 0;
}

int main(int argc, char **argv)
{
  struct offer o = {.target = "sm_90a", .threads = 2};
  int at = 1, bad = 0;
  for (int used; at < argc && (used = option(&o, argc - at, argv + at)); at += used) continue;
  printf("program,parts,first,eight,best,rank,offered,refused,kernels,space,search_s,price_s\n");
  for (; at < argc; at++) {
    struct err e = {0};
    if (program(&o, argv[at], &e) != OK) err_print(stderr, &e), bad++;
  }
  return bad ? USER : OK;
}
