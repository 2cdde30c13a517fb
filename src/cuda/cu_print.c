// A lowered kernel as CUDA C++: parameters, then its statements, with a comment before each spec. Global buffers are
// pointers, and sizes are ints. Registers are arrays that unrolled loops index by constants. Shared memory is one dynamic
// array, in which every buffer has an offset.
#include "cuda/cu_print.h"

#include <string.h>

static int block(struct printer *w, int stmt);

static const char *type_name(const struct printer *w, ex x)
{
  return ex_range(w->s.p->ex, x).hi > INT32_MAX || ex_range(w->s.p->ex, x).lo <= INT32_MIN ? "i64" : "int";
}

// ---- parameters ----

bool cu_has(const struct tile_kernel *k, enum sem sem)
{
  for (int i = 0; i < k->nspecs; i++)
    if (k->specs[i].atom && k->specs[i].atom->row->sem == sem) return true;
  return false;
}

// With __restrict__ the compiler may treat a buffer that the kernel only reads as constant, and load from it early. A kernel
// with Sync<grid.wait> may start before its predecessor has ended, so its loads must not move before the wait.
static void buffer_parameter(struct printer *w, int i, struct str *s)
{
  const struct tile_buffer *b = &w->s.k->buffers[i];
  w->s.buffers[i] = c_name(&w->s, b->name, "t");
  str_add(s, "%s%s%s *%s%s", s->n ? ", " : "", b->written ? "" : "const ", tile_types[b->type].cuda,
          cu_has(w->s.k, SEM_GRID_WAIT) ? "" : "__restrict__ ", w->s.buffers[i]);
}

static void signature(struct printer *w)
{
  const struct tile_kernel *k = w->s.k;
  struct str s = {0};
  for (int i = 0; i < k->nbuffers; i++)
    if (k->buffers[i].mem == MEM_GL) buffer_parameter(w, i, &s);
  for (int i = 0; i < k->nparams; i++) {
    if (ex_is_const(k->params[i])) continue; // declared with one value
    const char *name = c_name(&w->s, ex_node(w->s.p->ex, k->params[i])->name, "n");
    cu_var(w, k->params[i], name);
    str_add(&s, "%sint %s", s.n ? ", " : "", name);
  }
  w->maps = NEWS(w->s.mem, const char *, k->nmaps + 1);
  for (int i = 0; i < k->nmaps; i++) {
    w->maps[i] = c_name(&w->s, arena_printf(w->s.mem, "%s_map", w->s.buffers[k->maps[i].buf]), "map");
    str_add(&s, "%sconst __grid_constant__ mica_map %s", s.n ? ", " : "", w->maps[i]);
  }
  if (k->cluster > 1)
    c_line(&w->s, "extern \"C\" __global__ void __cluster_dims__(%d, 1, 1)", k->cluster);
  else
    c_line(&w->s, "extern \"C\" __global__ void");
  const int blocks = tile_blocks_by_registers(k);
  const char *least = blocks ? arena_printf(w->s.mem, ", %d", blocks) : "";
  c_line(&w->s, "__launch_bounds__(%lld%s) %s(%s)", (long long)ex_value(k->groups[k->threads].size), least, w->kernel, str_text(&s));
  str_free(&s);
}

// ---- statements ----

// A coordinate of a group, (tid / d) % s. If s is a power of two, the remainder is printed even if the range makes it
// unnecessary: the compiler does not know the range, and the mask tells it which bits the value has.
static const char *coordinate(struct printer *w, ex value)
{
  const char *text = cu_value(w, value, L_ANY);
  if (ex_is_const(value) || ex_node(w->s.p->ex, value)->kind != EX_DIV) return text;
  struct ex_range r = ex_range(w->s.p->ex, value);
  bool mask = r.lo == 0 && r.hi > 0 && !(r.hi & (r.hi + 1)) && r.hi < INT32_MAX;
  return mask ? arena_printf(w->s.mem, "(%s) & %lld", text, (long long)r.hi) : text;
}

static void let(struct printer *w, const struct tile_stmt *st)
{
  for (int i = 0; i < st->nvars; i++) {
    ex var = st->vars[i];
    if (ex_is_const(var) || ex_node(w->s.p->ex, var)->kind != EX_VAR) continue;
    const char *value;
    if (st->view >= 0) {
      const struct tile_view *v = &w->s.k->views[st->view];
      value = cu_element(w, v->buf, v->offset);
    } else
      value = st->group >= 0 ? coordinate(w, st->values[i]) : cu_value(w, st->values[i], L_ANY);
    const char *name = c_name(&w->s, ex_node(w->s.p->ex, var)->name, "v");
    cu_var(w, var, name);
    c_line(&w->s, "const %s %s = %s;", type_name(w, var), name, value);
  }
}

