// mica bench: the table of times, op-by-op against optimized, measured in the same run.
#include "cli/cli.h"

#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct bench_row {
  const char *what, *path; // "m_gqa b=1"; the file
  const char **set;
  int nset;
  json_t *report; // NULL if it failed
  const char *failure;
};
struct cli_bench {
  struct cli *c;
  struct bench_row *rows;
  int n, cap;
  char commit[48];
  struct err first; // of failed programs, except for lack of memory
};

// "examples/softmax.mica,n=2048,m=4"
static void add(struct cli_bench *b, const char *word)
{
  struct arena *mem = &b->c->mem;
  char *text = arena_strdup(mem, word), *save = NULL;
  struct bench_row r = {.set = NEWS(mem, const char *, b->c->nset + (int)strlen(word))};
  for (int i = 0; i < b->c->nset; i++) r.set[r.nset++] = b->c->set[i];
  r.path = strtok_r(text, ", \t", &save);
  if (!r.path) return;
  const char *slash = strrchr(r.path, '/'), *base = slash ? slash + 1 : r.path, *dot = strrchr(base, '.');
  r.what = arena_printf(mem, "%.*s", dot ? (int)(dot - base) : (int)strlen(base), base);
  for (char *s; (s = strtok_r(NULL, ", \t", &save));) {
    r.set[r.nset++] = s;
    r.what = arena_printf(mem, "%s %s", r.what, s);
  }
  PUSH(mem, b->rows, b->n, b->cap) = r;
}

// A list has one program a line, in the form of the arguments; # begins a comment.
static int add_list(struct cli_bench *b, const char *path)
{
  char *text, *save = NULL;
  size_t n;
  TRY(file_read(&b->c->mem, path, &text, &n, &b->c->err));
  for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
    line[strcspn(line, "#")] = 0;
    if (line[strspn(line, " \t")]) add(b, line);
  }
  return OK;
}

static int collect(struct cli_bench *b)
{
  struct cli *c = b->c;
  for (int i = 0; i < c->nargs; i++) {
    const char *dot = strrchr(c->args[i], '.');
    if (dot && !strcmp(dot, ".list"))
      TRY(add_list(b, c->args[i]));
    else
      add(b, c->args[i]);
  }
  if (c->nargs) return OK;
  glob_t g = {0};
  if (!glob("examples/*.mica", 0, NULL, &g))
    for (size_t i = 0; i < g.gl_pathc; i++) add(b, g.gl_pathv[i]);
  globfree(&g);
  return b->n ? OK : err_set(&c->err, ERR_FILE, NOWHERE, "there are no programs in examples/; name some");
}

// ---- one program ----

static int one(struct cli_bench *b, struct bench_row *r)
{
  struct cli *c = b->c;
  struct arena mem = {0};
  struct err e = {0};
  struct graph *g;
  struct mica_options o = cli_options(c);
  struct progress line;
  bool recalled;
  progress_open(&line, c, r->what);
  o.fresh = true, o.progress = progress_show, o.progress_arg = &line;
  int status = load_file(&mem, r->path, r->nset, r->set, &g, &e);
  if (status == OK) status = pipe_optimize(&mem, g, &o, &r->report, &recalled, &e);
  progress_clear(&line);
  if (e.at.file) e.at.file = arena_strdup(&c->mem, e.at.file);
  arena_close(&mem);
  if (status == OK) return OK;
  r->failure = arena_strdup(&c->mem, e.text);
  if (e.id != ERR_MEMORY && b->first.id == ERR_NONE) b->first = e;
  return e.id == ERR_STOPPED ? status : OK;
}

// ---- the table ----

static double num(const json_t *o, const char *a, const char *b)
{
  const json_t *v = json_object_get(o, a);
  return json_number_value(b ? json_object_get(v, b) : v);
}

static const char *txt(const json_t *o, const char *a, const char *b)
{
  const json_t *v = json_object_get(o, a);
  const char *s = json_string_value(b ? json_object_get(v, b) : v);
  return s ? s : "";
}

static bool op_by_op(const struct bench_row *r) { return json_is_true(json_object_get(json_object_get(r->report, "best"), "op_by_op")); }

static bool measured(const struct bench_row *r) { return r->report && json_is_number(json_object_get(r->report, "speedup")); }

static void print_row(const struct bench_row *r)
{
  if (!r->report) {
    printf("%-26s %s\n", r->what, r->failure);
    return;
  }
  if (!measured(r)) {
    printf("%-26s %12.1f %3.0f %12.1f %3.0f           by the model, not measured      %7.2f\n", r->what, num(r->report, "baseline", "model_us"),
           num(r->report, "baseline", "kernels"), num(r->report, "best", "model_us"), num(r->report, "best", "kernels"),
           num(r->report, "search", "seconds"));
    return;
  }
  printf("%-26s %12.1f %3.0f %12.1f %3.0f %7.2f   %4.0f%% of the %-14s %7.2f\n", r->what, num(r->report, "baseline", "us"),
         num(r->report, "baseline", "kernels"), num(r->report, "best", "us"), num(r->report, "best", "kernels"), num(r->report, "speedup", NULL),
         100 * num(r->report, "share", "best"), txt(r->report, "share", "of"), num(r->report, "search", "seconds"));
  fflush(stdout);
}

