// include/mica.h: programs that run. A module has its own arena, so it can be closed before its context.
//
// Calls may come from any thread, so a message must not be written where another thread may read it. The module keeps a list of the messages of
// failed calls, each once; a failed call points the context to its message. On a GPU a call only queues kernels. It uses state of the module
// (arguments, tensor maps, the stream), so a mutex lets one call at a time do so.
#include "api/module.h"
#include "base/range.h"
#include "gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNED = 16, MOST_SAID = 32 };

// ---- loading for a CPU ----

// Compiles the source on a processor for which the folder has no object. The default database caches the result.
static int load_source(struct mica_module *x, const char *source, struct err *e)
{
  struct arena mem = {0};
  struct db *db = NULL;
  struct err none = {0}; // errors of the database are ignored: it only saves time here
  const void *so;
  size_t n;
  db_open(NULL, &db, &none);
  int status = package_recompile(&mem, source, x->p.object.function, db, &so, &n, e);
  if (status == OK) status = module_load(so, n, x->p.object.function, &x->cpu, e);
  db_close(db);
  arena_close(&mem);
  return status;
}

// Loads the folder's object if it is for this processor, otherwise compiles its source.
static int load_object(struct mica_module *x, const struct folder_files *files, struct err *e)
{
  const struct package_object *o = &x->p.object;
  struct err mine = {0};
  const void *bytes;
  char here[64];
  size_t n;
  target_processor(here);
  if (o->file && !strcmp(o->processor, here) && package_file(&x->mem, files, o->file, &bytes, &n, e) == OK &&
      module_load(bytes, n, o->function, &x->cpu, &mine) == OK)
    return OK;
  if (e->status != OK) return (int)e->status;
  TRY(package_file(&x->mem, files, o->source, &bytes, &n, e));
  if (memchr(bytes, 0, n)) return err_set(e, ERR_FILE, NOWHERE, "%.80s is not text", o->source);
  return load_source(x, arena_printf(&x->mem, "%.*s", (int)n, (const char *)bytes), e);
}

// ---- opening, closing ----

static void leave(struct mica_module *x)
{
  if (x->link && (*x->link = x->next)) x->next->link = x->link;
}

