// Specs that the lanes of a warp do together. Shuffles and reductions use a row that is local to the statement. Matrix
// loads and products are functions of the prelude on rows of registers. A guard must be the same for all lanes of a
// group; that of the first lane is used.
#include "cprint/cp_print.h"

#include <string.h>

// ---- values of other lanes ----

static ex first_lane(struct cprint *c, const struct tile_spec *s) // first lane of this lane's group, as a number in the warp
{
  ex first = cp_full(c, c->w.k->groups[s->threads].offset);
  return ex_sub(cp_pool(c), first, ex_mul(cp_pool(c), EX_C(c->lanes), c->warp));
}

static struct tile_operand *operands(const struct tile_atom *a) { return (struct tile_operand *)a->operand; }

static enum tile_type type_of(const struct cprint *c, const struct tile_atom *a, int o) { return c->w.k->buffers[a->operand[o].buf].type; }

static const char *at(struct cprint *c, const struct tile_atom *a, int o, const ex *modes, int v)
{
  return cp_element(c, &operands(a)[o], ex_add(cp_pool(c), cp_index(c, &a->operand[o], a, modes), EX_C(v)));
}

// Declares a row with the input of every lane, and returns its name.
static const char *gathered(struct cprint *c, const struct tile_atom *a, const ex *modes, int v, const char *own)
{
  const char *row = c_name(&c->w, own, own);
  c_line(&c->w, "%s %s[32];", cp_type(type_of(c, a, 1)), row);
  c_line(&c->w, "for (int64_t %s = 0; %s < %lld; %s++) {", c->lx, c->lx, (long long)c->lanes, c->lx);
  cp_open(c), c->by = BY_LANE;
  if (!ex_is_const(c->lane)) cp_define(c, c->lane, c->lx, V_LANE);
  c_line(&c->w, "%s[%s] = %s;", row, c->lx, at(c, a, 1, modes, v));
  cp_shut(c), c->by = BY_WARP;
  return row;
}

static const char *source(struct cprint *c, const struct tile_spec *s)
{
  const struct tile_atom *a = s->atom;
  const char *op = a->row->op, *n = cp_value(c, a->arg, L_TERM), *first = cp_value(c, first_lane(c, s), L_TERM);
  const char *from = arena_printf(c->w.mem, "%s - %s", c->lx, first);
  const char *to = !strcmp(op, "bfly")   ? arena_printf(c->w.mem, "(%s) ^ %s", from, cp_value(c, a->arg, L_ATOM))
                   : !strcmp(op, "up")   ? arena_printf(c->w.mem, "%s - %s", from, n)
                   : !strcmp(op, "down") ? arena_printf(c->w.mem, "%s + %s", from, n)
                                         : n;
  return arena_printf(c->w.mem, "mica_source(%s, %s, %d, %s)", c->lx, first, MIN(a->lanes, 32), to);
}

int cp_shuffle(struct cprint *c, const struct tile_spec *s)
{
  const struct tile_atom *a = s->atom;
  ex modes[TILE_MODES] = {0};
  int opened = cp_modes_open(c, a, 0, a->nmodes, modes);
  c_line(&c->w, "{");
  cp_open(c);
  for (int v = 0; v < MAX(1, a->width); v++) {
    const char *row = gathered(c, a, modes, v, "from");
    int lanes = cp_lanes_open(c, false);
    c_line(&c->w, "%s = %s[%s];", at(c, a, 0, modes, v), row, source(c, s));
    cp_lanes_close(c, lanes);
  }
  cp_shut(c);
  cp_modes_close(c, opened);
  return OK;
}

