// The pipeline: runs the rows of pass.def in order. Adjacent rows over subprograms and candidates run for one subprogram after the other. If several
// subprograms are raced on a GPU, all get a first batch before their races continue.
//
// A proof is expensive (a float64 evaluation at full size, or hundreds of field tests at reduced extents) and a measurement cheap. So the race
// measures first, and proves each candidate that would take the lead. No unproved candidate is ranked, shown as a result or stored as the best.
#include "drive/pass.h"
#include "gpu/gpu.h"
#include "plan/plan.h"

#include <math.h>
#include <string.h>

struct signature { // all inputs and results
  int64_t elements, bytes;
};

static struct signature signature_of(const struct graph *g)
{
  struct signature s = {0};
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    const struct tensor *t = &g->tensors[n->op == OP_OUTPUT ? n->in[0] : n->out];
    if (n->op != OP_INPUT && n->op != OP_OUTPUT) continue;
    s.elements += shape_size(&t->shape), s.bytes += shape_size(&t->shape) * dtype_bytes(t->dtype);
  }
  return s;
}

// ---- the walk ----

// From the k-th part on, in processing order.
static int parts_left(const struct job *j, int k)
{
  int n = 0;
  for (; k < j->split.n; k++) n += j->contests[j->order[k]].twin < 0;
  return n;
}

static int walk_part(struct job *j, int part, int from, int to, struct err *e)
{
  struct contest *c = &j->contests[j->part = part];
  struct span span;
  char name[32];
  snprintf(name, sizeof name, "subprogram %d", part + 1);
  span_begin(&span, "part", name);
  int status = OK;
  for (int p = from; p < to && status == OK; p++) {
    if (p && pass_row(j, p - 1)->scope != OF_CANDIDATE && pass_is(j, p, OF_CANDIDATE)) candidates_build(j, c, part, 0);
    if (pass_is(j, p, OF_PART)) status = pass_run(p, &(struct pass_on){j, c, NULL}, e);
    if (status == OK && j->watch->failed.status) *e = j->watch->failed, status = (int)e->status;
  }
  if (j->watch->halted) j->watch->halted = j->stopped = false;
  return span_end(&span), status;
}

static const double OF_SEARCHES = 0.3; // share of the time for searching all parts, on a CPU
static const double COMPILED = 0.06;   // seconds of the C compiler for each operator of the whole program, before a part was compiled

// Seconds that the best candidate of a part may save, by the model; a part counts for its twins too.
static double promise(const struct job *j, int part)
{
  const struct contest *c = &j->contests[part];
  return c->ncand > 1 ? part_alike(j, part) * (search_library_seconds(&j->target, c->part->g) - c->cand[1].cost) : 0;
}

// All parts are searched before any is compiled. The most promising ones are raced first, and others may have no time left (stages.c).
static int search_each(struct job *j, int from, struct err *e)
{
  for (int i = 0; i < j->split.n && !j->stopped; i++) {
    if (j->contests[j->order[i]].twin >= 0) continue;
    clock_part(j, OF_SEARCHES / parts_left(j, i), 0);
    TRY(walk_part(j, j->order[i], from, PASS_PICK + 1, e));
  }
  clock_whole_compiles(j, COMPILED * graph_ops(j->plain), false);
  for (int i = 1; i < j->split.n && !j->stopped; i++)
    for (int k = i; k > 0 && promise(j, j->order[k - 1]) < promise(j, j->order[k]); k--) {
      const int part = j->order[k];
      j->order[k] = j->order[k - 1], j->order[k - 1] = part;
    }
  return OK;
}

// On a GPU the end of the time is no error of a part: its measurements until then stand.
static int or_late(struct job *j, int status, struct err *e)
{
  if (status == OK || j->target.kind != TARGET_GPU || e->id != ERR_STOPPED || job_stopped_by_user(j) || !job_stopping(j)) return status;
  j->stopped = true, *e = (struct err){0};
  return OK;
}

