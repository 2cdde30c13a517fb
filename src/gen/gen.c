// The driver: one function a kernel, in the order of the graph, and two entry points. Tensors between kernels are
// placed in one workspace where those that do not live together share bytes; the scratch of the threads follows.
// Reshapes are other names for the same memory. A transpose that only products or block graphs read is not
// executed, nor is a split: what reads it reads its source from other places, with other strides.
#include "gen/emit.h"
#include "thread/thread.h"

#include <string.h>

extern const char gen_support_text[], gen_more_text[]; // mica_cpu.h, mica_cpu_more.h, embedded by the build

struct home {         // of a kernel tensor
  struct place place; // kind PLACE_NONE: another tensor's memory, or nothing
  int root;           // the tensor whose memory it is
  const char *ptr;    // in the entry function; NULL: workspace
  int buf;
};

struct gen {
  struct arena *mem;
  const struct graph *g;
  const char *name;
  const struct target *t;
  struct home *home;
  struct gen_space space;
  struct str kernels, calls;
  int64_t scratch;
  int nkernels;
  bool blas, timed;
  struct err *e;
};

static const struct node *producer(const struct gen *c, int t) { return &c->g->nodes[c->g->tensors[t].node]; }

static bool swaps_last(const struct node *n, int dims)
{
  for (int i = 0; i < n->a.perm.n; i++)
    if (n->a.perm.d[i] != (i < dims - 2 ? i : 2 * dims - 3 - i)) return false;
  return true;
}

static bool takes_part(const struct node *n) { return n->op == OP_SLICE || op_rows[n->op].rule == RULE_SPLIT; }

// Parts that are read where they are: not returned, and not reshaped, which takes rows without gaps.
static bool part_folds(const struct gen *c, const struct node *n)
{
  for (int i = 0; i < c->g->nnodes; i++) {
    const struct node *r = &c->g->nodes[i];
    for (int k = 0; k < r->nin; k++)
      if (r->in[k] >= n->out && r->in[k] < n->out + n->nout && (r->op == OP_OUTPUT || op_rows[r->op].rule == RULE_VIEW)) return false;
  }
  return true;
}

// A transpose that its readers can do by reading with other strides.
static bool folds_away(const struct gen *c, const struct node *n)
{
  if (takes_part(n)) return part_folds(c, n);
  if (n->op != OP_TRANSPOSE) return false;
  for (int i = 0; i < c->g->nnodes; i++) {
    const struct node *r = &c->g->nodes[i];
    for (int k = 0; k < r->nin; k++) {
      if (r->in[k] != n->out) continue;
      if (takes_part(r) && part_folds(c, r)) continue;
      if (r->op != OP_BLOCK && (r->op != OP_MATMUL || !swaps_last(n, c->g->tensors[n->out].shape.n))) return false;
    }
  }
  return true;
}

// A view of a constant, or a part of one: the same number everywhere, so nothing is computed or kept. Roots of its operands are known.
static bool is_number(const struct gen *c, const struct node *n)
{
  enum rule rule = op_rows[n->op].rule;
  return (rule == RULE_VIEW || rule == RULE_SPLIT) && producer(c, c->home[n->in[0]].root)->op == OP_CONST;
}

static bool is_kernel(const struct gen *c, const struct node *n)
{
  return !is_number(c, n) && n->op != OP_INPUT && n->op != OP_CONST && n->op != OP_RESHAPE && n->op != OP_OUTPUT && !folds_away(c, n);
}

// An update of a state behind another one: all versions but the input are in one place.
static bool later_version(const struct gen *c, const struct node *n)
{
  if (n->op != OP_UPDATE || graph_state(c->g, n->in[0]) < 0) return false;
  return producer(c, c->home[n->in[0]].root)->op == OP_UPDATE;
}

// ---- memory ----

static void find_roots(struct gen *c)
{
  for (int t = 0; t < c->g->ntensors; t++) {
    const struct node *n = producer(c, t);
    c->home[t].root = t, c->home[t].buf = -1;
    if (n->op == OP_RESHAPE || folds_away(c, n) || is_number(c, n) || later_version(c, n)) c->home[t].root = c->home[n->in[0]].root;
  }
}

