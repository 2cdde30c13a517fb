// Atoms: an instruction, the loops that repeat it, its guards, and the order of reductions. A loop that indexes registers
// is fully unrolled, because the compiler keeps an array in registers only if all its indices are constants.
#include "cuda/cu_print.h"

#include <string.h>

enum { UNROLL_MOST = 64 }; // most pieces of an unrolled loop that indexes no registers

void cu_var(struct printer *w, ex var, const char *name)
{
  int64_t number = ex_node(w->s.p->ex, var)->c;
  if (number >= w->vars_room) {
    int room = (int)number + 64;
    w->vars = arena_grow(w->s.mem, w->vars, sizeof *w->vars * (size_t)w->vars_room, sizeof *w->vars * (size_t)room);
    for (int i = w->vars_room; i < room; i++) w->vars[i] = NULL;
    w->vars_room = room;
  }
  w->vars[number] = name;
}

void cu_unroll(struct printer *w)
{
  w->unrolls = true;
  c_line(&w->s, "#pragma unroll");
}

static bool indexes_registers(const struct printer *w, const struct tile_atom *a)
{
  for (int i = 0; i < a->nout + a->nin; i++)
    if (w->s.k->buffers[a->operand[i].buf].mem == MEM_RF) return true;
  return false;
}

static void loop_open(struct printer *w, const struct tile_atom *a, int mode, ex *modes)
{
  static const char *const names[TILE_MODES] = {"i", "j", "m", "n", "u", "v", "x", "y"};
  int64_t pieces = 1;
  for (int i = 0; i < a->nmodes; i++) pieces *= a->extent[i];
  modes[mode] = ex_var(w->s.p->ex, "", 0, a->extent[mode] - 1, 1);
  const char *name = c_name(&w->s, names[mode], "i");
  cu_var(w, modes[mode], name);
  if (indexes_registers(w, a) || pieces <= UNROLL_MOST) cu_unroll(w);
  c_line(&w->s, "for (int %s = 0; %s < %lld; %s++) {", name, name, (long long)a->extent[mode], name);
  w->s.depth++;
}

static void loop_close(struct printer *w)
{
  w->s.depth--;
  c_line(&w->s, "}");
}

static struct cuda_piece piece_of(struct printer *w, const struct tile_atom *a, const ex *modes)
{
  struct cuda_piece q = {.atom = a, .modes = modes};
  for (int i = 0; i < a->nout + a->nin; i++) {
    q.index[i] = c_index(&w->s, &a->operand[i], modes, a->nmodes);
    q.inside[i] = c_guard(&w->s, &a->operand[i], modes, a->nmodes);
  }
  return q;
}

static bool guard_open(struct printer *w, const struct cuda_piece *q)
{
  if (!q->atom->nout || q->inside[0] == EX_C(1)) return false;
  c_line(&w->s, "if (%s) {", cu_value(w, q->inside[0], L_ANY));
  w->s.depth++;
  return true;
}

// A warp reduction: starts with the thread's own value, then combines it with that of another lane, one lane distance after the other.
static int over_threads(struct printer *w, struct cuda_piece *q)
{
  const char *to = cu_first(w, q, 0), *from = cu_first(w, q, 1);
  c_line(&w->s, "%s = %s;", to, from);
  int status = OK;
  for (int i = 0; i < q->atom->nsteps && status == OK; i++) {
    q->step = q->atom->step[i];
    status = cu_piece(w, q);
  }
  return status;
}

static int one(struct printer *w, const struct tile_atom *a, const ex *modes)
{
  struct cuda_piece q = piece_of(w, a, modes);
  bool guarded = guard_open(w, &q);
  bool steps = a->row->sem == SEM_REDUCE_WARP && strstr(a->row->text, "$s");
  int status = steps ? over_threads(w, &q) : cu_piece(w, &q);
  if (guarded) loop_close(w);
  return status;
}

// Prints loops over modes [from, to), the last one outermost, around the text that `inside` prints.
static int nest(struct printer *w, const struct tile_atom *a, int from, int to, ex *modes,
                int (*inside)(struct printer *w, const struct tile_atom *a, ex *modes))
{
  int open = 0;
  for (int i = to - 1; i >= from; i--) {
    modes[i] = EX_C(0);
    if (a->extent[i] > 1) loop_open(w, a, i, modes), open++;
  }
  int status = inside(w, a, modes);
  while (open-- > 0) loop_close(w);
  return status;
}

