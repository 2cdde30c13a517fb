// Statements and their blocks; specs; and the small tables of the IR (types, memories, specs, operators).
#include "tile/build.h"

#include <string.h>

const char *const tile_mem_name[3] = {"GL", "SH", "RF"};
const struct spec_row tile_specs[SPEC_COUNT] = {
#define SPEC(id, name, least, most, outs, what) [SPEC_##id] = {name, least, most, outs, what},
#include "tile/spec.def"
#undef SPEC
};
const char *const unary_name[UN_COUNT] = {
#define UNARY_OP(id, name, value, cost) [UN_##id] = name,
#define BINARY_OP(id, name, value)
#include "tile/pointwise.def"
#undef UNARY_OP
#undef BINARY_OP
};
const char *const binary_name[BI_COUNT] = {
#define UNARY_OP(id, name, value, cost)
#define BINARY_OP(id, name, value) [BI_##id] = name,
#include "tile/pointwise.def"
#undef UNARY_OP
#undef BINARY_OP
};

bool in_body(const struct builder *b) { return b->nopen > 0; }

int stmt_add(struct builder *b, enum stmt_kind kind)
{
  struct tile_kernel *k = b->k;
  PUSH(b->p->mem, k->stmts, k->nstmts, k->cap[LIST_STMTS]) =
      (struct tile_stmt){.kind = kind, .at = b->at, .next = -1, .body = -1, .other = -1, .group = -1, .view = -1, .spec = -1};
  int i = k->nstmts - 1, parent = b->open[b->nopen].stmt, last = b->open[b->nopen].last;
  if (last >= 0)
    k->stmts[last].next = i;
  else if (parent < 0)
    k->body = i;
  else if (b->open[b->nopen].other)
    k->stmts[parent].other = i;
  else
    k->stmts[parent].body = i;
  b->open[b->nopen].last = i;
  return i;
}

static int block_open(struct builder *b, int stmt, bool other)
{
  if (b->nopen == TILE_NESTING) return build_error(b, "more than %d blocks within one another", TILE_NESTING);
  b->nopen++;
  b->open[b->nopen].stmt = stmt, b->open[b->nopen].last = -1, b->open[b->nopen].other = other;
  return OK;
}

static int needs_body(struct builder *b, const char *what)
{
  return in_body(b) ? OK : build_error(b, "%s stands in the body of the kernel's spec", what);
}

int build_let(struct builder *b, const char *name, ex value, ex *var)
{
  *var = value;
  if (ex_is_const(value)) return OK; // constants need no variable: tile sizes stay constant
  if (needs_body(b, "a definition")) return (int)b->e->status;
  struct ex_range r = ex_range(b->p->ex, value);
  *var = ex_var(b->p->ex, name, r.lo, r.hi, ex_multiple(b->p->ex, value));
  int s = stmt_add(b, STMT_LET);
  struct tile_stmt *st = &b->k->stmts[s];
  st->nvars = 1;
  st->vars = arena_copy(b->p->mem, var, sizeof *var), st->values = arena_copy(b->p->mem, &value, sizeof value);
  return OK;
}

int build_value(struct builder *b, const char *name, int view, ex *var)
{
  if (needs_body(b, "value()")) return (int)b->e->status;
  CHECK(view >= 0 && view < b->k->nviews);
  const struct tile_view *v = &b->k->views[view];
  enum tile_type t = b->k->buffers[v->buf].type;
  if (v->nlevels || (t != TT_I32 && t != TT_U32)) return build_error(b, "value() reads a scalar of type i32 or u32");
  *var = ex_var(b->p->ex, name, t == TT_I32 ? INT32_MIN : 0, t == TT_I32 ? INT32_MAX : UINT32_MAX, 1);
  ex none = EX_C(0);
  int s = stmt_add(b, STMT_LET);
  struct tile_stmt *st = &b->k->stmts[s];
  st->nvars = 1, st->view = view;
  st->vars = arena_copy(b->p->mem, var, sizeof *var), st->values = arena_copy(b->p->mem, &none, sizeof none);
  return OK;
}

static int64_t gcd(int64_t a, int64_t b)
{
  while (b) {
    int64_t r = a % b;
    a = b, b = r;
  }
  return a < 0 ? -a : a;
}

