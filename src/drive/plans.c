// Plans: the winners of earlier races, here or elsewhere, in a form that any build reads (rt/plan_file.c, docs/plans.md). A plan replaces a search.
// Its graph is read as untrusted input, must have the inputs and outputs of the part, and is proved. Its kernels are made again and pass the checks
// of any leader. If a plan fails, a warning says why, and the job searches.
#include "drive/pass.h"
#include "front/front.h"
#include "gpu/gpu.h"
#include "plan/plan.h"

#include <math.h>
#include <string.h>

enum { MOST_LAUNCHES = 256 };

// ---- use ----

// Options that change the result of a search require a search.
static bool usual(const struct job *j)
{
  const struct mica_options *o = j->opts, d = job_defaults();
  return j->target.kind == TARGET_GPU && j->target.f32_products == F32_BF16X6 && !o->candidate && !j->off && o->max_block_ops == d.max_block_ops &&
         o->max_kernel_ops == d.max_kernel_ops && o->max_part_ops == d.max_part_ops && o->max_values == d.max_values;
}

static const char *gpu_name(const struct job *j)
{
  const char *driver = strstr(j->target.device, ", driver");
  return driver ? arena_printf(j->mem, "%.*s", (int)(driver - j->target.device), j->target.device) : j->target.device;
}

static bool measured(const json_t *v)
{
  const json_t *us = json_object_get(v, "us");
  return json_is_number(us) && json_number_value(us) > 0;
}

// On a GPU only plans measured on a GPU of the same name.
static bool is_for(const struct job *j, const json_t *v)
{
  const char *gpu = json_string_value(json_object_get(v, "gpu"));
  return gpu && (*j->unmeasured || (measured(v) && !strcmp(gpu, gpu_name(j))));
}

// Graphs of a search have names only for inputs, which are the part's here.
static void rename_tensors(struct graph *g, const struct graph *part)
{
  for (int t = 0; t < g->ntensors; t++) g->tensors[t].name = NULL;
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i].sub) rename_tensors(g->nodes[i].sub, NULL);
  if (!part) return;
  for (int i = 0, k = 0; i < g->nnodes; i++) {
    if (g->nodes[i].op != OP_INPUT) continue;
    while (part->nodes[k].op != OP_INPUT) k++;
    g->tensors[g->nodes[i].out].name = part->tensors[part->nodes[k++].out].name;
  }
}

static int read_graph(struct job *j, const struct part *part, const json_t *v, const char *from, struct graph **out, struct err *e)
{
  const char *text = json_string_value(json_object_get(v, "graph"));
  if (!text) return err_set(e, ERR_JSON, NOWHERE, "it has no graph");
  TRY(front_parse(j->mem, text, strlen(text), from, 0, NULL, out, e));
  if (!job_same_signature(part->g, *out, j->mem)) return err_set(e, ERR_MISMATCH, NOWHERE, "its inputs and outputs are not those of the program");
  return rename_tensors(*out, part->g), OK;
}

static int read_ways(struct job *j, const json_t *v, const struct candidate_ways **out, struct err *e)
{
  const json_t *list = json_object_get(v, "how");
  struct candidate_ways *w = NEW(j->mem, struct candidate_ways);
  const char **how = NEWS(j->mem, const char *, json_array_size(list) + 1);
  const size_t n = json_array_size(list);
  if (!n || n > MOST_LAUNCHES) return err_set(e, ERR_JSON, NOWHERE, "it does not say how its kernels are made");
  for (size_t i = 0; i < n; i++) {
    const char *one = json_string_value(json_array_get(list, i));
    if (!one) return err_set(e, ERR_JSON, NOWHERE, "it does not say how kernel %zu is made", i + 1);
    how[i] = arena_strdup(j->mem, one);
  }
  *w = (struct candidate_ways){(int)n, how, json_is_true(json_object_get(v, "dependent")), measured(v)};
  return *out = w, OK;
}

static int read_plan(struct job *j, const struct part *part, const json_t *v, const char *from, struct candidate *x, struct err *e)
{
  const char *schedule = json_string_value(json_object_get(v, "schedule"));
  struct graph *g;
  TRY(read_graph(j, part, v, from, &g, e));
  TRY(read_ways(j, v, &x->ways, e));
  x->found = g, x->note = "", x->schedule = arena_printf(j->mem, "%.250s", schedule ? schedule : "");
  return OK;
}

// Op-by-op is the program as written, so there is nothing to prove; its kernels are made with the contest's.
static int try_plan(struct job *j, const struct part *part, const json_t *v, const char *from, struct candidate *x, struct err *e)
{
  struct contest c = {.part = part, .twin = -1, .why = "", .complete = true, .cand = x - 1, .ncand = 2};
  struct graph *stable;
  char note[256] = "";
  TRY(read_plan(j, part, v, from, x, e));
  if (graph_same(x->found, part->g)) return OK;
  TRY(plan_stable(j->mem, part->g, &stable, &c.overflows, note, e));
  TRY(pass_candidate(j, &c, x, LAST_OF_CANDIDATE, e));
  if (!job_verified(j, part->g, x, STOP_PROOF)) return err_set(e, ERR_UNEQUAL, NOWHERE, "%s", x->dropped);
  return OK;
}

