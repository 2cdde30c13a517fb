// mica lower --dump rules, --off: the rules that rewrite values of kernels (src/kern).
#include "cli/cli.h"
#include "front/parse.h"
#include "kern/kern.h"
#include "lower/lower.h"

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
