// Programs for the CPU in a saved folder: kernel.c, its shared object, and program.json, which names the processor. The saved object can be used on
// any processor with the same instructions, whichever compiler made it.
#include "export/package.h"
#include "export/manifest.h"

#include <string.h>

const char *package_libraries(bool blas) { return blas ? "-lopenblas -fopenmp -lm" : "-fopenmp -lm"; }

void package_cpu_json(const struct package_cpu *c, struct str *out)
{
  char processor[64];
  target_processor(processor);
  json_t *kernel = json_pack("{s:s, s:s, s:s?}", "source", "kernel.c", "function", c->function, "object", c->so ? "kernel.so" : NULL);
  if (c->so) json_object_set_new(kernel, "processor", json_string(processor));
  json_t *root = json_pack("{s:s, s:s, s:s, s:o, s:o, s:o}", "program", c->name, "arch", "cpu", "compiler", compiler_version(NULL), "inputs",
                           manifest_tensors(c->g, graph_inputs), "outputs", manifest_tensors(c->g, graph_outputs), "kernel", kernel);
  json_object_set_new(root, "build", json_pack("{s:s, s:s}", "flags", gen_flags(), "libraries", package_libraries(c->blas)));
  if (c->rank) manifest_shards(root, c->rank);
  json_text(root, out);
  json_decref(root);
}

// compiler: name and flags, or "" if the output of any compiler is accepted
static const char *key_of(struct arena *mem, const char *source, const char *compiler)
{
  char processor[64];
  size_t n = strlen(source);
  target_processor(processor);
  return arena_printf(mem, "kernel %016llx%016llx\nprocessor %s\ncompiler %s", (unsigned long long)hash_bytes(source, n, 0),
                      (unsigned long long)hash_bytes(source, n, 1), processor, compiler);
}

static int compile(struct arena *mem, const char *key, const char *source, const char *function, struct db *db, const void **so, size_t *bytes,
                   struct err *e)
{
  struct module *m;
  struct err none = {0}; // errors are ignored: the database is only a cache here
  char *json;
  void *kept;
  if (db && db_get(db, key, mem, &json, &kept, bytes, &none) == OK && kept && *bytes) return *so = kept, OK;
  TRY(module_build(source, function, &m, e));
  const void *made = module_bytes(m, bytes);
  *so = arena_copy(mem, made, *bytes);
  module_close(m);
  if (db) db_put(db, key, "{}", *so, *bytes, &none);
  return OK;
}

int package_compile(struct arena *mem, const char *source, const char *function, struct db *db, const void **so, size_t *bytes, struct err *e)
{
  const char *by = db ? arena_printf(mem, "%s %s", compiler_version(NULL), gen_flags()) : "";
  return compile(mem, key_of(mem, source, by), source, function, db, so, bytes, e);
}

int package_recompile(struct arena *mem, const char *source, const char *function, struct db *db, const void **so, size_t *bytes, struct err *e)
{
  return compile(mem, key_of(mem, source, ""), source, function, db, so, bytes, e);
}
