// Statements at the levels of block, warp and lane. Each level prints one loop around a run of statements that need only
// the level below. A barrier, or a statement that the warps do together, ends a run. Registers that only one run uses are
// local to its loop.
#include "cprint/cp_print.h"

static const struct tile_stmt *stmt_at(const struct cprint *c, int i) { return &c->w.k->stmts[i]; }
static const struct tile_spec *atom_at(const struct cprint *c, int i) // NULL if it is not a spec without a body
{
  const struct tile_stmt *st = stmt_at(c, i);
  const struct tile_spec *s = st->kind == STMT_SPEC ? &c->w.k->specs[st->spec] : NULL;
  return s && !s->decomposed && s->atom ? s : NULL;
}
static bool silent(const struct cprint *c, int i)
{
  const struct tile_stmt *st = stmt_at(c, i);
  const struct tile_spec *s = atom_at(c, i);
  bool allocates = st->kind == STMT_SPEC && c->w.k->specs[st->spec].kind == SPEC_ALLOCATE;
  bool names = st->kind == STMT_VIEW || st->kind == STMT_GROUP || (st->kind == STMT_LET && st->view < 0);
  return names || allocates || (s && cp_how(s->atom->row->sem)->silent);
}

static bool works(const struct cprint *c, int from, int to) // does any of these statements have an effect?
{
  for (int i = from; i >= 0; i = stmt_at(c, i)->next) {
    const struct tile_stmt *st = stmt_at(c, i);
    bool inside = works(c, st->body, -1) || works(c, st->other, -1);
    if (inside || (atom_at(c, i) && !silent(c, i)) || (st->kind == STMT_LET && st->view >= 0)) return true;
    if (i == to) break;
  }
  return false;
}

static void spec_comment(struct cprint *c, int i)
{
  if (stmt_at(c, i)->kind != STMT_SPEC || c->w.k->specs[stmt_at(c, i)->spec].kind == SPEC_ALLOCATE) return;
  struct str text = {0};
  tile_spec_text(c->w.p, c->w.k, stmt_at(c, i)->spec, &text);
  c_comment(&c->w, str_text(&text));
  str_free(&text);
}

// ---- by lane ----

static int lane_one(struct cprint *c, int i)
{
  const struct tile_stmt *st = stmt_at(c, i);
  const struct tile_spec *s = atom_at(c, i);
  spec_comment(c, i);
  if (st->kind == STMT_ALLOC) cp_allocate(c, i);
  if (st->kind == STMT_LET && st->view >= 0) return cp_value_of(c, st, false);
  if (st->kind == STMT_FOR) return cp_loop(c, st);
  if (st->kind == STMT_IF) return cp_condition(c, st);
  if (s) return silent(c, i) ? OK : cp_atom(c, s);
  if (st->kind != STMT_SPEC || st->body < 0) return OK;
  c_line(&c->w, "{");
  return cp_inner(c, st->body);
}

static int lane_list(struct cprint *c, int from, int to)
{
  int status = OK;
  for (int i = from; i >= 0 && status == OK; i = stmt_at(c, i)->next) {
    status = lane_one(c, i);
    if (i == to) break;
  }
  return status;
}

int cp_lanes_open(struct cprint *c, bool vectors)
{
  if (vectors) c_line(&c->w, "MICA_LANES");
  c_line(&c->w, "for (int64_t %s = 0; %s < %lld; %s++) {", c->lx, c->lx, (long long)c->lanes, c->lx);
  cp_open(c);
  c->by = BY_LANE;
  if (!ex_is_const(c->lane)) cp_define(c, c->lane, c->lx, V_LANE);
  if (!c->nguards) return 1;
  c_line(&c->w, "if (%s) {", cp_value(c, cp_guards(c), L_ANY));
  cp_open(c);
  return 2;
}

void cp_lanes_close(struct cprint *c, int opened)
{
  while (opened-- > 0) cp_shut(c);
  c->by = BY_WARP;
}

// ---- by warp ----

static void prepare_run(struct cprint *c, int from, int to)
{
  for (int i = from;; i = stmt_at(c, i)->next) {
    if (atom_at(c, i)) cp_prepare(c, atom_at(c, i)->atom);
    if (i == to) break;
  }
}

static int lane_run(struct cprint *c, int from, int to, bool vectors)
{
  if (!works(c, from, to)) {
    for (int i = from;; i = stmt_at(c, i)->next) {
      spec_comment(c, i);
      if (i == to) return OK;
    }
  }
  prepare_run(c, from, to);
  int opened = cp_lanes_open(c, vectors), status = lane_list(c, from, to);
  cp_lanes_close(c, opened);
  return status;
}

