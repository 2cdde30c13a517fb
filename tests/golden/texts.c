// The golden texts of one graph.
#include "golden.h"
#include "gen/gen.h"
#include "lower/lower.h"
#include "plan/passes.h"
#include "plan/plan.h"
#include "thread/thread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

extern const char gen_more_text[]; // ends what each C source begins with: src/gen/mica_cpu*.h, which have no golden text

const char *const golden_suffix[GOLDENS] = {
    [GOLDEN_PASSES] = "passes", [GOLDEN_SM80] = "sm_80.tile", [GOLDEN_SM90A] = "sm_90a.tile", [GOLDEN_C] = "c.txt"};

static const struct target cpu = {.name = "cpu", .cores = 2, .lanes = 16, .l3 = 32 << 20};

// ---- for GPUs ----

static void product_line(const struct blas_product *m, struct str *out)
{
  str_add(out, "// product, %lld times %lld x %lld x %lld", (long long)m->batch, (long long)m->m, (long long)m->n, (long long)m->k);
  product_text(m, out);
  str_add(out, "\n");
}

static void launch_text(const struct device_program *d, const struct launch *l, struct str *out)
{
  static const char *const kinds[] = {[PLACE_INPUT] = "input", [PLACE_OUTPUT] = "output", [PLACE_WORK] = "workspace"};
  str_add(out, "// %s: %s;", l->name, l->how);
  for (int i = 0; i < l->nargs; i++) {
    const struct launch_arg *a = &l->arg[i];
    const char *name = lower_arg_name(d->g, a);
    str_add(out, "%s %s%s %s %lld", i ? "," : "", a->written ? "writes " : "", name ? name : "unnamed", kinds[a->at.kind],
            (long long)(a->at.kind == PLACE_WORK ? a->at.offset : a->at.index));
  }
  str_add(out, "\n");
  if (l->product)
    product_line(&l->mul, out);
  else
    str_add(out, "%s", l->text);
}

// The launches of one unit, or of all (-1), with these picks.
static void picked_text(struct arena *mem, const struct lower_plan *p, const struct choice *pick, int unit, struct str *out)
{
  struct device_program d;
  struct err e = {0};
  if (lower_make(mem, p, pick, &d, &e) != OK) {
    str_add(out, "// not made: %s\n", e.text);
    return;
  }
  for (int i = 0; i < d.nlaunch; i++)
    if (unit < 0 || d.launch[i].unit == unit) launch_text(&d, &d.launch[i], out);
}

static bool alike(const struct choice *a, const struct choice *b) { return a->scheme == b->scheme && a->tail == b->tail; }

// The best choice of each other scheme, with and without a tail, of each unit: choices of one scheme stand with the cheapest first.
static void other_schemes(struct arena *mem, const struct lower_plan *p, struct choice *pick, struct str *out)
{
  for (int u = 0; u < p->nunits; u++) {
    const struct choice kept = pick[u], *all = p->unit[u].choice;
    for (int i = 1; i < p->unit[u].nchoices; i++) {
      bool seen = false;
      for (int k = 0; k < i; k++) seen |= alike(&all[i], &all[k]);
      if (seen) continue;
      pick[u] = all[i];
      str_add(out, "// ---- another scheme of %s ----\n", p->unit[u].name);
      picked_text(mem, p, pick, u, out);
    }
    pick[u] = kept;
  }
}

static void gpu_text(struct arena *mem, const struct graph *stable, const char *target, bool every, struct str *out, struct lower_plan *p)
{
  struct err e = {0};
  struct target *gpu = NEW(mem, struct target);
  *p = (struct lower_plan){0};
  if (target_open(target, 1, true, gpu, &e) != OK) str_add(out, "// %s\n", e.text);
  if (e.status != OK || lower_plan(mem, stable, gpu, &(struct lower_opts){.tails = true, .dependent = true}, p, &e) != OK) {
    str_add(out, "// no plan: %s\n", e.text);
    *p = (struct lower_plan){0};
    return;
  }
  struct choice *pick = NEWS(mem, struct choice, p->nunits + 1);
  for (int i = 0; i < p->nunits; i++)
    if (p->unit[i].nchoices) pick[i] = p->unit[i].choice[0];
  picked_text(mem, p, pick, -1, out);
  if (every) other_schemes(mem, p, pick, out);
}

