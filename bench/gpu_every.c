// gpu_every: is every value of every knob right on this machine's GPU? Small graphs, each kernel of them made by each scheme with so
// many settings that every value of every knob occurs (tests/lower/cover.c), alone and with its tail; all are run as a race runs its
// candidates (docs/gpu.md, "What a check sees"), held against float64, and none is timed.
//
//   gpu_every [--target NAME,..] [--pairs] [--only REGEX] [--scheme NAME] [--csv FILE] [--list] [FILE.mica]...
//
// FILE (bench/every.mica) has graphs one after the other, each beginning with `graph` at the beginning of a line. --target: sm_90a and
// older ones (that of this GPU, sm_86, sm_80). --pairs: every two values of two knobs, three to five times as many kernels. --only: graphs by
// name. --csv has a row a kernel, --list only counts them and needs no GPU. Exit status 1: something is not right.
#include "cover.h"
#include "front/front.h"
#include "gpu/gpu.h"
#include "plan/plan.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_JOBS = 512, MOST_SETTINGS = 512, MOST_TARGETS = 8, MOST_SCHEMES = 16 };

struct one {        // a kernel at a setting
  const char *name; // of the unit
  struct choice c;
  const struct device_program *program;
};
struct job { // a graph for a target
  struct arena mem;
  struct graph *g;
  const struct target *gpu;
  int n, cap, unmade; // unmade: settings that fit but of which no program was made
  struct one *one;
  const struct device_program **program;
  struct gpu_session *session;
  struct gpu_batch *batch;
};
struct tally { // by knob: counts of its values, for one scheme
  int kernels, right, nvalues[KNOBS], value[KNOBS][16];
};
struct all {
  struct arena mem;
  struct err e;
  bool pairs, list;
  const char *only, *scheme, *csv;
  int ntargets;
  struct target gpu[MOST_TARGETS];
  struct gpu_race_opts race;
  int n, kernels, right;
  struct job *job[MOST_JOBS];
  struct tally tally[2][MOST_SCHEMES]; // with a tail, scheme
  FILE *table;
};

// ---- settings ----

static bool alone(const struct lower_plan *p, struct choice *pick, int u)
{
  int head = p->unit[u].head;
  if (!lower_inside(p, pick, u)) return true;
  for (int i = 0; i < p->unit[head].nchoices; i++)
    if (!p->unit[head].choice[i].tail) return pick[head] = p->unit[head].choice[i], true;
  return false;
}

static void add(struct job *j, const struct lower_plan *p, const struct choice *pick, int u)
{
  struct err e = {0};
  struct device_program *d = NEW(&j->mem, struct device_program);
  if (lower_make(&j->mem, p, pick, d, &e)) {
    struct str how = {0};
    scheme_text(&pick[u], &how);
    printf("  not made: %s: %s: %s\n", p->unit[u].name, str_text(&how), e.text);
    str_free(&how);
    j->unmade++;
    return;
  }
  for (int i = 0; i < j->n; i++)
    if (program_hash(j->one[i].program, 1) == program_hash(d, 1)) return; // different settings may give the same program
  PUSH(&j->mem, j->one, j->n, j->cap) = (struct one){p->unit[u].name, pick[u], d};
}

static void add_unit(struct all *a, struct job *j, const struct lower_plan *p, const struct choice *base, int u)
{
  const struct lower_unit *x = &p->unit[u];
  struct choice *pick = NEWS(&j->mem, struct choice, p->nunits + 1), *found = NEWS(&j->mem, struct choice, MOST_SETTINGS);
  for (int tail = 0; tail <= (x->last != x->first); tail++)
    for (int s = 0; s < scheme_count(); s++) {
      struct lower_job lj = lower_unit_job(&j->mem, p, x, tail);
      if (a->scheme && strcmp(a->scheme, scheme_at(s)->name) != 0) continue;
      for (int i = 0, n = scheme_cover(&lj, s, a->pairs, MOST_SETTINGS, found); i < n; i++) {
        memcpy(pick, base, sizeof *pick * (size_t)p->nunits);
        if (!alone(p, pick, u)) continue;
        pick[u] = found[i];
        add(j, p, pick, u);
      }
    }
}

