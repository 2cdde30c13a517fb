// Evaluates both graphs on the same real inputs in float64 and float32. The error of a graph in float64 is estimated from the deviation of its
// float32 result: the rounding errors differ by a factor of about 2^29. If values of the two graphs differ by far more than both errors, the graphs
// are different functions of real numbers. Values near a jump are excluded: they change with the rounding. This is the evidence of a difference where
// fields give roots, maxima or opaque functions another meaning.
#include "base/memory.h"
#include "verify/proof.h"

#include <fenv.h>
#include <math.h>

static const double FACTOR = 0x1p-29 * 64;         // error in float64 as a multiple of that in float32, with a margin
static const double LEAST = 0x1p-44;               // relative to the largest value of a tensor: least error assumed
enum { KINDS = 4, MOST_DRAWS = 32, ENOUGH = 512 }; // ENOUGH: elements of each output, if that is cheap
static const int64_t CHEAP = 4000000;              // field operations of all draws after the first four

// Inputs of the four kinds of draws: normal or positive numbers, each at two scales. Roots and logarithms of positive numbers are defined.
// Exponentials of small numbers stay finite in float32. Small graphs get more draws, since a difference may occur for some signs only.
static double drawn(int draw, double x)
{
  static const struct {
    bool positive;
    double scale;
  } how[KINDS] = {{false, 1}, {true, 1}, {false, 0.0625}, {true, 0.0625}};
  draw %= KINDS;
  return (how[draw].positive ? fabs(x) + 0.0625 : x) * how[draw].scale;
}

enum { TURNS = 5, CLOSE = 4 };
struct runs { // outputs of one graph
  double **wide;
  float **narrow;
  // The float64 results with everything rounded up or down and constants moved (nudge). In the last one, CLOSE, nearly equal numbers compare equal
  // instead. Computed on demand.
  double **turned[TURNS];
};

static void whole_inputs(struct arena *mem, const struct tensor *t, bool narrow, struct rng *r, int draw, void *p)
{
  double *x = narrow ? tensor_room(mem, t, sizeof *x) : p;
  eval_whole_numbers(t, r, draw, x);
  for (int64_t k = 0, size = shape_size(&t->shape); k < size && narrow; k++) ((float *)p)[k] = (float)x[k];
}

static void *const *inputs(struct arena *mem, const struct graph *g, bool narrow, uint64_t seed, int draw)
{
  int n = graph_inputs(g, NULL), *in = NEWS(mem, int, n + 1);
  void **p = NEWS(mem, void *, n + 1);
  graph_inputs(g, in);
  for (int i = 0; i < n; i++) {
    const struct tensor *t = &g->tensors[in[i]];
    int64_t size = shape_size(&t->shape);
    struct rng r = {hash_mix(hash_mix(seed, (uint64_t)draw), (uint64_t)i + 1)};
    p[i] = tensor_room(mem, t, narrow ? sizeof(float) : sizeof(double));
    if (num_whole(t->dtype)) {
      whole_inputs(mem, t, narrow, &r, draw, p[i]);
      continue;
    }
    for (int64_t k = 0; k < size; k++) {
      float x = (float)drawn(draw, rng_normal(&r)); // a number that both types can represent
      if (narrow)
        ((float *)p[i])[k] = x;
      else
        ((double *)p[i])[k] = x;
    }
  }
  return p;
}

struct compared {
  const struct graph *g[2];
  uint64_t seed;
  int threads;
  stop_flag stop;
  int nout, *outs;
  int64_t *seen; // for each output: number of compared elements
  struct verify_place *where;
};

// Sets elements of output i beyond its run-time extents to NaN. They may be any numbers, so they are not compared.
static void leave_padding(const struct compared *c, int i, const struct extent_values *now, double *y)
{
  const struct tensor *t = &c->g[0]->tensors[c->outs[i]];
  const struct shape part = extents_shape(now, t);
  for (int64_t k = 0, n = shape_size(&t->shape); k < n; k++) {
    int64_t rest = k;
    for (int d = t->shape.n - 1; d >= 0; rest /= t->shape.d[d--])
      if (rest % t->shape.d[d] >= part.d[d]) y[k] = NAN;
  }
}

