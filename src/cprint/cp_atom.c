// Specs that each lane does alone. An atom is loops around pieces, a piece is loops around elements. Normally these loops
// are inside the loop over lanes. If only registers take part, they are around it, so that the innermost loop runs over
// the lanes of a register row and can be vectorized.
#include "cprint/cp_print.h"

enum { SMALL = 4 }; // most elements that are printed without a loop

// ---- indices ----

ex cp_index(struct cprint *c, const struct tile_operand *o, const struct tile_atom *a, const ex *modes)
{
  return c_index(&c->w, o, modes, a->nmodes);
}

const char *cp_register(struct cprint *c, int buf, ex index)
{
  if (c->home[buf] == HOME_BLOCK) c->touched[buf] = true;
  return arena_printf(c->w.mem, "%s[%s]", c->w.buffers[buf], cp_value(c, index, L_ANY));
}

static const char *swizzled(struct cprint *c, int buf, ex index)
{
  struct swizzle s = c->w.k->buffers[buf].swizzle;
  const char *at = cp_value(c, index, L_ANY);
  return s.bits ? arena_printf(c->w.mem, "mica_swizzle(%s, %d, %d, %d)", at, s.bits, s.base, s.shift) : at;
}

const char *cp_element(struct cprint *c, const struct tile_operand *o, ex index)
{
  if (c->w.k->buffers[o->buf].mem != MEM_RF) c->touched[o->buf] = true;
  if (c->w.k->buffers[o->buf].mem != MEM_RF) return arena_printf(c->w.mem, "%s[%s]", c->w.buffers[o->buf], swizzled(c, o->buf, index));
  const char *row = cp_register(c, o->buf, index);
  return c->home[o->buf] == HOME_LANE ? row : arena_printf(c->w.mem, "%s[%s]", row, c->lx);
}

const char *cp_order(struct cprint *c, const struct tile_operand *o, int n)
{
  struct str s = {0};
  for (int i = 0; i < n; i++) str_add(&s, "%s%lld", i ? ", " : "", (long long)lay_call(&o->inner, i));
  const char *text = arena_printf(c->w.mem, "(const int[]){%s}", str_text(&s));
  str_free(&s);
  return text;
}

// ---- loops ----

// Opens a loop with a counter from 0 to n - 1; the counter is in scope until cp_shut.
static ex counted(struct cprint *c, const char *own, int64_t n)
{
  ex i = ex_var(cp_pool(c), "", 0, n - 1, 1);
  int mark = c->w.ntaken;
  const char *name = c_name(&c->w, own, "i");
  c_line(&c->w, "for (int64_t %s = 0; %s < %lld; %s++) {", name, name, (long long)n, name);
  cp_open_from(c, mark);
  cp_define(c, i, name, V_BLOCK);
  return i;
}

int cp_modes_open(struct cprint *c, const struct tile_atom *a, int from, int to, ex *modes)
{
  static const char *const names[TILE_MODES] = {"i", "j", "m", "n", "u", "v", "x", "y"};
  int opened = 0;
  for (int i = to - 1; i >= from; i--) {
    modes[i] = EX_C(0);
    if (a->extent[i] > 1) modes[i] = counted(c, names[i], a->extent[i]), opened++;
  }
  return opened;
}

void cp_modes_close(struct cprint *c, int opened)
{
  while (opened-- > 0) cp_shut(c);
}

// ---- elements ----

struct cp_piece {
  const struct tile_atom *a;
  ex index[TILE_OPERANDS], inside[TILE_OPERANDS];
  const char *at[TILE_OPERANDS]; // index of the first element in swizzled memory; NULL otherwise
  int width;
};

static enum tile_type type_of(const struct cprint *c, const struct cp_piece *q, int o) { return c->w.k->buffers[q->a->operand[o].buf].type; }

// An element of an operand; inputs outside of the tensor read as zero.
static const char *element(struct cprint *c, const struct cp_piece *q, int o, ex v)
{
  const struct tile_operand *op = &q->a->operand[o];
  const char *name = c->w.buffers[op->buf], *text = !q->at[o]      ? cp_element(c, op, ex_add(cp_pool(c), q->index[o], v))
                                                    : v == EX_C(0) ? arena_printf(c->w.mem, "%s[%s]", name, q->at[o])
                                                                   : arena_printf(c->w.mem, "%s[%s + %s]", name, q->at[o], cp_value(c, v, L_SUM));
  if (o < q->a->nout || q->inside[o] == EX_C(1)) return text;
  return arena_printf(c->w.mem, "(%s ? %s : 0)", cp_value(c, q->inside[o], L_EITHER), text);
}

