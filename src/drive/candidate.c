// From found graphs to compiled candidates. A failure drops the candidate, never the job; its reason is kept and reported.
#include "drive/pass.h"
#include "gpu/gpu.h"
#include "plan/plan.h"
#include "thread/thread.h"

#include <string.h>

// Sizes of one structure are close in cost and often in time, so only a few of each are taken.
enum { MOST_OF_A_STRUCTURE = 3 };
// ON_A_GPU: factor, as a candidate takes less time there; TRIES: candidates examined for each one wanted
enum { ON_A_GPU = 3, TRIES = 4, STRUCTURES = 4 };
static const double NEAR = 2; // on a GPU, relative to the best, after the best of each kind
static const double FAR = 3;  // candidates whose modelled cost is more than this times the best are not tried

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

int candidate_sized(struct contest *c, int from, const struct graph *g)
{
  struct candidate x = c->cand[from];
  c->cand[c->ncand] = (struct candidate){
      .found = g, .kernels = x.kernels, .block_ops = x.block_ops, .structure = x.structure, .schedule = x.schedule, .note = "", .tuned = true};
  return c->ncand++;
}

void candidates_room(struct job *j, struct contest *c, int room)
{
  struct candidate *more = NEWS(j->mem, struct candidate, c->ncand + room);
  memcpy(more, c->cand, sizeof *more * (size_t)c->ncand);
  c->cand = more;
}

static int block_graphs(const struct graph *g)
{
  int n = 0;
  for (int i = 0; i < g->nnodes; i++) n += g->nodes[i].op == OP_BLOCK;
  return n;
}

// The order: the best of each number of kernels, of each number of library kernels among these, the second of each number, a few of each structure,
// the rest.
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

// Whether exponentials can be stabilized depends on the structure, seldom on sizes.
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

// ---- passes ----

int stable_form(struct arena *mem, const struct graph *g, bool overflows, struct graph **out, char note[256], struct err *e)
{
  bool changed;
  TRY(plan_stable(mem, g, out, &changed, note, e));
  if (!overflows || changed || plan_is_stable(g)) return OK;
  return err_set(e, ERR_TARGET, NOWHERE, "an exponential could overflow although the program's cannot: %s", *note ? note : "it is in a thread graph");
}

// Buffers have the dtypes of the part's results, and kernels write those of the candidate's. The verifier does not see this: it compares functions of
// exact numbers. A candidate runs before it is verified.
static int check_results(const struct job *j, const struct graph *part, const struct graph *g, struct err *e)
{
  const int n = graph_outputs(part, NULL);
  int *a = NEWS(j->mem, int, n + 1), *b = NEWS(j->mem, int, n + 1);
  if (graph_outputs(g, NULL) != n) return err_set(e, ERR_UNEQUAL, NOWHERE, "it has %d results, and the program %d", graph_outputs(g, NULL), n);
  graph_outputs(part, a), graph_outputs(g, b);
  for (int i = 0; i < n; i++) {
    const enum dtype want = part->tensors[a[i]].dtype, have = g->tensors[b[i]].dtype;
    if (have != want) return err_set(e, ERR_DTYPE, NOWHERE, "its result %d is %s, not %s", i + 1, dtype_name(have), dtype_name(want));
  }
  return OK;
}

int run_stable(const struct pass_on *on, struct err *e)
{
  struct job *j = on->j;
  struct candidate *x = on->x;
  struct graph *stable;
  char note[256] = "";
  TRY(check_results(j, on->c->part->g, x->found, e));
  const int status = stable_form(j->mem, x->found, on->c->overflows, &stable, note, e);
  if (status != OK) return x->overflows = true, status;
  TRY(graph_check(stable, e));
  x->g = stable;
  if (*note) x->note = arena_strdup(j->mem, note);
  return OK;
}

int run_thread_graphs(const struct pass_on *on, struct err *e)
{
  struct graph *whole;
  const struct graph *g = on->x->g;
  if (on->j->target.kind == TARGET_CPU) {
    TRY(thread_again(on->j->mem, g, &whole, e));
    g = whole;
  }
  TRY(thread_graphs(on->j->mem, g, &whole, e));
  TRY(graph_check(whole, e));
  return on->x->g = whole, OK;
}

