// Searches a part in pieces, in addition to the search of the whole part. This applies to parts that compute an operand of a product by several
// operators, such as a norm of the keys of an attention. These operators form pieces without products. Each combination of results is joined into a
// result of the part. The cut stores more tensors, but the searches of the pieces are short. The search of the whole part may not end in its time, and
// it allows fewer operators in kernels that read the results of other kernels.
#include "drive/drive.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PER_PIECE = 4, LONGEST = 64 }; // results of a piece that joined graphs contain; most pieces

struct recut {
  struct job *j;
  const struct graph *part;
  struct lax_split split;
  struct found **best; // by piece: its results, best first; the first may be its own operators
  int *n;              // by piece: number of these
};

// The results of a piece, and its operators if they are cheaper than all of these.
static void keep_best(struct recut *r, int piece, const struct search_result *found)
{
  struct arena *mem = r->j->mem;
  struct graph *g = r->split.parts[piece].g;
  const double library = search_library_seconds(&r->j->target, g);
  int n = 0;
  r->best[piece] = NEWS(mem, struct found, PER_PIECE + 1);
  for (int i = 0; i < found->n && i < PER_PIECE; i++)
    if (found->found[i].cost < library) r->best[piece][n++] = found->found[i];
  if (!n) r->best[piece][n++] = (struct found){.g = g, .cost = library, .kernels = graph_ops(g), .schedule = "op by op"};
  r->n[piece] = n;
}

static int search_piece(struct recut *r, int piece, struct search_stats *sum, struct err *e)
{
  struct job *j = r->j;
  const struct part *p = &r->split.parts[piece];
  struct search_opts o = job_search_opts(j);
  struct pricing by = price_open(j->mem, &j->target, p->g);
  const struct pricer pricer = pricing_pricer(&by);
  struct search_result found = {0};
  struct err inner = {0};
  o.pricer = &pricer, o.crew = NULL;
  int status = p->searchable ? search_run(j->mem, p->g, &j->target, &o, &found, &inner) : OK;
  if (status != OK && inner.id == ERR_STOPPED) status = OK;
  if (status != OK) *e = inner;
  sum->states += found.stats.states, sum->graphs += found.stats.graphs, sum->verified += found.stats.verified, sum->seconds += found.stats.seconds;
  return keep_best(r, piece, &found), status;
}

// Adds the part with result at[i] of each piece i; leaves it out if it cannot be joined or lowered.
static void join(struct recut *r, const int *at, const struct pricing *by, struct search_result *to)
{
  struct graph *of[LONGEST], *whole;
  struct err none = {0};
  struct found x = {.structure = -1};
  for (int i = 0; i < r->split.n; i++) {
    const struct found *f = &r->best[i][at[i]];
    of[i] = f->g, x.cost += f->cost, x.kernels += f->kernels, x.block_ops = MAX(x.block_ops, f->block_ops);
    const size_t used = strlen(x.schedule);
    snprintf(x.schedule + used, sizeof x.schedule - used, "%s%s", used ? " | " : "", f->schedule);
  }
  if (lax_join(r->j->mem, r->part, &r->split, of, &whole, &none) != OK || graph_check(whole, &none) != OK) return;
  x.g = whole, x.cost = price_graph(by, whole, x.cost);
  if (isfinite(x.cost)) to->found[to->n++] = x;
}

// Adds all best results together, then each other result of a piece with the best of the other pieces.
static void join_all(struct recut *r, const struct pricing *by, struct search_result *to)
{
  int at[LONGEST] = {0}, most = to->n + 1, own = 0;
  struct found *all;
  for (int i = 0; i < r->split.n; i++) most += r->n[i] - 1;
  for (int i = 0; i < to->n; i++) own = MAX(own, to->found[i].structure + 1);
  all = NEWS(r->j->mem, struct found, most);
  const int before = to->n;
  for (int i = 0; i < before; i++) all[i] = to->found[i];
  to->found = all;
  join(r, at, by, to);
  for (int i = 0; i < r->split.n; i++, at[i - 1] = 0)
    for (at[i] = 1; at[i] < r->n[i]; at[i]++) join(r, at, by, to);
  for (int i = before; i < to->n; i++) all[i].structure = own + i - before;
  qsort(all, (size_t)to->n, sizeof *all, found_order);
}

int recut_open(struct job *j, const struct contest *c, struct recut **out, struct err *e)
{
  struct recut *r = NEW(j->mem, struct recut);
  *r = (struct recut){.j = j, .part = c->part->g};
  *out = NULL;
  if (j->crew && j->crew->rank) return OK;
  TRY(lax_operands(j->mem, r->part, &r->split, e));
  if (r->split.n < 2 || r->split.n > LONGEST || r->split.nmeetings) return OK;
  r->best = NEWS(j->mem, struct found *, r->split.n), r->n = NEWS(j->mem, int, r->split.n);
  return *out = r, OK;
}

int recut_search(struct recut *r, const struct pricing *by, struct search_result *to, struct err *e)
{
  int status = OK;
  for (int i = 0; i < r->split.n && status == OK; i++) status = search_piece(r, i, &to->stats, e);
  if (status == OK) join_all(r, by, to);
  return status;
}
