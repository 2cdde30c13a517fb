// From found graphs to compiled candidates. What goes wrong here costs the candidate, never the job: its reason is
// kept and shown.
#include "drive/drive.h"
#include "gpu/gpu.h"
#include "plan/plan.h"
#include "thread/thread.h"

#include <string.h>

// Sizes of one structure are close in cost and often in time: a few of each leave room for other structures.
enum { MOST_OF_A_STRUCTURE = 3 };
enum { ON_A_GPU = 3, TRIES = 4, STRUCTURES = 4 }; // there, a candidate takes less time; how many are looked at for one that can take part
static const double NEAR = 2;                     // of a GPU, after the best of each kind
static const double FAR = 3;                      // what the model says costs more than this many times the best is not tried

static int of_structure(const struct contest *c, int structure)
{
  int n = 0;
  for (int i = 1; i < c->ncand; i++) n += c->cand[i].structure == structure;
  return n;
}

bool candidate_known(const struct contest *c, const struct graph *g)
{
  for (int i = 1; i < c->ncand; i++)
    if (graph_same(c->cand[i].found, g)) return true;
  return false;
}

static int block_graphs(const struct graph *g)
{
  int n = 0;
  for (int i = 0; i < g->nnodes; i++) n += g->nodes[i].op == OP_BLOCK;
  return n;
}

// First the best of each number of kernels, of each number of library kernels among them, and the second of each
// number, then a few of each structure, then the rest.
enum { ROUNDS = 5 };
static bool wanted(const struct contest *c, const struct found *f, int round)
{
  int as_many = 0, alike = 0, blocks = block_graphs(f->g);
  for (int i = 1; i < c->ncand; i++) {
    bool same = c->cand[i].kernels == f->kernels;
    as_many += same, alike += same && block_graphs(c->cand[i].found) == blocks;
  }
  switch (round) {
  case 0: return !as_many;
  case 1: return !alike;
  case 2: return as_many < 2 && !of_structure(c, f->structure);
  case 3: return of_structure(c, f->structure) < MOST_OF_A_STRUCTURE;
  default: return true;
  }
}

// Whether exponentials can be tamed depends on the structure, and seldom on sizes.
static bool overflows(const struct contest *c, const struct found *f)
{
  bool bad = false;
  for (int i = 1; i < c->ncand; i++) {
    if (c->cand[i].structure != f->structure) continue;
    if (!c->cand[i].dropped) return false;
    bad |= c->cand[i].overflows;
  }
  return bad;
}

static void add(struct contest *c, const struct found *f)
{
  c->cand[c->ncand++] = (struct candidate){.found = f->g,
                                           .cost = f->cost,
                                           .kernels = f->kernels,
                                           .block_ops = f->block_ops,
                                           .structure = f->structure,
                                           .schedule = f->schedule,
                                           .note = ""};
}

// The tensors of a GPU's kernels are in registers as it is.
static int with_threads(const struct job *j, struct graph *g, struct graph **out, struct err *e)
{
  if (j->target.kind == TARGET_GPU) return *out = g, OK;
  return thread_graphs(j->mem, g, out, e);
}

void candidate_complete(struct job *j, const struct contest *in, struct candidate *c)
{
  struct graph *stable, *whole;
  struct err e = {0};
  char note[256] = "";
  bool changed;
  if (plan_stable(j->mem, c->found, &stable, &changed, note, &e) != OK || with_threads(j, stable, &whole, &e) != OK || graph_check(whole, &e) != OK) {
    c->dropped = arena_strdup(j->mem, e.text);
    return;
  }
  if (in->overflows && !changed) {
    c->overflows = true;
    c->dropped = arena_printf(j->mem, "its exponentials would overflow where the program's do not: %s", note);
    return;
  }
  c->g = whole;
  if (*note) c->note = arena_strdup(j->mem, note);
}

// Schemes cut grids and loops anew, so that graphs which differ in these become the same kernels.
static void drop_same_kernels(struct contest *c, struct candidate *x)
{
  x->kernels_hash = program_hash(&x->lowered->program, 1);
  for (int i = 1; i < c->ncand - 1; i++)
    if (!c->cand[i].dropped && c->cand[i].kernels_hash == x->kernels_hash) x->dropped = "another graph becomes the same kernels";
}

// Lowering for a GPU is cheap, and shows at once whether a candidate can take part.
static bool takes_part(struct job *j, struct contest *c)
{
  struct candidate *x = &c->cand[c->ncand - 1];
  if (job_stopping(j)) return true; // it is kept for the next run, no more
  if (j->target.kind == TARGET_GPU) device_candidate(j, c, x);
  if (x->lowered && !x->dropped) drop_same_kernels(c, x);
  return !x->dropped;
}

struct picking {
  struct job *j;
  struct contest *c;
  const struct search_result *r;
  int good, most, tries; // candidates that take part, how many are wanted, how many may be looked at
};

static void try_found(struct picking *p, const struct found *f, double far)
{
  if (p->good >= p->most || p->c->ncand >= 1 + p->tries || f->cost > far * p->r->found[0].cost || candidate_known(p->c, f->g)) return;
  add(p->c, f);
  p->good += takes_part(p->j, p->c);
}

