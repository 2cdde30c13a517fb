// Prints the source of a plan: constants, machine primitives, waits and regions, operators, bodies, the kernel, tables, the host program.
#include "megacuda/megacuda.h"

#include <string.h>

extern const char mega_prims_text[], mega_device_text[], mega_matrix_text[], mega_product_text[], mega_panel_text[], mega_cache_text[],
    mega_scores_text[], mega_attend_text[], mega_merge_text[], mega_heads_text[], mega_experts_text[], mega_token_text[], mega_serve_text[],
    mega_pack_text[], mega_noise_text[], mega_kernel_text[], mega_machine_text[], mega_peer_text[], mega_world_text[], mega_plain_text[],
    mega_host_text[], mega_time_text[], mega_graph_text[], mega_nccl_text[], mega_options_text[], mega_main_text[], mega_shim_text[];

const char *megacuda_shim(void) { return mega_shim_text; }

static bool has_body(const char *layer)
{
  const char *const texts[] = {mega_product_text, mega_attend_text, mega_merge_text, mega_heads_text,
                               mega_experts_text, mega_token_text,  mega_serve_text, mega_peer_text};
  char name[80];
  snprintf(name, sizeof name, "BODY u32 body_%.60s(", layer);
  for (size_t i = 0; i < COUNT(texts); i++)
    if (strstr(texts[i], name)) return true;
  return false;
}

static int check_choices(const struct mega_plan *p, const struct mega_op *op, struct err *e)
{
  for (int a = 0; a < op->spec.naccess; a++) {
    const int decider = op->spec.access[a].decider;
    if (decider < 0) continue;
    int64_t choices = p->m->tensor[op->arg[op->spec.access[decider].arg]].dim[1];
    if (choices > MEGACUDA_CHOICES)
      return err_set(e, ERR_MEGA, op->at, "operator %.40s: %lld experts a row; CUDA bodies take up to %d", op->name, (long long)choices,
                     MEGACUDA_CHOICES);
  }
  return OK;
}

static int check(const struct mega_plan *p, struct err *e)
{
  for (int o = 0; o < p->m->nops; o++) TRY(check_choices(p, &p->m->op[o], e));
  for (int o = 0; o < p->m->nops; o++)
    if (!has_body(p->m->op[o].layer->name))
      return err_set(e, ERR_MEGA, p->m->op[o].at, "operator %.40s: layer %s has no CUDA body", p->m->op[o].name, p->m->op[o].layer->name);
  for (int t = 0; t < p->m->ntensors; t++) {
    const struct mega_tensor *x = &p->m->tensor[t];
    const char *type = mega_types[x->type].name;
    bool number = !strcmp(type, "f32"), weights = number || !strcmp(type, "bf16"), token = !strcmp(type, "i32");
    bool fine = x->kind == MEGA_WEIGHTS ? weights : x->kind == MEGA_STATE ? weights || token : number || token;
    if (fine) continue;
    err_set(e, ERR_MEGA, NOWHERE, "%.40s is %s, which CUDA bodies do not support", x->name, type);
    return err_hint(e, "weights and caches must be bf16 or f32, activations f32"), USER;
  }
  return OK;
}

