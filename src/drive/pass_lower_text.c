// Decisions about a GPU's kernels and the resulting kernels, as text: dumps of `mica optimize` and of `mica lower`.
#include "drive/pass.h"
#include "gpu/gpu.h"
#include "lower/lower_emit.h"
#include "plan/layout.h"
#include "plan/passes.h"

#include <string.h>

static const struct lowered *lowered_of(const struct ir_value *v) { return v->on.x->gpu.lowered; }

// ---- of a kernel ----

void print_choices(const struct ir_value *v, struct str *out)
{
  const struct lower_unit *u = &lowered_of(v)->plan.unit[v->i];
  str_add(out, "%s: %d choice%s\n", u->name, u->nchoices, u->nchoices == 1 ? "" : "s");
  str_add(out, *u->why ? "  not: %s\n" : "%s", u->why);
  for (int s = 0; s < scheme_count() && u->n.nsave; s++)
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

// The normal form of a kernel; kernels without one, such as products, are named.
static const struct norm *norm_of(const struct ir_value *v, struct str *out)
{
  const struct lower_unit *u = &lowered_of(v)->plan.unit[v->i];
  const struct blas_product *m = &u->mul.p;
  str_add(out, "%s\n", u->name);
  if (u->product) {
    str_add(out, "product, %lld times %lld x %lld x %lld", (long long)m->batch, (long long)m->m, (long long)m->n, (long long)m->k);
    if (u->last != u->first) str_add(out, "; with the kernel that follows"), product_text(&u->ends.p, out);
    str_add(out, "\n");
  } else if (u->meet.m.ranks)
    str_add(out, "%s over %d ranks\n", meeting_name(u->meet.m.how), u->meet.m.ranks);
  else if (!u->n.nsave && *u->why)
    str_add(out, "no normal form: %s\n", u->why);
  else
    return &u->n;
  return NULL;
}

void print_norm(const struct ir_value *v, struct str *out)
{
  const struct norm *n = norm_of(v, out);
  if (n) norm_text(n, out);
}

void print_chains(const struct ir_value *v, struct str *out)
{
  const struct norm *n = norm_of(v, out);
  if (n) chains_text(n, n->passes, out);
}

void print_schedule(const struct ir_value *v, struct str *out)
{
  const struct norm *n = norm_of(v, out);
  if (n) schedule_text(n, n->passes, out);
}

void print_meta(const struct ir_value *v, struct str *out)
{
  const struct norm *n = norm_of(v, out);
  if (n) meta_text(n, n->passes, lowered_of(v)->plan.store, out);
}

void print_threads(const struct ir_value *v, struct str *out)
{
  const struct norm *n = norm_of(v, out);
  if (n) threads_text(n, n->passes, out);
}

// ---- its values ----

// As the chosen scheme rewrites them, without its tail. NO with the reason in why; "" for a product.
static int values_of(struct arena *mem, const struct ir_value *v, struct kern *k, char why[160])
{
  const struct lowered *d = lowered_of(v);
  const struct lower_unit *u = &d->plan.unit[v->i];
  *why = 0;
  if (u->product || u->meet.m.ranks) return NO;
  struct lower_job j = lower_unit_job(mem, &d->plan, u, false);
  return lower_values(&j, u->nchoices ? scheme_at(d->pick[v->i].scheme)->rules : 0, k, why);
}

void print_kern(const struct ir_value *v, struct str *out)
{
  const struct lowered *d = lowered_of(v);
  const struct lower_unit *u = &d->plan.unit[v->i];
  struct arena mem = {0};
  struct kern k;
  char why[160];
  int status = values_of(&mem, v, &k, why);
  const char *other = u->product ? ": a product" : u->meet.m.ranks ? ": of all ranks" : NULL;
  const char *by = other ? other : u->nchoices ? " by " : ": ", *who = other ? "" : u->nchoices ? scheme_at(d->pick[v->i].scheme)->name : u->why;
  str_add(out, "# %s%s%s%s%s\n", u->name, by, who, *why ? ": " : "", why);
  if (status == OK) kern_print(&k, out);
  arena_close(&mem);
}

int check_kern(const struct ir_value *v, struct err *e)
{
  struct arena mem = {0};
  struct kern k;
  char why[160];
  bool fine = values_of(&mem, v, &k, why) != OK || kern_check(&k, why);
  arena_close(&mem);
  return fine ? OK : err_set(e, ERR_WRONG, NOWHERE, "%s", why);
}

// Parses the printed text.
int parse_kern(struct arena *mem, const struct ir_value *v, const char *text, size_t n, struct err *e)
{
  const char *values = strchr(text, '\n') + 1;
  struct kern k;
  struct str again = {0};
  (void)v, (void)n;
  if (!*values) return OK;
  TRY(kern_parse(mem, values, &k, e));
  kern_print(&k, &again);
  bool same = !strcmp(str_text(&again), values);
  str_free(&again);
  return same ? OK : err_set(e, ERR_WRONG, NOWHERE, "its text parses to other values");
}

// ---- of all kernels ----

// Tensors of a block graph in shared memory: operands of products.
static const bool *in_shared(struct arena *mem, const struct norm *n)
{
  const struct chains *c = &n->passes->chains;
  bool *shared = NEWS(mem, bool, n->block->ntensors + 1);
  for (int i = 0; i < c->nproducts; i++) shared[c->product[i].a] |= c->tile[c->product[i].a], shared[c->product[i].b] = true;
  return shared;
}

static void tensor_name(const struct graph *g, int t, struct str *out)
{
  if (g->tensors[t].name)
    str_add(out, "%s", g->tensors[t].name);
  else
    str_add(out, "tensor %d", t);
}

// Strides of tensors that are not row-major.
static void print_orders(const struct lower_plan *p, struct str *out)
{
  str_add(out, "tensors between kernels lie %s\n", p->ordered);
  for (int t = 0; t < p->g->ntensors && p->order; t++) {
    const struct shape *s = &p->g->tensors[t].shape;
    int64_t stride[MAX_DIMS], plain[MAX_DIMS], elements = order_strides(&p->order[t], s, stride);
    if (order_strides(NULL, s, plain) == elements && !memcmp(stride, plain, sizeof *stride * (size_t)s->n)) continue;
    str_add(out, "  "), tensor_name(p->g, t, out), str_add(out, ":");
    for (int d = 0; d < s->n; d++) str_add(out, " %lld", (long long)stride[d]);
    str_add(out, "\n");
  }
}

// For device tensors, and for tiles in shared memory: the layout; for the former also the final strides.
void print_layouts(const struct ir_value *v, struct str *out)
{
  const struct lower_plan *p = &lowered_of(v)->plan;
  struct arena mem = {0};
  struct err e = {0};
  struct layouts l;
  const bool **shared = NEWS(&mem, const bool *, p->g->nnodes + 1);
  if (plan_layouts(&mem, p->g, false, &l, &e) == OK) {
    for (int i = 0; i < p->nunits; i++)
      if (!p->unit[i].product && p->unit[i].n.passes) shared[p->unit[i].first] = in_shared(&mem, &p->unit[i].n);
    plan_layouts_text(&l, shared, out);
  } else
    str_add(out, "no layouts: %s\n", e.text);
  print_orders(p, out);
  arena_close(&mem);
}

void print_memory(const struct ir_value *v, struct str *out)
{
  const struct device_program *d = &lowered_of(v)->program;
  str_add(out, "workspace: %lld bytes, of which %lld are zero at first\n", (long long)d->workspace, (long long)d->zeroed);
  for (int l = 0; l < d->nlaunch; l++)
    for (int k = 0; k < d->launch[l].nargs; k++) {
      const struct launch_arg *a = &d->launch[l].arg[k];
      if (a->at.kind != PLACE_WORK) continue;
      str_add(out, "  %s %s ", d->launch[l].name, a->written ? "writes" : "reads");
      if (a->tensor < 0)
        str_add(out, "%s", lower_arg_name(d->g, a));
      else
        tensor_name(d->g, a->tensor, out);
      str_add(out, ": %lld bytes at %lld\n", (long long)(a->elements * tile_types[a->type].bytes), (long long)a->at.offset);
    }
}

// ---- tile programs and their results ----

void print_tile(const struct ir_value *v, struct str *out)
{
  const struct launch *l = &lowered_of(v)->program.launch[v->i];
  str_add(out, "// %s: %s\n", l->name, l->how);
  launch_body_text(l, out);
}

int parse_tile(struct arena *mem, const struct ir_value *v, const char *text, size_t n, struct err *e)
{
  const struct launch *l = &lowered_of(v)->program.launch[v->i];
  struct tile_program *p;
  (void)n;
  if (!l->text) return OK;
  TRY(tile_parse(mem, l->name, text, &p, e));
  return tile_lower(p, p->kernels[0], lowered_of(v)->plan.gpu->arch, e);
}

void print_proof(const struct ir_value *v, struct str *out)
{
  const struct device_proof *p = &lowered_of(v)->proof;
  str_add(out, "%d of %d kernels, %d at full size; %lld blocks, %lld element operations; error %.2g of what is accepted%s%s\n", p->run, p->kernels,
          p->full, (long long)p->blocks, (long long)p->elements, p->relative, *p->note ? "; " : "", p->note);
}

void print_cuda(const struct ir_value *v, struct str *out)
{
  const char *source = lowered_of(v)->code->kernel[v->i].source;
  str_add(out, "%s", source ? source : "");
}

void print_use(const struct ir_value *v, struct str *out)
{
  const struct lowered *d = lowered_of(v);
  str_add(out, "%s\n", d->compiled);
  for (int i = 0; i < d->program.nlaunch; i++)
    if (d->registers[i] >= 0) str_add(out, "%s: %d registers, %d bytes spilled\n", d->program.launch[i].name, d->registers[i], d->spilled[i]);
}
