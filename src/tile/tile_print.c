// Prints programs as text that parses to the same program. Types are printed, with strides where they differ from the file's default order.
#include "tile/match.h"
#include "tile/tile_parse.h"

#include <string.h>

static void line(struct tile_printer *o, int deep) { str_add(o->out, "%*s", 2 * deep, ""); }

static bool compact(const struct tile_printer *o, int n, const struct lay *level)
{
  struct tile_levels l = {.n = n};
  for (int i = 0; i < n; i++) l.level[i] = level[i];
  struct lay_ctx c = o->p->lay;
  tile_compact(&c, o->p->row, &l);
  for (int i = 0; i < n; i++)
    if (!lay_equal(l.level[i], level[i])) return false;
  return true;
}

static void declared(struct tile_printer *o, int view)
{
  const struct tile_view *v = &o->k->views[view];
  const struct tile_buffer *buf = &o->k->buffers[v->buf];
  str_add(o->out, "%%%s:", buf->name);
  tile_put_levels(o, v->nlevels, v->level, !compact(o, v->nlevels, v->level));
  str_add(o->out, ".%s.%s", tile_types[buf->type].name, tile_mem_name[buf->mem]);
  if (buf->swizzle.bits) str_add(o->out, ".swizzle(%d, %d, %d)", buf->swizzle.bits, buf->swizzle.base, buf->swizzle.shift);
  str_add(o->out, "\n");
}

static void scalar(struct tile_printer *o, ex var, bool at)
{
  if (ex_is_const(var)) return;
  const char *name = ex_node(o->p->ex, var)->name;
  tile_scope_add(&o->scope, (struct tile_name){.sigil = '@', .name = name, .index = at, .var = var});
}

// ---- statements ----
static void pattern(struct tile_printer *o, const struct tile_stmt *s)
{
  const struct tile_group *g = &o->k->groups[s->group];
  for (int i = 0, v = 0; i < g->nlevels; i++) {
    int rank = lay_rank(g->level[i]);
    bool paren = g->nlevels > 1 && rank > 1;
    str_add(o->out, "%s%s", i ? ", " : "", paren ? "(" : "");
    for (int m = 0; m < rank; m++, v++) {
      ex var = s->vars[v];
      str_add(o->out, "%s%s%s", m ? ", " : "", ex_is_const(var) ? "" : "@", ex_is_const(var) ? "_" : ex_node(o->p->ex, var)->name);
    }
    if (paren) str_add(o->out, ")");
  }
}

static void let(struct tile_printer *o, const struct tile_stmt *s)
{
  if (s->group >= 0) {
    pattern(o, s);
    str_add(o->out, " = ");
    tile_put_group(o, s->group, false);
    str_add(o->out, ".indices()\n");
  } else {
    str_add(o->out, "@%s = %s", ex_node(o->p->ex, s->vars[0])->name, s->view >= 0 ? "value(" : "");
    if (s->view >= 0)
      tile_put_view(o, s->view, false);
    else
      tile_put_ex(o, s->values[0]);
    str_add(o->out, s->view >= 0 ? ")\n" : "\n");
  }
  for (int i = 0; i < s->nvars; i++) scalar(o, s->vars[i], true);
}

static void view(struct tile_printer *o, const struct tile_stmt *s)
{
  const struct tile_view *v = &o->k->views[s->view];
  str_add(o->out, "%%%s", v->name);
  if (tile_put_visible(o, v->nlevels, v->level)) {
    const struct tile_buffer *buf = &o->k->buffers[v->buf];
    str_add(o->out, ":");
    tile_put_levels(o, v->nlevels, v->level, true);
    str_add(o->out, ".%s.%s", tile_types[buf->type].name, tile_mem_name[buf->mem]);
  }
  str_add(o->out, " = ");
  tile_put_view(o, s->view, true);
  str_add(o->out, "\n");
}

static void group(struct tile_printer *o, const struct tile_stmt *s)
{
  const struct tile_group *g = &o->k->groups[s->group];
  str_add(o->out, "#%s", g->name);
  if (tile_put_visible(o, g->nlevels, g->level)) {
    str_add(o->out, ":");
    tile_put_levels(o, g->nlevels, g->level, true);
    str_add(o->out, g->kind == GROUP_BLOCK ? ".block" : ".thread");
  }
  str_add(o->out, " = ");
  tile_put_group(o, s->group, true);
  str_add(o->out, "\n");
}

static void block(struct tile_printer *o, int stmt, int deep);

static void braces(struct tile_printer *o, int stmt, int deep)
{
  int mark = tile_scope_open(&o->scope);
  str_add(o->out, " {\n");
  block(o, stmt, deep + 1);
  line(o, deep);
  str_add(o->out, "}");
  tile_scope_close(&o->scope, mark);
}

