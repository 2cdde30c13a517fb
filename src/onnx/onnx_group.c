// Groups taken nodes into convex sets that are as large as possible. Units are sets and single nodes. The graph of units must stay acyclic, so that
// they can run one after the other. Nodes are visited in model order. Each begins as its own set, and is merged with sets that it reads from or that
// read the same values, if no path connects the two through a third unit. Sets that only move elements are dissolved, because a program would gain
// nothing.
#include "onnx/onnx.h"

static const int64_t MOST_STEPS = (int64_t)1 << 28; // limit for all path searches together; after that no sets are merged

struct grouper {
  struct onnx_model *m;
  int *first, *last, *next; // members of a set; a set is numbered by a node
  int *readers, *at;        // nodes that read value v: readers[at[v]] to readers[at[v + 1]]
  int *seen, stamp;         // by node
  int *tensors;             // by set
  int now;                  // later nodes are not considered
  int64_t steps;
  int *stack;
};

static bool real(const struct onnx_node *n) { return n->used && n->into < 0 && n->fate != ONNX_FOLDED; }

static void index_readers(struct grouper *w)
{
  struct onnx_model *m = w->m;
  w->at = NEWS(m->mem, int, m->nvalues + 2);
  for (int pass = 0; pass < 2; pass++) {
    for (int i = 0; i < m->nnodes; i++)
      for (int k = 0; k < m->nodes[i].nin && real(&m->nodes[i]); k++) {
        int v = m->nodes[i].in[k];
        if (v < 0 || m->values[v].known) continue;
        if (!pass)
          w->at[v + 2]++;
        else
          w->readers[w->at[v + 1]++] = i;
      }
    if (pass) continue;
    for (int v = 0; v < m->nvalues; v++) w->at[v + 2] += w->at[v + 1];
    w->readers = NEWS(m->mem, int, w->at[m->nvalues + 1] + 1);
  }
}

static int unit_of(const struct grouper *w, int node) { return w->m->nodes[node].group >= 0 ? w->m->nodes[node].group : node; }

// Pushes the units that read from unit u, except `skip`. True: one of them is `to`.
static bool follow(struct grouper *w, int u, int skip, int to, int *top)
{
  for (int i = w->first[u]; i >= 0; i = w->next[i]) {
    const struct onnx_node *n = &w->m->nodes[i];
    for (int k = 0; k < n->nout; k++)
      for (int r = n->out[k] < 0 ? 0 : w->at[n->out[k]], end = n->out[k] < 0 ? 0 : w->at[n->out[k] + 1]; r < end; r++) {
        int v = unit_of(w, w->readers[r]);
        w->steps++;
        if (w->readers[r] > w->now || v == u || v == skip || w->seen[v] == w->stamp) continue;
        if (v == to) return true;
        w->seen[v] = w->stamp, w->stack[(*top)++] = v;
      }
  }
  return false;
}

// Whether a path leads from a to b through another unit.
static bool detour(struct grouper *w, int a, int b)
{
  int top = 0;
  w->stamp++;
  follow(w, a, b, -1, &top);
  while (top)
    if (follow(w, w->stack[--top], a, b, &top)) return true;
  return false;
}

static void join(struct grouper *w, int a, int b)
{
  if (w->tensors[a] + w->tensors[b] > ONNX_PROGRAM_TENSORS || w->steps > MOST_STEPS) return;
  if (detour(w, a, b) || detour(w, b, a)) return;
  for (int i = w->first[b]; i >= 0; i = w->next[i]) w->m->nodes[i].group = a;
  w->next[w->last[a]] = w->first[b], w->last[a] = w->last[b], w->tensors[a] += w->tensors[b];
}

// The first node of a set that reads a value from outside; -1: none. Sets that read the same value are merged.
static int sibling(const struct grouper *w, int value)
{
  const struct onnx_value *v = value < 0 ? NULL : &w->m->values[value];
  if (!v || v->known || v->init) return -1;
  for (int r = w->at[value]; r < w->at[value + 1]; r++)
    if (w->m->nodes[w->readers[r]].group >= 0) return w->readers[r];
  return -1;
}

static void dissolve(struct grouper *w, int set)
{
  int work = 0;
  bool can = true;
  for (int i = w->first[set]; i >= 0; i = w->next[i]) work += w->m->nodes[i].work, can &= w->m->nodes[i].row->host != NULL;
  for (int i = w->first[set]; i >= 0 && !work && can; i = w->next[i])
    w->m->nodes[i].fate = ONNX_LEFT, w->m->nodes[i].group = -1, w->m->nodes[i].why = "it only moves elements, and no neighbouring operator computes";
}

static void number(struct onnx_model *m)
{
  int *to = NEWS(m->mem, int, m->nnodes + 1);
  m->nprograms = 0;
  for (int i = 0; i < m->nnodes; i++) {
    struct onnx_node *n = &m->nodes[i];
    if (n->group >= 0 && !to[n->group]) to[n->group] = ++m->nprograms;
    if (n->group >= 0) n->group = to[n->group] - 1;
  }
}

void onnx_group(struct onnx_model *m)
{
  struct grouper w = {.m = m};
  int **arrays[] = {&w.first, &w.last, &w.next, &w.seen, &w.tensors, &w.stack};
  for (size_t k = 0; k < COUNT(arrays); k++) *arrays[k] = NEWS(m->mem, int, m->nnodes + 1);
  for (int i = 0; i < m->nnodes; i++) w.first[i] = w.last[i] = i, w.next[i] = -1, m->nodes[i].group = -1;
  index_readers(&w);
  for (int i = 0; i < m->nnodes; i++) {
    struct onnx_node *n = &m->nodes[i];
    if (!real(n) || n->fate != ONNX_TAKEN) continue;
    n->group = i, w.tensors[i] = n->tensors, w.now = i;
    for (int k = 0; k < n->nin; k++) {
      int from = n->in[k] < 0 ? -1 : m->values[n->in[k]].node;
      if (from < 0 || m->nodes[from].group < 0) from = sibling(&w, n->in[k]);
      if (from >= 0 && from < i && m->nodes[from].group != n->group) join(&w, m->nodes[from].group, n->group);
    }
  }
  for (int i = 0; i < m->nnodes; i++)
    if (m->nodes[i].group == i) dissolve(&w, i);
  number(m);
}
