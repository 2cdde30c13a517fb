// Function calls. The operator's row gives the parameters: tensors first, then attributes in the order of attr.def,
// by position or by name. A positional number is a constant tensor while tensors are missing, and an attribute after
// that.
#include "front/parse.h"

#include <string.h>

struct call {
  struct parser *p;
  enum op op;
  const struct op_row *row;
  struct token id;
  struct front_value *args; // operands
  int n, cap;
  int source; // operand of iter: a tensor of the enclosing graph, or -1
  struct attrs a;
  unsigned given;         // bit set of the attributes that were written
  uint8_t runs[MAX_DIMS]; // run-time extents in the shape attribute
};

// "sum(x, dim, group=)", for hints: optional arguments in brackets, optional attributes with their `=`.
static void usage(struct str *out, enum op op)
{
  const struct op_row *row = &op_rows[op];
  bool many = row->most == MANY;
  const char *sep = "";
  str_add(out, "%s(", row->name);
  for (int i = 0; i < (many ? 2 : row->most); i++, sep = ", ") str_add(out, i < row->least || many ? "%s%c" : "[%s%c]", sep, "xyzw"[i & 3]);
  if (many) str_add(out, ", ...");
  for (int i = 0; i < ATTRS; i++) {
    if (!(row->attrs >> i & 1)) continue;
    str_add(out, attr_rows[i].needed ? "%s%s" : "%s%s=", sep, attr_rows[i].name);
    sep = ", ";
  }
  str_add(out, ")");
}

static int misused(struct call *c, int status)
{
  struct str text = {0};
  usage(&text, c->op);
  err_hint(c->p->e, "it is used as %s", str_text(&text));
  str_free(&text);
  return status;
}

static bool is_function(enum op op) { return op != OP_INPUT && op != OP_OUTPUT && op_rows[op].rule != RULE_GRAPH; }

static int unknown(struct parser *p, const struct token *id, const char *name)
{
  struct near near = near_start(name);
  for (int i = 0; i < OPS; i++)
    if (is_function((enum op)i) && (op_rows[i].levels >> p->scope->g->level & 1)) near_try(&near, op_rows[i].name);
  int s = err_set(p->e, ERR_FUNCTION, id->at, "there is no function `%.40s`", name);
  if (near.best) err_hint(p->e, "did you mean `%s`? `mica ops` lists the functions", near.best);
  return s;
}

static int wrong_level(struct call *c)
{
  struct str where = {0};
  for (int l = 0; l < LEVELS; l++)
    if (c->row->levels >> l & 1) str_add(&where, "%s%s", where.n ? " and " : "", level_name((enum level)l));
  int s = err_set(c->p->e, ERR_LEVEL, c->id.at, "%s is an operator of %s graphs, and this is a %s graph", c->row->name, str_text(&where),
                  level_name(c->p->scope->g->level));
  str_free(&where);
  if (c->op == OP_ITER || c->op == OP_SAVE) err_hint(c->p->e, "inputs are declared as X: f16[2, 3], results end with `return`");
  return s;
}

static int wrong_place(struct call *c)
{
  int s = err_set(c->p->e, ERR_LEVEL, c->id.at, "%.*s is no call of a graph that is built", c->id.n, c->id.p);
  return err_hint(c->p->e, "tiles are loaded by mica_block_input and saved by mica_block_output"), s;
}

static int find(struct call *c)
{
  char name[LONGEST_NAME + 1];
  snprintf(name, sizeof name, "%.*s", c->id.n, c->id.p);
  if (!strcmp(name, "block") || !strcmp(name, "thread")) {
    int s = err_set(c->p->e, ERR_SYNTAX, c->id.at, "a %s statement stands alone, not in an expression", name);
    return err_hint(c->p->e, "write it as A, B = %s(...) { ... }", name), s;
  }
  if (!op_find(name, &c->op) || !is_function(c->op)) return unknown(c->p, &c->id, name);
  c->row = &op_rows[c->op], c->a = attrs_default(c->op);
  return c->row->levels >> c->p->scope->g->level & 1 ? OK : wrong_level(c);
}

// ---- attributes ------------------------------------------------------------------------------------

static void *field(struct call *c, int attr) { return (char *)&c->a + attr_rows[attr].offset; }

