// Exported source for GPUs is one file for nvcc. The kernels and their support code are in an anonymous namespace, because they define their own
// 16-bit types. The host function takes pointers to inputs and outputs, as declared in the header, and makes the launches of gpu/gpu_code.c with all
// sizes evaluated. Tensor maps hold addresses, so each call encodes them. Their encoder is a driver function that the runtime library looks up, so no
// driver library has to be linked. Products need cuBLASLt.
#include "export/export.h"
#include "gpu/gpu.h"

#include <string.h>

struct exporting {
  struct arena *mem;
  const struct device_program *d;
  struct code code;
  const char *name;
  bool maps, products;
  struct str *out;
};

#define PUT(...) str_add(x->out, __VA_ARGS__)

// ---- kernels ----

// The part of the text after `common`; the part before it was already written.
static const char *without(struct exporting *x, const char *text, const char *common)
{
  const char *p = strstr(text, common);
  if (p) str_raw(x->out, text, (size_t)(p - text));
  return p ? p + strlen(common) : text;
}

static void kernels(struct exporting *x)
{
  PUT("namespace mica_%s {\n\n%s\n", x->name, cuda_prelude_text);
  if (x->code.world > 1) PUT("%s\n", cuda_meet_text);
  for (int i = 0; i < x->code.nkernel; i++) {
    const char *s = without(x, x->code.kernel[i].source, cuda_prelude_text);
    PUT("%s\n", without(x, s, cuda_meet_text));
  }
  PUT("} // namespace\n\n");
}

// ---- the host function ----

static void address(struct exporting *x, const struct lower_place *p)
{
  if (p->kind == PLACE_INPUT)
    PUT("(void *)inputs[%d]", p->index);
  else if (p->kind == PLACE_OUTPUT)
    PUT("outputs[%d]", p->index);
  else
    PUT("(char *)workspace + %lld", (long long)p->offset);
}

static void map_shape(struct exporting *x, const struct gpu_map_shape *s, int launch, int arg)
{
  static const char *const swizzles[] = {"NONE", "32B", "64B", "128B"};
  int swizzle = s->swizzle_bytes == 32 ? 1 : s->swizzle_bytes == 64 ? 2 : s->swizzle_bytes == 128 ? 3 : 0;
  PUT("static const map_shape map_%d_%d = {CU_TENSOR_MAP_DATA_TYPE_%s, %d, {", launch, arg, tile_types[s->type].map_name, s->rank);
  for (int i = 0; i < s->rank; i++) PUT("%s%llu", i ? ", " : "", (unsigned long long)s->size[i]);
  PUT("}, {");
  for (int i = 0; i < s->rank; i++) PUT("%s%llu", i ? ", " : "", (unsigned long long)s->stride[i]);
  PUT("}, {");
  for (int i = 0; i < s->rank; i++) PUT("%s%u", i ? ", " : "", s->box[i]);
  PUT("}, CU_TENSOR_MAP_SWIZZLE_%s};\n", swizzles[swizzle]);
}

// Operand o of a product, or NULL.
static const struct lower_place *operand(const struct code_launch *l, int o)
{
  int k = blas_index(&l->mul, o);
  return k >= 0 ? &l->arg[k].at : NULL;
}

// Bytes of the workspace before the library's part.
static int64_t room(const struct code *c) { return (c->workspace + 255) / 256 * 256; }
static int64_t whole_workspace(const struct exporting *x) { return x->products ? room(&x->code) + PRODUCT_WORKSPACE : x->code.workspace; }

