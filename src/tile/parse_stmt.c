// Parses statements of bodies: specs, loops, conditions. A name is visible from its definition to the end of its block.
#include "tile/tile_parse.h"

#include <string.h>

// ---- specs ----
static int views(struct reader *r, int most, int *n, int *view)
{
  do {
    if (*n == most) return err_set(r->e, ERR_LIMIT, r->t.at, "more than %d tensors on one side of a spec", most);
    READ(read_view(r, &view[(*n)++]));
  } while (read_take(r, ','));
  return OK;
}

static int outputs(struct reader *r, const struct tile_token *first, struct tile_spec *s)
{
  const struct tile_name *found;
  READ(read_use(r, '%', first, &found));
  s->out[s->nout++] = found->index;
  READ(read_view_suffixes(r, NULL, &s->out[0]));
  if (read_take(r, ',')) READ(views(r, COUNT(s->out), &s->nout, s->out));
  return read_expect(r, TILE_ARROW, "`<-` and a spec");
}

// A name that is not in spec.def is a generic spec of that name, if it has a body.
static void kind(struct reader *r, struct tile_spec *s)
{
  s->kind = SPEC_GENERIC;
  for (int i = 0; i < SPEC_COUNT; i++)
    if (tile_is(&r->t, tile_specs[i].name)) s->kind = (enum spec_kind)i;
  s->name = read_text(r, &r->t);
}

static int unknown_spec(struct reader *r, struct loc at, const char *name)
{
  struct tile_nearest near = tile_nearest(name);
  for (int i = 0; i < SPEC_COUNT; i++) tile_nearest_try(&near, tile_specs[i].name);
  int s = err_set(r->e, ERR_TILE, at, "`%s` is no spec that is built in, and it has no body", name);
  if (near.best)
    err_hint(r->e, "did you mean `%s`?", near.best);
  else
    err_hint(r->e, "Move, MatMul, UnaryPointwise, BinaryPointwise, Reduction, Shfl, Init, Sync are built in");
  return s;
}

static int near_op(struct reader *r, const struct tile_token *op, const char *const *names, int n)
{
  const char *is = read_text(r, op);
  struct tile_nearest near = tile_nearest(is);
  for (int i = 0; i < n; i++) {
    size_t length = strlen(names[i]); // `tanh.approx` names a row of instr.def
    if (!strncmp(is, names[i], length) && (!is[length] || is[length] == '.')) return OK;
    tile_nearest_try(&near, names[i]);
  }
  char text[64];
  struct str all = {0};
  for (int i = 0; i < n; i++) str_add(&all, i ? ", %s" : "%s", names[i]);
  int s = err_set(r->e, ERR_TILE, op->at, "%s is no operator of this spec", tile_token_text(text, op));
  if (near.best)
    err_hint(r->e, "did you mean `%s`? There are %s", near.best, str_text(&all));
  else
    err_hint(r->e, "there are %s", str_text(&all));
  return str_free(&all), s;
}

static int bad_token(struct reader *r, const struct tile_token *t)
{
  char text[64];
  return err_set(r->e, ERR_TILE, t->at, "%s %s", tile_token_text(text, t), t->why);
}

// Init<e> of an integer expression, if the text is not a decimal: a constant, or an index.
static int integer(struct reader *r, struct tile_spec *s)
{
  ex x;
  READ(read_argument(r, &x));
  s->op = "";
  if (ex_is_const(x))
    s->is_number = true, s->value = (double)ex_value(x);
  else
    s->arg[s->nargs++] = x;
  return OK;
}

static bool word_ahead(const struct reader *r)
{
  struct tile_lexer l = r->lex;
  struct tile_token t = tile_lex(&l);
  return t.kind == '(' || t.kind == '@' || (t.kind == TILE_WORD && !tile_is(&t, "inf") && !(*t.p >= '0' && *t.p <= '9'));
}

// Parses <op, args> from its `<`. Operators and decimals are not tokens of the language.
static int arguments(struct reader *r, struct tile_spec *s)
{
  struct loc opened = r->t.at;
  tile_lex_back(&r->lex, &r->t, 1);
  if (s->kind == SPEC_INIT && word_ahead(r)) {
    read_next(r);
    READ(integer(r, s));
    return read_close(r, '>', '<', opened);
  }
  struct tile_token op = s->kind == SPEC_INIT ? tile_lex_decimal(&r->lex, &s->value) : tile_lex_op(&r->lex);
  if (op.kind == TILE_BAD) return bad_token(r, &op);
  s->is_number = s->kind == SPEC_INIT;
  s->op = s->is_number ? "" : read_text(r, &op);
  if (s->kind == SPEC_UNARY) READ(near_op(r, &op, unary_name, UN_COUNT));
  if (s->kind == SPEC_BINARY) READ(near_op(r, &op, binary_name, BI_COUNT));
  for (read_next(r); read_take(r, ',');) {
    if (s->nargs == TILE_ARGS) return err_set(r->e, ERR_LIMIT, r->t.at, "more than %d numbers in <...>", TILE_ARGS);
    READ(read_argument(r, &s->arg[s->nargs++]));
  }
  return read_close(r, '>', '<', opened);
}

// #g; the `#` may be missing, as in an example of the Graphene paper.
static int launch_group(struct reader *r, int *out)
{
  struct tile_token name = r->t;
  const struct tile_name *found;
  if (r->t.kind == TILE_NUMBER)
    read_next(r);
  else
    READ(read_name(r, '#', &name));
  READ(read_use(r, '#', &name, &found));
  return *out = found->index, OK;
}

