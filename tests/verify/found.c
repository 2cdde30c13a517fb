// Mutants of what the search finds (found.h).
#include "found.h"
#include "lax/lax.h"
#include "mutate.h"
#include "pairs.h"
#include "search/examples.h"
#include "verify/proof.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>

// PART: operators of a part, so that every search is quick. EACH: mutants of one part of a program that are tried for
// one target; fewer where an evaluation takes more than CHEAP operations.
enum { SEEDS = 2, MOST = 64, EACH = 130, LEAST = 6, PART = 10, CHEAP = 3000000 };

struct hunt {
  const struct graph *program;
  void *in[SEEDS][MOST], *out[SEEDS][MOST]; // of the program
  struct rng r;
  int keep, of; // so many of all mutants are tried
  int64_t tried, same, unclear, by[JUDGEMENTS], wrong;
  const char *name;
};

// ---- small extents ----

// Every parameter of an example has a small value under which it is still what it is, and of which kernels for GPUs are
// made.
static const struct setting small[] = {{"b", 1},  {"t", 4},     {"s", 32}, {"m", 16},  {"n", 64},      {"k", 128},    {"r", 16},
                                       {"d", 64}, {"heads", 4}, {"kv", 2}, {"f", 128}, {"hidden", 64}, {"inner", 128}};

static struct graph *program_of(struct arena *mem, const char *path)
{
  struct setting set[COUNT(small)];
  struct graph *g = NULL, *plain = NULL;
  struct err e = {0};
  int n = 0;
  for (size_t i = 0; i < COUNT(small); i++) {
    struct err none = {0};
    struct graph *try;
    set[n] = small[i];
    n += !front_load(mem, path, n + 1, set, &try, &none);
  }
  if (front_load(mem, path, n, set, &g, &e) || graph_expand(mem, g, false, &plain, &e)) fail_msg("%s: %s", path, e.text);
  return plain;
}

// ---- one mutant ----

static enum truth truth_of(struct arena *mem, const struct hunt *h, const struct graph *g)
{
  int outs[MOST], n = graph_outputs(g, outs);
  bool close = true;
  for (int seed = 0; seed < SEEDS; seed++) {
    void *out[MOST];
    real_run(mem, g, h->in[seed], out);
    for (int i = 0; i < n; i++)
      for (int64_t k = 0; k < shape_size(&g->tensors[outs[i]].shape); k++) {
        double u = ((double *)h->out[seed][i])[k], v = ((double *)out[i])[k], most = fmax(fabs(u), fabs(v));
        if (isfinite(u) && isfinite(v) && fabs(u - v) > 1e-6 * most + 1e-9) return TRUTH_DIFFERENT;
        close &= fabs(u - v) <= 1e-10 * most;
      }
  }
  return close ? TRUTH_EQUAL : TRUTH_UNCLEAR;
}

static void hold(void *arg, const struct graph *g, const struct mutation *m)
{
  struct hunt *h = arg;
  if ((int)rng_below(&h->r, (uint64_t)h->of) >= h->keep) return;
  struct arena mem = {0};
  enum truth t = truth_of(&mem, h, g);
  if (t == TRUTH_DIFFERENT) {
    char note[256];
    enum judgement j = judge(h->program, g, 11, 1, note);
    h->tried++, h->by[j]++;
    if (j == PROVED || j == FULL || j == REDUCED) {
      struct str text = {0};
      h->wrong++, graph_print(g, &text);
      printf("%s: %s: %s, but it differs. %s\n%s\n", h->name, m->text, judgement_names[j], note, str_text(&text));
      str_free(&text);
    }
  } else {
    t == TRUTH_EQUAL ? h->same++ : h->unclear++;
  }
  arena_close(&mem);
}

static void count(void *arg, const struct graph *g, const struct mutation *m) { (void)g, (void)m, ++*(int *)arg; }

// ---- one part of a program ----

static void hunt_part(struct hunt *h, const struct graph *p, const struct target *t, int each)
{
  enum { GRAPHS = 3 };
  struct arena mem = {0};
  struct search_opts o = {.threads = 1, .seed = 7, .max_block_ops = 6, .max_kernel_ops = 2, .most = GRAPHS};
  struct search_result r;
  struct err e = {0};
  h->program = p;
  if (search_is_hard(p, &o)) o.max_block_ops = 3, o.max_kernel_ops = 1;
  if (work_ops(p) > CHEAP) each = (int)MAX(MIN(each, LEAST), each * CHEAP / work_ops(p));
  if (search_run(&mem, p, t, &o, &r, &e)) fail_msg("%s: %s", h->name, e.text);
  for (int i = 0; i < SEEDS; i++) {
    eval_random(&mem, p, DOM_F64, NULL, (uint64_t)i, h->in[i]);
    real_run(&mem, p, h->in[i], h->out[i]);
  }
  for (int i = 0; i < r.n; i++) {
    int all = 0;
    mutants(r.found[i].g, count, &all);
    h->keep = (each + r.n - 1) / r.n, h->of = all;
    if (all) mutants(r.found[i].g, hold, h);
  }
  arena_close(&mem);
}

static void hunt_file(struct hunt *h, const char *path, const struct target *t, int each)
{
  struct arena mem = {0};
  struct lax_split parts;
  struct err e = {0};
  int64_t before = h->tried;
  double begin = now_seconds();
  h->name = path;
  if (lax_partition(&mem, program_of(&mem, path), PART, NULL, &parts, &e)) fail_msg("%s: %s", path, e.text);
  for (int i = 0; i < parts.n; i++)
    if (parts.parts[i].searchable) hunt_part(h, parts.parts[i].g, t, each);
  printf("%-32s %-7s %3d parts %5lld different mutants, %.1f s\n", path, t->name, parts.n, (long long)(h->tried - before), now_seconds() - begin);
  fflush(stdout);
  arena_close(&mem);
}

void hunt_examples(bool quick)
{
  struct hunt h = {.r = {5}};
  struct target gpu;
  struct err e = {0};
  struct dirent **names;
  int n = scandir("examples", &names, NULL, alphasort);
  assert_true(n > 0);
  assert_int_equal(target_open("sm_90a", 1, true, &gpu, &e), OK);
  for (int i = 0; i < n; i++) {
    char path[512];
    snprintf(path, sizeof path, "examples/%s", names[i]->d_name);
    bool is = strstr(path, ".mica") && (!quick || i % 16 == 4);
    if (is) hunt_file(&h, path, &machine, quick ? 6 : EACH), hunt_file(&h, path, &gpu, quick ? 6 : EACH);
    free(names[i]);
  }
  free(names);
  printf("%lld different mutants, %lld accepted; of the others %lld equal, %lld unclear\n", (long long)h.tried, (long long)h.wrong, (long long)h.same,
         (long long)h.unclear);
  for (int j = 0; j < JUDGEMENTS; j++) printf("  %5lld %s\n", (long long)h.by[j], judgement_names[j]);
  assert_true(quick || h.tried >= 5000);
  assert_int_equal(h.wrong, 0);
}
