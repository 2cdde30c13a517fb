// calibrate: counts the features of the cost model in measured kernels, and computes the times that the model gives them.
//
//   calibrate [--listed] SAMPLES.csv... > COUNTS.csv
//   calibrate --times COUNTS.csv < RATES > SECONDS
//
// SAMPLES.csv is what gpu_race --samples writes (bench/samples.h). Each program and graph in it is read again and planned, each
// launch's scheme and knobs are counted (src/lower/count.def), and a line a launch is printed, with the time of all launches.
// Programs are left out that were not right, or whose launches wait for each other to end: the model knows none such. --listed
// leaves out what a climb came to, which is near the fastest that was measured: what stays is what the model had ordered.
//
// --times answers, until its input ends, each set of rates (doubles: RATEs of src/lower/rate.def in order, of each by kind) with the
// model's seconds of each launch of COUNTS.csv (doubles). bench/calibrate.py fits the rates so.
#include "sim/against.h"
#include "lower/count.h"
#include "plan/plan.h"
#include "samples.h"

#include <stdlib.h>
#include <string.h>

enum { FIELDS = 16, MOST_LAUNCHES = 64, MOST_UNITS = 128, MOST_GRAPHS = 512, LINE = 4096 };
enum { PROGRAM, GRAPH, NUMBER, LAUNCHES, LAUNCH, HOW, COST, ALL, US, ROUND, VERDICT, REGISTERS, SPILLED, DEPENDENT, SIZES, CLIMBED };
struct sample {
  char line[LINE], *field[FIELDS];
};
struct planned { // a graph
  char program[512], graph[512], sizes[512];
  struct arena mem;
  struct lower_plan plan;
  bool good;
};

// Splits a line into fields between commas, quoted or not. Missing fields are "".
static void split(struct sample *s)
{
  char *line = s->line;
  for (int i = 0; i < FIELDS; i++) {
    char end = *line == '"' ? '"' : ',';
    if (end == '"') line++;
    s->field[i] = line;
    line += strcspn(line, end == '"' ? "\"" : ",\n");
    if (*line) *line++ = 0;
    if (end == '"' && *line == ',') line++;
  }
}

// ---- counts ----

static int plan_all(struct planned *p, const struct target *gpu, struct err *e)
{
  struct graph *g;
  const struct graph *sized;
  bool changed;
  char note[256];
  int status = against_program(&p->mem, p->graph, &g, e);
  if (status == OK) status = graph_expand(&p->mem, g, true, &g, e);
  if (status == OK) status = sizes_read(&p->mem, p->sizes, g, &sized, e);
  if (status == OK) status = plan_stable(&p->mem, sized, &g, &changed, note, e);
  const struct lower_opts o = {.tails = true, .dependent = true};
  return status == OK ? lower_plan(&p->mem, g, gpu, &o, &p->plan, e) : status;
}

// Keeps the graphs of one program, because a climb alternates between them.
static struct planned *open_graph(const struct sample *s, const struct target *gpu)
{
  static struct planned all[MOST_GRAPHS];
  static int n;
  struct err e = {0};
  int i = 0;
  if (n == MOST_GRAPHS || (n && strcmp(all->program, s->field[PROGRAM]) != 0))
    while (n) arena_close(&all[--n].mem);
  while (i < n && (strcmp(all[i].graph, s->field[GRAPH]) != 0 || strcmp(all[i].sizes, s->field[SIZES]) != 0)) i++;
  if (i < n) return &all[i];
  struct planned *p = &all[n++];
  *p = (struct planned){0};
  snprintf(p->program, sizeof p->program, "%s", s->field[PROGRAM]), snprintf(p->graph, sizeof p->graph, "%s", s->field[GRAPH]);
  snprintf(p->sizes, sizeof p->sizes, "%s", s->field[SIZES]);
  p->good = plan_all(p, gpu, &e) == OK;
  if (!p->good) err_print(stderr, &e);
  return p;
}

// "cublaslt algorithm 3" belongs to the library. Every other text is a scheme.
static bool count(struct planned *p, int unit, const char *how, struct choice *x, struct kernel_counts *c)
{
  const struct lower_plan *plan = &p->plan;
  const struct lower_unit *u = &plan->unit[unit];
  if (!u->nchoices || !scheme_parse(how, x) || u->product != (x->scheme == SCHEME_LIBRARY) || (x->tail && u->last == u->first)) return false;
  if (u->product) return count_product(plan->g, plan->store, x->tail ? &u->ends : &u->mul, plan->gpu, c), true;
  const struct lower_job j = lower_unit_job(&p->mem, plan, u, x->tail);
  return scheme_counts(scheme_at(x->scheme), &j, &x->k, c);
}

static void print_line(const struct sample *s, const struct kernel_counts *c)
{
  const char *graph = strrchr(s->field[GRAPH], '/');
  printf("\"%s\",\"%s%s%s\",%s,%s,%s,\"%s\"", s->field[PROGRAM], graph ? graph + 1 : s->field[GRAPH], *s->field[SIZES] ? " " : "", s->field[SIZES],
         s->field[NUMBER], s->field[LAUNCH], s->field[US], s->field[HOW]);
#define COUNTED(id, doc) printf(",%.5g", c->id);
#include "lower/count.def"
#undef COUNTED
  printf("\n");
}

