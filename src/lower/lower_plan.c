// Plans a kernel graph: the normal form of each kernel, and all choices for it. program.c makes a program from one choice for each kernel. Many
// programs can be made from one plan.
#include "lower/lower_emit.h"
#include "lower/tail.h"
#include "plan/letters.h"
#include "thread/thread.h"

#include <math.h>
#include <string.h>

struct planning {
  struct arena *mem;
  struct lower_plan *p;
  const char *stem; // prefix of names
  int nasked, cap;
  struct asked_kernel { // the choices of a kernel, which may occur again: in the graph, as a tail, or in a plan with other layouts
    uint64_t key;       // as in memo.c
    int nchoices;
    struct choice *choice;
    const char *why;
  } * asked;
  struct lower_memo *memo;
};

struct lower_job lower_unit_job(struct arena *mem, const struct lower_plan *p, const struct lower_unit *u, bool tail)
{
  return (struct lower_job){.mem = mem,
                            .n = &u->n,
                            .tail = tail ? &u->tail : NULL,
                            .store = p->store,
                            .gpu = p->gpu,
                            .name = u->name,
                            .dependent = p->dependent,
                            .off = p->off};
}

static int remembered(struct lower_memo *m, const struct lower_job *j, uint64_t key, struct choice *first, char why[256])
{
  int n;
  if (lower_memo_get(m, key, &n, first)) return n;
  n = scheme_choices(j, 1, first, why);
  return lower_memo_put(m, key, n, first), n;
}

static struct asked_kernel ask(struct planning *w, const struct lower_job *j, uint64_t key)
{
  struct choice found[CHOICES];
  char why[256] = "";
  struct arena_mark mark = arena_mark(w->mem);
  struct lower_job own = *j;
  own.tails = NEW(w->mem, struct tail_memo);
  const int n = w->memo ? remembered(w->memo, &own, key, found, why) : scheme_choices(&own, CHOICES, found, why);
  arena_reset(w->mem, mark);
  return (struct asked_kernel){key, n, arena_copy(w->mem, found, sizeof *found * (size_t)MAX(n, 1)),
                               arena_strdup(w->mem, *why ? why : "there is no scheme")};
}

// The choices of a unit, with its tail or alone.
static void choose(struct planning *w, struct lower_unit *u, bool tail)
{
  const struct lower_job j = lower_unit_job(w->mem, w->p, u, tail);
  const uint64_t key = lower_memo_key(&j);
  int i = 0;
  while (i < w->nasked && w->asked[i].key != key) i++;
  if (i == w->nasked) {
    const struct asked_kernel x = ask(w, &j, key);
    PUSH(w->mem, w->asked, w->nasked, w->cap) = x;
  }
  u->nchoices = w->asked[i].nchoices, u->choice = w->asked[i].choice, u->why = w->asked[i].why;
}

// Merges two lists of choices. Three of four entries come from `first`, which the model prefers. The fourth comes from `second`: if the model errs, a
// race of the first few entries still measures both kinds.
static void in_turns(struct planning *w, struct lower_unit *u, const struct lower_unit *first, const struct lower_unit *second)
{
  u->nchoices = first->nchoices + second->nchoices;
  u->choice = NEWS(w->mem, struct choice, u->nchoices + 1);
  for (int i = 0, a = 0, b = 0; i < u->nchoices; i++) {
    bool other = a == first->nchoices || (i % 4 == 1 && b < second->nchoices);
    u->choice[i] = other ? second->choice[b++] : first->choice[a++];
  }
}

// Merges the choices of one launch for the unit and its tail (`both`) with those of two launches (`u`, and `next` for the tail), the cheaper kind
// first.
static void beside(struct planning *w, struct lower_unit *u, const struct lower_unit *both, const struct lower_unit *next)
{
  struct lower_unit alone = *u;
  bool apart = alone.nchoices && next->nchoices, first = apart && alone.choice[0].cost + next->choice[0].cost < both->choice[0].cost;
  if (!apart) alone.nchoices = 0;
  *u = *both;
  in_turns(w, u, first ? &alone : both, first ? both : &alone);
}

// ---- products ----

static void one_choice(struct planning *w, struct lower_unit *u, struct choice c) { u->choice = arena_copy(w->mem, &c, sizeof c), u->nchoices = 1; }

static void with_tail(struct planning *w, struct lower_unit *u)
{
  struct lower_unit both = *u, next = *u;
  char why[160];
  both.last = next.first = next.last = legal_tail_of(w->p->g, u->first);
  if (both.last < 0 || norm_make_in(w->mem, w->p->g, w->p->order, both.last, &both.tail, why) != OK) return;
  if (!u->product)
    choose(w, &both, true);
  else if (product_ends(&u->mul, &both.tail, w->p->store, &both.ends, why))
    one_choice(w, &both, product_choice(w->p, &both.ends, true));
  else
    both.nchoices = 0, u->why = arena_printf(w->mem, "no epilogue: %s", why);
  if (!both.nchoices) return;
  next.n = both.tail, next.product = false;
  choose(w, &next, false);
  beside(w, u, &both, &next);
}