static void name_ends(struct gen *c)
{
  int in = 0, out = 0;
  for (int i = 0; i < c->g->nnodes; i++) {
    const struct node *n = &c->g->nodes[i];
    if (n->op == OP_INPUT) c->home[n->out].ptr = name_of(c->mem, "in", in++, c->g->tensors[n->out].name);
    if (n->op != OP_OUTPUT) continue;
    struct home *h = &c->home[c->home[n->in[0]].root];
    const char *ptr = name_of(c->mem, "out", out++, c->g->tensors[n->in[0]].name);
    bool moved = folds_away(c, producer(c, n->in[0]));
    if (!h->ptr && !moved && producer(c, c->home[n->in[0]].root)->op != OP_CONST) h->ptr = ptr;
  }
}

// Times are indices of nodes. A tensor lives from its producer to the last node that reads its memory.
static void place_tensors(struct gen *c)
{
  for (int i = 0; i < c->g->nnodes; i++) {
    const struct node *n = &c->g->nodes[i];
    for (int k = 0; k < n->nout; k++) {
      struct home *h = &c->home[n->out + k];
      if (h->root != n->out + k || h->ptr || n->op == OP_CONST) continue;
      h->buf = space_add(&c->space, dtype_bytes(c->g->tensors[n->out + k].dtype) * shape_size(&c->g->tensors[n->out + k].shape), i);
    }
    for (int k = 0; k < n->nin; k++) space_touch(&c->space, c->home[c->home[n->in[k]].root].buf, i);
  }
}

// Tensor t as the function of a kernel sees it, where its memory is the parameter `ptr`.
static struct place place_of(const struct gen *c, int t, const char *ptr)
{
  const struct tensor *x = &c->g->tensors[t];
  const struct node *n = producer(c, t);
  if (n->op == OP_CONST) return (struct place){PLACE_CONST, false, n->a.scalar};
  if (is_number(c, n)) return place_of(c, c->home[t].root, ptr);
  if (takes_part(n) && folds_away(c, n)) {
    struct place p = place_of(c, n->in[0], ptr);
    int64_t index = n->op == OP_CHUNK ? n->a.index : t - n->out, extent = x->shape.d[n->a.dim];
    p.v = view_cut(c->mem, &p.v, n->a.dim, n->op == OP_SLICE ? n->a.start : index * extent, extent);
    return p;
  }
  if (folds_away(c, n)) {
    struct place p = place_of(c, n->in[0], ptr);
    p.v = view_permuted(&p.v, &n->a.perm);
    return p;
  }
  return (struct place){PLACE_VIEW, false, 0, view_dense(ptr, -1, x->dtype, &x->shape)};
}

// ---- one kernel ----

// Text of a tensor's address in the entry function; buffers of the workspace are named by their index.
static const char *address_of(const struct gen *c, int t)
{
  const struct home *h = &c->home[c->home[t].root];
  return h->ptr ? h->ptr : arena_printf(c->mem, "b%d", h->buf);
}

static void parameters(struct gen *c, const struct kernel *k, const char *const *out, struct str *params, struct str *args)
{
  const char *sep = "", *restricted = k->n->op == OP_UPDATE ? "" : "restrict "; // an update may be in its operand's place
  for (int i = 0; i < k->n->nin; i++) {
    if (k->in[i].kind == PLACE_CONST) continue;
    str_add(params, "%sconst %s *%sa%d", sep, c_type(k->in[i].v.dtype), restricted, i);
    str_add(args, "%s%s", sep, address_of(c, k->n->in[i])), sep = ", ";
  }
  for (int i = 0; i < MAX(k->n->nout, k->n->op == OP_OUTPUT); i++) {
    str_add(params, "%s%s *%sr%d", sep, c_type(k->out[i].dtype), restricted, i);
    str_add(args, "%s%s", sep, out[i]), sep = ", ";
  }
  for (int i = 0; i < k->ntemps; i++) str_add(params, ", float *restrict w%d", i), str_add(args, ", b%d", k->temps[i]);
  if (k->scratch) str_add(params, ", float *memory"), str_add(args, ", scratch");
}

