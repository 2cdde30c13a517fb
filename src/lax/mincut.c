// The cheapest cut between nodes that must come before it and nodes that must come after it, as a minimum cut of a network
// (Edmonds and Karp 1972: shortest augmenting paths, which terminate for any capacities).
//
// Each node is a vertex, and so is each tensor, so that a tensor is paid for once, whatever the number of its readers:
//   node -> tensor that it computes, capacity: the tensor's price;  tensor -> its readers, unbounded
//   node -> nodes that compute its operands, unbounded: all operands of a node before the cut are before it
// Tie-break: the earliest minimum cut. It is unique, so the result does not depend on the order of paths. Nodes that could
// move at no cost stay after the cut, with their readers.
#include "lax/piece.h"

#include <math.h>

struct edge {
  int to, next; // head of the edge; next edge of the same tail, or -1
  double room;  // residual capacity; edge i ^ 1 is the reverse of edge i
};
struct network {
  struct arena *tmp;
  int nvertex, nedge, edge_cap;
  struct edge *edge;
  int *head, *via, *queue; // by vertex: its first edge; the edge by which the search reached it. queue: of the search
};

static void half(struct network *w, int from, int to, double room)
{
  PUSH(w->tmp, w->edge, w->nedge, w->edge_cap) = (struct edge){to, w->head[from], room};
  w->head[from] = w->nedge - 1;
}

static void join(struct network *w, int from, int to, double room) { half(w, from, to, room), half(w, to, from, 0); }

// Breadth-first search from s over edges with residual capacity; via[] stays -1 for vertices that it does not reach.
static bool reaches(struct network *w, int s, int t)
{
  int n = 0;
  for (int i = 0; i < w->nvertex; i++) w->via[i] = -1;
  w->via[s] = -2, w->queue[n++] = s;
  for (int i = 0; i < n && w->via[t] == -1; i++)
    for (int k = w->head[w->queue[i]]; k >= 0; k = w->edge[k].next) {
      int to = w->edge[k].to;
      if (w->via[to] == -1 && w->edge[k].room > 0) w->via[to] = k, w->queue[n++] = to;
    }
  return w->via[t] != -1;
}

static void augment(struct network *w, int s, int t)
{
  double least = INFINITY;
  for (int v = t; v != s; v = w->edge[w->via[v] ^ 1].to) least = MIN(least, w->edge[w->via[v]].room);
  CHECK(least < INFINITY);
  for (int v = t; v != s; v = w->edge[w->via[v] ^ 1].to) w->edge[w->via[v]].room -= least, w->edge[w->via[v] ^ 1].room += least;
}

static void connect(struct network *w, const struct facts *f, const struct piece *r, const int *vertex)
{
  int tensor = r->n;
  for (int i = 0; i < r->n; i++) {
    const struct node *n = &f->p->nodes[r->node[i]];
    for (int k = 0; k < n->nin; k++) {
      int maker = facts_maker(f, r->id, n->in[k]);
      if (maker >= 0) join(w, i, vertex[maker], INFINITY);
    }
    for (int t = n->out; t < n->out + n->nout; t++, tensor++) {
      join(w, i, tensor, facts_price(f, t));
      for (int u = f->first_user[t]; u < f->first_user[t + 1]; u++)
        if (f->owner[f->user[u]] == r->id) join(w, tensor, vertex[f->user[u]], INFINITY);
    }
  }
}

void mincut(const struct facts *f, const struct piece *r, const bool *source, const bool *sink, bool *first)
{
  struct arena_mark mark = arena_mark(f->tmp);
  struct network w = {.tmp = f->tmp, .nvertex = r->n + 2};
  int *vertex = NEWS(f->tmp, int, f->p->nnodes);
  for (int i = 0; i < r->n; i++) vertex[r->node[i]] = i, w.nvertex += f->p->nodes[r->node[i]].nout;
  int s = w.nvertex - 2, t = w.nvertex - 1;
  w.head = NEWS(f->tmp, int, w.nvertex), w.via = NEWS(f->tmp, int, w.nvertex), w.queue = NEWS(f->tmp, int, w.nvertex);
  for (int i = 0; i < w.nvertex; i++) w.head[i] = -1;
  connect(&w, f, r, vertex);
  for (int i = 0; i < r->n; i++) {
    if (source[r->node[i]]) join(&w, s, i, INFINITY);
    if (sink[r->node[i]]) join(&w, i, t, INFINITY);
  }
  while (reaches(&w, s, t)) augment(&w, s, t);
  for (int i = 0; i < r->n; i++) first[r->node[i]] = w.via[i] != -1;
  arena_reset(f->tmp, mark);
}
