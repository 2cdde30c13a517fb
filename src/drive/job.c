// A job: the request, the forms of the program, the target, and the keys of stored results.
#include "drive/pass.h"
#include "gpu/gpu.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct mica_options job_defaults(void)
{
  return (struct mica_options){.size = sizeof(struct mica_options),
                               .target = "cpu",
                               .max_kernel_ops = 5,
                               .max_part_ops = 24,
                               .max_values = 1500,
                               .measure = 8,
                               .tune = 20,
                               .seconds = 1,
                               .seed = 1,
                               .remember = true};
}

enum { MOST_KNOWN = 1024, SHARING = 32 }; // SHARING: of a GPU one block is worth so many multiprocessors, by a cluster of 16 with half of them idle

struct probed { // parts whose search effort is known
  struct job *j;
  int n;
  uint64_t hash[MOST_KNOWN];
  int easy[MOST_KNOWN]; // search_easy_ops
};
struct probes { // used by several threads
  const struct search_opts *o;
  const struct graph *const *part;
  int *easy;
};

void job_progress(const struct job *j, const char *stage, int part, double done, const struct search_stats *s, double best_us)
{
  if (!j->opts->progress) return;
  struct mica_progress p = {.size = sizeof p, .stage = stage, .part = part + 1, .parts = j->split.n, .best_us = best_us, .done = done};
  if (s) {
    p.states = s->states, p.verified = s->verified;
    for (int i = 0; i < PRUNES; i++) p.pruned += s->pruned[i];
  }
  j->opts->progress(j->opts->progress_arg, &p);
}

static void on_search(void *arg, const struct search_stats *s, double best_us, double done)
{
  const struct job *j = arg;
  job_progress(j, "search", j->part, done, s, best_us);
}

struct search_opts job_search_opts(struct job *j)
{
  const struct mica_options *o = j->opts;
  return (struct search_opts){
      .max_block_ops = o->max_block_ops,
      .max_kernel_ops = o->max_kernel_ops,
      .max_values = o->max_values,
      .threads = j->search_threads,
      .crew = j->crew,
      .seed = o->seed,
      .off = j->off,
      .fuse = j->target.kind == TARGET_GPU ? (j->target.cores + SHARING - 1) / SHARING : j->target.cores,
      .stop = job_stop(j, STOP_SEARCH),
      .progress = on_search,
      .progress_arg = j,
  };
}

// A search of a part of a program for a GPU must be able to gain this share of what all parts may gain over a kernel that is made by rule.
static const double WORTH = 0.05;

// Returns a limit in seconds. A part is not searched if a rule makes a kernel of it within this limit. 0: the part is always searched.
static double enough_for(const struct job *j, const struct contest *c)
{
  double all = 0;
  if (j->target.kind != TARGET_GPU || j->split.n == 1) return 0;
  for (int i = 0; i < j->split.n; i++)
    if (j->contests[i].twin < 0) all += part_alike(j, i) * j->contests[i].gain;
  return j->target.launch + search_library_seconds(&j->target, c->part->g) - c->gain + WORTH * all / part_alike(j, (int)(c - j->contests));
}

struct search_opts job_part_opts(struct job *j, const struct contest *c)
{
  struct search_opts o = job_search_opts(j);
  if (c->block_ops) o.max_block_ops = c->block_ops;
  o.enough = enough_for(j, c);
  return o;
}

static int no_rule(const char *name, size_t n, const char *why, struct err *e)
{
  struct str all = {0};
  for (int k = 0; k < PRUNES; k++)
    if (prune_rows[k].switchable) str_add(&all, "%s%s", all.n ? ", " : "", prune_rows[k].name);
  err_set(e, ERR_OPTION, NOWHERE, "%s %.*s", why, (int)MIN(n, 60), name);
  err_hint(e, "the rules that can be switched off are %s", all.p);
  str_free(&all);
  return (int)e->status;
}

int prune_parse(const char *names, unsigned *off, struct err *e)
{
  *off = 0;
  while (names && *names) {
    size_t n = strcspn(names, ",");
    int i = 0;
    while (i < PRUNES && (strlen(prune_rows[i].name) != n || memcmp(prune_rows[i].name, names, n))) i++;
    if (i == PRUNES) return no_rule(names, n, "there is no pruning rule", e);
    if (!prune_rows[i].switchable) return no_rule(names, n, "a rule that removes only graphs that cannot run cannot be switched off:", e);
    *off |= 1u << i;
    names += n + (names[n] == ',');
  }
  return OK;
}

