// mica lower --dump kern, --dump rules, --off: the values of kernels (src/kern) and the rules that rewrite them.
#include "cli/cli.h"
#include "front/parse.h"
#include "lower/lower_emit.h"

#include <string.h>

// The table of docs/kern.md.
int cli_lower_rules(const struct cli *c)
{
  struct str text = {0};
  str_add(&text, "| rule | schemes | what |\n| --- | --- | --- |\n");
  for (int r = 0; r < KERN_RULES; r++) {
    const char *between = "";
    str_add(&text, "| `%s` | ", kern_rule_name((enum kern_rule)r));
    for (int s = 0; s < scheme_count(); s++)
      if (scheme_at(s)->rules >> r & 1) str_add(&text, "%s`%s`", between, scheme_at(s)->name), between = ", ";
    str_add(&text, " | %s |\n", kern_rule_doc((enum kern_rule)r));
  }
  if (output_wants_text(c)) fputs(str_text(&text), stdout);
  return str_free(&text), OK;
}

static int no_rule(struct cli *c, const char *name)
{
  struct near near = near_start(name);
  struct str all = {0};
  for (int r = 0; r < KERN_RULES; r++)
    near_try(&near, kern_rule_name((enum kern_rule)r)), str_add(&all, "%s%s", r ? ", " : "there are ", kern_rule_name((enum kern_rule)r));
  const char *names = arena_strdup(&c->mem, str_text(&all));
  return str_free(&all), option_unknown(c, "rule", name, near.best, names);
}

int cli_lower_off(struct cli *c, unsigned *off)
{
  enum kern_rule r;
  for (const char *at = c->off, *end; at; at = *end ? end + 1 : NULL) {
    end = at + strcspn(at, ",");
    const char *name = arena_printf(&c->mem, "%.*s", (int)(end - at), at);
    if (!kern_rule_find(name, &r)) return no_rule(c, name);
    *off |= 1u << r;
  }
  return OK;
}

// As the scheme that is picked rewrites them; without its tail.
int cli_lower_kern(struct cli *c, const struct lower_plan *p, const struct choice *pick)
{
  struct str text = {0};
  for (int i = 0; i < p->nunits; i++) {
    const struct lower_unit *u = &p->unit[i];
    struct kern k;
    char why[160] = "";
    if (u->product || !cli_lower_chosen(c, p, i)) continue;
    struct lower_job j = lower_unit_job(&c->mem, p, u, false);
    const struct scheme *s = u->nchoices ? scheme_at(pick[i].scheme) : NULL;
    int status = lower_values(&j, s ? s->rules : 0, &k, why);
    str_add(&text, "# %s%s%s%s\n", u->name, s ? " by " : ": ", s ? s->name : u->why, *why ? arena_printf(&c->mem, ": %s", why) : "");
    if (status == OK) kern_print(&k, &text);
  }
  if (output_wants_text(c)) fputs(str_text(&text), stdout);
  return str_free(&text), OK;
}