static void allocation(struct printer *w, int stmt)
{
  const int buf = w->s.k->views[w->s.k->stmts[stmt].view].buf;
  const struct tile_buffer *b = &w->s.k->buffers[buf];
  const char *type = tile_types[b->type].cuda, *name = w->s.buffers[buf] = c_name(&w->s, b->name, "t");
  if (b->mem == MEM_RF) {
    c_line(&w->s, "alignas(16) %s %s[%lld];", type, name, (long long)ex_value(b->elements));
    cu_hold(w, buf, stmt);
    return;
  }
  c_line(&w->s, "%s *const %s = (%s *)(%s + %lld);", type, name, type, w->shared, (long long)b->offset);
}

// Records that the following text belongs to this line of the kernel's text; 0: to none.
static void mark(struct printer *w, int line)
{
  struct cuda_marks *m = w->marks;
  if (m) PUSH(m->mem, m->mark, m->n, m->cap) = (struct cuda_mark){w->s.out->n, line};
}

static int inner_block(struct printer *w, int stmt)
{
  int taken = w->s.ntaken, held = w->nheld;
  w->s.depth++;
  int status = stmt >= 0 ? block(w, stmt) : OK;
  w->s.depth--;
  mark(w, 0);
  w->s.ntaken = taken, w->nheld = held;
  return status;
}

static int loop(struct printer *w, const struct tile_stmt *st)
{
  const char *from = cu_value(w, st->from, L_ANY), *to = cu_value(w, st->to, L_SHIFT), *step = cu_value(w, st->step, L_ANY);
  int taken = w->s.ntaken;
  const char *name = c_name(&w->s, ex_node(w->s.p->ex, st->var)->name, "i");
  cu_var(w, st->var, name);
  if (st->unroll == UNROLL_ALL) cu_unroll(w);
  if (st->unroll == UNROLL_NONE) c_line(&w->s, "#pragma unroll 1");
  c_line(&w->s, "for (%s %s = %s; %s < %s; %s += %s) {", type_name(w, st->var), name, from, name, to, name, step);
  int status = inner_block(w, st->body);
  c_line(&w->s, "}");
  w->s.ntaken = taken;
  return status;
}

static int condition(struct printer *w, const struct tile_stmt *st)
{
  if (ex_is_const(st->cond)) { // decided by the sizes: only one branch is printed, in braces that limit the scope of its names
    int taken = st->cond != EX_C(0) ? st->body : st->other;
    if (taken < 0) return OK;
    c_line(&w->s, "{");
    int done = inner_block(w, taken);
    c_line(&w->s, "}");
    return done;
  }
  c_line(&w->s, "if (%s) {", cu_value(w, st->cond, L_ANY));
  int status = inner_block(w, st->body);
  if (status == OK && st->other >= 0) {
    c_line(&w->s, "} else {");
    status = inner_block(w, st->other);
  }
  c_line(&w->s, "}");
  return status;
}

static int spec(struct printer *w, const struct tile_stmt *st)
{
  const struct tile_spec *s = &w->s.k->specs[st->spec];
  struct str text = {0};
  tile_spec_text(w->s.p, w->s.k, st->spec, &text);
  c_comment(&w->s, str_text(&text));
  str_free(&text);
  if (!s->decomposed) {
    if (!s->atom) return err_set(w->s.e, ERR_TILE, st->at, "%s was not lowered", s->name);
    return cu_atom(w, s);
  }
  if (w->s.depth == 1) return st->body >= 0 ? block(w, st->body) : OK;
  c_line(&w->s, "{");
  int status = inner_block(w, st->body);
  c_line(&w->s, "}");
  return status;
}

static int block(struct printer *w, int stmt)
{
  int status = OK;
  for (int i = stmt; i >= 0 && status == OK; i = w->s.k->stmts[i].next) {
    const struct tile_stmt *st = &w->s.k->stmts[i];
    mark(w, st->at.line);
    switch (st->kind) {
    case STMT_LET: let(w, st); break;
    case STMT_ALLOC: allocation(w, i); break;
    case STMT_FOR: status = loop(w, st); break;
    case STMT_IF: status = condition(w, st); break;
    case STMT_SPEC: status = spec(w, st); break;
    case STMT_VIEW:
    case STMT_GROUP: break; // names of the IR; their indices are printed where they are used
    }
    cu_free(w, i);
  }
  return status;
}

