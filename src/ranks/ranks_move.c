// Best-first search over the programs that the laws derive. A step is one law at one node, or all laws of a group in one direction as often as
// they match. The latter is needed because an operator that moves past several others may cost more until it has passed the last. The
// verifier then checks the programs, the cheapest first.
#include "ranks/ranks.h"

#include <string.h>

enum { MOST_STATES = 600, MOST_NODES = 60000, MOST_LOOKED = 80, MOST_STEPS = 64, MOST_PROVED = 6 }; // MOST_NODES: in all states together
static const double GAIN = 0.995; // most fraction of the original cost that is worth a proof

struct ranks_state {
  const struct graph *g;
  uint64_t hash;
  double cost;
  const char *laws;
  bool looked;
};
struct ranks_search {
  struct arena *mem;
  const struct target *target;
  struct ranks_term *side[RANKS_LAWS][2]; // left, right
  int n, cap, most;
  struct ranks_state *state;
};

static const char *with_law(struct arena *mem, const char *laws, const char *name)
{
  const size_t n = strlen(laws), m = strlen(name);
  const bool last = n >= m && !strcmp(laws + n - m, name) && (n == m || laws[n - m - 1] == ' ');
  return last ? laws : arena_printf(mem, "%s%s%s", laws, *laws ? ", " : "", name);
}

static void keep(struct ranks_search *s, const struct graph *g, const char *laws)
{
  const uint64_t hash = graph_hash(g);
  for (int i = 0; i < s->n; i++)
    if (s->state[i].hash == hash && graph_same(s->state[i].g, g)) return;
  if (s->n < s->most) PUSH(s->mem, s->state, s->n, s->cap) = (struct ranks_state){g, hash, ranks_cost(g, s->target), laws, false};
}

static struct graph *apply(struct ranks_search *s, const struct graph *g, const bool *varies, int law, bool back, int node, int d)
{
  const struct ranks_rewriting w = {g, varies, s->side[law][back], s->side[law][!back]};
  return ranks_rewrite(s->mem, &w, node, d);
}

static const bool *varying(struct ranks_search *s, const struct graph *g)
{
  bool *varies = NEWS(s->mem, bool, g->ntensors + 1);
  return graph_varying(g, varies), varies;
}

// Applies each law at each node.
static void single_steps(struct ranks_search *s, struct ranks_state from)
{
  const bool *varies = varying(s, from.g);
  for (int law = 0; law < RANKS_LAWS; law++)
    for (int back = 0; back < 2; back++)
      for (int i = 0; i < from.g->nnodes; i++)
        for (int d = 0; d < MAX_DIMS && s->n < s->most; d++) {
          struct graph *g = apply(s, from.g, varies, law, back, i, d);
          if (g) keep(s, g, with_law(s->mem, from.laws, ranks_laws[law].name));
        }
}

static struct graph *first_step(struct ranks_search *s, const struct graph *g, enum ranks_group group, bool back, int *law)
{
  const bool *varies = varying(s, g);
  struct graph *next = NULL;
  for (int i = 0; i < g->nnodes; i++)
    for (*law = 0; *law < RANKS_LAWS; ++*law)
      if (ranks_laws[*law].group == group && (next = apply(s, g, varies, *law, back, i, 0))) return next;
  return NULL;
}

// Applies all laws of a group in one direction, as often as they match.
static void all_steps(struct ranks_search *s, struct ranks_state from, enum ranks_group group, bool back)
{
  const struct graph *g = from.g, *next;
  const char *laws = from.laws;
  int law;
  for (int step = 0; step < MOST_STEPS && (next = first_step(s, g, group, back, &law)); step++)
    g = next, laws = with_law(s->mem, laws, ranks_laws[law].name);
  if (g != from.g) keep(s, g, laws);
}

// The cheapest state that is not marked. Costs that differ only by rounding are equal; the earlier state has fewer laws.
static int cheapest(const struct ranks_search *s)
{
  int best = -1;
  for (int i = 0; i < s->n; i++)
    if (!s->state[i].looked && (best < 0 || s->state[i].cost < (1 - 1e-9) * s->state[best].cost)) best = i;
  return best;
}

static void explore(struct ranks_search *s, stop_flag stop)
{
  for (int looked = 0, i; looked < MOST_LOOKED && s->n < s->most && !stop_set(stop) && (i = cheapest(s)) >= 0; looked++) {
    s->state[i].looked = true;
    const struct ranks_state from = s->state[i];
    for (int group = 0; group < RANKS_OTHERS; group++)
      for (int back = 0; back < 2 && s->n < s->most; back++) all_steps(s, from, (enum ranks_group)group, back);
    single_steps(s, from);
  }
}

// Finds the cheapest state that the verifier accepts as equal to the program. `looked` marks states that need no check any more.
static int prove(struct ranks_search *s, const struct verify_opts *o, enum evidence accept, struct ranks_moved *out, struct err *e)
{
  for (int i = 1; i < s->n; i++) s->state[i].looked = s->state[i].cost > GAIN * s->state[0].cost;
  s->state[0].looked = true;
  for (int i; out->proved < MOST_PROVED && (i = cheapest(s)) >= 0; out->proved++) {
    struct certificate c;
    s->state[i].looked = true;
    TRY(verify_equal(s->state[0].g, s->state[i].g, o, &c, e));
    if (!c.equal || c.scope > accept) continue;
    out->g = s->state[i].g, out->after = s->state[i].cost, out->laws = s->state[i].laws, out->cert = c, out->proved++;
    return OK;
  }
  return OK;
}

int ranks_move(struct arena *mem, const struct graph *p, const struct target *t, const struct verify_opts *o, enum evidence accept,
               struct ranks_moved *out, struct err *e)
{
  struct ranks_search s = {.mem = mem, .target = t, .most = MIN(MOST_STATES, 2 + MOST_NODES / (p->nnodes + 1))};
  *out = (struct ranks_moved){.g = p, .laws = ""};
  if (p->world == 1) return OK;
  for (int law = 0; law < RANKS_LAWS; law++)
    s.side[law][0] = ranks_side(mem, ranks_laws[law].left), s.side[law][1] = ranks_side(mem, ranks_laws[law].right);
  keep(&s, p, "");
  out->before = out->after = s.state[0].cost;
  explore(&s, o->stop);
  out->states = s.n - 1;
  return prove(&s, o, accept, out, e);
}