// Element v of two vectors one after the other, from number n on.
static const char *shifted(struct cprint *c, const struct cp_piece *q, ex v)
{
  ex at = ex_add(cp_pool(c), q->a->arg, v), second = ex_sub(cp_pool(c), at, EX_C(q->width));
  return arena_printf(c->w.mem, "(%s ? %s : %s)", cp_value(c, ex_lt(cp_pool(c), at, EX_C(q->width)), L_EITHER), element(c, q, 1, at),
                      element(c, q, 2, second));
}

static const char *result(struct cprint *c, const struct cp_piece *q, ex v)
{
  if (q->a->row->sem == SEM_SHIFT) return shifted(c, q, v);
  const struct tile_atom *a = q->a;
  const char *x[TILE_OPERANDS];
  enum tile_type t[TILE_OPERANDS];
  for (int i = 0; i < a->nout + a->nin; i++) x[i] = element(c, q, i, v), t[i] = type_of(c, q, i);
  enum sem sem = a->row->sem;
  if (sem == SEM_MOVE) return x[1];
  if (sem == SEM_INIT) return cp_constant(c, t[0], a->value);
  if (sem == SEM_INDEX) return arena_printf(c->w.mem, "(%s)(%s)", cp_type(t[0]), cp_value(c, a->arg, L_ANY));
  if (sem == SEM_UNARY) return cp_unary(c, a->op, t[1], x[1], t[0]);
  if (sem == SEM_BINARY && a->row->sum) return cp_keep(c, t[0], x[1], x[2], x[0]);
  if (sem == SEM_BINARY) return cp_binary(c, a->op, t[0], x[1], x[2]);
  if (sem == SEM_FMA) return cp_fma(c, t[1], x[1], x[2], t[0], x[0]);
  return cp_binary(c, a->op, t[0], x[0], cp_unary(c, UN_CAST, t[1], x[1], t[0])); // SEM_REDUCE
}

static void atomic(struct cprint *c, const struct cp_piece *q, ex v)
{
  bool old = q->a->row->sem == SEM_ATOM;
  const char *call = arena_printf(c->w.mem, "%s(&%s, %s)", cp_atomic(c, q->a->op, type_of(c, q, 0)),
                                  cp_element(c, &q->a->operand[old], ex_add(cp_pool(c), q->index[old], v)), element(c, q, old + 1, v));
  if (old)
    c_line(&c->w, "%s = %s;", element(c, q, 0, v), call);
  else
    c_line(&c->w, "%s;", call);
}

static void one(struct cprint *c, const struct cp_piece *q, ex v)
{
  if (q->a->row->sem == SEM_RED || q->a->row->sem == SEM_ATOM) {
    atomic(c, q, v);
    return;
  }
  const char *value = result(c, q, v);
  c_line(&c->w, "%s = %s;", element(c, q, 0, v), value);
}

static void elements(struct cprint *c, const struct cp_piece *q)
{
  if (q->width <= SMALL) {
    for (int i = 0; i < q->width; i++) one(c, q, EX_C(i));
    return;
  }
  ex v = counted(c, "e", q->width);
  one(c, q, v);
  cp_shut(c);
}

// Copies bytes if neither operand is in registers.
static bool copy(struct cprint *c, const struct cp_piece *q)
{
  const struct tile_atom *a = q->a;
  enum sem sem = a->row->sem;
  if (sem != SEM_CP_ASYNC && sem != SEM_MOVE) return false;
  for (int i = 0; i < 2; i++)
    if (c->w.k->buffers[a->operand[i].buf].mem == MEM_RF) return false;
  const char *to = cp_element(c, &a->operand[0], q->index[0]), *from = cp_element(c, &a->operand[1], q->index[1]);
  int bytes = q->width * tile_types[type_of(c, q, 0)].bytes;
  if (q->inside[1] == EX_C(1)) {
    c_line(&c->w, "memcpy(&%s, &%s, %d);", to, from, bytes);
    return true;
  }
  c_line(&c->w, "if (%s)", cp_value(c, q->inside[1], L_ANY));
  c_line(&c->w, "  memcpy(&%s, &%s, %d);", to, from, bytes);
  c_line(&c->w, "else");
  c_line(&c->w, "  memset(&%s, 0, %d);", to, bytes);
  return true;
}

static void places(struct cprint *c, struct cp_piece *q)
{
  for (int i = 0; i < q->a->nout + q->a->nin; i++) {
    const struct tile_buffer *b = &c->w.k->buffers[q->a->operand[i].buf];
    if (!b->swizzle.bits || q->width == 1) continue;
    const char *at = swizzled(c, q->a->operand[i].buf, q->index[i]);
    c->touched[q->a->operand[i].buf] = true;
    q->at[i] = c_name(&c->w, "at", "at");
    c_line(&c->w, "const int64_t %s = %s;", q->at[i], at);
  }
}