// Results that nobody here reads again and that would push everything else out of the last cache.
static void leave_caches(const struct gen *c, struct kernel *k)
{
  for (int i = 0; i < k->n->nout; i++) {
    int t = k->n->out + i;
    bool read = false;
    for (int j = 0; j < c->g->nnodes; j++)
      for (int a = 0; a < c->g->nodes[j].nin && c->g->nodes[j].op != OP_OUTPUT; a++) read |= c->g->nodes[j].in[a] == t;
    int64_t bytes = shape_size(&k->out[i].shape) * dtype_bytes(k->out[i].dtype), l3 = c->t->l3 ? c->t->l3 : 32 << 20;
    if (read || bytes < l3 / 4) continue;
    if (c->t->fetches)
      k->out[i].fetches = true;
    else
      k->out[i].past = arena_printf(c->mem, "past%d", i);
  }
}

static int emit_kernel(struct gen *c, int i, const char *const *out)
{
  const struct node *n = &c->g->nodes[i];
  struct kernel k = {.mem = c->mem, .g = c->g, .n = n, .space = &c->space, .now = i, .threads = MAX(1, c->t->cores)};
  struct str body = {0}, params = {0}, args = {0};
  k.in = NEWS(c->mem, struct place, n->nin + 1), k.out = NEWS(c->mem, struct view, n->nout + 1);
  for (int j = 0; j < n->nin; j++) k.in[j] = place_of(c, n->in[j], arena_printf(c->mem, "a%d", j));
  for (int j = 0; j < n->nout; j++) k.out[j] = place_of(c, n->out + j, arena_printf(c->mem, "r%d", j)).v;
  if (n->op == OP_BLOCK) leave_caches(c, &k);
  if (n->op == OP_OUTPUT) k.out[0] = view_dense("r0", -1, c->g->tensors[n->in[0]].dtype, &c->g->tensors[n->in[0]].shape);
  if (n->op == OP_OUTPUT && k.in->kind == PLACE_CONST) { // a constant that is an output
    struct node *fill = arena_copy(c->mem, n, sizeof *n);
    fill->op = OP_CONST, fill->a.scalar = k.in->c, fill->nin = 0, fill->nout = 1;
    k.n = fill;
  }
  bool takes_numbers = n->op == OP_BLOCK || op_rows[n->op].rule == RULE_MAP || k.n != n;
  for (int j = 0; j < k.n->nin; j++)
    if (k.in[j].kind == PLACE_CONST && !takes_numbers)
      return err_set(c->e, ERR_TARGET, n->at, "%s of a constant is not generated", op_rows[n->op].name);
  int s = n->op == OP_BLOCK ? kernel_print(&k, &body, c->e) : library_print(&k, &body, c->e);
  if (!s) {
    parameters(c, &k, out, &params, &args);
    str_add(&c->kernels, "// %s\nstatic void %s_k%d(%s)\n{\n%s}\n\n", node_text(c->mem, c->g, n), c->name, c->nkernels, str_text(&params),
            str_text(&body));
    line(&c->calls, 1, "%s_k%d(%s);", c->name, c->nkernels, str_text(&args));
    if (c->timed) line(&c->calls, 1, "now = m_now(), mica_%s_seconds[%d] = now - then, then = now;", c->name, c->nkernels);
    c->nkernels++;
  }
  c->scratch = MAX(c->scratch, k.scratch), c->blas |= k.blas;
  str_free(&body), str_free(&params), str_free(&args);
  return s;
}

static int emit_kernels(struct gen *c)
{
  int outs = 0, s = OK;
  for (int i = 0; i < c->g->nnodes && !s; i++) {
    const struct node *n = &c->g->nodes[i];
    const char **out = NEWS(c->mem, const char *, n->nout + 1);
    for (int k = 0; k < n->nout; k++) out[k] = address_of(c, n->out + k);
    if (n->op == OP_OUTPUT) {
      out[0] = name_of(c->mem, "out", outs++, c->g->tensors[n->in[0]].name);
      if (strcmp(out[0], address_of(c, n->in[0]))) s = emit_kernel(c, i, out);
    } else if (is_kernel(c, n)) {
      s = emit_kernel(c, i, out);
    }
  }
  return s;
}

// ---- the whole file ----