static int each(struct printer *w, const struct tile_atom *a, ex *modes) { return one(w, a, modes); }

static int folded(struct printer *w, const struct tile_atom *a, ex *modes)
{
  for (int i = 0; i < a->nreduce; i++) modes[i] = EX_C(0);
  struct cuda_piece q = piece_of(w, a, modes);
  bool guarded = guard_open(w, &q);
  c_line(&w->s, "%s = %s;", cu_first(w, &q, 0), cu_init(w, &q));
  if (guarded) loop_close(w);
  return nest(w, a, 0, a->nreduce, modes, each);
}

// ---- registers of wgmma ----
// wgmma reads and writes registers asynchronously until the wait. The compiler does not know this. It could read them
// before the wait, or move their initialization behind the fence. An empty asm statement with the registers as operands
// prevents both. A buffer needs none after the first wait for all that follows its last use. Without this end, a kernel
// of 20 products in a row has 800 such statements of 64 registers, and compiling it takes three times as long.

static bool is_wgmma_operand(const struct printer *w, int buf)
{
  for (int i = 0; i < w->s.k->nspecs; i++) {
    const struct tile_atom *a = w->s.k->specs[i].atom;
    for (int j = 0; a && a->row->sem == SEM_WGMMA && j < a->nout + a->nin; j++)
      if (a->operand[j].buf == buf) return true;
  }
  return false;
}

static bool has_view(const struct tile_kernel *k, const int *views, int n, int buf)
{
  for (int i = 0; i < n; i++)
    if (k->views[views[i]].buf == buf) return true;
  return false;
}

// Whether the statement, or one inside, uses the buffer.
static bool uses(const struct tile_kernel *k, int stmt, int buf)
{
  const struct tile_stmt *st = &k->stmts[stmt];
  if (st->kind == STMT_SPEC && has_view(k, k->specs[st->spec].out, k->specs[st->spec].nout, buf)) return true;
  if (st->kind == STMT_SPEC && has_view(k, k->specs[st->spec].in, k->specs[st->spec].nin, buf)) return true;
  if (st->kind == STMT_LET && st->view >= 0 && k->views[st->view].buf == buf) return true;
  for (int i = st->body; i >= 0; i = k->stmts[i].next)
    if (uses(k, i, buf)) return true;
  for (int i = st->other; i >= 0; i = k->stmts[i].next)
    if (uses(k, i, buf)) return true;
  return false;
}

static bool waits_for_all(const struct tile_kernel *k, int stmt)
{
  const struct tile_stmt *st = &k->stmts[stmt];
  const struct tile_spec *s = st->kind == STMT_SPEC ? &k->specs[st->spec] : NULL;
  return s && s->atom && s->atom->row->sem == SEM_WGMMA_WAIT && s->nargs && ex_is_const(s->arg[0]) && ex_value(s->arg[0]) == 0;
}

void cu_hold(struct printer *w, int buf, int stmt)
{
  const struct tile_kernel *k = w->s.k;
  int last = stmt;
  if (!is_wgmma_operand(w, buf)) return;
  for (int i = k->stmts[stmt].next; i >= 0; i = k->stmts[i].next)
    if (uses(k, i, buf)) last = i;
  while (last >= 0 && !waits_for_all(k, last)) last = k->stmts[last].next;
  PUSH(w->s.mem, w->held, w->nheld, w->held_cap) = (struct cuda_held){buf, last};
}

void cu_free(struct printer *w, int stmt)
{
  int n = 0;
  for (int i = 0; i < w->nheld; i++)
    if (w->held[i].last != stmt) w->held[n++] = w->held[i];
  w->nheld = n;
}

static void hold_all(struct printer *w)
{
  for (int i = 0; i < w->nheld; i++) c_line(&w->s, "mica_hold(%s);", w->s.buffers[w->held[i].buf]);
}

int cu_atom(struct printer *w, const struct tile_spec *s)
{
  const struct tile_atom *a = s->atom;
  ex modes[TILE_MODES] = {0};
  int taken = w->s.ntaken;
  if (a->row->sem == SEM_WGMMA_FENCE) hold_all(w);
  int status = a->row->sem == SEM_REDUCE ? nest(w, a, a->nreduce, a->nmodes, modes, folded) : nest(w, a, 0, a->nmodes, modes, each);
  if (a->row->sem == SEM_WGMMA_WAIT) hold_all(w);
  w->s.ntaken = taken;
  return status;
}
