// Saturation: finds every value that a block graph under one schedule can contain and the oracle accepts, each once, with all its derivations. A
// value is a function of pieces. If a class is on a grid or loop axis, the block or iteration index fixes its grid or loop piece; the other pieces
// are stored in the tile.
//
// This computes the same prefixes as the paper's Algorithm 1 without enumerating its tree: (XA)B and X(BA) become one value with two derivations.
// Values have phases: a value that varies with the iteration passes through exactly one accumulator before it is combined with values after the loop.
#include "search/space.h"

#include <limits.h>
#include <string.h>

// Without an oracle: prefixes of one length, as a multiple of the limit on values, which is capped here.
enum { PREFIXES = 16, MOST_VALUES = 1 << 18 };

struct values_run {
  struct table *t;
  struct arena *mem;
  struct worker *w;
  const struct fctx *f;
  const struct space *s;
  const struct vocabulary *voc;
  unsigned off;
  bool counted; // no oracle: the number of remaining operators limits what is tried (prefixes.c)
  bool outputs; // and only the program's outputs are needed
  int left;
  struct arena *made_mem;
  struct made *made;
  struct arena_mark mark;            // of scratch, before the fingerprint of the current candidate
  mask grid, loop;                   // pieces that the block (iteration) index fixes
  enum prune map_rule, product_rule; // the rule that excludes an elementwise operator, or a product, of the current pair; PRUNES: none
  enum phase phase;                  // of the pair's results
  uint64_t tries[2];                 // number of pairings that apply to a value and itself, and to two values
};

// ---- the table ------------------------------------------------------------------------------------------------

static uint64_t key(mask has, mask stored, enum phase phase, uint64_t ehash, uint64_t hash)
{
  return hash_mix(hash_mix(hash_mix(has, stored), (uint64_t)phase), hash_mix(ehash, hash));
}

static void rehash(struct values_run *r)
{
  struct table *t = r->t;
  t->nbucket = t->nbucket ? 2 * t->nbucket : 256;
  t->bucket = NEWS(r->mem, int, t->nbucket);
  for (int i = 0; i < t->n; i++) {
    uint64_t h = key(t->v[i].has, t->v[i].stored, t->v[i].phase, t->v[i].ehash, t->v[i].hash);
    int b = (int)(h % (uint64_t)t->nbucket);
    while (t->bucket[b]) b = (b + 1) % t->nbucket;
    t->bucket[b] = i + 1;
  }
}

// The value equal to *v; added if it is new.
static int intern(struct values_run *r, const struct search_value *v)
{
  struct table *t = r->t;
  if (2 * (t->n + 1) > t->nbucket) rehash(r);
  int b = (int)(key(v->has, v->stored, v->phase, v->ehash, v->hash) % (uint64_t)t->nbucket);
  for (; t->bucket[b]; b = (b + 1) % t->nbucket) {
    const struct search_value *o = &t->v[t->bucket[b] - 1];
    if (o->has == v->has && o->stored == v->stored && o->phase == v->phase && o->ehash == v->ehash && o->hash == v->hash) return t->bucket[b] - 1;
  }
  PUSH(r->mem, t->v, t->n, t->cap) = *v;
  t->v[t->n - 1].number = pairs_number(&r->w->pairs, v->e);
  t->bucket[b] = t->n;
  r->w->stats.values++;
  return t->n - 1;
}

static bool prune(struct values_run *r, enum prune rule)
{
  r->w->stats.pruned[rule]++;
  return false;
}

// Whether the oracle accepts this expression.
static bool alive(struct values_run *r, nf e)
{
  r->w->stats.states++;
  if (r->off >> PRUNE_EXPR & 1 || expr_sub(r->w->ex, e)) return true;
  return prune(r, PRUNE_EXPR);
}

static const uint8_t pair_bits[] = {[AE_ADD] = PAIR_ADD, [AE_SUB] = PAIR_ADD, [AE_MUL] = PAIR_MUL, [AE_DIV] = PAIR_DIV}; // signs are dropped

