// mica layout: layouts and the operations on them, with the table of offsets.
#include "cli/cli.h"
#include "api/api_layout.h"
#include "front/parse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { TABLE_CELLS = 4096 }; // larger tables are not printed

struct answer {
  struct mica_context *m;
  const struct mica_layout *l, *outer, *inner; // for tile: both, and l has the elements of a tile as rows
  bool partial[LAY_LEAVES];
  struct swizzle swizzle;
};

// ---- arguments ----

static int option_swizzle(struct cli *c, struct swizzle *s)
{
  char end;
  if (!c->swizzle) return OK;
  bool good = sscanf(c->swizzle, "%d,%d,%d%c", &s->bits, &s->base, &s->shift, &end) == 3 && s->bits >= 0 && s->bits <= 16 && s->base >= 0 &&
              s->base <= 16 && abs(s->shift) >= s->bits && abs(s->shift) <= 16;
  if (good) return OK;
  err_set(&c->err, ERR_OPTION, NOWHERE, "--swizzle takes B,M,S, three integers up to 16 with |S| >= B, not %.40s", c->swizzle);
  return USER;
}

static int option_order(struct cli *c, bool *row)
{
  *row = c->order && !strcmp(c->order, "row");
  if (!c->order || *row || !strcmp(c->order, "column")) return OK;
  return err_set(&c->err, ERR_OPTION, NOWHERE, "--order takes row or column, not %.40s", c->order);
}

static int set_names(struct cli *c, struct mica_context *m)
{
  for (int i = 0; i < c->nset; i++) {
    const char *eq = strchr(c->set[i], '=');
    char *end = NULL;
    errno = 0;
    long long v = eq ? strtoll(eq + 1, &end, 10) : 0;
    if (!eq || eq == c->set[i] || *end || end == eq + 1 || errno || v < 1 || v >= 1ll << 40)
      return err_set(&c->err, ERR_OPTION, NOWHERE, "--set takes name=integer, from 1 to below 2^40, not %.80s", c->set[i]);
    layout_name(m, arena_printf(&c->mem, "%.*s", (int)(eq - c->set[i]), c->set[i]), EX_C(v));
  }
  return OK;
}

// ---- operations ----

static int arity(struct cli *c, const char *name, int args, const char *usage)
{
  if (c->nargs == args + 1) return OK;
  err_set(&c->err, ERR_OPTION, NOWHERE, "mica layout %s takes %s, and %d %s given", name, usage, c->nargs - 1, c->nargs == 2 ? "was" : "were");
  err_hint(&c->err, "`mica help layout` has examples");
  return USER;
}

static int tile(struct cli *c, struct answer *a, const struct mica_layout *const *arg)
{
  struct mica_layout *outer, *inner, *whole;
  TRY(arity(c, "tile", 2, "A TILER"));
  TRY(layout_tile(a->m, arg[0], arg[1], &outer, &inner, a->partial));
  TRY(layout_join(a->m, inner, outer, &whole));
  a->outer = outer, a->inner = inner, a->l = whole;
  return OK;
}

// For a layout that takes every offset below its size exactly once: R(A(i)) = i and A(R(i)) = i.
static int inverse(struct cli *c, struct answer *a, const struct mica_layout *const *arg)
{
  struct mica_layout *r = NULL;
  TRY(arity(c, "inverse", 1, "A"));
  TRY(layout_run(a->m, layout_op_find("right-inverse"), arg, &r));
  a->l = r;
  if (r->size == arg[0]->size) return OK;
  err_set(&a->m->err, ERR_REFUSED, NOWHERE, "%.200s has no two-sided inverse: it does not take every offset below its size exactly once",
          arg[0]->text);
  err_hint(&a->m->err, "right-inverse is %.200s; left-inverse may exist too", r->text);
  return NO;
}

static int unknown_operation(struct cli *c, const char *word)
{
  struct near n = near_start(word);
  for (int i = 0; i < layout_op_count; i++) near_try(&n, layout_ops[i].name);
  near_try(&n, "tile");
  near_try(&n, "inverse");
  return option_unknown(c, "operation on layouts", word, n.best, "`mica layout` lists the operations");
}

static int answer(struct cli *c, struct answer *a)
{
  bool row;
  const char *word = c->args[0];
  const struct layout_op *op = c->nargs > 1 || layout_op_find(word) ? layout_op_find(word) : NULL;
  bool is_tile = !strcmp(word, "tile"), is_inverse = !strcmp(word, "inverse"), operation = op || is_tile || is_inverse;
  struct mica_layout *arg[2] = {NULL};
  TRY(option_order(c, &row));
  TRY(option_swizzle(c, &a->swizzle));
  TRY(set_names(c, a->m));
  if (!operation && c->nargs > 1) return unknown_operation(c, word);
  if (op) TRY(arity(c, op->name, op->args, op->usage));
  for (int i = operation; i < c->nargs; i++) TRY(layout_read(a->m, c->args[i], row, &arg[i - operation]));
  const struct mica_layout *const *given = (const struct mica_layout *const *)arg;
  if (is_tile) return tile(c, a, given);
  if (is_inverse) return inverse(c, a, given);
  struct mica_layout *made = arg[0];
  if (op) TRY(layout_run(a->m, op, given, &made));
  return a->l = made, OK;
}