// One part after the other. Each has an equal share of the remaining time, and so has the whole program.
static int walk_each(struct job *j, int from, int to, struct err *e)
{
  if (j->target.kind == TARGET_CPU && parts_left(j, 0) > 1 && from <= PASS_SEARCH && to > PASS_RACE && pass_is(j, PASS_RACE, OF_PART)) {
    TRY(search_each(j, from, e));
    from = PASS_PICK + 1;
  }
  for (int i = 0; i < j->split.n && !j->stopped; i++) {
    if (j->contests[j->order[i]].twin >= 0) continue;
    clock_part(j, 1.0 / (parts_left(j, i) + !j->single), 0); // on a GPU the whole is raced like a part, on a CPU it is compiled and measured
    TRY(or_late(j, walk_part(j, j->order[i], from, to, e), e));
  }
  return OK;
}

// ---- several parts on a GPU ----

// Shares of the time. An opening is the search of a part and its first batch; a race is the rest.
enum { OPENING = 6, RACE = 2, WHOLE = 3 };
static const double EVEN = 0.25; // share of the time for races that is divided equally
// share of the time for openings that is divided equally: compiling a first batch takes time even if little can be gained
static const double OPENED_EVEN = 0.5;
static const int64_t HELD = 2LL << 30; // bytes of inputs and results of parts with races under way

double opening_weight(const struct job *j, int part)
{
  double sum = 0;
  for (int i = 0; i < j->split.n; i++)
    if (j->contests[i].twin < 0) sum += part_alike(j, i) * j->contests[i].gain;
  const double even = 1.0 / parts_left(j, 0), own = sum > 0 ? part_alike(j, part) * j->contests[part].gain / sum : even;
  return OPENED_EVEN * even + (1 - OPENED_EVEN) * own;
}

// The share of the remaining time for opening the k-th part in processing order, and for opening all from it on. Later parts get what earlier ones
// leave.
static double opening_share(const struct job *j, int k, double *openings)
{
  const int all = parts_left(j, 0);
  double left = 0;
  for (int i = k; i < j->split.n; i++)
    if (j->contests[j->order[i]].twin < 0) left += opening_weight(j, j->order[i]);
  const double each = OPENING * all / (OPENING * all * left + RACE * all + WHOLE);
  return *openings = each * left, each * opening_weight(j, j->order[k]);
}

// Seconds that more time may save the program, or that a proof saves at the end of the time; a part counts for its twins too. INFINITY: nothing was
// measured.
static double gain(const struct job *j, int part)
{
  const struct contest *c = &j->contests[part];
  if (clock_hurries(j)) return c->entrants ? part_alike(j, part) * race_gpu_lead(c) : 0; // only proofs are possible in the remaining time
  return race_gpu_gain(j, part);
}

// Near the end of the time, parts whose kernels passed the interpreter come first, because they need no further time for it.
static bool sooner(const struct job *j, int part, int other)
{
  const bool known = proof_known(&j->contests[part]);
  return known != proof_known(&j->contests[other]) ? known : gain(j, part) > gain(j, other);
}

// The most promising part that was opened and waits; -1: none. *share: of the time for the remaining races. *left: number of races with an expected
// gain; the others get no time.
static int next_race(const struct job *j, const bool *done, int *left, double *share)
{
  int best = -1, unknown = 0;
  double most = 0, sum = 0;
  *left = 0;
  for (int k = 0; k < j->split.n; k++) {
    const int i = j->order[k];
    if (done[i] || j->contests[i].twin >= 0 || !j->contests[i].ncand) continue;
    const double g = gain(j, i);
    if (best < 0 || sooner(j, i, best)) best = i;
    if (isfinite(g)) sum += g, most = fmax(most, g);
    unknown += isinf(g), *left += g > 0;
  }
  if (best < 0) return -1;
  if (!*left) return *share = 0, best;
  sum += unknown * most;
  const double even = 1.0 / *left, own = sum > 0 ? fmin(gain(j, best), most) / sum : even;
  return *share = EVEN * even + (1 - EVEN) * own, best;
}

// ---- batches that are compiled during searches and races ----

// Number of parts whose batches are compiled at the same time. A first batch has a few kernels, and each takes a core.
static int most_begun(const struct job *j)
{
  enum { EACH = 4 };
  return MAX(1, j->threads / EACH);
}

