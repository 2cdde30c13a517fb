// Finds the node of the block graph that each line of a tile program belongs to. A scheme marks nodes while it writes text (text_about). Here marks
// become lines, and nodes of a re-tiled graph become nodes of the original block graph.
#include "lower/lower_emit.h"

#include <string.h>

// The node of `to` that corresponds to a node of `from`, a re-tiled or reordered copy: the k-th with the same operator, if both graphs have the same
// number of these. -1: none.
static int same_node(const struct graph *from, const struct graph *to, int node)
{
  if (from == to || node < 0 || node >= from->nnodes) return from == to ? node : -1;
  enum op op = from->nodes[node].op;
  int before = 0, balance = 0, found = -1;
  for (int i = 0; i < from->nnodes; i++) balance += from->nodes[i].op == op, before += i < node && from->nodes[i].op == op;
  for (int i = 0; i < to->nnodes; i++) {
    if (to->nodes[i].op != op) continue;
    balance--;
    if (before-- == 0) found = i;
  }
  return balance ? -1 : found;
}

void about_lines(struct arena *mem, const struct graph *kernels, const struct text_marks *m, struct launch *l)
{
  const struct graph *head = kernels->nodes[l->first].sub, *tail = kernels->nodes[l->last].sub;
  struct line_about *about;
  int at = 0;
  size_t end = 0;
  for (const char *p = l->text; *p; p++) l->nabout += *p == '\n';
  l->about = about = NEWS(mem, struct line_about, l->nabout + 1);
  for (int i = 0; i < l->nabout; i++) {
    end += strcspn(l->text + end, "\n") + 1;
    while (at < m->n && m->mark[at].at < end) at++; // the last of several marks at one position counts
    const struct text_mark *x = at ? &m->mark[at - 1] : NULL;
    int node = !x || x->node < 0 ? -1 : x->tail ? same_node(tail, tail, x->node) : same_node(m->block ? m->block : head, head, x->node);
    about[i] = (struct line_about){x && x->tail ? l->last : l->first, node};
  }
}
