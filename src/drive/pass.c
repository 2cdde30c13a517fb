// The table of passes, and their names.
#include "drive/pass.h"
#include "front/parse.h"

#include <string.h>

const struct ir irs[IRS] = {
#define IR(id, name, suffix, comment, print, check, parse) {name, suffix, comment, print, check, parse},
#include "drive/pass.def"
};

const struct pass passes[PASSES] = {
#define PASS(id, name, scope, targets, in, out, run, values, doc) {#name, scope, targets, IR_##in, IR_##out, run, values, doc},
#include "drive/pass.def"
};
_Static_assert(PASSES <= 64, "a bit a pass");

const struct pass *pass_row(const struct job *j, int pass) { return &(j->rows ? j->rows : passes)[pass]; }

int pass_find(const char *name, size_t n)
{
  for (int i = 0; i < PASSES; i++)
    if (strlen(passes[i].name) == n && !memcmp(passes[i].name, name, n)) return i;
  return NO_PASS;
}

int pass_unknown(const char *option, const char *name, struct err *e)
{
  struct near near = near_start(name);
  for (int i = 0; i < PASSES; i++) near_try(&near, passes[i].name);
  err_set(e, ERR_OPTION, NOWHERE, "%s: there is no pass %.60s", option, name);
  if (near.best)
    err_hint(e, "did you mean %s? `mica help passes` lists the passes", near.best);
  else
    err_hint(e, "`mica help passes` lists the passes");
  return (int)e->status;
}

// A pass over leaders runs within the race, which is a later row.
static bool late(const struct job *j, int pass)
{
  int last = j->watch ? j->watch->stop_after : NO_PASS;
  if (last == NO_PASS || pass <= last) return false;
  return pass_row(j, last)->scope != OF_LEADER || pass_row(j, pass)->scope != OF_PART || pass_row(j, pass - 1)->scope != OF_LEADER;
}

bool pass_is(const struct job *j, int pass, enum pass_scope scope)
{
  const struct pass *p = pass_row(j, pass);
  return p->scope == scope && (p->targets & 1u << j->target.kind) && !late(j, pass);
}