// Begins batches of the next races until most_begun() parts have one. begun: number of parts that have one. seen: parts to leave out; changed. until:
// value of now_seconds() when these races begin. each: seconds of a race with a share of 1.
static int compile_next(struct job *j, int begun, bool *seen, double until, double each, struct err *e)
{
  double share;
  for (int i, left; begun < most_begun(j) && (i = next_race(j, seen, &left, &share)) >= 0 && share > 0; begun++, seen[i] = true) {
    until += share * each;
    if (j->contests[i].entrants) TRY(race_gpu_ahead(&j->contests[i], until, e));
  }
  return OK;
}

// Begins batches of parts that have a measurement while other parts are opened. begun: the n parts whose first batches are being compiled.
static int compile_during_openings(struct job *j, struct contest *const *begun, int n, struct err *e)
{
  bool *seen = NEWS(j->mem, bool, j->split.n);
  const double from = clock_first(j), each = isfinite(from) ? fmax(0, clock_end(j) - from) : 0;
  for (int i = 0; i < j->split.n; i++) seen[i] = !j->contests[i].entrants;
  for (int i = 0; i < n; i++) seen[begun[i] - j->contests] = true;
  return compile_next(j, n, seen, from, each, e);
}

// Times the first batches that are compiled. Parts beyond `most` wait for their compilers.
static int race_begun(struct job *j, struct contest **begun, int *n, int most, struct err *e)
{
  int kept = 0;
  for (int i = 0; i < *n; i++) {
    if (kept + *n - i <= most && !race_gpu_ready(begun[i]))
      begun[kept++] = begun[i];
    else
      TRY(or_late(j, race_gpu_first(begun[i], e), e));
  }
  return *n = kept, OK;
}

// Every part has a measurement before any part gets more time. Batches are compiled while the next parts are searched. Sessions need memory: parts
// beyond the bound are begun when their turn comes.
static int open_each(struct job *j, int from, struct err *e)
{
  int64_t held = 0;
  struct contest **begun = NEWS(j->mem, struct contest *, j->split.n); // parts whose first batches are being compiled
  int n = 0;
  for (int i = 0; i < j->split.n && !job_stopping(j); i++) {
    struct contest *c = &j->contests[j->order[i]];
    double openings;
    if (c->twin >= 0) continue;
    const double share = opening_share(j, i, &openings);
    clock_part(j, share, openings);
    TRY(or_late(j, walk_part(j, j->order[i], from, PASS_RACE, e), e));
    held += signature_of(c->part->g).bytes;
    if (held <= HELD)
      TRY(or_late(j, race_gpu_begin(j, c, j->order[i], e), e));
    else
      race_early_drop(j, c);
    if (c->entrants) begun[n++] = c;
    TRY(race_begun(j, begun, &n, most_begun(j), e));
    if (!job_stopping(j)) TRY(or_late(j, compile_during_openings(j, begun, n, e), e));
  }
  TRY(race_begun(j, begun, &n, 0, e));
  for (int i = 0; i < j->split.n; i++) race_early_drop(j, &j->contests[i]); // parts that were not opened in time
  return OK;
}

// Begins batches of the next races while a part is raced. share: of that part.
static int compile_during_race(struct job *j, const bool *done, int part, double share, struct err *e)
{
  bool *seen = arena_copy(j->mem, done, sizeof *done * (size_t)j->split.n);
  const double left = clock_left(j);
  seen[part] = true;
  return compile_next(j, 1, seen, now_seconds() + left, isfinite(left) ? left / share : 0, e);
}

// Also after a stop: the measurements so far stand.
static int race_parts(struct job *j, int to, struct err *e)
{
  bool *done = NEWS(j->mem, bool, j->split.n), ahead = false;
  double share;
  for (int i, left; (i = next_race(j, done, &left, &share)) >= 0; done[i] = true) {
    if (!ahead && clock_hurries(j)) { // with the proofs that are known the order is another one
      prove_leaders(j, done), ahead = true;
      i = next_race(j, done, &left, &share);
    }
    struct contest *c = &j->contests[i];
    if (job_stopping(j) && !c->entrants) continue;
    c->deal = share * left;
    clock_part(j, share * RACE * left / (RACE * left + WHOLE), 0);
    if (share > 0 && !clock_hurries(j)) TRY(or_late(j, compile_during_race(j, done, i, share, e), e));
    TRY(or_late(j, walk_part(j, i, PASS_RACE, to, e), e));
  }
  return OK;
}