// All inputs of a result besides the graph. The text of the graph follows its hash, so equal hashes cannot confuse two programs.
static const char *key_of(const struct job *j, const char *kind, double tune, const struct graph *g)
{
  const struct mica_options *o = j->opts;
  struct str text = {0};
  graph_print(g, &text);
  const char *key =
      arena_printf(j->mem,
                   "%s %016llx\nmica %s %s\ntarget %s, %s, %d threads\ncompiler %s\nlimits %d %d %d %d, off %x, measure %d, tune %g, seed %llu, "
                   "accept %s, f32 %s\n%s",
                   kind, (unsigned long long)graph_hash(g), MICA_VERSION, build_fingerprint, j->target.name, j->target.device, j->threads,
                   j->compiler, o->max_block_ops, o->max_kernel_ops, o->max_part_ops, o->max_values, j->off, o->measure, tune,
                   (unsigned long long)o->seed, evidence_name(j->accept), f32_products_name(j->target.f32_products), str_text(&text));
  str_free(&text);
  return key;
}

const char *job_part_key(const struct job *j, const struct graph *part) { return key_of(j, "part", 0, part); }

// Facts about the GPU that its results depend on replace the row's device.
static void name_gpu(struct job *j)
{
  struct err missing = {0};
  char identity[160];
  if (gpu_identity(0, identity, &missing) == OK)
    snprintf(j->target.device, sizeof j->target.device, "%.95s", identity);
  else
    j->unmeasured = arena_strdup(j->mem, missing.text);
}

// Starting the driver takes time, which recalled results do not need.
int job_look(struct job *j, struct err *e)
{
  struct err missing = {0};
  struct gpu_facts f;
  char device[sizeof j->target.device];
  if (j->target.kind != TARGET_GPU) return OK;
  memcpy(device, j->target.device, sizeof device);
  if (gpu_look(0, &f, &missing) == OK)
    TRY(target_fit(&j->target, &(struct target_facts){f.name, f.arch, f.processors, f.shared, f.shared_processor, f.l2, 0}, e));
  if (!*j->unmeasured) memcpy(j->target.device, device, sizeof device);
  return OK;
}

void job_warn(struct job *j, const char *what)
{
  if (j->warning && strstr(j->warning, what)) return;
  j->warning = j->warning ? arena_printf(j->mem, "%s; %s", j->warning, what) : arena_strdup(j->mem, what);
}

// As many threads as can run; adds a warning if that is fewer than requested.
static int threads_for(struct job *j, int wanted)
{
  int n = pool_most(wanted);
  if (n < wanted) job_warn(j, arena_printf(j->mem, "%d threads can be used here, not %d", n, wanted));
  return n;
}

// A named database must open; without the default one work continues.
static int open_database(struct job *j, struct err *e)
{
  struct err why = {0};
  const struct patience until = clock_of(j->opts);
  if (!j->opts->remember || j->opts->candidate) return OK;
  TRY(db_open_or_none(j->opts->db, &until, &j->db, &why, e));
  if (!j->db) job_warn(j, arena_printf(j->mem, "no database is used: %s", why.text));
  return OK;
}

const char *job_warning(const struct job *j) { return j->warning ? j->warning : j->db && *db_note(j->db) ? db_note(j->db) : NULL; }

int job_open(struct job *j, struct arena *mem, const struct graph *program, const struct mica_options *opts, struct err *e)
{
  struct graph *cast;
  enum dtype t;
  *j = (struct job){.mem = mem, .opts = opts, .program = program, .left = ""};
  j->worker_lock = worker_lock_open();
  TRY(watch_open(j, e));
  j->threads = threads_for(j, opts->threads > 0 ? opts->threads : pool_cores());
  j->search_threads = opts->search_threads > 0 ? threads_for(j, opts->search_threads) : j->threads;
  TRY(prune_parse(opts->off, &j->off, e));
  TRY(job_accepts(j, e));
  if (opts->dtype) {
    TRY(dtype_read(opts->dtype, &t, e));
    TRY(graph_cast(mem, program, t, &cast, e));
    j->program = cast;
  }
  TRY(target_open(opts->target, j->threads, true, &j->target, e));
  TRY(f32_products_read(opts->f32_products, &j->target.f32_products, e));
  j->unmeasured = "";
  if (j->target.kind == TARGET_GPU) name_gpu(j);
  const struct patience until = clock_of(opts);
  j->compiler = arena_strdup(mem, compiler_version(&until));
  j->key = key_of(j, "program", opts->tune, j->program);
  if (j->target.kind == TARGET_CPU) j->gauge = gauge_open();
  return open_database(j, e);
}

