#include "pretend.h"
#include "base/memory.h"
#include "columns.h"
#include "gpu/plain_args.h"
#include "sim/sim.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FUNCTION(field, symbol, parameters) static int p_##field parameters;
CU_FUNCTIONS
#undef FUNCTION

struct pretend pretend;
#define PLAIN_IMAGE "plain\n" // then the source

enum { HEAD = 256, OUT_OF_MEMORY = 2, FAILED = 700, MOST_NODES = 20000, MOST_ARGS = 12 };

static int say(const char **to, const char *text) { return *to = text, 0; }
static int p_error_name(int code, const char **text) { return (void)code, say(text, "PRETENDED"); }
static int p_error_text(int code, const char **text) { return (void)code, say(text, "an illegal address"); }
static int p_init(unsigned flags) { return (int)flags; }
static int p_device_count(int *n) { return *n = 1, 0; }
static int p_device_get(int *device, int i) { return *device = i, 0; }
static int p_device_peer(int *can, int device, int other) { return *can = device != other, 0; }
static int p_peer_enable(cu_context c, unsigned flags) { return (void)c, (int)flags; }
static int p_ipc_get(struct cu_ipc *handle, gpu_address a) { return (void)a, *handle = (struct cu_ipc){{0}}, 0; }
static int p_ipc_open(gpu_address *a, struct cu_ipc handle, unsigned flags) { return (void)handle, (void)flags, *a = 0, 1; }
static int p_ipc_close(gpu_address a) { return (void)a, 0; }
static int p_host_alloc(void **p, size_t bytes) { return *p = malloc(bytes), !*p; }
static int p_host_free(void *p) { return free(p), 0; }
static int p_device_name(char *name, int room, int device) { return (void)device, snprintf(name, (size_t)room, "none"), 0; }
static int p_device_attribute(int *v, int id, int device) { return (void)id, *v = 0, device; }
static int p_context_retain(cu_context *c, int device) { return *c = NULL, device; }
static int p_context_release(int device) { return device; }
static int p_context_set(cu_context c) { return (void)c, 0; }
static int p_context_get(cu_context *c) { return *c = NULL, 0; }
static int p_context_device(int *device) { return *device = 0, 0; }
static int p_stream_create(cu_stream *s, unsigned flags) { return (void)flags, *s = NULL, 0; }
static int p_stream_destroy(cu_stream s) { return (void)s, 0; }
static int p_stream_wait(cu_stream s) { return (void)s, pretend.lost ? FAILED : 0; }

static char *at(gpu_address a) { return (char *)(uintptr_t)a; }
static int p_alloc(gpu_address *a, size_t bytes)
{
  char *p = malloc(bytes + HEAD);
  if (!p) return OUT_OF_MEMORY;
  uintptr_t raw = ((uintptr_t)p + HEAD) / HEAD * HEAD; // as the driver aligns
  memcpy((char *)raw - sizeof p, &p, sizeof p);
  pretend.allocated++;
  return *a = (gpu_address)raw, 0;
}
static int p_release(gpu_address a)
{
  char *p;
  memcpy(&p, at(a) - sizeof p, sizeof p);
  return pretend.released++, free(p), 0;
}
static int p_write(gpu_address to, const void *from, size_t n, cu_stream s) { return (void)s, memcpy(at(to), from, n), 0; }
static int p_read(void *to, gpu_address from, size_t n, cu_stream s) { return (void)s, memcpy(to, at(from), n), 0; }
static int p_fill(gpu_address to, unsigned char b, size_t n, cu_stream s)
{
  enum { A_CACHE = 60 << 20 }; // what is larger empties a cache that is not there
  return (void)s, n > A_CACHE ? 0 : (memset(at(to), b, n), 0);
}
static int p_copy(gpu_address to, gpu_address from, size_t n, cu_stream s) { return (void)s, memcpy(at(to), at(from), n), 0; }
static int p_memory(size_t *left, size_t *all) { return *left = *all = (size_t)1 << 30, 0; }
static int p_version(int *version) { return *version = 13000, 0; }

