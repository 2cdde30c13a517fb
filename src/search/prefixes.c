// Chooses the operators to try if no oracle prunes. Saturation tries every pair of values, and most pairs need more operators than a graph may have.
// If only the number of operators bounds the space, prefixes of graphs are enumerated, as in the paper's Algorithm 1.
//
// A prefix is a set of values that can be computed in order, and a flag for each value that is used. Graphs that differ only in the order of
// operators share a prefix, so it is enumerated once. All prefixes of n operators come before those of n + 1. So a pair is first tried when the most
// operators remain. A prefix is abandoned if one of two conditions on every graph cannot be met:
// - an operator has at most two operands and makes one value, so it reduces the number of unused values by at most one; a graph ends in its roots;
// - each unused value that is no root is used by a later operator, and needs as many further operators as the caller says.
#include "search/space.h"

#include <string.h>

struct layer { // prefixes with the same number of operators
  int ops, n, cap;
  int *v;         // values of prefix i from v[i * max_ops], in increasing order
  uint64_t *used; // bit k: whether value k is used
  int *bucket;    // hash index, from 1
  int nbucket;
};
struct prefixes_span {
  int first, n;
};
struct prefixes_walk {
  const struct prefixes *a;
  struct arena mem;
  struct made made;
  int npair, pair_cap, pair_room;
  uint64_t *pair;             // pairs of values x, y that were tried
  struct prefixes_span *span; // and their results
  int *pair_at;               // hash index, from 1
  int nleast;
  uint8_t *least; // least operators after each value, plus 1; 0: not computed yet
  bool cut;
};
struct prefix { // the prefix that is extended
  int ops;
  uint64_t used;
  int v[MAX_PICK];
};

// ---- pairs ----------------------------------------------------------------------------------------------------------

static int *slot(struct prefixes_walk *w, uint64_t key)
{
  uint64_t at = hash_mix(1, key) % (uint64_t)w->pair_room;
  while (w->pair_at[at] && w->pair[w->pair_at[at] - 1] != key) at = (at + 1) % (uint64_t)w->pair_room;
  return &w->pair_at[at];
}

static void more_room(struct prefixes_walk *w)
{
  w->pair_room = w->pair_room ? 2 * w->pair_room : 1024;
  w->pair_at = NEWS(&w->mem, int, w->pair_room);
  for (int i = 0; i < w->npair; i++) *slot(w, w->pair[i]) = i + 1;
}

// Results of the operators on x and y (-1: on x alone).
static struct prefixes_span results(struct prefixes_walk *w, int x, int y, int left)
{
  uint64_t key = (uint64_t)MAX(x, y) << 32 | (uint32_t)(MIN(x, y) + 1);
  if (2 * (w->npair + 1) > w->pair_room) more_room(w);
  int *at = slot(w, key);
  if (*at) return w->span[*at - 1];
  struct prefixes_span s = {w->made.n, 0};
  if (!w->a->apply(w->a->arg, MAX(x, y), MIN(x, y), left, &w->mem, &w->made)) w->cut = true;
  s.n = w->made.n - s.first;
  int cap = w->pair_cap, n = w->npair;
  PUSH(&w->mem, w->span, n, cap) = s;
  PUSH(&w->mem, w->pair, w->npair, w->pair_cap) = key;
  *at = w->npair;
  return s;
}

static int least(struct prefixes_walk *w, int v)
{
  if (v >= w->nleast) {
    int n = MAX(2 * w->nleast, v + 256);
    w->least = arena_grow(&w->mem, w->least, (size_t)w->nleast, (size_t)n);
    w->nleast = n;
  }
  if (!w->least[v]) w->least[v] = (uint8_t)(1 + MIN(w->a->least(w->a->arg, v), 254));
  return w->least[v] - 1;
}

// ---- layers ---------------------------------------------------------------------------------------------------------

static uint64_t hash_of(const struct prefix *p) { return hash_bytes(p->v, sizeof *p->v * (size_t)p->ops, p->used); }

static struct prefix prefix_at(const struct prefixes_walk *w, const struct layer *l, int i)
{
  struct prefix p = {l->ops, l->used[i], {0}};
  memcpy(p.v, &l->v[i * w->a->max_ops], sizeof *p.v * (size_t)l->ops);
  return p;
}

static int *place(const struct prefixes_walk *w, const struct layer *l, const struct prefix *p)
{
  uint64_t at = hash_of(p) % (uint64_t)l->nbucket;
  for (; l->bucket[at]; at = (at + 1) % (uint64_t)l->nbucket) {
    int i = l->bucket[at] - 1;
    if (l->used[i] == p->used && !memcmp(&l->v[i * w->a->max_ops], p->v, sizeof *p->v * (size_t)p->ops)) break;
  }
  return &l->bucket[at];
}

