// Orders a block graph's operators. Each section (before, in and after the loop) is ordered by depth. The depth of an operator is the number of times
// that its computation must wait for other threads. Operators of one depth share one barrier, so the number of barriers is that of the longest path.
// Among operators of one depth, the order determines the live bytes. The best order is found by dynamic programming over sets of finished operators,
// or greedily if there are many.
#include "plan/passes.h"

#include <string.h>

void schedule_depths(int n, const struct plan_step *s, int *depth)
{
  for (int i = 0; i < n; i++) {
    depth[i] = 0;
    for (int k = 0; k < s[i].nin; k++) {
      int x = s[i].in[k], before = s[x].group == s[i].group ? depth[x] : 0;
      depth[i] = MAX(depth[i], before + (int)(s[i].waits >> MIN(k, 31) & 1));
    }
  }
}

// ---- liveness ----

struct ordering {
  int n;
  const struct plan_step *s;
  bool *done;
  int group;
};

static bool reads(const struct plan_step *s, int x)
{
  for (int k = 0; k < s->nin; k++)
    if (s->in[k] == x) return true;
  return false;
}

// Whether the result of x is live before the next step.
static bool held(const struct ordering *o, int x)
{
  bool wanted = false, begun = !o->s[x].load && o->done[x];
  if (o->s[x].pin == o->group) return true;
  for (int i = 0; i < o->n; i++)
    if (reads(&o->s[i], x)) wanted |= !o->done[i], begun |= o->s[x].load && o->done[i];
  return wanted && begun;
}

static int64_t held_bytes(const struct ordering *o)
{
  int64_t sum = 0;
  for (int i = 0; i < o->n; i++)
    if (o->s[i].bytes && held(o, i)) sum += o->s[i].bytes;
  return sum;
}

// Live bytes during step x: those before it, its loads, and its result, unless that reuses an operand's memory.
static int64_t held_during(struct ordering *o, int x, int64_t before)
{
  int64_t reused = 0, sum = before;
  const struct plan_step *s = o->s;
  for (int k = 0; k < s[x].nin; k++) {
    int from = s[x].in[k];
    bool again = false;
    for (int j = 0; j < k; j++) again |= s[x].in[j] == from;
    if (!again && s[from].load && !held(o, from)) sum += s[from].bytes;
    if (!s[x].reuses || s[from].pin == o->group) continue;
    o->done[x] = true;
    if (!held(o, from)) reused = MAX(reused, MIN(s[from].bytes, s[x].bytes));
    o->done[x] = false;
  }
  return sum + (s[x].pin == o->group ? 0 : s[x].bytes) - reused;
}

static bool ready(const struct ordering *o, int x)
{
  for (int k = 0; k < o->s[x].nin; k++)
    if (!o->s[o->s[x].in[k]].load && !o->done[o->s[x].in[k]]) return false;
  return true;
}

// ---- orders ----

static void mark_set(struct ordering *o, int n, const int *part, int set, bool value)
{
  for (int i = 0; i < n; i++)
    if (set >> i & 1) o->done[part[i]] = value;
}

// Gives the steps of one group and depth the best order. most[set]: the least possible maximum of live bytes, if these steps have been done.
static void best_order(struct arena *mem, struct ordering *o, int n, int *part)
{
  int sets = 1 << n, *last = NEWS(mem, int, sets), order[SCHEDULE_EXACT];
  int64_t *most = NEWS(mem, int64_t, sets);
  for (int set = 1; set < sets; set++) most[set] = INT64_MAX;
  for (int set = 0; set < sets; set++) {
    if (most[set] == INT64_MAX) continue;
    mark_set(o, n, part, set, true);
    int64_t before = held_bytes(o);
    for (int i = 0; i < n; i++) {
      if (set >> i & 1 || !ready(o, part[i])) continue;
      int64_t now = MAX(most[set], held_during(o, part[i], before));
      if (now < most[set | 1 << i]) most[set | 1 << i] = now, last[set | 1 << i] = i;
    }
    mark_set(o, n, part, set, false);
  }
  for (int set = sets - 1, i = n - 1; set; i--) order[i] = part[last[set]], set &= ~(1 << last[set]);
  memcpy(part, order, sizeof *part * (size_t)n);
}