// ---- the kernel ----

// Declares the block or thread index if the body uses it, with its range as an assumption. In unrolled loops, accesses then differ by immediate
// offsets. Without the assumption, the compiler infers from masks that an index is not negative, extends it as unsigned, and cannot split a sum.
// Row softmax has 400 instructions with it and 438 without; attention 920 and 954. In other kernels the assumption only removes masks that
// help the compiler combine bits, so it is not printed.
static void identity(struct printer *w, const char *body, const char *name, const char *builtin, ex size)
{
  if (!c_says(body, name)) return;
  c_line(&w->s, "const int %s = %s;", name, builtin);
  if (ex_is_const(size) && w->unrolls) c_line(&w->s, "__builtin_assume(u32(%s) < %lldu);", name, (long long)ex_value(size));
}

static int kernel(struct printer *w)
{
  const struct tile_kernel *k = w->s.k;
  struct str body = {0}, *out = w->s.out;
  signature(w);
  const char *bid = c_name(&w->s, "bx", "bx"), *tid = c_name(&w->s, "tx", "tx");
  cu_var(w, k->bid, bid), cu_var(w, k->tid, tid);
  w->shared = c_name(&w->s, "smem", "smem");
  w->s.depth = 1, w->s.out = &body;
  int status = block(w, k->body);
  w->s.out = out;
  w->s.depth = 0, c_line(&w->s, "{"), w->s.depth = 1;
  identity(w, str_text(&body), bid, "blockIdx.x", k->groups[k->grid].size);
  identity(w, str_text(&body), tid, "threadIdx.x", k->groups[k->threads].size);
  if (c_says(str_text(&body), w->shared)) c_line(&w->s, "extern __shared__ __align__(1024) unsigned char %s[];", w->shared);
  for (int i = 0; w->marks && i < w->marks->n; i++) w->marks->mark[i].at += out->n;
  str_raw(out, str_text(&body), body.n);
  str_free(&body);
  w->s.depth = 0;
  mark(w, 0);
  c_line(&w->s, "}");
  return status;
}

const char *cuda_kernel_name(struct arena *mem, const struct tile_kernel *k)
{
  struct c_source w = {.mem = mem};
  return c_name(&w, k->name, "kernel");
}

int cuda_print_marked(const struct tile_program *p, const struct tile_kernel *k, int arch, struct str *out, struct cuda_marks *marks, struct err *e)
{
  CHECK(k->lowered);
  struct arena mem = {0};
  struct printer w = {.s = {.mem = &mem, .p = p, .k = k, .out = out, .e = e}, .arch = arch, .marks = marks};
  w.s.buffers = NEWS(&mem, const char *, k->nbuffers + 1);
  w.kernel = c_name(&w.s, k->name, "kernel");
  c_comment(&w.s, arena_printf(&mem, "%s: made by Mica for %s", w.kernel, cuda_arch_name(arch) ? cuda_arch_name(arch) : "no target"));
  str_add(out, "%s\n", cuda_prelude_text);
  int status = kernel(&w);
  arena_close(&mem);
  return status;
}

// Is it the name of a .tile file that a #line directive can contain unchanged? Other texts are saved under the name of their kernel.
static bool can_be_named(const char *file)
{
  const size_t n = file ? strlen(file) : 0;
  bool plain = n > 5 && !strcmp(file + n - 5, ".tile");
  for (size_t i = 0; i < n; i++) plain &= (unsigned char)file[i] >= ' ' && file[i] != '"' && file[i] != '\\';
  return plain;
}

int cuda_print(const struct tile_program *p, const struct tile_kernel *k, int arch, struct str *out, struct err *e)
{
  if (!cuda_line_info()) return cuda_print_marked(p, k, arch, out, NULL, e);
  struct arena mem = {0};
  struct cuda_marks marks = {.mem = &mem};
  struct str text = {0};
  const int status = cuda_print_marked(p, k, arch, &text, &marks, e);
  if (status == OK) cuda_add_lines(str_text(&text), &marks, can_be_named(k->at.file) ? k->at.file : arena_printf(&mem, "%s.tile", k->name), out);
  return str_free(&text), arena_close(&mem), status;
}