// Combines each lane with the lane at a distance, one distance after the other, in the order of the GPU's instructions. All
// lanes of the group get the same bits.
static void steps(struct cprint *c, const struct tile_atom *a, const char *row)
{
  const char *other = c_name(&c->w, "other", "other"), *t = cp_type(type_of(c, a, 0));
  c_line(&c->w, "%s %s[32];", t, other);
  for (int i = 0; i < a->nsteps; i++) {
    const char *mine = arena_printf(c->w.mem, "%s[%s]", row, c->lx), *its = arena_printf(c->w.mem, "%s[%s]", other, c->lx);
    const char *head = arena_printf(c->w.mem, "for (int64_t %s = 0; %s < %lld; %s++)", c->lx, c->lx, (long long)c->lanes, c->lx);
    c_line(&c->w, "%s %s[%s] = %s[%s ^ %d];", head, other, c->lx, row, c->lx, a->step[i]);
    c_line(&c->w, "%s %s = %s;", head, mine, cp_binary(c, a->op, type_of(c, a, 0), mine, its));
  }
}

int cp_reduce_warp(struct cprint *c, const struct tile_spec *s)
{
  const struct tile_atom *a = s->atom;
  ex modes[TILE_MODES] = {0};
  int opened = cp_modes_open(c, a, 0, a->nmodes, modes);
  c_line(&c->w, "{");
  cp_open(c);
  const char *row = gathered(c, a, modes, 0, "all");
  steps(c, a, row);
  int lanes = cp_lanes_open(c, false);
  c_line(&c->w, "%s = %s[%s];", at(c, a, 0, modes, 0), row, c->lx);
  cp_lanes_close(c, lanes);
  cp_shut(c);
  cp_modes_close(c, opened);
  return OK;
}

// ---- statements that all lanes of a warp do, or none ----

static bool warp_open(struct cprint *c)
{
  if (!c->nguards) return false;
  const char *all = c_name(&c->w, "all", "all");
  c_line(&c->w, "int %s = 1;", all);
  c_line(&c->w, "for (int64_t %s = 0; %s < 1; %s++) {", c->lx, c->lx, c->lx);
  cp_open(c), c->by = BY_LANE;
  if (!ex_is_const(c->lane)) cp_define(c, c->lane, c->lx, V_LANE);
  c_line(&c->w, "%s = %s;", all, cp_value(c, cp_guards(c), L_ANY));
  cp_shut(c), c->by = BY_WARP;
  c_line(&c->w, "if (%s) {", all);
  cp_open(c);
  return true;
}

// ---- ldmatrix, stmatrix ----

int cp_matrices(struct cprint *c, const struct tile_spec *s)
{
  const struct tile_atom *a = s->atom;
  ex modes[TILE_MODES] = {0};
  bool load = a->row->sem == SEM_LDMATRIX;
  int m = load ? 1 : 0, r = load ? 0 : 1, n = a->row->n; // operands: memory, registers
  cp_prepare(c, a);
  bool guarded = warp_open(c);
  int opened = cp_modes_open(c, a, 0, a->nmodes, modes);
  c_line(&c->w, "{");
  cp_open(c);
  const char *row = c_name(&c->w, "row", "row");
  c_line(&c->w, "%suint16_t *%s[32];", load ? "const " : "", row);
  c_line(&c->w, "for (int64_t %s = 0; %s < %d; %s++) {", c->lx, c->lx, 8 * n, c->lx);
  cp_open(c), c->by = BY_LANE;
  cp_define(c, c->lane, c->lx, V_LANE);
  c_line(&c->w, "%s[%s] = &%s;", row, c->lx, at(c, a, m, modes, 0));
  cp_shut(c), c->by = BY_WARP;
  c_line(&c->w, "mica_%smatrix%s(%d, %s, &%s, %s);", load ? "ld" : "st", a->row->trans ? "_trans" : "", n, row,
         cp_register(c, a->operand[r].buf, cp_index(c, &a->operand[r], a, modes)), cp_order(c, &a->operand[r], 2 * n));
  cp_shut(c);
  cp_modes_close(c, opened);
  if (guarded) cp_shut(c);
  return OK;
}

// ---- products ----

// The fragments of an operand as rows of floats, [pieces][count][32], with a piece for each iteration of the loops that
// change it. So a fragment that several products use is widened once.
struct wide {
  const char *name;
  int64_t stride[TILE_MODES]; // in pieces
  int64_t pieces;
};

static const struct instr_operand *wanted(const struct instr *row, int o) { return o ? &row->in[o - 1] : &row->out[0]; }

