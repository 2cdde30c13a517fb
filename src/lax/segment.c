// A program that is too large to search whole is cut into segments, contiguous ranges of its order, that read and write the fewest bytes.
// Segments of the cheapest cut are probed. If one is too hard to search, every segment that contains it is too, and the cheapest
// cut is computed again. Most answers are "too hard". The probe therefore also gets the segment that would follow in that case, so
// that two threads can work. If there are cuts, two other orders are tried (lax_line.c). The one by operands must save a
// fifth of the bytes; the one that groups products of the same operand must save some.
#include "lax/piece.h"

#include <limits.h>
#include <math.h>

enum { MOST_PROBED = 256 };
static const double SAVING = 0.8; // fraction of the bytes below which another order is taken
// A stored value inside a segment costs this fraction of its bytes on top of its reads and writes. A cut there is then cheaper, even if both segments
// read the same operand: two kernels would read it twice as well, and shorter searches find the same kernels.
static const double KEPT_INSIDE = 0.5;

struct segment_span { // nodes first .. end - 1 of the piece
  int first, end;
};
struct cutter {
  const struct facts *f;
  const struct piece *r;
  int *last; // by root: position of the last node of the piece that reads it
  int *from; // from[j]: start of the segment that ends before node j, in the cheapest cut of nodes 0 .. j - 1
  int nhard, hard_cap, neasy, easy_cap;
  struct segment_span *hard, *easy; // answers of the probe
};

static bool holds(struct segment_span outer, struct segment_span inner) { return outer.first <= inner.first && inner.end <= outer.end; }

static bool too_hard(const struct cutter *c, struct segment_span s)
{
  if (s.end - s.first == 1) return false;
  if (s.end - s.first > c->f->max_ops) return true;
  for (int i = 0; i < c->nhard; i++)
    if (holds(s, c->hard[i])) return true;
  return false;
}

// The subprogram of segment s; NULL if it cannot be made.
static const struct graph *graph_of(const struct cutter *c, struct arena *mem, struct segment_span s)
{
  const struct facts *f = c->f;
  struct piece part = {.id = INT_MAX, .n = s.end - s.first, .node = c->r->node + s.first, .searchable = true};
  struct part made;
  struct err e = {0};
  for (int i = 0; i < part.n; i++) f->owner[part.node[i]] = part.id;
  bool done = carve(mem, f, &part, &made, &e) == OK;
  for (int i = 0; i < part.n; i++) f->owner[part.node[i]] = c->r->id;
  return done ? made.g : NULL;
}

static bool known_easy(const struct cutter *c, struct segment_span s)
{
  if (s.end - s.first < LAX_EASY) return true;
  for (int i = 0; i < c->neasy; i++)
    if (holds(c->easy[i], s)) return true;
  return false;
}

// Reports progress: the number of segments whose answer is known, of all that the probe might be asked about.
static void tell(const struct cutter *c)
{
  int decided = 0, all = 0;
  if (!c->f->probe->told) return;
  for (int j = LAX_EASY; j <= c->r->n; j++)
    for (int i = MAX(0, j - c->f->max_ops); i <= j - LAX_EASY; i++, all++)
      decided += too_hard(c, (struct segment_span){i, j}) || known_easy(c, (struct segment_span){i, j});
  c->f->probe->told(c->f->probe->arg, decided, all);
}

// Cost of root t for a segment that reads it, and for the one that writes it for others: bytes, more if it is raw.
static double read_price(const struct facts *f, int t) { return facts_price(f, t) / (f->kept[t] ? 1 : 2); }
static double write_price(const struct facts *f, int t) { return facts_price(f, t) - read_price(f, t); }

// A segment that ends before node `end` of the piece and grows towards the front, with its cost.
struct growing {
  int end;
  double cost;
  int *seen; // by root: equals `end` if the segment reads or computes it
};

static void add_node(const struct cutter *c, struct growing *g, int i)
{
  const struct facts *f = c->f;
  const struct node *x = &f->p->nodes[c->r->node[i]];
  for (int t = x->out; t < x->out + x->nout; t++) {
    const bool read = g->seen[t] == g->end, stays = read && f->stored[t];
    if (read && !stays) g->cost -= read_price(f, t);
    if (c->last[t] >= g->end || stays) g->cost += write_price(f, t);
    if (stays) g->cost += KEPT_INSIDE * facts_price(f, t);
    g->seen[t] = g->end;
  }
  for (int k = 0; k < x->nin; k++) {
    int t = f->root[x->in[k]];
    if (g->seen[t] != g->end) g->cost += read_price(f, t);
    g->seen[t] = g->end;
  }
}