// The remembered answer for an operator on the pair; 0: none.
static uint8_t pair_bit(enum abstract op, const struct search_value *a, const struct search_value *b)
{
  uint8_t bit = op < COUNT(pair_bits) ? pair_bits[op] : 0;
  return bit == PAIR_DIV && a->number < b->number ? PAIR_DIV_BACK : bit;
}

// Whether it was rejected before.
static bool refused(struct values_run *r, const struct search_value *a, const struct search_value *b, uint8_t bit)
{
  const uint8_t *at = bit ? pairs_at(&r->w->pairs, a->number, b->number) : NULL;
  if (!at || !(*at & bit)) return false;
  r->w->stats.states++, r->w->stats.pruned[PRUNE_EXPR]++;
  return true;
}

// Whether the oracle accepts e, the result of an operator on the pair.
static bool alive_pair(struct values_run *r, nf e, const struct search_value *a, const struct search_value *b, uint8_t bit)
{
  if (alive(r, e)) return true;
  uint8_t *at = bit ? pairs_at(&r->w->pairs, a->number, b->number) : NULL;
  if (at) *at |= bit;
  return false;
}

// A whole tensor with the target's expression but another value can only be a wrong answer. Expressions have no signs, so if the program negates
// values it may be the answer with the opposite sign.
static bool wrong(struct values_run *r, const struct search_value *v)
{
  const struct space *s = r->s;
  if (s->nout != 1 || r->voc->neg || r->off >> PRUNE_FINGER & 1) return false;
  int o = s->out[0];
  if (v->e != r->w->ref.e[o] || v->has != s->visit[o].full || v->hash == r->w->ref.hash[o]) return false;
  r->w->stats.pruned[PRUNE_FINGER]++;
  return true;
}

// Number of operators that must follow before a kernel can save a result of *v; 99: impossible. A block index that is fixed stays fixed; an operator
// sums over one class, an accumulator also over the loop.
static int least_after(const struct values_run *r, const struct search_value *v)
{
  int least = 99;
  mask has;
  bool saveable = value_saveable(r->s, r->t, v, &has);
  if (!r->outputs) return !saveable;
  for (int o = 0; o < r->s->nout; o++) {
    mask full = r->s->visit[r->s->out[o]].full;
    if (saveable && has == full) return 0;
    if (v->has & ~v->stored & ~r->loop & ~full) continue;
    int sums = v->phase == VARYING, classes = 0;
    for (int c = 0; c < r->s->nclass; c++) classes += (v->stored & ~full & all_of(c)) != 0;
    least = MIN(least, MAX(1, MAX(sums, classes)));
  }
  return least;
}

// Whether *v, with known masks and phase, cannot be used with the operators that are left.
static bool useless(struct values_run *r, const struct search_value *v)
{
  if (!r->counted) return false;
  return least_after(r, v) > r->left && !prune(r, PRUNE_SIZE);
}

// Whether *v would end a graph and is not an output.
static bool ends_wrong(struct values_run *r, const struct search_value *v)
{
  if (!r->counted || !r->outputs || r->left) return false;
  for (int o = 0; o < r->s->nout; o++)
    if (v->has == r->s->visit[r->s->out[o]].full && v->hash == r->w->ref.hash[r->s->out[o]]) return false;
  return !prune(r, PRUNE_SIZE);
}

// The value equal to *v; -1 if that is wrong.
static int place(struct values_run *r, struct search_value *v)
{
  int n = r->t->n, at = wrong(r, v) || ends_wrong(r, v) ? -1 : intern(r, v);
  if (!r->w->memo && at < n) arena_reset(&r->w->scratch, r->mark);
  if (r->counted && at >= 0) PUSH(r->made_mem, r->made->v, r->made->n, r->made->cap) = at;
  return at;
}

// Sets the fingerprint of *v if it is known. False: it must be computed.
static bool recall(struct values_run *r, const struct finger_key *k, struct search_value *v)
{
  const struct finger_row *row = r->w->memo ? finger_memo_find(r->w->memo, k) : NULL;
  if (row) return v->f = row->f, v->hash = row->hash, true;
  r->mark = arena_mark(&r->w->scratch);
  return false;
}