static void leave_all_padding(struct arena *mem, const struct compared *c, void *const *in, const struct runs *r)
{
  const struct graph *g = c->g[0];
  int n = graph_inputs(g, NULL), *ids = NEWS(mem, int, n + 1);
  struct extent_values now = {.n = graph_extents(g)};
  graph_inputs(g, ids);
  for (int i = 0; i < n; i++)
    if (g->tensors[ids[i]].extent) now.value[g->tensors[ids[i]].extent] = (int64_t) * (double *)in[i];
  for (int i = 0; i < c->nout; i++)
    if (extent_tells(&g->tensors[c->outs[i]])) leave_padding(c, i, &now, r->wide[i]);
}

static int evaluate(struct arena *mem, const struct compared *c, int side, int draw, struct runs *r, struct err *e)
{
  const struct graph *g = c->g[side];
  r->wide = NEWS(mem, double *, c->nout + 1), r->narrow = NEWS(mem, float *, c->nout + 1);
  void *const *wide = inputs(mem, c->g[0], false, c->seed, draw);
  int s = eval_run_on(c->threads, mem, g, DOM_F64, NULL, wide, (void **)r->wide, c->stop, e);
  if (!s) leave_all_padding(mem, c, wide, r);
  if (!s) s = eval_run_on(c->threads, mem, g, DOM_F32, NULL, inputs(mem, c->g[0], true, c->seed, draw), (void **)r->narrow, c->stop, e);
  return s;
}

static void round_as_before(void *was) { fesetround(*(const int *)was); }

// Moves each constant that its double does not represent exactly, such as 0.1, to an adjacent double. In the first two turns it moves in the
// direction of rounding. In the others, a hash chooses the direction of each constant, and turns 2 and 3 are opposite.
static void nudge(struct graph *g, int turn, uint64_t *number)
{
  for (int i = 0; i < g->nnodes; i++) {
    struct node *n = &g->nodes[i];
    const double x = n->a.scalar, parts = ldexp(x, 20);
    if (n->sub) nudge(n->sub, turn, number);
    if (!(op_rows[n->op].attrs & A_SCALAR) || parts == floor(parts)) continue;
    const bool up = ((turn < 2 ? 0 : hash_mix(0, ++*number)) ^ (uint64_t)turn) & 1;
    n->a.scalar = nextafter(x, up ? INFINITY : -INFINITY);
  }
}

// Sets every result to NaN, because an index is not defined.
static void undefine(struct arena *mem, const struct compared *c, double **out)
{
  for (int i = 0; i < c->nout; i++) {
    const struct tensor *t = &c->g[0]->tensors[c->outs[i]];
    out[i] = tensor_room(mem, t, sizeof **out);
    for (int64_t k = 0, n = shape_size(&t->shape); k < n; k++) out[i][k] = NAN;
  }
}

static int turn_one(struct arena *mem, const struct compared *c, int side, void *const *in, int w, struct runs *r, struct err *e)
{
  struct undo undo;
  struct graph *g = graph_copy(mem, c->g[side]);
  struct err index = {0};
  uint64_t number = 0;
  int was = fegetround();
  if (w != CLOSE) nudge(g, w, &number);
  r->turned[w] = NEWS(mem, double *, c->nout + 1);
  undo_push(&undo, round_as_before, &was);
  if (w != CLOSE) fesetround(w % 2 ? FE_UPWARD : FE_DOWNWARD);
  int s = eval_run_on(c->threads, mem, g, w == CLOSE ? DOM_CLOSE : DOM_F64, NULL, in, (void **)r->turned[w], c->stop, &index);
  undo_pop(&undo);
  round_as_before(&was);
  if (s && index.id == ERR_INDEX_RANGE) return undefine(mem, c, r->turned[w]), OK;
  return s ? (*e = index, s) : OK;
}

static int turn(struct arena *mem, const struct compared *c, int side, int draw, struct runs *r, struct err *e)
{
  void *const *wide = inputs(mem, c->g[0], false, c->seed, draw);
  for (int w = 0; w < TURNS; w++) TRY(turn_one(mem, c, side, wide, w, r, e));
  return OK;
}