// Position in the piece of the last read of each root; past its end if other pieces read it.
static void find_last(struct cutter *c)
{
  const struct facts *f = c->f;
  int *at = NEWS(f->tmp, int, f->p->nnodes);
  c->last = NEWS(f->tmp, int, f->p->ntensors);
  for (int i = 0; i < c->r->n; i++) at[c->r->node[i]] = i;
  for (int t = 0; t < f->p->ntensors; t++)
    for (int u = f->first_user[t]; u < f->first_user[t + 1]; u++)
      c->last[t] = MAX(c->last[t], f->owner[f->user[u]] == c->r->id ? at[f->user[u]] : c->r->n);
}

// By node: 1 for a product; 1 + k for the k-th elementwise operator of a run after a product; 0 for other nodes.
static int *runs_behind_products(const struct cutter *c)
{
  int *run = NEWS(c->f->tmp, int, c->r->n);
  for (int i = 0; i < c->r->n; i++) {
    const enum rule rule = op_rows[c->f->p->nodes[c->r->node[i]].op].rule;
    const bool goes_on = i && run[i - 1] && (rule == RULE_MAP || rule == RULE_CONST || rule == RULE_VIEW);
    run[i] = rule == RULE_CONTRACT ? 1 : goes_on ? run[i - 1] + (rule == RULE_MAP) : 0;
  }
  return run;
}

// Tie-break of equal costs: fewer segments; then segments that end after a product and the longest run of elementwise operators. The product's
// kernel computes the run as its epilogue, so the next product reads one tensor. A large product is compute-bound: more operators in its
// kernel gain little, and a norm after it needs whole rows.
static bool better_tie(const int *count, const int *behind, int i, int j, int after)
{
  return count[i] + 1 != count[j] ? count[i] + 1 < count[j] : behind[i] + after > behind[j];
}

// The cheapest cut by dynamic programming; from[j] is the start of the segment that ends before node j. Ties: better_tie, then the shorter last
// segment. Returns the cost.
static double choose(const struct cutter *c, int *from)
{
  struct arena_mark mark = arena_mark(c->f->tmp);
  double *best = NEWS(c->f->tmp, double, c->r->n + 1);
  int *count = NEWS(c->f->tmp, int, c->r->n + 1), *behind = NEWS(c->f->tmp, int, c->r->n + 1);
  const int *run = runs_behind_products(c);
  struct growing g = {.seen = NEWS(c->f->tmp, int, c->f->p->ntensors)};
  for (int j = 1; j <= c->r->n; j++) {
    best[j] = INFINITY, g.end = j, g.cost = 0;
    for (int i = j - 1; i >= 0 && !too_hard(c, (struct segment_span){i, j}); i--) {
      add_node(c, &g, i);
      double b = best[i] + g.cost;
      int after = i ? run[i - 1] : 0;
      if (b < best[j] || (b <= best[j] && better_tie(count, behind, i, j, after)))
        best[j] = b, count[j] = count[i] + 1, behind[j] = behind[i] + after, from[j] = i;
    }
  }
  const double all = best[c->r->n];
  arena_reset(c->f->tmp, mark);
  return all;
}

// Computes the cheapest cut and its longest segment without a known answer. That segment is the likeliest to be too hard, and
// the others may not be in the next cut. False: there is none.
static bool open_question(struct cutter *c, struct segment_span *s)
{
  *s = (struct segment_span){0};
  choose(c, c->from);
  if (!c->f->probe || c->nhard + c->neasy >= MOST_PROBED) return false;
  for (int j = c->r->n; j > 0; j = c->from[j]) {
    struct segment_span t = {c->from[j], j};
    if (t.end - t.first >= s->end - s->first && !known_easy(c, t)) *s = t;
  }
  return s->end > 0;
}