static const char *piece_of(struct cprint *c, const struct tile_atom *a, const struct wide *x, const ex *modes)
{
  ex i = EX_C(0);
  for (int m = 0; m < a->nmodes; m++) i = ex_add(cp_pool(c), i, ex_mul(cp_pool(c), EX_C(x->stride[m]), modes[m]));
  return arena_printf(c->w.mem, "%s[%s]", x->name, cp_value(c, i, L_ANY));
}

static struct wide layout(const struct tile_atom *a, int o)
{
  struct wide x = {.pieces = 1};
  for (int m = 0; m < a->nmodes; m++) {
    if (a->operand[o].stride[m] == EX_C(0) || a->extent[m] <= 1) continue;
    x.stride[m] = x.pieces, x.pieces *= a->extent[m];
  }
  return x;
}

static void widen_row(struct cprint *c, const struct tile_atom *a, int o, const ex *modes, const char *to)
{
  const struct tile_operand *op = &a->operand[o];
  const char *from = cp_register(c, op->buf, cp_index(c, op, a, modes));
  int n = wanted(a->row, o)->count;
  c_line(&c->w, "mica_widen_%s(%d, %s, &%s, %s);", cp_type(type_of(c, a, o)) + 5, n, to, from, cp_order(c, op, n));
}

// Widens an operand: the left one to rows of lanes, the right one to rows of k, [pieces][k][8].
static struct wide widen(struct cprint *c, const struct tile_atom *a, int o, const char *own, bool right)
{
  struct wide x = layout(a, o);
  struct tile_atom only = *a;
  ex modes[TILE_MODES] = {0};
  int n = wanted(a->row, o)->count;
  x.name = c_name(&c->w, own, own);
  c_line(&c->w, "_Alignas(64) float %s[%lld][%d][%d];", x.name, (long long)x.pieces, right ? a->row->k : n, right ? 8 : 32);
  for (int m = 0; m < a->nmodes; m++)
    if (!x.stride[m]) only.extent[m] = 1;
  int opened = cp_modes_open(c, &only, 0, a->nmodes, modes);
  if (right) {
    c_line(&c->w, "{");
    cp_open(c);
    const char *rows = c_name(&c->w, "rows", "rows");
    c_line(&c->w, "_Alignas(64) float %s[%d][32];", rows, n);
    widen_row(c, a, o, modes, rows);
    c_line(&c->w, "mica_mma_right(%d, %s, %s);", a->row->k / 8, piece_of(c, a, &x, modes), rows);
    cp_shut(c);
  } else
    widen_row(c, a, o, modes, piece_of(c, a, &x, modes));
  cp_modes_close(c, opened);
  return x;
}

// A product m16n8 of one warp. Sums in fp32 are updated in place; others are widened before and rounded after.
static void warp_product(struct cprint *c, const struct tile_atom *a)
{
  ex modes[TILE_MODES] = {0};
  struct wide left = widen(c, a, 1, "left", false), right = widen(c, a, 2, "right", true);
  const struct tile_operand *o = &a->operand[0];
  int opened = cp_modes_open(c, a, 0, a->nmodes, modes), k = a->row->k / 8;
  enum tile_type t = type_of(c, a, 0);
  ex base = cp_index(c, o, a, modes);
  const char *l = piece_of(c, a, &left, modes), *r = piece_of(c, a, &right, modes), *s[4];
  for (int i = 0; i < 4; i++) s[i] = cp_register(c, o->buf, ex_add(cp_pool(c), base, EX_C(lay_call(&o->inner, i))));
  if (t == TT_F32)
    c_line(&c->w, "mica_mma(%d, %s, %s, %s, %s, %s, %s);", k, l, r, s[0], s[1], s[2], s[3]);
  else {
    const char *sum = c_name(&c->w, "sum", "sum");
    c_line(&c->w, "_Alignas(64) float %s[4][32];", sum);
    const char *rows = cp_register(c, o->buf, base), *order = cp_order(c, o, 4);
    c_line(&c->w, "mica_widen_%s(4, %s, &%s, %s);", cp_type(t) + 5, sum, rows, order);
    c_line(&c->w, "mica_mma(%d, %s, %s, %s[0], %s[1], %s[2], %s[3]);", k, l, r, sum, sum, sum, sum);
    c_line(&c->w, "mica_narrow_%s(4, &%s, %s, %s);", cp_type(t) + 5, rows, sum, order);
  }
  cp_modes_close(c, opened);
}

