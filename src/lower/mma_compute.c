// Values as specs over fragments: elementwise operators, reductions over columns, accumulators. Sums that are only accumulated stay in parts, one for
// each lane of a quad, until after the loop.
#include "lower/mma.h"

#include <math.h>

// A computed value has its own shape. A load gets the shape of the result, or its full shape if it is reduced.
struct mma_shape mma_wanted(const struct mma_plan *p, int value, int i)
{
  const struct kern_value *n = mma_at(p, value);
  int x = n->in[i];
  struct mma_shape s = p->shape[value];
  if (!mma_loads(p, x)) return p->shape[x];
  if (n->kind == KERN_MAP || n->kind == KERN_SPREAD) return s;
  uint32_t letters = mma_has(p, x) & ~p->row_letters;
  int cols = letters ? mma_cols_with(p, letters) : -1;
  if (cols >= 0) s.cols = cols;
  return s;
}

static const char *operand(struct mma_kernel *k, int value, int i) { return mma_value(k, mma_at(k->p, value)->in[i], mma_wanted(k->p, value, i)); }

static void set(struct mma_kernel *k, const char *out, double x) { text_line(k->t, "%%%s <- Init<%#.9g>()", out, x); }

// ---- elementwise ----

// 2^x. If exponentials limit the loop, one tile of columns out of `poly` computes them by multiplications instead of the special-function unit.
static void powers(struct mma_kernel *k, const struct kern_value *v, const char *out, const char *x, struct mma_shape s)
{
  const struct mma_plan *p = k->p;
  int nt = s.cols >= 0 ? p->cols[s.cols].nt : 1, every = p->poly;
  if (!every || nt % every || v->a.scalar != 1 || k->section != MMA_LOOP) {
    emit_map(k->t, v, out, x, NULL);
    return;
  }
  TEXT_SCOPE(k->t);
  text_open(k->t, "each m:%d n:%d", s.rows ? p->mt : 1, nt / every);
  for (int e = 0; e < every; e++) {
    const char *at = arena_printf(k->mem, "[m, n * %d + %d]", every, e);
    emit_unary(k->t, e == every - 1 ? "exp2.poly" : "exp2.approx", arena_printf(k->mem, "%s%s", out, at), arena_printf(k->mem, "%s%s", x, at));
  }
}

static void apply(struct mma_kernel *k, int value)
{
  const struct mma_plan *p = k->p;
  const struct kern_value *v = mma_at(p, value);
  const char *x = operand(k, value, 0), *y = v->nin > 1 ? operand(k, value, 1) : NULL;
  const char *out = k->reg[value] = mma_declare(k, p->shape[value], "fp32");
  if (v->op == KERN_EXP2)
    powers(k, v, out, x, p->shape[value]);
  else
    emit_map(k->t, v, out, x, y);
}

static bool same_shape(struct mma_shape a, struct mma_shape b) { return a.rows == b.rows && a.cols == b.cols; }

// A mask that some blocks' rows do not add.
static void added(struct mma_kernel *k)
{
  const struct mma_plan *p = k->p;
  int value = p->hidden.added;
  const char *out = mma_declare(k, p->shape[value], "fp32");
  set(k, out, 0);
  text_open(k->t, "if (@adds > 0) {");
  struct mma_known known = mma_remember(k);
  for (int v = 0; v <= value; v++)
    if (p->added[v]) apply(k, v);
  text_line(k->t, "%%%s <- Move(%%%s)", out, k->reg[value]);
  text_close(k->t);
  mma_forget(k, &known), k->reg[value] = out;
}

// The masked score. Indices are compared only in iterations that have masked elements.
static void hide(struct mma_kernel *k, int value)
{
  const struct mma_plan *p = k->p;
  int shown = p->hidden.shown;
  bool branch = same_shape(p->shape[shown], p->shape[value]) && !mma_loads(p, shown);
  const char *x = branch ? mma_value(k, shown, p->shape[value]) : NULL, *out = branch ? mma_declare(k, p->shape[value], "fp32") : NULL;
  if (branch) text_line(k->t, "%%%s <- Move(%%%s)", out, x), text_open(k->t, "if (%s) {", mma_partly_hidden(k));
  struct mma_known known = mma_remember(k);
  if (p->hidden.more >= 0 && p->added[p->hidden.added]) added(k);
  for (int v = 0; v < value; v++)
    if (p->own[v] && !p->added[v]) apply(k, v);
  apply(k, value);
  if (!branch) return;
  text_line(k->t, "%%%s <- Move(%%%s)", out, k->reg[value]);
  text_close(k->t);
  mma_forget(k, &known), k->reg[value] = out;
}

static void map(struct mma_kernel *k, int value)
{
  if (k->p->folded[value] || mma_joined(k->p, value)) return;
  (k->p->may_hide && value == k->p->hidden.root ? hide : apply)(k, value);
}

