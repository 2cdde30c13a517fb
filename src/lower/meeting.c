// Collective operators as launches: the kind of collective, the size and place of its data, and its modelled time.
#include "lower/lower.h"
#include "plan/letters.h"

// The collective that an operator needs; false: none.
static bool how_of(enum op op, enum meeting_how *how)
{
  const struct op_row *row = &op_rows[op];
  if (row->rule != RULE_WORLD || row->flags & STAYS_APART) return false;
  return *how = row->flags & SCATTERS ? MEETING_SCATTER : row->flags & JOINS_RANKS ? MEETING_GATHER : MEETING_SUM, true;
}

const char *meeting_name(enum meeting_how how)
{
  enum meeting_how own;
  int op = 0;
  while (!how_of((enum op)op, &own) || own != how) op++;
  return op_rows[op].name;
}

bool meeting_find(const char *name, enum meeting_how *out)
{
  enum op op;
  return name && op_find(name, &op) && how_of(op, out);
}

bool meeting_of(const struct graph *g, const enum dtype *store, int node, struct lower_meeting *out)
{
  const struct node *n = &g->nodes[node];
  struct meeting *m = &out->m;
  struct kview v;
  *out = (struct lower_meeting){.m = {.ranks = g->world, .type = tile_type_of(store[n->out]), .outer = 1, .inner = 1}};
  if (!how_of(n->op, &m->how) || !kview_of(g, n->in[0], &v)) return false;
  const struct shape *s = &g->tensors[m->how == MEETING_SCATTER ? n->out : n->in[0]].shape;
  for (int d = 0; d < s->n; d++) *(m->how != MEETING_SUM && d < n->a.dim ? &m->outer : &m->inner) *= s->d[d];
  out->tensor[0] = v.root, out->tensor[1] = n->out;
  return store[v.root] == store[n->out] && meeting_fits(m);
}

struct choice meeting_choice(const struct target *gpu, const struct meeting *m)
{
  const double share = (m->ranks - 1.0) / m->ranks, whole = (double)meeting_bytes(m) * (m->how == MEETING_GATHER ? m->ranks : 1);
  const double sent =
      meeting_small(m) && m->how != MEETING_SCATTER ? (double)meeting_bytes(m) * (m->ranks - 1) : share * whole * (m->how == MEETING_SUM ? 2 : 1);
  return (struct choice){.scheme = SCHEME_MEETING, .cost = gpu->launch + gpu->meeting + sent / gpu->link};
}