// ---- the answer ----

static const char *number(struct cli *c, struct answer *a, ex x)
{
  struct str s = {0};
  ex_text(a->m->lay.ex, x, &s);
  return str_keep(&c->mem, &s);
}

static const char *partial_text(struct cli *c, const struct answer *a)
{
  char *text = arena_strdup(&c->mem, "");
  for (int d = 0; d < lay_rank(a->outer->l); d++)
    if (a->partial[d]) text = arena_printf(&c->mem, "%s%s%d", text, *text ? ", " : "", d);
  return *text ? text : "none";
}

static void print(struct cli *c, struct answer *a, const bool *injective)
{
  if (a->outer)
    printf("tiles      %s\nelements   %s\npartial    %s\n", a->outer->text, a->inner->text, partial_text(c, a));
  else
    printf("layout     %s\n", a->l->text);
  printf("size       %s\ncosize     %s\n", number(c, a, a->l->size), number(c, a, a->l->cosize));
  if (injective) printf("injective  %s\ncompact    %s\n", *injective ? "yes" : "no", *injective && a->l->size == a->l->cosize ? "yes" : "no");
  if (a->swizzle.bits) printf("swizzle    %d,%d,%d\n", a->swizzle.bits, a->swizzle.base, a->swizzle.shift);
  if (!a->l->constant) return;
  struct str table = {0};
  if (ex_value(a->l->size) > TABLE_CELLS)
    printf("\ntoo many offsets for a table\n");
  else if (lay_table(&a->m->lay, a->l->l, a->swizzle, &table))
    printf("\n%s", str_text(&table));
  str_free(&table);
}

static json_t *json_number(struct cli *c, struct answer *a, ex x)
{
  return ex_is_const(x) ? json_integer(ex_value(x)) : json_string(number(c, a, x));
}

static int print_json(struct cli *c, struct answer *a, const bool *injective)
{
  json_t *v = json_pack("{s:s, s:o, s:o}", "layout", a->l->text, "size", json_number(c, a, a->l->size), "cosize", json_number(c, a, a->l->cosize));
  if (injective) {
    json_object_set_new(v, "injective", json_boolean(*injective));
    json_object_set_new(v, "compact", json_boolean(*injective && a->l->size == a->l->cosize));
  }
  if (a->outer) {
    json_t *partial = json_array();
    for (int d = 0; d < lay_rank(a->outer->l); d++) json_array_append_new(partial, json_boolean(a->partial[d]));
    json_object_set_new(v, "tiles", json_string(a->outer->text));
    json_object_set_new(v, "elements", json_string(a->inner->text));
    json_object_set_new(v, "partial", partial);
  }
  if (a->l->constant && ex_value(a->l->size) <= TABLE_CELLS) {
    json_t *offsets = json_array();
    for (int64_t i = 0; i < ex_value(a->l->size); i++)
      json_array_append_new(offsets, json_integer((json_int_t)swizzle_apply(a->swizzle, (uint64_t)lay_call(&a->l->l, i))));
    json_object_set_new(v, "offsets", offsets);
  }
  int status = output_json(c, v);
  json_decref(v);
  return status;
}

static void list(void)
{
  for (int i = 0; i < layout_op_count; i++) printf("%-13s  %-7s  %s\n", layout_ops[i].name, layout_ops[i].usage, layout_ops[i].doc);
  printf("%-13s  %-7s  %s\n", "inverse", "A", "A(R(i)) = i and R(A(i)) = i, for A that takes every offset below its size once");
  printf("%-13s  %-7s  %s\n", "tile", "A TILER", "tiles of A dimension by dimension, where `_` is a whole dimension");
}

int cmd_layout(struct cli *c)
{
  if (!c->nargs) return list(), OK;
  struct answer a = {.m = mica_open()};
  int status = answer(c, &a);
  if (status != OK && c->err.id == ERR_NONE) c->err = a.m->err;
  if (status == OK) {
    bool injective, known = lay_injective(&a.m->lay, a.l->l, &injective);
    if (output_wants_text(c)) print(c, &a, known ? &injective : NULL);
    if (c->json) status = print_json(c, &a, known ? &injective : NULL);
  }
  mica_close(a.m);
  return status;
}