static int p_event_create(cu_event *v, unsigned flags) { return (void)flags, *v = calloc(1, sizeof(double)), 0; }
static int p_event_destroy(cu_event v) { return free(v), 0; }
static int p_event_record(cu_event v, cu_stream s) { return (void)s, memcpy(v, &pretend.clock, sizeof pretend.clock), 0; }
static int p_event_wait(cu_event v) { return (void)v, p_stream_wait(NULL); }
static int p_event_elapsed(float *milliseconds, cu_event from, cu_event to)
{
  pretend.times++;
  double a, b;
  memcpy(&a, from, sizeof a), memcpy(&b, to, sizeof b);
  return *milliseconds = (float)(1e-6 * (b - a)), 0;
}

// ---- kernels ----

struct kernel {
  char verb[16];
  int n, nanoseconds;
  bool compares;             // outputs, as compare.cuh does
  const struct launch *tile; // of a device program, for the interpreter
  struct module *plain;      // of a float64 reference, compiled for this processor
};

// ---- plain kernels: the text of one is C too, with a call for each block ----

enum { PLAIN_ARGS = 5, MOST_PLAIN = 1024 };
static struct {
  uint64_t hash;
  struct module *m;
} plain[MOST_PLAIN]; // each source is compiled once

static struct module *plain_module(const char *source)
{
  const uint64_t hash = hash_bytes(source, strlen(source), 1);
  int i = 0;
  while (i < MOST_PLAIN - 1 && plain[i].m && plain[i].hash != hash) i++;
  if (plain[i].m && plain[i].hash == hash) return plain[i].m;
  struct err e = {0};
  struct str s = {0};
  str_add(&s, "#include <math.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n%s\n", source);
  str_add(&s, "size_t mica_plain_workspace(void) { return 0; }\n"
              "int mica_plain(void *const *in, void *const *out, void *work)\n{\n  (void)out, (void)work;\n"
              "  for (PLAIN_BLOCK = 0; PLAIN_BLOCK < *(const int64_t *)in[5]; PLAIN_BLOCK++)\n"
              "    PLAIN_NAME(in[0], (int *)in[1], in[2], in[3], in[4], *(const struct plain_args *)in[6]);\n  return 0;\n}\n");
  if (module_build_with(str_text(&s), "-std=gnu11 -O1 -ffp-contract=off", "plain", NULL, &plain[i].m, &e)) err_print(stderr, &e);
  if (plain[i].m) mem_keep(plain[i].m);
  plain[i].hash = hash;
  return str_free(&s), plain[i].m;
}

static int p_module_load(cu_module *m, const void *image)
{
  struct kernel *k = calloc(1, sizeof *k);
  *m = (cu_module)(void *)k;
  pretend.modules++;
  if ((k->compares = !strcmp(image, "compare"))) return 0;
  if (sscanf(image, "tile %p", (void **)(uintptr_t)&k->tile) == 1) return 0;
  if (!strncmp(image, PLAIN_IMAGE, strlen(PLAIN_IMAGE)))
    return k->plain = plain_module((const char *)image + strlen(PLAIN_IMAGE)), k->plain ? 0 : OUT_OF_MEMORY;
  return sscanf(image, "%15[a-z]_%d_%d", k->verb, &k->n, &k->nanoseconds) == 3 ? 0 : OUT_OF_MEMORY;
}
static int p_module_unload(cu_module m) { return pretend.modules--, free(m), 0; }
static int p_module_function(cu_function *f, cu_module m, const char *name) { return (void)name, *f = (cu_function)(void *)m, 0; }
static int p_module_global(gpu_address *a, size_t *bytes, cu_module m, const char *name) { return (void)a, (void)bytes, (void)m, (void)name, FAILED; }
static int p_function_attribute(int *value, int attribute, cu_function f)
{
  *value = attribute == CU_FUNC_THREADS ? 1024 : attribute == CU_FUNC_REGISTERS ? 33 : 0;
  return (void)f, 0;
}
static int p_function_set(cu_function f, int attribute, int value) { return (void)f, (void)attribute, (void)value, 0; }