// Identical parts are searched once; later ones are twins of the first.
static int twin_of(const struct job *j, int i)
{
  const struct graph *g = j->split.parts[i].g;
  uint64_t hash = graph_hash(g);
  for (int k = 0; k < i; k++)
    if (graph_hash(j->split.parts[k].g) == hash && graph_same(j->split.parts[k].g, g)) return k;
  return -1;
}

static bool same_list(const struct graph *g, int (*list)(const struct graph *, int *), int n, const int *tensors, struct arena *mem)
{
  int *whole = NEWS(mem, int, list(g, NULL));
  return list(g, whole) == n && !memcmp(whole, tensors, sizeof(int) * (size_t)n);
}

static void probe(void *arg, int i, int thread)
{
  (void)thread;
  struct probes *p = arg;
  p->easy[i] = search_easy_ops(p->part[i], p->o);
}

static const int *find_known(const struct probed *known, uint64_t hash)
{
  for (int i = 0; i < known->n; i++)
    if (known->hash[i] == hash) return &known->easy[i];
  return NULL;
}

// Results are cached, as layers are alike. A single thread probes no more than it needs.
static void too_hard(void *arg, int n, const struct graph *const *part, bool *hard)
{
  struct probed *known = arg;
  struct search_opts o = job_search_opts(known->j);
  const struct graph *unknown[LAX_AHEAD];
  int answer[LAX_AHEAD], of[LAX_AHEAD], m = 0, most = o.threads > 1 ? n : 1;
  for (int done = 0; done < n && (!done || hard[done - 1]); done += most) {
    m = 0;
    for (int i = done; i < MIN(n, done + most); i++) {
      const int *easy = find_known(known, graph_hash(part[i]));
      if (easy)
        hard[i] = *easy < 0;
      else
        of[m] = i, unknown[m++] = part[i];
    }
    pool_run(o.threads, m, probe, &(struct probes){&o, unknown, answer});
    for (int k = 0; k < m; k++) {
      int at = known->n < MOST_KNOWN ? known->n++ : known->n - 1;
      known->hash[at] = graph_hash(unknown[k]), known->easy[at] = answer[k], hard[of[k]] = answer[k] < 0;
    }
  }
}

static void told(void *arg, int decided, int all)
{
  const struct probed *known = arg;
  const struct mica_options *o = known->j->opts;
  struct mica_progress p = {.size = sizeof p, .stage = "looking for subprograms, segments probed:", .part = decided, .parts = all};
  p.done = (double)decided / all;
  if (o->progress) o->progress(o->progress_arg, &p);
}

// Seconds that a part may gain by the model: its operators one by one, less the time to read inputs, write results and multiply.
static double most_gain(const struct job *j, const struct graph *g)
{
  double bytes = 0;
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    const int t = n->op == OP_INPUT ? n->out : n->op == OP_OUTPUT ? n->in[0] : -1;
    bool again = false; // a result may be a view of another
    for (int k = 0; k < i && n->op == OP_OUTPUT; k++) again |= g->nodes[k].op == OP_OUTPUT && graph_root(g, g->nodes[k].in[0]) == graph_root(g, t);
    if (t >= 0 && !again) bytes += (double)shape_size(&g->tensors[t].shape) * dtype_bytes(g->tensors[t].dtype);
  }
  const double least = fmax(bytes / j->target.bandwidth, 2 * reference64_products(g) / j->target.flops);
  return fmax(0, search_library_seconds(&j->target, g) - least);
}

// Parts with the fewest operators come first, so that something is found soon. For a GPU, parts with the largest possible gain come first, as each
// has a share of the time. Ties are in program order.
static void order_parts(struct job *j)
{
  double *late = NEWS(j->mem, double, j->split.n);
  j->order = NEWS(j->mem, int, j->split.n);
  for (int i = 0; i < j->split.n; i++) {
    int k = i;
    late[i] = j->target.kind == TARGET_GPU ? -part_alike(j, i) * j->contests[i].gain : graph_ops(j->split.parts[i].g);
    for (; k > 0 && late[j->order[k - 1]] > late[i]; k--) j->order[k] = j->order[k - 1];
    j->order[k] = i;
  }
}