static void learn(struct values_run *r, const struct finger_key *k, struct search_value *v)
{
  v->hash = finger_hash(&v->f);
  if (r->w->memo) finger_memo_put(r->w->memo, &(struct finger_row){*k, v->f, v->hash});
}

static void record(struct values_run *r, struct search_value *v, const struct deriv *d)
{
  v->ehash = expr_hash(r->w->ex, v->e);
  int i = place(r, v);
  if (i < 0) return;
  struct search_value *in = &r->t->v[i];
  PUSH(r->mem, r->t->d, r->t->nd, r->t->dcap) = *d;
  r->t->d[r->t->nd - 1].next = in->der;
  in->der = r->t->nd - 1;
}

// ---- operators --------------------------------------------------------------------------------------------------

// The classes with a piece in m.
static mask classes_in(mask m) { return (m | m >> 1 | m >> 2) & 0x1249249249249249u; }

// Whether tiles of x and y are compatible in each class: equal stored pieces, or one is broadcast.
static bool lines_up(const struct search_value *x, const struct search_value *y)
{
  if (classes_in(x->stored ^ y->stored) & classes_in(x->stored) & classes_in(y->stored)) return false;
  return !(x->has & ~x->stored & y->stored) && !(y->has & ~y->stored & x->stored);
}

// Whether one tensor of the program has all these classes, as far as they are whole.
static bool in_one_tensor(const struct space *s, mask has)
{
  mask whole = 7 * (has & has >> 1 & has >> 2 & 0x1249249249249249u);
  for (int v = 0; v < s->nvisit; v++)
    if (!(whole & ~s->visit[v].full)) return true;
  return false;
}

// Restrictions on results of this pair, for any operator.
static void meet(struct values_run *r, const struct search_value *x, const struct search_value *y)
{
  bool apart = (x->phase == VARYING && y->phase == AFTER) || (x->phase == AFTER && y->phase == VARYING);
  bool outer = (x->stored & ~y->stored) && (y->stored & ~x->stored) && !(r->off >> PRUNE_SHAPE & 1);
  outer = outer && !(r->voc->outer && in_one_tensor(r->s, x->has | y->has));
  enum prune rule = apart ? PRUNE_PHASE : lines_up(x, y) ? PRUNES : PRUNE_SHAPE;
  r->map_rule = outer ? PRUNE_SHAPE : rule;
  r->product_rule = x->stored == y->stored ? PRUNE_SHAPE : rule; // neither has rows or columns: a sum of elementwise products
  r->phase = x->phase == FIXED ? y->phase : x->phase;
}

static nf map_expr(struct values_run *r, const struct instance *in, const struct search_value *a, const struct search_value *b)
{
  if (in->cls >= 0) return expr_mul(r->w->ex, a->e, expr_atom(r->w->ex, atom_inverse(in->cls)));
  return abstract_map(r->w->ex, in->op, &in->a, a->e, b ? b->e : 0);
}

static bool map_finger(struct values_run *r, const struct instance *in, const struct search_value *a, const struct search_value *b,
                       struct finger *out)
{
  if (in->cls < 0) return finger_map(r->f, &r->w->scratch, in->op, &in->a, &a->f, b ? &b->f : NULL, out);
  finger_fold(r->f, &r->w->scratch, OP_SUM, &a->f, 0, finger_size(r->s, all_of(in->cls)), out); // the extent differs there
  return true;
}

static void try_map(struct values_run *r, const struct instance *in, int index, int x, int y)
{
  const struct search_value *a = &r->t->v[x], *b = y < 0 ? NULL : &r->t->v[y];
  uint8_t bit = b ? pair_bit(op_rows[in->op].abstract, a, b) : 0;
  if (refused(r, a, b, bit)) return;
  struct search_value v = {.has = a->has, .stored = a->stored, .phase = b ? r->phase : a->phase, .leaf = -1, .der = -1};
  if (b) v.has |= b->has, v.stored |= b->stored;
  if (useless(r, &v)) return;
  v.e = map_expr(r, in, a, b);
  if (!alive_pair(r, v.e, a, b, bit)) return;
  const struct finger_key k = {in->op, index, 0, a->hash, b ? b->hash : 0};
  if (!recall(r, &k, &v)) {
    if (!map_finger(r, in, a, b, &v.f)) return;
    learn(r, &k, &v);
  }
  record(r, &v, &(struct deriv){in->op, x, y, in->cls, index, -1});
}

