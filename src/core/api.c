// include/mica.h: handles around the pipeline. A context owns an arena; programs and reports live in it. The rest of the interface is
// in api_*.c and layout.c.
#include "core/context.h"
#include "gpu/gpu.h"

#include <stdlib.h>

int context_finish(struct mica_context *m, int status)
{
  FILE *f = fmemopen(m->message, sizeof m->message, "w");
  *m->message = 0;
  __atomic_store_n(&m->said, NULL, __ATOMIC_RELEASE);
  if (!f) return status;
  if (status != OK && m->err.id != ERR_NONE) err_print(f, &m->err);
  fclose(f);
  return status;
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
  return m;
}

void mica_close(struct mica_context *m)
{
  if (!m) return;
  modules_close(m);
  for (struct mica_report *r = m->reports; r; r = r->next) json_decref(r->json), gpu_forge_close(r->forge);
  arena_close(&m->mem);
  free(m);
}

const char *mica_error(const struct mica_context *m)
{
  const char *said = __atomic_load_n(&m->said, __ATOMIC_ACQUIRE);
  return said ? said : m->message;
}

static int loaded(struct mica_context *m, int status, struct graph *g, struct mica_program **out)
{
  if (status == OK) *out = NEW(&m->mem, struct mica_program), (*out)->g = g;
  return context_finish(m, status);
}

int mica_load(struct mica_context *m, const char *path, int nset, const char *const *set, struct mica_program **out)
{
  struct graph *g = NULL;
  m->err = (struct err){0};
  int status = load_file(&m->mem, path, nset, set, &g, &m->err);
  return loaded(m, status, g, out);
}

int mica_load_text(struct mica_context *m, const char *text, const char *name, int nset, const char *const *set,
                   struct mica_program **out)
{
  struct graph *g = NULL;
  m->err = (struct err){0};
  int status = load_text(&m->mem, text, name, nset, set, &g, &m->err);
  return loaded(m, status, g, out);
}

int mica_optimize(struct mica_context *m, const struct mica_program *p, const struct mica_options *opts,
                  struct mica_report **out)
{
  struct mica_options options;
  json_t *json = NULL;
  bool recalled = false;
  m->err = (struct err){0};
  *out = NULL;
  const struct mica_options *o = &options;
  if (options_take(opts, &options, &m->err) != OK) return context_finish(m, m->err.status);
  struct gpu_forge *forge = gpu_forge_open(&(struct gpu_forge_opts){0});
  int status = pipe_optimize_by(&m->mem, p->g, o, forge, &json, &recalled, &m->err);
  if (!json) return gpu_forge_close(forge), context_finish(m, status);
  struct mica_report *r = NEW(&m->mem, struct mica_report);
  struct str text = {0}, json_str = {0};
  report_text(&m->mem, json, NULL, &text);
  json_text(json, &json_str);
  *r = (struct mica_report){json, recalled, .next = m->reports, .forge = forge, .has_db = o->remember};
  r->db = o->db ? arena_strdup(&m->mem, o->db) : NULL;
  r->text = keep(m, &text), r->json_text = keep(m, &json_str);
  *out = m->reports = r;
  return context_finish(m, status);
}

const char *mica_report_text(const struct mica_report *r) { return r->text; }
const char *mica_report_json(const struct mica_report *r) { return r->json_text; }
bool mica_report_recalled(const struct mica_report *r) { return r->recalled; }

int mica_report_html(struct mica_context *m, const struct mica_report *r, const char **html)
{
  struct str text = {0};
  struct arena mem = {0};
  m->err = (struct err){0};
  report_html(&mem, r->json, &text);
  arena_close(&mem);
  *html = keep(m, &text);
  return context_finish(m, OK);
}

int mica_report_save(struct mica_context *m, const struct mica_report *r, const char *folder)
{
  struct db *db = NULL;
  struct err none = {0}; // a database only saves time here
  m->err = (struct err){0};
  if (r->has_db) db_open(r->db, &db, &none);
  int status = report_save_by(&m->mem, r->json, folder, r->forge, db, &m->err);
  db_close(db);
  return context_finish(m, status);
}

int mica_verify(struct mica_context *m, const struct mica_program *a, const struct mica_program *b, uint64_t seed,
                const char **json)
{
  struct verify_opts o = {.seed = seed, .threads = pool_cores()};
  struct certificate c = {0};
  m->err = (struct err){0};
  int status = verify_equal(a->g, b->g, &o, &c, &m->err);
  if (status != OK) return context_finish(m, status);
  json_t *v = certificate_json(&c);
  struct str text = {0};
  json_text(v, &text);
  json_decref(v);
  *json = keep(m, &text);
  context_finish(m, OK);
  return c.equal ? OK : NO;
}