// Asks about s and about the segments that would be asked about next if it were too hard. An answer after a negative one is
// dropped, so the questions do not depend on the number asked at once.
static void ask(struct cutter *c, struct segment_span s)
{
  struct arena mem = {0};
  struct segment_span asked[LAX_AHEAD];
  const struct graph *g[LAX_AHEAD];
  bool hard[LAX_AHEAD] = {false};
  int n = 0, nhard = c->nhard;
  tell(c);
  do {
    asked[n] = s, g[n] = graph_of(c, &mem, s);
    if (!g[n++]) break;
    PUSH(c->f->tmp, c->hard, c->nhard, c->hard_cap) = s;
  } while (n < LAX_AHEAD && nhard && open_question(c, &s));
  int whole = g[n - 1] ? n : n - 1;
  c->nhard = nhard;
  if (whole) c->f->probe->hard(c->f->probe->arg, whole, g, hard);
  bool more = true;
  for (int i = 0; i < n && more; i++) {
    if (hard[i])
      PUSH(c->f->tmp, c->hard, c->nhard, c->hard_cap) = asked[i];
    else
      PUSH(c->f->tmp, c->easy, c->neasy, c->easy_cap) = asked[i];
    more = hard[i];
  }
  arena_close(&mem);
}

bool segment_hard(const struct facts *f, const struct piece *r)
{
  struct arena mem = {0};
  bool hard = false;
  struct cutter c = {.f = f, .r = r};
  const struct graph *g = f->probe ? graph_of(&c, &mem, (struct segment_span){0, r->n}) : NULL;
  if (f->probe && g) f->probe->hard(f->probe->arg, 1, &g, &hard);
  arena_close(&mem);
  return hard || (f->probe && !g);
}

// Cuts the piece; returns the number of segments. *cost: the cost in bytes.
static int cut_line(struct cutter *c, double *cost)
{
  int n = 0;
  find_last(c), c->from = NEWS(c->f->tmp, int, c->r->n + 1);
  for (struct segment_span s; open_question(c, &s);) ask(c, s);
  *cost = choose(c, c->from);
  for (int j = c->r->n; j > 0; j = c->from[j]) n++;
  return n;
}

// Sets the segment of each node of r, and the reason of each cut. The order of nodes in c may differ from that in r.
static void tell_segments(const struct cutter *c, const struct piece *r, int n, int *group, char (*why)[160])
{
  const bool large = r->n > c->f->max_ops;
  int *at = NEWS(c->f->tmp, int, c->f->p->nnodes), k = n;
  for (int i = 0; i < r->n; i++) at[r->node[i]] = i;
  for (int j = r->n; j > 0; j = c->from[j]) {
    char place[96];
    for (int i = c->from[j]; i < j; i++) group[at[c->r->node[i]]] = k - 1;
    k--;
    if (!k) break;
    facts_place(c->f, c->r->node[c->from[j] - 1], place);
    if (large)
      snprintf(why[k], sizeof why[k], "more than %d operators: cut after %s", c->f->max_ops, place);
    else
      snprintf(why[k], sizeof why[k], "too much to search at once: cut after %s", place);
  }
  if (n) snprintf(why[0], sizeof why[0], "%s", r->why);
}

int segment(const struct facts *f, struct piece *r, int *group, char (**why)[160])
{
  struct piece turned = *r, joined = *r;
  struct cutter c = {.f = f, .r = r}, other = {.f = f, .r = &turned}, together = {.f = f, .r = &joined};
  double cost, turned_cost, joined_cost;
  bool large = r->n > f->max_ops;
  if (!r->searchable || r->row_chain || (large && (r->row_chain = rows_local(f, r)))) return 1;
  if (!large && known_easy(&c, (struct segment_span){0, r->n})) return 1;
  int n = cut_line(&c, &cost);
  turned.node = NEWS(f->tmp, int, r->n + 1);
  if (n > 1 && !large && line_by_need(f, r, turned.node)) {
    int m = cut_line(&other, &turned_cost);
    if (turned_cost < SAVING * cost) c = other, n = m;
  }
  joined.node = NEWS(f->tmp, int, r->n + 1);
  if (n > 1 && line_by_operand(f, r, joined.node)) {
    int m = cut_line(&together, &joined_cost);
    if (joined_cost < MIN(cost, c.r == r ? INFINITY : turned_cost)) c = together, n = m;
  }
  *why = arena_alloc(f->tmp, sizeof **why * (size_t)n);
  return tell_segments(&c, r, n, group, *why), n;
}