int build_for(struct builder *b, const char *name, ex from, ex to, ex step, enum tile_unroll unroll, ex *var)
{
  if (needs_body(b, "a loop")) return (int)b->e->status;
  struct ex_pool *p = b->p->ex;
  struct ex_range f = ex_range(p, from), t = ex_range(p, to);
  if (ex_range(p, step).lo < 1) return build_error(b, "the step of a loop is at least 1");
  if (unroll == UNROLL_ALL && !(ex_is_const(ex_sub(p, to, from)) && ex_is_const(step)))
    return build_error(b, "an unrolled loop has a constant number of rounds");
  *var = ex_var(p, name, f.lo, MAX(f.lo, t.hi - 1), gcd(ex_multiple(p, from), ex_multiple(p, step)));
  int s = stmt_add(b, STMT_FOR);
  struct tile_stmt *st = &b->k->stmts[s];
  st->var = *var, st->from = from, st->to = to, st->step = step, st->unroll = unroll;
  return block_open(b, s, false);
}

int build_if(struct builder *b, ex cond)
{
  if (needs_body(b, "a condition")) return (int)b->e->status;
  int s = stmt_add(b, STMT_IF);
  b->k->stmts[s].cond = cond;
  return block_open(b, s, false);
}

int build_else(struct builder *b)
{
  int s = b->open[b->nopen].stmt;
  if (!in_body(b) || b->k->stmts[s].kind != STMT_IF || b->open[b->nopen].other) return build_error(b, "else without if");
  b->nopen--;
  return block_open(b, s, true);
}

static const char *spec_problem(const struct builder *b, const struct tile_spec *s, bool body)
{
  const struct spec_row *row = &tile_specs[s->kind];
  const struct tile_kernel *k = b->k;
  if (s->nin < row->least || s->nin > row->most) return "wrong number of inputs";
  if (s->kind != SPEC_GENERIC && s->nout != row->outs) return "wrong number of outputs";
  if (s->nout > (int)COUNT(s->out)) return "too many outputs";
  if (s->blocks < 0 || k->groups[s->blocks].kind != GROUP_BLOCK) return "the first of <<<#blocks, #threads>>> is a group of blocks";
  if (s->threads < 0 || k->groups[s->threads].kind != GROUP_THREAD) return "the second of <<<#blocks, #threads>>> is a group of threads";
  if (s->kind == SPEC_GENERIC && !body) return "a generic spec needs a body in braces";
  if (s->kind == SPEC_SYNC && body) return "Sync has no decomposition";
  if (!in_body(b) && (s->kind != SPEC_GENERIC && !body)) return "the kernel's spec needs a body in braces";
  if (!in_body(b) && k->body >= 0) return "a kernel is one spec";
  return NULL;
}

// Shared memory and registers may be declared before the kernel's spec that has them as operands; they are allocated at the start of its body.
static void early_tensors(struct builder *b)
{
  for (int i = 0; i < b->k->nbuffers; i++) {
    if (b->k->buffers[i].mem == MEM_GL) continue;
    int s = stmt_add(b, STMT_ALLOC);
    b->k->stmts[s].view = b->k->buffers[i].view;
  }
}

int build_spec(struct builder *b, const struct tile_spec *s, bool body)
{
  struct tile_kernel *k = b->k;
  const char *problem = spec_problem(b, s, body);
  if (problem) return build_error(b, "%s: %s", s->name ? s->name : tile_specs[s->kind].name, problem);
  PUSH(b->p->mem, k->specs, k->nspecs, k->cap[LIST_SPECS]) = *s;
  struct tile_spec *mine = &k->specs[k->nspecs - 1];
  mine->decomposed = body;
  if (!mine->name) mine->name = tile_specs[s->kind].name;
  if (!mine->op) mine->op = "";
  for (int i = 0; i < s->nout; i++) k->buffers[k->views[s->out[i]].buf].written |= !body;
  int st = stmt_add(b, STMT_SPEC);
  k->stmts[st].spec = k->nspecs - 1;
  if (!body) return OK;
  bool kernel = !in_body(b);
  if (block_open(b, st, false)) return (int)b->e->status;
  if (kernel) early_tensors(b);
  return OK;
}

int build_end(struct builder *b)
{
  if (!in_body(b)) return build_error(b, "a closing brace too many");
  b->nopen--;
  return OK;
}

int build_finish(struct builder *b)
{
  if (in_body(b)) return build_error(b, "a closing brace is missing");
  if (b->k->body < 0) return build_error(b, "kernel %s has no spec", b->k->name);
  if (b->k->grid < 0 || b->k->threads < 0) return build_error(b, "kernel %s needs a group of blocks and one of threads", b->k->name);
  return OK;
}
