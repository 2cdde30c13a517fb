// The source of a kernel: the prelude and the operators it uses, the memory of a block, a function that runs one block,
// and the entry point, which checks sizes and runs all blocks.
#include "cprint/cp_print.h"

#include <string.h>

const char *cprint_flags(void) { return "-std=c17 -O3 -march=native -fopenmp"; }

// Reserved names: words of C that are not words of C++, and names from the headers of the prelude.
static const char *const words[] = {
    "restrict", "int8_t",        "int16_t",   "int32_t", "int64_t",   "uint8_t", "uint16_t", "uint32_t", "uint64_t", "intptr_t", "size_t",  "div",
    "labs",     "calloc",        "realloc",   "exit",    "abort",     "atexit",  "system",   "rand",     "srand",    "qsort",    "bsearch", "strlen",
    "memmove",  "memcmp",        "memchr",    "acos",    "asin",      "atan",    "cos",      "sin",      "tan",      "cosh",     "sinh",    "pow",
    "ceil",     "floor",         "round",     "trunc",   "remainder", "fmod",    "erf",      "gamma",    "hypot",    "scalbn",   "ldexp",   "frexp",
    "modf",     "signbit",       "isnan",     "isinf",   "isfinite",  "fmaf",    "fma",      "fabs",     "exp2",     "log2",     "tanh",    "true",
    "false",    "aligned_alloc", "INT64_MIN", "getenv",  "mblen",     "y0",      "y1",       "yn",       "j0",       "j1",       "jn",      "cbrt",
    "rint",     "log10",         "log1p",     "expm1",   "fmin",      "fmax",    "fdim",     "nan",      "atof",     "atoi",     "atol",    "free",
    "malloc",   "abs",           "bool",      "index",   "strcpy",    "strcat",  "strcmp",   "memcpy",   "memset",   "random",   "select"};

static void reserve(struct c_source *w)
{
  for (size_t i = 0; i < COUNT(words); i++) PUSH(w->mem, w->taken, w->ntaken, w->taken_cap) = words[i];
}

const char *cprint_name(struct arena *mem, const struct tile_kernel *k)
{
  struct c_source w = {.mem = mem};
  reserve(&w);
  return c_name(&w, k->name, "kernel");
}

// ---- arguments ----

struct arguments {
  struct str declared, passed, checks;
};

static void buffers(struct cprint *c, struct arguments *x)
{
  for (int i = 0; i < c->w.k->nbuffers; i++) {
    const struct tile_buffer *b = &c->w.k->buffers[i];
    if (b->mem != MEM_GL) continue;
    const char *name = c->w.buffers[i] = c_name(&c->w, b->name, "t");
    str_add(&x->declared, "%s%s%s *restrict %s", x->declared.n ? ", " : "", b->written ? "" : "const ", cp_type(b->type), name);
    str_add(&x->passed, ", %s", name);
  }
}

static void sizes(struct cprint *c, struct arguments *x)
{
  const struct tile_kernel *k = c->w.k;
  for (int i = 0; i < k->nparams; i++) {
    if (ex_is_const(k->params[i])) continue;
    const struct ex_node *n = ex_node(cp_pool(c), k->params[i]);
    const char *name = c_name(&c->w, n->name, "n"), *more = x->checks.n ? " || " : "";
    cp_define(c, k->params[i], name, V_BLOCK);
    str_add(&x->declared, "%sint64_t %s", x->declared.n ? ", " : "", name);
    str_add(&x->passed, ", %s", name);
    str_add(&x->checks, "%s%s < %lld || %s > %lld", more, name, (long long)n->range.lo, name, (long long)n->range.hi);
    if (n->multiple > 1) str_add(&x->checks, " || %s %% %lld", name, (long long)n->multiple);
  }
}

// ---- functions ----

static void memory(struct cprint *c, const char *kernel)
{
  c_line(&c->w, "struct %s_memory { // of a block: registers of each warp, rows of lanes; what its threads share", kernel);
  str_raw(c->w.out, str_text(&c->fields), c->fields.n);
  c_line(&c->w, "  _Alignas(1024) unsigned char shared[%lld];", (long long)MAX(c->w.k->shared_bytes, 1));
  c_line(&c->w, "};");
}

