// Levels of statements (lane, warp or block), and the storage of their registers. A table gives the level of each
// instruction's semantics. Semantics without a row wait for concurrent threads, and are refused.
#include "cprint/cp_print.h"

static const struct how hows[] = {
    [SEM_MOVE] = {.known = true},
    [SEM_SHIFT] = {.known = true},
    [SEM_CP_ASYNC] = {.known = true},
    [SEM_FMA] = {.known = true},
    [SEM_UNARY] = {.known = true},
    [SEM_BINARY] = {.known = true},
    [SEM_INIT] = {.known = true},
    [SEM_INDEX] = {.known = true},
    [SEM_REDUCE] = {.known = true},
    [SEM_RED] = {.known = true},
    [SEM_ATOM] = {.known = true},
    [SEM_FENCE_GPU] = {.known = true},
    [SEM_LDMATRIX] = {BY_WARP, true, false, cp_matrices},
    [SEM_STMATRIX] = {BY_WARP, true, false, cp_matrices},
    [SEM_MMA] = {BY_WARP, true, false, cp_product},
    [SEM_SHFL] = {BY_WARP, true, false, cp_shuffle},
    [SEM_REDUCE_WARP] = {BY_WARP, true, false, cp_reduce_warp},
    [SEM_SYNCWARP] = {BY_WARP, true, true},
    [SEM_BARRIER] = {BY_BLOCK, true, true},
    [SEM_CP_COMMIT] = {BY_LANE, true, true}, // copies are synchronous here
    [SEM_CP_WAIT] = {BY_LANE, true, true},
    [SEM_FENCE_BLOCK] = {BY_LANE, true, true},
    [SEM_FENCE_ASYNC] = {BY_LANE, true, true}, // orders accesses of the async proxy, which is not used here
    [SEM_PREFETCH] = {BY_LANE, true, true},    // has no effect on results
    [SEM_GRID_WAIT] = {BY_LANE, true, true},   // kernels run one after another
    [SEM_GRID_TRIGGER] = {BY_LANE, true, true},
};

const struct how *cp_how(enum sem sem)
{
  static const struct how none = {0};
  return (size_t)sem < COUNT(hows) ? &hows[sem] : &none;
}

static enum by reach_all(struct cprint *c, int stmt)
{
  enum by most = BY_LANE;
  for (int i = stmt; i >= 0; i = c->w.k->stmts[i].next) {
    enum by r = cp_reach(c, i);
    most = MAX(most, r);
  }
  return most;
}

enum by cp_reach(struct cprint *c, int stmt)
{
  const struct tile_stmt *st = &c->w.k->stmts[stmt];
  if (st->kind == STMT_IF && ex_is_const(st->cond)) return reach_all(c, st->cond != EX_C(0) ? st->body : st->other);
  if (st->kind == STMT_SPEC && !c->w.k->specs[st->spec].decomposed) {
    const struct tile_atom *a = c->w.k->specs[st->spec].atom;
    enum by by = a ? cp_how(a->row->sem)->by : BY_LANE;
    return by == BY_BLOCK && c->warps == 1 ? BY_WARP : by;
  }
  enum by body = reach_all(c, st->body), other = reach_all(c, st->other);
  return MAX(body, other);
}

// ---- refusals ----

static int refuse(struct cprint *c, struct loc at, const char *what, const char *why)
{
  int s = err_set(c->w.e, ERR_TILE, at, "C for the CPU: %s: %s", what, why);
  err_hint(c->w.e, "`mica tile run` executes it in the interpreter");
  return s;
}

static int refuse_spec(struct cprint *c, const struct tile_stmt *st, const struct tile_spec *s)
{
  struct str text = {0};
  tile_spec_text(c->w.p, c->w.k, st->spec, &text);
  const char *what = arena_printf(c->w.mem, "%.100s", str_text(&text));
  str_free(&text);
  if (!s->atom) return refuse(c, st->at, what, "was not lowered");
  if (!cp_how(s->atom->row->sem)->known)
    return refuse(c, st->at, what,
                  arena_printf(c->w.mem, "%s needs parts of a block, or an engine beside it, that run at the same time", s->atom->row->name));
  for (int i = 0; i < s->atom->nout + s->atom->nin; i++)
    if (c->w.k->views[s->atom->operand[i].view].peer != EX_C(-1))
      return refuse(c, st->at, what, "memory of another block of the cluster, which runs at the same time");
  return OK;
}

