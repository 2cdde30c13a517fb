// Softmax without overflow. A verified muGraph may compute exp(s) of large s, because over the reals
//   sum_k exp(s_k) v_k / sum_k exp(s_k)
// is the same for s and s - m, and the search does not know about overflow. This pass finds such exponentials and subtracts maxima, as FlashAttention
// does by hand (paper, sections 1 and 3). If a block has all of the summed dimension, the maximum is along it. If not, it is a running maximum over
// the for-loop with rescaled accumulators. If later kernels add up partial sums, the block also saves the
// maxima.
//
// One exponential is rewritten at a time. An attempt fixes the dimensions of the maximum and whether it is a running one, and rebuilds the whole
// kernel graph. Every tensor carries the power of exp(m) that it lacks (stable.h). The attempt succeeds if no output lacks any. Attempts are ordered
// by increasing number of dimensions, so the first success is the cheapest. Requires a checked kernel graph; the result is equal to it in exact
// arithmetic.
#include "plan/stable.h"

#include <string.h>

enum { MOST_DIMS = 3 }; // of a maximum

struct stable_candidate {
  const struct graph *g; // the kernel graph or a block graph
  int node;
};

// Finds exponential number `skip` among those not rewritten yet; *seen counts them from 0.
static bool next_candidate(const struct within *w, int skip, int *seen, struct stable_candidate *c)
{
  for (int i = 0; i < w->g->nnodes; i++) {
    const struct node *n = &w->g->nodes[i];
    if (n->sub && n->sub->level == BLOCK && next_candidate(&(struct within){n->sub, w, n}, skip, seen, c)) return true;
    if (n->op != OP_EXP || exp_shifted(w, n) || (*seen)++ < skip) continue;
    *c = (struct stable_candidate){w->g, i};
    return true;
  }
  return false;
}

static int attempt(struct attempt *a, const struct graph *g, struct graph **out)
{
  struct site s = {.a = a, .old = g, .g = graph_new(a->mem, KERNEL, g->name), .v = NEWS(a->mem, struct scaled, g->ntensors + 1)};
  for (int i = 0; i < g->nnodes; i++)
    if (stable_node(&s, i)) return NO;
  *out = s.g;
  return a->cancelled ? OK : give_up(&s, "it is not divided by a sum of itself");
}

// Tries one kind of maximum. If an attempt finds that it needs a shared factor, a lower limit or a finite maximum, another attempt has it.
static bool try_as(const struct attempt *as, const struct graph *g, struct graph **out, struct attempt *best)
{
  struct arena_mark m = arena_mark(as->mem);
  struct attempt a = *as;
  int status = attempt(&a, g, out);
  const bool share = status && a.may_share && !as->sharing, clamp = !status && a.joined && !as->clamped;
  const bool bound = a.wants_bound && !as->bounded;
  if (!status && !clamp) return true;
  arena_reset(as->mem, m);
  if (status && a.done > best->done) *best = a;
  a = *as, a.sharing |= share, a.clamped |= clamp, a.bounded |= bound;
  return (share || clamp || bound) && try_as(&a, g, out, best);
}

// Tries both kinds of maximum along these dimensions. The failure that went furthest gives the reason.
static bool try_dims(struct arena *mem, const struct graph *g, struct stable_candidate c, unsigned dims, struct graph **out, struct attempt *best)
{
  bool varying = c.g->tensors[c.g->nodes[c.node].in[0]].phase == VARYING;
  for (int running = 0; running <= varying; running++) {
    struct attempt a = {.mem = mem, .target_graph = c.g, .target_node = c.node, .dims = dims, .running = running, .clamped = running};
    if (try_as(&a, g, out, best)) return true;
  }
  return false;
}

static bool try_candidate(struct arena *mem, const struct graph *g, struct stable_candidate c, struct graph **out, struct attempt *best)
{
  int n = c.g->tensors[c.g->nodes[c.node].in[0]].shape.n;
  for (int count = 1; count <= MIN(n, MOST_DIMS); count++)
    for (unsigned mask = 1; mask < 1u << n; mask++) { // bit 0 is the last dimension
      unsigned dims = 0;
      for (int k = 0; k < n; k++) dims |= (mask >> k & 1) << (n - 1 - k);
      if (__builtin_popcount(mask) == count && try_dims(mem, g, c, dims, out, best)) return true;
    }
  return false;
}

static void add_note(char note[256], struct stable_candidate c, const struct attempt *best)
{
  const struct node *n = &c.g->nodes[c.node];
  const char *name = c.g->tensors[n->out].name;
  size_t have = strlen(note);
  char who[64];
  if (name)
    snprintf(who, sizeof who, "`%.40s`", name);
  else
    snprintf(who, sizeof who, "of %s node %d", level_name(c.g->level), c.node);
  snprintf(note + have, 256 - have, "%sno maximum can be subtracted in exp %s: %s", have ? "; " : "", who, *best->why ? best->why : "it is a scalar");
}

int plan_stable(struct arena *mem, const struct graph *g, struct graph **out, bool *changed, char note[256], struct err *e)
{
  struct stable_candidate c;
  *changed = false, note[0] = 0;
  for (int skip = 0, seen = 0; next_candidate(&(struct within){.g = g}, skip, &seen, &c); seen = 0) {
    struct attempt best = {0};
    struct graph *better;
    if (try_candidate(mem, g, c, &better, &best))
      g = better, *changed = true;
    else
      add_note(note, c, &best), skip++;
  }
  if (!*changed) return *out = (struct graph *)g, OK;
  int s = plan_sweep(mem, g, out, e);
  return s ? s : graph_check(*out, e);
}
