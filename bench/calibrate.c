// calibrate: what the cost model counts of kernels that were measured.
//
//   calibrate SAMPLES.csv > COUNTS.csv
//
// SAMPLES.csv is what gpu_race --samples writes. Each program and graph in it is read again and planned, each launch's scheme and
// knobs are counted (src/lower/count.def), and a line a launch is printed, with the time of all launches. bench/calibrate.py fits
// the rates of src/lower/rate.def to that.
#include "core/against.h"
#include "core/core.h"
#include "lower/count.h"
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

enum { FIELDS = 13, MOST_LAUNCHES = 64, MOST_UNITS = 128, LINE = 4096 };
enum { PROGRAM, GRAPH, NUMBER, LAUNCHES, LAUNCH, HOW, COST, ALL, US, ROUND, VERDICT };
struct sample {
  char *field[FIELDS];
};
struct planned { // a graph
  char program[512], graph[512];
  struct arena mem;
  struct lower_plan plan;
  bool good;
};

// Fields between commas, quoted or not; cuts the line. Missing ones are "".
static struct sample split(char *line)
{
  struct sample s;
  for (int i = 0; i < FIELDS; i++) {
    char end = *line == '"' ? '"' : ',';
    if (end == '"') line++;
    s.field[i] = line;
    line += strcspn(line, end == '"' ? "\"" : ",\n");
    if (*line) *line++ = 0;
    if (end == '"' && *line == ',') line++;
  }
  return s;
}

static int plan_all(struct planned *p, const struct gpu_limits *gpu, struct err *e)
{
  struct graph *g;
  bool changed;
  char note[256];
  int status = against_program(&p->mem, p->graph, &g, e);
  if (status == OK) status = graph_expand(&p->mem, g, true, &g, e);
  if (status == OK) status = plan_stable(&p->mem, g, &g, &changed, note, e);
  const struct lower_opts o = {.tails = true, .dependent = true};
  return status == OK ? lower_plan(&p->mem, g, gpu, &o, &p->plan, e) : status;
}

static void open_graph(struct planned *p, const struct sample *s, const struct gpu_limits *gpu)
{
  struct err e = {0};
  if (!strcmp(p->program, s->field[PROGRAM]) && !strcmp(p->graph, s->field[GRAPH])) return;
  arena_close(&p->mem);
  p->mem = (struct arena){0};
  snprintf(p->program, sizeof p->program, "%s", s->field[PROGRAM]), snprintf(p->graph, sizeof p->graph, "%s", s->field[GRAPH]);
  p->good = plan_all(p, gpu, &e) == OK;
  if (!p->good) err_print(stderr, &e);
}

// "cublaslt algorithm 3" is the library's, all else a scheme.
static bool count(struct planned *p, int unit, const char *how, struct choice *x, struct kernel_counts *c)
{
  const struct lower_plan *plan = &p->plan;
  const struct lower_unit *u = &plan->unit[unit];
  if (!u->nchoices || !scheme_parse(how, x) || u->product != (x->scheme == SCHEME_LIBRARY) || (x->tail && u->last == u->first)) return false;
  if (u->product) return count_product(plan->g, plan->store, x->tail ? &u->ends : &u->mul, plan->gpu, c), true;
  const struct lower_job j = lower_unit_job(&p->mem, plan, u, x->tail);
  return scheme_at(x->scheme)->count(&j, &x->k, c);
}

static void print_line(const struct sample *s, const struct kernel_counts *c)
{
  const char *graph = strrchr(s->field[GRAPH], '/');
  printf("\"%s\",\"%s\",%s,%s,%s,\"%s\"", s->field[PROGRAM], graph ? graph + 1 : s->field[GRAPH], s->field[NUMBER], s->field[LAUNCH], s->field[US],
         s->field[HOW]);
#define COUNTED(id, doc) printf(",%.5g", c->id);
#include "lower/count.def"
#undef COUNTED
  printf("\n");
}

// All launches of one program of the race; false where they are not those of the plan.
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

static int all(FILE *f, const struct gpu_limits *gpu)
{
  static struct planned p;
  static char line[MOST_LAUNCHES][LINE];
  struct sample s[MOST_LAUNCHES];
  int good = 0, bad = 0, n = 0;
  while (n < MOST_LAUNCHES && fgets(line[n], LINE, f)) {
    s[n] = split(line[n]);
    int launches = atoi(s[n].field[LAUNCHES]);
    if (++n < launches) continue;
    if (*s->field[US] && !strcmp(s->field[VERDICT], "fine")) {
      open_graph(&p, s, gpu);
      bool could = count_program(&p, s, n);
      good += could, bad += !could;
    }
    n = 0;
  }
  fprintf(stderr, "%d programs counted, %d not\n", good, bad);
  arena_close(&p.mem);
  return good ? OK : NO;
}

int main(int argc, char **argv)
{
  struct err e = {0};
  struct target t;
  FILE *f = argc == 2 ? fopen(argv[1], "r") : NULL;
  if (!f) return fprintf(stderr, "calibrate SAMPLES.csv\n"), 2;
  if (target_open("sm_90a", 1, false, &t, &e)) return err_print(stderr, &e), 2;
  const struct gpu_limits gpu = gpu_limits(&t);
  printf("program,graph,number,launch,us,how");
#define COUNTED(id, doc) printf("," #id);
#include "lower/count.def"
#undef COUNTED
  printf("\n");
  int status = all(f, &gpu);
  fclose(f);
  return status;
}