static bool breadth_first(const struct job *j)
{
  return j->target.kind == TARGET_GPU && !*j->unmeasured && pass_is(j, PASS_RACE, OF_PART) && parts_left(j, 0) > 1;
}

static int walk_parts(struct job *j, int from, int to, struct err *e)
{
  if (!breadth_first(j)) return walk_each(j, from, to, e);
  TRY(open_each(j, from, e));
  return race_parts(j, to, e);
}

// ---- all rows ----

static int walk(struct job *j, int from, int until, struct err *e)
{
  for (int p = from, to; p <= until; p = to) {
    to = p + 1;
    if (pass_row(j, p)->scope == OF_JOB) {
      if (pass_is(j, p, OF_JOB)) TRY(pass_run(p, &(struct pass_on){.j = j}, e));
      if (j->watch->failed.status) return *e = j->watch->failed, (int)e->status;
      continue;
    }
    while (to < PASSES && pass_row(j, to)->scope != OF_JOB) to++;
    if (!pass_is(j, p, OF_PART)) return OK; // --stop-after
    TRY(walk_parts(j, p, to, e));
  }
  return OK;
}

int job_split(struct job *j, struct err *e)
{
  j->plans_off = true; // search instead
  return walk(j, 0, PASS_SPLIT, e);
}

// ---- the machine ----

// Elements of inputs and results that a race generates, computes in float64 and compares, in each second; largest share of the time for it.
static const double HANDLED = 1.5e8, OF_HANDLING = 0.5;

// Nothing is measured if the results cannot be checked once within the time. The model chooses then, as without a GPU.
static bool too_short(struct job *j)
{
  const double elements = (double)signature_of(j->program).elements;
  if (elements / HANDLED <= OF_HANDLING * clock_most(j)) return false;
  j->unmeasured = arena_printf(j->mem, "the time, %.3g seconds, is too short to check %.2g elements of inputs and results", clock_most(j), elements);
  job_warn(j, arena_printf(j->mem, "%s, so no kernel was run; the model chose", j->unmeasured));
  return j->cut = true;
}

// The worker of the races starts, and the compiler is looked up.
static int begin_machine(struct job *j, struct err *e)
{
  enum gpu_reference by;
  TRY(gpu_reference_read(j->opts->reference, &by, e));
  if (j->target.kind != TARGET_GPU || *j->unmeasured || too_short(j)) return OK;
  TRY(gpu_machine_begin(j->forge, job_stop(j, STOP_WORK), &j->worker, e));
  const struct gpu_evaluator_opts o = {.which = by, .worker = j->worker ? gpu_worker_path(j->worker) : NULL, .forge = j->forge, .db = j->db};
  if (by != REFERENCE_CPU) j->evaluator = gpu_evaluator_open(&o);
  gpu_evaluator_expect(j->evaluator, j->program, job_stop(j, STOP_WORK));
  return OK;
}

static int check_machine(struct job *j, struct err *e)
{
  const struct gpu_need need = {gpu_runs_on(&j->target), signature_of(j->program).bytes};
  const int status = j->worker ? gpu_machine_check(j->worker, j->forge, &need, e) : OK;
  if (status == OK || e->id != ERR_STOPPED || job_stopped_by_user(j)) return status;
  j->unmeasured = arena_printf(j->mem, "the time, %.3g seconds, was over before the GPU was ready", clock_most(j));
  job_warn(j, arena_printf(j->mem, "%s, so no kernel was run; the model chose", j->unmeasured));
  return j->cut = true, *e = (struct err){0}, OK;
}

// The worker opens the device, and the reference is compiled, while plans are read and proved. A machine that cannot race is reported before a search.
// If a plan fails in the race, the job searches.
static int walk_to_race(struct job *j, struct err *e)
{
  TRY(walk(j, 0, PASS_EXPAND, e));
  gpu_evaluator_ahead(j->evaluator, gpu_runs_on(&j->target), j->program, job_stop(j, STOP_WORK));
  TRY(walk(j, PASS_EXPAND + 1, PASS_SPLIT, e));
  TRY(check_machine(j, e));
  TRY(walk(j, PASS_SPLIT + 1, PASS_RACE, e));
  if (!plans_fell(j)) return OK;
  gpu_session_close(j->session);
  j->session = NULL;
  return walk(j, PASS_SPLIT, PASS_RACE, e);
}