static int refuse_all(struct cprint *c, int stmt)
{
  int status = OK;
  for (int i = stmt; i >= 0 && status == OK; i = c->w.k->stmts[i].next) {
    const struct tile_stmt *st = &c->w.k->stmts[i];
    const struct tile_spec *s = st->kind == STMT_SPEC ? &c->w.k->specs[st->spec] : NULL;
    if (s && !s->decomposed && s->kind != SPEC_ALLOCATE) status = refuse_spec(c, st, s);
    bool decided = st->kind == STMT_IF && ex_is_const(st->cond);
    if (status == OK && !(decided && st->cond == EX_C(0))) status = refuse_all(c, st->body);
    if (status == OK && !(decided && st->cond != EX_C(0))) status = refuse_all(c, st->other);
  }
  return status;
}

int cp_refuse(struct cprint *c)
{
  if (c->w.k->cluster > 1) return refuse(c, c->w.k->at, c->w.k->name, "a cluster, whose blocks run at the same time");
  return refuse_all(c, c->w.k->body);
}

// ---- registers ----

static bool plain(struct cprint *c, ex x) { return cp_varies(c, x) <= V_WARP; }

bool cp_vector(struct cprint *c, const struct tile_atom *a)
{
  enum sem sem = a->row->sem;
  if (sem == SEM_SHIFT || sem == SEM_CP_ASYNC || sem == SEM_RED || sem == SEM_ATOM || sem == SEM_FENCE_GPU) return false;
  for (int i = 0; i < a->nout + a->nin; i++) {
    const struct tile_operand *o = &a->operand[i];
    if (c->w.k->buffers[o->buf].mem != MEM_RF || o->nguards || !plain(c, o->offset)) return false;
    for (int m = 0; m < a->nmodes; m++)
      if (!plain(c, o->stride[m])) return false;
  }
  return true;
}

enum { USED = 1, MADE = 2 };

static void mark(const struct tile_kernel *k, int buf, int how, uint8_t *marks)
{
  if (k->buffers[buf].mem == MEM_RF) marks[buf] |= (uint8_t)how;
}

static void marks_of(struct cprint *c, int stmt, uint8_t *marks) // marks the registers of a statement and its bodies
{
  const struct tile_kernel *k = c->w.k;
  const struct tile_stmt *st = &k->stmts[stmt];
  if (st->kind == STMT_ALLOC) mark(k, k->views[st->view].buf, MADE, marks);
  if (st->kind == STMT_LET && st->view >= 0) mark(k, k->views[st->view].buf, USED, marks);
  if (st->kind == STMT_SPEC) {
    const struct tile_spec *s = &k->specs[st->spec];
    for (int i = 0; s->atom && i < s->atom->nout + s->atom->nin; i++) mark(k, s->atom->operand[i].buf, USED, marks);
  }
  for (int i = st->body; i >= 0; i = k->stmts[i].next) marks_of(c, i, marks);
  for (int i = st->other; i >= 0; i = k->stmts[i].next) marks_of(c, i, marks);
}

bool cp_used_later(struct cprint *c, int stmt, int buf)
{
  const struct tile_kernel *k = c->w.k;
  uint8_t *marks = NEWS(c->w.mem, uint8_t, k->nbuffers + 1);
  for (int i = k->stmts[stmt].next; i >= 0; i = k->stmts[i].next) marks_of(c, i, marks);
  return marks[buf] & USED;
}

bool cp_private(struct cprint *c, int from, int to)
{
  const struct tile_kernel *k = c->w.k;
  uint8_t *marks = NEWS(c->w.mem, uint8_t, k->nbuffers + 1), *later = NEWS(c->w.mem, uint8_t, k->nbuffers + 1);
  for (int i = from;; i = k->stmts[i].next) {
    if (k->stmts[i].kind == STMT_LET && k->stmts[i].view >= 0 && k->stmts[to].next >= 0) return false; // the value may be used later
    marks_of(c, i, marks);
    if (i == to) break;
  }
  for (int i = k->stmts[to].next; i >= 0; i = k->stmts[i].next) marks_of(c, i, later);
  for (int b = 0; b < k->nbuffers; b++)
    if (marks[b] == USED || ((marks[b] & MADE) && (later[b] & USED))) return false;
  return true;
}