// The structure whose best candidate costs least, of those not in seen[0..n); -1: none. `found` costs are a guess from before
// lowering, those of candidates are of the kernels that they become.
static int next_structure(const struct contest *c, const int *seen, int n)
{
  int best = 0;
  for (int i = 1; i < c->ncand; i++) {
    bool fresh = !c->cand[i].dropped;
    for (int k = 0; k < n; k++) fresh = fresh && seen[k] != c->cand[i].structure;
    if (fresh && (!best || c->cand[i].cost < c->cand[best].cost)) best = i;
  }
  return best ? c->cand[best].structure : -1;
}

// On a GPU sizes matter more than on a CPU, and most structures that the search finds are not worth it: half the candidates are
// for the variety, the others are more sizes of the structures that turn out to cost least, then of all.
static void pick_for_gpu(struct picking *p)
{
  int seen[STRUCTURES], n = 0, all = p->most;
  p->most = (all + 1) / 2;
  for (int round = 0; round < ROUNDS; round++)
    for (int i = 0; i < p->r->n; i++)
      if (wanted(p->c, &p->r->found[i], round) && !overflows(p->c, &p->r->found[i])) try_found(p, &p->r->found[i], round > 1 ? NEAR : FAR);
  p->most = all;
  for (int s; n < STRUCTURES && (s = next_structure(p->c, seen, n)) >= 0; seen[n++] = s)
    for (int i = 0; i < p->r->n; i++)
      if (p->r->found[i].structure == s) try_found(p, &p->r->found[i], FAR);
  for (int i = 0; i < p->r->n; i++)
    if (!overflows(p->c, &p->r->found[i])) try_found(p, &p->r->found[i], FAR);
}

static void pick_for_cpu(struct picking *p)
{
  for (int round = 0; round < ROUNDS; round++)
    for (int i = 0; i < p->r->n; i++)
      if (wanted(p->c, &p->r->found[i], round)) try_found(p, &p->r->found[i], FAR);
}

int candidates_pick(struct job *j, struct contest *c, const struct search_result *r, const struct search_result *kept, struct err *e)
{
  (void)e;
  bool gpu = j->target.kind == TARGET_GPU;
  int extra = kept ? kept->n : 0, most = j->opts->measure * (gpu ? ON_A_GPU : 1) + extra;
  struct picking p = {j, c, r, 0, most, gpu ? TRIES * most : most};
  struct candidate base = c->cand[0];
  struct graph *stable;
  struct err inner = {0};
  char note[256] = "";
  if (plan_stable(j->mem, c->part->g, &stable, &c->overflows, note, &inner) != OK) c->overflows = false;
  c->cand = NEWS(j->mem, struct candidate, 1 + p.tries);
  c->cand[0] = base, c->ncand = 1;
  c->nfound = MAX(c->nfound, r->n), c->why = arena_strdup(j->mem, r->why);
  for (int i = 0; i < extra; i++) add(c, &kept->found[i]), p.good += takes_part(j, c);
  (gpu ? pick_for_gpu : pick_for_cpu)(&p);
  return OK;
}

// Op-by-op: of a program that is one part its stable form, else the stabilized part.
int candidate_base(struct job *j, struct contest *c, struct err *e)
{
  struct graph *stable = (struct graph *)j->stable;
  char note[256] = "";
  bool changed;
  if (!j->single) TRY(plan_stable(j->mem, c->part->g, &stable, &changed, note, e));
  c->stable = stable;
  c->cand = NEW(j->mem, struct candidate);
  c->cand[0] = (struct candidate){.found = c->part->g, .g = stable, .schedule = "op by op", .note = arena_strdup(j->mem, note)};
  c->ncand = 1;
  return OK;
}

int candidate_build(const struct job *j, struct candidate *c, const char *name, struct err *e)
{
  struct str source = {0}, header = {0};
  char id[64];
  gen_identifier(id, name);
  const struct patience until = clock_compiler(j);
  int status = gen_c(c->g, id, &j->target, &source, &header, &c->info, e);
  if (status == OK) status = module_build_with(str_text(&source), gen_flags(), id, &until, &c->module, e);
  if (status == OK) c->kernels = c->info.kernels;
  str_free(&source);
  str_free(&header);
  return status;
}

static const char NO_TIME[] = "not compiled: those before it took the time of the subprogram";

struct building {
  struct job *j;
  struct contest *c;
  struct err *errs; // one a candidate, because arenas are not shared by threads
  int from;
};

static void build_one(void *arg, int i, int worker)
{
  (void)worker;
  struct building *b = arg;
  struct candidate *c = &b->c->cand[b->from + i];
  bool first = b->from + i <= 1; // op-by-op, and what the model likes best
  if (c->dropped || job_stopping(b->j)) return;
  if (!first && clock_part_over(b->j)) {
    c->dropped = NO_TIME;
    return;
  }
  candidate_build(b->j, c, b->j->program->name ? b->j->program->name : "program", &b->errs[i]);
}

void candidates_build(struct job *j, struct contest *c, int part, int from)
{
  int n = c->ncand - from;
  struct building b = {j, c, NEWS(j->mem, struct err, n), from};
  job_progress(j, from ? "tune" : "compile", part, 0, &c->stats, 1e6 * c->cand[c->best].timing.median);
  for (int i = from; i < c->ncand; i++)
    if (!c->cand[i].g) candidate_complete(j, c, &c->cand[i]);
  pool_run(j->threads, n, build_one, &b);
  for (int i = 0; i < n; i++) c->hurried |= c->cand[from + i].dropped == NO_TIME;
  for (int i = 0; i < n; i++)
    if (b.errs[i].status != OK) c->cand[from + i].dropped = arena_printf(j->mem, "%s", b.errs[i].text);
}
