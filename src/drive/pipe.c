// The straight line: every stage of Mica by name, in the order in which data passes through them.
//
// Proving is dear (a float64 evaluation at full size, hundreds of field tests at reduced ones) and measuring is cheap,
// so the race measures first and proves whatever would take the lead. Nothing unproven is ever ranked, shown as a
// result or remembered as the best.
#include "drive/drive.h"
#include "gpu/gpu.h"

#include <string.h>

// A stop ends the search early; what it had verified until then goes on.
static int search_part(struct job *j, struct contest *c, struct search_result *r, struct err *e)
{
  struct search_opts o = job_part_opts(j, c);
  struct err inner = {0};
  o.store = keeper_open(&c->keeper, j, c->part->g);
  int status = search_run(j->mem, c->part->g, &j->target, &o, r, &inner);
  if (status != OK && inner.id == ERR_STOPPED) status = OK, r->complete = false;
  if (status != OK) *e = inner;
  if (c->keeper.failed.status) j->warning = c->keeper.failed.text;
  c->stats = r->stats, c->complete = r->complete, c->ended = !job_ending(j, STOP_SEARCH), c->searched = true;
  if (!c->ended && !job_stopped_by_user(j)) {
    j->cut = true;
    job_left(j, j->split.n > 1 ? arena_printf(j->mem, "subprogram %d: its search was ended early", j->part + 1) : "the search was ended early");
  }
  return status;
}

static const struct engine { // how candidates become code and are compared
  void (*build)(struct job *j, struct contest *c, int part, int from);
  int (*race_part)(struct job *j, struct contest *c, int part, struct err *e);
  int (*race_whole)(struct job *j, struct err *e);
} engines[TARGET_KINDS] = {
    [TARGET_CPU] = {candidates_build, race_part, race_whole},
    [TARGET_GPU] = {devices_build, race_device_part, race_device_whole},
};

// Nothing was measured that stands for the whole program.
static int stopped_early(const struct job *j, struct err *e)
{
  int found = 0;
  for (int i = 0; i < j->split.n; i++) found += MAX(0, j->contests[i].ncand - 1);
  const char *what = *j->unmeasured ? "proven" : "measured";
  const char *why = job_stopped_by_user(j) ? "stopped" : arena_printf(j->mem, "the time, %.3g seconds, was over", clock_most(j));
  err_set(e, ERR_STOPPED, NOWHERE, "%s before anything was %s; %d verified graph%s found%s", why, what, found, found == 1 ? " was" : "s were",
          j->db && found ? " and kept" : "");
  if (!j->db) err_hint(e, "with a database the next run goes on from there");
  return ENV;
}

// A part that a stop left alone, or for which there was no time, is run operator by operator.
static int leave_part(struct job *j, struct contest *c, struct err *e)
{
  if (!c->ncand) TRY(candidate_base(j, c, e));
  c->best = 0;
  if (j->target.kind == TARGET_GPU) device_candidate(j, c, &c->cand[0]);
  if (!c->cand[0].dropped) return OK;
  return j->target.kind == TARGET_CPU && job_stopping(j) ? stopped_early(j, e) : err_set(e, ERR_TARGET, NOWHERE, "%s", c->cand[0].dropped);
}

// What a race on a GPU did not come to the race tells.
static int leave_parts(struct job *j, struct err *e)
{
  bool gpu = j->target.kind == TARGET_GPU;
  int left = 0;
  for (int i = 0; i < j->split.n; i++) {
    struct contest *c = &j->contests[i];
    if (c->twin >= 0 || c->decided || (!gpu && c->ncand && (c->ncand == 1 || c->cand[0].measured))) continue;
    left += !gpu || !c->ncand;
    TRY(leave_part(j, c, e));
  }
  const char *who = j->single ? "it was" : arena_printf(j->mem, "%d of %d subprograms were", left, j->split.n);
  if (left) job_left(j, arena_printf(j->mem, "%s not measured: operator by operator", who));
  return OK;
}

