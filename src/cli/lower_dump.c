// mica lower --dump: decisions before the kernels, and the kernels. The rows are those of the passes over a candidate.
#include "cli/cli.h"
#include "cuda/cuda.h"
#include "drive/pass.h"
#include "front/parse.h"

#include <string.h>

// Whether the pass dumps a graph that is lowered.
static bool can_dump(int pass) { return passes[pass].scope == OF_CANDIDATE && passes[pass].targets == ON_GPU; }

static int no_dump(struct cli *c)
{
  struct near near = near_start(c->dump);
  struct str all = {0};
  for (int i = 0; i < PASSES; i++)
    if (can_dump(i)) near_try(&near, passes[i].name), str_add(&all, "%s, ", passes[i].name);
  static const char *const lists[] = {"schemes", "rules"};
  for (size_t i = 0; i < COUNT(lists); i++) near_try(&near, lists[i]);
  const char *names = arena_printf(&c->mem, "there are %sschemes and rules", str_text(&all));
  str_free(&all);
  return option_unknown(c, "pass or list to dump:", c->dump, near.best, names);
}

static void dump(const struct cli *c, int pass, struct lowered *d, struct str *out)
{
  struct candidate x = {.gpu.lowered = d};
  const struct pass_on on = {.x = &x};
  struct ir_value v;
  for (int i = 0; passes[pass].values(&on, i, &v); i++)
    if (!*v.label || !c->kernel || !strcmp(c->kernel, v.label)) irs[passes[pass].out].print(&v, out);
}

int cli_lower_dump(struct cli *c, const struct lower_plan *p, struct choice *pick)
{
  struct lowered d = {.plan = *p, .pick = pick};
  struct str text = {0};
  int pass = pass_find(c->dump, strlen(c->dump));
  if (pass == NO_PASS || !can_dump(pass)) return no_dump(c);
  if (pass >= PASS_LOWER) TRY(lower_make(&c->mem, &d.plan, pick, &d.program, &c->err));
  dump(c, pass, &d, &text);
  if (output_wants_text(c)) fputs(str_text(&text), stdout);
  return str_free(&text), OK;
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
