// gpu_race: kernel graphs that compute one program, raced on this machine's GPU. One binary that needs only NVRTC, the
// driver and, for products by the library, cuBLASLt; it is its own worker process.
//
//   gpu_race [--target sm_90a|sm_89|..] [--variants N] [--seconds S] [--finalists N] [--limit S] [--seed N] [--db FILE]
//            [--no-tails] [--independent] [--tune S] [--save FOLDER] [--out FOLDER] [--csv FILE] [--samples FILE] PROGRAM.mica[,NAME=VALUE]... [GRAPH.mica[,NAME=VALUE]...]...
//            [-- PROGRAM.mica[,NAME=VALUE]... [GRAPH.mica[,NAME=VALUE]...]...]...
//
// After -- another race begins, with the options given so far. --target (sm_90a) is the target of the graphs after it, and one that this GPU runs.
// Each graph, and the program itself with every operator as a kernel, is lowered in up to N ways (8): the best choice for each kernel by the cost
// model, then others, one kernel at a time. --tune N climbs from the fastest for N more seconds, to other settings and sizes (src/drive/climb.h).
// The results of a climb are checked against float64, and not proven. --no-tails keeps kernels apart. --independent launches each kernel after the
// previous one has ended. --save writes the tile programs and CUDA C++ of the fastest. --out writes the files of `mica optimize --out` except the
// report. --csv adds a line a race to a file, --samples a line a program and launch (bench/samples.h). Exit status 1: some race has no right result.
#include "sim/against.h"
#include "drive/climb.h"
#include "export/export.h"
#include "plan/plan.h"
#include "samples.h"
#include "target/target.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_TARGETS = 8, MOST_PROGRAMS = 4096, MOST_GRAPHS = 512, SHOWN = 12 };

struct options {
  int variants;
  bool tails, dependent;
  double tune;
  const char *save, *out, *db, *csv, *samples, *target;
  struct gpu_race_opts race;
};
struct all {
  struct arena mem;
  struct err e;
  struct options o;
  struct target target;     // of the words after it
  const struct target *gpu; // one of opened
  struct target opened[MOST_TARGETS];
  const struct graph *reference, *graph[MOST_GRAPHS];
  const char *word[MOST_GRAPHS];
  int ngraphs;
  const char *what; // its word on the command line
  const struct device_program *program[MOST_PROGRAMS];
  const char *from[MOST_PROGRAMS]; // the word of its graph
  int n;
};

// ---- candidates ----

static bool same_programs(const struct device_program *a, const struct device_program *b)
{
  return program_hash(a, 1) == program_hash(b, 1) && program_hash(a, 2) == program_hash(b, 2);
}

static void add(struct all *a, const char *word, const struct lower_plan *p, const struct choice *pick)
{
  struct err e = {0};
  struct device_program *d = NEW(&a->mem, struct device_program);
  if (a->n == MOST_PROGRAMS) return;
  if (lower_make(&a->mem, p, pick, d, &e)) {
    printf("%s: %s\n", word, e.text);
    return;
  }
  for (int i = 0; i < a->n; i++)
    if (same_programs(a->program[i], d)) return;
  a->from[a->n] = word, a->program[a->n++] = d;
}

// Adds first the best choice of each kernel, then the k-th best choice of one kernel, for k = 1, 2, ...
static void add_variants(struct all *a, const char *word, const struct lower_plan *p)
{
  struct choice *pick = NEWS(&a->mem, struct choice, p->nunits + 1);
  for (int u = 0; u < p->nunits; u++)
    if (p->unit[u].nchoices) pick[u] = p->unit[u].choice[0];
  int before = a->n;
  add(a, word, p, pick);
  for (int k = 1; k < CHOICES && a->n - before < a->o.variants && a->n > before; k++)
    for (int u = 0; u < p->nunits && a->n - before < a->o.variants; u++) {
      if (k >= p->unit[u].nchoices) continue;
      struct choice was = pick[u];
      pick[u] = p->unit[u].choice[k];
      add(a, word, p, pick);
      pick[u] = was;
    }
}

