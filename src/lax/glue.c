// Elementwise operators and reductions around split and concat. A rule makes one kernel of them (search/fuse_parts.c). In it, parts are
// positions of the same tile, so no part is stored. A glued group grows from each split and concat along tensors, and ends at products. It
// also ends at a small tensor that many elements share (a table of sines): the kernel would recompute it for each of them.
#include "lax/piece.h"

#include <limits.h>

enum { MOST_ROUNDS = 64 };

struct gluing {
  const struct facts *f;
  const struct piece *r;
  int *group;    // by node: parent in the union-find forest of groups; the root is its own parent
  int *depth;    // by root of a group: length of the longest path of groups before it
  double *large; // by node: elements of the largest tensor that it depends on
};

static bool cuts_parts(const struct facts *f, int node)
{
  const struct node *n = &f->p->nodes[node];
  return f->kind[node] == LIBRARY && (node_has(n, TAKES_PART) || op_rows[n->op].rule == RULE_CONCAT);
}

static bool glues(const struct facts *f, int node)
{
  const struct node *n = &f->p->nodes[node];
  return cuts_parts(f, node) || (f->kind[node] == SEARCHED && op_rows[n->op].rule != RULE_CONTRACT);
}

static double size_of(const struct facts *f, int t) { return (double)shape_size(&f->p->tensors[t].shape); }

static int last_of(const struct gluing *w, int node)
{
  while (w->group[node] != node) node = w->group[node];
  return node;
}

static double largest(const struct gluing *w, const struct node *n)
{
  double most = 0;
  for (int k = 0; k < n->nin; k++) {
    int maker = facts_maker(w->f, w->r->id, n->in[k]);
    most = MAX(most, maker >= 0 ? w->large[maker] : 0);
    most = MAX(most, size_of(w->f, w->f->root[n->in[k]]));
  }
  return MAX(most, size_of(w->f, n->out));
}

static bool joins(const struct gluing *w, int maker, int node)
{
  const struct node *n = &w->f->p->nodes[node];
  double share = size_of(w->f, n->out) / (op_rows[n->op].rule == RULE_CONCAT ? n->nin : 1);
  return glues(w->f, maker) && glues(w->f, node) && w->large[maker] >= share;
}

// Computes the depths of groups. False: there is no fixed point, because a path leads from a group through another one and back.
static bool settle(struct gluing *w)
{
  const struct facts *f = w->f;
  bool again = true;
  for (int i = 0; i < w->r->n; i++) w->depth[w->r->node[i]] = 0;
  for (int round = 0; round < MOST_ROUNDS && again; round++) {
    again = false;
    for (int i = 0; i < w->r->n; i++) {
      const struct node *n = &f->p->nodes[w->r->node[i]];
      int me = last_of(w, w->r->node[i]);
      for (int k = 0; k < n->nin; k++) {
        int maker = facts_maker(f, w->r->id, n->in[k]), from = maker < 0 ? me : last_of(w, maker);
        if (from == me || w->depth[me] > w->depth[from]) continue;
        w->depth[me] = w->depth[from] + 1, again = true;
      }
    }
  }
  return !again;
}

static void join_makers(struct gluing *w, int node)
{
  const struct node *n = &w->f->p->nodes[node];
  for (int k = 0; k < n->nin; k++) {
    int maker = facts_maker(w->f, w->r->id, n->in[k]), from = maker < 0 ? -1 : last_of(w, maker);
    if (from < 0 || !joins(w, maker, node) || from == last_of(w, node)) continue;
    w->group[from] = last_of(w, node);
    if (!settle(w)) w->group[from] = from;
  }
}

// Is the node no split or concat, and does it depend on none of its group?
static bool before_parts(const struct gluing *w, int node, const bool *loose)
{
  const struct node *n = &w->f->p->nodes[node];
  bool before = !cuts_parts(w->f, node);
  for (int k = 0; k < n->nin && before; k++) {
    int maker = facts_maker(w->f, w->r->id, n->in[k]);
    before = maker < 0 || last_of(w, maker) != last_of(w, node) || loose[maker];
  }
  return before;
}

bool glue_first(const struct facts *f, const struct piece *r, bool *glued, bool *loose)
{
  struct gluing w = {f, r, NEWS(f->tmp, int, f->p->nnodes), NEWS(f->tmp, int, f->p->nnodes), NEWS(f->tmp, double, f->p->nnodes)};
  bool *seeded = NEWS(f->tmp, bool, f->p->nnodes);
  int least = INT_MAX, parts = 0, n = 0;
  for (int i = 0; i < r->n; i++) parts += cuts_parts(f, r->node[i]);
  if (!parts || parts == r->n) return false;
  for (int i = 0; i < r->n; i++) {
    int node = r->node[i];
    w.group[node] = node, w.large[node] = largest(&w, &f->p->nodes[node]);
  }
  for (int i = 0; i < r->n; i++) join_makers(&w, r->node[i]);
  settle(&w);
  for (int i = 0; i < r->n; i++)
    if (cuts_parts(f, r->node[i])) seeded[last_of(&w, r->node[i])] = true, least = MIN(least, w.depth[last_of(&w, r->node[i])]);
  for (int i = 0; i < r->n; i++) {
    int last = last_of(&w, r->node[i]);
    n += glued[r->node[i]] = seeded[last] && w.depth[last] == least;
    loose[r->node[i]] = glued[r->node[i]] && before_parts(&w, r->node[i], loose);
  }
  return n > 0;
}
