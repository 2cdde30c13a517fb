// mica lower --dump: what is decided before there are kernels. A row of the table for each dump; most are of one kernel at a time.
#include "cli/cli.h"
#include "cuda/cuda.h"
#include "front/parse.h"
#include "plan/layout.h"
#include "plan/passes.h"

#include <string.h>

// ---- of a kernel ----

static void choices(const struct lower_plan *p, const struct lower_unit *u, struct str *out)
{
  (void)p;
  str_add(out, "%s: %d choice%s\n", u->name, u->nchoices, u->nchoices == 1 ? "" : "s");
  str_add(out, *u->why ? "  not: %s\n" : "%s", u->why);
  for (int s = 0; s < scheme_count() && !u->product; s++)
    for (int i = 0; i < u->nchoices; i++)
      if (u->choice[i].scheme == s && scheme_at(s)->apart) {
        str_add(out, "  %s on its own: %s\n", scheme_at(s)->name, scheme_at(s)->apart);
        break;
      }
  for (int i = 0; i < u->nchoices; i++) {
    str_add(out, "  %8.2f us  ", 1e6 * u->choice[i].cost);
    scheme_text(&u->choice[i], out);
    if (u->product && u->choice[i].tail) product_text(&u->ends.p, out);
    str_add(out, "\n");
  }
}

static void norm(const struct lower_plan *p, const struct norm *n, struct str *out) { (void)p, norm_text(n, out); }
static void chains(const struct lower_plan *p, const struct norm *n, struct str *out) { (void)p, chains_text(n, n->passes, out); }
static void schedule(const struct lower_plan *p, const struct norm *n, struct str *out) { (void)p, schedule_text(n, n->passes, out); }
static void meta(const struct lower_plan *p, const struct norm *n, struct str *out) { meta_text(n, n->passes, p->store, out); }
static void threads(const struct lower_plan *p, const struct norm *n, struct str *out) { (void)p, threads_text(n, n->passes, out); }

// ---- of the whole program ----

// Tensors of a block graph in shared memory: what products read there.
static const bool *in_shared(struct arena *mem, const struct norm *n)
{
  const struct chains *c = &n->passes->chains;
  bool *shared = NEWS(mem, bool, n->block->ntensors + 1);
  for (int i = 0; i < c->nproducts; i++) shared[c->product[i].a] |= c->tile[c->product[i].a], shared[c->product[i].b] = true;
  return shared;
}

// Of device tensors, and of tiles that lie in shared memory; and what became of the former.
static int layouts(struct cli *c, const struct lower_plan *p, const struct choice *pick, struct str *out)
{
  struct layouts l;
  const bool **shared = NEWS(&c->mem, const bool *, p->g->nnodes + 1);
  (void)pick;
  TRY(plan_layouts(&c->mem, p->g, false, &l, &c->err));
  for (int i = 0; i < p->nunits; i++)
    if (!p->unit[i].product && p->unit[i].n.passes) shared[p->unit[i].first] = in_shared(&c->mem, &p->unit[i].n);
  plan_layouts_text(&l, shared, out);
  str_add(out, "tensors between kernels lie %s\n", p->ordered);
  for (int t = 0; t < p->g->ntensors && p->order; t++) {
    const struct shape *s = &p->g->tensors[t].shape;
    int64_t stride[MAX_DIMS], plain[MAX_DIMS], elements = order_strides(&p->order[t], s, stride);
    if (order_strides(NULL, s, plain) == elements && !memcmp(stride, plain, sizeof *stride * (size_t)s->n)) continue;
    if (p->g->tensors[t].name)
      str_add(out, "  %s:", p->g->tensors[t].name);
    else
      str_add(out, "  tensor %d:", t);
    for (int d = 0; d < s->n; d++) str_add(out, " %lld", (long long)stride[d]);
    str_add(out, "\n");
  }
  return OK;
}

static int memory(struct cli *c, const struct lower_plan *p, const struct choice *pick, struct str *out)
{
  struct device_program d;
  TRY(lower_make(&c->mem, p, pick, &d, &c->err));
  str_add(out, "workspace: %lld bytes, of which %lld are zero at first\n", (long long)d.workspace, (long long)d.zeroed);
  for (int l = 0; l < d.nlaunch; l++)
    for (int k = 0; k < d.launch[l].nargs; k++) {
      const struct launch_arg *a = &d.launch[l].arg[k];
      const char *name = a->tensor == ARG_COUNTERS ? "counters" : d.g->tensors[a->tensor].name;
      if (a->at.kind != PLACE_WORK) continue;
      str_add(out, "  %s %s ", d.launch[l].name, a->written ? "writes" : "reads");
      if (name)
        str_add(out, "%s", name);
      else
        str_add(out, "tensor %d", a->tensor);
      str_add(out, ": %lld bytes at %lld\n", (long long)(a->elements * tile_types[a->type].bytes), (long long)a->at.offset);
    }
  return OK;
}

