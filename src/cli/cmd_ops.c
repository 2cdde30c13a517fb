// mica ops: the operator table, as text and as JSON.
#include "cli/cli.h"
#include "front/parse.h"

static const char *const kinds[] = {
    [ATTR_DIM_KIND] = "dimension", [ATTR_INT_KIND] = "integer",   [ATTR_REAL_KIND] = "number",
    [ATTR_LIST_KIND] = "integers", [ATTR_GRID_KIND] = "grid map", [ATTR_LOOP_KIND] = "loop map",
};

static void arguments(const struct op_row *r, char out[32])
{
  if (r->least == r->most)
    snprintf(out, 32, "%d", r->least);
  else if (r->most == MANY)
    snprintf(out, 32, "%d or more", r->least);
  else
    snprintf(out, 32, "%d to %d", r->least, r->most);
}

static void print_row(const struct op_row *r)
{
  char levels[LEVELS + 1] = "", count[32];
  for (int l = 0; l < LEVELS; l++) levels[l] = r->levels >> l & 1 ? "kbt"[l] : '-';
  arguments(r, count);
  printf("%-18s %s  %-9s  %s\n", r->name, levels, count, r->doc);
}

static void print_one(const struct op_row *r)
{
  char count[32];
  arguments(r, count);
  printf("%s: %s\n  arguments   %s\n  levels     ", r->name, r->doc, count);
  for (int l = 0; l < LEVELS; l++)
    if (r->levels >> l & 1) printf(" %s", level_name((enum level)l));
  printf("\n");
  for (int i = 0; i < ATTRS; i++)
    if (r->attrs >> i & 1)
      printf("  %-11s %s, %s: %s\n", attr_rows[i].name, kinds[attr_rows[i].kind], attr_rows[i].needed ? "needed" : "optional", attr_rows[i].doc);
  if (r->flags & OPAQUE) printf("  has no laws: the search treats it as an unknown function\n");
}

static json_t *row_json(const struct op_row *r)
{
  json_t *levels = json_array(), *attrs = json_array();
  for (int l = 0; l < LEVELS; l++)
    if (r->levels >> l & 1) json_array_append_new(levels, json_string(level_name((enum level)l)));
  for (int i = 0; i < ATTRS; i++)
    if (r->attrs >> i & 1)
      json_array_append_new(attrs, json_pack("{s:s, s:s, s:b, s:s}", "name", attr_rows[i].name, "kind", kinds[attr_rows[i].kind], "needed",
                                             attr_rows[i].needed, "doc", attr_rows[i].doc));
  json_t *v = json_pack("{s:s, s:i, s:o, s:o, s:b, s:s}", "name", r->name, "least", r->least, "levels", levels, "attrs", attrs, "opaque",
                        (r->flags & OPAQUE) != 0, "doc", r->doc);
  json_object_set_new(v, "most", r->most == MANY ? json_null() : json_integer(r->most));
  return v;
}

static int find(struct cli *c, const char *name, enum op *op)
{
  if (op_find(name, op)) return OK;
  struct near n = near_start(name);
  for (int i = 0; i < OPS; i++) near_try(&n, op_rows[i].name);
  return option_unknown(c, "operator", name, n.best, "`mica ops` lists the operators");
}

int cmd_ops(struct cli *c)
{
  enum op one = OP_INPUT;
  if (c->nargs) TRY(find(c, c->args[0], &one));
  json_t *list = json_array();
  for (int i = 0; i < OPS; i++)
    if (!c->nargs || i == (int)one) json_array_append_new(list, row_json(&op_rows[i]));
  if (output_wants_text(c)) {
    if (c->nargs)
      print_one(&op_rows[one]);
    else
      printf("levels: k kernel graph, b block graph, t thread graph\n\n");
    for (int i = 0; i < OPS && !c->nargs; i++) print_row(&op_rows[i]);
  }
  json_t *root = json_pack("{s:o}", "operators", list);
  int status = output_json(c, root);
  json_decref(root);
  return status;
}