void mica_module_close(struct mica_module *x)
{
  if (!x) return;
  leave(x);
  for (struct on_device *d = x->devices; d; d = d->next) gpu_resident_close(d->r);
  exchange_close(x->exchange);
  module_close(x->cpu);
  for (struct said *s = x->said, *next; s; s = next) {
    const char *text = s->text;
    next = s->next;
    __atomic_compare_exchange_n(&x->m->said, &text, NULL, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    free(s);
  }
  pthread_mutex_destroy(&x->lock), pthread_mutex_destroy(&x->turn);
  arena_close(&x->mem);
  mem_free(x);
}

static void drop(void *x) { mica_module_close(x); }
static const struct mem_kind kind = {.close = drop};

struct mica_module *module_new(struct mica_context *m)
{
  struct mica_module *x = mem_handle(sizeof *x, &kind);
  x->m = m, x->mem.lasting = true, x->rank = -1;
  pthread_mutex_init(&x->lock, NULL), pthread_mutex_init(&x->turn, NULL);
  return x;
}

void module_enter(struct mica_module *x)
{
  if (x->cpu) mem_keep(x->cpu); // the module closes it
  if (x->exchange) mem_keep(x->exchange);
  x->next = x->m->modules, x->link = &x->m->modules;
  if (x->next) x->next->link = &x->next;
  x->m->modules = x;
}

static int open_files(struct mica_context *m, const struct folder_files *files, struct mica_module **out)
{
  struct mica_module *x = module_new(m);
  int status = package_read(&x->mem, files, &x->p, &m->err);
  if (status == OK && !x->p.gpu) status = load_object(x, files, &m->err);
  if (x->cpu && module_world(x->cpu) != x->p.world)
    status = err_set(&m->err, ERR_CHANGED, NOWHERE, "the %d devices of program.json are not those of the kernel, which has %d", x->p.world,
                     module_world(x->cpu));
  if (status != OK) return mica_module_close(x), status;
  return *out = x, module_enter(x), OK;
}

void modules_close(struct mica_context *m)
{
  while (m->modules) mica_module_close(m->modules);
}

static int open_report(struct mica_context *m, const struct mica_report *r, struct mica_module **out)
{
  struct db *db = NULL;
  struct err none = {0}; // errors of the database are ignored: it only saves time here
  struct folder_files files;
  struct arena_mark before = arena_mark(&m->mem);
  if (r->has_db) db_open(r->db, &db, &none);
  int status = report_package(&m->mem, r->json, r->forge, db, &files, &m->err);
  gpu_forge_rest(r->forge);
  db_close(db);
  if (status == OK) status = open_files(m, &files, out);
  arena_reset(&m->mem, before);
  return status;
}

int mica_module_of(struct mica_context *m, const struct mica_report *r, struct mica_module **out)
{
  int status;
  *out = NULL;
  CALL(m, status, open_report(m, r, out));
  return status;
}

static int open_folder(struct mica_context *m, const char *folder, struct mica_module **out)
{
  struct arena mem = {0};
  struct folder_files files;
  int status = folder_read(&mem, folder, &files, &m->err);
  if (status == OK) status = open_files(m, &files, out);
  return arena_close(&mem), status;
}

int mica_module_load(struct mica_context *m, const char *folder, struct mica_module **out)
{
  int status;
  *out = NULL;
  CALL(m, status, open_folder(m, folder, out));
  return status;
}

static int copy(const char *from, const char *to, struct err *e)
{
  struct arena mem = {0};
  struct folder_files files;
  int status = folder_read(&mem, from, &files, e);
  if (status == OK) status = folder_write(&mem, to, &files, e);
  return arena_close(&mem), status;
}

int mica_folder_copy(struct mica_context *m, const char *from, const char *to)
{
  int status;
  CALL(m, status, copy(from, to, &m->err));
  return status;
}

// ---- properties ----

static struct mica_tensor tensor(int n, const struct mica_tensor *t, int i) { return i >= 0 && i < n ? t[i] : (struct mica_tensor){.name = ""}; }

const char *mica_module_name(const struct mica_module *x) { return x->p.name; }
const char *mica_module_target(const struct mica_module *x) { return x->p.target; }
int mica_module_inputs(const struct mica_module *x) { return x->p.nin; }
int mica_module_outputs(const struct mica_module *x) { return x->p.nout; }
struct mica_tensor mica_module_input(const struct mica_module *x, int i) { return tensor(x->p.nin, x->p.in, i); }
struct mica_tensor mica_module_output(const struct mica_module *x, int i) { return tensor(x->p.nout, x->p.out, i); }
int64_t mica_module_workspace(const struct mica_module *x) { return x->p.gpu ? gpu_code_workspace(&x->p.code) : 0; }

// ---- calls ----

// The message of a failed call, from the module's list. If the list is full, the newest message in it is returned instead.
static const char *say(struct mica_module *x, const struct err *e)
{
  char text[sizeof x->said->text] = "";
  err_text(text, sizeof text, e);
  pthread_mutex_lock(&x->lock);
  struct said *s = x->said;
  while (s && strcmp(s->text, text)) s = s->next;
  if (!s && x->nsaid < MOST_SAID && (s = calloc(1, sizeof *s))) {
    memcpy(s->text, text, sizeof text);
    s->next = x->said, x->said = s, x->nsaid++;
  }
  if (!s) s = x->said;
  pthread_mutex_unlock(&x->lock);
  return s ? s->text : "a call failed";
}

int module_failed_call(struct mica_module *x, const struct err *e)
{
  __atomic_store_n(&x->m->said, say(x, e), __ATOMIC_RELEASE);
  return e->status;
}

// Every tensor must have an address, aligned to `aligned` bytes or, if that is 0, to the size of its elements.
static int check(const char *what, int n, const struct mica_tensor *t, const void *const *p, uintptr_t aligned, struct err *e)
{
  for (int i = 0; i < n; i++) {
    const uintptr_t at = (uintptr_t)p[i], by = aligned ? aligned : (uintptr_t)dtype_bytes((enum dtype)t[i].dtype);
    if (at && at % by == 0) continue;
    err_set(e, ERR_OPTION, NOWHERE, at ? "%s %d, `%.60s`, is at an address that is no multiple of %d" : "%s %d, `%.60s`, has no address", what, i,
            t[i].name, (int)by);
    return err_hint(e, "pass the addresses of all tensors, in the order of the program"), e->status;
  }
  return OK;
}

static int check_call(const struct mica_module *x, const void *const *in, void *const *out, struct err *e)
{
  const uintptr_t aligned = x->p.gpu ? ALIGNED : 0;
  TRY(check("input", x->p.nin, x->p.in, in, aligned, e));
  return check("output", x->p.nout, x->p.out, (const void *const *)out, aligned, e);
}

// Whole numbers must be in their ranges: an index out of range would read past a tensor. Inputs without an address are left out.
static int check_ranges(const struct mica_module *x, const void *const *in, struct err *e)
{
  for (int i = 0; i < x->p.nin; i++) {
    const struct mica_tensor *from = &x->p.in[i];
    struct tensor t = {.name = *from->name ? from->name : NULL, .dtype = (enum dtype)from->dtype, .shape.n = from->ndim};
    if (!num_whole(t.dtype) || !in[i]) continue;
    memcpy(t.shape.d, from->shape, sizeof from->shape);
    t.whole = true, t.range = (struct whole_range){from->least, from->most, from->distinct != 0};
    TRY(range_check(&t, in[i], e));
  }
  return OK;
}

static int call_cpu(struct mica_module *x, const void *const *in, void *const *out, struct err *e)
{
  TRY(check_ranges(x, in, e));
  if (x->exchange) return rank_call(x, in, out, e);
  return module_failed(module_call(x->cpu, (void *const *)in, out), x->p.name, e);
}

// Finds the module in the current context, or loads it there.
static int here(struct mica_module *x, struct gpu_resident **out, struct err *e)
{
  for (struct on_device *d = x->devices; d; d = d->next)
    if (gpu_resident_here(d->r)) return *out = d->r, OK;
  struct on_device *d = NEW(&x->mem, struct on_device);
  TRY(gpu_resident_open(&x->p.code, x->p.arch, out, e));
  const int status = rank_connect(x, *out, e);
  if (status != OK) return gpu_resident_close(*out), status;
  d->r = *out, d->next = x->devices, x->devices = d;
  return OK;
}

// The same, with a guard for lack of memory. The other steps of a call allocate none.
static int guarded_here(struct mica_module *x, struct gpu_resident **out, struct err *e)
{
  struct guard g;
  int status;
  guard_open(&g);
  if (!setjmp(g.back))
    status = here(x, out, e), guard_leave(&g);
  else
    guard_fail(&g), status = mem_error(&g.lack, e);
  return status;
}

static int call_gpu(struct mica_module *x, const void *const *in, void *const *out, void *workspace, void *stream, struct err *e)
{
  struct gpu_resident *r;
  pthread_mutex_lock(&x->turn);
  int status = rank_able(x, e);
  if (status == OK) status = guarded_here(x, &r, e);
  if (status == OK) status = gpu_resident_run(r, in, out, workspace, stream, e);
  pthread_mutex_unlock(&x->turn);
  return status;
}

// ---- frozen inputs ----

static int may_freeze(const struct mica_module *x, const void *const *in, struct err *e)
{
  int frozen = 0;
  for (int i = 0; i < x->p.nin; i++) frozen += x->p.in[i].frozen;
  if (x->p.gpu || x->exchange || !frozen) {
    err_set(e, ERR_OPTION, NOWHERE, frozen ? "%.80s computes nothing in advance: only programs of one CPU do" : "%.80s has no frozen input",
            x->p.name);
    return err_hint(e, frozen ? "call it as it is" : "declare one: W: f32[64, 64] frozen"), (int)e->status;
  }
  for (int i = 0; i < x->p.nin; i++)
    if (x->p.in[i].frozen) TRY(check("input", 1, &x->p.in[i], &in[i], 0, e));
  return check_ranges(x, in, e);
}

// If nothing is computed of the frozen inputs alone, the new module is another one of the same code.
static int frozen_code(struct mica_module *x, const void *const *in, struct module **out, struct err *e)
{
  size_t n;
  if (module_freezes(x->cpu)) return module_freeze(x->cpu, (void *const *)in, out, e);
  const void *bytes = module_bytes(x->cpu, &n);
  return module_load(bytes, n, x->p.object.function, out, e);
}

static int freeze(struct mica_module *x, const void *const *in, struct mica_module **out, struct err *e)
{
  TRY(may_freeze(x, in, e));
  struct mica_module *f = module_new(x->m);
  module_describe(f, x, false);
  const int status = frozen_code(x, in, &f->cpu, e);
  if (status != OK) return mica_module_close(f), status;
  return *out = f, module_enter(f), OK;
}

int mica_module_freeze(struct mica_module *x, const void *const *inputs, struct mica_module **out)
{
  struct mica_context *m = x->m;
  int status;
  *out = NULL;
  CALL(m, status, freeze(x, inputs, out, &m->err));
  return status;
}

int mica_module_prepare(struct mica_module *x, void *workspace, void *stream)
{
  struct err e = {0};
  struct gpu_resident *r;
  if (!x->p.gpu) return OK;
  pthread_mutex_lock(&x->turn);
  int status = guarded_here(x, &r, &e);
  if (status == OK) status = gpu_resident_prepare(r, workspace, stream, &e);
  pthread_mutex_unlock(&x->turn);
  return status == OK ? OK : module_failed_call(x, &e);
}

int mica_module_call(struct mica_module *x, const void *const *inputs, void *const *outputs, void *workspace, void *stream)
{
  struct err e = {0};
  int status = check_call(x, inputs, outputs, &e);
  const bool ranged = status == OK && range_push(x->p.name);
  if (status == OK) status = x->cpu ? call_cpu(x, inputs, outputs, &e) : call_gpu(x, inputs, outputs, workspace, stream, &e);
  if (ranged) range_pop();
  return status == OK ? OK : module_failed_call(x, &e);
}
