// Graphs -> terms. An element of a tensor, given by its subscripts, is traced to elements of inputs by each operator's definition in src/eval/. A
// piece of the subscript selects the block of a saver. An iterator combines block, iteration and position in the tile. Elements are memoized.
#include "verify/prove.h"

#include <string.h>

enum { MOST_DEPTH = 300, MOST_CASES = 64 };

// ---- memoized elements ----

struct memory {
  uint64_t hash;
  size_t bytes;
  const int64_t *key;
  struct term *t;
  struct memory *next;
};
struct cut_array { // a slice of an input, seen through views
  const struct graph *g;
  int tensor;
};
struct unfolder {
  struct memory *bucket[4096];
  int ncut, cut_cap;
  struct cut_array *cut;
  int64_t scopes;
};

static struct unfolder *unfolder(struct prover *p)
{
  if (!p->unfolder) p->unfolder = NEW(p->mem, struct unfolder);
  return p->unfolder;
}

static const int64_t *key_of(struct prover *p, const struct scope *s, int t, const struct subscript *at, size_t *bytes)
{
  int n = 0, rank = s->g->tensors[t].shape.n;
  size_t words = 2;
  for (int i = 0; i < rank; i++) words += 1 + 4 * (size_t)at[i].n;
  int64_t *key = NEWS(p->mem, int64_t, words);
  key[n++] = s->id, key[n++] = t;
  for (int i = 0; i < rank; i++) {
    key[n++] = at[i].n;
    for (int k = 0; k < at[i].n; k++) {
      const struct verify_piece *x = &at[i].p[k];
      key[n++] = x->digit, key[n++] = x->at, key[n++] = x->div, key[n++] = x->extent;
    }
  }
  *bytes = sizeof *key * words;
  return key;
}

// ---- elementwise ----

static const struct shape *shape(const struct step *w, int t) { return &w->s->g->tensors[t].shape; }

struct term *unfold_argument(const struct step *w, const struct scope *s, int i)
{
  const struct shape *x = shape(w, w->n->in[i]);
  struct subscript at[MAX_DIMS] = {0};
  int shift = shape(w, w->t)->n - x->n;
  for (int d = 0; d < x->n; d++)
    if (x->d[d] > 1) at[d] = w->at[d + shift];
  return unfold(w->p, s, w->n->in[i], at);
}

static struct term *elementwise(const struct step *w)
{
  struct term *x = unfold_argument(w, w->s, 0);
  if (!x) return NULL;
  return term_map(w->p, w->n, x, w->n->nin > 1 ? unfold_argument(w, w->s, 1) : NULL);
}

// ---- sums ----

struct prove_unfold_product { // pair number i of [A1 A2] [B1; B2]
  const struct step *w;
  int i;
  struct subscript k;
};

// The element of a factor of a product at these rows and columns. Batch dimensions broadcast.
static struct term *side(const struct step *w, int x, struct subscript row, struct subscript col)
{
  const struct shape *s = shape(w, x);
  struct subscript at[MAX_DIMS] = {0};
  int shift = shape(w, w->t)->n - s->n;
  for (int d = 0; d < s->n - 2; d++)
    if (s->d[d] > 1) at[d] = w->at[d + shift];
  at[s->n - 2] = row, at[s->n - 1] = col;
  return unfold(w->p, w->s, x, at);
}

static struct term *product_body(const void *arg)
{
  const struct prove_unfold_product *a = arg;
  const struct step *w = a->w;
  int r = shape(w, w->t)->n;
  struct term *x = side(w, w->n->in[a->i], w->at[r - 2], a->k);
  return x ? term_new(w->p, TERM_MUL, x, side(w, w->n->in[a->i + w->n->nin / 2], a->k, w->at[r - 1])) : NULL;
}

static struct term *contraction(const struct step *w)
{
  struct term *sum = NULL;
  for (int i = 0; i < w->n->nin / 2; i++) {
    const struct shape *x = shape(w, w->n->in[i]);
    struct prove_unfold_product a = {w, i, subscript_of(w->p, digit_new(w->p, x->d[x->n - 1], false))};
    struct term *one = term_sum(w->p, a.k, product_body, &a);
    sum = i ? term_new(w->p, TERM_ADD, sum, one) : one;
  }
  return sum;
}

struct prove_unfold_folded {
  const struct step *w;
  const struct subscript *at;
};

