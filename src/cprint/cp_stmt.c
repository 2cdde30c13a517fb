// Statements that are the same at every level: allocations, loops, conditions, values of elements. A condition that differs
// between threads becomes a guard inside the loops over threads. A loop whose bounds differ between threads is refused.
#include "cprint/cp_print.h"

enum { STACK = 1 << 16 }; // most bytes of a register buffer that is local to a loop

void cp_allocate(struct cprint *c, int i)
{
  int buf = c->w.k->views[c->w.k->stmts[i].view].buf;
  const struct tile_buffer *b = &c->w.k->buffers[buf];
  const char *type = cp_type(b->type);
  if (c->home[buf] != HOME_NONE) return; // already allocated at the level of the block
  if (b->mem != MEM_RF) return;          // declared at the head of the function
  long long n = ex_value(b->elements);
  bool large = b->bytes * c->lanes > STACK;
  c->home[buf] = c->by == BY_BLOCK || large ? HOME_BLOCK : c->by == BY_WARP ? HOME_WARP : HOME_LANE;
  const char *own = large && c->by != BY_BLOCK ? arena_printf(c->w.mem, "%s_%d", b->name ? b->name : "t", buf) : b->name;
  const char *name = c->w.buffers[buf] = c_name(&c->w, own, "t");
  if (c->home[buf] == HOME_LANE) c_line(&c->w, "_Alignas(16) %s %s[%lld];", type, name, n);
  if (c->home[buf] == HOME_WARP) c_line(&c->w, "_Alignas(64) %s %s[%lld][32];", type, name, n);
  if (c->home[buf] == HOME_BLOCK) str_add(&c->fields, "  _Alignas(64) %s %s[%lld][%lld][32];\n", type, name, (long long)c->warps, n);
}

int cp_inner(struct cprint *c, int stmt)
{
  cp_open(c);
  int status = stmt >= 0 ? cp_block(c, stmt) : OK;
  cp_shut(c);
  return status;
}

int cp_loop(struct cprint *c, const struct tile_stmt *st)
{
  const char *from = cp_value(c, st->from, L_ANY), *to = cp_value(c, st->to, L_SHIFT), *step = cp_value(c, st->step, L_ANY);
  enum varies v = cp_varies(c, st->from), w = cp_varies(c, st->step);
  int mark = c->w.ntaken;
  const char *name = c_name(&c->w, ex_node(cp_pool(c), st->var)->name, "i");
  c_line(&c->w, "for (int64_t %s = %s; %s < %s; %s += %s) {", name, from, name, to, name, step);
  cp_open_from(c, mark);
  cp_define(c, st->var, name, c->by == BY_LANE ? V_LANE : MAX(v, w));
  int status = cp_block(c, st->body);
  cp_shut(c);
  cp_var(c, st->var)->varies = V_LANE;
  return status;
}

int cp_condition(struct cprint *c, const struct tile_stmt *st)
{
  if (ex_is_const(st->cond)) { // decided by the sizes: only one branch is printed, in braces that limit the scope of its names
    int taken = st->cond != EX_C(0) ? st->body : st->other;
    if (taken < 0) return OK;
    c_line(&c->w, "{");
    return cp_inner(c, taken);
  }
  c_line(&c->w, "if (%s) {", cp_value(c, st->cond, L_ANY));
  int status = cp_inner(c, st->body);
  if (status == OK && st->other >= 0) {
    c_line(&c->w, "else {");
    status = cp_inner(c, st->other);
  }
  return status;
}

static int guarded(struct cprint *c, const struct tile_stmt *st, ex cond, int stmt)
{
  if (stmt < 0) return OK;
  if (c->nguards == TILE_NESTING) return err_set(c->w.e, ERR_LIMIT, st->at, "conditions are nested too deep");
  c->guard[c->nguards++] = cond;
  c_line(&c->w, "{");
  int status = cp_inner(c, stmt);
  c->nguards--;
  return status;
}

int cp_both_guarded(struct cprint *c, const struct tile_stmt *st)
{
  int status = guarded(c, st, st->cond, st->body);
  return status ? status : guarded(c, st, ex_not(cp_pool(c), st->cond), st->other);
}

int cp_divergent(struct cprint *c, const struct tile_stmt *st, const char *what)
{
  int s = err_set(c->w.e, ERR_TILE, st->at,
                  "C for the CPU: the bounds of this loop differ between %s, and something in it is done by all of them together", what);
  err_hint(c->w.e, "let all run the same rounds, with a condition inside");
  return s;
}

// ---- values of elements ----

static const char *value_element(struct cprint *c, const struct tile_stmt *st)
{
  const struct tile_view *v = &c->w.k->views[st->view];
  struct tile_operand o = {.view = st->view, .buf = v->buf, .offset = v->offset};
  return cp_element(c, &o, v->offset);
}

enum varies cp_value_varies(struct cprint *c, const struct tile_stmt *st)
{
  const struct tile_view *v = &c->w.k->views[st->view];
  if (c->w.k->buffers[v->buf].mem == MEM_RF || c->nguards) return V_LANE;
  return cp_varies(c, v->offset);
}

// A scalar if the value is the same at this level, otherwise an array with one value for each lane. With `beyond` it is in the memory of the block.
int cp_value_of(struct cprint *c, const struct tile_stmt *st, bool beyond)
{
  if (ex_is_const(st->vars[0])) return OK;
  const char *own = ex_node(cp_pool(c), st->vars[0])->name;
  enum varies v = cp_value_varies(c, st), here = c->by == BY_BLOCK ? V_BLOCK : c->by == BY_WARP ? V_WARP : V_LANE;
  if (v <= here && !beyond) {
    const char *x = value_element(c, st), *name = c_name(&c->w, own, "v");
    c_line(&c->w, "const int64_t %s = %s;", name, x);
    cp_define(c, st->vars[0], name, c->by == BY_LANE ? V_LANE : v);
    return OK;
  }
  const char *name = arena_strdup(c->w.mem, beyond ? cp_var(c, st->vars[0])->text : c_name(&c->w, own, "v"));
  if (!beyond) {
    c_line(&c->w, "int64_t %s[32];", name);
    name = arena_printf(c->w.mem, "%s[%s]", name, c->lx);
    cp_define(c, st->vars[0], name, V_LANE), cp_var(c, st->vars[0])->array = true;
  }
  int opened = cp_lanes_open(c, false);
  c_line(&c->w, "%s = %s;", name, value_element(c, st));
  cp_lanes_close(c, opened);
  return OK;
}