static int set_number(struct call *c, int attr, const struct front_value *v)
{
  const struct attr_row *row = &attr_rows[attr];
  if (v->kind != NUMBER)
    return misused(c, err_set(c->p->e, ERR_ATTRIBUTE, v->at, "%s of %s must be a number, not a tensor", row->name, c->row->name));
  int64_t x;
  int s = OK;
  c->given |= 1u << attr;
  if (row->kind == ATTR_REAL_KIND) return number_real(c->p->e, v->at, &v->number, field(c, attr));
  if (row->kind == ATTR_INT_KIND) return number_whole(c->p->e, ERR_ATTRIBUTE, v->at, &v->number, row->name, 0, EXTENT_LIMIT - 1, field(c, attr));
  s = number_whole(c->p->e, ERR_ATTRIBUTE, v->at, &v->number, row->name, -MAX_DIMS, MAX_DIMS - 1, &x);
  if (!s) *(int *)field(c, attr) = (int)x;
  return s;
}

static int set_list(struct call *c, int attr)
{
  struct parser *p = c->p;
  struct shape *list = field(c, attr);
  const int64_t most = EXTENT_LIMIT - 1;
  struct loc opened = p->t.at;
  c->given |= 1u << attr;
  int s = parse_expect(p, '[', "a list like [2, 3]");
  *list = (struct shape){0};
  while (!s && p->t.kind != ']') {
    if (list->n == MAX_DIMS) return err_set(p->e, ERR_LIMIT, p->t.at, "%s has more than %d entries", attr_rows[attr].name, MAX_DIMS);
    int64_t *to = &list->d[list->n];
    s = attr == ATTR_SHAPE ? expr_extent(p, ERR_ATTRIBUTE, attr_rows[attr].name, -1, most, to, &c->runs[list->n])
                           : expr_whole(p, ERR_ATTRIBUTE, attr_rows[attr].name, -1, most, to);
    list->n += !s;
    if (!s && !parse_take(p, ',')) break;
  }
  return s ? s : parse_close(p, ']', '[', opened);
}

// One entry of a map, "x:0" or "i:_".
static int set_axis(struct call *c, int attr, int8_t *map, unsigned *seen)
{
  struct parser *p = c->p;
  bool grid = attr_rows[attr].kind == ATTR_GRID_KIND;
  const char *letters = grid ? "xyz" : "ijkl";
  int have = grid ? p->scope->g->ngrid : p->scope->g->nloop, axis = 0;
  struct token id = p->t;
  while (axis < have && !lex_is(&id, (const char[]){letters[axis], 0})) axis++;
  char text[64];
  lex_text(text, &id);
  if (id.kind != TOK_NAME) return parse_unexpected(p, "an axis");
  if (axis == have || *seen >> axis & 1) {
    int s = err_set(p->e, ERR_ATTRIBUTE, id.at, axis == have ? "%s has no entry for %s: this graph has %d %s ax%cs" : "%s names axis %s twice",
                    attr_rows[attr].name, text, have, grid ? "grid" : "loop", have == 1 ? 'i' : 'e');
    return err_hint(p->e, "imap and omap map grid axes x, y, z; fmap maps loop axes i, j, k, l"), s;
  }
  *seen |= 1u << axis;
  parse_next(p);
  int64_t dim = REPLICA;
  int s = parse_expect(p, ':', "`:` and a dimension");
  if (!s && lex_is(&p->t, "_"))
    parse_next(p);
  else if (!s)
    s = expr_whole(p, ERR_ATTRIBUTE, "the dimension of a map (`_` is none)", 0, MAX_DIMS - 1, &dim);
  map[axis] = (int8_t)dim;
  return s;
}

static int set_map(struct call *c, int attr)
{
  struct parser *p = c->p;
  struct loc opened = p->t.at;
  unsigned seen = 0;
  c->given |= 1u << attr;
  int s = parse_expect(p, '{', "a map like {x:0}");
  while (!s && p->t.kind != '}') {
    s = set_axis(c, attr, field(c, attr), &seen);
    if (!s && !parse_take(p, ',')) break;
  }
  return s ? s : parse_close(p, '}', '{', opened);
}

static char attr_opens(int attr)
{
  switch (attr_rows[attr].kind) {
  case ATTR_LIST_KIND: return '[';
  case ATTR_GRID_KIND:
  case ATTR_LOOP_KIND: return '{';
  case ATTR_DIM_KIND:
  case ATTR_INT_KIND:
  case ATTR_REAL_KIND: break;
  }
  return 0;
}

// The first attribute that was not given and whose text starts with this bracket (0: with a number), or -1.
static int next_attr(const struct call *c, char opens)
{
  for (int i = 0; i < ATTRS; i++)
    if ((c->row->attrs & ~c->given) >> i & 1 && attr_opens(i) == opens) return i;
  return -1;
}