static void signature(struct gen *c, struct str *s)
{
  int in = 0, out = 0;
  str_add(s, "int mica_run_%s(", c->name);
  for (int i = 0; i < c->g->nnodes; i++) {
    const struct node *n = &c->g->nodes[i];
    if (n->op != OP_INPUT) continue;
    str_add(s, "%sconst %s *%s", in ? ", " : "", c_type(c->g->tensors[n->out].dtype), name_of(c->mem, "in", in, c->g->tensors[n->out].name));
    in++;
  }
  for (int i = 0; i < c->g->nnodes; i++) {
    const struct node *n = &c->g->nodes[i];
    if (n->op != OP_OUTPUT) continue;
    const struct tensor *t = &c->g->tensors[n->in[0]];
    str_add(s, "%s%s *%s", in + out ? ", " : "", c_type(t->dtype), name_of(c->mem, "out", out, t->name));
    out++;
  }
  str_add(s, ")");
}

static void unpack(struct gen *c, struct str *s, bool names)
{
  int in = 0, out = 0;
  for (int i = 0; i < c->g->nnodes; i++) {
    const struct node *n = &c->g->nodes[i];
    bool input = n->op == OP_INPUT;
    if (!input && n->op != OP_OUTPUT) continue;
    int t = input ? n->out : n->in[0], at = input ? in++ : out++;
    const char *name = name_of(c->mem, input ? "in" : "out", at, c->g->tensors[t].name);
    if (names)
      str_add(s, "%s%s%s", at ? ", " : "", input ? "(void *)" : "", name);
    else
      line(s, 1, "%s%s *const %s = %s[%d];", input ? "const " : "", c_type(c->g->tensors[t].dtype), name, input ? "inputs" : "outputs", at);
  }
}

static void names_of(struct gen *c, struct str *s, enum op op)
{
  int at = 0;
  for (int i = 0; i < c->g->nnodes; i++) {
    const struct node *n = &c->g->nodes[i];
    if (n->op != op) continue;
    bool input = op == OP_INPUT;
    const char *name = name_of(c->mem, input ? "in" : "out", at, c->g->tensors[input ? n->out : n->in[0]].name);
    str_add(s, "%s%s%s", at ? ", " : "", input ? "(void *)" : "", name);
    at++;
  }
}

static const char entry_memory[] = "  void *memory = %s_workspace() ? aligned_alloc(64, %s_workspace()) : NULL;\n"
                                   "  if (%s_workspace() && !memory) return ENOMEM;\n";

static void entries(struct gen *c, struct str *s)
{
  const char *full = arena_printf(c->mem, "mica_%s", c->name);
  line(s, 0, "size_t %s_workspace(void)\n{\n  return %lld + (size_t)MICA_THREADS * %lld;\n}\n", full, (long long)c->space.total,
       (long long)c->scratch);
  line(s, 0, "int %s(void *const *inputs, void *const *outputs, void *workspace)\n{", full);
  unpack(c, s, false);
  line(s, 1, "char *const memory = workspace;");
  if (c->scratch)
    line(s, 1, "float *const scratch = (float *)(memory + %lld);", (long long)c->space.total);
  else
    line(s, 1, "(void)memory;");
  for (int i = 0; i < c->space.n; i++) line(s, 1, "void *const b%d = memory + %lld;", i, (long long)c->space.buffers[i].offset);
  if (c->blas) line(s, 1, "if (openblas_set_num_threads) openblas_set_num_threads(MICA_THREADS);");
  if (c->timed) line(s, 1, "double now, then = m_now();");
  str_raw(s, str_text(&c->calls), c->calls.n);
  line(s, 1, "return 0;\n}\n");
  signature(c, s);
  line(s, 0, "\n{");
  str_add(s, entry_memory, full, full, full);
  str_add(s, "  void *const inputs[] = {"), names_of(c, s, OP_INPUT), str_add(s, "};\n");
  str_add(s, "  void *const outputs[] = {"), names_of(c, s, OP_OUTPUT), str_add(s, "};\n");
  line(s, 1, "int status = %s(inputs, outputs, memory);\n  free(memory);\n  return status;\n}", full);
}

