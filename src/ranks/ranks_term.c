// Parses the sides of laws: calls of operators and classes over variables, such as "all_reduce(add(x, y))".
#include "ranks/ranks.h"

#include <ctype.h>
#include <string.h>

const struct ranks_law_row ranks_laws[RANKS_LAWS] = {
#define LAW(name, group, left, right, doc) {#name, left, right, doc, RANKS_##group},
#include "ranks/ranks_law.def"
#undef LAW
};

static const char *const class_names[RANKS_CLASSES] = {
    [RANKS_LINEAR] = "linear", [RANKS_SCALE] = "scale", [RANKS_POINT] = "point", [RANKS_PAIR] = "pair", [RANKS_FOLD] = "fold"};

bool ranks_is(enum ranks_class class, const struct node *n)
{
  const struct op_row *row = &op_rows[n->op];
  switch (class) {
  case RANKS_LINEAR: return row->flags & (ADDITIVE | SCALES);
  case RANKS_SCALE: return row->flags & SCALES;
  case RANKS_POINT: return row->rule == RULE_MAP && n->nin == 1;
  case RANKS_PAIR: return row->rule == RULE_MAP && n->nin == 2;
  case RANKS_FOLD: return row->rule == RULE_REDUCE;
  case RANKS_NONE:
  case RANKS_CLASSES: break;
  }
  return false;
}

static void name_operator(struct ranks_term *t, const char *name)
{
  for (int i = RANKS_NONE + 1; i < RANKS_CLASSES; i++)
    if (!strcmp(class_names[i], name)) t->class = (enum ranks_class)i;
  if (t->class == RANKS_NONE) CHECK(op_find(name, &t->op));
}

static struct ranks_term *side(struct arena *mem, const char **p)
{
  static const char variables[] = "xyXY";
  struct ranks_term *t = NEW(mem, struct ranks_term);
  const char *begin = *p;
  while (isalpha((unsigned char)**p) || **p == '_') ++*p;
  t->variable = -1;
  if (**p != '(') {
    CHECK(*p == begin + 1 && strchr(variables, *begin));
    t->variable = (int)(strchr(variables, *begin) - variables), t->same = isupper((unsigned char)*begin);
    return t;
  }
  name_operator(t, arena_printf(mem, "%.*s", (int)(*p - begin), begin));
  while (**p != ')') {
    *p += 1 + (**p == ',');
    size_t n = strcspn(*p, ",)");
    if (n == 1 && **p == 'd')
      t->dim = true, ++*p;
    else if (!strncmp(*p, "ranks", n))
      t->count = true, *p += n;
    else
      CHECK(t->n < RANKS_ARGS), t->arg[t->n++] = side(mem, p);
  }
  return ++*p, t;
}

struct ranks_term *ranks_side(struct arena *mem, const char *text) { return side(mem, &text); }