static void norm_passes(const struct lower_plan *p, const struct norm *n, struct str *out)
{
  norm_text(n, out);
  if (!n->passes) return;
  chains_text(n, n->passes, out), schedule_text(n, n->passes, out);
  meta_text(n, n->passes, p->store, out), threads_text(n, n->passes, out);
}

// The graph that is lowered, and of each unit the normal form, what the passes decided of it, and what is chosen.
static void passes_text(const struct lower_plan *p, struct str *out)
{
  if (p->g) graph_print(p->g, out);
  for (int i = 0; i < p->nunits; i++) {
    const struct lower_unit *u = &p->unit[i];
    struct str how = {0};
    if (u->nchoices) scheme_text(&u->choice[0], &how);
    str_add(out, "-- %s: %s\n", u->name, u->nchoices ? str_text(&how) : u->why);
    str_free(&how);
    if (u->product)
      product_line(&u->mul.p, out);
    else if (!u->n.nsave)
      str_add(out, "no normal form: %s\n", u->why);
    else
      norm_passes(p, &u->n, out);
    if (!u->product && u->last != u->first) str_add(out, "-- its tail\n"), norm_passes(p, &u->tail, out);
  }
}

// ---- for CPUs ----

static void cpu_text(struct arena *mem, const struct graph *stable, struct str *out)
{
  struct graph *g;
  struct str source = {0}, header = {0};
  struct gen_info info;
  struct err e = {0};
  int status = thread_graphs(mem, stable, &g, &e);
  if (status == OK) status = gen_c(g, "golden", &cpu, &source, &header, &info, &e);
  const char *own = status == OK ? strstr(str_text(&source), gen_more_text) : NULL;
  if (own)
    str_add(out, "%s%s", own + strlen(gen_more_text), str_text(&header));
  else
    str_add(out, "// not made: %s\n", e.text);
  str_free(&source), str_free(&header);
}

// Operators of a composite have results of the dtype that the composite has.
static void same_dtypes(const struct graph *parsed, const struct graph *expanded)
{
  int a[64], b[64];
  const int n = graph_outputs(parsed, a);
  assert_int_equal(graph_outputs(expanded, b), n);
  for (int i = 0; i < n; i++) assert_int_equal(expanded->tensors[b[i]].dtype, parsed->tensors[a[i]].dtype);
}

void golden_texts(const struct graph *parsed, bool every, struct str out[GOLDENS])
{
  struct arena mem = {0};
  struct graph *stable;
  struct lower_plan p;
  struct err e = {0};
  char note[256] = "";
  bool changed;
  int status = graph_expand(&mem, parsed, true, &stable, &e);
  if (status == OK) same_dtypes(parsed, stable);
  if (status == OK) status = plan_stable(&mem, stable, &stable, &changed, note, &e);
  if (status == OK) status = graph_check(stable, &e);
  if (status != OK) str_add(&out[GOLDEN_PASSES], "// not made: %s\n", e.text);
  if (*note) str_add(&out[GOLDEN_PASSES], "note: %s\n", note);
  if (status == OK) {
    gpu_text(&mem, stable, "sm_80", every, &out[GOLDEN_SM80], &p);
    gpu_text(&mem, stable, "sm_90a", every, &out[GOLDEN_SM90A], &p);
    passes_text(&p, &out[GOLDEN_PASSES]);
    cpu_text(&mem, stable, &out[GOLDEN_C]);
  }
  arena_close(&mem);
}