static struct term *fold_body(const void *arg)
{
  const struct prove_unfold_folded *a = arg;
  return unfold(a->w->p, a->w->s, a->w->n->in[0], a->at);
}

// The reduction of `len` adjacent elements.
static struct term *reduction(const struct step *w)
{
  const struct node *n = w->n;
  struct subscript at[MAX_DIMS];
  int64_t len = shape(w, n->in[0])->d[n->a.dim] / shape(w, w->t)->d[n->a.dim];
  struct subscript over = subscript_of(w->p, digit_new(w->p, len, false));
  if (op_rows[n->op].attrs & A_EXTENT) return prove_give_up(w->p, "partial sums that were not expanded");
  memcpy(at, w->at, sizeof *at * (size_t)shape(w, w->t)->n);
  at[n->a.dim] = subscript_join(w->p, at[n->a.dim], over);
  struct prove_unfold_folded a = {w, at};
  return term_fold(&(struct verify_fold){w->p, len, over, fold_body, &a}, n->op);
}

static int count_before(const struct graph *g, const struct node *n, enum op op)
{
  int k = 0;
  for (const struct node *m = g->nodes; m < n; m++) k += m->op == op;
  return k;
}

// ---- views ----

static struct term *reshaped(const struct step *w)
{
  const struct shape *from = shape(w, w->n->in[0]), *to = shape(w, w->t);
  struct subscript at[MAX_DIMS] = {0}, flat = {0};
  for (int d = 0; d < to->n; d++) flat = subscript_join(w->p, flat, w->at[d]);
  for (int d = from->n - 1; d >= 0; d--)
    if (!subscript_cut(w->p, flat, from->d[d], &flat, &at[d])) return NULL;
  return unfold(w->p, w->s, w->n->in[0], at);
}

static int64_t gcd(int64_t a, int64_t b) { return b ? gcd(b, a % b) : a; }

// The numeric value of a subscript. If it depends on a digit, p->need becomes that digit and the result is false.
static bool known(struct prover *p, struct subscript s, int64_t *value)
{
  *value = 0;
  for (int i = 0; i < s.n; i++) {
    if (s.p[i].digit >= 0 && subscript_chosen(p, s)) return prove_give_up(p, "a data-dependent index selects a part");
    if (s.p[i].digit >= 0) {
      if (s.p[i].extent > MOST_CASES || p->digits[s.p[i].digit].parts.n) return prove_give_up(p, "a concatenation has too many parts to tell apart");
      p->need = digit_isolate(p, s.p[i]);
      return false;
    }
    *value = *value * s.p[i].extent + s.p[i].at;
  }
  return true;
}

enum { FEW_UNITS = 8, CUT_ARRAYS = 1 << 20 };

// Whether tensor t of g is the same view of the same input as tensor u of h.
static bool same_view(const struct graph *g, int t, const struct graph *h, int u)
{
  const struct node *n = &g->nodes[g->tensors[t].node], *m = &h->nodes[h->tensors[u].node];
  if (n->op != m->op || !shape_eq(&g->tensors[t].shape, &h->tensors[u].shape)) return false;
  if (n->op == OP_INPUT) return count_before(g, n, OP_INPUT) == count_before(h, m, OP_INPUT);
  return attrs_same(&n->a, &m->a) && t - n->out == u - m->out && same_view(g, n->in[0], h, m->in[0]);
}

static bool views_input(const struct graph *g, int t)
{
  const struct node *n = &g->nodes[g->tensors[t].node];
  enum rule rule = op_rows[n->op].rule;
  return n->op == OP_INPUT || ((rule == RULE_VIEW || rule == RULE_SPLIT) && views_input(g, n->in[0]));
}

// An element of a slice of an input as an element of a separate array. Equal slices in both graphs are the same array.
static struct term *cut_element(const struct step *w)
{
  struct unfolder *u = unfolder(w->p);
  int i = 0;
  while (i < u->ncut && !same_view(w->s->g, w->t, u->cut[i].g, u->cut[i].tensor)) i++;
  if (i == u->ncut) PUSH(w->p->mem, u->cut, u->ncut, u->cut_cap) = (struct cut_array){w->s->g, w->t};
  return unfold_element(w, CUT_ARRAYS + i, w->at, shape(w, w->t)->n);
}