// The last statement of the run from i on that lanes do alone and that satisfies `fits`, if given. -1: statement i is not one.
static int run_end(struct cprint *c, int i, int to, bool (*fits)(struct cprint *c, int i))
{
  int end = -1;
  for (; i >= 0; i = stmt_at(c, i)->next) {
    if (cp_reach(c, i) != BY_LANE || (fits && !fits(c, i))) break;
    end = i;
    if (i == to) break;
  }
  return end;
}

// Must the statement be inside the loop over lanes as a whole?
static bool scattered(struct cprint *c, int i)
{
  const struct tile_stmt *st = stmt_at(c, i);
  if (silent(c, i)) return true;
  if (st->kind == STMT_IF) return cp_varies(c, st->cond) == V_LANE;
  if (st->kind == STMT_FOR) return MAX(MAX(cp_varies(c, st->from), cp_varies(c, st->to)), cp_varies(c, st->step)) == V_LANE;
  return atom_at(c, i) && !cp_vector(c, atom_at(c, i)->atom);
}

enum { COST_OF_CALLS = 10 }; // least cost of operators that call a library function

// Does the statement compute few registers without a call? Several such statements share a loop over lanes.
static bool small(struct cprint *c, int i)
{
  if (silent(c, i)) return true;
  const struct tile_spec *s = atom_at(c, i);
  if (!s || !cp_vector(c, s->atom)) return false;
  int64_t n = s->atom->width > 0 ? s->atom->width : 1;
  for (int m = 0; m < s->atom->nmodes; m++) n *= s->atom->extent[m];
  static const double cost[UN_COUNT] = {
#define UNARY_OP(id, name, value, cost) [UN_##id] = cost,
#define BINARY_OP(id, name, value)
#include "tile/pointwise.def"
#undef UNARY_OP
#undef BINARY_OP
  };
  return n <= 4 && !(s->atom->row->sem == SEM_UNARY && cost[s->atom->op] >= COST_OF_CALLS);
}

static int warp_one(struct cprint *c, int i)
{
  const struct tile_stmt *st = stmt_at(c, i);
  const struct tile_spec *s = atom_at(c, i);
  if (st->kind == STMT_ALLOC) cp_allocate(c, i);
  if (st->kind == STMT_LET && st->view >= 0) return cp_value_of(c, st, cp_var(c, st->vars[0])->array);
  if (st->kind == STMT_FOR) {
    enum varies v = MAX(MAX(cp_varies(c, st->from), cp_varies(c, st->to)), cp_varies(c, st->step));
    return v == V_LANE ? cp_divergent(c, st, "the lanes of a warp") : cp_loop(c, st);
  }
  if (st->kind == STMT_IF) return cp_varies(c, st->cond) == V_LANE ? cp_both_guarded(c, st) : cp_condition(c, st);
  if (st->kind != STMT_SPEC) return OK;
  spec_comment(c, i);
  if (s && silent(c, i)) return OK;
  if (s) return cp_how(s->atom->row->sem)->warp ? cp_how(s->atom->row->sem)->warp(c, s) : cp_atom(c, s);
  if (st->body < 0) return OK;
  c_line(&c->w, "{");
  return cp_inner(c, st->body);
}

static int warp_list(struct cprint *c, int from, int to)
{
  int status = OK;
  for (int i = from; i >= 0 && status == OK;) {
    int end = run_end(c, i, to, NULL);
    if (end < 0 || !cp_private(c, i, end)) end = run_end(c, i, to, scattered);
    bool vectors = end < 0;
    if (vectors) end = run_end(c, i, to, small);
    status = end >= 0 ? lane_run(c, i, end, vectors) : warp_one(c, i);
    int last = end >= 0 ? end : i;
    i = last == to ? -1 : stmt_at(c, last)->next;
  }
  return status;
}

// ---- by block ----

static void rows(struct cprint *c) // declares the register rows that this warp uses
{
  for (int b = 0; b < c->w.k->nbuffers; b++) {
    if (!c->touched[b] || c->w.k->buffers[b].mem != MEM_RF) continue;
    c->touched[b] = false;
    const char *name = c->w.buffers[b];
    c_line(&c->w, "%s (*const %s)[32] = %s->%s[%s];", cp_type(c->w.k->buffers[b].type), name, c->m, name, c->wx);
  }
}