static int add_graph(struct all *a, const char *word, const struct graph *g)
{
  if (a->ngraphs < MOST_GRAPHS) a->graph[a->ngraphs] = g, a->word[a->ngraphs++] = word;
  if (a->o.tune > 0) return OK;
  struct graph *stable;
  struct lower_plan plan;
  char note[256] = "";
  bool changed;
  if (graph_expand(&a->mem, g, true, &stable, &a->e)) return a->e.status;
  if (plan_stable(&a->mem, stable, &stable, &changed, note, &a->e)) return a->e.status;
  const struct lower_opts o = {.tails = a->o.tails, .dependent = a->o.dependent};
  if (lower_plan(&a->mem, stable, a->gpu, &o, &plan, &a->e)) return a->e.status;
  add_variants(a, word, &plan);
  return OK;
}

// ---- the command line ----

static int option(struct options *o, int n, char **word)
{
  const char *w = word[0], *next = n > 1 ? word[1] : NULL;
  if (!strcmp(w, "--no-tails")) return o->tails = false, 1;
  if (!strcmp(w, "--independent")) return o->dependent = false, 1;
  if (!next) return 0;
  if (!strcmp(w, "--variants")) return o->variants = atoi(next), 2;
  if (!strcmp(w, "--seconds")) return o->race.seconds = atof(next), 2;
  if (!strcmp(w, "--finalists")) return o->race.finalists = atoi(next), 2;
  if (!strcmp(w, "--limit")) return o->race.limit = atof(next), 2;
  if (!strcmp(w, "--seed")) return o->race.seed = (uint64_t)atoll(next), 2;
  if (!strcmp(w, "--tune")) return o->tune = atof(next), 2;
  const char *const texts[] = {"--db", "--out", "--save", "--csv", "--samples", "--target"},
                    **const to[] = {&o->db, &o->out, &o->save, &o->csv, &o->samples, &o->target};
  for (size_t i = 0; i < COUNT(texts); i++)
    if (!strcmp(w, texts[i])) return *to[i] = next, 2;
  return 0;
}

// Opens a target with the properties of the device.
static int open_target(struct all *a, const char *name)
{
  struct target t;
  struct gpu_worker_facts f;
  if (!strcmp(a->target.name, name)) return OK;
  if (target_open(name, 1, true, &t, &a->e) || gpu_worker_facts(a->o.race.with, &f, &a->e)) return a->e.status;
  if (t.kind != TARGET_GPU) return err_set(&a->e, ERR_TARGET, NOWHERE, "%.40s is no GPU", name);
  if (target_fit(&t, &(struct target_facts){f.gpu.name, f.gpu.arch, f.gpu.processors, f.gpu.shared, f.gpu.shared_processor, f.gpu.l2, 0}, &a->e))
    return a->e.status;
  struct target *gpu = a->opened;
  while (gpu->arch && gpu->arch != t.arch) gpu++;
  return *gpu = a->target = t, a->gpu = gpu, OK;
}

// Reads the words of one race. Returns their number.
static int read_words(struct all *a, int argc, char **argv)
{
  int i = 0;
  while (i < argc && strcmp(argv[i], "--") != 0) {
    struct graph *g;
    int words = option(&a->o, argc - i, argv + i);
    i += words;
    if (words) continue;
    const char *word = argv[i++];
    if (open_target(a, a->o.target)) return i;
    if (against_program(&a->mem, word, &g, &a->e)) return i;
    if (!a->reference) a->reference = g, a->what = word;
    if (add_graph(a, word, g)) {
      printf("%s: %s\n", word, a->e.text);
      a->e = (struct err){0};
    }
  }
  if (!a->reference)
    err_set(&a->e, ERR_OPTION, NOWHERE, "gpu_race [OPTION]... PROGRAM.mica[,NAME=VALUE]... [GRAPH.mica]... [-- PROGRAM...]...");
  else if (!a->n && !(a->o.tune > 0 && a->ngraphs))
    err_set(&a->e, ERR_TARGET, NOWHERE, "%.80s: there is no device program to race", a->what);
  return i;
}

// ---- files of the fastest program ----