// Uses the library's convention: column-major, with the operands swapped accordingly.
static void product(struct exporting *x, const struct code_launch *l)
{
  const struct blas_product *p = &l->mul;
  const struct lower_place work = {PLACE_WORK, 0, room(&x->code)};
  struct blas_arranged a;
  CHECK(blas_arrange(p, &a)); // succeeded when it was planned
  const struct lower_place *in[] = {operand(l, a.swapped ? BLAS_B : BLAS_A),
                                    operand(l, a.swapped ? BLAS_A : BLAS_B),
                                    operand(l, BLAS_BIAS),
                                    operand(l, blas_has(p, BLAS_C) ? BLAS_C : BLAS_D),
                                    operand(l, BLAS_D),
                                    &work};
  PUT("  { // %s: %s\n    static const product p = {%lld, (cublasLtEpilogue_t)%d, (float)%.9g, (float)%.9g, %lld, {", l->name, l->how,
      (long long)p->batch, blas_epilogue_number(p->epilogue), (double)p->alpha, (double)p->beta, (long long)p->stride[BLAS_BIAS][0]);
  for (size_t i = 0; i < COUNT(a.x); i++)
    PUT("%s{%s, %s, %lld, %lld, %lld, %lld}", i ? ", " : "", tile_types[a.x[i].type].blas_name,
        i < 2 && a.x[i].transposed ? "CUBLAS_OP_T" : "CUBLAS_OP_N", (long long)a.x[i].rows, (long long)a.x[i].cols, (long long)a.x[i].ld,
        (long long)a.x[i].batch);
  PUT("}};\n    status = multiply(&p, %d, ", MAX(l->algorithm, 0));
  for (size_t i = 0; i < COUNT(in); i++) {
    if (in[i])
      address(x, in[i]);
    else
      PUT("nullptr");
    PUT(", ");
  }
  PUT("stream);\n    if (status) return status;\n  }\n");
}

static void kernel_launch(struct exporting *x, int i)
{
  const struct code_launch *l = &x->code.launch[i];
  const struct code_kernel *k = &x->code.kernel[l->kernel];
  PUT("  { // %s: %s\n", l->name, l->how);
  for (int a = 0; a < l->narg; a++) {
    PUT(l->arg[a].is_map ? "    CUtensorMap a%d;\n    status = make_map(&map_%d_%d, " : "    void *a%d = ", a, i, a);
    address(x, &l->arg[a].at);
    if (l->arg[a].is_map) PUT(", &a%d);\n    if (status) return status", a);
    PUT(";\n");
  }
  PUT("    void *args[] = {");
  for (int a = 0; a < l->narg; a++) PUT("%s&a%d", a ? ", " : "", a);
  PUT("%s};\n    status = launch((const void *)mica_%s::%s, %lld, %d, %lld, %s, args, stream);\n    if (status) return status;\n  }\n",
      l->meet.ranks ? ", &world" : "", x->name, k->name, (long long)l->blocks, l->threads, (long long)k->shared, l->dependent ? "true" : "false");
}

static void prepare(struct exporting *x)
{
  PUT("extern \"C\" int %s_prepare(void *workspace, cudaStream_t stream)\n{\n  int status = 0;\n", x->name);
  for (int i = 0; i < x->code.nkernel; i++) {
    const struct code_kernel *k = &x->code.kernel[i];
    if (k->shared > 48 * 1024)
      PUT("  status = (int)cudaFuncSetAttribute((const void *)mica_%s::%s, cudaFuncAttributeMaxDynamicSharedMemorySize, %lld);\n"
          "  if (status) return status;\n",
          x->name, k->name, (long long)k->shared);
    if (k->cluster > 8)
      PUT("  status = (int)cudaFuncSetAttribute((const void *)mica_%s::%s, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);\n"
          "  if (status) return status;\n",
          x->name, k->name);
  }
  if (x->code.zeroed)
    PUT("  status = (int)cudaMemsetAsync(workspace, 0, %lld, stream);\n", (long long)x->code.zeroed);
  else
    PUT("  (void)workspace, (void)stream;\n");
  PUT("  return status;\n}\n\n");
}

static const char of_rank[] = "int rank, void *const *exchange, unsigned *told, double seconds, ";

// The argument of kernels in which ranks exchange data.
static void way(struct exporting *x)
{
  PUT("  mica_%s::meet_world world = {};\n  world.told = told, world.patience = (unsigned long long)(seconds * 1e9), world.rank = rank, world.ranks "
      "= %d;\n"
      "  for (int r = 0; r < %d; r++) world.at[r] = (char *)exchange[r];\n",
      x->name, x->code.world, x->code.world);
}