// Counts all launches of one program of the race. False: they are not the launches of the plan.
static bool count_program(struct planned *p, const struct sample *s, int n)
{
  struct kernel_counts c[MOST_LAUNCHES];
  struct choice pick[MOST_UNITS] = {{0}};
  int done = 0;
  if (!p->good || p->plan.nunits > MOST_UNITS) return false;
  for (int u = 0; u < p->plan.nunits; u++) {
    if (lower_inside(&p->plan, pick, u)) continue;
    if (done == n || !count(p, u, s[done].field[HOW], &pick[u], &c[done])) return false;
    done++;
  }
  for (int k = 0; k < n && done == n; k++) print_line(&s[k], &c[k]);
  return done == n;
}

static bool of_one(const struct sample *a, const struct sample *b)
{
  return !strcmp(a->field[PROGRAM], b->field[PROGRAM]) && !strcmp(a->field[GRAPH], b->field[GRAPH]) && !strcmp(a->field[NUMBER], b->field[NUMBER]);
}

static bool wanted(const struct sample *s, bool listed)
{
  if (listed && strcmp(s->field[CLIMBED], "0") != 0) return false;
  return *s->field[US] && !strcmp(s->field[VERDICT], "fine") && strcmp(s->field[DEPENDENT], "0") != 0;
}

// Counts all samples. The lines of a program are contiguous.
static void count_samples(FILE *f, const struct target *gpu, bool listed, int done[2])
{
  static struct sample s[MOST_LAUNCHES];
  static char next[LINE];
  bool more = fgets(next, LINE, f);
  while (more) {
    int n = 0;
    for (bool same = true; more && same && n < MOST_LAUNCHES; more = !same || fgets(next, LINE, f)) {
      memcpy(s[n].line, next, LINE), split(&s[n]);
      same = of_one(&s[0], &s[n]), n += same;
    }
    if (wanted(s, listed)) done[count_program(open_graph(s, gpu), s, n)]++;
  }
}

static int count_all(int n, char **path, const struct target *gpu, bool listed)
{
  int done[2] = {0};
  printf("program,graph,number,launch,us,how");
#define COUNTED(id, doc) printf("," #id);
#include "lower/count.def"
#undef COUNTED
  printf("\n");
  for (int i = 0; i < n; i++) {
    FILE *f = fopen(path[i], "r");
    if (!f) return fprintf(stderr, "%s cannot be read\n", path[i]), 2;
    count_samples(f, gpu, listed, done);
    fclose(f);
  }
  fprintf(stderr, "%d programs counted, %d not\n", done[1], done[0]);
  return done[1] ? OK : NO;
}

// ---- times ----

static bool read_counts(char *line, struct kernel_counts *c)
{
  enum { BEFORE = 6 }; // fields
  double field[] = {
#define COUNTED(id, doc) 0,
#include "lower/count.def"
#undef COUNTED
  };
  char *at = line;
  for (int i = 0; i < BEFORE && at; i++) {
    if (*at == '"') at = strchr(at + 1, '"');
    at = at ? strchr(at, ',') : NULL, at += at != NULL;
  }
  for (size_t i = 0; i < COUNT(field) && at; i++) {
    field[i] = strtod(at, &at);
    at = *at == ',' ? at + 1 : i + 1 < COUNT(field) ? NULL : at;
  }
  memcpy(c, field, sizeof field);
  return at && c->kind >= 0 && c->kind < COUNT_KINDS;
}

static int read_table(struct arena *mem, FILE *f, struct kernel_counts **all)
{
  static char line[LINE];
  int n = 0, cap = 0;
  for (bool head = true; fgets(line, LINE, f);) {
    if (*line == '#') continue;
    struct kernel_counts c = {0};
    if (!head && !read_counts(line, &c)) return fprintf(stderr, "launch %d is not as it is written here\n", n), -1;
    if (!head) PUSH(mem, *all, n, cap) = c;
    head = false;
  }
  return n;
}

static int times(const char *path, const struct target *gpu)
{
  struct arena mem = {0};
  struct kernel_counts *c = NULL;
  struct kernel_rates r;
  FILE *f = fopen(path, "r");
  int n = f ? read_table(&mem, f, &c) : -1;
  if (f) fclose(f);
  if (n < 0) return 2;
  while (fread(&r, sizeof r, 1, stdin) == 1) {
    for (int i = 0; i < n; i++) {
      double seconds = kernel_time(&c[i], gpu, &r);
      fwrite(&seconds, sizeof seconds, 1, stdout);
    }
    fflush(stdout);
  }
  arena_close(&mem);
  return OK;
}

int main(int argc, char **argv)
{
  struct err e = {0};
  struct target t;
  bool timing = argc == 3 && !strcmp(argv[1], "--times"), listed = argc > 1 && !strcmp(argv[1], "--listed");
  if (argc < 2 + listed) return fprintf(stderr, "calibrate [--listed] SAMPLES.csv... | --times COUNTS.csv\n"), 2;
  if (target_open("sm_90a", 1, true, &t, &e)) return err_print(stderr, &e), 2;
  return timing ? times(argv[2], &t) : count_all(argc - 1 - listed, argv + 1 + listed, &t, listed);
}