static const struct {
  const char *name;
  void (*unit)(const struct lower_plan *, const struct lower_unit *, struct str *);
  void (*kernel)(const struct lower_plan *, const struct norm *, struct str *); // of a unit's normal form, and its tail's
  int (*whole)(struct cli *, const struct lower_plan *, const struct choice *, struct str *);
} dumps[] = {
    {"norm", NULL, norm, NULL},       {"chains", NULL, chains, NULL},   {"schedule", NULL, schedule, NULL}, {"meta", NULL, meta, NULL},
    {"threads", NULL, threads, NULL}, {"layouts", NULL, NULL, layouts}, {"memory", NULL, NULL, memory},     {"choices", choices, NULL, NULL},
};

static void dump_unit(const struct lower_plan *p, const struct lower_unit *u, size_t which, struct str *out)
{
  const struct blas_product *m = &u->mul.p;
  if (dumps[which].unit) {
    dumps[which].unit(p, u, out);
    return;
  }
  str_add(out, "%s\n", u->name);
  if (u->product) {
    str_add(out, "product, %lld times %lld x %lld x %lld", (long long)m->batch, (long long)m->m, (long long)m->n, (long long)m->k);
    if (u->last != u->first) str_add(out, "; with the kernel that follows"), product_text(&u->ends.p, out);
    str_add(out, "\n");
  } else if (!u->n.nsave && *u->why)
    str_add(out, "no normal form: %s\n", u->why);
  else
    dumps[which].kernel(p, &u->n, out);
}

static int no_dump(struct cli *c, const char *all)
{
  struct near near = near_start(c->dump);
  for (size_t i = 0; i < COUNT(dumps); i++) near_try(&near, dumps[i].name);
  near_try(&near, "schemes");
  return option_unknown(c, "pass or list to dump:", c->dump, near.best, arena_printf(&c->mem, "there are %sand schemes", all));
}

int cli_lower_dump(struct cli *c, const struct lower_plan *p, const struct choice *pick)
{
  struct str text = {0}, all = {0};
  int status = NO;
  for (size_t i = 0; i < COUNT(dumps); i++) {
    str_add(&all, "%s, ", dumps[i].name);
    if (strcmp(c->dump, dumps[i].name)) continue;
    status = dumps[i].whole ? dumps[i].whole(c, p, pick, &text) : OK;
    for (int k = 0; k < p->nunits && !dumps[i].whole; k++)
      if (cli_lower_chosen(c, p, k)) dump_unit(p, &p->unit[k], i, &text);
  }
  if (status == NO)
    status = no_dump(c, str_text(&all));
  else if (status == OK && output_wants_text(c))
    fputs(str_text(&text), stdout);
  str_free(&text), str_free(&all);
  return status;
}

// The tables of docs/lower.md.
int cli_lower_schemes(const struct cli *c)
{
  struct str text = {0};
  str_add(&text, "| scheme | needs | knobs | what |\n| --- | --- | --- | --- |\n");
  for (int i = 0; i < scheme_count(); i++) {
    const struct scheme *s = scheme_at(i);
    str_add(&text, "| `%s` | ", s->name), capability_text(scheme_needs(i), &text), str_add(&text, " | ");
    for (int k = 0; k < KNOBS && s->knob[k]; k++) str_add(&text, "%s`%s`", k ? ", " : "", s->knob[k]);
    str_add(&text, " | %s%s |\n", s->doc, s->tails ? "; with the kernel that finishes what blocks left in parts" : "");
  }
  str_add(&text, "\n| epilogue | what is done to alpha A B + beta C |\n| --- | --- |\n");
  for (int i = 0; i < EPILOGUES; i++) str_add(&text, "| `%s` | %s |\n", blas_epilogue_name((enum epilogue)i), blas_epilogue_doc((enum epilogue)i));
  if (output_wants_text(c)) fputs(str_text(&text), stdout);
  str_free(&text);
  return OK;
}
