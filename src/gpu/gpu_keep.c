// Stores races in the database. The key covers everything that a result depends on: programs, reference, GPU and driver, Mica's sources. Figures are
// stored as measured; a recalled race says so.
#include "gpu/rank.h"
#include "base/doc.h"
#include "base/memory.h"
#include "gpu/session.h"
#include "gpu/wire.h"

#include <string.h>

static const char *const verdicts[] = {[GPU_FINE] = "fine", [GPU_WRONG] = "wrong", [GPU_FAILED] = "failed", [GPU_NOT_COMPILED] = "not compiled"};

const char *gpu_verdict_name(enum gpu_verdict v) { return verdicts[v]; }

const char *keep_key(struct arena *mem, int n, const struct device_program *const *programs, const struct graph *reference,
                     const struct gpu_race_opts *o, const char *identity)
{
  struct str text = {0};
  uint64_t h[2] = {1, 2};
  graph_print(reference, &text);
  for (int i = 0; i < n; i++)
    for (int k = 0; k < 2; k++) h[k] = program_hash(programs[i], h[k]);
  for (int k = 0; k < 2; k++) h[k] = hash_bytes(str_text(&text), text.n, h[k]);
  str_free(&text);
  return arena_printf(mem, "gpu race%s%s %016llx%016llx\n%d programs, seed %llu, device %d, %s\nmica %s", o->quick ? ", quick" : "",
                      o->untimed    ? ", untimed"
                      : o->unchosen ? ", unchosen"
                                    : "",
                      (unsigned long long)h[0], (unsigned long long)h[1], n, (unsigned long long)o->seed, o->device, identity, build_fingerprint);
}

static json_t *time_json(const struct gpu_time *t)
{
  return json_pack("[f,f,f,f,f,i,i]", t->median, t->least, t->p90, t->low, t->high, t->replays, t->launches);
}

static json_t *result_json(const struct gpu_result *r, const struct device_program *p)
{
  json_t *algorithms = json_array();
  for (int i = 0; i < p->nlaunch; i++) json_array_append_new(algorithms, json_integer(r->algorithm ? r->algorithm[i] : -1));
  return json_pack("{s:s, s:i, s:s, s:f, s:f, s:f, s:o, s:o, s:i, s:b, s:i, s:i, s:o}", "verdict", verdicts[r->verdict], "error", (int)r->err.id,
                   "why", r->err.text, "relative", r->check.relative, "worst", r->check.worst, "repeats", r->check.repeats, "cold",
                   time_json(&r->cold), "hot", time_json(&r->hot), "round", r->round, "rough", r->rough, "registers", r->registers, "spilled",
                   r->spilled, "algorithms", algorithms);
}

void keep_race(struct db *db, const char *key, int n, const struct device_program *const *programs, const struct gpu_race *r, char warning[256])
{
  struct err e = {0};
  json_t *results = json_array();
  for (int i = 0; i < n; i++) json_array_append_new(results, result_json(&r->result[i], programs[i]));
  json_t *root = json_pack("{s:i, s:b, s:s, s:f, s:f, s:i, s:o}", "best", r->best, "sure", r->sure, "machine", r->machine, "reference",
                           r->reference_seconds, "seconds", r->seconds, "sets", r->sets, "results", results);
  char *text = json_dumps(root, JSON_REAL_PRECISION(17));
  if (db_put(db, key, text, NULL, 0, &e) != OK) snprintf(warning, 256, "%.250s", e.text);
  mem_free(text);
  json_decref(root);
}

// ---- reading ----

static void time_of(const json_t *a, struct gpu_time *t)
{
  double *const to[] = {&t->median, &t->least, &t->p90, &t->low, &t->high};
  for (size_t i = 0; i < COUNT(to); i++) *to[i] = json_number_value(json_array_get(a, i));
  t->replays = (int)json_integer_value(json_array_get(a, 5)), t->launches = (int)json_integer_value(json_array_get(a, 6));
}

static int integer(const json_t *o, const char *key) { return (int)json_integer_value(json_object_get(o, key)); }
static double real(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }
static const char *text_of(const json_t *o, const char *key)
{
  const char *s = json_string_value(json_object_get(o, key));
  return s ? s : "";
}

static bool result_of(struct arena *mem, const json_t *o, struct gpu_result *r)
{
  const json_t *algorithms = json_object_get(o, "algorithms");
  size_t n = json_array_size(algorithms), v = 0;
  while (v < COUNT(verdicts) && strcmp(verdicts[v], text_of(o, "verdict")) != 0) v++;
  int id = integer(o, "error");
  if (v == COUNT(verdicts) || id < 0 || id >= ERR_N) return false;
  *r = (struct gpu_result){.verdict = (enum gpu_verdict)v, .round = integer(o, "round"), .rough = json_is_true(json_object_get(o, "rough"))};
  if (id != ERR_NONE) err_set(&r->err, (enum errid)id, NOWHERE, "%s", text_of(o, "why"));
  r->check = (struct check_answer){real(o, "relative"), real(o, "worst"), real(o, "repeats")};
  time_of(json_object_get(o, "cold"), &r->cold), time_of(json_object_get(o, "hot"), &r->hot);
  r->registers = integer(o, "registers"), r->spilled = integer(o, "spilled");
  int *algorithm = NEWS(mem, int, n + 1);
  for (size_t i = 0; i < n; i++) algorithm[i] = (int)json_integer_value(json_array_get(algorithms, i));
  r->algorithm = algorithm;
  return true;
}

// A row that cannot be read, or whose winner's times were disturbed, counts as missing.
bool keep_recall(struct arena *mem, struct db *db, const char *key, int n, struct gpu_race *out)
{
  char *text;
  struct err e = {0};
  if (db_get(db, key, mem, &text, NULL, NULL, &e) != OK) return false;
  json_t *root = json_loads(text, 0, NULL), *results = json_object_get(root, "results");
  bool good = json_array_size(results) == (size_t)n && integer(root, "best") < n;
  for (int i = 0; i < n && good; i++) good = result_of(mem, json_array_get(results, (size_t)i), &out->result[i]);
  if (good && integer(root, "best") >= 0) good = !gpu_disturbed(&out->result[integer(root, "best")].cold).why;
  if (good) {
    out->best = integer(root, "best"), out->sure = json_is_true(json_object_get(root, "sure")), out->recalled = true;
    out->reference_seconds = real(root, "reference"), out->seconds = real(root, "seconds"), out->sets = integer(root, "sets");
    snprintf(out->machine, sizeof out->machine, "%s", text_of(root, "machine"));
  }
  json_decref(root);
  return good;
}

// ---- quick races, by program ----

bool keep_timed(const struct gpu_result *x) { return x->verdict == GPU_FINE && x->cold.replays > 0; }

void keep_each(const struct gpu_batch *b, struct gpu_race *r)
{
  bool any = false;
  for (int i = 0; i < b->n; i++) any = any || keep_timed(&r->result[i]);
  for (int i = 0; i < b->n && any; i++) {
    struct gpu_race one = *r;
    one.result = &r->result[i], one.best = keep_timed(one.result) ? 0 : -1;
    if (b->had[i] || one.result->err.id == ERR_STOPPED) continue;
    keep_race(b->o.db, b->each_key[i], 1, &b->programs[i], &one, r->warning);
  }
}
