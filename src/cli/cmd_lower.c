// mica lower: the GPU kernels of a kernel graph, in the tile language. Operators that are not block graphs become one kernel each. Exponentials are
// stabilized first, as for candidates.
#include "cli/cli.h"
#include "sim/device_host.h"
#include "export/export.h"
#include "cuda/cuda.h"
#include "plan/plan.h"

#include <string.h>

// ---- arguments ----

static int limits(struct cli *c, struct target *gpu)
{
  TRY(target_open(c->given[OPT_TARGET] ? c->target : "sm_90a", 1, true, gpu, &c->err));
  if (gpu->kind != TARGET_GPU) return err_set(&c->err, ERR_TARGET, NOWHERE, "%.40s is no GPU: there are no tile kernels for it", c->target);
  TRY(f32_products_read(c->f32_products, &gpu->f32_products, &c->err));
  if (c->given[OPT_SHARED] && !c->given[OPT_WORKERS]) return err_set(&c->err, ERR_OPTION, NOWHERE, "--shared goes with --workers");
  if (c->given[OPT_WORKERS]) *gpu = gpu_budget(gpu, c->workers, c->shared);
  return OK;
}

static int load(struct cli *c, struct graph **g)
{
  char note[256] = "";
  bool changed;
  TRY(cli_load(c, c->args[0], g));
  TRY(world_refuse(*g, "`mica lower`", &c->err));
  TRY(graph_check(*g, &c->err));
  TRY(graph_expand(&c->mem, *g, true, g, &c->err));
  TRY(plan_stable(&c->mem, *g, g, &changed, note, &c->err));
  if (*note) fprintf(stderr, "note: %s\n", note);
  return graph_check(*g, &c->err);
}

static bool has_scheme(const struct lower_unit *u, int scheme)
{
  for (int i = 0; i < u->nchoices; i++)
    if (u->choice[i].scheme == scheme) return true;
  return false;
}

enum { SETTINGS = 1024 };

struct wanted { // the request of --knobs; named values of 0 count too
  struct choice choice;
  bool named[KNOBS];
};

static bool read_knobs(const char *text, struct wanted *w)
{
  *w = (struct wanted){0};
  if (!scheme_parse(text, &w->choice)) return false;
  if (w->choice.scheme == SCHEME_LIBRARY) return w->named[0] = w->choice.k.v[0] != 0, true;
  const struct scheme *s = scheme_at(w->choice.scheme);
  for (int k = 0; k < KNOBS && s->knob[k]; k++) {
    size_t n = strlen(s->knob[k]);
    for (const char *at = text; (at = strchr(at, ' ')) && !w->named[k]; at++) w->named[k] = !strncmp(at + 1, s->knob[k], n) && at[1 + n] == '=';
  }
  return true;
}

static bool cheapest(int n, const struct choice *of, const struct wanted *w, struct choice *pick)
{
  const struct choice *want = &w->choice;
  bool found = false;
  for (int i = 0; i < n; i++) {
    bool fits = of[i].scheme == want->scheme && want->tail == of[i].tail && (!found || of[i].cost < pick->cost);
    for (int k = 0; k < KNOBS; k++) fits = fits && (!w->named[k] || want->k.v[k] == of[i].k.v[k]);
    if (fits) *pick = of[i], found = true;
  }
  return found;
}

// The cheapest setting that matches --knobs, without a tail unless requested: from the list, else from all settings of the scheme. If none matches,
// the request itself.
static void by_knobs(struct arena *mem, const struct lower_plan *p, const struct lower_unit *u, const struct wanted *w, struct choice *pick)
{
  const struct choice *want = &w->choice;
  bool tail = false;
  for (int i = 0; i < u->nchoices; i++) tail |= u->choice[i].tail;
  if (cheapest(u->nchoices, u->choice, w, pick)) return;
  if (u->product || want->scheme == SCHEME_LIBRARY) return;
  *pick = *want;
  if (want->tail && !tail) return;
  struct lower_job j = lower_unit_job(mem, p, u, want->tail);
  struct choice *all = NEWS(mem, struct choice, SETTINGS);
  cheapest(scheme_settings(&j, want->scheme, SETTINGS, all), all, w, pick);
}

