// Compiles kernels to machine code. The sources of all candidates are compiled together on all cores, each distinct one once. Machine code is stored
// in the database, keyed by its source, the architecture and the compiler's version. One thread reads and writes the database.
#include "gpu/session.h"
#include "base/memory.h"
#include "base/doc.h"

#include <string.h>

struct unit { // one source
  const char *name, *source, *key;
  struct arena mem; // of the compiling thread
  struct cubin cubin;
  int status;
  bool known, stored; // already compiled by the run; found in the database
  struct err err;
};
struct compilation {
  struct compile_with how;
  double start, seconds;
  int arch, nunits, ncodes, *unit; // unit: for each kernel of each code, in order
  struct unit *units;
  int *todo, ntodo; // those that the database does not have
};

static int nvrtc(const void *arg, struct arena *mem, const char *name, const char *source, int arch, struct cubin *out, struct err *e)
{
  return nvrtc_compile(arg, mem, name, source, arch, out, e);
}

struct gpu_compiler gpu_compiler_nvrtc(const struct nvrtc *r)
{
  struct gpu_compiler c = {.compile = nvrtc, .arg = r};
  nvrtc_version(r, &c.major, &c.minor);
  return c;
}

// ---- the database ----

static const char *key_of(struct arena *mem, const struct compilation *w, const char *source)
{
  size_t n = strlen(source);
  return arena_printf(mem, "cubin %d, compiler %d.%d, %016llx%016llx %zu", w->arch, w->how.c->major, w->how.c->minor,
                      (unsigned long long)hash_bytes(source, n, 1), (unsigned long long)hash_bytes(source, n, 2), n);
}

static bool recall(struct arena *mem, struct db *db, struct unit *u)
{
  char *json;
  void *bytes;
  size_t n;
  struct err e = {0};
  if (!db || db_get(db, u->key, mem, &json, &bytes, &n, &e) != OK || !n) return false;
  json_t *root = json_loads(json, 0, NULL);
  const json_t *registers = json_object_get(root, "registers"), *spilled = json_object_get(root, "spilled");
  bool good = json_is_integer(registers) && json_is_integer(spilled);
  u->cubin = (struct cubin){.bytes = bytes, .n = n, .ptx = "", .log = ""};
  u->cubin.registers = (int)json_integer_value(registers), u->cubin.spilled = (int)json_integer_value(spilled);
  json_decref(root);
  return u->stored = good;
}

// If the database cannot be written, only the next run is slower.
static void remember(struct db *db, const struct unit *u)
{
  struct err e = {0};
  char json[80];
  if (!db || u->stored || u->status != OK) return;
  snprintf(json, sizeof json, "{\"registers\": %d, \"spilled\": %d}", u->cubin.registers, u->cubin.spilled);
  db_put(db, u->key, json, u->cubin.bytes, u->cubin.n, &e);
}

// ---- code compiled by this run ----

static bool find(struct compiled *c, struct unit *u)
{
  if (!c) return false;
  pthread_mutex_lock(&c->lock);
  for (int i = 0; i < c->n && !u->known; i++)
    if (!strcmp(c->one[i].key, u->key)) u->cubin = c->one[i].cubin, u->known = true;
  pthread_mutex_unlock(&c->lock);
  return u->known;
}

static void note(struct compiled *c, const struct unit *u)
{
  if (!c || u->known || u->status != OK) return;
  struct undo undo;
  guard_lock(&undo, &c->lock);
  struct compiled_one one = {.key = arena_strdup(&c->mem, u->key), .cubin = u->cubin};
  one.cubin.bytes = arena_copy(&c->mem, u->cubin.bytes, u->cubin.n);
  PUSH(&c->mem, c->one, c->n, c->cap) = one;
  guard_unlock(&undo, &c->lock);
}

// ---- compiling ----