static int set_attr(struct call *c, int attr)
{
  if (attr_opens(attr) == '[') return set_list(c, attr);
  if (attr_opens(attr) == '{') return set_map(c, attr);
  struct front_value v;
  struct loc at = c->p->t.at;
  int s = expr_parse(c->p, &v);
  v.at = at;
  return s ? s : set_number(c, attr, &v);
}

static int keyword(struct call *c)
{
  struct parser *p = c->p;
  struct token id = p->t;
  char *name = arena_printf(p->mem, "%.*s", id.n, id.p);
  struct near near = near_start(name);
  for (int i = 0; i < ATTRS; i++) {
    if (!(c->row->attrs >> i & 1)) continue;
    near_try(&near, attr_rows[i].name);
    if (!lex_is(&id, attr_rows[i].name)) continue;
    if (c->given >> i & 1) return err_set(p->e, ERR_ATTRIBUTE, id.at, "%s of %s is given twice", name, c->row->name);
    parse_next(p), parse_next(p);
    return set_attr(c, i);
  }
  int s = misused(c, err_set(p->e, ERR_ATTRIBUTE, id.at, "%s has no attribute `%.40s`", c->row->name, name));
  if (near.best) err_hint(p->e, "did you mean `%s`?", near.best);
  return s;
}

// ---- arguments ---------------------------------------------------------------------------------------

static int too_many(struct call *c, struct loc at) { return misused(c, err_set(c->p->e, ERR_ARITY, at, "%s has too many arguments", c->row->name)); }

static int argument(struct call *c)
{
  struct parser *p = c->p;
  struct loc at = p->t.at;
  if (p->t.kind == TOK_NAME && p->ahead.kind == '=') return keyword(c);
  if (p->t.kind == '[' || p->t.kind == '{') {
    int attr = next_attr(c, (char)p->t.kind);
    return attr < 0 ? too_many(c, at) : set_attr(c, attr);
  }
  if (c->op == OP_ITER && c->source < 0) {
    if (p->t.kind != TOK_NAME || p->ahead.kind == '(') return parse_unexpected(p, "the name of a tensor of the graph around this one");
    struct token id = p->t;
    parse_next(p);
    return scope_outer(p, &id, &c->source);
  }
  struct front_value v;
  int s = expr_parse(p, &v);
  if (s) return s;
  v.at = at;
  if (v.kind == NUMBER && c->n >= c->row->least) {
    int attr = next_attr(c, 0);
    return attr < 0 ? too_many(c, at) : set_number(c, attr, &v);
  }
  if (c->n == c->row->most) return too_many(c, at);
  PUSH(p->mem, c->args, c->n, c->cap) = v;
  return OK;
}

static int arguments(struct call *c, int end)
{
  while (c->p->t.kind != end) {
    int s = argument(c);
    if (s) return s;
    if (!parse_take(c->p, ',')) break;
  }
  return OK;
}

static int in_parentheses(struct call *c)
{
  struct loc opened = c->p->t.at;
  parse_next(c->p);
  int s = arguments(c, ')');
  return s ? s : parse_close(c->p, ')', '(', opened);
}

static int complete(struct call *c)
{
  struct err *e = c->p->e;
  int have = c->n + (c->source >= 0);
  if (have < c->row->least)
    return misused(c, err_set(e, ERR_ARITY, c->id.at, "%s takes %d tensor%s%s, not %d", c->row->name, c->row->least, c->row->least == 1 ? "" : "s",
                              c->row->most > c->row->least ? " or more" : "", have));
  for (int i = 0; i < ATTRS; i++)
    if (attr_rows[i].needed && (c->row->attrs & ~c->given) >> i & 1)
      return misused(c, err_set(e, ERR_ATTRIBUTE, c->id.at, "%s needs `%s`: %s", c->row->name, attr_rows[i].name, attr_rows[i].doc));
  return OK;
}

// ---- nodes -------------------------------------------------------------------------------------------

static int room(struct parser *p, struct loc at)
{
  if (p->tensors <= FRONT_TENSORS) return OK;
  return err_set(p->e, ERR_LIMIT, at, "the program has more than %d tensors", FRONT_TENSORS);
}

int call_add(struct parser *p, enum op op, int n, const int *in, const struct attrs *a, struct loc at, struct front_value *v)
{
  struct graph *g = p->scope->g;
  *v = (struct front_value){.kind = TENSORS, .at = at};
  int s = room(p, at);
  const int before = g->ntensors;
  const bool masks = p->masks && g->level == KERNEL && graph_extents(g);
  if (!s) s = (masks ? masks_add : graph_add)(g, op, n, in, a, at, &v->first, p->e);
  if (s) return s;
  v->count = g->nodes[g->nnodes - 1].nout, p->tensors += MAX(g->ntensors - before, 1);
  return OK;
}

