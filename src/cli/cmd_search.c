// mica search: graphs and their proofs, without compiling.
#include "cli/cli.h"

// One found graph, proved against its subprogram.
static int prove(struct cli *c, const struct job *j, const struct part *p, const struct found *f, json_t **out)
{
  struct verify_opts o = {.seed = c->seed, .full_size_ops = CLI_FULL_OPS, .threads = j->threads, .stop = cli_stop};
  struct certificate r = {0};
  TRY(verify_equal(p->g, f->g, &o, &r, &c->err));
  *out = json_pack("{s:f, s:i, s:i, s:i, s:o, s:o, s:o}", "model_us", 1e6 * f->cost, "kernels", f->kernels, "block_ops", f->block_ops, "structure",
                   f->structure, "schedule", schedule_json(f->schedule, f->g), "certificate", certificate_json(&r), "graph", graph_json(f->g));
  return OK;
}

static void print_graph(const struct found *f, int i, const json_t *v)
{
  const json_t *cert = json_object_get(v, "certificate");
  struct str text = {0};
  printf("\n%d. %d kernel%s, %d block operators, %s; %.1f us by the model; %s (%s)\n", i + 1, f->kernels, f->kernels == 1 ? "" : "s", f->block_ops,
         json_string_value(json_object_get(v, "schedule")), 1e6 * f->cost, json_string_value(json_object_get(cert, "finding")),
         json_string_value(json_object_get(cert, "scope")));
  graph_draw(f->g, &text);
  fputs(str_text(&text), stdout);
  str_free(&text);
}

static int save_graph(struct cli *c, const struct found *f, int part, int i)
{
  struct str text = {0};
  graph_print(f->g, &text);
  int status = file_write(arena_printf(&c->mem, "%s/part%d_%02d.mica", c->out, part + 1, i + 1), str_text(&text), text.n, &c->err);
  str_free(&text);
  return status;
}

static int show_part(struct cli *c, const struct job *j, int part, const struct search_result *r, json_t *parts)
{
  const struct part *p = j->contests[part].part;
  json_t *graphs = json_array();
  json_t *v = json_pack("{s:b, s:s, s:i, s:b, s:s, s:o}", "searchable", p->searchable, "why", p->why, "found", r->n, "complete", r->complete,
                        "limits", r->why, "graphs", graphs);
  json_array_append_new(parts, v);
  if (j->contests[part].twin >= 0) json_object_set_new(v, "same_as", json_integer(j->contests[part].twin + 1));
  json_object_set_new(v, "search", stats_json(&r->stats));
  if (output_wants_text(c) && j->split.n > 1) printf("\nsubprogram %d%s%s: %d graphs\n", part + 1, *p->why ? ", cut here: " : "", p->why, r->n);
  for (int i = 0; i < r->n && i < c->top; i++) {
    json_t *one;
    TRY(prove(c, j, p, &r->found[i], &one));
    json_array_append_new(graphs, one);
    if (output_wants_text(c)) print_graph(&r->found[i], i, one);
    if (c->out) TRY(save_graph(c, &r->found[i], part, i));
  }
  return OK;
}

static void print_stats(const struct search_stats *s, const struct search_result *r)
{
  printf("%.2f s, %llu operators tried, %llu values, %llu schedules, %llu structures, %llu verified%s\n", s->seconds, (unsigned long long)s->states,
         (unsigned long long)s->values, (unsigned long long)s->schedules, (unsigned long long)s->graphs, (unsigned long long)s->verified,
         r->complete ? "" : "; not the whole space");
  printf("pruned");
  for (int i = 0; i < PRUNES; i++)
    if (s->pruned[i]) printf("  %s %llu", prune_rows[i].name, (unsigned long long)s->pruned[i]);
  printf("\n%s%s", r->why, *r->why ? "\n" : "");
}

// Prints what each rule removed of all operators tried, and which option changes that.
static void print_why(const struct search_stats *s)
{
  uint64_t all = s->states;
  for (int i = 0; i < PRUNES; i++) all += i == PRUNE_EXPR || i == PRUNE_FINGER ? 0 : s->pruned[i];
  printf("\n%-8s %14s %7s\n", "rule", "removed", "share");
  for (int i = 0; i < PRUNES; i++) {
    const struct prune_row *r = &prune_rows[i];
    printf("%-8s %14llu %6.1f%%  %s\n", r->name, (unsigned long long)s->pruned[i], all ? 100.0 * (double)s->pruned[i] / (double)all : 0, r->doc);
    if (r->switchable && s->pruned[i]) printf("%-32s --off %s searches without it\n", "", r->name);
    if (i == PRUNE_SIZE && s->pruned[i]) printf("%-32s raise --max-block-ops or --max-kernel-ops\n", "");
  }
}