static void spread(struct mma_kernel *k, int value)
{
  const char *x = operand(k, value, 0), *out = k->reg[value] = mma_declare(k, k->p->shape[value], "fp32");
  set(k, out, 0);
  emit_binary(k->t, "+", out, out, x);
}

// ---- reductions ----

// Reduces over this thread's columns. Even and odd tiles are reduced separately first, which gives independent chains.
static const char *reduce_thread(struct mma_kernel *k, const char *op, const char *x, struct mma_shape s)
{
  const struct mma_plan *p = k->p;
  const char *some = arena_printf(k->mem, "v%d", k->t->fresh++), *one;
  mma_mask(k, x, s, *op == 'm' ? "-inf" : "0.0");
  int nt = s.cols >= 0 ? p->cols[s.cols].nt : 1, chains = MIN(nt, 2);
  const struct hole *holes =
      HOLES(NULL, STR(some, some), STR(x, x), STR(op, op), INT(mt, p->mt), INT(nt, nt), INT(chains, chains), INT(more, nt > chains));
  text_fill(k->t,
            "%$some:[$mt, $chains].[2, 1].[1, 2].fp32.RF\n"
            "each m:$mt\n"
            "each n:$chains\n"
            "%$some[m, n] <- Move(%$x[m, n])\n"
            "}\n"
            "?more for (n = $chains; n < $nt; n += 1) unroll {\n"
            "?more %$some[m, n % $chains] <- BinaryPointwise<$op>(%$some[m, n % $chains], %$x[m, n])",
            holes);
  one = mma_declare(k, (struct mma_shape){s.rows, -1}, "fp32");
  text_line(k->t, "%%%s <- Reduction<%s>(%%%s)", one, op, some);
  return one;
}

static void reduce_quad(struct mma_kernel *k, const char *op, const char *x) { text_line(k->t, "%%%s <- Reduction<%s>#quad(%%%s)", x, op, x); }

static void reduce(struct mma_kernel *k, int value)
{
  const struct kern_value *v = mma_at(k->p, value);
  if (mma_sums_parts(k->p, value)) {
    k->reg[value] = mma_load_parts(k, value);
    return;
  }
  struct mma_shape in = mma_wanted(k->p, value, 0);
  const char *out = k->reg[value] = reduce_thread(k, fold_operator(v->kind), operand(k, value, 0), in);
  reduce_quad(k, fold_operator(v->kind), out);
  if (in.cols >= 0 && k->p->cols[in.cols].split) mma_combine(k, out, k->p->shape[value], fold_operator(v->kind), false);
}

// ---- accumulators ----

int mma_running(const struct mma_plan *p, int like, enum kern_kind kind)
{
  const struct kern_value *x = mma_at(p, like);
  for (int v = 0; v < p->k.nvalues; v++)
    if (p->k.v[v].live && p->k.v[v].kind == kind && p->k.v[v].in[0] == x->in[0] && p->k.v[v].folded == x->folded) return v;
  return -1;
}

// The final maximum is the last running maximum, if that exists.
int mma_last_of(const struct mma_plan *p, int v) { return mma_at(p, v)->kind == KERN_MAX ? mma_running(p, v, KERN_RUN_MAX) : -1; }

void mma_declare_accumulators(struct mma_kernel *k)
{
  const struct mma_plan *p = k->p;
  for (int i = 0; i < p->norder; i++) {
    int v = p->order[i];
    const struct kern_value *x = mma_at(p, v);
    if (!mma_accumulates(p, v) || mma_last_of(p, v) >= 0) continue;
    text_about(k->t, x->about);
    k->reg[v] = mma_declare(k, p->shape[v], "fp32");
    set(k, k->reg[v], kern_has(x, KERN_LARGEST) ? -INFINITY : 0);
  }
  text_about(k->t, 0);
}

// The running maximum, and its change.
static void run(struct mma_kernel *k, int value)
{
  int move = mma_running(k->p, value, KERN_RUN_MOVE);
  const char *top = k->reg[value], *x = operand(k, value, 0), *now = mma_declare(k, k->p->shape[value], "fp32");
  emit_binary(k->t, "max", now, top, x);
  if (move >= 0) emit_binary(k->t, "-", k->reg[move], top, now);
  text_line(k->t, "%%%s <- Move(%%%s)", top, now);
  if (move < 0) return;
  text_open(k->t, "if (it == 0) {");
  set(k, k->reg[move], 0);
  text_close(k->t);
}

