// mica lower: selects kernels.
#include "cli/cli.h"

#include <string.h>

bool cli_lower_chosen(const struct cli *c, const struct lower_plan *p, int unit) { return !c->kernel || !strcmp(c->kernel, p->unit[unit].name); }

bool cli_lower_apart(const struct lower_plan *p, struct choice *pick, int unit)
{
  int head = p->unit[unit].head;
  if (!lower_inside(p, pick, unit)) return true;
  for (int i = 0; i < p->unit[head].nchoices; i++)
    if (!p->unit[head].choice[i].tail) return pick[head] = p->unit[head].choice[i], true;
  return false;
}