static int print_c(const struct job *j, struct candidate *x, const char *name, struct err *e)
{
  char id[64];
  gen_identifier(id, name);
  str_free(&x->source), str_free(&x->header);
  int status = gen_c(x->g, id, &j->target, &x->source, &x->header, &x->info, e);
  if (status == OK && x->rank) status = gen_c_ranks(x->rank, id, &j->target, &x->source, e);
  if (status != OK) str_free(&x->source), str_free(&x->header);
  return status;
}

// The program as written is a result in any case, so its compilation has no time limit.
static int compile_c(const struct job *j, struct candidate *x, const char *name, struct err *e)
{
  char id[64];
  struct patience until = clock_compiler(j);
  if (x->g == j->stable) until.until = 0;
  gen_identifier(id, name);
  int status = module_build_with(str_text(&x->source), gen_flags(), id, &until, &x->cpu.module, e);
  if (status == OK) x->kernels = x->info.kernels;
  str_free(&x->source), str_free(&x->header);
  return status;
}

static const char *name_of(const struct job *j) { return j->program->name ? j->program->name : "program"; }
int run_c(const struct pass_on *on, struct err *e) { return print_c(on->j, on->x, name_of(on->j), e); }
int run_compile(const struct pass_on *on, struct err *e) { return compile_c(on->j, on->x, name_of(on->j), e); }

int candidate_build(const struct job *j, struct candidate *c, const char *name, struct err *e)
{
  TRY(print_c(j, c, name, e));
  return compile_c(j, c, name, e);
}

// ---- candidates that take part in the race ----

// Schemes re-tile grids and loops, so graphs that differ only in these become the same kernels.
static void drop_same_kernels(struct contest *c, struct candidate *x)
{
  x->gpu.kernels_hash = program_hash(&x->gpu.lowered->program, 1);
  for (int i = 1; i < c->ncand - 1; i++)
    if (!c->cand[i].dropped && c->cand[i].gpu.kernels_hash == x->gpu.kernels_hash)
      x->dropped = "another candidate has the same kernels", x->late = true;
}

struct picking {
  struct job *j;
  struct contest *c;
  const struct search_result *r;
  int good, most, tries;           // good: accepted candidates; most: number wanted; tries: number that may be examined
  int nlowered, cap, nopen, width; // width: number lowered together
  struct candidate *lowered;       // lowered for a GPU, or dropped
  int *open;                       // candidates that still have to be lowered; they count as good until then
  double until;                    // value of turn_clock(): no more are lowered then
  bool over;                       // it is later
  struct job *own;                 // for each thread: the job with its own arena
};

// The candidate if it was lowered before, or NULL.
static const struct candidate *find_lowered(const struct picking *p, const struct graph *g)
{
  for (int i = 0; i < p->nlowered; i++)
    if (p->lowered[i].found == g) return &p->lowered[i];
  return NULL;
}

// For a GPU, lowering decides whether a candidate can take part.
static bool takes_part(struct picking *p)
{
  const int k = p->c->ncand - 1;
  struct candidate *x = &p->c->cand[k];
  const struct candidate *known = find_lowered(p, x->found);
  if (known) *x = *known;
  if (!known && job_stopping(p->j)) return true; // it is kept for the next run only
  if (!known && p->j->target.kind == TARGET_GPU) return p->open[p->nopen++] = k, true;
  if (x->passed >= PASS_LOWER && !x->dropped) drop_same_kernels(p->c, x);
  return !x->dropped;
}

static void try_found(struct picking *p, const struct found *f, double far)
{
  if (p->nopen >= p->width || p->good >= p->most || p->c->ncand >= 1 + p->tries) return;
  if (f->cost > far * p->r->found[0].cost || candidate_known(p->c, f->g)) return;
  if (p->over && !find_lowered(p, f->g)) return;
  add(p->c, f);
  p->good += takes_part(p);
}

// The structure whose best candidate costs least, of those not in seen[0..n); -1: none. Costs of `found` are estimates from before lowering; costs of
// candidates are those of their kernels.
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

// On a GPU sizes matter more than on a CPU, and most structures are slow. So half of the candidates are chosen for variety. The others are more sizes
// of the structures that cost least after lowering, then of all structures.
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

