// The report as one JSON document (docs/report.md lists its keys). It is what the database keeps, and the text for
// people is made from it.
#include "drive/pass.h"
#include "gpu/gpu.h"

#include <math.h>
#include <string.h>

static json_t *real(double x) { return isfinite(x) ? json_real(x) : json_null(); }
static json_t *whole(uint64_t x) { return json_integer((json_int_t)x); }

// Text from outside, such as a truncated compiler message, may be invalid UTF-8.
static json_t *words(const char *s)
{
  json_t *v = json_string(s ? s : "");
  if (v) return v;
  struct str ascii = {0};
  for (; *s; s++) str_add(&ascii, "%c", (unsigned char)*s < 0x80 ? *s : '?');
  v = json_string(str_text(&ascii));
  str_free(&ascii);
  return v;
}

json_t *graph_json(const struct graph *g)
{
  struct str text = {0};
  graph_to_json(g, &text);
  json_t *v = json_loads(str_text(&text), 0, NULL);
  str_free(&text);
  CHECK(v);
  return v;
}

json_t *stats_json(const struct search_stats *s)
{
  json_t *pruned = json_object();
  for (int i = 0; i < PRUNES; i++) json_object_set_new(pruned, prune_rows[i].name, whole(s->pruned[i]));
  return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "seconds", real(s->seconds), "first_seconds",
                   s->first > 0 ? real(s->first) : json_null(), "resumed", whole(s->resumed), "states", whole(s->states), "pruned", pruned, "values",
                   whole(s->values), "schedules", whole(s->schedules), "graphs", whole(s->graphs), "verified", whole(s->verified));
}

// `proved`, `reduced` and `full_size` repeat `scope` in the terms of schema 1.
json_t *certificate_json(const struct certificate *c)
{
  return json_pack("{s:b, s:s, s:s, s:b, s:b, s:b, s:o, s:o, s:i, s:o, s:i, s:i, s:o, s:o, s:o, s:o}", "equal", c->equal, "finding",
                   finding_name(c->finding), "scope", evidence_name(c->scope), "proved", c->scope == EVIDENCE_PROVED, "reduced",
                   c->scope == EVIDENCE_REDUCED, "full_size", c->scope == EVIDENCE_FULL, "proof", words(c->proof), "delta", real(c->delta), "tests",
                   c->tests, "seed", whole(c->seed), "k", c->k, "degree", c->degree, "p", whole(c->p), "q", whole(c->q), "extents", words(c->extents),
                   "note", words(c->note));
}

json_t *schedule_json(const char *schedule, const struct graph *g)
{
  struct str text = {0};
  graph_schedule(g, schedule ? schedule : "", &text);
  json_t *v = words(str_text(&text));
  str_free(&text);
  return v;
}

static json_t *disturbed_json(struct disturbed d)
{
  char text[96];
  return json_string(disturbed_words(text, d));
}

static json_t *timing_json(const struct timing *t, int kernels)
{
  return json_pack("{s:o, s:i, s:o, s:o, s:o, s:o, s:i, s:o}", "us", real(1e6 * t->median), "kernels", kernels, "least", real(1e6 * t->least), "p25",
                   real(1e6 * t->p25), "p75", real(1e6 * t->p75), "most", real(1e6 * t->most), "runs", t->runs, "disturbed",
                   disturbed_json(t->disturbed));
}

// A candidate for a GPU that was not measured has only the model's time.
static json_t *time_json(const struct candidate *c)
{
  json_t *v = c->measured ? timing_json(&c->timing, c->info.kernels) : json_pack("{s:n, s:i}", "us", "kernels", c->info.kernels);
  if (c->gpu.lowered) json_object_set_new(v, "model_us", real(1e6 * c->cost));
  return v;
}