static void loop(struct tile_printer *o, const struct tile_stmt *s, int deep)
{
  const char *name = ex_node(o->p->ex, s->var)->name;
  str_add(o->out, "for (%s = ", name);
  tile_put_ex(o, s->from);
  str_add(o->out, "; %s < ", name);
  tile_put_ex(o, s->to);
  str_add(o->out, "; %s += ", name);
  tile_put_ex(o, s->step);
  str_add(o->out, s->unroll == UNROLL_ALL ? ") unroll" : s->unroll == UNROLL_NONE ? ") rolled" : ")");
  int mark = tile_scope_open(&o->scope);
  scalar(o, s->var, false);
  braces(o, s->body, deep);
  str_add(o->out, "\n");
  tile_scope_close(&o->scope, mark);
}

static void condition(struct tile_printer *o, const struct tile_stmt *s, int deep)
{
  for (;;) {
    str_add(o->out, "if (");
    tile_put_ex(o, s->cond);
    str_add(o->out, ")");
    braces(o, s->body, deep);
    if (s->other < 0) break;
    str_add(o->out, " else");
    const struct tile_stmt *other = &o->k->stmts[s->other];
    if (other->kind != STMT_IF || other->next >= 0) {
      braces(o, s->other, deep);
      break;
    }
    str_add(o->out, " ");
    s = other;
  }
  str_add(o->out, "\n");
}

// Shared memory and registers that the kernel's spec itself uses are declared before it.
static bool in_head(const struct tile_printer *o, int buf)
{
  const struct tile_spec *s = &o->k->specs[o->k->stmts[o->k->body].spec];
  for (int i = 0; i < s->nout; i++)
    if (o->k->views[s->out[i]].buf == buf) return true;
  for (int i = 0; i < s->nin; i++)
    if (o->k->views[s->in[i]].buf == buf) return true;
  return false;
}

static void spec(struct tile_printer *o, const struct tile_stmt *s, int deep)
{
  tile_put_spec(o, s->spec);
  if (o->k->specs[s->spec].decomposed) braces(o, s->body, deep);
  str_add(o->out, "\n");
}

static void block(struct tile_printer *o, int stmt, int deep)
{
  for (int next; stmt >= 0; stmt = next) {
    const struct tile_stmt *s = &o->k->stmts[stmt];
    next = s->next;
    if (s->kind == STMT_ALLOC && in_head(o, o->k->views[s->view].buf)) continue;
    line(o, deep);
    switch (s->kind) {
    case STMT_LET: let(o, s); break;
    case STMT_VIEW: view(o, s); break;
    case STMT_GROUP: group(o, s); break;
    case STMT_ALLOC: declared(o, s->view); break;
    case STMT_FOR: loop(o, s, deep); break;
    case STMT_IF: condition(o, s, deep); break;
    case STMT_SPEC: spec(o, s, deep); break;
    }
  }
}

// ---- kernels ----
static void param(struct tile_printer *o, ex var)
{
  const struct ex_node *n = ex_node(o->p->ex, var);
  line(o, 1);
  str_add(o->out, "param %s", n->name);
  int64_t least = MAX(n->multiple, 1), most = TILE_SIZE_MOST / least * least;
  if (n->range.lo != least || n->range.hi != most) str_add(o->out, " in %lld..%lld", (long long)n->range.lo, (long long)n->range.hi);
  if (n->multiple > 1) str_add(o->out, " multiple %lld", (long long)n->multiple);
  str_add(o->out, "\n");
  scalar(o, var, false);
}

static void root_group(struct tile_printer *o, int group_index)
{
  const struct tile_group *g = &o->k->groups[group_index];
  line(o, 1);
  str_add(o->out, "#%s:", g->name);
  tile_put_levels(o, g->nlevels, g->level, !compact(o, g->nlevels, g->level));
  str_add(o->out, g->kind == GROUP_BLOCK ? ".block\n" : ".thread\n");
}

static void kernel(struct tile_printer *o)
{
  const struct tile_kernel *k = o->k;
  int mark = tile_scope_open(&o->scope);
  const struct target *target = target_gpu(k->arch);
  str_add(o->out, "\nkernel %s {\n", k->name);
  if (target) line(o, 1), str_add(o->out, "target %s\n", target->name);
  if (k->cluster != 1) str_add(o->out, "  cluster %d\n", k->cluster);
  for (int i = 0; i < k->nparams; i++) param(o, k->params[i]);
  for (int i = 0; i < k->nbuffers; i++)
    if (k->buffers[i].mem == MEM_GL || in_head(o, i)) line(o, 1), declared(o, k->buffers[i].view);
  root_group(o, k->grid);
  root_group(o, k->threads);
  block(o, k->body, 1);
  str_add(o->out, "}\n");
  tile_scope_close(&o->scope, mark);
}

void tile_text(const struct tile_program *p, struct str *out)
{
  struct arena mem = {0};
  struct tile_printer *o = NEW(&mem, struct tile_printer);
  *o = (struct tile_printer){.p = p, .out = out, .scope.mem = &mem};
  str_add(out, "order %s\n", p->row ? "row" : "column");
  for (int i = 0; i < p->nkernels; i++) {
    o->k = p->kernels[i];
    kernel(o);
  }
  arena_close(&mem);
}