static void rehash(struct prefixes_walk *w, struct layer *l)
{
  l->nbucket = l->nbucket ? 2 * l->nbucket : 256;
  l->bucket = NEWS(&w->mem, int, l->nbucket);
  for (int i = 0; i < l->n; i++) {
    struct prefix p = prefix_at(w, l, i);
    *place(w, l, &p) = i + 1;
  }
}

static void keep(struct prefixes_walk *w, struct layer *l, const struct prefix *p)
{
  if (2 * (l->n + 1) > l->nbucket) rehash(w, l);
  int *at = place(w, l, p), most = w->a->max_ops;
  if (*at) return;
  if (l->n == w->a->most) {
    w->cut = true;
    return;
  }
  int cap = MAX(256, 2 * l->cap);
  if (l->n == l->cap) {
    l->v = arena_grow(&w->mem, l->v, sizeof(int) * (size_t)(l->cap * most), sizeof(int) * (size_t)(cap * most));
    l->used = arena_grow(&w->mem, l->used, sizeof *l->used * (size_t)l->cap, sizeof *l->used * (size_t)cap);
    l->cap = cap;
  }
  memcpy(&l->v[l->n * most], p->v, sizeof *p->v * (size_t)p->ops);
  l->used[l->n++] = p->used;
  *at = l->n;
}

// ---- walking ----

// Whether a graph within the limit can still follow from p and the result of an operator on x and y. `used` includes x and y.
static bool hopeful(struct prefixes_walk *w, const struct prefix *p, uint64_t used)
{
  int left = w->a->max_ops - p->ops - 1, loose = 1;
  for (int i = 0; i < p->ops; i++) {
    if (used >> i & 1) continue;
    loose++;
    if (least(w, p->v[i]) > left) return false;
  }
  return loose - w->a->roots <= left;
}

// The prefix p extended by v, which is not in it.
static struct prefix with(const struct prefix *p, uint64_t used, int v)
{
  struct prefix q = {p->ops + 1, 0, {0}};
  int at = 0;
  for (int i = 0; i < q.ops; i++) {
    bool here = at == i && (i == p->ops || p->v[i] > v);
    q.v[i] = here ? v : p->v[at];
    if (!here) q.used |= (used >> at++ & 1) << i;
  }
  return q;
}

static bool has(const struct prefix *p, int v)
{
  for (int i = 0; i < p->ops; i++)
    if (p->v[i] == v) return true;
  return false;
}

static void walk(struct prefixes_walk *w, const struct prefix *p, struct layer *next, bool deeper);

static void apply(struct prefixes_walk *w, const struct prefix *p, uint64_t used, int x, int y, struct layer *next, bool deeper)
{
  int left = w->a->max_ops - p->ops - 1;
  if (!hopeful(w, p, used)) return;
  struct prefixes_span s = results(w, x, y, left);
  for (int i = s.first; i < s.first + s.n && (next || deeper) && !w->cut; i++) {
    int v = w->made.v[i];
    if (v < w->a->leaves || has(p, v) || least(w, v) > left) continue;
    struct prefix q = with(p, used, v);
    if (next)
      keep(w, next, &q);
    else
      walk(w, &q, NULL, false);
  }
}

// Applies all operators to values of p and leaves. Each result extends p: the new prefix goes into `next`, or is walked at once if `deeper` is set.
static void walk(struct prefixes_walk *w, const struct prefix *p, struct layer *next, bool deeper)
{
  int leaves = w->a->leaves, n = leaves + p->ops;
  for (int x = 0; x < n && !w->cut; x++)
    for (int y = -1; y <= x && !w->cut; y++) {
      uint64_t used = p->used;
      if (x >= leaves) used |= (uint64_t)1 << (x - leaves);
      if (y >= leaves) used |= (uint64_t)1 << (y - leaves);
      apply(w, p, used, x < leaves ? x : p->v[x - leaves], y < leaves ? y : p->v[y - leaves], next, deeper);
    }
}

static void walk_all(struct prefixes_walk *w, const struct layer *l, struct layer *next, bool deeper)
{
  for (int i = 0; i < l->n && !w->cut; i++) {
    struct prefix p = prefix_at(w, l, i);
    walk(w, &p, next, deeper);
  }
}

bool prefixes_walk(const struct prefixes *a)
{
  struct prefixes_walk w = {.a = a};
  struct layer l = {0};
  const struct prefix none = {0};
  CHECK(a->max_ops < MAX_PICK);
  keep(&w, &l, &none);
  for (; l.ops + 2 < a->max_ops && !w.cut;) {
    struct layer next = {.ops = l.ops + 1};
    walk_all(&w, &l, &next, false);
    l = next;
  }
  walk_all(&w, &l, NULL, false); // all pairs of these prefixes first: a pair that is tried with fewer operators left keeps fewer results
  if (a->max_ops > 1) walk_all(&w, &l, NULL, true);
  arena_close(&w.mem);
  return !w.cut;
}