static int plan_product(struct planning *w, struct lower_unit *u, struct err *e)
{
  const struct graph *g = w->p->g;
  const struct node *n = &g->nodes[u->first];
  u->product = true;
  u->why = "";
  if (!product_of(g, w->p->order, u->first, &u->mul)) return err_set(e, ERR_TARGET, n->at, "matmul of operands without strides");
  const int *x = u->mul.tensor;
  if (w->p->store[x[0]] != w->p->store[x[1]])
    return err_set(e, ERR_TARGET, n->at, "matmul of %s and %s", dtype_name(w->p->store[x[0]]), dtype_name(w->p->store[x[1]]));
  if (!blas_multiplies(tile_type_of(w->p->store[x[0]])))
    return err_set(e, ERR_TARGET, n->at, "matmul of %s: GPUs multiply no such dtype yet, only the CPU does", dtype_name(w->p->store[x[0]]));
  for (int i = 0; i < BLAS_C; i++) u->mul.p.type[i] = tile_type_of(w->p->store[x[i]]);
  return one_choice(w, u, product_choice(w->p, &u->mul, false)), OK;
}

static int plan_meeting(struct planning *w, struct lower_unit *u, struct err *e)
{
  const struct node *n = &w->p->g->nodes[u->first];
  u->why = "";
  if (!meeting_of(w->p->g, w->p->store, u->first, &u->meet))
    return err_set(e, ERR_TARGET, n->at, "%s of %s: GPUs exchange no such tensor", op_rows[n->op].name, dtype_name(w->p->g->tensors[n->out].dtype));
  return one_choice(w, u, meeting_choice(w->p->gpu, &u->meet.m)), OK;
}

static int plan_unit(struct planning *w, int node, const struct lower_opts *o, struct err *e)
{
  struct lower_unit *u = &w->p->unit[w->p->nunits++];
  char why[160] = "";
  *u = (struct lower_unit){.first = node, .last = node, .head = -1, .name = arena_printf(w->mem, "%s_%d", w->stem, w->p->nunits)};
  for (int i = 0; i < w->p->nunits - 1; i++)
    if (w->p->unit[i].last == node) u->head = i;
  int status = OK;
  if (node_meets(&w->p->g->nodes[node])) return plan_meeting(w, u, e);
  if (w->p->g->nodes[node].op == OP_MATMUL)
    status = plan_product(w, u, e);
  else if (norm_make_in(w->mem, w->p->g, w->p->order, node, &u->n, why) != OK)
    return u->why = arena_strdup(w->mem, why), OK;
  else
    choose(w, u, false);
  if (!status && o->tails) with_tail(w, u);
  return status;
}

static const char *stem_of(struct arena *mem, const struct graph *g)
{
  char *s = arena_strdup(mem, g->name ? g->name : "kernel");
  for (char *p = s; *p; p++)
    if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", *p)) *p = '_';
  if (*s >= '0' && *s <= '9') return arena_printf(mem, "k%s", s);
  return s;
}

static int plan_after(struct planning *w, const struct graph *wrapped, const enum dtype *store, const struct target *gpu, const struct lower_opts *o,
                      struct lower_plan *p, struct err *e)
{
  struct arena *mem = w->mem;
  int status = OK;
  *p = (struct lower_plan){.g = wrapped,
                           .store = store,
                           .order = o->order,
                           .ordered = "row by row",
                           .gpu = gpu,
                           .dependent = o->dependent && gpu->can & CAN_PDL,
                           .tails = o->tails,
                           .off = o->off,
                           .stored = o->stored,
                           .unit = NEWS(mem, struct lower_unit, wrapped->nnodes + 1)};
  w->p = p, w->memo = o->memo, w->stem = stem_of(mem, wrapped);
  for (int i = 0; i < wrapped->nnodes && !status; i++)
    if (wrapped->nodes[i].op == OP_BLOCK || wrapped->nodes[i].op == OP_MATMUL || node_meets(&wrapped->nodes[i])) status = plan_unit(w, i, o, e);
  return status;
}

int lower_plan_of(struct arena *mem, const struct graph *wrapped, const enum dtype *store, const struct target *gpu, const struct lower_opts *o,
                  struct lower_plan *p, struct err *e)
{
  struct planning w = {.mem = mem};
  return plan_after(&w, wrapped, store, gpu, o, p, e);
}

bool lower_inside(const struct lower_plan *p, const struct choice *pick, int unit)
{
  int head = p->unit[unit].head;
  return head >= 0 && p->unit[head].nchoices && pick[head].tail && !lower_inside(p, pick, head);
}