static void greedy_order(struct ordering *o, int n, int *part)
{
  for (int i = 0; i < n; i++) {
    int best = -1;
    int64_t least = INT64_MAX;
    for (int k = i; k < n; k++) {
      if (!ready(o, part[k])) continue;
      o->done[part[k]] = true;
      int64_t left = held_bytes(o);
      o->done[part[k]] = false;
      if (left < least) least = left, best = k;
    }
    int x = part[best];
    for (; best > i; best--) part[best] = part[best - 1];
    part[i] = x, o->done[x] = true;
  }
  for (int i = 0; i < n; i++) o->done[part[i]] = false;
}

int schedule_order(struct arena *mem, int n, const struct plan_step *s, const int *depth, int exact, int *order, int64_t *at)
{
  struct ordering o = {n, s, NEWS(mem, bool, n + 1), 0};
  int count = 0, deepest = 0, groups = 0;
  for (int i = 0; i < n; i++) deepest = MAX(deepest, depth[i]), groups = MAX(groups, s[i].group);
  for (o.group = 0; o.group <= groups; o.group++)
    for (int d = 0; d <= deepest; d++) {
      int first = count;
      for (int i = 0; i < n; i++)
        if (!s[i].load && s[i].group == o.group && depth[i] == d) order[count++] = i;
      if (count - first <= MIN(exact, SCHEDULE_EXACT))
        best_order(mem, &o, count - first, order + first);
      else
        greedy_order(&o, count - first, order + first);
      for (int i = first; i < count; i++) {
        at[i] = held_during(&o, order[i], held_bytes(&o));
        o.done[order[i]] = true;
      }
    }
  return count;
}

// ---- of a block graph ----

// A loop-invariant node is computed before the loop if a node within reads it, else after it.
static void place(struct arena *mem, const struct norm *n, const struct chains *c, struct schedule *out)
{
  const struct graph *b = n->block;
  bool *within = NEWS(mem, bool, b->ntensors + 1), loops = graph_iterations(b) > 1;
  for (int i = b->nnodes - 1; i >= 0; i--) {
    const struct node *x = &b->nodes[i];
    bool inside = op_rows[x->op].rule == RULE_ACCUM;
    if (x->op == OP_ITER || op_rows[x->op].rule == RULE_VIEW) continue;
    enum phase phase = x->nout ? b->tensors[x->out].phase : AFTER;
    if (c->side[i]) {
      out->section[i] = loops && phase == FIXED ? SECTION_BEFORE : SECTION_LOOP;
      continue;
    }
    if (x->op == OP_SAVE || (phase == AFTER && !inside))
      out->section[i] = SECTION_AFTER;
    else if (!loops || inside || phase == VARYING || phase == RUN)
      out->section[i] = SECTION_LOOP;
    else if (phase == FIXED && within[x->out])
      out->section[i] = SECTION_BEFORE;
    else
      out->section[i] = SECTION_AFTER;
    for (int k = 0; k < x->nin && out->section[i] != SECTION_AFTER; k++) within[n->t[x->in[k]].root] = true;
  }
}

struct scheduling {
  struct arena *mem;
  const struct norm *n;
  const struct chains *c;
  struct schedule *out;
  struct plan_step *step;
  int nsteps, *of; // for each tensor: the step that computes or loads it; -1: none
  bool loops;
};

static void push(struct plan_step *s, int x, bool waits)
{
  if (x < 0) return;
  if (waits) s->waits |= 1u << MIN(s->nin, 31);
  s->in[s->nin++] = x;
}

static int64_t bytes_of(const struct norm *n, int tensor) { return 4 * norm_extent(n, n->t[tensor].has); }

// Returns the step that computes or loads the tensor, and adds the step if an iterator's tile has none. A tile in shared memory takes no registers.
static int load(struct scheduling *w, int tensor)
{
  int root = w->n->t[tensor].root;
  if (w->n->iter_of[root] < 0 || w->of[root] >= 0) return w->of[root];
  bool fixed = w->loops && w->n->block->tensors[root].phase == FIXED;
  w->step[w->nsteps] = (struct plan_step){.load = true, .pin = fixed ? SECTION_LOOP : -1, .bytes = w->c->tile[root] ? 0 : bytes_of(w->n, root)};
  return w->of[root] = w->nsteps++;
}