struct product {                // of matrices, as the library was asked for it
  blas_object desc, layout[4];  // a, b, d, c
  const void *a, *b, *c, *bias; // which the description has when it is asked
  void *d;
  float alpha, beta;
  int algorithm;
};
struct done {
  const struct kernel *k; // NULL: a product
  gpu_address a[MOST_ARGS];
  int64_t blocks;
  struct product product;
  struct plain_args plain;
};
static struct {
  bool on;
  int n;
  struct done node[MOST_NODES];
} recording;
struct recorded {
  int n;
  struct done *node;
};

// Replays call it so often that sanitizers check only the last element, not each.
__attribute__((no_sanitize("address", "undefined"))) static void twice_all(float *restrict y, const float *restrict x, int n)
{
  for (int i = 0; i < n; i++) y[i] = 2 * x[i];
}
static void twice(float *y, const float *x, int n)
{
  y[n - 1] = 2 * x[n - 1];
  twice_all(y, x, n - 1);
}

static int interpret(const struct done *d)
{
  const struct launch *l = d->k->tile;
  struct arena mem = {0};
  struct err e = {0};
  struct sim_buffer b[MOST_ARGS];
  struct sim_report report = {0};
  for (int i = 0; i < l->nargs; i++) b[i] = (struct sim_buffer){at(d->a[i]), (size_t)(l->arg[i].elements * tile_types[l->arg[i].type].bytes), true};
  const struct sim_input in = {.buffers = b, .nbuffers = l->nargs};
  int status = sim_run(&mem, l->p, l->k, &in, &report, &e);
  struct str s = {0};
  if (report.found) sim_print_errors(&report, &s);
  if (status != OK || report.found) snprintf(pretend.trouble, sizeof pretend.trouble, "%s: %s%.300s", l->name, e.text, str_text(&s));
  str_free(&s);
  arena_close(&mem);
  return status;
}

static int run_plain(const struct done *d)
{
  int64_t blocks = d->blocks;
  struct plain_args args = d->plain;
  void *in[PLAIN_ARGS + 2] = {[PLAIN_ARGS] = &blocks, [PLAIN_ARGS + 1] = &args};
  for (int i = 0; i < PLAIN_ARGS; i++) in[i] = at(d->a[i]);
  const int status = module_call(d->k->plain, in, NULL);
  if (pretend.plain_off != 0 && in[0] != in[1]) *(double *)in[0] += pretend.plain_off;
  return pretend.launches++, status;
}

static double real_of(gpu_address a)
{
  double x;
  memcpy(&x, &a, sizeof x);
  return x;
}

// One block has it all. Values that are equal bit by bit have no difference.
static int run_compare(const struct done *d)
{
  const void *x = at(d->a[0]), *y = at(d->a[1]);
  const int64_t n = (int64_t)d->a[2], type = (int64_t)d->a[3];
  const double typical = real_of(d->a[4]), largest = real_of(d->a[5]), *expected = y;
  double *left = (double *)(void *)at(d->a[6]);
  memset(left, 0, 3 * sizeof *left * (size_t)d->blocks);
  for (int64_t i = 0; i < n; i++) {
    if (type < 0) {
      left[0] += num_word(x, i, 32) != num_word(y, i, 32);
      continue;
    }
    const double value = num_read((enum dtype)type, x, i), off = fabs(value - expected[i]);
    if (!(fabs(expected[i]) <= largest)) continue;
    if (!isfinite(value))
      left[2] += 1;
    else
      left[0] += off * off, left[1] = fmax(left[1], off / (fabs(expected[i]) + typical));
  }
  return pretend.launches++, 0;
}

// How many times longer a kernel takes while others have the GPU: for every other 50 ms, always or in the first 1.5 s; or in the first six times.
static double slower(const char *verb)
{
  bool busy = !strcmp(verb, "busy") || (!strcmp(verb, "early") && pretend.clock < 1.5e9);
  if (!strcmp(verb, "waking") && pretend.times < 6) return 10;
  return busy && (int64_t)(pretend.clock / 50e6) % 2 ? 3 : 1;
}