static void refuse(struct job *j, const char *from, const char *why)
{
  job_warn(j, arena_printf(j->mem, "the plan of %s is not used: %.300s", from, why));
}

static struct candidate *try_row(struct job *j, const struct part *part, const struct plan_row *r)
{
  struct candidate *x = NEWS(j->mem, struct candidate, 2) + 1; // element 0 is op-by-op, which is not examined
  struct err e = {0};
  json_t *v = json_loads(r->json, 0, NULL);
  const bool is = !v || is_for(j, v);
  int status = v ? OK : err_set(&e, ERR_JSON, NOWHERE, "it is no JSON object");
  if (is && status == OK) status = try_plan(j, part, v, r->from, x, &e);
  json_decref(v);
  if (is && status != OK && e.id != ERR_STOPPED) refuse(j, r->from, e.text);
  x->plan = r->from;
  return is && status == OK ? x : NULL;
}

struct candidate *plans_take(struct job *j, const struct part *part)
{
  struct plan_row row[PLANS_MOST];
  char key[GRAPH_KEY], note[PLANS_NOTE] = "";
  struct candidate *x = NULL;
  if (!j->opts->remember || j->opts->fresh || j->plans_off || j->crew || !usual(j)) return NULL;
  if (!pass_is(j, LAST_OF_CANDIDATE, OF_CANDIDATE)) return NULL; // --stop-after is before the proof
  graph_key(part->g, key);
  const int n = plans_find(j->db, j->target.name, *j->unmeasured ? "" : gpu_name(j), key, j->mem, row, note);
  if (*note) job_warn(j, note);
  for (int i = 0; i < n && !x && !job_stopping(j); i++) x = try_row(j, part, &row[i]);
  return x;
}

void plans_use(struct job *j, struct contest *c, struct candidate *x)
{
  struct candidate *cand = NEWS(j->mem, struct candidate, 2);
  cand[0] = c->cand[0], c->cand = cand, c->plan = x->plan;
  if (graph_same(x->found, c->part->g))
    cand[0].ways = x->ways;
  else
    cand[1] = *x, c->ncand = 2, c->nfound = 1;
}

// Reason why the plan of a contest failed, or NULL.
static const char *why_fallen(const struct job *j, const struct contest *c)
{
  const struct candidate *x = &c->cand[MIN(1, c->ncand - 1)];
  if (x->dropped) return x->late ? NULL : x->dropped;
  if (c->ncand == 1 && !x->ways) return "its kernels use schemes or knobs that this build does not have";
  if (!*j->unmeasured && c->ncand > 1 && c->decided && c->best == 0 && x->measured) return "op-by-op was as fast on this GPU";
  return NULL;
}

bool plans_fell(struct job *j)
{
  const char *from = NULL;
  for (int i = 0; i < j->split.n && !from && !job_stopping(j); i++) {
    const struct contest *c = &j->contests[i];
    const char *why = c->plan && c->twin < 0 ? why_fallen(j, c) : NULL;
    if (why) from = c->plan, refuse(j, from, why);
  }
  if (from) j->plans_off = true, j->planned = NULL;
  return from;
}

// ---- record ----

// The printed text must parse to the same graph.
static bool graph_text(struct job *j, const struct graph *g, struct str *text)
{
  struct graph *back;
  struct err none = {0};
  graph_print(g, text);
  return front_parse(j->mem, str_text(text), text->n, NULL, 0, NULL, &back, &none) == OK && graph_same(g, back);
}

static json_t *plan_json(const struct job *j, const struct candidate *x, const char *key, const char *text)
{
  const struct device_program *d = &x->gpu.lowered->program;
  json_t *how = json_array();
  for (int i = 0; i < d->nlaunch; i++) json_array_append_new(how, json_string(d->launch[i].how));
  json_t *v =
      json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:b, s:s}", "key", key, "program", j->program->name ? j->program->name : "program", "target",
                j->target.name, "gpu", gpu_name(j), "graph", text, "how", how, "dependent", x->gpu.lowered->plan.dependent, "schedule", x->schedule);
  if (x->measured) json_object_set_new(v, "us", json_real(round(1e8 * x->timing.median) / 100));
  return v;
}

static void record(struct job *j, const struct contest *c)
{
  const struct candidate *x = &c->cand[c->best];
  char key[GRAPH_KEY];
  struct str text = {0};
  struct err e = {0};
  if (!c->decided || x->dropped || !x->gpu.lowered || (c->best && !x->proven) || !graph_text(j, x->found, &text)) {
    str_free(&text);
    return;
  }
  graph_key(c->part->g, key);
  json_t *v = plan_json(j, x, key, str_text(&text));
  char *line = json_dumps(v, JSON_COMPACT);
  if (line && plans_put(j->db, true, j->target.name, gpu_name(j), key, line, &e) != OK) job_warn(j, e.text);
  if (line) mem_free(line);
  json_decref(v);
  str_free(&text);
}

void plans_record(struct job *j)
{
  if (!j->db || !usual(j) || job_stopped_by_user(j)) return;
  for (int i = 0; i < j->split.n; i++)
    if (j->contests[i].twin < 0 && !j->contests[i].plan && j->contests[i].part->searchable) record(j, &j->contests[i]);
}
