// Reasons to cut a piece in two, in the order in which they are tried:
//   split and concat form a piece with the elementwise operators and reductions around them (glue.c);
//   a node that reads parts of a product's result belongs to a later piece than the product;
//   other library operators are in pieces of their own;
//   a second exponential on a path begins a new piece (Mirage paper, section 5: a Lax program has at most one,
//   and the verifier's fields cannot represent an exponential of an exponential).
// The reason determines which nodes must be before the cut and which after it. The cut that stores the fewest bytes is taken.
#include "lax/piece.h"

// Extends the marks to all nodes of r that the marked ones depend on.
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

// Position of a node relative to the operators to separate. NEXT: one of them that depends on others only directly. BEFORE: depends on none of
// them. BEHIND: comes after a NEXT node.
enum order { BEFORE, NEXT, BEHIND };

static enum order order_of(const struct facts *f, const struct piece *r, const enum order *order, const bool *apart, int node)
{
  const struct node *n = &f->p->nodes[node];
  enum order last = BEFORE;
  for (int k = 0; k < n->nin; k++) {
    int maker = facts_maker(f, r->id, n->in[k]);
    if (maker >= 0) last = MAX(last, order[maker]);
  }
  if (apart[node]) return MAX(last, NEXT);
  return last == BEFORE ? BEFORE : BEHIND;
}

// Separates the operators marked in `apart` from the others. False if there are none, or no others. loose: NULL, or those of them that may also
// be before the cut.
static bool cut_apart(const struct facts *f, const struct piece *r, const bool *apart, const bool *loose, const char *what, bool *first,
                      char why[160])
{
  enum order *order = NEWS(f->tmp, enum order, f->p->nnodes);
  bool *next = NEWS(f->tmp, bool, f->p->nnodes), *source = NEWS(f->tmp, bool, f->p->nnodes);
  int found = 0, sources = 0, name = -1;
  for (int i = 0; i < r->n; i++) {
    int node = r->node[i];
    order[node] = order_of(f, r, order, apart, node);
    found += apart[node];
    next[node] = source[node] = order[node] == NEXT;
    if (next[node] && (name < 0 || (f->kind[name] != LIBRARY && f->kind[node] == LIBRARY))) name = node;
  }
  if (!found || found == r->n) return false;
  mark_needed(f, r, source);
  for (int i = 0; i < r->n; i++) sources += source[r->node[i]] &= !next[r->node[i]];
  for (int i = 0; i < r->n && loose && sources; i++) next[r->node[i]] &= !loose[r->node[i]];
  char place[96];
  facts_place(f, name, place);
  snprintf(why, 160, sources ? "%s %s" : "after %s, which %s", place, what);
  if (sources)
    mincut(f, r, source, next, first);
  else
    for (int i = 0; i < r->n; i++) first[r->node[i]] = next[r->node[i]];
  return true;
}

static bool cut_library(const struct facts *f, const struct piece *r, bool *first, char why[160])
{
  bool *apart = NEWS(f->tmp, bool, f->p->nnodes);
  for (int i = 0; i < r->n; i++) apart[r->node[i]] = f->kind[r->node[i]] == LIBRARY;
  return cut_apart(f, r, apart, NULL, "is not searched", first, why);
}

// ---- split and concat with the operators around them ----

enum glue { GLUE_NONE, GLUE_CUT, GLUE_ALL };

// GLUE_ALL: a rule makes one kernel of r. GLUE_CUT: of some of its operators, which `first` separates.
static enum glue cut_glued(const struct facts *f, const struct piece *r, bool *first, char why[160])
{
  bool *glued = NEWS(f->tmp, bool, f->p->nnodes), *loose = NEWS(f->tmp, bool, f->p->nnodes);
  if (!glue_first(f, r, glued, loose)) return GLUE_NONE;
  if (cut_apart(f, r, glued, loose, "is fused by rule", first, why)) return GLUE_CUT;
  return segment_hard(f, r) ? GLUE_NONE : GLUE_ALL;
}

// ---- parts of a product's result ----

// A part of a tensor is read by another subprogram than the one that computes the tensor.
static bool cut_parts(const struct facts *f, const struct piece *r, bool *first, char why[160])
{
  bool *reads = NEWS(f->tmp, bool, f->p->nnodes), *source = NEWS(f->tmp, bool, f->p->nnodes), *behind = NEWS(f->tmp, bool, f->p->nnodes);
  int name = -1;
  for (int i = 0; i < r->n; i++) {
    int node = r->node[i];
    const struct node *n = &f->p->nodes[node];
    for (int k = 0; k < n->nin; k++) {
      int maker = facts_maker(f, r->id, n->in[k]);
      if (maker < 0) continue;
      behind[node] |= behind[maker];
      if (f->part[n->in[k]] && !behind[maker]) reads[node] = source[maker] = true, name = name < 0 ? maker : name;
    }
    behind[node] |= reads[node];
  }
  if (name < 0) return false;
  for (int i = 0; i < r->n; i++) source[r->node[i]] &= !behind[r->node[i]];
  mark_needed(f, r, source);
  char place[96];
  facts_place(f, name, place);
  snprintf(why, 160, "parts of %s are read", place);
  mincut(f, r, source, reads, first);
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
  enum glue glue = cut_glued(f, r, first, why);
  bool cut = glue == GLUE_CUT || (glue == GLUE_NONE && cut_library(f, r, first, why));
  r->row_chain = r->glued = glue == GLUE_ALL;
  r->searchable = r->n && (r->row_chain || f->kind[r->node[0]] == SEARCHED);
  cut = cut || cut_parts(f, r, first, why) || cut_exponential(f, r, first, why);
  arena_reset(f->tmp, mark);
  return cut;
}

// ---- groups ----

static int top(int *up, int t)
{
  while (up[t] != t) t = up[t] = up[up[t]];
  return t;
}

// A small tensor from outside the piece, such as a table of sines, does not put two groups of a glued piece into one kernel. Query heads and key heads
// share such a table but differ in number, so their common kernel would have fewer blocks. A tensor of which only parts are read does not
// join groups either.
static const double SMALL = 0.25; // fraction of the result's bytes

static bool joins(const struct facts *f, const struct piece *r, const struct node *x, int t, bool whole)
{
  if (f->p->nodes[f->p->tensors[t].node].op == OP_CONST) return false;
  return !r->glued || facts_maker(f, r->id, t) >= 0 || (whole && facts_price(f, t) > SMALL * facts_price(f, x->out));
}

int divide_groups(const struct facts *f, const struct piece *r, int *group)
{
  struct arena_mark mark = arena_mark(f->tmp);
  const struct graph *p = f->p;
  int *up = NEWS(f->tmp, int, p->ntensors + 1), *number = NEWS(f->tmp, int, p->ntensors + 1), n = 0;
  bool *whole = NEWS(f->tmp, bool, p->ntensors + 1); // read as a whole by some node
  for (int t = 0; t < p->ntensors; t++) up[t] = t, number[t] = -1;
  for (int i = 0; i < r->n; i++)
    for (int k = 0; k < p->nodes[r->node[i]].nin; k++) {
      const int in = p->nodes[r->node[i]].in[k];
      whole[f->root[in]] |= !f->part[in];
    }
  for (int i = 0; i < r->n; i++) {
    const struct node *x = &p->nodes[r->node[i]];
    for (int k = 0; k < x->nin; k++) {
      int t = f->root[x->in[k]];
      if (joins(f, r, x, t, whole[t])) up[top(up, t)] = top(up, x->out);
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