static const char *places(struct cprint *c, const struct tile_atom *a, int o)
{
  const struct instr_operand *w = wanted(a->row, o);
  struct str s = {0};
  for (int i = 0; i < w->count * a->row->threads; i++) str_add(&s, "%s%lld", i ? ", " : "", (long long)lay_call(&w->tv, i));
  const char *text = arena_printf(c->w.mem, "(const int[]){%s}", str_text(&s));
  str_free(&s);
  return text;
}

// The lanes of a group in the order of its layout, relative to the first.
static const char *members(struct cprint *c, const struct tile_group *g, int most, const char *first)
{
  int n = 1, list[32] = {0};
  for (int level = 0; level < g->nlevels; level++) {
    int64_t size = ex_value(lay_size((struct lay_ctx *)&c->w.p->lay, g->level[level]));
    int base = n;
    for (int64_t i = 1; i < size; i++)
      for (int j = 0; j < base && n < most; j++) list[n++] = list[j] + (int)lay_call(&g->level[level], i);
  }
  struct str s = {0};
  for (int i = 0; i < n; i++) str_add(&s, "%s(int)%s + %d", i ? ", " : "", first, list[i]);
  const char *text = arena_printf(c->w.mem, "%s", str_text(&s));
  str_free(&s);
  return text;
}

// A product of groups of fewer threads. The first lane of each group computes it for the group, if the guard holds.
static void team_product(struct cprint *c, const struct tile_spec *s)
{
  const struct tile_atom *a = s->atom;
  ex modes[TILE_MODES] = {0};
  struct wide left = widen(c, a, 1, "left", false), right = widen(c, a, 2, "right", false);
  const struct tile_operand *o = &a->operand[0];
  const struct instr *row = a->row;
  int n = row->out[0].count, opened = cp_modes_open(c, a, 0, a->nmodes, modes);
  int lanes = cp_lanes_open(c, false);
  const char *of = cp_value(c, first_lane(c, s), L_ANY);
  const char *first = c_name(&c->w, "first", "first"), *sum = c_name(&c->w, "sum", "sum"), *order = cp_order(c, o, n);
  c_line(&c->w, "const int64_t %s = %s;", first, of);
  c_line(&c->w, "if (%s != %s) continue;", first, c->lx);
  c_line(&c->w, "_Alignas(64) float %s[%d][32];", sum, n);
  const char *rows = cp_register(c, o->buf, cp_index(c, o, a, modes));
  c_line(&c->w, "mica_take(%d, %s, &%s, %s);", n, sum, rows, order);
  c_line(&c->w, "mica_mma_team(%d, %d, %d, %d, (const int[]){%s}, %s, %s, %s, %s, %s, %s);", row->m, row->n, row->k, row->threads,
         members(c, &c->w.k->groups[s->threads], row->threads, first), piece_of(c, a, &left, modes), places(c, a, 1), piece_of(c, a, &right, modes),
         places(c, a, 2), sum, places(c, a, 0));
  c_line(&c->w, "mica_give(%d, &%s, %s, %s);", n, rows, sum, order);
  cp_lanes_close(c, lanes);
  cp_modes_close(c, opened);
}

int cp_product(struct cprint *c, const struct tile_spec *s)
{
  bool warp = s->atom->row->threads == 32 && s->atom->row->m == 16 && s->atom->row->n == 8;
  cp_prepare(c, s->atom);
  bool guarded = warp && warp_open(c);
  c_line(&c->w, "{");
  cp_open(c);
  if (warp)
    warp_product(c, s->atom);
  else
    team_product(c, s);
  cp_shut(c);
  if (guarded) cp_shut(c);
  return OK;
}