static void accumulate(struct mma_kernel *k, int value)
{
  const struct mma_plan *p = k->p;
  const struct kern_value *v = mma_at(p, value);
  if (v->kind == KERN_RUN_MAX) run(k, value);
  if (kern_has(v, KERN_KEEPS) || mma_last_of(p, value) >= 0) return;
  const char *sum = k->reg[value], *x;
  if (v->kind == KERN_RESCALE) emit_binary(k->t, "*", sum, sum, operand(k, value, 1));
  for (int i = 0; i < p->nproducts; i++)
    if (p->product[i].into == value) mma_product_emit(k, &p->product[i], sum);
  if (mma_adds_products(p, value)) return;
  x = operand(k, value, 0);
  if (mma_gone(p, value)) x = reduce_thread(k, fold_operator(v->kind), x, mma_wanted(p, value, 0));
  emit_binary(k->t, fold_operator(v->kind), sum, sum, x);
}

static void finish(struct mma_kernel *k, int value)
{
  const struct mma_plan *p = k->p;
  const struct kern_value *v = mma_at(p, value);
  struct mma_shape s = p->shape[value];
  if (mma_last_of(p, value) >= 0) k->reg[value] = k->reg[mma_last_of(p, value)];
  if (mma_partial(p, value)) k->reg[value] = mma_combine(k, k->reg[value], s, "+", s.cols >= 0 && p->cols[s.cols].split_after);
  if (!mma_gone(p, value) || mma_last_of(p, value) >= 0) return;
  reduce_quad(k, fold_operator(v->kind), k->reg[value]);
  if (p->cols[mma_wanted(p, value, 0).cols].split) mma_combine(k, k->reg[value], s, fold_operator(v->kind), false);
}

// Combines values that warps have in parts. Afterwards they are whole, or split by other columns.
void mma_finish_accumulators(struct mma_kernel *k)
{
  struct mma_plan *p = arena_copy(k->mem, k->p, sizeof *p);
  if (p->wn > 1) mma_meet(k); // shared memory of the loop may be reused
  for (int i = 0; i < p->norder; i++)
    if (mma_accumulates(p, p->order[i])) text_about(k->t, mma_at(p, p->order[i])->about), finish(k, p->order[i]);
  text_about(k->t, 0);
  k->p = p;
  for (int c = 0; c < p->ncols; c++)
    if (p->cols[c].split_after) p->cols[c].split = true, p->cols[c].nt /= p->wn;
  for (int v = 0; v < p->k.nvalues; v++) // loads are repeated
    if (mma_loads(p, v) && k->reg[v] && k->have[v].cols >= 0 && p->cols[k->have[v].cols].split_after) k->reg[v] = NULL;
}

// ---- any value ----

// Starts loads of vectors that are needed right after a product, so that they are in flight while it runs.
static void fetch_vectors(struct mma_kernel *k, int out)
{
  const struct mma_plan *p = k->p;
  for (int i = 0; i < p->norder; i++) {
    int v = p->order[i];
    const struct kern_value *x = mma_at(p, v);
    for (int j = 0; j < 2 && x->kind == KERN_MAP && x->nin > 1 && p->section[v] == k->section; j++) {
      int other = x->in[1 - j];
      bool vector = mma_loads(p, other) && p->tile_of[other] < 0 && !(mma_has(p, other) & p->row_letters);
      if (x->in[j] == out && vector) operand(k, v, 1 - j);
    }
  }
}

static void product(struct mma_kernel *k, int value)
{
  const struct mma_product *x = mma_product_at(k->p, value);
  if (x->into >= 0) return; // computed with its accumulator
  if (k->p->iterations == 1) fetch_vectors(k, x->out);
  const char *joined = x->joins >= 0 ? k->reg[x->joins] : NULL, *out = joined ? joined : mma_declare(k, k->p->shape[x->out], "fp32");
  if (!k->p->wg && !joined) set(k, out, 0);
  mma_product_emit(k, x, out);
  if (mma_sums_part(k->p, x)) out = mma_combine(k, out, k->p->shape[x->out], "+", false);
  k->reg[x->out] = out;
  if (x->joins >= 0) k->reg[x->joins] = out;
}

static void constant(struct mma_kernel *k, int value)
{
  k->reg[value] = mma_declare(k, (struct mma_shape){false, -1}, "fp32");
  set(k, k->reg[value], mma_at(k->p, value)->a.scalar);
}

static void (*const computes[KERN_KINDS])(struct mma_kernel *, int) = {
    [KERN_CONST] = constant, [KERN_MAP] = map, [KERN_SPREAD] = spread, [KERN_PRODUCT] = product, [KERN_SUM] = reduce, [KERN_MAX] = reduce};

void mma_compute(struct mma_kernel *k, int value)
{
  const struct kern_value *v = mma_at(k->p, value);
  TEXT_ABOUT(k->t, v->about);
  (mma_accumulates(k->p, value) ? accumulate : computes[v->kind])(k, value);
}
