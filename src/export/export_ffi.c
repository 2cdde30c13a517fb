// The last part of exported sources: the program as the tvm-ffi function __tvm_ffi_NAME. Each tensor is checked before the program runs.
#include "export/export.h"
#include "gen/gen.h"

extern const char export_ffi_text[], export_ffi_cpu_text[], export_ffi_cuda_text[]; // export_ffi*.h, .cuh

static void want(const struct tensor *t, struct str *out)
{
  const struct num_row *row = &num_rows[t->dtype];
  char shape[128], name[64] = "";
  shape_text(shape, &t->shape);
  if (t->name) gen_identifier(name, t->name);
  str_add(out, "  {\"%s%s%s %s\", %d, %d, %d, %lld, {", name, t->name ? ": " : "", dtype_name(t->dtype), shape, row->dlpack, row->bits, t->shape.n,
          (long long)(shape_size(&t->shape) * row->bytes));
  for (int i = 0; i < t->shape.n; i++) str_add(out, "%s%lld", i ? ", " : "", (long long)t->shape.d[i]);
  str_add(out, "%s}},\n", t->shape.n ? "" : "0");
}

static int wants(const struct graph *g, int (*list)(const struct graph *, int *), struct str *out)
{
  struct arena mem = {0};
  const int n = list(g, NULL);
  int *t = NEWS(&mem, int, n + 1);
  list(g, t);
  for (int i = 0; i < n; i++) want(&g->tensors[t[i]], out);
  return arena_close(&mem), n;
}

void export_ffi(const struct graph *g, const char *name, bool gpu, struct str *out)
{
  str_add(out, "\n%s\n%s\n", export_ffi_text, gpu ? export_ffi_cuda_text : export_ffi_cpu_text);
  str_add(out, "static const struct mica_ffi_want mica_ffi_wants[] = {\n");
  const int nin = wants(g, graph_inputs, out), nout = wants(g, graph_outputs, out);
  str_add(out,
          "};\n\nMICA_FFI_EXPORT int __tvm_ffi_%s(void *self, const struct mica_ffi_any *args, int32_t nargs, struct mica_ffi_any *result)\n{\n"
          "  static const struct mica_ffi_call call = {\"%s\", \"%s\", %d, %d, %d, mica_ffi_wants};\n"
          "  void *at[%d];\n  int device = 0;\n  (void)self, (void)result;\n"
          "  if (mica_ffi_check(&call, args, nargs, at, &device)) return -1;\n",
          name, name, gpu ? "on one GPU" : "on the CPU", nin, nout, gpu, nin + nout);
  if (gpu)
    str_add(out, "  return mica_ffi_run(&call, device, at, %s_workspace(), %s_prepare, %s_run);\n}\n", name, name, name);
  else
    str_add(out, "  return mica_ffi_run(&call, at, mica_%s, mica_%s_workspace());\n}\n", name, name);
}
