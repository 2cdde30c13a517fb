// The whole source: support code, kernels, two entry points; and the header.
#include "gen/gen_driver.h"
#include "thread/thread.h"

#include <string.h>

extern const char gen_support_text[], gen_more_text[]; // mica_cpu.h, mica_cpu_more.h, embedded by the build

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

static void unpack(struct gen *c, struct str *s, bool outputs)
{
  int in = 0, out = 0;
  for (int i = 0; i < c->g->nnodes; i++) {
    const struct node *n = &c->g->nodes[i];
    bool input = n->op == OP_INPUT;
    if (!input && (n->op != OP_OUTPUT || !outputs)) continue;
    int t = input ? n->out : n->in[0], at = input ? in++ : out++;
    const char *name = name_of(c->mem, input ? "in" : "out", at, c->g->tensors[t].name);
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

void entry_body(struct gen *c, struct str *s, const struct str *calls)
{
  const bool freezes = calls == &c->freezing;
  unpack(c, s, !freezes);
  line(s, 1, "char *const memory = workspace;");
  if (c->scratch)
    line(s, 1, "float *const scratch = (float *)(memory + %lld);", (long long)c->space.total);
  else
    line(s, 1, "(void)memory;");
  for (int i = 0; i < c->space.n; i++) line(s, 1, "void *const b%d = memory + %lld;", i, (long long)c->space.buffers[i].offset);
  if (c->blas) line(s, 1, "if (openblas_set_num_threads) openblas_set_num_threads(MICA_THREADS);");
  if (c->timed && !freezes) line(s, 1, "double now, then = m_now();");
  str_raw(s, str_text(calls), calls->n);
}

// Addresses in the frozen memory.
static void kept(const struct gen *c, struct str *s)
{
  for (int t = 0; t < c->g->ntensors; t++)
    if (c->home[t].frozen && c->home[t].root == t && c->g->nodes[c->g->tensors[t].node].op != OP_INPUT)
      line(s, 1, "void *const %s = (void *)(kept + %lld);", c->home[t].ptr, (long long)c->home[t].kept);
}

// The functions that write and read the frozen memory, and the one that does both.
static void frozen_entries(struct gen *c, struct str *s)
{
  const char *full = arena_printf(c->mem, "mica_%s", c->name);
  line(s, 0, "size_t %s_frozen(void)\n{\n  return %lld;\n}\n", full, (long long)c->frozen);
  line(s, 0, "int %s_freeze(void *const *inputs, void *frozen, void *workspace)\n{", full);
  line(s, 1, "char *const kept = frozen;");
  kept(c, s);
  entry_body(c, s, &c->freezing);
  line(s, 1, "return 0;\n}\n");
  line(s, 0, "int %s_call(void *const *inputs, void *const *outputs, void *workspace, const void *frozen)\n{", full);
  line(s, 1, "const char *const kept = frozen;");
  kept(c, s);
  entry_body(c, s, &c->calls);
  line(s, 1, "return 0;\n}\n");
  line(s, 0, "int %s(void *const *inputs, void *const *outputs, void *workspace)\n{", full);
  line(s, 1, "char *const frozen = (char *)workspace + %lld + (size_t)MICA_THREADS * %lld;", (long long)c->space.total, (long long)c->scratch);
  line(s, 1, "const int status = %s_freeze(inputs, frozen, workspace);", full);
  line(s, 1, "return status ? status : %s_call(inputs, outputs, workspace, frozen);\n}\n", full);
}

static void entries(struct gen *c, struct str *s)
{
  const char *full = arena_printf(c->mem, "mica_%s", c->name);
  line(s, 0, "size_t %s_workspace(void)\n{\n  return %lld + (size_t)MICA_THREADS * %lld;\n}\n", full, (long long)(c->space.total + c->frozen),
       (long long)c->scratch);
  if (c->frozen) {
    frozen_entries(c, s);
  } else {
    line(s, 0, "int %s(void *const *inputs, void *const *outputs, void *workspace)\n{", full);
    entry_body(c, s, &c->calls);
    line(s, 1, "return 0;\n}\n");
  }
  signature(c, s);
  line(s, 0, "\n{");
  str_add(s, entry_memory, full, full, full);
  str_add(s, "  void *const inputs[] = {"), names_of(c, s, OP_INPUT), str_add(s, "};\n");
  str_add(s, "  void *const outputs[] = {"), names_of(c, s, OP_OUTPUT), str_add(s, "};\n");
  line(s, 1, "int status = %s(inputs, outputs, memory);\n  free(memory);\n  return status;\n}", full);
}

static const char preamble[] = "// Generated by Mica. Compile with: cc %s%s\n"
                               "// Threads: MICA_THREADS, %d unless defined.\n"
                               "%s%s\n%s\n"
                               "#include <errno.h>\n#include <stdlib.h>\n"
                               "#ifdef _OPENMP\n#include <omp.h>\n#define M_THREAD omp_get_thread_num()\n#else\n#define M_THREAD 0\n#endif\n"
                               "#ifndef MICA_THREADS\n#define MICA_THREADS %d\n#endif\n"
                               "#if !defined(_OPENMP) && MICA_THREADS != 1\n#undef MICA_THREADS\n#define MICA_THREADS 1\n#endif\n";

static void write_header(struct gen *c, struct str *h)
{
  const char *full = arena_printf(c->mem, "mica_%s", c->name);
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
  if (c->frozen)
    str_add(h,
            "\n// %s repeats in each call what depends on frozen inputs alone. To do it once, write %s_frozen() bytes, 64-byte aligned,\n"
            "// with %s_freeze, and pass them to %s_call, which does the rest. Frozen inputs must not change in between.\n"
            "size_t %s_frozen(void);\nint %s_freeze(void *const *inputs, void *frozen, void *workspace);\n"
            "int %s_call(void *const *inputs, void *const *outputs, void *workspace, const void *frozen);\n",
            full, full, full, full, full, full, full);
  str_add(h, "\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
}

const char *gen_flags(void)
{
  return "-std=gnu11 -O3 -march=native -fopenmp -ffp-contract=fast -fno-math-errno -fno-trapping-math "
         "-fno-semantic-interposition";
}

static const char clock_text[] = "#include <time.h>\nstatic double m_now(void)\n{\n  struct timespec t;\n  clock_gettime(CLOCK_MONOTONIC, &t);\n  "
                                 "return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;\n}\n";

void print_blas(const struct gen *c, struct str *s)
{
  if (c->blas) str_add(s, "#include <cblas.h>\n__attribute__((weak)) void openblas_set_num_threads(int);\n");
}

static int generate(const struct graph *g, const char *name, const struct target *t, bool timed, struct str *source, struct str *header,
                    struct gen_info *info, struct err *e)
{
  struct arena mem = {0};
  if (thread_canonical(&mem, g, &g, e)) return arena_close(&mem), USER;
  struct gen c = {.mem = &mem, .g = g, .name = name, .t = t, .space.mem = &mem, .timed = timed, .e = e};
  gen_place(&c);
  int s = state_check(g, e); // the caller may have reordered nodes
  if (!s) s = emit_kernels(&c);
  const int threads = MAX(1, t->cores);
  if (!s) {
    space_place(&c.space);
    struct str sizes = {0};
    sizes_print(&mem, str_text(&c.kernels), &sizes);
    str_add(source, preamble, gen_flags(), c.blas ? " -lopenblas" : "", threads, str_text(&sizes), gen_support_text, gen_more_text, threads);
    str_free(&sizes);
    small_print(g, source);
    print_blas(&c, source);
    if (timed) str_add(source, "%sdouble mica_%s_seconds[%d];\n", clock_text, name, MAX(1, c.nkernels));
    str_add(source, "\n%s", str_text(&c.kernels));
    entries(&c, source);
    if (header) write_header(&c, header);
    if (info) *info = (struct gen_info){c.space.total, c.scratch, c.nkernels, c.blas};
  }
  str_free(&c.kernels), str_free(&c.calls), str_free(&c.freezing);
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