static void constants(const struct mega_plan *p, bool panels, int block, const struct megacuda_given *g, const struct megacuda_most *m,
                      struct str *out)
{
  const struct mega_model *x = p->m;
  str_add(out,
          "constexpr int ROWS = %d, WORKERS = %d, WARPS = %d, THREADS = WARPS * 32, BLOCK_THREADS = THREADS + %d, STAGES = %d, STAGE_ROOM = %lld;\n",
          x->rows, x->workers, g->warps, block - g->warps * 32, x->stages, (long long)m->stage_room);
  str_add(out, "#define WORLD %d\n", x->world);
  str_add(out, "constexpr int TENSORS = %d, OPS = %d, NODES = %d, WAITS = %d, PUBLISHES = %d, FLIGHT = %d, CALM = %d;\n", x->ntensors, x->nops,
          p->nnodes, m->waits, m->publishes, MIN(MEGACUDA_FLIGHT, x->stages), MIN(MEGACUDA_CALM, x->stages));
  str_add(out, "constexpr int NODE_ROW = %d, WAIT_ROW = %d, PUBLISH_ROW = %d; // bytes\n", MEGACUDA_NODE_ROW, MEGACUDA_WAIT_ROW,
          MEGACUDA_PUBLISH_ROW);
  str_add(out,
          "constexpr int X_ROWS = %lld, X_FLOATS = %lld, ONE_FLOATS = %lld, QUERY_FLOATS = %lld, HEAD_FLOATS = %lld, GROUP_HEADS = %lld, PART_FLOATS "
          "= %lld, "
          "MERGE_FLOATS = %lld, "
          "CHOICES = %lld, MOST_CHOICES = %d, "
          "CONTEXT = %lld, MOST_STEPS = %d, SHARED_BYTES = %d;\n",
          (long long)m->x_rows, (long long)m->x, (long long)m->one, (long long)m->query, (long long)m->head, (long long)m->heads, (long long)m->part,
          (long long)m->merge, (long long)m->choices, MEGACUDA_CHOICES, (long long)x->context, g->steps, MEGACUDA_SHARED);
  int64_t bytes = 0;
  for (int o = 0; o < x->nops; o++) bytes += mega_weight_bytes(x, &x->op[o]);
  str_add(out, "constexpr long long STEP_BYTES = %lldll; // of weights that a step streams\nconstexpr int COPY_GB = %d;\n", (long long)bytes,
          MEGA_COPY_GB);
  str_add(out, "#define PANELS %d\n", panels); // 1 if there are products of many rows
  if (panels)
    str_add(out,
            "constexpr int PANEL_BYTES = %lld, PANEL_SLOTS = %d, PANEL_PITCH = %d, HALVES = %d; // HALVES: bf16 for a value of an input\n"
            "constexpr bool SWIZZLED = %s; // panels are swizzled for wgmma\n",
            (long long)m->panel, MEGACUDA_PANEL_SLOTS, megacuda_panel_pitch(x->rows), x->rows <= MEGACUDA_EXACT_ROWS ? 2 : 1,
            megacuda_wide(x->rows) ? "true" : "false");
  int64_t slots, pages = mega_pages_of(x, &slots);
  str_add(out, "constexpr int SHARED_PAGES = %lld; // of a cache that requests share\n", (long long)pages);
  str_add(out, "constexpr unsigned long long SEED = %lluull;\nconstexpr const char *MODEL = \"%s\";\n", (unsigned long long)g->seed, x->name);
}

static const char head[] =
    "// Made by `mica mega emit`. On a GPU:  nvcc -O3 -std=c++17 -gencode=arch=compute_90a,code=sm_90a -o %s %s.cu\n"
    "// On a CPU, the same kernel with fibers as threads:  g++ -O1 -std=c++17 -DMEGA_SHIM -x c++ -o %s %s.cu\n"
    "#ifdef __CUDACC_RTC__ // compiled by a library: the kernel alone\n"
    "#define MEGA_LIBRARY\n#define INFINITY __int_as_float(0x7f800000)\ntypedef unsigned int u32;\ntypedef unsigned long long u64;\n"
    "namespace std {\ntemplate <class A, class B> struct is_same { static constexpr bool value = false; };\n"
    "template <class A> struct is_same<A, A> { static constexpr bool value = true; };\n"
    "template <bool C, class A, class B> struct conditional { typedef A type; };\n"
    "template <class A, class B> struct conditional<false, A, B> { typedef B type; };\n}\n"
    "#else\n"
    "#ifdef MEGA_SHIM\n#undef _FORTIFY_SOURCE // a fortified longjmp refuses another stack\n#endif\n"
    "#include <algorithm>\n#include <cmath>\n#include <cstdint>\n#include <cstdio>\n#include <cstdlib>\n#include <cstring>\n"
    "#include <type_traits>\n#include <vector>\n#ifdef MEGA_GRAPH\n#include <csignal>\n#include <dlfcn.h>\n#include <thread>\n#include "
    "<unistd.h>\n#endif\ntypedef uint32_t u32;\ntypedef uint64_t u64;\n#endif\n"
    "struct bf16 {\n  unsigned short bits;\n};\n";