// Modelled seconds of all launches, with the best choice for each.
static double plan_cost(struct arena *mem, const struct lower_plan *p)
{
  double sum = 0;
  struct choice *pick = NEWS(mem, struct choice, p->nunits + 1);
  for (int i = 0; i < p->nunits; i++)
    if (p->unit[i].nchoices) pick[i] = p->unit[i].choice[0];
  for (int i = 0; i < p->nunits; i++)
    if (!lower_inside(p, pick, i)) sum += p->unit[i].nchoices ? pick[i].cost : INFINITY;
  return sum;
}

static int plan_ordered(struct arena *mem, struct graph *wrapped, const struct target *gpu, const struct lower_opts *o, struct lower_plan *p,
                        struct err *e)
{
  const struct order *order[ORDERS];
  const char *what[ORDERS];
  struct lower_opts as = *o;
  struct lower_plan other;
  struct planning w = {.mem = mem};
  int status = step_products(mem, wrapped, &wrapped, e);
  if (status) return status;
  const enum dtype *store = store_types(mem, wrapped, o->stored);
  as.order = order_least(mem, wrapped);
  status = plan_after(&w, wrapped, store, gpu, &as, p, e);
  double least = status ? INFINITY : plan_cost(mem, p), plain = least;
  for (int i = 0, n = isfinite(least) ? order_candidates(mem, wrapped, order, what) : 0; i < n && !status; i++) {
    as.order = order[i];
    if (plan_after(&w, wrapped, store, gpu, &as, &other, e) != OK) {
      *e = (struct err){0}; // this layout is not possible
      continue;
    }
    double cost = plan_cost(mem, &other);
    if (cost >= least) continue;
    least = cost, *p = other;
    p->ordered = arena_printf(mem, "%s: %.2f us modelled, and %.2f us row by row", what[i], 1e6 * cost, 1e6 * plain);
  }
  return status;
}

static void take_cheaper(struct arena *mem, struct lower_plan *p, const struct lower_plan *other)
{
  if (plan_cost(mem, other) < plan_cost(mem, p)) *p = *other;
}

// Replaces the plan by that of a rewritten graph if it is cheaper. rewrite: the status of the rewrite; NO: it changed nothing.
static int plan_rewritten(struct arena *mem, int rewrite, struct graph *const *g, const struct target *gpu, const struct lower_opts *o,
                          struct lower_plan *p, struct err *e)
{
  struct lower_plan other;
  if (rewrite) return rewrite == NO ? OK : rewrite;
  TRY(plan_ordered(mem, *g, gpu, o, &other, e));
  return take_cheaper(mem, p, &other), OK;
}

// Chooses the cheapest plan among rewrites of the graph: each tries one change, such as gathers merged into the kernels that read them.
static int plan_wrapped(struct arena *mem, const struct graph *g, const struct target *gpu, const struct lower_opts *o, struct lower_plan *p,
                        struct err *e)
{
  struct graph *wrapped, *other;
  TRY(wrap_library(mem, g, &wrapped, e));
  const int parts = gpu->f32_products == F32_BF16X6 ? legal_parts(mem, wrapped, &wrapped, e) : NO;
  if (parts != OK && parts != NO) return parts;
  TRY(plan_ordered(mem, wrapped, gpu, o, p, e));
  // The search does not place topk in a kernel. This plan merges it with the kernel that makes its operand.
  TRY(plan_rewritten(mem, legal_topk(wrapped) ? legal_merge(mem, wrapped, &other, e) : NO, &other, gpu, o, p, e));
  TRY(plan_rewritten(mem, load_once(mem, wrapped, &other, e), &other, gpu, o, p, e));
  TRY(plan_rewritten(mem, legal_gathers(mem, wrapped, &other, e), &other, gpu, o, p, e));
  TRY(plan_rewritten(mem, legal_spans(mem, wrapped, &other, e), &other, gpu, o, p, e));
  TRY(plan_rewritten(mem, legal_aligned(mem, wrapped, false, &other, e), &other, gpu, o, p, e));
  if (isfinite(plan_cost(mem, p))) return OK;
  return plan_rewritten(mem, legal_aligned(mem, wrapped, true, &other, e), &other, gpu, o, p, e);
}

int lower_plan(struct arena *mem, const struct graph *g, const struct target *gpu, const struct lower_opts *o, struct lower_plan *p, struct err *e)
{
  struct graph *merged;
  struct lower_plan longer;
  TRY(thread_flat(mem, g, &g, e));
  int status = plan_wrapped(mem, g, gpu, o, p, e), changed = status ? NO : legal_merge(mem, g, &merged, e);
  if (changed != OK) return status ? status : changed == NO ? OK : changed;
  status = plan_wrapped(mem, merged, gpu, o, &longer, e);
  if (!status) take_cheaper(mem, p, &longer);
  return status;
}