static int execute(const struct done *d)
{
  const struct product *p = &d->product;
  if (!d->k) {
    struct description desc = *(const struct description *)p->desc;
    desc.bias = p->bias;
    pretend.clock += pretend.product[p->algorithm] * (pretend.products++ < pretend.cold ? 1.1 : 1);
    return matmul(NULL, &desc, &p->alpha, p->a, p->layout[0], p->b, p->layout[1], &p->beta, p->c, p->layout[3], p->d, p->layout[2], NULL, NULL, 0,
                  NULL);
  }
  if (d->k->compares) return run_compare(d);
  if (d->k->tile) return interpret(d);
  if (d->k->plain) return run_plain(d);
  const char *verb = d->k->verb;
  const float *x = (const float *)(const void *)at(d->a[0]);
  float *y = (float *)(void *)at(d->a[1]), *counter = (float *)(void *)at(d->a[2]);
  int n = d->k->n;
  static int runs;
  pretend.clock += d->k->nanoseconds * slower(verb), pretend.launches++;
  if (!strcmp(verb, "crash")) abort();
  if (!strcmp(verb, "hang")) sleep(1000);
  if (!strcmp(verb, "fail")) return pretend.lost = true, 0; // is told later, as by a device
  twice(y, x, !strcmp(verb, "half") ? n / 2 : n);
  if (!strcmp(verb, "off")) y[n / 3] += 0.005f;
  if (!strcmp(verb, "all"))
    for (int i = 0; i < n; i++) y[i] *= 1.02f;
  if (!strcmp(verb, "lossy"))
    for (int i = 0; i < n; i++) y[i] = isfinite(x[i]) ? y[i] : 0;
  if (!strcmp(verb, "past")) y[n] = 1;
  if (!strcmp(verb, "ahead")) y[-1] = 1;
  if (!strcmp(verb, "race") && runs++ / 2 % 3 == 2) y[n / 2] = 100;
  if (!strcmp(verb, "jitter")) y[n / 2] *= 1 + 1e-7f * (float)(runs++ / 2 % 3);
  if (!strcmp(verb, "count")) counter[0] += 1;
  if (!strcmp(verb, "reset")) counter[0] += 1, counter[0] = 0;
  return 0;
}

static int args_of(const struct kernel *k)
{
  if (k->plain) return PLAIN_ARGS;
  if (k->compares) return 7;
  return k->tile ? k->tile->nargs : !strcmp(k->verb, "count") || !strcmp(k->verb, "reset") ? 3 : 2;
}

static int record(const struct done *d)
{
  if (!recording.on) return execute(d);
  if (recording.n == MOST_NODES) return OUT_OF_MEMORY;
  return recording.node[recording.n++] = *d, 0;
}

static int record_product(blas_object h, blas_object desc, const void *alpha, const void *a, blas_object al, const void *b, blas_object bl,
                          const void *beta, const void *c, blas_object cl, void *d, blas_object dl, const uint64_t *algorithm, void *workspace,
                          size_t bytes, cu_stream s)
{
  const void *bias = ((const struct description *)desc)->bias;
  const struct done product = {.product = {desc, {al, bl, dl, cl}, a, b, c, bias, d, *(const float *)alpha, *(const float *)beta, (int)*algorithm}};
  (void)h, (void)workspace, (void)bytes, (void)s;
  return record(&product);
}

void pretend_products(struct stage *s)
{
  s->blas = mem_lasting(sizeof *s->blas);
  *s->blas = library;
  s->blas->g = s->g, s->blas->matmul = record_product;
  for (size_t i = 0; i < COUNT(pretend.product); i++) pretend.product[i] = 1e6; // long, so few calls are timed
}