static int launch(struct reader *r, struct tile_spec *s)
{
  READ(read_expect(r, TILE_OPEN, "`<<<#blocks, #threads>>>`"));
  READ(launch_group(r, &s->blocks));
  READ(read_expect(r, ',', "`,` and the threads"));
  READ(launch_group(r, &s->threads));
  return read_expect(r, TILE_CLOSE, "`>>>`");
}

static int inputs(struct reader *r, struct tile_spec *s)
{
  struct loc opened = r->t.at;
  READ(read_expect(r, '(', "`(` and the inputs"));
  if (r->t.kind != ')') READ(views(r, COUNT(s->in), &s->nin, s->in));
  return read_close(r, ')', '(', opened);
}

static int block(struct reader *r, struct loc opened);

int read_spec(struct reader *r, const struct tile_token *first)
{
  struct tile_spec s = {0};
  if (first) READ(outputs(r, first, &s));
  struct loc at = r->t.at, opened;
  if (r->t.kind != TILE_WORD) return read_unexpected(r, "a spec");
  kind(r, &s);
  read_next(r);
  if (r->t.kind == '<' || r->t.kind == TILE_ARROW) READ(arguments(r, &s));
  READ(launch(r, &s));
  READ(inputs(r, &s));
  opened = r->t.at;
  bool body = r->t.kind == '{', known = strcmp(s.name, tile_specs[s.kind].name) == 0;
  if (!body && !known) return unknown_spec(r, at, s.name);
  READ(TILE_AT(r, at, build_spec(&r->b, &s, body)));
  if (!body) return OK;
  read_next(r);
  READ(block(r, opened));
  return build_end(&r->b);
}

// ---- loops and conditions ----
static int loop_head(struct reader *r, struct tile_token *name, ex *from, ex *to, ex *step)
{
  struct tile_token again;
  struct loc opened = r->t.at;
  READ(read_expect(r, '(', "`(` of the loop"));
  READ(read_scalar_name(r, name));
  READ(read_expect(r, '=', "`=` and the first value"));
  READ(read_ex(r, from));
  READ(read_expect(r, ';', "`;`"));
  READ(read_scalar_name(r, &again));
  if (again.n != name->n || memcmp(again.p, name->p, (size_t)name->n))
    return err_set(r->e, ERR_TILE, again.at, "the loop counts `%.*s`", name->n, name->p);
  READ(read_expect(r, '<', "`<` and the end"));
  READ(read_ex(r, to));
  READ(read_expect(r, ';', "`;`"));
  READ(read_scalar_name(r, &again));
  if (again.n != name->n || memcmp(again.p, name->p, (size_t)name->n))
    return err_set(r->e, ERR_TILE, again.at, "the loop counts `%.*s`", name->n, name->p);
  READ(read_expect(r, TILE_PLUS_EQ, "`+=` and the step"));
  READ(read_ex(r, step));
  return read_close(r, ')', '(', opened);
}

static int loop(struct reader *r, struct loc at)
{
  struct tile_token name;
  ex from, to, step, var;
  READ(loop_head(r, &name, &from, &to, &step));
  enum tile_unroll unroll = read_word(r, "unroll") ? UNROLL_ALL : read_word(r, "rolled") ? UNROLL_NONE : UNROLL_ANY;
  READ(TILE_AT(r, at, build_for(&r->b, read_text(r, &name), from, to, step, unroll, &var)));
  int mark = tile_scope_open(&r->scope);
  struct loc opened = r->t.at;
  READ(read_define(r, '@', &name, -1, var));
  READ(read_expect(r, '{', "`{` of the loop's body"));
  READ(block(r, opened));
  tile_scope_close(&r->scope, mark);
  return build_end(&r->b);
}

static int condition(struct reader *r, struct loc at)
{
  ex cond;
  struct loc opened = r->t.at;
  READ(read_expect(r, '(', "`(` and a condition"));
  READ(read_ex(r, &cond));
  READ(read_close(r, ')', '(', opened));
  READ(TILE_AT(r, at, build_if(&r->b, cond)));
  opened = r->t.at;
  READ(read_expect(r, '{', "`{`"));
  READ(block(r, opened));
  if (!read_word(r, "else")) return build_end(&r->b);
  READ(TILE_AT(r, r->t.at, build_else(&r->b)));
  opened = at = r->t.at;
  if (read_word(r, "if"))
    READ(condition(r, at));
  else {
    READ(read_expect(r, '{', "`{` or `if`"));
    READ(block(r, opened));
  }
  return build_end(&r->b);
}

static int statement(struct reader *r)
{
  struct loc at = r->t.at;
  struct tile_token name;
  if (r->t.kind == '#') return read_group_statement(r);
  if (read_at_pattern(r)) return read_let(r);
  if (read_word(r, "for")) return loop(r, at);
  if (read_word(r, "if")) return condition(r, at);
  if (r->t.kind == TILE_WORD) return read_spec(r, NULL);
  if (r->t.kind != '%') return read_unexpected(r, "a statement");
  READ(read_name(r, '%', &name));
  return r->t.kind == ':' || r->t.kind == '=' ? read_tensor_statement(r, &name) : read_spec(r, &name);
}

static int block(struct reader *r, struct loc opened)
{
  int mark = tile_scope_open(&r->scope);
  while (r->t.kind != '}' && r->t.kind != TILE_END) READ(statement(r));
  tile_scope_close(&r->scope, mark);
  return read_close(r, '}', '{', opened);
}