static int save(struct all *a, const struct device_program *p)
{
  if (file_mkdirs(a->o.save, &a->e)) return a->e.status;
  for (int i = 0; i < p->nlaunch; i++) {
    const struct launch *l = &p->launch[i];
    struct str cuda = {0};
    if (l->product) continue;
    int status = file_write(arena_printf(&a->mem, "%s/%s.tile", a->o.save, l->name), l->text, strlen(l->text), &a->e);
    if (status == OK) status = cuda_print(l->p, l->k, p->gpu->arch, &cuda, &a->e);
    if (status == OK) status = file_write(arena_printf(&a->mem, "%s/%s.cu", a->o.save, l->name), str_text(&cuda), cuda.n, &a->e);
    str_free(&cuda);
    if (status != OK) return status;
  }
  return OK;
}

// Writes the folder of --out, with the fastest algorithms of the library's products.
static int save_folder(struct all *a, const struct device_program *p, const struct gpu_result *r)
{
  struct device_program d = *p;
  if (!a->o.out) return OK;
  d.launch = arena_copy(&a->mem, p->launch, sizeof *p->launch * (size_t)(p->nlaunch + 1));
  for (int i = 0; i < d.nlaunch && r->algorithm; i++) d.launch[i].algorithm = r->algorithm[i];
  return device_save(&a->mem, a->reference, &d, a->o.out, &a->e);
}

static int add_row(struct all *a, const struct gpu_race *r)
{
  const struct gpu_result *x = &r->result[r->best];
  const struct device_program *p = a->program[r->best];
  FILE *f = fopen(a->o.csv, "a");
  if (!f) return err_set(&a->e, ERR_FILE, NOWHERE, "%.200s cannot be written", a->o.csv);
  fprintf(f, "\"%s\",\"%s\",%d,%.3f,%.3f,%.3f,%.3f,%.2e,%d,\"", a->what, a->from[r->best], p->nlaunch, 1e6 * x->cold.median, 1e6 * x->cold.low,
          1e6 * x->cold.high, 1e6 * x->hot.median, x->check.relative, a->n);
  for (int i = 0; i < p->nlaunch; i++) fprintf(f, "%s%s", i ? " | " : "", p->launch[i].how);
  fprintf(f, "\",%s\n", r->machine);
  return fclose(f) ? err_set(&a->e, ERR_FILE, NOWHERE, "%.200s cannot be written", a->o.csv) : OK;
}

static int add_samples(struct all *a, const struct gpu_race *r, const struct entrants *f)
{
  const struct raced all = {a->what, a->n, a->from, a->program, a->o.dependent};
  FILE *out = fopen(a->o.samples, "a");
  if (!out) return err_set(&a->e, ERR_FILE, NOWHERE, "%.200s cannot be written", a->o.samples);
  if (r)
    samples_of_race(&all, r, out);
  else
    samples_of_climb(a->what, f, out);
  return fclose(out) ? err_set(&a->e, ERR_FILE, NOWHERE, "%.200s cannot be written", a->o.samples) : OK;
}

// Warns if all results of a graph are wrong: it may be a graph of a part of this program.
static void tell_others(const struct all *a, const struct gpu_race *r)
{
  for (int g = 1; g < a->ngraphs; g++) {
    struct verify_opts o = {.seed = a->o.race.seed, .full_size_ops = 1, .delta = 0.5};
    struct certificate c = {.equal = true};
    struct err e = {0};
    int n = 0, wrong = 0;
    for (int i = 0; i < a->n; i++)
      if (a->from[i] == a->word[g]) n++, wrong += r->result[i].verdict == GPU_WRONG;
    if (!n || wrong < n || verify_equal(a->reference, a->graph[g], &o, &c, &e) != OK) continue;
    if (!c.equal) printf("%s is not equal to %s: %s\n", a->word[g], a->what, c.note);
  }
}

