// Work list of pieces. The whole program is the first piece. A piece that must be cut becomes several; one that need not be
// becomes a part. The piece before a cut is handled first, so parts are in topological order. Once a program is cut,
// operators that share no tensor become separate parts: searched together, their numbers of choices would multiply.
#include "lax/piece.h"

#include <stdlib.h>
#include <string.h>

struct partition_work {
  struct facts *f;
  int n, cap, ids;
  struct piece *stack;
  int ndone, done_cap;
  struct piece *done;
};

static void push(struct partition_work *w, struct piece r)
{
  r.id = ++w->ids;
  for (int i = 0; i < r.n; i++) w->f->owner[r.node[i]] = r.id;
  PUSH(w->f->tmp, w->stack, w->n, w->cap) = r;
}

// The nodes of r whose group is `which`.
static struct piece subset(struct partition_work *w, const struct piece *r, const int *group, int which, const char *why)
{
  struct piece s = {.stage = r->stage};
  for (int i = 0; i < r->n; i++) s.n += group[i] == which;
  CHECK(s.n);
  s.node = NEWS(w->f->tmp, int, s.n), s.n = 0;
  for (int i = 0; i < r->n; i++)
    if (group[i] == which) s.node[s.n++] = r->node[i];
  snprintf(s.why, sizeof s.why, "%s", why);
  return s;
}

static void scatter(struct partition_work *w, const struct piece *r, const int *group, int n)
{
  for (int k = n - 1; k >= 0; k--) push(w, subset(w, r, group, k, k ? "shares no tensor with the part before it" : r->why));
}

static void split(struct partition_work *w, const struct piece *r, const bool *first, int *group, const char *why)
{
  for (int i = 0; i < r->n; i++) group[i] = !first[r->node[i]];
  push(w, subset(w, r, group, 1, why));
  push(w, subset(w, r, group, 0, r->why));
}

static void push_segments(struct partition_work *w, const struct piece *r, const int *group, int n, char (*why)[160])
{
  for (int k = n - 1; k >= 0; k--) push(w, subset(w, r, group, k, why[k]));
}

