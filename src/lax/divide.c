// Where a piece must be cut in two, in the order in which the reasons are looked at:
//   library operators stand alone;
//   a second exponential on a path begins a new piece (Mirage paper, section 5: a Lax program has at most one,
//   and the verifier's fields hold no exponential of an exponential).
// The reason fixes what must come first and what must not; between them the cut is where the fewest bytes are stored.
#include "lax/piece.h"

// Marks all that marked nodes of r need, themselves included.
static void mark_needed(const struct facts *f, const struct piece *r, bool *mark)
{
  for (int i = r->n - 1; i >= 0; i--) {
    const struct node *n = &f->p->nodes[r->node[i]];
    for (int k = 0; k < n->nin && mark[r->node[i]]; k++) {
      int maker = facts_maker(f, r->id, n->in[k]);
      if (maker >= 0) mark[maker] = true;
    }
  }
}

// ---- library operators ----

enum order { BEFORE, NEXT, BEHIND }; // of library operators that wait for no library operator behind a searched one

static enum order order_of(const struct facts *f, const struct piece *r, const enum order *order, int node)
{
  const struct node *n = &f->p->nodes[node];
  enum order last = BEFORE;
  for (int k = 0; k < n->nin; k++) {
    int maker = facts_maker(f, r->id, n->in[k]);
    if (maker >= 0) last = MAX(last, order[maker]);
  }
  if (f->kind[node] == LIBRARY) return MAX(last, NEXT);
  return last == BEFORE ? BEFORE : BEHIND;
}

static bool cut_library(const struct facts *f, const struct piece *r, bool *first, char why[160])
{
  enum order *order = NEWS(f->tmp, enum order, f->p->nnodes);
  bool *next = NEWS(f->tmp, bool, f->p->nnodes), *source = NEWS(f->tmp, bool, f->p->nnodes);
  int library = 0, sources = 0, name = -1;
  for (int i = 0; i < r->n; i++) {
    int node = r->node[i];
    order[node] = order_of(f, r, order, node);
    library += f->kind[node] == LIBRARY;
    next[node] = source[node] = order[node] == NEXT;
    if (next[node] && name < 0) name = node;
  }
  if (!library || library == r->n) return false;
  mark_needed(f, r, source);
  for (int i = 0; i < r->n; i++) sources += source[r->node[i]] &= !next[r->node[i]];
  char place[96];
  facts_place(f, name, place);
  snprintf(why, 160, sources ? "%s is not searched" : "after %s, which is not searched", place);
  if (sources)
    mincut(f, r, source, next, first);
  else
    for (int i = 0; i < r->n; i++) first[r->node[i]] = next[r->node[i]];
  return true;
}

// ---- second exponentials ----

static bool cut_exponential(const struct facts *f, const struct piece *r, bool *first, char why[160])
{
  int *depth = NEWS(f->tmp, int, f->p->nnodes), name = -1;
  bool *second = NEWS(f->tmp, bool, f->p->nnodes), *source = NEWS(f->tmp, bool, f->p->nnodes);
  for (int i = 0; i < r->n; i++) {
    int node = r->node[i];
    const struct node *n = &f->p->nodes[node];
    for (int k = 0; k < n->nin; k++) {
      int maker = facts_maker(f, r->id, n->in[k]);
      if (maker >= 0) depth[node] = MAX(depth[node], depth[maker]);
    }
    depth[node] += n->op == OP_EXP;
    second[node] = source[node] = n->op == OP_EXP && depth[node] > 1;
    if (second[node] && name < 0) name = node;
  }
  if (name < 0) return false;
  mark_needed(f, r, source);
  for (int i = 0; i < r->n; i++) source[r->node[i]] &= f->p->nodes[r->node[i]].op == OP_EXP && !second[r->node[i]];
  char place[96];
  facts_place(f, name, place);
  snprintf(why, 160, "second exponential on a path: %s", place);
  mincut(f, r, source, second, first);
  return true;
}

bool divide(const struct facts *f, struct piece *r, bool *first, char why[160])
{
  struct arena_mark mark = arena_mark(f->tmp);
  bool cut = cut_library(f, r, first, why);
  r->searchable = r->n && f->kind[r->node[0]] == SEARCHED;
  cut = cut || cut_exponential(f, r, first, why);
  arena_reset(f->tmp, mark);
  return cut;
}

// ---- groups ----

static int top(int *up, int t)
{
  while (up[t] != t) t = up[t] = up[up[t]];
  return t;
}

int divide_groups(const struct facts *f, const struct piece *r, int *group)
{
  struct arena_mark mark = arena_mark(f->tmp);
  const struct graph *p = f->p;
  int *up = NEWS(f->tmp, int, p->ntensors + 1), *number = NEWS(f->tmp, int, p->ntensors + 1), n = 0;
  for (int t = 0; t < p->ntensors; t++) up[t] = t, number[t] = -1;
  for (int i = 0; i < r->n; i++) {
    const struct node *x = &p->nodes[r->node[i]];
    for (int k = 0; k < x->nin; k++) {
      int t = f->root[x->in[k]];
      if (p->nodes[p->tensors[t].node].op != OP_CONST) up[top(up, t)] = top(up, x->out);
    }
    for (int k = 1; k < x->nout; k++) up[top(up, x->out + k)] = top(up, x->out);
  }
  for (int i = 0; i < r->n; i++) {
    int *to = &number[top(up, p->nodes[r->node[i]].out)];
    if (*to < 0) *to = n++;
    group[i] = *to;
  }
  arena_reset(f->tmp, mark);
  return n;
}