// A reduction uses values of several threads; in a kernel with products, one that sums parts of an iterator does so while loading.
static bool folds(const struct norm *n, const struct chains *c, const struct node *x)
{
  if (op_rows[x->op].rule != RULE_REDUCE || !(n->t[x->in[0]].has & ~n->t[x->out].has)) return false;
  return !c->nproducts || !chain_sums_parts(n, c->rows, x);
}

static void operands(struct scheduling *w, struct plan_step *s, int node)
{
  const struct node *x = &w->n->block->nodes[node];
  bool meets = folds(w->n, w->c, x);
  for (int k = 0; k < x->nin; k++) {
    enum operand_source from = w->c->source[node][MIN(k, 1)];
    push(s, w->of[w->n->t[x->in[k]].root], meets || from == SOURCE_TILE || from == SOURCE_FOLD || from == SOURCE_SHARED);
  }
}

static void step(struct scheduling *w, int node)
{
  const struct node *x = &w->n->block->nodes[node];
  bool accumulates = op_rows[x->op].rule == RULE_ACCUM, added = w->c->folded[node];
  int most = x->nin;
  for (int k = 0; k < w->c->nproducts; k++) {
    const struct chain_product *p = &w->c->product[k];
    most += p->into == node ? 2 : 0, added |= p->node == node && p->into >= 0;
  }
  for (int k = 0; k < x->nin; k++) load(w, x->in[k]);
  struct plan_step s = {.in = NEWS(w->mem, int, most + 1), .group = (int)w->out->section[node], .pin = w->loops && accumulates ? SECTION_LOOP : -1};
  operands(w, &s, node);
  for (int k = 0; k < w->c->nproducts; k++) // computed where the accumulator is
    if (w->c->product[k].into == node) operands(w, &s, w->c->product[k].node);
  for (int k = 0; k < x->nout && !added; k++) s.bytes += bytes_of(w->n, x->out + k);
  s.reuses = op_rows[x->op].rule == RULE_MAP || accumulates;
  for (int k = 0; k < x->nout; k++) w->of[x->out + k] = w->nsteps;
  w->step[w->nsteps++] = s;
}

// A value that is computed before the loop and read in it is live through all of it.
static void pin(struct scheduling *w)
{
  for (int i = 0; i < w->nsteps; i++)
    for (int k = 0; k < w->step[i].nin; k++) {
      struct plan_step *from = &w->step[w->step[i].in[k]];
      bool reader = w->loops && !w->step[i].load && w->step[i].group == SECTION_LOOP;
      if (reader && !from->load && from->group == SECTION_BEFORE) from->pin = SECTION_LOOP;
    }
  for (int i = 0; i < w->nsteps; i++) { // loaded in the loop only if a node there reads it
    bool read = false;
    for (int k = 0; k < w->nsteps; k++) read |= w->step[k].group == SECTION_LOOP && reads(&w->step[k], i);
    if (w->step[i].load && !read) w->step[i].pin = -1;
  }
}

void plan_schedule(struct arena *mem, const struct norm *n, const struct chains *c, struct schedule *out)
{
  const struct graph *b = n->block;
  int most = b->nnodes + n->niter + 1, count = 0;
  *out = (struct schedule){.section = NEWS(mem, enum section, b->nnodes + 1),
                           .depth = NEWS(mem, int, b->nnodes + 1),
                           .order = NEWS(mem, int, most),
                           .at = NEWS(mem, int64_t, most)};
  struct scheduling w = {mem, n, c, out, NEWS(mem, struct plan_step, most), 0, NEWS(mem, int, b->ntensors + 1), graph_iterations(b) > 1};
  int *node = NEWS(mem, int, most), *depth = NEWS(mem, int, most);
  for (int t = 0; t < b->ntensors; t++) w.of[t] = -1;
  place(mem, n, c, out);
  for (int i = 0; i < b->nnodes; i++)
    if (norm_computes(&b->nodes[i])) step(&w, i), node[w.nsteps - 1] = i;
  pin(&w);
  schedule_depths(w.nsteps, w.step, depth);
  count = schedule_order(mem, w.nsteps, w.step, depth, SCHEDULE_EXACT, out->order, out->at);
  for (int i = 0; i < count; i++) {
    int at = out->order[i], x = out->order[i] = node[at];
    out->depth[x] = depth[at], out->held = MAX(out->held, out->at[i]);
    out->barriers[out->section[x]] = MAX(out->barriers[out->section[x]], depth[at]);
  }
  out->n = count;
}