// An element of a slice. The position in the slice needs a value, unless the slice is one of equal parts.
static struct term *sliced(const struct step *w)
{
  const struct attrs *a = &w->n->a;
  int64_t extent = shape(w, w->n->in[0])->d[a->dim], unit = slice_unit(a, extent), part = a->end - a->start, value;
  struct subscript at[MAX_DIMS], high, low;
  if (part / unit > FEW_UNITS && views_input(w->s->g, w->n->in[0])) return cut_element(w);
  memcpy(at, w->at, sizeof *at * (size_t)shape(w, w->t)->n);
  if (!subscript_cut(w->p, w->at[a->dim], unit, &high, &low) || !known(w->p, high, &value)) return NULL;
  at[a->dim] = subscript_join(w->p, subscript_fixed(w->p, a->start / unit + value, extent / unit), low);
  return unfold(w->p, w->s, w->n->in[0], at);
}

static struct term *view(const struct step *w)
{
  const struct attrs *a = &w->n->a;
  int r = shape(w, w->n->in[0])->n;
  struct subscript at[MAX_DIMS], rest;
  if (w->n->op == OP_RESHAPE) return reshaped(w);
  if (w->n->op == OP_SLICE) return sliced(w);
  memcpy(at, w->at, sizeof *at * (size_t)r);
  for (int d = 0; d < r && w->n->op == OP_TRANSPOSE; d++) at[a->perm.n ? (int)a->perm.d[d] : d < r - 2 ? d : 2 * r - 3 - d] = w->at[d];
  if (w->n->op == OP_REPEAT && !subscript_cut(w->p, w->at[a->dim], a->times, &at[a->dim], &rest)) return NULL;
  return unfold(w->p, w->s, w->n->in[0], at);
}

static struct term *concatenation(const struct step *w)
{
  const struct node *n = w->n;
  struct subscript at[MAX_DIMS], high, low;
  int64_t step = 0, value;
  for (int i = 0; i < n->nin; i++) step = gcd(shape(w, n->in[i])->d[n->a.dim], step);
  if (!subscript_cut(w->p, w->at[n->a.dim], step, &high, &low) || !known(w->p, high, &value)) return NULL;
  memcpy(at, w->at, sizeof *at * (size_t)shape(w, w->t)->n);
  for (int i = 0; i < n->nin; i++) {
    int64_t parts = shape(w, n->in[i])->d[n->a.dim] / step;
    at[n->a.dim] = subscript_join(w->p, subscript_fixed(w->p, value, parts), low);
    if (value < parts) return unfold(w->p, w->s, n->in[i], at);
    value -= parts;
  }
  return prove_give_up(w->p, "an index outside a concatenation");
}

static struct term *part(const struct step *w)
{
  const struct node *n = w->n;
  struct subscript at[MAX_DIMS];
  memcpy(at, w->at, sizeof *at * (size_t)shape(w, w->t)->n);
  int64_t index = node_part(n, w->t - n->out);
  at[n->a.dim] = subscript_join(w->p, subscript_fixed(w->p, index, n->a.parts), w->at[n->a.dim]);
  return unfold(w->p, w->s, n->in[0], at);
}

// ---- inputs and nested graphs ----

static struct term *input(const struct step *w) { return unfold_element(w, count_before(w->s->g, w->n, OP_INPUT), w->at, shape(w, w->t)->n); }

// The index of an element as one subscript over all dimensions, so it does not depend on how the shape groups them.
static struct term *index_number(const struct step *w)
{
  struct subscript flat = {0};
  for (int d = 0; d < shape(w, w->t)->n; d++) flat = subscript_join(w->p, flat, w->at[d]);
  struct term *t = unfold_index(w, flat);
  if (t || w->p->why) return t;
  if (!(t = term_new(w->p, TERM_ELEMENT, NULL, NULL))) return NULL;
  t->array = INDEX_ARRAY, t->n = 1, t->at = arena_copy(w->p->mem, &flat, sizeof flat);
  return t;
}