static json_t *candidate_json(const struct candidate *c)
{
  json_t *v = json_pack("{s:o, s:i, s:i, s:b, s:b}", "schedule", schedule_json(c->schedule, c->found), "kernels", c->kernels, "structure",
                        c->structure, "tuned", c->tuned, "proven", c->proven);
  if (c->cost > 0) json_object_set_new(v, "model_us", real(1e6 * c->cost));
  if (c->timing.runs) json_object_set_new(v, "us", real(1e6 * c->timing.median));
  if (c->timing.disturbed.why) json_object_set_new(v, "disturbed", disturbed_json(c->timing.disturbed));
  if (c->proven && (c->measured || !c->gpu.lowered)) json_object_set_new(v, "max_rel_err", real(c->rel));
  if (!c->dropped) return v;
  json_object_set_new(v, "dropped", words(c->dropped));
  if (c->by) json_object_set_new(v, "dropped_by", json_string(passes[c->by].name));
  if (c->again) json_object_set_new(v, "again", words(c->again));
  return v;
}

static json_t *part_json(const struct job *j, int i)
{
  const struct contest *c = &j->contests[i], *d = c->twin >= 0 ? &j->contests[c->twin] : c;
  const struct candidate *best = &d->cand[d->best];
  json_t *v = json_pack("{s:i, s:b, s:o, s:i, s:b, s:i, s:o, s:o}", "operators", graph_ops(c->part->g), "searchable", c->part->searchable, "why",
                        words(c->part->why), "found", d->nfound, "complete", d->complete, "kernels", best->kernels, "schedule",
                        schedule_json(best->schedule, best->found), "limits", words(d->why));
  if (d->plan) json_object_set_new(v, "plan", words(d->plan));
  if (c->twin >= 0) json_object_set_new(v, "same_as", json_integer(c->twin + 1));
  if (d->cand[0].measured) json_object_set_new(v, "baseline_us", real(1e6 * d->cand[0].timing.median));
  if (best->measured) json_object_set_new(v, "best_us", real(1e6 * best->timing.median));
  if (d->best) json_object_set_new(v, "certificate", certificate_json(&best->cert));
  json_t *list = json_array();
  for (int k = 1; c->twin < 0 && k < c->ncand; k++) json_array_append_new(list, candidate_json(&c->cand[k]));
  json_object_set_new(v, "candidates", list);
  if (c->twin < 0 && c->course.n) json_object_set_new(v, "climb", course_json(&c->course));
  return v;
}

void stats_add(struct search_stats *sum, const struct search_stats *s)
{
  sum->states += s->states, sum->values += s->values, sum->schedules += s->schedules;
  sum->graphs += s->graphs, sum->verified += s->verified, sum->resumed += s->resumed;
  if (sum->first <= 0 && s->first > 0) sum->first = sum->seconds + s->first;
  sum->seconds += s->seconds;
  for (int i = 0; i < PRUNES; i++) sum->pruned[i] += s->pruned[i];
}

static json_t *search_json(const struct job *j)
{
  struct search_stats sum = {0};
  bool complete = true;
  for (int i = 0; i < j->split.n; i++) {
    const struct contest *c = &j->contests[j->order[i]];
    if (c->twin < 0) stats_add(&sum, &c->stats);
    complete &= c->complete;
  }
  json_t *v = stats_json(&sum);
  json_object_set_new(v, "complete", json_boolean(complete));
  return v;
}

static void combine(struct certificate *all, const struct certificate *one, bool first)
{
  if (first) {
    *all = *one;
    return;
  }
  if (all->scope == EVIDENCE_PROVED) memcpy(all->proof, one->proof, sizeof all->proof), all->p = one->p, all->q = one->q;
  all->scope = MAX(all->scope, one->scope); // from the strongest to the weakest
  all->delta += one->delta, all->tests += one->tests;
  all->k = MAX(all->k, one->k), all->degree = MAX(all->degree, one->degree);
  *all->extents = 0; // each has its own
  snprintf(all->note, sizeof all->note, "each subprogram has a certificate of its own");
}

static bool has_moved(const struct job *j) { return j->moved.g != j->plain && j->best.g != j->base.g; }