static int picks(struct cli *c, const struct lower_plan *p, struct choice **pick)
{
  struct wanted want = {0};
  *pick = NEWS(&c->mem, struct choice, p->nunits + 1);
  if (c->knobs && !read_knobs(c->knobs, &want)) {
    struct str all = {0};
    for (int i = 0; i < scheme_count(); i++) {
      str_add(&all, "%s%s", i ? "; " : "", scheme_at(i)->name);
      for (int k = 0; k < KNOBS && scheme_at(i)->knob[k]; k++) str_add(&all, " %s=N", scheme_at(i)->knob[k]);
    }
    err_set(&c->err, ERR_OPTION, NOWHERE, "--knobs %.80s: there is no such scheme or knob", c->knobs);
    err_hint(&c->err, "there are %s", str_text(&all));
    return str_free(&all), USER;
  }
  char why[160];
  if (c->knobs && want.choice.scheme >= 0 && !scheme_runs(want.choice.scheme, p->gpu, why))
    return err_set(&c->err, ERR_TARGET, NOWHERE, "the scheme %s %s", scheme_at(want.choice.scheme)->name, why);
  bool any = false;
  for (int i = 0; i < p->nunits; i++) {
    const struct lower_unit *u = &p->unit[i];
    if (u->nchoices) (*pick)[i] = u->choice[0];
    any |= cli_lower_chosen(c, p, i);
    bool meant = c->kernel || (c->knobs && has_scheme(u, want.choice.scheme)); // other kernels keep their best choice
    if (c->knobs && u->nchoices && meant && cli_lower_chosen(c, p, i)) by_knobs(&c->mem, p, u, &want, &(*pick)[i]);
  }
  return any || !p->nunits ? OK : err_set(&c->err, ERR_OPTION, NOWHERE, "there is no kernel %.60s; the first is %s", c->kernel, p->unit[0].name);
}

// ---- printing, compiling, saving ----

static void arg_text(const struct device_program *d, const struct launch_arg *a, struct str *out)
{
  static const char *const kinds[] = {[PLACE_INPUT] = "input", [PLACE_OUTPUT] = "output", [PLACE_WORK] = "workspace"};
  const char *name = lower_arg_name(d->g, a);
  if (name)
    str_add(out, "%s: ", name);
  else
    str_add(out, "t%d: ", a->tensor);
  str_add(out, "%s%s %lld", a->written ? "writes " : "", kinds[a->at.kind], (long long)(a->at.kind == PLACE_WORK ? a->at.offset : a->at.index));
}

static void text_of_launch(const struct device_program *d, const struct launch *l, struct str *out)
{
  str_add(out, "// %s: %s, %.2f us modelled; ", l->name, l->how, 1e6 * l->cost);
  for (int i = 0; i < l->nargs; i++) str_add(out, i ? ", " : ""), arg_text(d, &l->arg[i], out);
  str_add(out, "\n");
  launch_body_text(l, out);
  str_add(out, "\n");
}

static int save(struct cli *c, const struct launch *l, const char *suffix, const void *text, size_t n)
{
  if (!c->out) return OK;
  TRY(output_folder(c->out, &c->err));
  return output_write(arena_printf(&c->mem, "%s/%s.%s", c->out, l->name, suffix), text, n, &c->err);
}

static int compile(struct cli *c, const struct nvrtc *r, const struct launch *l, const struct str *source, int arch)
{
  struct cubin cubin;
  TRY(nvrtc_compile(r, &c->mem, l->name, str_text(source), arch, &cubin, &c->err));
  if (output_wants_text(c))
    printf("%s for %s, %s: %d registers, %d bytes spilled, %lld bytes of shared memory\n", l->name, cuda_arch_name(arch), l->how, cubin.registers,
           cubin.spilled, (long long)l->k->shared_bytes);
  return save(c, l, "cubin", cubin.bytes, cubin.n);
}