static bool counts(const struct runs *x, const struct runs *y, int i, int64_t k)
{
  return isfinite(x->wide[i][k]) && isfinite(y->wide[i][k]) && isfinite(x->narrow[i][k]) && isfinite(y->narrow[i][k]);
}

// Largest difference of output i that rounding explains.
static double tolerance(const struct runs *x, const struct runs *y, int i, int64_t n)
{
  double error = 0, most = 0;
  for (int64_t k = 0; k < n; k++) {
    if (!counts(x, y, i, k)) continue;
    error = fmax(error, fmax(fabs(x->wide[i][k] - x->narrow[i][k]), fabs(y->wide[i][k] - y->narrow[i][k])));
    most = fmax(most, fmax(fabs(x->wide[i][k]), fabs(y->wide[i][k])));
  }
  return FACTOR * error + LEAST * most;
}

// Whether element k keeps its value under all roundings. Rounding moves a value near a jump of a comparison or a floor to the other side.
static bool stands(const struct runs *x, int i, int64_t k, double most)
{
  for (int w = 0; w < TURNS; w++)
    if (!(fabs(x->turned[w][i][k] - x->wide[i][k]) <= most)) return false;
  return true;
}

// NO: no element differs.
static int differs(struct arena *mem, struct compared *c, int draw, struct runs *x, struct runs *y, struct err *e)
{
  for (int i = 0; i < c->nout; i++) {
    int64_t n = shape_size(&c->g[0]->tensors[c->outs[i]].shape);
    double most = tolerance(x, y, i, n);
    for (int64_t k = 0; k < n; k++) {
      if (!counts(x, y, i, k)) continue;
      const bool apart = fabs(x->wide[i][k] - y->wide[i][k]) > most;
      if (apart && !x->turned[0]) {
        TRY(turn(mem, c, 0, draw, x, e));
        TRY(turn(mem, c, 1, draw, y, e));
      }
      if (!apart)
        c->seen[i]++;
      else if (stands(x, i, k, most) && stands(y, i, k, most))
        return *c->where = (struct verify_place){i, k}, OK;
    }
  }
  return NO;
}

static bool enough(const struct compared *c, int64_t elements)
{
  for (int i = 0; i < c->nout; i++)
    if (c->seen[i] < elements) return false;
  return true;
}

// Runs draws until every output has enough compared elements, and at least two.
static enum numbers compare(struct arena *mem, struct compared *c, struct err *e)
{
  int64_t ops = work_ops(c->g[0]) + work_ops(c->g[1]), draws = KINDS + MIN(MOST_DRAWS - KINDS, CHEAP / MAX(1, ops));
  for (int draw = 0; draw < draws; draw++) {
    struct arena_mark mark = arena_mark(mem);
    struct runs x = {0}, y = {0};
    if (evaluate(mem, c, 0, draw, &x, e) || evaluate(mem, c, 1, draw, &y, e)) return NUMBERS_BROKEN;
    const int apart = differs(mem, c, draw, &x, &y, e);
    if (apart != NO) return apart == OK ? NUMBERS_DIFFER : NUMBERS_BROKEN;
    arena_reset(mem, mark);
    if (draw && enough(c, draws > KINDS ? ENOUGH : 1)) return NUMBERS_AGREE;
  }
  return enough(c, 1) ? NUMBERS_AGREE : NUMBERS_UNKNOWN;
}

enum numbers real_compare(const struct graph *a, const struct graph *b, uint64_t seed, int threads, stop_flag stop, struct verify_place *where,
                          struct err *e)
{
  struct arena mem = {0};
  struct compared c = {{a, b}, seed, threads, stop, .nout = graph_outputs(a, NULL), .where = where};
  c.outs = NEWS(&mem, int, c.nout + 1), c.seen = NEWS(&mem, int64_t, c.nout + 1);
  graph_outputs(a, c.outs);
  enum numbers r = compare(&mem, &c, e);
  arena_close(&mem);
  return r;
}