// ---- lowering several at once ----

struct candidate_lowering {
  struct contest *c;
  const int *who;
  struct job *own;
  struct err *errs;
};

static void lower_one(void *arg, int i, int worker)
{
  struct candidate_lowering *l = arg;
  pass_candidate(&l->own[worker], l->c, &l->c->cand[l->who[i]], LAST_OF_CANDIDATE, &l->errs[i]);
}

static void lower_together(struct job *j, struct contest *c, struct job *own, int width, int n, const int *who)
{
  struct candidate_lowering l = {c, who, own, NEWS(j->mem, struct err, n + 1)};
  pool_run(width, n, lower_one, &l);
  for (int i = 0; i < n; i++)
    if (l.errs[i].status != OK) pass_fell(j, c, &c->cand[who[i]], &l.errs[i]);
}

// For each thread: the job with its own arena. Tile programs keep these arenas, since printing them allocates expressions.
static struct job *own_jobs(struct job *j, int width)
{
  struct arena *mem = NEWS(j->mem, struct arena, width);
  struct job *own = NEWS(j->mem, struct job, width);
  for (int i = 0; i < width; i++) PUSH(j->mem, j->arenas, j->narenas, j->arenas_cap) = &mem[i];
  for (int i = 0; i < width; i++) own[i] = *j, own[i].mem = &mem[i];
  return own;
}

static void lower_open(struct picking *p)
{
  lower_together(p->j, p->c, p->own, p->width, p->nopen, p->open);
  for (int i = 0; i < p->nopen; i++) PUSH(p->j->mem, p->lowered, p->nlowered, p->cap) = p->c->cand[p->open[i]];
}

// Dumps and kept candidates are numbered, so candidates are lowered one at a time for them.
static int width_of(const struct job *j)
{
  const bool numbered = j->opts->keep_dropped || j->opts->dump_dir || (j->watch && (j->watch->dump || j->watch->check));
  return numbered || j->target.kind != TARGET_GPU ? 1 : j->threads;
}

// Lowering decides whether a candidate takes part, and the next choice depends on that. So the pick assumes that candidates not yet lowered are good,
// lowers them together, and is repeated until none is open. The result equals that of lowering one at a time.
static void pick_all(struct picking *p, const struct search_result *kept)
{
  struct contest *c = p->c;
  const int width = p->width, most = p->most;
  p->own = own_jobs(p->j, width), p->until = turn_clock() + clock_lowering(p->j);
  do {
    p->good = p->nopen = 0, p->most = most, c->ncand = 1, p->over = p->nlowered && turn_clock() >= p->until;
    for (int i = 0; kept && i < kept->n && p->nopen < width; i++) add(c, &kept->found[i]), p->good += takes_part(p);
    (p->j->target.kind == TARGET_GPU ? pick_for_gpu : pick_for_cpu)(p);
    lower_open(p);
  } while (p->nopen);
}

void candidates_lower(struct job *j, struct contest *c, int n, const int *who)
{
  const int width = MIN(width_of(j), n);
  if (n) lower_together(j, c, own_jobs(j, width), width, n, who);
}

int candidates_pick(struct job *j, struct contest *c, const struct search_result *r, const struct search_result *kept, struct err *e)
{
  (void)e;
  bool gpu = j->target.kind == TARGET_GPU;
  int extra = kept ? kept->n : 0, most = j->opts->measure * (gpu ? ON_A_GPU : 1) + extra;
  struct picking p = {.j = j, .c = c, .r = r, .most = most, .tries = gpu ? TRIES * most : most, .width = width_of(j)};
  struct candidate base = c->cand[0];
  struct graph *stable;
  struct err inner = {0};
  char note[256] = "";
  if (plan_stable(j->mem, c->part->g, &stable, &c->overflows, note, &inner) != OK) c->overflows = false;
  c->cand = NEWS(j->mem, struct candidate, 1 + p.tries);
  c->cand[0] = base, p.open = NEWS(j->mem, int, 1 + p.tries);
  c->nfound = MAX(c->nfound, r->n), c->why = arena_strdup(j->mem, r->why);
  return pick_all(&p, kept), OK;
}