static int race(struct all *a)
{
  struct gpu_race r;
  struct str text = {0};
  printf("%s: %d programs\n", a->what, a->n), fflush(stdout);
  int status = gpu_race(&a->mem, a->n, a->program, a->reference, &a->o.race, &r, &a->e);
  fprintf(stderr, "\r%40s\r", "");
  if (status != OK) return status;
  gpu_race_text(&r, a->n, a->program, &text);
  fputs(str_text(&text), stdout);
  str_free(&text);
  if (a->o.samples && add_samples(a, &r, NULL)) return a->e.status;
  tell_others(a, &r);
  if (r.best < 0) return NO;
  if (a->o.csv && add_row(a, &r)) return a->e.status;
  if (save_folder(a, a->program[r.best], &r.result[r.best])) return a->e.status;
  printf("best: %s, cold %.3f us (%.3f to %.3f), hot %.3f us\n\n", a->from[r.best], 1e6 * r.result[r.best].cold.median,
         1e6 * r.result[r.best].cold.low, 1e6 * r.result[r.best].cold.high, 1e6 * r.result[r.best].hot.median);
  fflush(stdout);
  return a->o.save ? save(a, a->program[r.best]) : OK;
}

// ---- the climb ----

static const char *how_of(struct arena *mem, const struct entrant *x)
{
  struct str s = {0};
  for (int u = 0; u < x->plan->p.nunits; u++) {
    if (lower_inside(&x->plan->p, x->pick, u)) continue;
    str_add(&s, u ? " | " : "");
    scheme_text(&x->pick[u], &s);
  }
  if (!x->plan->p.dependent) str_add(&s, " (independent)");
  const char *text = arena_strdup(mem, str_text(&s));
  return str_free(&s), text;
}

static const char *from(const struct all *a, const struct contest *c, int cand)
{
  const char *word = c->cand[cand].schedule;
  return c->cand[cand].tuned ? arena_printf((struct arena *)&a->mem, "%s, other sizes", word) : word;
}

static bool faster(const struct entrant *a, const struct entrant *b)
{
  return a->last != b->last ? a->last : a->rough != b->rough ? !a->rough : a->seconds < b->seconds;
}

static void climb_text(struct all *a, const struct entrants *f, double seconds)
{
  int *order = NEWS(&a->mem, int, f->n + 1), timed = 0, tried = 0, fell = 0;
  for (int i = 0; i < f->n; i++) {
    int k = timed;
    tried += f->x[i].result != NULL, fell += f->x[i].state == OUT && f->x[i].result;
    if (f->x[i].state != TIMED) continue;
    for (; k > 0 && faster(&f->x[i], &f->x[order[k - 1]]); k--) order[k] = order[k - 1];
    order[k] = i, timed++;
  }
  printf("%d entrants, %d tried, %d of them not right, %d batches, %d graphs of other sizes in %.1f s; compiling %.1f s, of which nothing ran on "
         "the GPU in %.1f s\n",
         f->n, tried, fell, f->batches, f->sized, seconds, f->compiling, f->waiting);
  for (int k = 0; k < MIN(timed, SHOWN); k++) {
    const struct entrant *x = &f->x[order[k]];
    printf("%c%5d %9.2f us  model %8.2f  line %2d%s  %s: %s\n", k ? ' ' : '*', order[k], 1e6 * x->seconds, 1e6 * x->model, x->line,
           x->centre ? " centre" : "", from(a, f->c, x->cand), how_of(&a->mem, x));
  }
}

static int climb_row(struct all *a, const struct entrants *f, int best)
{
  const struct entrant *x = &f->x[best];
  const struct gpu_time *t = &x->result->cold;
  FILE *out = fopen(a->o.csv, "a");
  if (!out) return err_set(&a->e, ERR_FILE, NOWHERE, "%.200s cannot be written", a->o.csv);
  fprintf(out, "\"%s\",\"%s\",%d,%.3f,%.3f,%.3f,%.3f,%.2e,%d,\"%s\",tuned %g s\n", a->what, from(a, f->c, x->cand), x->plan->p.nunits,
          1e6 * t->median, 1e6 * t->low, 1e6 * t->high, 1e6 * x->result->hot.median, x->result->check.relative, f->n, how_of(&a->mem, x), a->o.tune);
  return fclose(out) ? err_set(&a->e, ERR_FILE, NOWHERE, "%.200s cannot be written", a->o.csv) : OK;
}

