// Stores the search's result for a part in the database as soon as it is known. A run that is stopped while measuring continues from it, and a
// program with the same part need not search again. The race's figures are not stored, as they belong to one run. Finished units of a search are
// stored too, so that an interrupted search continues.
#include "drive/drive.h"

#include <stdlib.h>
#include <string.h>

static json_t *pick_json(const struct candidate *c)
{
  json_t *v = json_pack("{s:f, s:i, s:i, s:i, s:s, s:o}", "cost", c->cost, "kernels", c->kernels, "block_ops", c->block_ops, "structure",
                        c->structure, "schedule", c->schedule, "graph", graph_json(c->found));
  if (c->gpu.lowered && c->proven && c->measured) json_object_set_new(v, "launches", launches_json(c->gpu.lowered));
  return v;
}

// The best first, so that a later run measures it first.
void part_remember(struct job *j, const struct contest *c)
{
  if (!j->db || c->ncand < 2) return;
  json_t *picks = json_array();
  if (c->best) json_array_append_new(picks, pick_json(&c->cand[c->best]));
  for (int i = 1; i < c->ncand; i++)
    if (i != c->best) json_array_append_new(picks, pick_json(&c->cand[i]));
  json_t *root = json_pack("{s:b, s:b, s:i, s:s, s:o, s:o}", "ended", c->ended, "complete", c->complete, "found", c->nfound, "why", c->why, "search",
                           stats_json(&c->stats), "picks", picks);
  struct str text = {0};
  struct err e = {0};
  json_text(root, &text);
  if (db_put(j->db, job_part_key(j, c->part->g), str_text(&text), NULL, 0, &e) != OK) job_warn(j, e.text);
  str_free(&text);
  json_decref(root);
}

static uint64_t count(const json_t *o, const char *key) { return (uint64_t)json_integer_value(json_object_get(o, key)); }

static struct search_stats stats_of(const json_t *o)
{
  struct search_stats s = {
      .states = count(o, "states"),
      .values = count(o, "values"),
      .schedules = count(o, "schedules"),
      .graphs = count(o, "graphs"),
      .verified = count(o, "verified"),
      .seconds = json_number_value(json_object_get(o, "seconds")),
  };
  for (int i = 0; i < PRUNES; i++) s.pruned[i] = count(json_object_get(o, "pruned"), prune_rows[i].name);
  return s;
}

// The row may come from another user (`mica db import`): its graphs must fit the part's buffers, since proof and measurement come later.
static bool pick_of(struct job *j, const struct graph *part, const json_t *o, struct found *f)
{
  struct err e = {0};
  struct str text = {0};
  const char *schedule = json_string_value(json_object_get(o, "schedule"));
  json_text(json_object_get(o, "graph"), &text);
  int status = graph_from_json(j->mem, str_text(&text), text.n, "database", &f->g, &e);
  str_free(&text);
  if (status != OK || graph_check(f->g, &e) != OK || !job_same_signature(part, f->g, j->mem)) return false;
  f->cost = json_number_value(json_object_get(o, "cost"));
  f->kernels = (int)count(o, "kernels"), f->block_ops = (int)count(o, "block_ops");
  f->structure = (int)count(o, "structure");
  snprintf(f->schedule, sizeof f->schedule, "%s", schedule ? schedule : "");
  return true;
}

static void raced(struct job *j, struct contest *c, const struct graph *g, const json_t *launches)
{
  struct str text = {0};
  json_text(launches, &text);
  c->raced = g, c->launches = str_keep(j->mem, &text);
}

// A row that cannot be read counts as missing. *ended: the search was not stopped, so its results are final.
int part_recall(struct job *j, struct contest *c, struct search_result *r, bool *ended, struct err *e)
{
  char *text;
  *ended = false;
  if (!j->db || j->opts->fresh) return OK;
  int status = db_get(j->db, job_part_key(j, c->part->g), j->mem, &text, NULL, NULL, e);
  if (status != OK) return status == NO ? OK : status;
  json_t *root = json_loads(text, 0, NULL), *picks = json_object_get(root, "picks");
  const char *why = json_string_value(json_object_get(root, "why"));
  r->found = NEWS(j->mem, struct found, json_array_size(picks));
  for (size_t i = 0; i < json_array_size(picks); i++) {
    const json_t *launches = json_object_get(json_array_get(picks, i), "launches");
    if (!pick_of(j, c->part->g, json_array_get(picks, i), &r->found[r->n])) continue;
    if (launches) raced(j, c, r->found[r->n].g, launches);
    r->n++;
  }
  if ((*ended = c->ended = json_is_true(json_object_get(root, "ended")))) {
    c->stats = stats_of(json_object_get(root, "search"));
    c->complete = json_is_true(json_object_get(root, "complete"));
    c->nfound = (int)count(root, "found");
  }
  snprintf(r->why, sizeof r->why, "%s", why ? why : "");
  json_decref(root);
  return OK;
}

// ---- a search that is under way ----

static const double BRIEF = 0.5; // seconds of a search that are not worth storing

static bool unit_get(void *arg, uint64_t unit, struct arena *mem, void **bytes, size_t *n)
{
  struct keeper *k = arg;
  struct err e = {0};
  if (k->job->opts->fresh || db_unit_get(k->job->db, k->search, unit, mem, bytes, n, &e) != OK) return false;
  return k->used = true;
}

// After the first failure, such as a full disk, the search continues without storing.
static void unit_put(void *arg, uint64_t unit, const void *bytes, size_t n)
{
  struct keeper *k = arg;
  if (k->failed.status || now_seconds() - k->start < BRIEF) return;
  db_unit_put(k->job->db, k->search, unit, bytes, n, &k->failed);
  k->used = true;
}

const struct search_store *keeper_open(struct keeper *k, struct job *j, const struct graph *part)
{
  if (!j->db) return NULL;
  const char *key = job_part_key(j, part);
  size_t n = strlen(key);
  *k = (struct keeper){.job = j, .start = now_seconds(), .store = {k, unit_get, unit_put}};
  snprintf(k->search, sizeof k->search, "%016llx%016llx", (unsigned long long)hash_bytes(key, n, 0), (unsigned long long)hash_bytes(key, n, 1));
  return &k->store;
}

void keeper_drop(struct keeper *k)
{
  struct err e = {0};
  if (k->used && db_units_drop(k->job->db, k->search, &e) != OK) job_warn(k->job, e.text);
}