// Op-by-op: if the program is one part, its stable form, else the stabilized part.
int candidate_base(struct job *j, struct contest *c, struct err *e)
{
  struct graph *stable = (struct graph *)j->stable;
  char note[256] = "";
  bool changed;
  bool whole = j->single && (!j->opts->candidate || !graph_same(j->plain, j->stable)); // otherwise the reference is made like that of a subprogram
  if (!whole) TRY(plan_stable(j->mem, c->part->g, &stable, &changed, note, e));
  c->stable = stable;
  c->cand = NEW(j->mem, struct candidate);
  c->cand[0] =
      (struct candidate){.found = c->part->g, .g = stable, .schedule = "op by op", .note = arena_strdup(j->mem, note), .passed = PASS_THREAD_GRAPHS};
  c->ncand = 1;
  return OK;
}

static const char NO_TIME[] = "not compiled: earlier candidates used the time of the subprogram";

struct candidate_building {
  struct job *j;
  struct contest *c;
  struct err *errs; // one for each candidate, because threads do not share arenas
  int from, part;
  int done;        // number of finished candidates, atomic
  int64_t longest; // microseconds of the slowest so far, atomic
  double until;    // none begins that is expected to end later: the rest of the time is for measuring
};

static void build_progress(const struct candidate_building *b, int done)
{
  struct contest *c = b->c;
  job_progress(b->j, b->from ? "tune" : "compile", b->part, (double)done / (c->ncand - b->from), &c->stats, 1e6 * c->cand[c->best].timing.median);
}

// Would another one be compiled in time? It takes as long as the longest until now.
static bool in_time(const struct candidate_building *b)
{
  return now_seconds() + 1e-6 * (double)__atomic_load_n(&b->longest, __ATOMIC_RELAXED) < b->until;
}

static void took(struct candidate_building *b, double seconds)
{
  int64_t us = (int64_t)(1e6 * seconds), now = __atomic_load_n(&b->longest, __ATOMIC_RELAXED);
  while (us > now && !__atomic_compare_exchange_n(&b->longest, &now, us, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

static void build_one(void *arg, int i, int worker)
{
  struct candidate_building *b = arg;
  struct candidate *x = &b->c->cand[b->from + i];
  bool first = b->from + i <= 1; // op-by-op, and the model's best
  if (x->dropped || job_stopping(b->j)) return;
  if (!first && !in_time(b)) {
    x->dropped = NO_TIME, x->late = true;
    return;
  }
  const double start = now_seconds();
  pass_candidate(b->j, b->c, x, LAST_OF_CANDIDATE, &b->errs[i]);
  took(b, now_seconds() - start);
  int done = __atomic_add_fetch(&b->done, 1, __ATOMIC_RELAXED);
  if (!worker) build_progress(b, done); // the job's own thread
}

// All threads generate and compile C, each with its own arena.
static void build_for_cpu(struct job *j, struct contest *c, int part, int from)
{
  int n = c->ncand - from;
  struct candidate_building b = {j, c, NEWS(j->mem, struct err, n), from, part, 0, 0, clock_starters(j)};
  if (n) build_progress(&b, 0);
  for (int i = 0; i < n; i++) {
    struct candidate *x = &c->cand[from + i];
    if (!x->dropped && pass_candidate(j, c, x, PASS_THREAD_GRAPHS, &b.errs[i]) != OK) pass_fell(j, c, x, &b.errs[i]);
  }
  pool_run(j->threads, n, build_one, &b);
  if (!from && j->split.n > 1) clock_whole_compiles(j, 1e-6 * (double)b.longest * part_alike(j, (int)(c - j->contests)), true);
  for (int i = 0; i < n; i++) {
    struct candidate *x = &c->cand[from + i];
    c->hurried |= x->dropped == NO_TIME;
    if (!x->dropped && b.errs[i].status != OK) pass_fell(j, c, x, &b.errs[i]);
  }
}

void candidates_build(struct job *j, struct contest *c, int part, int from)
{
  bool gpu = j->target.kind == TARGET_GPU;
  if (gpu) job_progress(j, "lower", part, 0, &c->stats, 0);
  if (!gpu) build_for_cpu(j, c, part, from);
  for (int i = from; i < c->ncand && gpu && !job_stopping(j); i++) device_candidate(j, c, &c->cand[i]);
}