// Prints guards that differ only between warps around the code of the warp. Guards that differ between lanes stay for the code of the lanes.
static int warp_guards(struct cprint *c, ex *kept, int *nkept)
{
  int n = 0, opened = 0;
  *nkept = c->nguards;
  for (int i = 0; i < c->nguards; i++) {
    kept[i] = c->guard[i];
    if (cp_varies(c, kept[i]) == V_LANE) {
      c->guard[n++] = kept[i];
      continue;
    }
    c_line(&c->w, "if (%s) {", cp_value(c, kept[i], L_ANY));
    cp_open(c), opened++;
  }
  c->nguards = n;
  return opened;
}

static int warp_run(struct cprint *c, int from, int to)
{
  struct str body = {0}, *out = c->w.out;
  ex kept[TILE_NESTING];
  int nkept;
  c->w.out = &body, c->by = BY_WARP;
  cp_open(c);
  if (!ex_is_const(c->warp)) cp_define(c, c->warp, c->wx, V_WARP);
  int guards = warp_guards(c, kept, &nkept), status = warp_list(c, from, to);
  while (guards-- > 0) cp_shut(c);
  for (int i = 0; i < nkept; i++) c->guard[i] = kept[i];
  c->nguards = nkept;
  cp_close(c);
  c->w.out = out, c->by = BY_BLOCK;
  if (c->warps > 1)
    c_line(&c->w, "for (int64_t %s = 0; %s < %lld; %s++) {", c->wx, c->wx, (long long)c->warps, c->wx);
  else
    c_line(&c->w, "{");
  c->w.depth++;
  rows(c);
  c->w.depth--;
  str_raw(c->w.out, str_text(&body), body.n);
  c_line(&c->w, "}");
  str_free(&body);
  return status;
}

static bool block_value(struct cprint *c, int i)
{
  const struct tile_stmt *st = stmt_at(c, i);
  return st->kind == STMT_LET && st->view >= 0 && cp_value_varies(c, st) == V_BLOCK;
}

// Allocates in the memory of the block what the run defines and later statements use.
static int settle(struct cprint *c, int i, int end)
{
  const struct tile_stmt *st = stmt_at(c, i);
  bool local = st->kind == STMT_ALLOC && !cp_used_later(c, end, c->w.k->views[st->view].buf);
  if (st->kind == STMT_ALLOC && !local) cp_allocate(c, i);
  if (st->kind != STMT_LET || st->view < 0 || ex_is_const(st->vars[0])) return OK;
  const char *name = c_name(&c->w, ex_node(cp_pool(c), st->vars[0])->name, "v");
  str_add(&c->fields, "  int64_t %s[%lld][32];\n", name, (long long)c->warps);
  cp_define(c, st->vars[0], arena_printf(c->w.mem, "%s->%s[%s][%s]", c->m, name, c->wx, c->lx), V_LANE);
  cp_var(c, st->vars[0])->array = true;
  return OK;
}

static int block_one(struct cprint *c, int i)
{
  const struct tile_stmt *st = stmt_at(c, i);
  if (st->kind == STMT_LET) return cp_value_of(c, st, false);
  if (st->kind == STMT_FOR) {
    enum varies v = MAX(MAX(cp_varies(c, st->from), cp_varies(c, st->to)), cp_varies(c, st->step));
    return v != V_BLOCK ? cp_divergent(c, st, "the threads of a block") : cp_loop(c, st);
  }
  if (st->kind == STMT_IF && !ex_is_const(st->cond) && cp_varies(c, st->cond) != V_BLOCK) return cp_both_guarded(c, st);
  if (st->kind == STMT_IF) return cp_condition(c, st);
  spec_comment(c, i);
  return st->body >= 0 ? cp_block(c, st->body) : OK;
}

static int block_list(struct cprint *c, int from)
{
  int status = OK;
  for (int i = from; i >= 0 && status == OK;) {
    int end = -1;
    for (int j = i; j >= 0 && cp_reach(c, j) != BY_BLOCK && !block_value(c, j); j = stmt_at(c, j)->next) end = j;
    for (int j = i; end >= 0; j = stmt_at(c, j)->next) {
      settle(c, j, end);
      if (j == end) break;
    }
    if (end >= 0 && works(c, i, end))
      status = warp_run(c, i, end);
    else if (end >= 0)
      for (int j = i;; j = stmt_at(c, j)->next) {
        if (silent(c, j)) spec_comment(c, j);
        if (j == end) break;
      }
    else
      status = block_one(c, i);
    i = stmt_at(c, end >= 0 ? end : i)->next;
  }
  return status;
}

int cp_block(struct cprint *c, int stmt)
{
  if (c->by == BY_BLOCK) return block_list(c, stmt);
  return c->by == BY_WARP ? warp_list(c, stmt, -1) : lane_list(c, stmt, -1);
}