// Prints the order in which ranks add slots. The proof has checked that it is the same on all ranks.
static void print_order(const struct mega_plan *p, struct str *out)
{
  str_add(out, "DEV int order_of(int i) { return ");
  for (int i = 0; i + 1 < p->world.n; i++) str_add(out, "i == %d ? %d : ", i, p->world.order[0][i]);
  str_add(out, "%d; }\n", p->world.n ? p->world.order[0][p->world.n - 1] : 0);
}

int megacuda_emit(struct arena *mem, const struct mega_plan *p, const struct megacuda_given *g, struct str *out, struct err *e)
{
  struct megacuda_most most;
  const char *name = p->m->name;
  TRY(check(p, e));
  TRY(megacuda_most_of(mem, p, g->warps * 32, &most, e));
  str_add(out, head, name, name, name, name);
  bool panels = megacuda_panels(mem, p, g->warps * 32);
  constants(p, panels, megacuda_block(mem, p, g->warps), g, &most, out);
  str_add(out, "\n#ifdef MEGA_SHIM\n#include \"mega_shim.h\"\n#else\n");
  str_raw(out, mega_prims_text, strlen(mega_prims_text));
  str_add(out, "#endif\n\n");
  megacuda_fault_kinds(out);
  str_raw(out, mega_device_text, strlen(mega_device_text));
  str_add(out, "\n#define NOISE DEV\n");
  str_raw(out, mega_noise_text, strlen(mega_noise_text));
  str_add(out, "\n// ---- the model ----\n\n");
  for (int t = 0; t < p->m->ntensors; t++) TRY(megacuda_tensor(mem, p, t, g->warps * 32, out, e));
  for (int o = 0; o < p->m->nops; o++) TRY(megacuda_op(mem, p, o, g->warps * 32, out, e));
  TRY(megacuda_weights(mem, p, g->warps * 32, out, e));
  str_add(out, "#define OPERATORS");
  for (int o = 0; o < p->m->nops; o++) str_add(out, " OPERATOR(o_%s, %s)", p->m->op[o].name, p->m->op[o].layer->name);
  str_add(out, "\n\n");
  print_order(p, out);
  const char *const texts[] = {mega_peer_text,    mega_matrix_text, mega_product_text, mega_panel_text, mega_cache_text,
                               mega_scores_text,  mega_attend_text, mega_merge_text,   mega_heads_text, mega_token_text,
                               mega_experts_text, mega_serve_text,  mega_kernel_text,  mega_pack_text};
  for (size_t i = 0; i < COUNT(texts); i++)
    if (panels || texts[i] != mega_panel_text) str_raw(out, texts[i], strlen(texts[i])), str_add(out, "\n");
  str_add(out,
          "#ifndef MEGA_LIBRARY\n\n// ---- the plan ----\n\n"
          "struct plan_node { int op, layer; };\nstruct plan_event { int id, node, flag, count, first, last; };\n"
          "struct plan_span { int lo, hi; };\nstruct plan_fault { bool hung; int of; const char *words; };\nstruct plan_wait { int node, lo, "
          "hi, event, back, stream; };\n"
          "struct plan_part { int n, dim; long long extent, inner, size[3]; };\n"
          "struct plan_tensor { const char *name; int bytes; long long elements; int versions; long long room; bool words; double scale; long long "
          "table_rows; char kind; int slots, like; plan_part part; };\n"
          "struct plan_box { int tensor, rank; long long dim[6], lo[6], hi[6]; };\n");
  TRY(megacuda_tables(mem, p, g->warps * 32, out, e));
  const char *const one[] = {mega_machine_text, mega_plain_text,   mega_host_text, mega_time_text,
                             mega_graph_text,   mega_options_text, mega_main_text, NULL};
  const char *const several[] = {
      mega_machine_text, mega_plain_text, mega_host_text, mega_time_text, mega_graph_text, mega_options_text, mega_world_text, mega_nccl_text, NULL};
  for (const char *const *h = p->m->world > 1 ? several : one; *h; h++) str_raw(out, *h, strlen(*h)), str_add(out, "\n");
  str_add(out, "#endif\n");
  return OK;
}