// Along a dimension, the index consists of the blocks of all axes that divide it, then the iterations, then the position in the tile.
static struct term *iterator(const struct step *w)
{
  const struct scope *s = w->s;
  struct subscript at[MAX_DIMS] = {0};
  for (int i = 0; i < s->g->ngrid; i++)
    if (w->n->a.imap[i] != REPLICA) at[w->n->a.imap[i]] = subscript_join(w->p, at[w->n->a.imap[i]], s->grid[i]);
  for (int i = 0; i < s->g->nloop; i++)
    if (w->n->a.fmap[i] != REPLICA) at[w->n->a.fmap[i]] = subscript_join(w->p, at[w->n->a.fmap[i]], s->loop[i]);
  for (int d = 0; d < shape(w, w->t)->n; d++) at[d] = subscript_join(w->p, at[d], w->at[d]);
  return unfold(w->p, s->above, s->nest->in[count_before(s->g, w->n, OP_ITER)], at);
}

struct scope *unfold_scope(struct prover *p, const struct graph *g, const struct scope *above, const struct node *nest)
{
  struct scope *s = NEW(p->mem, struct scope);
  *s = (struct scope){.g = g, .above = above, .nest = nest, .after = true, .id = ++unfolder(p)->scopes};
  return s;
}

static struct term *nested(const struct step *w)
{
  const struct graph *g = w->n->sub;
  const struct node *save = g->nodes;
  for (int k = w->t - w->n->out; save->op != OP_SAVE || k; save++) k -= save->op == OP_SAVE;
  const struct shape *tile = &g->tensors[save->in[0]].shape;
  struct scope *s = unfold_scope(w->p, g, w->s, w->n);
  struct subscript at[MAX_DIMS] = {0}, high[MAX_DIMS] = {0};
  for (int d = 0; d < tile->n; d++)
    if (!subscript_cut(w->p, w->at[d], tile->d[d], &high[d], &at[d])) return NULL;
  for (int i = g->ngrid - 1; i >= 0; i--) {
    int d = save->a.omap[i];
    if (d == REPLICA && g->grid[i] > 1) return prove_give_up(w->p, "blocks that save to the same place");
    if (d != REPLICA && !subscript_cut(w->p, high[d], g->grid[i], &high[d], &s->grid[i])) return NULL;
  }
  return unfold(w->p, s, save->in[0], at);
}

// ---- all ----

static struct term *element(const struct step *w)
{
  const struct node *n = w->n;
  if (n->op == OP_INPUT) return input(w);
  if (n->op == OP_ITER) return iterator(w);
  switch (op_rows[n->op].rule) {
  case RULE_CONST: return term_constant(w->p, n->a.scalar);
  case RULE_INDEX: return index_number(w);
  case RULE_MAP: return elementwise(w);
  case RULE_CONTRACT: return contraction(w);
  case RULE_REDUCE: return reduction(w);
  case RULE_VIEW: return view(w);
  case RULE_AT: return unfold_chosen(w);
  case RULE_CONCAT: return concatenation(w);
  case RULE_SPLIT: return part(w);
  case RULE_ACCUM: return unfold_accumulator(w);
  case RULE_GRAPH: return nested(w);
  case RULE_WORLD:
  case RULE_COMPOSITE:
  case RULE_IO: break;
  }
  return prove_give_up(w->p, "an operator that the algebra does not know");
}

struct term *unfold(struct prover *p, const struct scope *s, int t, const struct subscript *at)
{
  size_t bytes;
  struct subscript now[MAX_DIMS];
  const struct tensor *x = &s->g->tensors[t];
  if (p->depth >= MOST_DEPTH) return prove_give_up(p, "operators are nested too deeply");
  if (!prove_step(p)) return NULL;
  if (x->phase == VARYING && s->after) return prove_give_up(p, "a tensor of the loop is read after it");
  for (int d = 0; d < x->shape.n; d++) now[d] = subscript_expand(p, at[d]);
  const int64_t *key = key_of(p, s, t, now, &bytes);
  uint64_t hash = hash_bytes(key, bytes, 0);
  struct memory **bucket = &unfolder(p)->bucket[hash % COUNT(p->unfolder->bucket)];
  for (struct memory *m = *bucket; m; m = m->next)
    if (m->hash == hash && m->bytes == bytes && !memcmp(m->key, key, bytes)) return m->t;
  p->depth++;
  struct term *r = element(&(struct step){p, s, &s->g->nodes[x->node], t, now});
  p->depth--;
  if (!r || p->why || p->need >= 0) return NULL;
  struct memory *m = NEW(p->mem, struct memory);
  *m = (struct memory){hash, bytes, key, r, *bucket};
  return *bucket = m, r;
}
