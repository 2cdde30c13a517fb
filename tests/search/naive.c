// The enumeration. One block graph grows and shrinks in place; its tensors' elements are computed as it grows, so that
// a complete graph costs one comparison.
#include "naive.h"

#include "front/front.h"
#include "verify/verify.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_CHOICES = 24, MOST_INPUTS = 6 };

struct choice { // an operator that may be tried
  enum op op;
  struct attrs a;
};
struct growth {
  struct arena *mem, tiles;
  const struct graph *p;
  const struct naive_limits *l;
  struct naive *out;
  struct trial_inputs *x;
  struct whole want;
  int output; // tensor of p
  int nchoice;
  struct choice choice[MOST_CHOICES];
  struct graph *b;
  struct tiles t[MOST_TENSORS];
  int users[MOST_TENSORS]; // nodes that read it
  int idle;                // tensors without users
  int ops, views;
  int niter, from[MOST_INPUTS + 2];
  struct attrs iter[MOST_INPUTS + 2];
};

// ---- what may be tried ---------------------------------------------------------------------------------------------

static void read_choices(struct growth *g)
{
  char text[512], *save = NULL;
  snprintf(text, sizeof text, "%s", g->l->ops);
  for (char *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
    char *value = strchr(word, '=');
    if (value) *value++ = 0;
    struct choice *c = &g->choice[g->nchoice++];
    CHECK(g->nchoice <= MOST_CHOICES && op_find(word, &c->op));
    c->a = attrs_default(c->op);
    if (value && c->op == OP_REPEAT)
      c->a.times = strtol(value, NULL, 10);
    else if (value)
      c->a.scalar = strtod(value, NULL);
  }
}

static bool is_view(enum op op) { return op_rows[op].rule == RULE_VIEW; }

// How many ways of setting dimensions there are for operator c on a tensor of n dimensions.
static int variants(const struct growth *g, enum op op, int n)
{
  if (op == OP_ACCUM) return g->b->nloop ? 1 + n : 1;
  return op_rows[op].attrs & A_DIM ? n : 1;
}

static struct attrs variant(const struct growth *g, const struct choice *c, int v)
{
  struct attrs a = c->a;
  if (c->op == OP_ACCUM && g->b->nloop)
    a.fmap[0] = (int8_t)(v - 1);
  else if (op_rows[c->op].attrs & A_DIM)
    a.dim = v;
  return a;
}

// Refuses early what graph_add would refuse with a long explanation.
static bool fits(const struct growth *g, enum op op, int x, int y)
{
  const struct tensor *a = &g->b->tensors[x], *b = y < 0 ? NULL : &g->b->tensors[y];
  struct shape s;
  if (op_rows[op].rule == RULE_ACCUM) return g->b->nloop && a->phase != AFTER;
  if (!b) return op != OP_TRANSPOSE || a->shape.n >= 2;
  if ((a->phase == VARYING && b->phase == AFTER) || (a->phase == AFTER && b->phase == VARYING)) return false;
  if (op != OP_MATMUL) return shape_broadcast(&a->shape, &b->shape, &s);
  return a->shape.n >= 2 && b->shape.n >= 2 && a->shape.d[a->shape.n - 1] == b->shape.d[b->shape.n - 2];
}

// ---- complete graphs -----------------------------------------------------------------------------------------------

static struct graph *finished(struct growth *g, const struct attrs *save)
{
  struct graph *k = graph_new(g->mem, KERNEL, g->p->name), *b = graph_copy(g->mem, g->b);
  struct err e = {0};
  int *at = NEWS(g->mem, int, g->p->ntensors), in[MOST_INPUTS + 2], out, last = g->b->ntensors - 1, status = OK;
  for (int i = 0; i < g->p->nnodes && !status; i++) {
    const struct tensor *t = &g->p->tensors[g->p->nodes[i].out];
    if (g->p->nodes[i].op == OP_INPUT) status = graph_input(k, t->name, t->dtype, &t->shape, NOWHERE, &at[g->p->nodes[i].out], &e);
  }
  for (int i = 0; i < g->niter; i++) in[i] = at[g->from[i]];
  if (!status) status = graph_add(b, OP_SAVE, 1, &last, save, NOWHERE, &(int){0}, &e);
  if (!status) status = graph_nest(k, b, g->niter, in, NOWHERE, &out, &e);
  if (!status) status = graph_add(k, OP_OUTPUT, 1, &out, NULL, NOWHERE, &(int){0}, &e);
  return status || graph_check(k, &e) ? NULL : k;
}

static bool same_elements(const struct whole *x, const struct whole *y)
{
  for (int64_t i = 0; i < shape_size(&x->s); i++)
    if (x->v[i].p != y->v[i].p) return false;
  return true;
}

static void keep(struct growth *g, const struct attrs *save)
{
  uint64_t key = tiles_key(g->b, g->t);
  g->out->equal++;
  for (int i = 0; i < g->out->n; i++)
    if (g->out->found[i].key == key) return;
  struct graph *k = finished(g, save);
  if (!k || !verify_filter(g->p, k, 1))
    g->out->wrong++;
  else
    PUSH(g->mem, g->out->found, g->out->n, g->out->cap) = (struct naive_graph){.g = k, .key = key};
}