static int add_kernels(struct all *a, struct job *j)
{
  struct graph *stable;
  struct lower_plan *p = NEW(&j->mem, struct lower_plan);
  char note[256] = "";
  bool changed;
  const struct lower_opts o = {.tails = true, .dependent = true};
  if (graph_expand(&j->mem, j->g, true, &stable, &a->e) || plan_stable(&j->mem, stable, &stable, &changed, note, &a->e)) return a->e.status;
  if (lower_plan(&j->mem, stable, j->gpu, &o, p, &a->e)) return a->e.status;
  struct choice *base = NEWS(&j->mem, struct choice, p->nunits + 1);
  for (int u = 0; u < p->nunits; u++)
    if (p->unit[u].nchoices) base[u] = p->unit[u].choice[0];
  for (int u = 0; u < p->nunits; u++) {
    if (!p->unit[u].nchoices && !lower_inside(p, base, u))
      return err_set(&a->e, ERR_TARGET, NOWHERE, "no kernel for %s: %.200s", p->unit[u].name, p->unit[u].why);
    if (!p->unit[u].product) add_unit(a, j, p, base, u);
  }
  j->program = NEWS(&j->mem, const struct device_program *, j->n + 1);
  for (int i = 0; i < j->n; i++) j->program[i] = j->one[i].program;
  return OK;
}

// ---- graphs ----

static bool wanted(const struct all *a, const char *name)
{
  regex_t r;
  if (!a->only) return true;
  bool yes = !regcomp(&r, a->only, REG_EXTENDED | REG_NOSUB) && !regexec(&r, name, 0, NULL, 0);
  return regfree(&r), yes;
}

static int add_graph(struct all *a, const char *text, size_t n, const char *file)
{
  struct graph *g;
  if (front_parse(&a->mem, text, n, file, 0, NULL, &g, &a->e)) return a->e.status;
  for (int t = 0; t < a->ntargets && wanted(a, g->name) && a->n < MOST_JOBS; t++) {
    struct job *j = a->job[a->n++] = NEW(&a->mem, struct job);
    j->g = g, j->gpu = &a->gpu[t];
    if (add_kernels(a, j)) return a->e.status;
    printf("%-24s %-7s %4d kernels\n", g->name, cuda_arch_name(j->gpu->arch), j->n), fflush(stdout);
  }
  return OK;
}

static int read_graphs(struct all *a, const char *path)
{
  char *text;
  size_t n;
  if (file_read(&a->mem, path, &text, &n, &a->e)) return a->e.status;
  for (char *at = !strncmp(text, "graph ", 6) ? text : strstr(text, "\ngraph "), *next; at; at = next) {
    next = strstr(at + 1, "\ngraph ");
    if (add_graph(a, at, next ? (size_t)(next - at) : strlen(at), path)) return a->e.status;
  }
  return OK;
}

// ---- verdicts ----

static void count(struct tally *t, const struct choice *c, bool right)
{
  const struct scheme *s = scheme_at(c->scheme);
  t->kernels++, t->right += right;
  for (int k = 0; k < KNOBS && s->knob[k]; k++) {
    int i = 0, v = c->k.v[k], *at = t->value[k], *n = &t->nvalues[k];
    while (i < *n && at[i] < v) i++;
    if ((i < *n && at[i] == v) || *n == (int)COUNT(t->value[k])) continue;
    memmove(at + i + 1, at + i, sizeof *at * (size_t)(*n - i));
    at[i] = v, ++*n;
  }
}

static void verdict(struct all *a, const struct job *j, int i, const struct gpu_result *r)
{
  const struct one *x = &j->one[i];
  const char *target = cuda_arch_name(j->gpu->arch);
  struct str how = {0};
  bool right = r->verdict == GPU_FINE;
  scheme_text(&x->c, &how);
  count(&a->tally[x->c.tail][x->c.scheme], &x->c, right);
  a->kernels++, a->right += right;
  if (!right) printf("%s for %s, %s: %s\n  %s: %s\n", j->g->name, target, x->name, str_text(&how), gpu_verdict_name(r->verdict), r->err.text);
  if (a->table)
    fprintf(a->table, "%s,%s,%s,%s,%s,%.2e,%d,%d\n", j->g->name, target, x->name, str_text(&how), gpu_verdict_name(r->verdict), r->check.relative,
            r->registers, r->spilled);
  str_free(&how);
}

static int start(struct all *a, struct job *j)
{
  if (gpu_session_open(j->g, &a->race, &j->session)) return a->e.status;
  return gpu_batch_start(j->session, &a->race, j->n, j->program, &j->batch, &a->e);
}

static void end(struct job *j)
{
  gpu_batch_drop(j->batch), gpu_session_close(j->session);
  j->batch = NULL, j->session = NULL;
  arena_close(&j->mem);
}

// Compiles the kernels of the next graph while those of the current one run.
static int run(struct all *a)
{
  int status = a->n ? start(a, a->job[0]) : OK;
  for (int i = 0; i < a->n && status == OK; i++) {
    struct job *j = a->job[i];
    struct gpu_race r;
    if (i + 1 < a->n) status = start(a, a->job[i + 1]);
    if (status == OK) status = gpu_race_batch(&j->mem, j->batch, &r, &a->e);
    if (status == OK && !i) printf("%s\n", r.machine);
    for (int k = 0; k < j->n && status == OK; k++) verdict(a, j, k, &r.result[k]);
    fflush(stdout);
    if (a->table) fflush(a->table);
    end(j);
  }
  return status;
}