static bool same_key(const struct graph *a, const struct graph *b)
{
  char x[GRAPH_KEY], y[GRAPH_KEY];
  graph_key(a, x), graph_key(b, y);
  return !strcmp(x, y);
}

// With a plan for the whole program no other division is needed.
static bool planned_whole(struct job *j)
{
  struct err none = {0};
  if (!j->planned) return false;
  const int status = lax_partition(j->mem, j->moved.g, INT_MAX, NULL, &j->split, &none);
  if (status == OK && j->split.n == 1 && j->split.parts->searchable && same_key(j->split.parts->g, j->moved.g)) return true;
  return j->planned = NULL, false;
}

// Arithmetic limits a product on a GPU from this fraction of the target's operations per byte on: typical products reach that fraction of its rate.
static const double BOUND = 0.5;

int run_split(const struct pass_on *on, struct err *e)
{
  struct job *j = on->j;
  struct probed known = {.j = j};
  const bool gpu = j->target.kind == TARGET_GPU;
  const struct lax_probe hardness = {too_hard, told, &known, gpu ? BOUND * j->target.flops / j->target.bandwidth : 0};
  const bool given = j->opts->candidate; // the program is then one subprogram, however expensive its search would be
  if (!planned_whole(j)) TRY(lax_partition(j->mem, j->moved.g, given ? INT_MAX : j->opts->max_part_ops, given ? NULL : &hardness, &j->split, e));
  if (given && j->split.n != 1)
    return err_set(e, ERR_OPTION, NOWHERE, "--candidate replaces the search of one subprogram, and this program has %d", j->split.n);
  if (!j->split.n)
    return err_set(e, ERR_WORLD, NOWHERE, "%s computes nothing between its operators of all devices, so nothing can be optimized",
                   j->plain->name ? j->plain->name : "the program");
  j->contests = NEWS(j->mem, struct contest, j->split.n);
  for (int i = 0; i < j->split.n; i++) {
    j->contests[i] = (struct contest){.part = &j->split.parts[i], .twin = twin_of(j, i), .why = "", .complete = true, .deal = 1};
    j->contests[i].gain = most_gain(j, j->split.parts[i].g);
    const struct contest *first = j->contests[i].twin >= 0 ? &j->contests[j->contests[i].twin] : NULL;
    if (first && first->twin >= 0) j->contests[i].twin = first->twin;
    const int *easy = find_known(&known, graph_hash(j->split.parts[i].g));
    j->contests[i].block_ops = easy ? MAX(*easy, 0) : 0;
  }
  order_parts(j);
  const struct part *p = j->split.parts;
  j->single = j->split.n == 1 && j->plain->world == 1 && same_list(j->plain, graph_inputs, p->nin, p->in, j->mem) &&
              same_list(j->plain, graph_outputs, p->nout, p->out, j->mem);
  return OK;
}

void job_left(struct job *j, const char *what)
{
  j->left = j->left && *j->left ? arena_printf(j->mem, "%s; %s", j->left, what) : arena_strdup(j->mem, what);
}

static void close_module(struct candidate *c)
{
  if (c->cpu.module) module_close(c->cpu.module);
  c->cpu.module = NULL;
}

// The whole program may use the modules of its only part.
void job_close(struct job *j)
{
  struct module *seen[2] = {j->base.cpu.module, j->best.cpu.module};
  for (int i = 0; i < j->split.n && j->contests; i++)
    for (int k = 0; k < j->contests[i].ncand; k++) {
      struct candidate *c = &j->contests[i].cand[k];
      str_free(&c->source), str_free(&c->header);
      if (c->cpu.module != seen[0] && c->cpu.module != seen[1]) close_module(c);
    }
  if (j->best.cpu.module != j->base.cpu.module) close_module(&j->best);
  close_module(&j->base);
  watch_free(j);
  gpu_session_close(j->session);
  j->session = NULL;
  gpu_worker_close(j->worker);
  worker_lock_close(j->worker_lock);
  j->worker_lock = NULL;
  j->worker = NULL;
  gpu_evaluator_close(j->evaluator);
  j->evaluator = NULL;
  clock_close(j);
  gauge_close(j->gauge);
  j->gauge = NULL;
  db_close(j->db);
  j->db = NULL;
  for (int i = 0; i < j->narenas; i++) arena_close(j->arenas[i]);
  j->narenas = 0;
}