static int finish_one(struct cli *c, const struct nvrtc *r, const struct device_program *d, const struct launch *l)
{
  struct str text = {0}, source = {0};
  text_of_launch(d, l, &text);
  if (output_wants_text(c) && !c->check && !c->out && !c->compile) fputs(str_text(&text), stdout);
  int status = save(c, l, "tile", str_text(&text), text.n);
  if (!l->product && (c->out || c->compile) && status == OK) status = cuda_print(l->p, l->k, d->gpu->arch, &source, &c->err);
  if (!l->product && status == OK) status = save(c, l, "cu", str_text(&source), source.n);
  if (r && !l->product && status == OK) status = compile(c, r, l, &source, d->gpu->arch);
  str_free(&text);
  str_free(&source);
  return status;
}

// The whole program as one source with its host function.
static int save_program(struct cli *c, const struct device_program *d, const char *name)
{
  struct exported x;
  char id[64];
  gen_identifier(id, name ? name : "program");
  int status = export_device(&c->mem, d, id, &x, &c->err);
  if (status == OK) status = output_write(arena_printf(&c->mem, "%s/kernel.cu", c->out), str_text(&x.source), x.source.n, &c->err);
  if (status == OK) status = output_write(arena_printf(&c->mem, "%s/kernel.h", c->out), str_text(&x.header), x.header.n, &c->err);
  if (status == OK) status = output_write(arena_printf(&c->mem, "%s/README.md", c->out), str_text(&x.readme), x.readme.n, &c->err);
  return export_free(&x), status;
}

static int finish(struct cli *c, const struct lower_plan *p, const struct nvrtc *r, const struct choice *pick)
{
  struct device_program d;
  int made = lower_make(&c->mem, p, pick, &d, &c->err);
  const struct launch *last = d.nlaunch ? &d.launch[d.nlaunch - 1] : NULL;
  if (made != OK && last && last->text && c->err.id == ERR_TILE) { // the rejected text, for --out
    struct err e = c->err;
    save(c, last, "tile", last->text, strlen(last->text));
    return c->err = e, made;
  }
  if (made != OK) return made;
  for (int i = 0; i < d.nlaunch; i++)
    if (cli_lower_chosen(c, p, d.launch[i].unit)) TRY(finish_one(c, r, &d, &d.launch[i]));
  if (!c->out || c->kernel) return OK;
  return c->compile ? device_save(&c->mem, p->g, &d, c->out, &c->err) : save_program(c, &d, p->g->name);
}

// With --all: every choice of every selected kernel; the other kernels keep their best choice.
static int finish_all(struct cli *c, const struct lower_plan *p, const struct nvrtc *r, struct choice *pick)
{
  if (!c->all || c->out) return finish(c, p, r, pick);
  const char *kernel = c->kernel;
  for (int i = 0; i < p->nunits; i++) {
    struct choice kept = pick[i];
    if (!cli_lower_chosen(c, p, i) || !cli_lower_apart(p, pick, i)) continue;
    c->kernel = p->unit[i].name;
    for (int k = 0; k < p->unit[i].nchoices; k++) {
      pick[i] = p->unit[i].choice[k];
      TRY(finish(c, p, r, pick));
    }
    pick[i] = kept, c->kernel = kernel;
  }
  return OK;
}

int cmd_lower(struct cli *c)
{
  struct target gpu;
  struct graph *g;
  struct lower_plan p;
  struct choice *pick;
  struct nvrtc *r = NULL;
  struct lower_opts opts = {.tails = true, .dependent = true};
  if (c->dump && !strcmp(c->dump, "schemes")) return cli_lower_schemes(c);
  if (c->dump && !strcmp(c->dump, "rules")) return cli_lower_rules(c);
  if (!c->nargs) return err_set(&c->err, ERR_OPTION, NOWHERE, "mica lower takes a file");
  TRY(cli_lower_off(c, &opts.off));
  TRY(limits(c, &gpu));
  TRY(load(c, &g));
  if (gpu.workers) opts = (struct lower_opts){.off = opts.off};
  TRY(lower_plan(&c->mem, g, &gpu, &opts, &p, &c->err));
  TRY(picks(c, &p, &pick));
  if (c->json) TRY(cli_lower_json(c, &p, pick));
  if (c->dump) return cli_lower_dump(c, &p, pick);
  if (c->compile) TRY(nvrtc_open(&r, &c->err));
  int status = c->check && !c->compile && !c->out ? OK : finish_all(c, &p, r, pick);
  nvrtc_close(r);
  return status == OK && c->check ? cli_lower_check(c, &p, pick) : status;
}