// The omap of that number that joins tiles of shape x to the output's shape; false where it does not.
static bool omap_from(const struct growth *g, const struct shape *x, int64_t code, struct attrs *a)
{
  struct shape s = *x;
  *a = attrs_default(OP_SAVE);
  for (int i = 0; i < g->b->ngrid; i++, code /= x->n) {
    a->omap[i] = (int8_t)(code % x->n);
    s.d[a->omap[i]] *= g->b->grid[i];
  }
  return shape_eq(&s, &g->want.s);
}

static int64_t omaps(const struct growth *g, const struct shape *x)
{
  int64_t n = 1;
  for (int i = 0; i < g->b->ngrid; i++) n *= x->n;
  return n;
}

static void complete(struct growth *g)
{
  const struct shape *x = &g->b->tensors[g->b->ntensors - 1].shape;
  struct attrs a;
  for (int64_t code = 0; code < omaps(g, x); code++) {
    if (!omap_from(g, x, code, &a)) continue;
    struct arena_mark m = arena_mark(&g->tiles);
    struct whole whole = tiles_save(&g->tiles, g->b, g->b->ntensors - 1, &a, g->t);
    g->out->complete++;
    if (same_elements(&whole, &g->want)) keep(g, &a);
    arena_reset(&g->tiles, m);
  }
}

// ---- growing -------------------------------------------------------------------------------------------------------

static void grow(struct growth *g, uint64_t rank);

static bool savable(const struct growth *g, const struct tensor *t)
{
  struct attrs a;
  bool any = false;
  for (int64_t code = 0; code < omaps(g, &t->shape) && !any; code++) any = omap_from(g, &t->shape, code, &a);
  return any && t->phase != VARYING;
}

static void add(struct growth *g, const struct choice *c, const struct attrs *a, const int *in, int nin, uint64_t rank)
{
  bool view = is_view(c->op);
  int idle = g->idle + 1 - !g->users[in[0]] - (nin > 1 && in[1] != in[0] && !g->users[in[1]]);
  int ops = g->ops + !view, views = g->views + view, node = g->b->nnodes, out;
  if (ops > g->l->max_ops || views > g->l->views || idle - 1 > g->l->max_ops - ops) return;
  struct arena_mark m = arena_mark(&g->tiles), before = arena_mark(g->b->mem);
  struct err e = {0};
  if (graph_add(g->b, c->op, nin, in, a, NOWHERE, &out, &e) != OK) return;
  bool last = ops == g->l->max_ops && views == g->l->views;
  if (!last || savable(g, &g->b->tensors[out])) {
    tiles_make(&g->tiles, &g->x->F, g->b, node, NULL, g->t);
    int was = g->idle;
    g->idle = idle, g->ops = ops, g->views = views, g->users[out] = 0;
    for (int i = 0; i < nin; i++) g->users[in[i]]++;
    g->out->prefixes++;
    grow(g, rank);
    for (int i = 0; i < nin; i++) g->users[in[i]]--;
    g->idle = was, g->ops -= !view, g->views -= view;
  }
  g->b->nnodes--, g->b->ntensors--;
  arena_reset(&g->tiles, m), arena_reset(g->b->mem, before);
}

// Rank of the paper: the largest input first, then the next, then what is done with them.
static uint64_t rank_of(int hi, int lo, int choice, int v, int order)
{
  return ((((uint64_t)hi * 64 + (uint64_t)(lo + 1)) * 64 + (uint64_t)choice) * 16 + (uint64_t)v) * 2 + (uint64_t)order + 1;
}

static void add_all(struct growth *g, int hi, int lo, uint64_t rank)
{
  for (int c = 0; c < g->nchoice; c++) {
    const struct choice *x = &g->choice[c];
    int nin = op_rows[x->op].least;
    if (nin != (lo < 0 ? 1 : 2) || !fits(g, x->op, hi, lo)) continue;
    for (int v = 0, n = variants(g, x->op, g->b->tensors[hi].shape.n); v < n; v++)
      if (rank_of(hi, lo, c, v, 0) > rank) {
        struct attrs a = variant(g, x, v);
        add(g, x, &a, (int[]){hi, lo}, nin, rank_of(hi, lo, c, v, 0));
      }
  }
  for (int c = 0; c < g->nchoice && lo >= 0 && lo != hi; c++) { // the other order
    const struct choice *x = &g->choice[c];
    if (op_rows[x->op].least != 2 || (op_rows[x->op].flags & COMMUTES) || !fits(g, x->op, lo, hi)) continue;
    if (rank_of(hi, lo, c, 0, 1) > rank) add(g, x, &x->a, (int[]){lo, hi}, 2, rank_of(hi, lo, c, 0, 1));
  }
}

static void grow(struct growth *g, uint64_t rank)
{
  int n = g->b->ntensors;
  if (g->idle == 1 && !g->users[n - 1] && g->b->tensors[n - 1].phase != VARYING) complete(g);
  if (g->ops == g->l->max_ops && g->views == g->l->views) return;
  for (int hi = 0; hi < n; hi++)
    for (int lo = -1; lo <= hi; lo++) add_all(g, hi, lo, rank);
}

