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
// prevents both.

void cu_hold(struct printer *w, int buf)
{
  for (int i = 0; i < w->s.k->nspecs; i++) {
    const struct tile_atom *a = w->s.k->specs[i].atom;
    for (int j = 0; a && a->row->sem == SEM_WGMMA && j < a->nout + a->nin; j++) {
      if (a->operand[j].buf != buf) continue;
      PUSH(w->s.mem, w->held, w->nheld, w->held_cap) = buf;
      return;
    }
  }
}

static void hold_all(struct printer *w)
{
  for (int i = 0; i < w->nheld; i++) c_line(&w->s, "mica_hold(%s);", w->s.buffers[w->held[i]]);
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