// From this one on, in the order of work.
static int parts_left(const struct job *j, int part)
{
  int n = 0, k = 0;
  while (j->order[k] != part) k++;
  for (; k < j->split.n; k++) n += j->contests[j->order[k]].twin < 0;
  return n + !j->single; // the whole is raced like a part on a GPU, and compiled and measured on a CPU
}

static int optimize_part(struct job *j, int i, struct err *e)
{
  struct contest *c = &j->contests[j->part = i];
  struct search_result r = {0}, kept = {0};
  bool ended = false;
  if (c->twin >= 0) return OK;
  clock_part(j, parts_left(j, i));
  TRY(candidate_base(j, c, e));
  if (c->part->searchable) {
    TRY(part_recall(j, c, &kept, &ended, e));
    if (ended)
      r = kept;
    else
      TRY(search_part(j, c, &r, e));
  }
  TRY(candidates_pick(j, c, &r, ended ? NULL : &kept, e));
  if (c->searched) part_remember(j, c);
  if (c->searched && c->ended) keeper_drop(&c->keeper);
  engines[j->target.kind].build(j, c, i, 0);
  TRY(engines[j->target.kind].race_part(j, c, i, e));
  if (c->best) part_remember(j, c);
  return OK;
}

const struct contest *pipe_decided(const struct job *j, int part)
{
  const struct contest *c = &j->contests[part];
  return c->twin < 0 ? c : &j->contests[c->twin];
}

int pipe_join(struct job *j, struct candidate **of, struct candidate *out, struct err *e)
{
  struct graph **parts = NEWS(j->mem, struct graph *, j->split.n), *whole;
  for (int i = 0; i < j->split.n; i++) parts[i] = (struct graph *)of[i]->g;
  TRY(lax_join(j->mem, j->plain, &j->split, parts, &whole, e));
  *out = (struct candidate){.found = whole, .g = whole, .note = "", .of = of};
  return OK;
}

// Puts the winners together; the whole is op-by-op where every part is.
static int join(struct job *j, struct err *e)
{
  bool better = false;
  struct candidate **of = NEWS(j->mem, struct candidate *, j->split.n);
  for (int i = 0; i < j->split.n; i++) {
    const struct contest *c = pipe_decided(j, i);
    of[i] = &c->cand[c->best], better |= c->best > 0;
  }
  j->base.g = j->base.found = j->stable, j->base.of = of, j->best = j->base;
  return better ? pipe_join(j, of, &j->best, e) : OK;
}

// Times that were disturbed are no last word: they are measured again, unless the caller takes them.
static bool stands(const struct job *j, const json_t *report)
{
  const char *disturbed = json_string_value(json_object_get(report, "disturbed"));
  return report && (j->opts->disturbed || !disturbed || !*disturbed);
}

// The row's checksum binds the certificate to the graph that was found; the program must be the one that is asked for.
static bool is_of(const struct job *j, const json_t *report)
{
  struct arena mem = {0};
  struct graph *g;
  struct err e = {0};
  struct str text = {0};
  json_text(json_object_get(report, "source"), &text);
  const bool same = graph_from_json(&mem, str_text(&text), text.n, "database", &g, &e) == OK && graph_same(g, j->program);
  str_free(&text);
  return arena_close(&mem), same;
}

static int recall(struct job *j, json_t **report, bool *recalled, struct err *e)
{
  char *text;
  *recalled = false;
  if (!j->db || j->opts->fresh) return OK;
  int status = db_get(j->db, j->key, j->mem, &text, NULL, NULL, e);
  if (status != OK) return status == NO ? OK : status;
  json_t *kept = json_loads(text, 0, NULL);
  if (kept && is_of(j, kept) && stands(j, kept))
    *report = kept, *recalled = true;
  else
    json_decref(kept);
  return OK;
}

static void remember(struct job *j, const json_t *report)
{
  if (!j->db || j->stopped || j->cut) return;
  struct str text = {0};
  struct err e = {0};
  json_text(report, &text);
  if (db_put(j->db, j->key, str_text(&text), NULL, 0, &e) != OK) j->warning = arena_strdup(j->mem, e.text);
  str_free(&text);
}