static int answer(struct cli *c, const struct job *j, const struct search_result *r, int found)
{
  json_t *parts = json_array();
  json_t *root = json_pack("{s:s, s:i, s:s, s:s, s:i, s:o}", "mica", mica_version(), "schema", 1, "program", j->program->name ? j->program->name : "",
                           "target", j->target.name, "found", found, "parts", parts);
  struct search_result sum = {.complete = true};
  int status = OK;
  for (int i = 0; i < j->split.n; i++) {
    const struct search_stats *s = &r[i].stats;
    if (output_wants_text(c) && s->seconds > 0) print_stats(s, &r[i]);
    if (output_wants_text(c) && c->why && s->seconds > 0) print_why(s);
    stats_add(&sum.stats, &r[j->order[i]].stats);
  }
  json_object_set_new(root, "search", stats_json(&sum.stats));
  for (int i = 0; i < j->split.n && status == OK; i++) status = show_part(c, j, i, &r[i], parts);
  if (status == OK) status = output_json(c, root);
  json_decref(root);
  return status;
}

static int show_split(struct cli *c, const struct job *j)
{
  json_t *parts = json_array();
  int status = OK;
  for (int i = 0; i < j->split.n; i++) {
    const struct part *p = &j->split.parts[i];
    int twin = j->contests[i].twin;
    json_t *v =
        json_pack("{s:b, s:s, s:i, s:o}", "searchable", p->searchable, "why", p->why, "operators", graph_ops(p->g), "graph", graph_json(p->g));
    struct str text = {0};
    if (twin >= 0) json_object_set_new(v, "same_as", json_integer(twin + 1));
    json_array_append_new(parts, v);
    str_add(&text, "%ssubprogram %d, %d operators%s%s", i ? "\n" : "", i + 1, graph_ops(p->g), *p->why ? ": " : "", p->why);
    if (twin >= 0)
      str_add(&text, "\n  the same as subprogram %d\n", twin + 1);
    else
      str_add(&text, "\n"), graph_draw(p->g, &text);
    if (output_wants_text(c)) fputs(str_text(&text), stdout);
    str_free(&text);
  }
  json_t *root = json_pack("{s:s, s:i, s:o}", "mica", mica_version(), "schema", 1, "parts", parts);
  status = output_json(c, root);
  json_decref(root);
  return status;
}

static int open_job(struct cli *c, struct job *j, const struct mica_options *o, const struct crew *w)
{
  struct graph *g;
  struct err unfit = {0}; // the measured machine need not have this GPU
  j->mem = &c->mem;
  int status = c->out && !w->rank ? output_folder(c->out, &c->err) : OK; // before the work, which an invalid folder must not waste
  if (status == OK) status = load_file(&c->mem, c->args[0], c->nset, c->set, &g, &c->err);
  if (status == OK) status = job_open(j, &c->mem, g, o, &c->err);
  if (status == OK) job_look(j, &unfit);
  return w->size > 1 ? job_agree(j, w, status, &c->err) : status;
}

static int run(struct cli *c, struct job *j, const struct mica_options *o, const struct crew *w)
{
  struct search_result *r;
  TRY(open_job(c, j, o, w));
  if (c->covers || c->parts) {
    if (w->rank) return OK;
    TRY(job_split(j, &c->err));
    return c->covers ? cli_covers(c, j) : show_split(c, j);
  }
  int status = pipe_search(j, &r, &c->err), found = 0;
  progress_clear(o->progress_arg);
  if (status != OK || w->rank) return status;
  for (int i = 0; i < j->split.n; i++) found += r[i].n;
  TRY(answer(c, j, r, found));
  pipe_search_done(j);
  if (job_warning(j)) fprintf(stderr, "warning: %s\n", job_warning(j));
  if (*cli_stop) return err_set(&c->err, ERR_STOPPED, NOWHERE, "stopped; these are the graphs found until then");
  if (!found && output_wants_text(c)) printf("no kernel graph found besides the program itself\n");
  return OK;
}

int cmd_search(struct cli *c)
{
  struct mica_options o = cli_options(c);
  struct progress line;
  struct job j = {0};
  struct crew w;
  progress_open(&line, c, NULL);
  o.progress = progress_show, o.progress_arg = &line;
  TRY(crew_open(c, &w, &o));
  int status = run(c, &j, &o, &w);
  progress_clear(&line);
  job_close(&j);
  crew_close(&w);
  return status;
}