// The class that a reduction runs over: the pieces of class c that the tile stores; for an accumulator also the loop piece.
static mask fold_over(const struct values_run *r, enum op op, const struct search_value *a, int c)
{
  return (c < 0 ? 0 : a->stored & all_of(c)) | (op_rows[op].rule == RULE_ACCUM ? r->loop : 0);
}

static nf fold_expr(struct values_run *r, enum op op, const struct search_value *a, int c, mask over)
{
  struct expr *ex = r->w->ex;
  uint64_t k = abstract_factor(r->s, over);
  nf e = op == OP_ACCUM_RMS ? expr_square(ex, a->e) : a->e;
  e = op == OP_MAX ? expr_max(ex, k, e) : expr_sum(ex, k, e);
  if (op_rows[op].flags & MEAN) e = expr_mul(ex, e, expr_atom(ex, atom_inverse(c)));
  return op == OP_ACCUM_RMS ? expr_sqrt(ex, e) : e;
}

static void fold_finger(struct values_run *r, enum op op, const struct search_value *a, mask over, struct finger *out)
{
  finger_fold(r->f, &r->w->scratch, op, &a->f, over, op_rows[op].flags & MEAN ? finger_size(r->s, over) : 1, out);
}

static void try_fold(struct values_run *r, enum op op, int x, int c)
{
  const struct search_value *a = &r->t->v[x];
  bool accum = op_rows[op].rule == RULE_ACCUM, mean = op_rows[op].flags & MEAN;
  mask over = fold_over(r, op, a, c);
  struct search_value v = {.has = a->has & ~over, .stored = a->stored & ~over, .phase = accum ? AFTER : a->phase, .leaf = -1, .der = -1};
  if ((mean && over != all_of(c)) || useless(r, &v)) return;
  if (!alive(r, v.e = fold_expr(r, op, a, c, over))) return;
  const struct finger_key k = {op, -1, over, a->hash, 0};
  if (!recall(r, &k, &v)) {
    fold_finger(r, op, a, over, &v.f);
    learn(r, &k, &v);
  }
  record(r, &v, &(struct deriv){op, x, -1, c, -1, -1});
}

static nf product_expr(struct values_run *r, const struct search_value *a, const struct search_value *b, mask over)
{
  return expr_sum(r->w->ex, abstract_factor(r->s, over), expr_mul(r->w->ex, a->e, b->e));
}

static void try_product(struct values_run *r, int x, int y, int c)
{
  const struct search_value *a = &r->t->v[x], *b = &r->t->v[y];
  if (r->product_rule != PRUNES) {
    prune(r, r->product_rule);
    return;
  }
  if (refused(r, a, b, PAIR_MUL)) return; // a sum of it is rejected too
  mask over = a->stored & all_of(c);
  struct search_value v = {.has = (a->has | b->has) & ~over, .stored = (a->stored | b->stored) & ~over, .phase = r->phase, .leaf = -1, .der = -1};
  if (useless(r, &v) || !alive(r, v.e = product_expr(r, a, b, over))) return;
  const struct finger_key k = {OP_MATMUL, -1, over, a->hash, b->hash};
  if (!recall(r, &k, &v)) {
    finger_product(r->f, &r->w->scratch, &a->f, &b->f, over, &v.f);
    learn(r, &k, &v);
  }
  record(r, &v, &(struct deriv){OP_MATMUL, x, y, c, -1, -1});
}