// Builds the contest. The program itself is the first candidate, as on the command line.
static int contest_of(struct all *a, struct job *j, struct contest *c)
{
  struct graph *plain, *stable;
  struct err none = {0};
  char note[256] = "";
  if (graph_expand(&a->mem, a->reference, false, &plain, &a->e)) return a->e.status;
  if (plan_stable(&a->mem, plain, &stable, &c->overflows, note, &none) != OK) c->overflows = false;
  c->cand = NEWS(&a->mem, struct candidate, a->ngraphs);
  for (int i = 0; i < a->ngraphs; i++) {
    struct graph *g;
    if (graph_expand(&a->mem, a->graph[i], true, &g, &a->e)) return a->e.status;
    c->cand[i] = (struct candidate){.found = g, .g = i ? NULL : g, .schedule = a->word[i], .note = ""}; // the first is the program
    device_candidate(j, c, &c->cand[i]);
    if (c->cand[i].dropped) printf("%s: %s\n", a->word[i], c->cand[i].dropped);
  }
  return c->ncand = a->ngraphs, OK;
}

static int take_best(struct all *a, struct entrants *f)
{
  if (climb_finals(f, &a->e) > NO) return a->e.status;
  int best = entrants_fastest(f, -1, true);
  if (best < 0) return NO;
  if (a->o.csv && climb_row(a, f, best)) return a->e.status;
  if (!entrants_make(f, 1, &(int){best})) return NO;
  if (save_folder(a, f->x[best].program, f->x[best].result)) return a->e.status;
  return a->o.save ? save(a, f->x[best].program) : OK;
}

static int climb(struct all *a)
{
  struct part part = {.g = (struct graph *)a->reference};
  struct contest c = {.part = &part, .twin = -1, .why = ""};
  struct mica_options o = mica_options_default();
  struct job j = {.mem = &a->mem,
                  .opts = &o,
                  .program = a->reference,
                  .target = a->target,
                  .unmeasured = "",
                  .threads = pool_cores(),
                  .db = a->o.race.db,
                  .split = {1, &part},
                  .contests = &c};
  struct gpu_session *s;
  double start = now_seconds();
  o.seed = a->o.race.seed, o.tune = a->o.tune;
  if (contest_of(a, &j, &c) || gpu_session_open(a->reference, &a->o.race, &s)) return a->e.status;
  printf("%s: %d graphs\n", a->what, c.ncand), fflush(stdout);
  struct entrants *f = race_gpu_open(&j, &c, 0, s);
  int status = race_gpu_climb(f, a->o.tune, &a->e) == OK ? take_best(a, f) : (int)a->e.status;
  if (status == OK && a->o.samples) status = add_samples(a, NULL, f);
  climb_text(a, f, now_seconds() - start);
  entrants_close(f);
  gpu_session_close(s);
  return fflush(stdout), status;
}

// Runs all races. A failed race does not stop the others; the command returns the last failure.
static int all_races(struct all *a, int argc, char **argv)
{
  int answer = OK;
  for (int i = 0; i < argc || !argc;) {
    i += read_words(a, argc - i, argv + i);
    if (a->o.db && !a->o.race.db && db_open(a->o.db, &a->o.race.db, &a->e)) return a->e.status;
    int status = a->e.status != OK ? (int)a->e.status : a->o.tune > 0 ? climb(a) : race(a);
    if (status > NO) err_print(stderr, &a->e);
    answer = MAX(answer, status);
    a->e = (struct err){0}, a->n = a->ngraphs = 0, a->reference = NULL;
    arena_close(&a->mem);
    a->mem = (struct arena){0};
    if (i++ >= argc) break;
  }
  return answer;
}

static void progress(void *arg, const char *stage, int done, int all)
{
  (void)arg;
  fprintf(stderr, "\r%-10s %4d of %4d", stage, done, all);
}

int main(int argc, char **argv)
{
  if (argc == 3 && !strcmp(argv[1], "gpu-worker")) return gpu_worker_main(atoi(argv[2]));
  static struct all a;
  const struct gpu_worker_opts worker = {.path = "/proc/self/exe"};
  a.o = (struct options){.variants = 8, .tails = true, .dependent = true, .target = "sm_90a"};
  a.o.race = (struct gpu_race_opts){.seed = 1, .progress = progress};
  int status = gpu_worker_open(&worker, &a.o.race.with, &a.e) ? (int)a.e.status : all_races(&a, argc - 1, argv + 1);
  gpu_worker_close(a.o.race.with);
  db_close(a.o.race.db);
  return status;
}