static int by_number(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

// Merges a library piece into a preceding library part, unless a collective operator is between them.
static bool merge(struct partition_work *w, const struct piece *r)
{
  struct piece *last = w->ndone ? &w->done[w->ndone - 1] : NULL;
  if (!last || last->searchable || r->searchable || last->stage != r->stage) return false;
  int *node = NEWS(w->f->tmp, int, last->n + r->n);
  memcpy(node, last->node, sizeof(int) * (size_t)last->n);
  memcpy(node + last->n, r->node, sizeof(int) * (size_t)r->n);
  for (int i = 0; i < r->n; i++) w->f->owner[r->node[i]] = last->id;
  last->node = node, last->n += r->n;
  qsort(node, (size_t)last->n, sizeof *node, by_number);
  return true;
}

static void finish(struct partition_work *w, struct piece *r)
{
  if (r->row_chain) {
    const char *how = r->glued ? "around split and concat: one kernel by rule" : "but local to their rows: chained into one kernel by rule";
    size_t n = strlen(r->why);
    snprintf(r->why + n, sizeof r->why - n, "%s%d operators%s %s", n ? "; " : "", r->n, r->glued ? "" : ",", how);
  }
  if (!merge(w, r)) PUSH(w->f->tmp, w->done, w->ndone, w->done_cap) = *r;
}

static void step(struct partition_work *w, bool *first, int *group)
{
  struct piece r = w->stack[--w->n];
  char why[160] = "", (*whys)[160];
  bool cut = divide(w->f, &r, first, why);
  int groups = (cut || !r.whole) && (cut || r.searchable) ? divide_groups(w->f, &r, group) : 1, segments;
  if (groups > 1)
    scatter(w, &r, group, groups);
  else if (cut)
    split(w, &r, first, group, why);
  else if ((segments = segment(w->f, &r, group, &whys)) > 1)
    push_segments(w, &r, group, segments, whys);
  else
    finish(w, &r);
}

// stage[i]: largest number of collective operators on a path to node i. Returns the largest stage of all nodes of pieces.
static int find_stages(const struct facts *f, int *stage)
{
  const struct graph *p = f->p;
  int most = 0;
  for (int i = 0; i < p->nnodes; i++) {
    const struct node *n = &p->nodes[i];
    for (int k = 0; k < n->nin; k++) {
      int maker = p->tensors[n->in[k]].node;
      stage[i] = MAX(stage[i], stage[maker] + (f->kind[maker] == MEETING));
    }
    if (f->owner[i] >= 0) most = MAX(most, stage[i]);
  }
  return most;
}

static void tell_meeting(const struct facts *f, const int *stage, int behind, char why[160])
{
  int i = 0;
  while (f->kind[i] != MEETING || !f->live[i] || stage[i] + 1 != behind) i++;
  char place[96];
  facts_place(f, i, place);
  snprintf(why, 160, "after %s, a collective operation", place);
}

// Starts with one piece for each stage between collective operators.
static void push_stages(struct partition_work *w, const struct piece *all)
{
  const struct facts *f = w->f;
  int *stage = NEWS(f->tmp, int, f->p->nnodes + 1), *group = NEWS(f->tmp, int, f->p->nnodes + 1);
  for (int k = find_stages(f, stage); k >= 0; k--) {
    char why[160] = "";
    int n = 0;
    for (int i = 0; i < all->n; i++) group[i] = stage[all->node[i]], n += group[i] == k;
    if (!n) continue;
    if (k) tell_meeting(f, stage, k, why);
    struct piece r = subset(w, all, group, k, why);
    r.stage = k;
    push(w, r);
  }
}

// Lists the collective operators and the light nodes that they read, in order.
static void find_meetings(struct arena *mem, const struct facts *f, struct lax_split *s)
{
  const struct graph *p = f->p;
  bool *read = NEWS(f->tmp, bool, p->ntensors + 1), *mine = NEWS(f->tmp, bool, p->nnodes + 1);
  for (int i = p->nnodes - 1; i >= 0; i--) {
    const struct node *n = &p->nodes[i];
    mine[i] = f->kind[i] == MEETING && f->live[i];
    for (int k = 0; k < n->nout; k++) mine[i] |= f->kind[i] == LIGHT && n->op != OP_INPUT && read[n->out + k];
    for (int k = 0; k < n->nin && mine[i]; k++) read[n->in[k]] = true;
  }
  s->meetings = NEWS(mem, int, p->nnodes + 1);
  for (int i = 0; i < p->nnodes; i++)
    if (mine[i]) s->meetings[s->nmeetings++] = i;
}

// Marks the nodes on which no product acts. Returns their number, or 0 if no product follows.
static int mark_operands(const struct facts *f, bool *first)
{
  const struct graph *p = f->p;
  int n = 0, products = 0;
  for (int i = 0; i < p->nnodes; i++) {
    const struct node *x = &p->nodes[i];
    const bool product = op_rows[x->op].rule == RULE_CONTRACT;
    first[i] = !product;
    for (int k = 0; k < x->nin; k++) first[i] &= first[p->tensors[x->in[k]].node];
    products += product, n += first[i] && f->owner[i] >= 0;
  }
  return products ? n : 0;
}

static int parts_of(struct arena *mem, struct facts *f, bool operands, struct lax_split *s, struct err *e)
{
  struct partition_work w = {.f = f};
  bool *first = NEWS(f->tmp, bool, f->p->nnodes + 1);
  int *group = NEWS(f->tmp, int, f->p->nnodes + 1), status = OK;
  struct piece all = {.node = NEWS(f->tmp, int, f->p->nnodes + 1), .whole = f->p->world == 1 && !graph_collects(f->p)};
  for (int i = 0; i < f->p->nnodes; i++)
    if (f->owner[i] >= 0) all.node[all.n++] = i;
  if (!all.whole)
    push_stages(&w, &all);
  else if (operands && mark_operands(f, first) >= LAX_OPERANDS)
    split(&w, &all, first, group, "cut before the first products");
  else
    push(&w, all);
  while (w.n) step(&w, first, group);
  *s = (struct lax_split){.n = w.ndone, .parts = NEWS(mem, struct part, w.ndone)};
  find_meetings(mem, f, s);
  for (int i = 0; i < s->n && !status; i++) status = carve(mem, f, &w.done[i], &s->parts[i], e);
  return status;
}

int lax_partition(struct arena *mem, const struct graph *p, int max_ops, const struct lax_probe *probe, struct lax_split *s, struct err *e)
{
  struct arena tmp = {0};
  int status = parts_of(mem, facts_of(&tmp, p, max_ops, probe), false, s, e);
  arena_close(&tmp);
  return status;
}

int lax_operands(struct arena *mem, const struct graph *p, struct lax_split *s, struct err *e)
{
  struct arena tmp = {0};
  int status = parts_of(mem, facts_of(&tmp, p, 0, NULL), true, s, e);
  arena_close(&tmp);
  return status;
}