// ---- iterators -----------------------------------------------------------------------------------------------------

// A block graph's arrays that never move.
static struct graph *roomy(struct arena *mem, int ngrid, int nloop)
{
  static const int64_t extent[MAX_LOOPS] = {NAIVE_EXTENT, NAIVE_EXTENT, NAIVE_EXTENT, NAIVE_EXTENT};
  struct graph *b = graph_new(mem, BLOCK, NULL);
  graph_axes(b, ngrid, extent, nloop, extent);
  b->nodes = NEWS(mem, struct node, MOST_TENSORS), b->nodes_cap = MOST_TENSORS;
  b->tensors = NEWS(mem, struct tensor, MOST_TENSORS), b->tensors_cap = MOST_TENSORS;
  return b;
}

static void start(struct growth *g, int ngrid, int nloop)
{
  struct arena mem = {0};
  struct err e = {0};
  int out, status = OK;
  g->b = roomy(&mem, ngrid, nloop);
  for (int i = 0; i < g->niter && !status; i++) status = graph_iter(g->b, g->p, g->from[i], &g->iter[i], NOWHERE, &out, &e);
  for (int i = 0, input = 0; i < g->p->nnodes && !status; i++) {
    if (g->p->nodes[i].op != OP_INPUT) continue;
    const struct whole whole = {g->p->tensors[g->p->nodes[i].out].shape, g->x->in[input++]};
    for (int k = 0; k < g->niter; k++)
      if (g->from[k] == g->p->nodes[i].out) tiles_make(&g->tiles, &g->x->F, g->b, k, &whole, g->t);
  }
  memset(g->users, 0, sizeof g->users);
  g->idle = g->niter, g->ops = g->views = 0;
  if (!status) grow(g, 0);
  arena_close(&g->tiles);
  arena_close(&mem);
}

// The maps of one iterator as a number: axes in order, each a dimension or none.
static bool maps_from(struct attrs *a, int64_t code, int ndims, int ngrid, int nloop)
{
  *a = attrs_default(OP_ITER);
  for (int i = 0; i < ngrid + nloop; i++, code /= ndims + 1) {
    int8_t dim = (int8_t)(code % (ndims + 1) - 1);
    if (i < ngrid)
      a->imap[i] = dim;
    else
      a->fmap[i - ngrid] = dim;
  }
  return !code;
}

// If graphs differ in the order of x and y, one is tried.
static bool ordered(const struct growth *g, int ngrid)
{
  for (int i = 0; i < g->niter && ngrid == 2; i++)
    if (g->iter[i].imap[0] != g->iter[i].imap[1]) return g->iter[i].imap[0] > g->iter[i].imap[1];
  return true;
}

// Iterators for input number k and those behind it: one, or up to `copies` more.
static void each_iter(struct growth *g, const int *inputs, int ninput, int k, int ngrid, int nloop, int copies, int64_t least)
{
  if (k == ninput) {
    if (ordered(g, ngrid)) start(g, ngrid, nloop);
    return;
  }
  struct attrs a;
  int dims = g->p->tensors[inputs[k]].shape.n;
  for (int64_t code = least; maps_from(&a, code, dims, ngrid, nloop); code++) {
    g->from[g->niter] = inputs[k], g->iter[g->niter++] = a;
    each_iter(g, inputs, ninput, k + 1, ngrid, nloop, copies, 0);
    if (copies) each_iter(g, inputs, ninput, k, ngrid, nloop, copies - 1, code + 1);
    g->niter--;
  }
}

struct trial_inputs trial_open(struct arena *mem, const struct graph *p)
{
  struct trial_inputs x = {.in = NEWS(mem, void *, graph_inputs(p, NULL) + 1)};
  field_open(&x.F, primes_draw(PRIMES_FILTER, 5, 0, NULL), 5);
  eval_random(mem, p, DOM_FIELD, &x.F, 11, x.in);
  return x;
}

void naive_run(struct arena *mem, const struct graph *p, const struct naive_limits *l, struct trial_inputs *x, struct naive *out)
{
  struct growth *g = NEW(mem, struct growth);
  struct err e = {0};
  void *want;
  int inputs[MOST_INPUTS], n = graph_inputs(p, NULL);
  *out = (struct naive){0};
  g->mem = mem, g->p = p, g->l = l, g->out = out, g->x = x;
  CHECK(n <= MOST_INPUTS && graph_outputs(p, NULL) == 1 && eval_run(mem, p, DOM_FIELD, &x->F, x->in, &want, NULL, &e) == OK);
  graph_inputs(p, inputs), graph_outputs(p, &g->output);
  g->want = (struct whole){p->tensors[g->output].shape, want};
  read_choices(g);
  for (int ngrid = 0; ngrid <= l->max_axes; ngrid++)
    for (int nloop = 0; nloop < 2; nloop++) each_iter(g, inputs, n, 0, ngrid, nloop, l->copies, 0);
}