static void all_blocks(struct cprint *c, const char *kernel, const char *block, const struct arguments *x)
{
  struct c_source *w = &c->w;
  const char *m = c->m, *b = ex_is_const(w->k->bid) ? "b" : cp_var(c, w->k->bid)->text;
  c_line(w, "int %s(%s)", kernel, x->declared.n ? str_text(&x->declared) : "void");
  c_line(w, "{");
  w->depth = 1;
  if (x->checks.n) c_line(w, "if (%s) return 2;", str_text(&x->checks));
  const char *size = cp_value(c, w->k->groups[w->k->grid].size, L_ANY);
  const char *blocks = c_name(w, "blocks", "blocks"), *status = c_name(w, "status", "status");
  c_line(w, "const int64_t %s = %s;", blocks, size);
  c_line(w, "int %s = 0;", status);
  str_add(w->out, "#pragma omp parallel\n");
  c_line(w, "{");
  c_line(w, "  struct %s_memory *const %s = aligned_alloc(1024, sizeof *%s);", kernel, m, m);
  str_add(w->out, "#pragma omp for schedule(dynamic)\n");
  c_line(w, "  for (int64_t %s = 0; %s < %s; %s++)", b, b, blocks, b);
  c_line(w, "    if (%s) %s(%s, %s%s);", m, block, m, b, str_text(&x->passed));
  c_line(w, "  if (!%s) {", m);
  str_add(w->out, "#pragma omp atomic write\n");
  c_line(w, "    %s = 1;", status);
  c_line(w, "  }");
  c_line(w, "  free(%s);", m);
  c_line(w, "}");
  c_line(w, "return %s;", status);
  w->depth = 0;
  c_line(w, "}");
}

static void setup(struct cprint *c)
{
  const struct tile_kernel *k = c->w.k;
  c->threads = ex_value(k->groups[k->threads].size);
  c->warps = (c->threads + 31) / 32, c->lanes = MIN(c->threads, 32);
  c->wx = c->warps > 1 ? c_name(&c->w, "wx", "wx") : "0", c->lx = c_name(&c->w, "lx", "lx"), c->m = c_name(&c->w, "memory", "memory");
  c->warp = c->warps > 1 ? ex_var(cp_pool(c), "warp", 0, c->warps - 1, 1) : EX_C(0);
  c->lane = c->lanes > 1 ? ex_var(cp_pool(c), "lane", 0, c->lanes - 1, 1) : EX_C(0);
  if (!ex_is_const(c->warp)) cp_var(c, c->warp)->varies = V_WARP;
  if (!ex_is_const(k->bid)) cp_define(c, k->bid, c_name(&c->w, "bx", "bx"), V_BLOCK);
  cp_lets(c);
  if (c->warps > 1 && c->threads % 32) // the last warp is partial
    c->guard[c->nguards++] = ex_lt(cp_pool(c), cp_full(c, k->tid), EX_C(c->threads));
}

// Does the word occur in a line of the body that is no comment?
static bool says(struct cprint *c, const char *body, const char *word)
{
  for (const char *line = body; *line;) {
    size_t n = strcspn(line, "\n"), blank = strspn(line, " ");
    if (strncmp(line + blank, "//", 2) != 0 && c_says(arena_printf(c->w.mem, "%.*s", (int)n, line), word)) return true;
    line += n + (line[n] == '\n');
  }
  return false;
}

// Marks the arguments that the body does not use with a cast to void.
static void unused(struct cprint *c, const char *body, const char *bid)
{
  bool memory = says(c, body, c->m);
  for (int i = 0; i < c->w.k->nbuffers; i++) memory |= c->w.k->buffers[i].mem == MEM_SH && c->touched[i];
  if (!memory) c_line(&c->w, "(void)%s;", c->m);
  if (!says(c, body, bid)) c_line(&c->w, "(void)%s;", bid);
  for (int i = 0; i < c->w.k->nbuffers; i++)
    if (c->w.k->buffers[i].mem == MEM_GL && !says(c, body, c->w.buffers[i])) c_line(&c->w, "(void)%s;", c->w.buffers[i]);
  for (int i = 0; i < c->w.k->nparams; i++)
    if (!ex_is_const(c->w.k->params[i]) && !says(c, body, cp_var(c, c->w.k->params[i])->text))
      c_line(&c->w, "(void)%s;", cp_var(c, c->w.k->params[i])->text);
}

static void shared(struct cprint *c)
{
  for (int i = 0; i < c->w.k->nbuffers; i++) {
    const struct tile_buffer *b = &c->w.k->buffers[i];
    if (b->mem != MEM_SH || !c->touched[i]) continue;
    const char *t = cp_type(b->type);
    c_line(&c->w, "%s *const %s = (%s *)(%s->shared + %lld);", t, c->w.buffers[i], t, c->m, (long long)b->offset);
  }
}

static int print(struct cprint *c, const char *kernel)
{
  struct arguments x = {0};
  struct str body = {0}, head = {0}, *out = c->w.out;
  buffers(c, &x), sizes(c, &x);
  for (int i = 0; i < c->w.k->nbuffers; i++)
    if (c->w.k->buffers[i].mem == MEM_SH) c->w.buffers[i] = c_name(&c->w, c->w.k->buffers[i].name, "t");
  const char *block = c_name(&c->w, arena_printf(c->w.mem, "%s_block", kernel), "block");
  setup(c);
  c->w.out = &body, c->by = BY_BLOCK, c->w.depth = 1;
  int status = cp_block(c, c->w.k->body);
  c->w.out = &head, c->w.depth = 0;
  cp_operators(c, &head);
  memory(c, kernel);
  const char *bid = ex_is_const(c->w.k->bid) ? "b" : cp_var(c, c->w.k->bid)->text;
  c_line(&c->w, "static void %s(struct %s_memory *const %s, const int64_t %s%s%s)", block, kernel, c->m, bid, x.declared.n ? ", " : "",
         str_text(&x.declared));
  c_line(&c->w, "{");
  c->w.depth = 1;
  unused(c, str_text(&body), bid);
  shared(c);
  c->w.depth = 0;
  str_raw(&head, str_text(&body), body.n);
  c_line(&c->w, "}");
  str_raw(out, str_text(&head), head.n);
  c->w.out = out;
  all_blocks(c, kernel, block, &x);
  str_free(&body), str_free(&head), str_free(&x.declared), str_free(&x.passed), str_free(&x.checks);
  return status;
}