// Sources that were not begun at the deadline are skipped.
static void compile_one(void *arg, int i, int worker)
{
  (void)worker;
  const struct compilation *w = arg;
  const struct gpu_compiler *c = w->how.c;
  struct unit *u = &w->units[w->todo[i]];
  u->status = NO;
  if (patience_over(&w->how.until))
    u->status = err_set(&u->err, ERR_STOPPED, NOWHERE, "%s was skipped: no time was left to compile it", u->name);
  else if (w->how.processes)
    u->status = compilers_compile(w->how.processes, &w->how.until, &u->mem, u->name, u->source, w->arch, &u->cubin, &u->err);
  if (u->status == NO) u->status = c->compile(c->arg, &u->mem, u->name, u->source, w->arch, &u->cubin, &u->err);
}

static int unit_of(struct arena *mem, struct compilation *w, struct code_kernel *k)
{
  for (int i = 0; i < w->nunits; i++)
    if (!strcmp(w->units[i].source, k->source)) return i;
  w->units[w->nunits] = (struct unit){.name = k->name, .source = k->source, .key = key_of(mem, w, k->source)};
  return w->nunits++;
}

static void take(struct arena *mem, struct code_kernel *k, const struct unit *u, struct compile_result *r)
{
  if (u->status != OK && r->status == OK) r->status = u->status, r->err = u->err;
  if (u->status != OK) return;
  k->cubin = arena_copy(mem, u->cubin.bytes, u->cubin.n), k->bytes = (int64_t)u->cubin.n;
  k->registers = u->cubin.registers, k->spilled = u->cubin.spilled;
}

int compile_begin(struct arena *mem, const struct compile_with *how, int arch, int n, const struct code *codes, struct compilation **out,
                  struct err *e)
{
  struct compilation *w = *out = NEW(mem, struct compilation);
  int all = 0, at = 0;
  *w = (struct compilation){.how = *how, .arch = arch, .start = now_seconds(), .ncodes = n};
  if (!cuda_arch_name(arch)) return err_set(e, ERR_TARGET, NOWHERE, "there is no architecture sm_%d", arch);
  for (int i = 0; i < n; i++) all += codes[i].nkernel;
  w->units = NEWS(mem, struct unit, all + 1), w->todo = NEWS(mem, int, all + 1), w->unit = NEWS(mem, int, all + 1);
  for (int i = 0; i < n; i++)
    for (int k = 0; k < codes[i].nkernel; k++) w->unit[at++] = unit_of(mem, w, &codes[i].kernel[k]);
  for (int i = 0; i < w->nunits; i++)
    if (!find(how->before, &w->units[i]) && !recall(mem, how->db, &w->units[i])) w->todo[w->ntodo++] = i;
  return OK;
}

void compile_work(struct compilation *w)
{
  pool_run(pool_cores(), w->ntodo, compile_one, w);
  w->seconds = now_seconds() - w->start;
}

void compile_end(struct arena *mem, struct compilation *w, struct code *codes, struct compile_result *results, struct compile_stats *stats)
{
  int at = 0;
  for (int i = 0; i < w->nunits; i++) remember(w->how.known_only ? NULL : w->how.db, &w->units[i]), note(w->how.before, &w->units[i]);
  for (int i = 0; i < w->ncodes; i++) {
    results[i] = (struct compile_result){0};
    for (int k = 0; k < codes[i].nkernel; k++) take(mem, &codes[i].kernel[k], &w->units[w->unit[at++]], &results[i]);
  }
  for (int i = 0; i < w->nunits; i++) arena_close(&w->units[i].mem);
  *stats = (struct compile_stats){at, w->nunits, w->nunits - w->ntodo, w->seconds};
}

int compile_codes(struct arena *mem, const struct gpu_compiler *c, struct db *db, int arch, int n, struct code *codes, struct compile_result *results,
                  struct compile_stats *stats, struct err *e)
{
  struct compilation *w;
  const struct compile_with how = {.c = c, .db = db};
  if (compile_begin(mem, &how, arch, n, codes, &w, e)) return e->status;
  compile_work(w);
  compile_end(mem, w, codes, results, stats);
  return OK;
}