static void host(struct exporting *x)
{
  if (x->code.world > 1)
    PUT("extern \"C\" int %s_world(void) { return %d; }\nextern \"C\" size_t %s_exchange(void) { return %lld; }\n", x->name, x->code.world, x->name,
        (long long)code_exchange(&x->code));
  PUT("extern \"C\" size_t %s_workspace(void) { return %lld; }\n\n", x->name, (long long)whole_workspace(x));
  prepare(x);
  for (int i = 0; i < x->code.nlaunch; i++)
    for (int a = 0; a < x->code.launch[i].narg; a++)
      if (x->code.launch[i].arg[a].is_map) map_shape(x, &x->code.launch[i].arg[a].map, i, a);
  PUT("\nextern \"C\" int %s_run(%sconst void *const *inputs, void *const *outputs, void *workspace, cudaStream_t stream)\n{\n"
      "  int status = 0;\n  (void)workspace;\n",
      x->name, x->code.world > 1 ? of_rank : "");
  if (x->code.world > 1) way(x);
  for (int i = 0; i < x->code.nstate; i++) {
    const struct code_state *s = &x->code.state[i];
    PUT("  if (outputs[%d] != inputs[%d]) { // else the state is written in its place\n"
        "    status = (int)cudaMemcpyAsync(outputs[%d], inputs[%d], %lld, cudaMemcpyDeviceToDevice, stream);\n    if (status) return status;\n  }\n",
        s->out, s->in, s->out, s->in, (long long)s->bytes);
  }
  for (int i = 0; i < x->code.nlaunch; i++)
    if (x->code.launch[i].kernel < 0)
      product(x, &x->code.launch[i]);
    else
      kernel_launch(x, i);
  PUT("  return status;\n}\n");
}

// ---- the header ----

static void tensors(struct exporting *x, const char *what, int (*list)(const struct graph *, int *))
{
  struct arena mem = {0};
  const struct graph *g = x->d->g;
  int n = list(g, NULL), *t = NEWS(&mem, int, n + 1);
  char shape[128];
  list(g, t);
  for (int i = 0; i < n; i++) {
    const struct tensor *v = &g->tensors[t[i]];
    shape_text(shape, &v->shape);
    PUT(" *   %s[%d]  %s %s%s%s\n", what, i, dtype_name(v->dtype), shape, v->name ? "  " : "", v->name ? v->name : "");
  }
  arena_close(&mem);
}