// ---- earlier results ----

// Disturbed times are not final: they are measured again, unless the caller accepts them.
static bool stands(const struct job *j, const json_t *report)
{
  const char *disturbed = json_string_value(json_object_get(report, "disturbed"));
  return report && (j->opts->disturbed || !disturbed || !*disturbed);
}

// The row's checksum binds the certificate to the found graph; the program must be the requested one.
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
  if (!j->db || j->opts->fresh || watch_private(j)) return OK;
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
  if (!j->db || j->stopped || j->cut || j->opts->candidate) return;
  struct str text = {0};
  struct err e = {0};
  json_text(report, &text);
  if (db_put(j->db, j->key, str_text(&text), NULL, 0, &e) != OK) job_warn(j, e.text);
  str_free(&text);
}

static void warn(struct job *j, json_t *report)
{
  const struct gpu_evidence seen = gpu_evaluator_evidence(j->evaluator);
  if (seen.differs)
    job_warn(j, arena_printf(j->mem,
                             "%lld of %lld elements of float64 references on the GPU differed from the CPU's; from then on the CPU computed them; "
                             "%d earlier ones were the GPU's",
                             (long long)seen.differs, (long long)seen.checked, seen.computed));
  const char *warning = job_warning(j);
  if (warning) json_object_set_new(report, "warning", json_string(warning));
}

// For a given candidate, the answer is whether it passes.
static int given_fell(const struct job *j, struct err *e)
{
  const struct candidate *x = j->opts->candidate && j->contests && j->contests[0].ncand > 1 ? &j->contests[0].cand[1] : NULL;
  if (!x || !x->dropped) return OK;
  return err_set(e, ERR_DROPPED, NOWHERE, "the pass %s drops the candidate: %.700s", passes[x->by].name, x->dropped);
}

static int line(struct job *j, json_t **report, bool *recalled, struct err *e)
{
  const int last = j->watch->stop_after;
  TRY(recall(j, report, recalled, e)); // recalled: done
  if (*recalled) return warn(j, *report), OK;
  if (last == NO_PASS || last >= PASS_RACE) TRY(begin_machine(j, e));
  TRY(job_look(j, e));
  TRY(walk_to_race(j, e));
  TRY(given_fell(j, e));
  TRY(walk(j, PASS_RACE + 1, PASSES - 1, e));
  *report = j->report;
  if (!j->report) // --stop-after
    return job_stopped_by_user(j) ? err_set(e, ERR_STOPPED, NOWHERE, "stopped before all passes had ended") : OK;
  remember(j, *report);
  plans_record(j);
  warn(j, *report);
  if (!j->stopped || !job_stopped_by_user(j)) return OK;
  return err_set(e, ERR_STOPPED, NOWHERE, "stopped; this is the best until then%s%.500s", *j->left ? ". " : "", j->left);
}

// Ends a race that the search left open.
int pipe_line(struct job *j, json_t **report, bool *recalled, struct err *e)
{
  int status = line(j, report, recalled, e);
  for (int i = 0; i < j->split.n && j->contests; i++) race_early_drop(j, &j->contests[i]), race_gpu_drop(j, &j->contests[i]);
  return status;
}

int pipe_optimize_by(struct arena *mem, const struct graph *program, const struct mica_options *opts, struct gpu_forge *forge, json_t **report,
                     bool *recalled, struct err *e)
{
  struct job j = {0};
  *report = NULL;
  int status = job_open(&j, mem, program, opts, e);
  j.forge = forge;
  if (status == OK) clock_open(&j), status = pipe_line(&j, report, recalled, e), watch_close(&j, &status, e);
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
    if (c->part->searchable && c->twin < 0) TRY(pipe_search_part(j, c, &(*r)[i], e));
  }
  return OK;
}

void pipe_search_done(struct job *j)
{
  for (int i = 0; i < j->split.n; i++)
    if (j->contests[i].ended) keeper_drop(&j->contests[i].keeper);
}