// What there is to report after a stop. On a CPU what was not measured is compiled and measured yet where the time is over; a user who stops does
// not wait for it.
static bool something(const struct job *j)
{
  if (j->target.kind != TARGET_GPU) return !job_stopped_by_user(j) || (j->single && j->contests[0].cand[0].measured);
  for (int i = 0; i < j->split.n; i++)
    if (j->contests[i].decided) return true;
  return false;
}

static int64_t signature_bytes(const struct graph *g)
{
  int64_t bytes = 0;
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    const struct tensor *t = &g->tensors[n->op == OP_OUTPUT ? n->in[0] : n->out];
    if (n->op == OP_INPUT || n->op == OP_OUTPUT) bytes += shape_size(&t->shape) * dtype_bytes(t->dtype);
  }
  return bytes;
}

// What a race needs is looked for before the search.
static int check_machine(struct job *j, struct err *e)
{
  const struct gpu_need need = {gpu_runs_on(&j->gpu), signature_bytes(j->program)};
  bool races = j->target.kind == TARGET_GPU && !*j->unmeasured;
  return races ? gpu_machine_open(j->forge, &need, job_stop(j, STOP_WORK), &j->worker, e) : OK;
}

static void warn(const struct job *j, json_t *report)
{
  const char *warning = job_warning(j);
  if (warning) json_object_set_new(report, "warning", json_string(warning));
}

static int line(struct job *j, json_t **report, bool *recalled, struct err *e)
{
  TRY(recall(j, report, recalled, e)); // seen before: done
  if (*recalled) return warn(j, *report), OK;
  TRY(job_look(j, e));
  TRY(check_machine(j, e));
  TRY(job_split(j, e));                                                                      // lax: subprograms
  for (int i = 0; i < j->split.n && !j->stopped; i++) TRY(optimize_part(j, j->order[i], e)); // search, plan, thread, gen, rt, verify
  if ((j->stopped || j->target.kind == TARGET_GPU) && !something(j)) return stopped_early(j, e);
  TRY(leave_parts(j, e));
  TRY(join(j, e));                               // one kernel graph again
  TRY(engines[j->target.kind].race_whole(j, e)); // the figures of the report, in one run
  *report = report_make(j);
  remember(j, *report);
  warn(j, *report);
  if (!j->stopped || !job_stopped_by_user(j)) return OK;
  return err_set(e, ERR_STOPPED, NOWHERE, "stopped; this is the best until then%s%.500s", *j->left ? ". " : "", j->left);
}

int pipe_optimize_by(struct arena *mem, const struct graph *program, const struct mica_options *opts, struct gpu_forge *forge, json_t **report,
                     bool *recalled, struct err *e)
{
  struct job j = {0};
  *report = NULL;
  int status = job_open(&j, mem, program, opts, e);
  j.forge = forge;
  if (status == OK) clock_open(&j), status = line(&j, report, recalled, e);
  job_close(&j);
  gpu_forge_rest(forge);
  return status;
}

int pipe_optimize(struct arena *mem, const struct graph *program, const struct mica_options *opts, json_t **report, bool *recalled, struct err *e)
{
  struct gpu_forge *forge = gpu_forge_open(&(struct gpu_forge_opts){0});
  int status = pipe_optimize_by(mem, program, opts, forge, report, recalled, e);
  return gpu_forge_close(forge), status;
}

int pipe_search(struct job *j, struct search_result **r, struct err *e)
{
  TRY(job_split(j, e));
  *r = NEWS(j->mem, struct search_result, j->split.n);
  for (int k = 0; k < j->split.n && !job_stopping(j); k++) {
    int i = j->order[k];
    struct contest *c = &j->contests[i];
    j->part = i;
    if (c->part->searchable && c->twin < 0) TRY(search_part(j, c, &(*r)[i], e));
  }
  return OK;
}

void pipe_search_done(struct job *j)
{
  for (int i = 0; i < j->split.n; i++)
    if (j->contests[i].ended) keeper_drop(&j->contests[i].keeper);
}