static int add_iter(struct call *c, struct front_value *v)
{
  struct parser *p = c->p;
  struct front_scope *s = p->scope;
  *v = (struct front_value){.kind = TENSORS, .at = c->id.at, .count = 1};
  int status = room(p, c->id.at);
  if (!status) status = graph_iter(s->g, s->above->g, c->source, &c->a, c->id.at, &v->first, p->e);
  if (status) return status;
  PUSH(p->mem, s->from, s->nfrom, s->from_cap) = c->source;
  return p->tensors++, OK;
}

static int fold(struct call *c, struct front_value *v)
{
  *v = (struct front_value){.kind = NUMBER, .at = c->id.at};
  return number_fold(c->p->e, c->id.at, c->op, &c->a, 1, &c->args[0].number, &v->number);
}

static int build(struct call *c, struct front_value *v)
{
  if (c->op == OP_ITER) return add_iter(c, v);
  bool map = c->row->rule == RULE_MAP;
  if (map && c->row->least == 2 && !c->row->attrs) return expr_binary(c->p, c->op, c->id.at, &c->args[0], &c->args[1], v);
  if (map && c->args[0].kind == NUMBER) return fold(c, v);
  int *in = NULL, n = 0, cap = 0;
  for (int i = 0; i < c->n; i++) {
    struct front_value *x = &c->args[i];
    int constant = 0;
    if (x->kind == NUMBER && c->row->flags & CHOOSES) {
      if (expr_tensor(c->p, x, &constant)) return (int)c->p->e->status;
      *x = (struct front_value){.kind = TENSORS, .at = x->at, .first = constant, .count = 1};
    }
    if (x->kind == NUMBER) return misused(c, err_set(c->p->e, ERR_ARITY, x->at, "%s takes a tensor here, not a number", c->row->name));
    if (x->count != 1 && c->row->most != MANY) {
      int s = err_set(c->p->e, ERR_ARITY, x->at, "%d tensors stand where %s takes one", x->count, c->row->name);
      return err_hint(c->p->e, "name them first: a, b = ..."), s;
    }
    for (int k = 0; k < x->count; k++) PUSH(c->p->mem, in, n, cap) = x->first + k;
  }
  TRY(call_add(c->p, c->op, n, in, &c->a, c->id.at, v));
  return c->row->attrs & A_SHAPE ? extent_runs(c->p, v->first, c->runs, c->id.at) : OK;
}

int call_parse(struct parser *p, const struct token *id, struct front_value *v)
{
  struct call c = {.p = p, .id = *id, .source = -1};
  int s = find(&c);
  if (s) return s;
  s = in_parentheses(&c);
  if (!s) s = complete(&c);
  return s ? s : build(&c, v);
}

// ---- calls that are not in a text --------------------------------------------------------------------

static int operands(struct call *c, int n, const int *tensors)
{
  const struct graph *g = c->p->scope->g;
  for (int i = 0; i < n; i++) {
    if (tensors[i] < 0 || tensors[i] >= g->ntensors)
      return err_set(c->p->e, ERR_GRAPH, c->id.at, "argument %d of %s is tensor %d, and this %s graph has %d tensors", i + 1, c->row->name,
                     tensors[i], level_name(g->level), g->ntensors);
    if (c->n == c->row->most) return too_many(c, c->id.at);
    PUSH(c->p->mem, c->args, c->n, c->cap) = (struct front_value){.kind = TENSORS, .at = c->id.at, .first = tensors[i], .count = 1};
  }
  return OK;
}

static int rest(struct call *c, int n, const int *tensors, struct front_value *v)
{
  int s = lex_is(&c->id, "iter") || lex_is(&c->id, "save") ? wrong_place(c) : find(c);
  if (!s) s = operands(c, n, tensors);
  if (!s) s = arguments(c, TOK_END);
  if (!s && c->p->t.kind != TOK_END) s = parse_unexpected(c->p, "`,` or the end of the attributes");
  if (!s) s = complete(c);
  if (!s) s = build(c, v);
  if (!s && v->kind == NUMBER) s = err_set(c->p->e, ERR_ARITY, c->id.at, "%s is given numbers alone, and makes no tensor", c->row->name);
  return s;
}

int call_outside(struct parser *p, const struct token *id, int n, const int *tensors, struct front_value *v)
{
  struct call c = {.p = p, .source = -1, .id = *id};
  return rest(&c, n, tensors, v);
}