static void unary(struct values_run *r, int x)
{
  const struct vocabulary *voc = r->voc;
  for (int i = 0; i < voc->n; i++)
    if (op_rows[voc->i[i].op].least == 1) try_map(r, &voc->i[i], i, x, -1);
  const struct search_value *a = &r->t->v[x];
  mask stored = a->stored;
  bool varying = a->phase == VARYING;
  for (int c = 0; c < r->s->nclass; c++) {
    if (!(stored & all_of(c))) continue;
    if (voc->sum) try_fold(r, OP_SUM, x, c);
    if (voc->mean) try_fold(r, OP_MEAN, x, c);
    if (voc->max) try_fold(r, OP_MAX, x, c);
    if (varying && voc->sum) try_fold(r, OP_ACCUM_SUM, x, c);
    if (varying && voc->mean) try_fold(r, OP_ACCUM_MEAN, x, c);
    if (varying && voc->mean && voc->rms) try_fold(r, OP_ACCUM_RMS, x, c);
  }
  if (varying) try_fold(r, OP_ACCUM, x, -1);
}

static bool applies(const struct values_run *r, const struct pairing *p, bool apart)
{
  return (apart || !p->swapped) && (!p->mirrored || r->off >> PRUNE_CANON & 1);
}

// Tries all elementwise operators on the pair. If the oracle rejects all results, the pair is marked.
static void try_pairings(struct values_run *r, int x, int y)
{
  const uint64_t before = r->w->stats.pruned[PRUNE_EXPR];
  for (int i = 0; i < r->voc->npairing; i++) {
    const struct pairing *p = &r->voc->pairing[i];
    const struct instance *in = p->index < 0 ? &r->voc->plain[p->op] : &r->voc->i[p->index];
    if (applies(r, p, x != y)) try_map(r, in, p->index, p->swapped ? y : x, p->swapped ? x : y);
  }
  if (r->w->stats.pruned[PRUNE_EXPR] - before != r->tries[x != y]) return;
  uint8_t *at = pairs_at(&r->w->pairs, r->t->v[x].number, r->t->v[y].number);
  if (at) *at |= PAIR_ALL;
}

// Elementwise operators. Most pairs have no result that a rule admits: then their operators are counted, and none is tried.
static void map_pair(struct values_run *r, int x, int y)
{
  struct search_stats *stats = &r->w->stats;
  const uint64_t tries = r->tries[x != y];
  if (x != y && !(r->off >> PRUNE_CANON & 1)) stats->pruned[PRUNE_CANON] += (uint64_t)(r->voc->add + r->voc->mul); // y + x is x + y
  if (r->map_rule != PRUNES) {
    stats->pruned[r->map_rule] += tries;
    return;
  }
  const uint8_t *at = pairs_at(&r->w->pairs, r->t->v[x].number, r->t->v[y].number);
  if (at && *at & PAIR_ALL)
    stats->states += tries, stats->pruned[PRUNE_EXPR] += tries;
  else
    try_pairings(r, x, y);
}

static void binary(struct values_run *r, int x, int y)
{
  meet(r, &r->t->v[x], &r->t->v[y]);
  map_pair(r, x, y);
  if (!r->voc->product) return;
  const mask sx = r->t->v[x].stored, sy = r->t->v[y].stored;
  for (int c = 0; sx & sy && c < r->s->nclass; c++) {
    mask over = sx & all_of(c);
    if (over && over == (sy & all_of(c))) try_product(r, x, y, c);
  }
}

// ---- leaves ---------------------------------------------------------------------------------------------------------

// A device tensor as an iterator loads it; the block and iteration index fix some pieces.
static void load_part(struct values_run *r, const struct device *d, int i, mask fixed)
{
  struct search_value v = {.has = d->has, .stored = d->has & ~fixed, .e = d->e[r->w->id], .f = d->f, .leaf = i, .der = -1};
  v.phase = fixed & r->loop ? VARYING : FIXED;
  v.hash = d->hash, v.ehash = d->ehash;
  int at = intern(r, &v);
  r->t->v[at].leaf = i;
}