static struct cp_piece piece_of(struct cprint *c, const struct tile_atom *a, const ex *modes)
{
  struct cp_piece q = {.a = a, .width = a->width > 0 ? a->width : 1};
  for (int i = 0; i < a->nout + a->nin; i++) {
    q.index[i] = cp_index(c, &a->operand[i], a, modes);
    q.inside[i] = c_guard(&c->w, &a->operand[i], modes, a->nmodes);
  }
  return q;
}

static void piece(struct cprint *c, const struct tile_atom *a, const ex *modes)
{
  struct cp_piece q = piece_of(c, a, modes);
  ex inside = a->nout ? q.inside[0] : EX_C(1);
  if (a->row->sem == SEM_ATOM) inside = ex_both(cp_pool(c), inside, q.inside[1]);
  bool guarded = inside != EX_C(1);
  if (guarded) {
    c_line(&c->w, "if (%s) {", cp_value(c, inside, L_ANY));
    cp_open(c);
  }
  if (!copy(c, &q)) {
    places(c, &q);
    elements(c, &q);
  }
  if (guarded) cp_shut(c);
}

static void start(struct cprint *c, const struct tile_atom *a, const ex *modes)
{
  struct cp_piece q = piece_of(c, a, modes);
  const char *to = element(c, &q, 0, EX_C(0)), *value = cp_constant(c, type_of(c, &q, 0), a->value);
  if (q.inside[0] == EX_C(1))
    c_line(&c->w, "%s = %s;", to, value);
  else
    c_line(&c->w, "if (%s) %s = %s;", cp_value(c, q.inside[0], L_ANY), to, value);
}

// ---- by lane ----

// For few registers: prints one line for each element, so that the enclosing loop over lanes can be vectorized.
static void written_out(struct cprint *c, const struct tile_atom *a)
{
  int64_t at[TILE_MODES] = {0};
  for (bool done = false; !done;) {
    ex modes[TILE_MODES] = {0};
    bool first = a->row->sem == SEM_REDUCE;
    for (int m = 0; m < a->nmodes; m++) modes[m] = EX_C(at[m]);
    for (int m = 0; m < a->nreduce && first; m++) first = !at[m];
    if (first) start(c, a, modes);
    piece(c, a, modes);
    done = true;
    for (int m = 0; m < a->nmodes && done; m++) {
      at[m] = (at[m] + 1) % a->extent[m];
      done = !at[m];
    }
  }
}

static int64_t all_elements(const struct tile_atom *a)
{
  int64_t n = a->width > 0 ? a->width : 1;
  for (int m = 0; m < a->nmodes; m++) n *= a->extent[m];
  return n;
}

static void by_lane(struct cprint *c, const struct tile_atom *a)
{
  ex modes[TILE_MODES] = {0};
  if (a->row->sem == SEM_FENCE_GPU) {
    c_line(&c->w, "__atomic_thread_fence(__ATOMIC_SEQ_CST);");
    return;
  }
  if (all_elements(a) <= SMALL && cp_vector(c, a)) {
    written_out(c, a);
    return;
  }
  int folds = a->row->sem == SEM_REDUCE ? a->nreduce : 0, outer = cp_modes_open(c, a, folds, a->nmodes, modes);
  if (a->row->sem == SEM_REDUCE) start(c, a, modes);
  int inner = cp_modes_open(c, a, 0, folds, modes);
  piece(c, a, modes);
  cp_modes_close(c, inner + outer);
}

// ---- by warp: registers alone ----

static void lanes_of(struct cprint *c, const struct tile_atom *a, const ex *modes, ex v, bool first)
{
  struct cp_piece q = piece_of(c, a, modes);
  for (int i = 0; i < a->nout + a->nin; i++) cp_known(c, q.index[i]);
  int opened = cp_lanes_open(c, true);
  if (first)
    start(c, a, modes);
  else
    one(c, &q, v);
  cp_lanes_close(c, opened);
}

static void by_warp(struct cprint *c, const struct tile_atom *a)
{
  ex modes[TILE_MODES] = {0}, v = EX_C(0);
  int width = a->width > 0 ? a->width : 1;
  int folds = a->row->sem == SEM_REDUCE ? a->nreduce : 0, opened = cp_modes_open(c, a, folds, a->nmodes, modes);
  if (a->row->sem == SEM_REDUCE) {
    for (int i = 0; i < folds; i++) modes[i] = EX_C(0);
    lanes_of(c, a, modes, v, true);
  }
  opened += cp_modes_open(c, a, 0, folds, modes);
  if (width > 1) v = counted(c, "e", width), opened++;
  lanes_of(c, a, modes, v, false);
  cp_modes_close(c, opened);
}

int cp_atom(struct cprint *c, const struct tile_spec *s)
{
  for (int i = 0; i < s->atom->nmodes; i++)
    if (s->atom->extent[i] <= 0) return OK;
  cp_prepare(c, s->atom);
  if (c->by == BY_LANE)
    by_lane(c, s->atom);
  else
    by_warp(c, s->atom);
  return OK;
}