static bool matrices(const struct tile_kernel *k)
{
  for (int i = 0; i < k->nspecs; i++) {
    const struct tile_atom *a = k->specs[i].atom;
    if (a && (a->row->sem == SEM_LDMATRIX || a->row->sem == SEM_STMATRIX || a->row->sem == SEM_MMA)) return true;
  }
  return false;
}

// Does the kernel use an operator with a number from `first` to `last`?
static bool uses(const struct tile_kernel *k, int first, int last)
{
  for (int i = 0; i < k->nspecs; i++) {
    const struct tile_atom *a = k->specs[i].atom;
    if (a && a->row->sem == SEM_UNARY && a->op >= first && a->op <= last) return true;
  }
  return false;
}

// Prints the conversions of the 8-bit types that the kernel uses.
static void print_small(const struct tile_kernel *k, struct str *out)
{
  bool any = false;
  for (int t = 0; t < TT_COUNT; t++) {
    const struct num_row *f = &tile_types[t];
    bool has = false;
    for (int i = 0; i < k->nbuffers; i++) has |= k->buffers[i].type == (enum tile_type)t;
    if (!has || f->bits != 8) continue;
    if (!any) str_add(out, "%s\n", float_bits_text);
    any = true;
    str_add(out, "typedef uint8_t %s;\n", f->c);
    str_add(out, "MICA float mica_from_%s(%s b) { return mica_float_from(b, %d, %d, %d); }\n", f->c + 5, f->c, f->exponent, f->mantissa, f->special);
    str_add(out, "MICA %s mica_to_%s(float x) { return (%s)mica_float_bits((double)x, %d, %d, %d); }\n\n", f->c, f->c + 5, f->c, f->exponent,
            f->mantissa, f->special);
  }
}

int cprint_kernel(const struct tile_program *p, const struct tile_kernel *k, struct str *out, struct err *e)
{
  CHECK(k->lowered);
  struct arena mem = {0};
  struct cprint *c = NEW(&mem, struct cprint);
  c->w = (struct c_source){.mem = &mem, .p = p, .k = k, .out = out, .e = e};
  c->w.buffers = NEWS(&mem, const char *, k->nbuffers + 1);
  c->home = NEWS(&mem, enum home, k->nbuffers + 1), c->touched = NEWS(&mem, bool, k->nbuffers + 1);
  int status = cp_refuse(c);
  reserve(&c->w);
  const char *kernel = c_name(&c->w, k->name, "kernel");
  if (status == OK) {
    c_comment(&c->w, arena_printf(&mem, "%s: made by Mica for the CPU; cc %s", kernel, cprint_flags()));
    str_add(out, "%s\n", cprint_prelude_text);
    if (matrices(k)) str_add(out, "%s\n", cprint_warp_text);
    if (uses(k, UN_ORDER, UN_PLACE)) str_add(out, "%s\n", order_text);
    if (uses(k, UN_BF16_HIGH, UN_BF16_LOW)) str_add(out, "%s\n", parts_text);
    print_small(k, out);
    status = print(c, kernel);
  }
  str_free(&c->fields), str_free(&c->helpers);
  arena_close(&mem);
  return status;
}

int cprint_module(const struct tile_program *p, const struct tile_kernel *k, struct str *out, struct err *e)
{
  int status = cprint_kernel(p, k, out, e), buffer = 0, size = 0;
  if (status != OK) return status;
  struct arena mem = {0};
  struct str call = {0};
  const char *name = cprint_name(&mem, k);
  for (int i = 0; i < k->nbuffers; i++)
    if (k->buffers[i].mem == MEM_GL) str_add(&call, "%sbuffers[%d]", call.n ? ", " : "", buffer), buffer++;
  for (int i = 0; i < k->nparams; i++) {
    if (ex_is_const(k->params[i])) continue;
    str_add(&call, "%s*(const int64_t *)sizes[%d]", call.n ? ", " : "", size++);
  }
  str_add(out, "size_t mica_run_%s_workspace(void);\nsize_t mica_run_%s_workspace(void) { return 0; }\n", name, name);
  str_add(out, "int mica_run_%s(void *const *buffers, void *const *sizes, void *none);\n", name);
  str_add(out, "int mica_run_%s(void *const *buffers, void *const *sizes, void *none)\n{\n", name);
  str_add(out, "  (void)buffers, (void)sizes, (void)none;\n  return %s(%s);\n}\n", name, str_text(&call));
  str_free(&call);
  arena_close(&mem);
  return OK;
}