static int p_launch(const struct cu_config *c, cu_function f, void **args, void **extra)
{
  struct done d = {.k = (const struct kernel *)(const void *)f, .blocks = c->grid[0]};
  (void)extra;
  for (int i = 0; i < args_of(d.k); i++) memcpy(&d.a[i], args[i], sizeof d.a[i]);
  if (d.k->plain) memcpy(&d.plain, args[PLAIN_ARGS], sizeof d.plain);
  return record(&d);
}
static int p_capture(cu_stream s, int mode) { return (void)s, (void)mode, recording.on = true, recording.n = 0, 0; }
static int p_capture_end(cu_stream s, cu_graph *g)
{
  struct recorded *r = calloc(1, sizeof *r);
  size_t bytes = sizeof *r->node * (size_t)recording.n;
  r->n = recording.n, r->node = malloc(bytes + 1);
  memcpy(r->node, recording.node, bytes);
  recording.on = false, pretend.graphs++;
  return (void)s, *g = (cu_graph)(void *)r, 0;
}
static int p_graph_make(cu_exec *x, cu_graph g, unsigned long long flags) { return (void)flags, *x = (cu_exec)(void *)g, 0; }
static int p_graph_launch(cu_exec x, cu_stream s)
{
  const struct recorded *r = (const struct recorded *)(const void *)x;
  (void)s, pretend.replays++;
  for (int i = 0; i < r->n; i++)
    if (execute(&r->node[i])) return FAILED;
  return 0;
}
static int p_graph_upload(cu_exec x, cu_stream s) { return (void)x, (void)s, 0; }
static int p_graph_destroy(cu_graph g)
{
  struct recorded *r = (struct recorded *)(void *)g;
  return pretend.graphs--, free(r->node), free(r), 0;
}
static int p_exec_destroy(cu_exec x) { return (void)x, 0; }
static int p_tensor_map(struct gpu_map *out, int type, uint32_t rank, void *base, const uint64_t *size, const uint64_t *stride, const uint32_t *box,
                        const uint32_t *step, int interleave, int swizzle, int promotion, int fill)
{
  (void)type, (void)rank, (void)size, (void)stride, (void)box, (void)step;
  (void)interleave, (void)swizzle, (void)promotion, (void)fill;
  return out->word[0] = (uint64_t)(uintptr_t)base, 0; // a kernel finds the address where a buffer's is
}

// Kernels keep their names with line tables, and here the names are the machine code.
__attribute__((constructor)) static void names_stay(void) { setenv("MICA_LINE_INFO", "1", 1); }

struct gpu *pretend_gpu(void)
{
  struct gpu *g = mem_lasting(sizeof *g);
  g->facts = (struct gpu_facts){.name = "none", .arch = 90, .processors = 4, .l2 = PRETEND_L2, .shared = 232448, .driver = 13000};
#define FUNCTION(field, symbol, parameters) g->field = p_##field;
  CU_FUNCTIONS
#undef FUNCTION
  g->event_create(&g->from, 0), g->event_create(&g->to, 0);
  pretend = (struct pretend){0};
  return g;
}

struct stage *pretend_stage(void)
{
  struct stage *s = stage_new();
  s->g = pretend_gpu();
  return s;
}

// ---- programs ----

int pretend_compile(const void *arg, struct arena *mem, const char *name, const char *source, int arch, struct cubin *out, struct err *e)
{
  (void)source;
  if (arg) atomic_fetch_add((atomic_int *)(uintptr_t)arg, 1);
  if (arch != 90) return err_set(e, ERR_COMPILER, NOWHERE, "%s is compiled for %d, which the device is not", name, arch);
  if (!strncmp(name, "syntax", 6)) return err_set(e, ERR_COMPILER, NOWHERE, "%s does not compile", name);
  *out = (struct cubin){.bytes = arena_strdup(mem, name), .n = strlen(name) + 1, .ptx = "", .log = "", .registers = 33};
  return OK;
}
const struct gpu_compiler pretend_compiler = {.compile = pretend_compile, .major = 1};

static int as_plain(const void *arg, struct arena *mem, const char *name, const char *source, int arch, struct cubin *out, struct err *e)
{
  (void)arg, (void)name, (void)arch, (void)e;
  const char *image = arena_printf(mem, PLAIN_IMAGE "%s", source);
  *out = (struct cubin){.bytes = image, .n = strlen(image) + 1, .ptx = "", .log = ""};
  return OK;
}
const struct gpu_compiler pretend_plain = {.compile = as_plain, .major = 1};

