// Applies rules. A rule sees the values in order and builds a new list. All rules are applied in turn until none changes anything. Then `select` is
// applied once.
#include "kern/kern_rule.h"

#include <string.h>

static const struct {
  const char *name, *doc;
  kern_rewriter *rewrite;
  bool (*condition)(const struct kern *k);
} rows[KERN_RULES] = {
#define RULE(id, name, condition, doc) {#name, doc, rule_##name, condition},
#include "kern/rule.def"
#undef RULE
};

const char *kern_rule_name(enum kern_rule r) { return rows[r].name; }
const char *kern_rule_doc(enum kern_rule r) { return rows[r].doc; }

bool kern_rule_find(const char *name, enum kern_rule *out)
{
  for (int r = 0; r < KERN_RULES; r++)
    if (!strcmp(rows[r].name, name)) return *out = (enum kern_rule)r, true;
  return false;
}

struct kern_room { // memory for a list of values
  struct kern_value *v;
  int cap;
};

// Applies one rule and removes unused values. Returns the number of changes. The new list is built in `spare`, which receives the old one.
static int apply(struct kern *k, enum kern_rule rule, struct kern_room *spare)
{
  struct kern next = *k;
  int fired = 0, *to = NEWS(k->mem, int, k->nvalues + 1);
  if (rows[rule].condition && !rows[rule].condition(k)) return 0;
  next.v = spare->v, next.cap = spare->cap, next.nvalues = 0;
  for (int i = 0; i < k->nvalues; i++) {
    struct kern_value v = k->v[i];
    if (!v.live) continue;
    for (int n = 0; n < v.nin; n++) v.in[n] = to[v.in[n]];
    bool made = rows[rule].rewrite(&next, &v, &to[i]);
    fired += made;
    if (!made) to[i] = kern_add(&next, v);
  }
  *spare = (struct kern_room){next.v, next.cap};
  if (!fired) return 0;
  for (struct kern_save *s = next.save; s < next.save + k->nsaves; s++) s->value = kern_spread(&next, to[s->value], s->axes, s->about);
  *spare = (struct kern_room){k->v, k->cap};
  *k = next;
  kern_live(k);
  return fired;
}

int kern_rewrite(struct kern *k, unsigned rules)
{
  enum { ROUNDS = 32 };
  struct arena scratch = {0}, *mem = k->mem;
  const struct kern_room own = {k->v, k->cap};
  int all = 0, fired = 1;
  kern_live(k);
  k->mem = &scratch, k->cap = k->nvalues, k->v = arena_copy(&scratch, k->v, sizeof *k->v * (size_t)k->nvalues);
  struct kern_room spare = {NEWS(&scratch, struct kern_value, k->cap), k->cap};
  for (int round = 0; fired && round < ROUNDS; round++) {
    fired = 0;
    for (int r = 0; r < KERN_RULES; r++)
      if (rules >> r & 1 && r != KERN_RULE_SELECT) fired += apply(k, (enum kern_rule)r, &spare);
    all += fired;
  }
  if (rules & KERN_BIT(SELECT)) all += apply(k, KERN_RULE_SELECT, &spare);
  if (all)
    k->cap = k->nvalues, k->v = arena_copy(mem, k->v, sizeof *k->v * (size_t)k->nvalues);
  else
    k->cap = own.cap, k->v = own.v;
  k->mem = mem;
  arena_close(&scratch);
  return all;
}