// Several parts have the weakest evidence of any part. The error probability is at most the sum of their bounds, because each part was tested
// separately. The certificate of moved collectives counts as one more part.
static json_t *certificate_of(const struct job *j)
{
  struct certificate all = {.equal = true, .finding = FOUND_EQUAL, .scope = EVIDENCE_PROVED, .seed = j->opts->seed};
  bool first = true;
  for (int i = 0; i < j->split.n; i++) {
    const struct contest *c = &j->contests[i];
    if (c->twin >= 0 || !c->best) continue;
    combine(&all, &c->cand[c->best].cert, first), first = false;
  }
  if (has_moved(j)) combine(&all, &j->moved.cert, first), first = false;
  if (j->whole.equal)
    snprintf(all.note, sizeof all.note, "each subprogram has a certificate of its own; together they are equal too: %s",
             evidence_name(j->whole.scope));
  if (first) snprintf(all.note, sizeof all.note, "the program as written; nothing to prove");
  return certificate_json(&all);
}

// Collectives in the result, and in the program as written.
static json_t *ranks_json(const struct job *j)
{
  const struct ranks_moved *m = &j->moved;
  const struct graph *g = has_moved(j) ? m->g : j->plain;
  json_t *v = json_pack("{s:i, s:i, s:i, s:f, s:f, s:i, s:i, s:s, s:o}", "world", g->world, "meetings", ranks_meetings(g), "meetings_written",
                        ranks_meetings(j->plain), "model_us", 1e6 * (has_moved(j) ? m->after : m->before), "model_us_written", 1e6 * m->before,
                        "tried", m->states, "asked", m->proved, "laws", has_moved(j) ? m->laws : "", "graph", graph_json(g));
  if (has_moved(j)) json_object_set_new(v, "certificate", certificate_json(&m->cert));
  if (j->best.rank) json_object_set_new(v, "kernels", graph_json(j->best.rank));
  return v;
}

// Unavoidable work, relative to the measured rates of the machine.
static json_t *share_json(const struct job *j)
{
  const struct graph *g = j->stable;
  double bytes = 0, flops = 0, matrix = 0;
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    const struct tensor *t = &g->tensors[n->op == OP_OUTPUT ? n->in[0] : n->out];
    double size = (double)shape_size(&t->shape);
    if (n->op == OP_INPUT || n->op == OP_OUTPUT) bytes += size * dtype_bytes(t->dtype);
    if (op_rows[n->op].rule != RULE_CONTRACT) continue;
    const struct shape *a = &g->tensors[n->in[0]].shape;
    const double own = op_rows[n->op].cost * size * (double)a->d[a->n - 1];
    flops += own, matrix += own / target_products(&j->host, g->tensors[n->in[n->nin - 1]].dtype == BF16);
  }
  double copy = bytes / j->host.bandwidth, bound = MAX(copy, matrix);
  return json_pack("{s:s, s:o, s:o, s:o, s:o}", "of", copy >= matrix ? "copy bandwidth" : "matrix rate", "best", real(bound / j->best.timing.median),
                   "baseline", real(bound / j->base.timing.median), "bytes", real(bytes), "flops", real(flops));
}

static json_t *best_json(const struct job *j)
{
  const struct contest *c = &j->contests[0];
  bool op_by_op = j->best.g == j->base.g;
  json_t *v = time_json(&j->best);
  json_object_set_new(v, "op_by_op", json_boolean(op_by_op));
  if (j->reason) json_object_set_new(v, "reason", words(j->reason));
  if (j->split.n == 1 && !op_by_op) {
    json_object_set_new(v, "schedule", schedule_json(c->cand[c->best].schedule, c->cand[c->best].found));
    json_object_set_new(v, "block_ops", json_integer(c->cand[c->best].block_ops));
    if (*c->cand[c->best].note) json_object_set_new(v, "note", words(c->cand[c->best].note));
  }
  json_object_set_new(v, "workspace", json_integer(j->best.info.workspace));
  json_object_set_new(v, "scratch", json_integer(j->best.info.scratch));
  return v;
}