static const char preamble[] = "// Generated by Mica. Compile with: cc %s%s\n"
                               "// Threads: MICA_THREADS, %d unless defined.\n"
                               "%s\n%s\n"
                               "#include <errno.h>\n#include <stdlib.h>\n"
                               "#ifdef _OPENMP\n#include <omp.h>\n#define M_THREAD omp_get_thread_num()\n#else\n#define M_THREAD 0\n#endif\n"
                               "#ifndef MICA_THREADS\n#define MICA_THREADS %d\n#endif\n"
                               "#if !defined(_OPENMP) && MICA_THREADS != 1\n#undef MICA_THREADS\n#define MICA_THREADS 1\n#endif\n";

static void write_header(struct gen *c, struct str *h)
{
  str_add(h, "// Generated by Mica. Tensors are dense and row-major; dtypes of fewer than 32 bits are passed as their bits.\n");
  str_add(h, "#ifndef MICA_%s_H\n#define MICA_%s_H\n#include <stddef.h>\n#include <stdint.h>\n", c->name, c->name);
  str_add(h, "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
  str_add(h, "// Returns 0, or ENOMEM where its workspace cannot be had.\n");
  for (int i = 0; i < c->g->nnodes; i++) {
    const struct node *n = &c->g->nodes[i];
    if (n->op != OP_INPUT && n->op != OP_OUTPUT) continue;
    const struct tensor *t = &c->g->tensors[n->op == OP_INPUT ? n->out : n->in[0]];
    char shape[128];
    shape_text(shape, &t->shape);
    str_add(h, "//   %s %s %s\n", n->op == OP_INPUT ? "in" : "out", dtype_name(t->dtype), shape);
  }
  signature(c, h);
  str_add(h, ";\n\n// The same with a workspace of the caller's, 64-byte aligned, of that many bytes.\n");
  str_add(h, "int mica_%s(void *const *inputs, void *const *outputs, void *workspace);\nsize_t mica_%s_workspace(void);\n", c->name, c->name);
  str_add(h, "\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
}

const char *gen_flags(void)
{
  return "-std=gnu11 -O3 -march=native -fopenmp -ffp-contract=fast -fno-math-errno -fno-trapping-math "
         "-fno-semantic-interposition";
}

static const char clock_text[] = "#include <time.h>\nstatic double m_now(void)\n{\n  struct timespec t;\n  clock_gettime(CLOCK_MONOTONIC, &t);\n  "
                                 "return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;\n}\n";

static int generate(const struct graph *g, const char *name, const struct target *t, bool timed, struct str *source, struct str *header,
                    struct gen_info *info, struct err *e)
{
  struct arena mem = {0};
  if (thread_canonical(&mem, g, &g, e)) return arena_close(&mem), USER;
  struct gen c = {.mem = &mem, .g = g, .name = name, .t = t, .space.mem = &mem, .timed = timed, .e = e};
  c.home = NEWS(&mem, struct home, g->ntensors + 1);
  find_roots(&c);
  name_ends(&c);
  place_tensors(&c);
  int s = state_check(g, e); // whoever made g may have changed the order of its nodes
  if (!s) s = emit_kernels(&c);
  const int threads = MAX(1, t->cores);
  if (!s) {
    space_place(&c.space);
    str_add(source, preamble, gen_flags(), c.blas ? " -lopenblas" : "", threads, gen_support_text, gen_more_text, threads);
    small_print(g, source);
    if (c.blas) str_add(source, "#include <cblas.h>\n__attribute__((weak)) void openblas_set_num_threads(int);\n");
    if (timed) str_add(source, "%sdouble mica_%s_seconds[%d];\n", clock_text, name, MAX(1, c.nkernels));
    str_add(source, "\n%s", str_text(&c.kernels));
    entries(&c, source);
    if (header) write_header(&c, header);
    if (info) *info = (struct gen_info){c.space.total, c.scratch, c.nkernels, c.blas};
  }
  str_free(&c.kernels), str_free(&c.calls);
  arena_close(&mem);
  return s;
}

int gen_c(const struct graph *g, const char *name, const struct target *t, struct str *source, struct str *header, struct gen_info *info,
          struct err *e)
{
  return generate(g, name, t, false, source, header, info, e);
}

int gen_c_timed(const struct graph *g, const char *name, const struct target *t, struct str *source, struct gen_info *info, struct err *e)
{
  return generate(g, name, t, true, source, NULL, info, e);
}