// Whether every class of an axis is partitioned; with rule `whole` off, or not.
static void load(struct values_run *r, const struct device *d, int i)
{
  mask fixed = 0;
  for (int c = 0; c < r->s->nclass; c++) {
    mask has = d->has & all_of(c);
    if (has == all_of(c))
      fixed |= has & (r->grid | r->loop);
    else if (has && ((r->grid | r->loop) & all_of(c)))
      return; // partial sums of a class that this kernel divides again
  }
  load_part(r, d, i, fixed);
  for (mask left = fixed; left;) {
    left = (left - 1) & fixed;
    if (r->off >> PRUNE_WHOLE & 1)
      load_part(r, d, i, left);
    else
      prune(r, PRUNE_WHOLE);
  }
}

static struct values_run run_of(struct table *t, struct arena *mem, struct worker *w, const struct fctx *f, const struct vocabulary *voc,
                                const struct search_opts *o)
{
  struct values_run r = {t, mem, w, f, f->s, voc, .off = o->off};
  for (int i = 0; i < t->sch.ngrid; i++) r.grid |= bit(t->sch.grid[i], GRID);
  if (t->sch.loop >= 0) r.loop = bit(t->sch.loop, LOOP);
  for (int i = 0; i < voc->npairing; i++)
    for (int apart = 0; apart < 2; apart++) r.tries[apart] += applies(&r, &voc->pairing[i], apart);
  return r;
}

void table_open(struct table *t, struct arena *mem, struct worker *w, const struct fctx *f, const struct vocabulary *voc, const struct device *dev,
                int ndev, const struct search_opts *o)
{
  struct values_run r = run_of(t, mem, w, f, voc, o);
  t->voc = voc;
  for (int i = 0; i < ndev; i++) load(&r, &dev[i], i);
}

struct counted {
  struct values_run r;
  const struct search_opts *o;
};

static bool counted_apply(void *arg, int x, int y, int left, struct arena *mem, struct made *made)
{
  struct counted *c = arg;
  struct values_run *r = &c->r;
  r->left = left, r->made_mem = mem, r->made = made;
  if (y < 0)
    unary(r, x);
  else
    binary(r, x, y);
  return r->t->n <= c->o->max_values && !stop_set(c->o->stop);
}

static int counted_least(void *arg, int v)
{
  const struct counted *c = arg;
  return least_after(&c->r, &c->r.t->v[v]);
}

// Without an oracle, the number of operators bounds the table.
static void saturate_counted(struct values_run *r, const struct search_opts *o)
{
  struct counted c = {*r, o};
  c.r.counted = true, c.r.outputs = o->max_kernel_ops == 1;
  const struct prefixes p = {.leaves = r->t->n,
                             .max_ops = MIN(o->max_block_ops, MAX_PICK - 1),
                             .roots = c.r.outputs ? r->s->nout : MAX_ROOTS,
                             .most = PREFIXES * MIN(o->max_values, MOST_VALUES),
                             .arg = &c,
                             .apply = counted_apply,
                             .least = counted_least};
  r->t->cut = !prefixes_walk(&p) && !stop_set(o->stop);
}

bool saturate_more(struct table *t, struct arena *mem, struct worker *w, const struct fctx *f, const struct search_opts *o, int upto)
{
  struct values_run r = run_of(t, mem, w, f, t->voc, o);
  if (o->off >> PRUNE_EXPR & 1) return saturate_counted(&r, o), t->met = t->n, false; // in one go
  for (; t->met < t->n && t->met < upto && !t->cut; t->met++) {
    if (stop_set(o->stop)) return false;
    if (t->n > o->max_values) {
      t->cut = true;
      break;
    }
    unary(&r, t->met);
    for (int y = 0; y <= t->met; y++) binary(&r, t->met, y);
  }
  return t->met < t->n && !t->cut;
}

void saturate(struct table *t, struct arena *mem, struct worker *w, const struct fctx *f, const struct vocabulary *voc, const struct device *dev,
              int ndev, const struct search_opts *o)
{
  table_open(t, mem, w, f, voc, dev, ndev, o);
  saturate_more(t, mem, w, f, o, INT_MAX);
}