static void header(struct exporting *x)
{
  PUT("/* %s: kernels for compute capability %d.%d, made by Mica. Tensors are in device memory, row by row, at addresses that are\n"
      " * multiples of 256.\n",
      x->name, x->d->gpu->arch / 10, x->d->gpu->arch % 10);
  tensors(x, "inputs", graph_inputs);
  tensors(x, "outputs", graph_outputs);
  for (int i = 0; i < x->code.nstate; i++)
    PUT(" * outputs[%d] is the state inputs[%d] after the call; if both have one address, it is updated in place.\n", x->code.state[i].out,
        x->code.state[i].in);
  PUT(" */\n#ifndef MICA_EXPORT_%s_H\n#define MICA_EXPORT_%s_H\n\n#include <cuda_runtime_api.h>\n#include <stddef.h>\n\n"
      "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n",
      x->name, x->name);
  if (x->code.world > 1)
    PUT("/* The program runs on %d GPUs, the ranks; tensors are the parts of one rank. Each rank has exchange memory on its GPU: %s_exchange() "
        "bytes,\n"
        " * zero before the first call. The other GPUs write it: cudaDeviceEnablePeerAccess, or cudaIpcOpenMemHandle in another process. */\n"
        "int %s_world(void);\nsize_t %s_exchange(void);\n",
        x->code.world, x->name, x->name, x->name);
  PUT("/* Bytes of device memory for what kernels leave to each other. */\nsize_t %s_workspace(void);\n"
      "/* Once on each device, and once for each workspace. 0, or an error of the CUDA run-time. */\n"
      "int %s_prepare(void *workspace, cudaStream_t stream);\n"
      "/* Starts the kernels in the stream and returns. A workspace serves one call at a time. 0, or an error of the CUDA run-time.%s */\n"
      "int %s_run(%sconst void *const *inputs, void *const *outputs, void *workspace, cudaStream_t stream);\n\n",
      x->name, x->name,
      x->code.world > 1
          ? "\n * exchange: by rank, as this GPU reaches it. told: memory of the host that the GPU writes (cudaMallocHost), 0 before. It is not 0 any"
            "\n * more after a rank did not come within so many seconds; then nothing works until all exchange memory is zero again."
            "\n * Calls of a rank must not overlap on its GPU, also with workspaces of their own."
          : "",
      x->name, x->code.world > 1 ? of_rank : "");
  PUT("#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
}

const char *export_flags(struct arena *mem, int arch)
{
  const char *name = cuda_arch_name(arch);
  return arena_printf(mem, "-gencode arch=compute_%s,code=%s", name + 3, name);
}

static bool has_products(const struct code *code)
{
  bool found = false;
  for (int i = 0; i < code->nlaunch; i++) found |= code->launch[i].kernel < 0;
  return found;
}

const char *export_libraries(const struct code *code) { return has_products(code) ? "-lcudart -lcublasLt -lstdc++" : "-lcudart -lstdc++"; }

static void readme(struct exporting *x)
{
  const char *flags = export_flags(x->mem, x->d->gpu->arch);
  PUT("# %s\n\nKernels made by Mica, which are used without it. `kernel.h` says what the tensors are.\n\n", x->name);
  PUT("    nvcc -O3 %s -c kernel.cu -o kernel.o\n    cc your.c kernel.o %s\n\n", flags, export_libraries(&x->code));
  if (x->code.world > 1) PUT("The source needs CUDA 12.3 or later, because ranks exchange words of 128 bits.\n\n");
  if (x->code.world == 1)
    PUT("The same source is a module of tvm-ffi; `%s` takes the inputs and then the outputs, and runs in the current stream:\n\n"
        "    nvcc -O3 -shared -Xcompiler -fPIC %s kernel.cu -o kernel.so%s\n"
        "    python3 -c 'import tvm_ffi; f = tvm_ffi.load_module(\"./kernel.so\")[\"%s\"]'\n\n",
        x->name, flags, x->products ? " -lcublasLt" : "", x->name);
  PUT("| launch | how | blocks | threads | shared memory |\n| --- | --- | --- | --- | --- |\n");
  for (int i = 0; i < x->code.nlaunch; i++) {
    const struct code_launch *l = &x->code.launch[i];
    if (l->kernel < 0)
      PUT("| %s | %s | | | |\n", l->name, l->how);
    else
      PUT("| %s | %s | %lld | %d | %lld |\n", l->name, l->how, (long long)l->blocks, l->threads, (long long)x->code.kernel[l->kernel].shared);
  }
  PUT("\nThe workspace has %lld bytes. `NAME.tile` are the kernels in Mica's tile language, `graph.mica` is what they compute, `report.txt`\n"
      "how that was found and checked.\n",
      (long long)whole_workspace(x));
}

// ---- the whole file ----

extern const char export_launch_text[], export_map_text[], export_blas_text[]; // *.cuh of this folder

static void source(struct exporting *x)
{
  PUT("// %s: made by Mica for %s; kernel.h says how it is called.\n", x->name, cuda_arch_name(x->d->gpu->arch));
  if (x->maps) PUT("#include <cuda.h>\n");
  PUT("#include <cuda_runtime.h>\n#include <stdint.h>\n\n#pragma nv_diag_suppress 177, 550 // variables that are not used\n\n");
  kernels(x);
  if (x->products) PUT("#include <cublasLt.h> // here, because it has 16-bit types of its own\n\n");
  PUT("namespace {\n\n%s\n", export_launch_text);
  if (x->maps) PUT("%s\n", export_map_text);
  if (x->products) PUT("enum { PROPOSED = %d, WORKSPACE = %d };\n%s\n", PRODUCT_PROPOSED, PRODUCT_WORKSPACE, export_blas_text);
  PUT("} // namespace\n\n");
  host(x);
  if (x->code.world == 1) export_ffi(x->d->g, x->name, true, x->out);
}

int export_device(struct arena *mem, const struct device_program *d, const char *name, struct exported *out, struct err *e)
{
  struct exporting x = {.mem = mem, .d = d, .name = name};
  *out = (struct exported){{0}, {0}, {0}};
  TRY(code_make_named(mem, d, &x.code, e));
  x.products = has_products(&x.code);
  for (int i = 0; i < x.code.nlaunch; i++)
    for (int a = 0; a < x.code.launch[i].narg; a++) x.maps |= x.code.launch[i].arg[a].is_map;
  x.out = &out->source, source(&x);
  x.out = &out->header, header(&x);
  x.out = &out->readme, readme(&x);
  return OK;
}

void export_free(struct exported *x)
{
  str_free(&x->source);
  str_free(&x->header);
  str_free(&x->readme);
}