static int as_tile(const void *arg, struct arena *mem, const char *name, const char *source, int arch, struct cubin *out, struct err *e)
{
  const struct device_program *p = arg;
  (void)source, (void)arch;
  for (int i = 0; i < p->nlaunch; i++) {
    const struct launch *l = &p->launch[i];
    if (l->product || strcmp(cuda_kernel_name(mem, l->k), name) != 0) continue;
    const char *image = arena_printf(mem, "tile %p", (const void *)l);
    *out = (struct cubin){.bytes = image, .n = strlen(image) + 1, .ptx = "", .log = ""};
    return OK;
  }
  return err_set(e, ERR_COMPILER, NOWHERE, "no kernel %s", name);
}

struct gpu_compiler pretend_interpreter(const struct device_program *p) { return (struct gpu_compiler){.compile = as_tile, .arg = p}; }

static void one_launch(struct arena *mem, struct launch *l, const char *name, int i, int n, int elements, bool counter)
{
  static const struct target limits = {.arch = 90};
  struct err e = {0};
  const char *text = arena_printf(mem,
                                  "order row\nkernel %s {\n  %%x:[%d].fp32.GL\n  %%y:[%d].fp32.GL\n%s  #g:[1].block\n  #t:[32].thread\n"
                                  "  %%y <- Spec<<<#g, #t>>>(%%x) {\n    @i = #t.indices()\n    #me = #t.scalar()\n    %%v:[4].fp32.RF\n"
                                  "    %%v <- Move<<<#g, #me>>>(%%x.tile([4])[@i])\n    %%y.tile([4])[@i] <- Move<<<#g, #me>>>(%%v)\n  }\n}\n",
                                  name, elements, elements, counter ? "  %c:[64].fp32.GL\n" : "");
  *l = (struct launch){.name = name, .how = name, .text = text, .nargs = counter ? 3 : 2, .algorithm = -1};
  if (tile_parse(mem, name, text, &l->p, &e) || tile_lower(l->p, l->p->kernels[0], limits.arch, &e)) err_print(stderr, &e);
  l->k = l->p->kernels[0];
  l->arg = NEWS(mem, struct launch_arg, 3);
  const int64_t step = 4 * (int64_t)elements, zeroed = 256;
  l->arg[0] = (struct launch_arg){{i ? PLACE_WORK : PLACE_INPUT, 0, i ? zeroed + (i - 1) * step : 0}, TT_F32, elements, false};
  l->arg[1] = (struct launch_arg){{i + 1 < n ? PLACE_WORK : PLACE_OUTPUT, 0, i + 1 < n ? zeroed + i * step : 0}, TT_F32, elements, true};
  l->arg[2] = (struct launch_arg){{PLACE_WORK, 0, 0}, TT_F32, 64, true};
}

struct device_program *pretend_program(struct arena *mem, const char *const *names, int n, int elements)
{
  static const struct target limits = {.arch = 90};
  struct device_program *p = NEW(mem, struct device_program);
  *p = (struct device_program){.gpu = &limits, .nlaunch = n, .launch = NEWS(mem, struct launch, n), .zeroed = 256};
  for (int i = 0; i < n; i++) {
    bool counter = !strncmp(names[i], "count", 5) || !strncmp(names[i], "reset", 5);
    one_launch(mem, &p->launch[i], names[i], i, n, elements, counter);
  }
  p->workspace = p->zeroed + 4 * (int64_t)elements * (n - 1);
  return p;
}

struct code *pretend_code(struct arena *mem, const char *const *names, int n, int elements)
{
  struct code *c = NEW(mem, struct code);
  struct compile_result r;
  struct compile_stats s;
  struct err e = {0};
  if (code_make(mem, pretend_program(mem, names, n, elements), c, &e) || compile_codes(mem, &pretend_compiler, NULL, 90, 1, c, &r, &s, &e) ||
      r.status)
    err_print(stderr, e.status ? &e : &r.err);
  return c;
}