// Repeats the derivation of try_map, try_fold and try_product, to check bytes (search_pack.c).
bool value_derive(const struct space *s, const struct table *t, const struct deriv *d, struct search_value *v)
{
  const struct search_value *a = &t->v[d->a], *b = d->b < 0 ? NULL : &t->v[d->b];
  enum rule rule = op_rows[d->op].rule;
  bool map = rule == RULE_MAP, product = d->op == OP_MATMUL, accum = rule == RULE_ACCUM;
  mask loop = t->sch.loop < 0 ? 0 : bit(t->sch.loop, LOOP), over = map || d->cls < 0 ? 0 : a->stored & all_of(d->cls);
  if ((!map && !product && !accum && rule != RULE_REDUCE) || op_rows[d->op].least != 1 + !!b) return false;
  if ((!map && d->cls >= 0 && !over) || (!map && !accum && d->cls < 0) || (accum && a->phase != VARYING)) return false;
  v->has = a->has, v->stored = a->stored, v->phase = a->phase;
  for (int c = 0; b && c < s->nclass; c++) {
    mask sa = a->stored & all_of(c), sb = b->stored & all_of(c);
    if (sa != sb && ((sa && sb) || (product && c == d->cls))) return false;
  }
  if (product && a->stored == b->stored) return false;
  if (b) {
    if (((a->has & ~a->stored) & b->stored) || ((b->has & ~b->stored) & a->stored)) return false;
    if (a->phase != b->phase && a->phase != FIXED && b->phase != FIXED) return false;
    v->has |= b->has, v->stored |= b->stored;
    if (a->phase == FIXED) v->phase = b->phase;
  }
  if (accum) over |= loop, v->phase = AFTER;
  if (op_rows[d->op].flags & MEAN && (d->cls < 0 || over != all_of(d->cls))) return false;
  v->has &= ~over, v->stored &= ~over;
  return true;
}

// Only expressions that the oracle accepts, as when it was made: others could grow without bound.
static bool restore(struct values_run *r, int i)
{
  struct search_value *v = &r->t->v[i];
  if (v->f.v) return true;
  int k = v->der;
  while (r->t->d[k].next >= 0) k = r->t->d[k].next;
  const struct deriv *d = &r->t->d[k];
  if (!restore(r, d->a) || (d->b >= 0 && !restore(r, d->b))) return false;
  const struct search_value *a = &r->t->v[d->a], *b = d->b < 0 ? NULL : &r->t->v[d->b];
  const struct instance plain = {d->op, attrs_default(d->op), -1}, *in = d->attrs < 0 ? &plain : &r->voc->i[d->attrs];
  bool map = op_rows[d->op].rule == RULE_MAP;
  mask over = map ? 0 : fold_over(r, d->op, a, d->cls);
  v->e = map ? map_expr(r, in, a, b) : b ? product_expr(r, a, b, over) : fold_expr(r, d->op, a, d->cls, over);
  if (expr_hash(r->w->ex, v->e) != v->ehash || !(r->off >> PRUNE_EXPR & 1 || expr_sub(r->w->ex, v->e))) return false;
  if (map && !map_finger(r, in, a, b, &v->f)) return false;
  if (!map && b)
    finger_product(r->f, &r->w->scratch, &a->f, &b->f, over, &v->f);
  else if (!map)
    fold_finger(r, d->op, a, over, &v->f);
  return finger_hash(&v->f) == v->hash;
}

bool value_restore(struct table *t, struct worker *w, const struct fctx *f, const struct search_opts *o, int i)
{
  struct values_run r = run_of(t, NULL, w, f, t->voc, o);
  return restore(&r, i);
}

bool value_saveable(const struct space *s, const struct table *t, const struct search_value *v, mask *has)
{
  if (v->phase == VARYING) return false;
  for (int i = 0; i < t->sch.ngrid; i++)
    if (!(v->has & ~v->stored & bit(t->sch.grid[i], GRID))) return false;
  for (int c = 0; c < s->nclass; c++) {
    mask h = v->has & all_of(c);
    if (h && h != all_of(c) && !(h == bit(c, GRID) && !(v->stored & h))) return false;
  }
  *has = v->has;
  return true;
}