static void summary(const struct all *a)
{
  for (int tail = 0; tail < 2; tail++)
    for (int s = 0; s < scheme_count(); s++) {
      const struct tally *t = &a->tally[tail][s];
      if (!t->kernels) continue;
      printf("%s%s: %d of %d right;", scheme_at(s)->name, tail ? " with a tail" : "", t->right, t->kernels);
      for (int k = 0; k < KNOBS && scheme_at(s)->knob[k]; k++) {
        printf(" %s=", scheme_at(s)->knob[k]);
        for (int i = 0; i < t->nvalues[k]; i++) printf("%s%d", i ? "," : "", t->value[k][i]);
      }
      printf("\n");
    }
  printf("%d of %d kernels are right\n", a->right, a->kernels);
}

// ---- the command line ----

// Adds a target. Without a GPU, for --list, the row of its name describes it.
static int add_target(struct all *a, const char *name)
{
  struct target t;
  struct gpu_worker_facts f;
  if (a->ntargets == MOST_TARGETS) return err_set(&a->e, ERR_OPTION, NOWHERE, "more than %d targets", MOST_TARGETS);
  if (target_open(name, 1, true, &t, &a->e)) return a->e.status;
  if (t.kind != TARGET_GPU) return err_set(&a->e, ERR_TARGET, NOWHERE, "%.40s is no GPU", name);
  if (!a->list && gpu_worker_facts(a->race.with, &f, &a->e)) return a->e.status;
  const struct target_facts facts = {f.gpu.name, f.gpu.arch, f.gpu.processors, f.gpu.shared, f.gpu.shared_processor, f.gpu.l2, 0};
  if (!a->list && target_fit(&t, &facts, &a->e)) return a->e.status;
  return a->gpu[a->ntargets++] = t, OK;
}

static int add_targets(struct all *a, char *names)
{
  char *rest = NULL;
  for (char *name = strtok_r(names, ",", &rest); name; name = strtok_r(NULL, ",", &rest))
    if (add_target(a, name)) return a->e.status;
  return OK;
}

static int all_of_it(struct all *a, int argc, char **argv)
{
  char targets[] = "sm_90a,sm_86,sm_80", *named = targets;
  int files = 0;
  for (int i = 1; i < argc; i++) {
    const char *const texts[] = {"--only", "--scheme", "--csv"}, **const to[] = {&a->only, &a->scheme, &a->csv};
    size_t k = 0;
    while (k < COUNT(texts) && strcmp(texts[k], argv[i]) != 0) k++;
    if (!strcmp(argv[i], "--pairs"))
      a->pairs = true;
    else if (!strcmp(argv[i], "--list"))
      a->list = true;
    else if (!strcmp(argv[i], "--target") && i + 1 < argc)
      named = argv[++i];
    else if (k < COUNT(texts) && i + 1 < argc)
      *to[k] = argv[++i];
    else
      argv[1 + files++] = argv[i];
  }
  if (add_targets(a, named)) return a->e.status;
  for (int i = 0; i < MAX(1, files); i++)
    if (read_graphs(a, files ? argv[1 + i] : "bench/every.mica")) return a->e.status;
  if (a->list) return OK;
  if (a->csv && !(a->table = fopen(a->csv, "w"))) return err_set(&a->e, ERR_FILE, NOWHERE, "%.200s cannot be written", a->csv);
  if (a->table) fprintf(a->table, "graph,target,kernel,how,verdict,relative,registers,spilled\n");
  if (run(a)) return a->e.status;
  summary(a);
  if (a->table && fclose(a->table)) return err_set(&a->e, ERR_FILE, NOWHERE, "%.200s cannot be written", a->csv);
  return a->right == a->kernels ? OK : NO;
}

int main(int argc, char **argv)
{
  if (argc == 3 && !strcmp(argv[1], "gpu-worker")) return gpu_worker_main(atoi(argv[2]));
  static struct all a;
  const struct gpu_worker_opts worker = {.path = "/proc/self/exe"};
  a.race = (struct gpu_race_opts){.seed = 1, .untimed = true};
  int status = gpu_worker_open(&worker, &a.race.with, &a.e);
  if (status == OK) status = all_of_it(&a, argc, argv);
  if (a.e.status != OK) err_print(stderr, &a.e);
  gpu_worker_close(a.race.with);
  return status;
}