static void print_head(const struct cli *c)
{
  printf("times in us with kernels; share: of the machine's measured rate, for the work that cannot be avoided\n%s%s\n\n", c->dtype ? "inputs " : "",
         c->dtype ? c->dtype : "");
  printf("%-26s %16s %16s %7s   %-23s %7s\n", "program", "op-by-op", "optimized", "ratio", "share", "search s");
}

static double mean_ratio(const struct cli_bench *b, int *n)
{
  double sum = 0;
  *n = 0;
  for (int i = 0; i < b->n; i++)
    if (measured(&b->rows[i])) sum += log(num(b->rows[i].report, "speedup", NULL)), ++*n;
  return *n ? exp(sum / *n) : 1;
}

static void print_foot(const struct cli_bench *b)
{
  int n, left = 0;
  double mean = mean_ratio(b, &n);
  printf("\ngeometric mean of %d: %.2f\n", n, mean);
  for (int i = 0; i < b->n; i++)
    if (*txt(b->rows[i].report, "disturbed", NULL)) printf("disturbed: %s: %s\n", b->rows[i].what, txt(b->rows[i].report, "disturbed", NULL));
  for (int i = 0; i < b->n; i++) {
    if (!b->rows[i].report || !op_by_op(&b->rows[i])) continue;
    if (!left++) printf("left at op-by-op:\n");
    printf("  %s: %s\n", b->rows[i].what, txt(b->rows[i].report, "best", "reason"));
  }
}

// ---- files ----

// Why it stays op-by-op; for disturbed times their cause.
static const char *note(const json_t *v)
{
  const char *disturbed = txt(v, "disturbed", NULL);
  return *disturbed ? disturbed : txt(v, "best", "reason");
}

// The first n rows: written again after each, so that an interrupted run keeps its measurements.
static int write_csv(const struct cli_bench *b, int n)
{
  struct cli *c = b->c;
  if (!c->csv) return OK;
  struct str s = {0};
  char date[32];
  const char *rev = b->commit;
  time_t now = time(NULL);
  strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
  str_add(&s, "program,dtype,target,device,threads,commit,date,baseline_us,baseline_p25,baseline_p75,baseline_kernels,best_us,"
              "best_p25,best_p75,best_kernels,speedup,share,share_of,search_s,max_rel_err,delta,note\n");
  for (int i = 0; i < n; i++) {
    const struct bench_row *r = &b->rows[i];
    const json_t *v = r->report;
    str_add(&s, "%s,%s,%s,\"%s\",%d,%s,%s,", r->what, c->dtype ? c->dtype : "", c->target, txt(v, "device", NULL), (int)num(v, "threads", NULL), rev,
            date);
    const char *why = v ? "not measured" : r->failure;
    if (measured(r))
      str_add(&s, "%.2f,%.2f,%.2f,%.0f,%.2f,%.2f,%.2f,%.0f,%.3f,%.3f,%s,%.3f,%.2e,%.1e,\"%s\"\n", num(v, "baseline", "us"), num(v, "baseline", "p25"),
              num(v, "baseline", "p75"), num(v, "baseline", "kernels"), num(v, "best", "us"), num(v, "best", "p25"), num(v, "best", "p75"),
              num(v, "best", "kernels"), num(v, "speedup", NULL), num(v, "share", "best"), txt(v, "share", "of"), num(v, "search", "seconds"),
              num(v, "max_rel_err", NULL), num(v, "certificate", "delta"), note(v));
    else
      str_add(&s, ",,,,,,,,,,,,,,\"%.*s\"\n", (int)strcspn(why, "\n\""), why);
  }
  int status = output_write(c->csv, str_text(&s), s.n, &c->err);
  str_free(&s);
  return status;
}

static int write_json(const struct cli_bench *b)
{
  int n;
  json_t *rows = json_array(),
         *root = json_pack("{s:s, s:i, s:f, s:o}", "mica", mica_version(), "schema", 1, "geometric_mean", mean_ratio(b, &n), "programs", rows);
  for (int i = 0; i < b->n; i++) {
    const struct bench_row *r = &b->rows[i];
    json_t *v = json_pack("{s:s}", "what", r->what);
    if (r->report)
      json_object_set_new(v, "report", json_incref(r->report));
    else
      json_object_set_new(v, "failure", json_string(r->failure));
    json_array_append_new(rows, v);
  }
  int status = output_json(b->c, root);
  json_decref(root);
  return status;
}

int cmd_bench(struct cli *c)
{
  struct cli_bench b = {.c = c};
  int status = collect(&b);
  if (status != OK) return status;
  output_revision(b.commit);
  if (output_wants_text(c)) print_head(c);
  int wrote = OK;
  for (int i = 0; i < b.n && status == OK && wrote == OK; i++) {
    status = one(&b, &b.rows[i]);
    if (status != OK)
      b.n = i;
    else if (output_wants_text(c))
      print_row(&b.rows[i]);
    wrote = write_csv(&b, MIN(i + 1, b.n));
  }
  if (output_wants_text(c)) print_foot(&b);
  if (wrote == OK) wrote = write_json(&b);
  for (int i = 0; i < b.n; i++) json_decref(b.rows[i].report);
  if (wrote != OK) return wrote;
  c->err = b.first;
  return (int)b.first.status;
}
