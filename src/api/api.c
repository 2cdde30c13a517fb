// include/mica.h: contexts, reports and optimization. A context owns an arena, in which programs and reports are allocated. The rest of the
// interface is in api_*.c.
#include "api/api.h"
#include "base/child.h"
#include "gpu/gpu.h"
#include "report/report.h"
#include "front/front.h"
#include "export/export.h"

#include <stdlib.h>

int context_finish(struct mica_context *m, int status)
{
  *m->message = 0;
  __atomic_store_n(&m->said, NULL, __ATOMIC_RELEASE);
  if (status != OK && m->err.id != ERR_NONE) err_text(m->message, sizeof m->message, &m->err);
  return status;
}

int context_left(struct mica_context *m, struct guard *g, struct arena_mark before)
{
  guard_fail(g);
  arena_reset(&m->mem, before);
  return context_finish(m, mem_error(&g->lack, &m->err));
}

static const char *keep(struct mica_context *m, struct str *s)
{
  const char *text = arena_strdup(&m->mem, str_text(s));
  str_free(s);
  return text;
}

const char *mica_version(void) { return MICA_VERSION; }
int mica_abi_version(void) { return MICA_ABI_VERSION; }

struct mica_context *mica_open(void)
{
  struct mica_context *m = calloc(1, sizeof *m);
  if (m) m->mem.lasting = m->layouts.lasting = true;
  scratch_sweep();
  return m;
}

void mica_close(struct mica_context *m)
{
  if (!m) return;
  megas_close(m), modules_close(m);
  for (struct mica_report *r = m->reports; r; r = r->next) json_decref(r->json), gpu_forge_close(r->forge);
  arena_close(&m->mem), arena_close(&m->layouts);
  free(m);
}

const char *mica_error(const struct mica_context *m)
{
  const char *said = __atomic_load_n(&m->said, __ATOMIC_ACQUIRE);
  return said ? said : m->message;
}

static int made(struct mica_context *m, struct graph *g, struct mica_program **out)
{
  struct mica_program *p = NEW(&m->mem, struct mica_program);
  p->g = g;
  return *out = p, OK;
}

static int read_file(struct mica_context *m, const char *path, int nset, const char *const *set, struct mica_program **out)
{
  struct graph *g;
  TRY(load_file(&m->mem, path, nset, set, &g, &m->err));
  return made(m, g, out);
}

int mica_load(struct mica_context *m, const char *path, int nset, const char *const *set, struct mica_program **out)
{
  int status;
  CALL(m, status, read_file(m, path, nset, set, out));
  return status;
}

static int read_text(struct mica_context *m, const char *text, const char *name, int nset, const char *const *set, struct mica_program **out)
{
  struct graph *g;
  TRY(load_text(&m->mem, text, name, nset, set, &g, &m->err));
  return made(m, g, out);
}

int mica_load_text(struct mica_context *m, const char *text, const char *name, int nset, const char *const *set, struct mica_program **out)
{
  int status;
  CALL(m, status, read_text(m, text, name, nset, set, out));
  return status;
}

static int find_target(struct mica_context *m, int device, const char **target)
{
  struct gpu_facts f;
  TRY(gpu_look(device, &f, &m->err));
  return target_on(&(struct target_facts){.device = f.name, .arch = f.arch}, target, &m->err);
}

int mica_gpu_target(struct mica_context *m, int device, const char **target)
{
  int status;
  *target = NULL;
  CALL(m, status, find_target(m, device, target));
  return status;
}

static int optimize(struct mica_context *m, const struct mica_program *p, const struct mica_options *opts, struct mica_report **out)
{
  struct mica_options options;
  json_t *json = NULL;
  bool recalled = false;
  const struct mica_options *o = &options;
  TRY(options_take(opts, &options, &m->err));
  struct gpu_forge *forge = gpu_forge_open(&(struct gpu_forge_opts){0});
  int status = pipe_optimize_by(&m->mem, p->g, o, forge, &json, &recalled, &m->err);
  if (!json) return gpu_forge_close(forge), status;
  struct mica_report *r = NEW(&m->mem, struct mica_report);
  struct str text = {0}, json_str = {0};
  report_text(&m->mem, json, NULL, &text);
  json_text(json, &json_str);
  *r = (struct mica_report){json, recalled, .next = m->reports, .forge = forge, .has_db = o->remember};
  r->db = o->db ? arena_strdup(&m->mem, o->db) : NULL;
  r->text = keep(m, &text), r->json_text = keep(m, &json_str);
  *out = m->reports = r;
  return status;
}

int mica_optimize(struct mica_context *m, const struct mica_program *p, const struct mica_options *opts, struct mica_report **out)
{
  int status;
  *out = NULL;
  CALL(m, status, optimize(m, p, opts, out));
  return status;
}

const char *mica_report_text(const struct mica_report *r) { return r->text; }
const char *mica_report_json(const struct mica_report *r) { return r->json_text; }
bool mica_report_recalled(const struct mica_report *r) { return r->recalled; }

const char *mica_report_disturbed(const struct mica_report *r)
{
  const char *why = json_string_value(json_object_get(r->json, "disturbed"));
  return why ? why : "";
}

static int page(struct mica_context *m, const struct mica_report *r, const char **html)
{
  struct str text = {0};
  struct arena mem = {0};
  report_html(&mem, r->json, &text);
  arena_close(&mem);
  return *html = keep(m, &text), OK;
}

int mica_report_html(struct mica_context *m, const struct mica_report *r, const char **html)
{
  int status;
  CALL(m, status, page(m, r, html));
  return status;
}

static int save(struct mica_context *m, const struct mica_report *r, const char *folder)
{
  struct db *db = NULL;
  struct err none = {0}; // errors of the database are ignored: it only saves time here
  if (r->has_db) db_open(r->db, &db, &none);
  int status = report_save_by(&m->mem, r->json, folder, r->forge, db, &m->err);
  db_close(db);
  return status;
}

int mica_report_save(struct mica_context *m, const struct mica_report *r, const char *folder)
{
  int status;
  CALL(m, status, save(m, r, folder));
  return status;
}

static int database(struct mica_context *m, const char **path)
{
  char text[4096];
  if (!db_default(text, sizeof text)) return NO;
  return *path = arena_strdup(&m->mem, text), OK;
}

int mica_database(struct mica_context *m, const char **path)
{
  int status;
  *path = NULL;
  CALL(m, status, database(m, path));
  return status;
}

static int verify(struct mica_context *m, const struct mica_program *a, const struct mica_program *b, uint64_t seed, const char **json)
{
  struct verify_opts o = {.seed = seed, .threads = pool_cores()};
  struct certificate c = {0};
  TRY(verify_equal(a->g, b->g, &o, &c, &m->err));
  json_t *v = certificate_json(&c);
  struct str text = {0};
  json_text(v, &text);
  json_decref(v);
  *json = keep(m, &text);
  return c.equal ? OK : NO;
}

int mica_verify(struct mica_context *m, const struct mica_program *a, const struct mica_program *b, uint64_t seed, const char **json)
{
  int status;
  CALL(m, status, verify(m, a, b, seed, json));
  return status;
}