// The machine for the kernels' times. For a GPU, and if nothing was measured, these are the rates of the target's row.
static json_t *machine_json(const struct job *j)
{
  const struct target *t = j->host.bandwidth > 0 ? &j->host : &j->target;
  return json_pack("{s:o, s:o, s:o, s:b}", "bandwidth", real(t->bandwidth), "flops", real(t->flops), "launch_us", real(1e6 * t->launch), "measured",
                   t == &j->host && t->kind == TARGET_CPU);
}

// The options of the request, so that it can be repeated.
static json_t *options_json(const struct job *j)
{
  const struct mica_options *o = j->opts;
  return json_pack("{s:i, s:i, s:i, s:i, s:i, s:o, s:o, s:o, s:o, s:s}", "max_block_ops", o->max_block_ops, "max_kernel_ops", o->max_kernel_ops,
                   "max_part_ops", o->max_part_ops, "max_values", o->max_values, "measure", o->measure, "tune", real(o->tune), "time", real(o->time),
                   "seed", whole(o->seed), "off", words(o->off), "f32_products", f32_products_name(j->target.f32_products));
}

// Says what computed the float64 references of the races.
static json_t *reference_json(const struct gpu_evidence *x)
{
  return json_pack("{s:i, s:i, s:I, s:I, s:o, s:o}", "on_gpu", x->computed, "on_cpu", x->refused, "checked", (json_int_t)x->checked, "differs",
                   (json_int_t)x->differs, "seconds", real(x->seconds), "why_cpu", words(x->why));
}

// Why the result is not final: its own times, else those by which it was chosen.
static json_t *why_disturbed(const struct job *j)
{
  struct disturbed d = j->best.timing.disturbed.why ? j->best.timing.disturbed : j->base.timing.disturbed;
  for (int i = 0; i < j->split.n && !d.why; i++) d = j->contests[i].disturbed;
  return disturbed_json(d);
}

json_t *report_make(const struct job *j)
{
  json_t *parts = json_array();
  for (int i = 0; i < j->split.n; i++) json_array_append_new(parts, part_json(j, i));
  json_t *v = json_pack("{s:s, s:i, s:s, s:s, s:s, s:i, s:s, s:b}", "mica", MICA_VERSION, "schema", 1, "program",
                        j->program->name ? j->program->name : "program", "target", j->target.name, "device", j->target.device, "threads", j->threads,
                        "compiler", j->compiler, "stopped", j->stopped);
  json_object_set_new(v, "options", options_json(j));
  json_object_set_new(v, "machine", machine_json(j));
  json_object_set_new(v, "left", words(j->left));
  json_object_set_new(v, "disturbed", why_disturbed(j));
  json_object_set_new(v, "search", search_json(j));
  json_object_set_new(v, "baseline", time_json(&j->base));
  if (j->base.dropped) json_object_set_new(json_object_get(v, "baseline"), "dropped", words(j->base.dropped));
  json_object_set_new(v, "best", best_json(j));
  bool measured = j->best.measured && j->base.measured;
  json_object_set_new(v, "speedup", measured ? real(j->base.timing.median / j->best.timing.median) : json_null());
  if (j->best.measured) json_object_set_new(v, "share", share_json(j));
  if (j->best.gpu.lowered) json_object_set_new(v, "gpu", lowered_json(j, j->best.gpu.lowered));
  if (j->nown) json_object_set_new(v, "cpu", json_pack("{s:o}", "kernels", own_times_json(j)));
  json_object_set_new(v, "certificate", certificate_of(j));
  json_object_set_new(v, "max_rel_err", j->best.gpu.lowered && !j->best.measured ? json_null() : real(j->best.rel));
  const struct gpu_evidence seen = gpu_evaluator_evidence(j->evaluator);
  if (seen.computed || seen.refused) json_object_set_new(v, "reference", reference_json(&seen));
  json_object_set_new(v, "parts", parts);
  if (j->plain->world > 1) json_object_set_new(v, "ranks", ranks_json(j));
  if (j->course.n) json_object_set_new(v, "climb", course_json(&j->course));
  json_object_set_new(v, "source", graph_json(j->program));
  json_object_set_new(v, "graph", graph_json(j->best.g));
  return v;
}
