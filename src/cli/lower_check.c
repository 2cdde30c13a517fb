// mica lower --check: runs the kernels in the interpreter and compares each result with the graph in float64, or with --against the last ones with a
// program. Exit status 1: a kernel has an error, or computes something else.
#include "cli/cli.h"
#include "sim/against.h"
#include "sim/device_proof.h"

#include <string.h>

enum { MOST_RESULTS = 16 };

static bool hold(const struct device_host *h, int launch, bool last, struct str *text)
{
  struct device_answer a[MOST_RESULTS];
  int n = device_host_compare(h, launch, MOST_RESULTS, a);
  bool fine = true;
  for (int i = 0; i < n; i++) {
    device_answer_text(&a[i], text);
    fine = fine && a[i].fine;
  }
  if (!device_host_counters_zero(h)) fine = false, str_add(text, "  counters are not left at zero  WRONG\n");
  if (!n && last) fine = false, str_add(text, "  nothing to compare  WRONG\n");
  return fine;
}

static int launch(struct cli *c, struct device_host *h, int i, bool counts, bool *fine)
{
  struct sim_report r;
  struct str text = {0};
  const struct launch *l = &h->d->launch[i];
  str_add(&text, "%s: %s\n", l->name, l->how);
  int status = device_host_launch(h, i, &r, cli_stop, &c->err);
  if (status != OK) return str_free(&text), status;
  sim_print_errors(&r, &text);
  if (!l->product && counts) sim_print_counts(&r, &text);
  if (!l->product)
    str_add(&text, "  %lld blocks, %lld error%s, %.2f s\n", (long long)r.blocks, (long long)r.found, r.found == 1 ? "" : "s", r.seconds);
  *fine = hold(h, i, i == h->d->nlaunch - 1, &text) && !r.found;
  if (output_wants_text(c) || !*fine) fputs(str_text(&text), stdout);
  return str_free(&text), OK;
}

// Position of an error in a text that no longer exists.
static void keep_place(struct cli *c)
{
  if (c->err.status && c->err.at.file) c->err.at.file = arena_strdup(&c->mem, c->err.at.file);
}

// Launches of units up to last; those before `shown` are not printed.
static int run(struct cli *c, const struct lower_plan *p, const struct choice *pick, const struct graph *program, int shown, int last, bool *fine)
{
  struct arena mem = {0};
  struct device_program d;
  struct device_host h = {0};
  int status = lower_make(&mem, p, pick, &d, &c->err);
  if (status == OK) status = device_host_open(&h, &mem, &d, &(struct device_host_opts){.program = program, .seed = c->seed}, &c->err);
  for (int i = 0; status == OK && i < d.nlaunch && d.launch[i].unit <= last; i++) {
    struct sim_report r;
    bool good = true;
    if (d.launch[i].unit < shown)
      status = device_host_launch(&h, i, &r, cli_stop, &c->err);
    else
      status = launch(c, &h, i, !c->all && cli_lower_chosen(c, p, d.launch[i].unit), &good);
    *fine = *fine && good;
  }
  device_host_close(&h);
  keep_place(c);
  arena_close(&mem);
  return status;
}

static int every_choice(struct cli *c, const struct lower_plan *p, const struct choice *pick, bool *fine)
{
  struct choice *other = arena_copy(&c->mem, pick, sizeof *pick * (size_t)(p->nunits + 1));
  for (int i = 0; i < p->nunits; i++) {
    if (!cli_lower_chosen(c, p, i) || !cli_lower_apart(p, other, i)) continue;
    for (int k = 0; k < p->unit[i].nchoices; k++) {
      other[i] = p->unit[i].choice[k];
      TRY(run(c, p, other, NULL, i, i, fine));
    }
    other[i] = pick[i];
  }
  return OK;
}

// One kernel with one choice, alone and with few blocks.
static int small_one(struct cli *c, const struct lower_plan *p, const struct choice *pick, int unit, bool *fine)
{
  struct arena mem = {0};
  struct device_proof proof;
  const char *why = "";
  struct str how = {0};
  scheme_text(&pick[unit], &how);
  int status = device_prove(&mem, p, pick, unit, c->seed, 1, cli_stop, &proof, &why, &c->err);
  if (status == NO)
    *fine = false, status = OK, printf("%s  WRONG\n", why);
  else if (status == OK && output_wants_text(c))
    printf("%s (%s): %lld blocks%s, %lld element operations, error %.2g of what is accepted%s%s\n", p->unit[unit].name, str_text(&how),
           (long long)proof.blocks, proof.full ? ", all" : "", (long long)proof.elements, proof.relative, *proof.note ? "; " : "", proof.note);
  str_free(&how);
  keep_place(c);
  arena_close(&mem);
  return status;
}

static int small(struct cli *c, const struct lower_plan *p, const struct choice *pick, bool *fine)
{
  struct choice *other = arena_copy(&c->mem, pick, sizeof *pick * (size_t)(p->nunits + 1));
  for (int i = 0; i < p->nunits; i++) {
    const struct lower_unit *u = &p->unit[i];
    if (u->product || !cli_lower_chosen(c, p, i) || (!c->all && lower_inside(p, pick, i))) continue;
    if (!u->nchoices) printf("%s: %s\n", u->name, u->why);
    for (int k = 0; k < (c->all ? u->nchoices : MIN(u->nchoices, 1)); k++) {
      if (c->all) other[i] = u->choice[k];
      TRY(small_one(c, p, other, i, fine));
    }
  }
  return OK;
}

int cli_lower_check(struct cli *c, const struct lower_plan *p, const struct choice *pick)
{
  struct graph *program = NULL;
  bool fine = true;
  if (c->against) TRY(against_program(&c->mem, c->against, &program, &c->err));
  if (c->small)
    TRY(small(c, p, pick, &fine));
  else if (c->all)
    TRY(every_choice(c, p, pick, &fine));
  else
    TRY(run(c, p, pick, program, 0, p->nunits - 1, &fine));
  return fine ? OK : NO;
}
